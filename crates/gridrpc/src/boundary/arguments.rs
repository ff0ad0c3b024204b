//! Arguments: values from the memory of the program, and results into it.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

use pliant_calls::{Array, Parameter, ParameterType, ScalarType, Signature, Value};

use crate::code::{Code, Failure, Outcome};
use crate::federation::{CallData, Results};

/// What was read of the arguments of a call.
pub(super) struct Arguments {
    /// One value for each parameter; none for outputs, files and data at a server.
    pub(super) values: Vec<Option<Value>>,
    /// The paths of files, by position.
    pub(super) files: BTreeMap<usize, PathBuf>,
    /// Where outputs go.
    pub(super) destinations: Destinations,
}

/// Where the outputs of a call go: one entry for each parameter, none for inputs, files and what stays at the server.
pub(super) struct Destinations(Vec<Option<Destination>>);

/// Where an output goes.
#[derive(Clone, Copy)]
pub(super) struct Destination {
    at: *mut c_void,
    /// The type of the number, or of the elements; none of a string.
    of: Option<ScalarType>,
    /// Of an array the number of elements, of a string the capacity in bytes, of a number 1.
    size: u64,
}

// SAFETY: the addresses are written by the one thread of the program that reports the end of the session; until then they are only kept.
// The outputs belong to the library from the call until that report, or until grpc_cancel or grpc_finalize has returned, as grpc.h says.
unsafe impl Send for Destinations {}

fn wrong(parameter: &Parameter, expected: &str, found: &str) -> Failure {
    Failure::new(
        Code::OtherErrorCode,
        format!("argument `{}` ({parameter}): expected {expected}, found {found}", parameter.name),
    )
}

/// Reads the arguments of a call. The addresses of inputs that are at a server are not used, nor those of outputs that stay there.
///
/// # Safety
///
/// Each address that is not null points to what `grpc.h` says of its parameter, and no other thread changes it meanwhile.
pub(super) unsafe fn read(
    signature: &Signature,
    addresses: &[*mut c_void],
    data: &CallData,
) -> Outcome<Arguments> {
    let parameters = signature.parameters();
    if addresses.len() != parameters.len() {
        let (expected, found) = (parameters.len(), addresses.len());
        let text = format!("expected {expected} arguments ({signature}), found {found}");
        return Err(Failure::new(Code::OtherErrorCode, text));
    }
    let mut values: Vec<Option<Value>> = vec![None; parameters.len()];
    // Numbers first, since sizes depend on them.
    for ((parameter, at), value) in parameters.iter().zip(addresses).zip(&mut values) {
        if let ParameterType::Scalar(of) = parameter.kind {
            if at.is_null() {
                return Err(wrong(parameter, "an address", "a null pointer"));
            }
            if parameter.direction.is_input() {
                // SAFETY: it is not null, so the caller promises a number of this type there.
                *value = Some(unsafe { read_number(of, *at) });
            }
        }
    }
    let mut files = BTreeMap::new();
    let mut destinations = vec![None; parameters.len()];
    for (position, (parameter, at)) in parameters.iter().zip(addresses).enumerate() {
        let of_values = |error| Failure::new(Code::OtherErrorCode, error);
        let sizes = signature.sizes(parameter, &values).map_err(of_values)?;
        let count = sizes.iter().product::<u64>();
        let is_input = parameter.direction.is_input() && !data.is_stored(position);
        let is_output = parameter.direction.is_output() && !data.is_left(position);
        if at.is_null() && count > 0 && (is_input || is_output) {
            return Err(wrong(parameter, "an address", "a null pointer"));
        }
        match &parameter.kind {
            ParameterType::Scalar(_) => {}
            ParameterType::File => {
                // SAFETY: it is not null, since the product of no sizes is 1; so the caller promises a path there.
                let path = unsafe { CStr::from_ptr(at.cast::<c_char>()) };
                if path.is_empty() {
                    return Err(wrong(parameter, "the path of a file", "an empty text"));
                }
                files.insert(position, PathBuf::from(OsStr::from_bytes(path.to_bytes())));
                continue;
            }
            ParameterType::String { capacity } if is_input => {
                // SAFETY: it is not null, so the caller promises a string there, within its capacity if it has one.
                let text = unsafe { read_text(at.cast(), capacity.as_ref().map(|_| count)) };
                let text = text.ok_or_else(|| wrong(parameter, "a zero within its capacity", "none"))?;
                let text = String::from_utf8(text).map_err(|_| wrong(parameter, "UTF-8", "other bytes"))?;
                values[position] = Some(Value::String(text));
            }
            ParameterType::String { .. } => {}
            ParameterType::Vector { of, .. } if is_input => {
                // SAFETY: it is null only without elements, so the caller promises that many of this type there.
                values[position] = Some(Value::Vector(unsafe { read_array(*of, *at, count) }));
            }
            ParameterType::Matrix { of, .. } if is_input => {
                // SAFETY: as of the vector.
                let elements = unsafe { read_array(*of, *at, count) };
                values[position] = Some(Value::Matrix { rows: sizes[0], columns: sizes[1], elements });
            }
            ParameterType::Vector { .. } | ParameterType::Matrix { .. } => {}
        }
        if is_output {
            let of = match parameter.kind {
                ParameterType::Scalar(of)
                | ParameterType::Vector { of, .. }
                | ParameterType::Matrix { of, .. } => Some(of),
                ParameterType::String { .. } | ParameterType::File => None,
            };
            destinations[position] = Some(Destination { at: *at, of, size: count });
        }
    }
    Ok(Arguments { values, files, destinations: Destinations(destinations) })
}

impl Destinations {
    /// Writes the results of a call.
    ///
    /// # Safety
    ///
    /// The addresses are still those of what `grpc.h` says, and no other thread uses it meanwhile.
    pub(super) unsafe fn write(&self, results: &Results) -> Outcome {
        let without_value =
            || Failure::new(Code::OtherErrorCode, "expected a value for each output, found none");
        for (position, destination) in self.0.iter().enumerate() {
            let Some(destination) = destination else { continue };
            let value = results.get(position).and_then(Option::as_ref).ok_or_else(without_value)?;
            // SAFETY: the caller promises what `destination` says.
            unsafe { destination.write(value) }?;
        }
        Ok(())
    }
}

impl Destination {
    /// Memory of so many elements of a type, or of so many bytes for a string.
    pub(super) fn of(at: *mut c_void, of: Option<ScalarType>, size: u64) -> Destination {
        Destination { at, of, size }
    }

    /// Writes a value, if its type and size are those of the destination.
    ///
    /// # Safety
    ///
    /// The address is that of so many elements of the type.
    pub(super) unsafe fn write(self, value: &Value) -> Outcome {
        let of = match value {
            Value::Vector(elements) | Value::Matrix { elements, .. } => Some(elements.scalar()),
            value => value.scalar(),
        };
        if of != self.of {
            let text = format!("expected another type of output, found {}", value.describe());
            return Err(Failure::new(Code::OtherErrorCode, text));
        }
        // SAFETY: the type is that of the value, so the caller promises memory for elements of it.
        unsafe {
            match value {
                Value::Char(number) => self.write_all(&[*number]),
                Value::Int(number) => self.write_all(&[*number]),
                Value::Long(number) => self.write_all(&[*number]),
                Value::Float(number) => self.write_all(&[*number]),
                Value::Double(number) => self.write_all(&[*number]),
                Value::String(text) => {
                    let bytes = [text.as_bytes(), &[0]].concat();
                    // It may be shorter than its buffer.
                    Destination { size: self.size.min(bytes.len() as u64), ..self }.write_all(&bytes)
                }
                Value::File(_) => Ok(()),
                Value::Vector(elements) | Value::Matrix { elements, .. } => match elements {
                    Array::Char(elements) => self.write_all(elements),
                    Array::Int(elements) => self.write_all(elements),
                    Array::Long(elements) => self.write_all(elements),
                    Array::Float(elements) => self.write_all(elements),
                    Array::Double(elements) => self.write_all(elements),
                },
            }
        }
    }

    /// Writes these elements, if they are as many as there are to be.
    ///
    /// # Safety
    ///
    /// The address is that of `size` elements of this type.
    unsafe fn write_all<T: Copy>(self, elements: &[T]) -> Outcome {
        if elements.len() as u64 != self.size {
            let text = format!("expected an output of size {}, found {}", self.size, elements.len());
            return Err(Failure::new(Code::OtherErrorCode, text));
        }
        if !elements.is_empty() {
            let bytes = size_of_val(elements);
            // SAFETY: the caller promises memory for these elements. Bytes need no alignment, and the elements are ours.
            unsafe { ptr::copy_nonoverlapping(elements.as_ptr().cast::<u8>(), self.at.cast::<u8>(), bytes) };
        }
        Ok(())
    }
}

/// Reads a number.
///
/// # Safety
///
/// The address is that of a number of this type.
pub(super) unsafe fn read_number(of: ScalarType, at: *mut c_void) -> Value {
    // SAFETY: the caller promises such a number. Fortran may pack it, so that it is not aligned.
    unsafe {
        match of {
            ScalarType::Char => Value::Char(at.cast::<u8>().read()),
            ScalarType::Int => Value::Int(at.cast::<i32>().read_unaligned()),
            ScalarType::Long => Value::Long(at.cast::<i64>().read_unaligned()),
            ScalarType::Float => Value::Float(at.cast::<f32>().read_unaligned()),
            ScalarType::Double => Value::Double(at.cast::<f64>().read_unaligned()),
        }
    }
}

/// Reads a string, the zero at its end left out; none if there is no zero within the capacity.
///
/// # Safety
///
/// The address is that of a string, or of so many bytes.
pub(super) unsafe fn read_text(at: *const u8, capacity: Option<u64>) -> Option<Vec<u8>> {
    let Some(capacity) = capacity else {
        // SAFETY: without a capacity, the caller promises a string.
        return Some(unsafe { CStr::from_ptr(at.cast()) }.to_bytes().to_vec());
    };
    let mut text = Vec::new();
    for offset in 0..usize::try_from(capacity).ok()? {
        // SAFETY: no byte before had the zero of the string, so this one belongs to it.
        match unsafe { at.add(offset).read() } {
            0 => return Some(text),
            byte => text.push(byte),
        }
    }
    None
}

/// Reads elements.
///
/// # Safety
///
/// The address is that of so many elements of this type, or null if there are none.
pub(super) unsafe fn read_array(of: ScalarType, at: *mut c_void, count: u64) -> Array {
    /// Elements of a type whose zero is all bits 0.
    unsafe fn read<T: Copy + Default>(at: *mut c_void, count: u64) -> Vec<T> {
        let mut elements = vec![T::default(); usize::try_from(count).expect("sizes of calls are bounded")];
        if !elements.is_empty() {
            let bytes = size_of_val(elements.as_slice());
            // SAFETY: the caller promises these elements. Bytes need no alignment, and the new vector is ours.
            unsafe { ptr::copy_nonoverlapping(at.cast::<u8>(), elements.as_mut_ptr().cast::<u8>(), bytes) };
        }
        elements
    }
    // SAFETY: passed on.
    unsafe {
        match of {
            ScalarType::Char => Array::Char(read(at, count)),
            ScalarType::Int => Array::Int(read(at, count)),
            ScalarType::Long => Array::Long(read(at, count)),
            ScalarType::Float => Array::Float(read(at, count)),
            ScalarType::Double => Array::Double(read(at, count)),
        }
    }
}
