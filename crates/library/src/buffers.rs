//! The memory of the arguments of a call, as C has it.

use pliant_calls::{Array, Direction, Parameter, ParameterType, ScalarType, Signature, Value};

use crate::function::Function;
use crate::{FLOATS_MAX, WORDS_MAX};

/// The arguments of a call: what goes by value, and the memory of the others.
pub(crate) struct Buffers<'a> {
    signature: &'a Signature,
    /// For each parameter.
    arguments: Vec<Argument>,
    /// The sizes of each parameter.
    sizes: Vec<Vec<u64>>,
}

enum Argument {
    /// A whole number by value.
    Word(usize),
    /// A floating-point number by value.
    Float(f64),
    /// A pointer to memory of so many bytes, aligned for any number.
    Memory(Vec<u64>, usize),
}

impl<'a> Buffers<'a> {
    /// Those of a call with these arguments. The path of each file is among them, also of one that is written.
    pub(crate) fn of(signature: &'a Signature, values: &[Option<Value>]) -> Result<Buffers<'a>, String> {
        // The paths of files that are written have no place in the check.
        let is_written = |parameter: &Parameter| {
            parameter.kind == ParameterType::File && parameter.direction == Direction::Out
        };
        let named = signature.parameters().iter().zip(values);
        let checked: Vec<Option<Value>> =
            named.map(|(parameter, value)| value.clone().filter(|_| !is_written(parameter))).collect();
        signature.check_arguments(&checked).map_err(|error| error.to_string())?;
        let (mut arguments, mut sizes) = (Vec::new(), Vec::new());
        for (parameter, value) in signature.parameters().iter().zip(values) {
            let of = signature.sizes(parameter, &checked).map_err(|error| error.to_string())?;
            arguments.push(argument(parameter, value.as_ref(), &of)?);
            sizes.push(of);
        }
        Ok(Buffers { signature, arguments, sizes })
    }

    /// Calls a function with them.
    pub(crate) fn call(&mut self, function: &Function) -> i32 {
        let (mut floats, mut words) = ([0.0; FLOATS_MAX], [0; WORDS_MAX]);
        let (mut float, mut word) = (floats.iter_mut(), words.iter_mut());
        for argument in &mut self.arguments {
            let place = "a signature with more parameters is refused before";
            match argument {
                Argument::Float(number) => *float.next().expect(place) = *number,
                Argument::Word(number) => *word.next().expect(place) = *number,
                Argument::Memory(memory, _) => {
                    *word.next().expect(place) = memory.as_mut_ptr().expose_provenance()
                }
            }
        }
        function.call(&floats, &words)
    }

    /// What the function has left in them.
    pub(crate) fn results(self) -> Result<Vec<Option<Value>>, String> {
        let Buffers { signature, arguments, sizes } = self;
        let parameters = signature.parameters().iter().zip(arguments).zip(sizes);
        let result = |((parameter, argument), sizes): ((&Parameter, Argument), Vec<u64>)| match argument {
            Argument::Memory(memory, bytes) if parameter.direction.is_output() => {
                value(parameter, &bytes_of(&memory, bytes), &sizes).map(Some)
            }
            _ => Ok(None),
        };
        parameters.map(result).collect()
    }
}

fn argument(parameter: &Parameter, value: Option<&Value>, sizes: &[u64]) -> Result<Argument, String> {
    if parameter.direction == Direction::In {
        match value {
            Some(Value::Char(number)) => return Ok(Argument::Word(usize::from(*number))),
            // Sign-extended: a function looks at the lower bits alone.
            Some(Value::Int(number)) => return Ok(Argument::Word(*number as isize as usize)),
            Some(Value::Long(number)) => return Ok(Argument::Word(*number as usize)),
            // In the lower half of a register of 64 bits.
            Some(Value::Float(number)) => {
                return Ok(Argument::Float(f64::from_bits(number.to_bits().into())));
            }
            Some(Value::Double(number)) => return Ok(Argument::Float(*number)),
            _ => {}
        }
    }
    let mut bytes = Vec::new();
    match value {
        None => {}
        Some(Value::String(text) | Value::File(text)) => bytes.extend_from_slice(text.as_bytes()),
        Some(Value::Vector(elements) | Value::Matrix { elements, .. }) => elements.write_le(&mut bytes),
        Some(number) => number_array(number).write_le(&mut bytes),
    }
    let needed = match &parameter.kind {
        ParameterType::Scalar(scalar) => scalar.bytes(),
        ParameterType::Vector { of, .. } | ParameterType::Matrix { of, .. } => {
            sizes.iter().fold(of.bytes(), |bytes, size| bytes.saturating_mul(*size))
        }
        ParameterType::String { capacity: Some(_) } => sizes.first().copied().unwrap_or(1),
        // With the NUL at its end.
        ParameterType::String { capacity: None } | ParameterType::File => bytes.len() as u64 + 1,
    };
    let needed = usize::try_from(needed).map_err(|_| "a parameter is too large".to_owned())?;
    bytes.resize(needed.max(bytes.len()), 0);
    // One word more: memory of no elements has an address, too.
    let mut memory = vec![0u64; bytes.len() / 8 + 1];
    for (word, chunk) in memory.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_ne_bytes(whole);
    }
    Ok(Argument::Memory(memory, bytes.len()))
}

fn number_array(number: &Value) -> Array {
    match number {
        Value::Char(number) => Array::Char(vec![*number]),
        Value::Int(number) => Array::Int(vec![*number]),
        Value::Long(number) => Array::Long(vec![*number]),
        Value::Float(number) => Array::Float(vec![*number]),
        Value::Double(number) => Array::Double(vec![*number]),
        _ => Array::Char(Vec::new()),
    }
}

fn bytes_of(memory: &[u64], count: usize) -> Vec<u8> {
    memory.iter().flat_map(|word| word.to_ne_bytes()).take(count).collect()
}

fn value(parameter: &Parameter, bytes: &[u8], sizes: &[u64]) -> Result<Value, String> {
    let array = |scalar: ScalarType| Array::read_le(scalar, bytes);
    Ok(match &parameter.kind {
        ParameterType::Scalar(scalar) => array(*scalar).first().ok_or_else(|| "no number".to_owned())?,
        ParameterType::Vector { of, .. } => Value::Vector(array(*of)),
        ParameterType::Matrix { of, .. } => Value::Matrix {
            rows: sizes.first().copied().unwrap_or(0),
            columns: sizes.get(1).copied().unwrap_or(0),
            elements: array(*of),
        },
        ParameterType::String { .. } | ParameterType::File => {
            let wrong = |what: &str| format!("`{}`: expected a text {what}, found another", parameter.name);
            let end =
                bytes.iter().position(|byte| *byte == 0).ok_or_else(|| wrong("with a NUL at its end"))?;
            let text = std::str::from_utf8(&bytes[..end]).map_err(|_| wrong("in UTF-8"))?.to_owned();
            if parameter.kind == ParameterType::File { Value::File(text) } else { Value::String(text) }
        }
    })
}
