//! What a parameter carries in one call.

use crate::signature::ScalarType;

/// The value of a parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A `char`.
    Char(u8),
    /// An `int`.
    Int(i32),
    /// A `long`.
    Long(i64),
    /// A `float`.
    Float(f32),
    /// A `double`.
    Double(f64),
    /// A text without NUL.
    String(String),
    /// The name of a file: of an input file of the job in arguments, of a result in results. A resident process gets and
    /// returns paths.
    File(String),
    /// A vector.
    Vector(Array),
    /// A matrix, row by row.
    Matrix {
        /// How many rows it has.
        rows: u64,
        /// How many elements each row has.
        columns: u64,
        /// Its elements, `rows * columns` of them.
        elements: Array,
    },
}

/// The elements of a vector or a matrix.
#[derive(Clone, PartialEq, Debug)]
pub enum Array {
    /// Of `char`.
    Char(Vec<u8>),
    /// Of `int`.
    Int(Vec<i32>),
    /// Of `long`.
    Long(Vec<i64>),
    /// Of `float`.
    Float(Vec<f32>),
    /// Of `double`.
    Double(Vec<f64>),
}

impl Array {
    /// The type of its elements.
    pub fn scalar(&self) -> ScalarType {
        match self {
            Array::Char(_) => ScalarType::Char,
            Array::Int(_) => ScalarType::Int,
            Array::Long(_) => ScalarType::Long,
            Array::Float(_) => ScalarType::Float,
            Array::Double(_) => ScalarType::Double,
        }
    }

    /// How many elements it has.
    pub fn len(&self) -> usize {
        match self {
            Array::Char(elements) => elements.len(),
            Array::Int(elements) => elements.len(),
            Array::Long(elements) => elements.len(),
            Array::Float(elements) => elements.len(),
            Array::Double(elements) => elements.len(),
        }
    }

    /// True if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its first element; none if it has none.
    pub fn first(&self) -> Option<Value> {
        match self {
            Array::Char(elements) => elements.first().copied().map(Value::Char),
            Array::Int(elements) => elements.first().copied().map(Value::Int),
            Array::Long(elements) => elements.first().copied().map(Value::Long),
            Array::Float(elements) => elements.first().copied().map(Value::Float),
            Array::Double(elements) => elements.first().copied().map(Value::Double),
        }
    }

    /// The elements that these texts are; none if one is no number of that type.
    pub fn parse<'a>(scalar: ScalarType, texts: impl Iterator<Item = &'a str>) -> Option<Array> {
        fn all<'a, T: std::str::FromStr>(texts: impl Iterator<Item = &'a str>) -> Option<Vec<T>> {
            texts.map(|text| text.parse().ok()).collect()
        }
        Some(match scalar {
            ScalarType::Char => Array::Char(all(texts)?),
            ScalarType::Int => Array::Int(all(texts)?),
            ScalarType::Long => Array::Long(all(texts)?),
            ScalarType::Float => Array::Float(all(texts)?),
            ScalarType::Double => Array::Double(all(texts)?),
        })
    }

    /// Calls `take` with each element as text, which [`Array::parse`] reads as the same element.
    pub fn for_each_text(&self, mut take: impl FnMut(&str)) {
        fn all<T: ToString>(elements: &[T], take: &mut impl FnMut(&str)) {
            elements.iter().for_each(|element| take(&element.to_string()));
        }
        match self {
            Array::Char(elements) => all(elements, &mut take),
            Array::Int(elements) => all(elements, &mut take),
            Array::Long(elements) => all(elements, &mut take),
            Array::Float(elements) => all(elements, &mut take),
            Array::Double(elements) => all(elements, &mut take),
        }
    }

    /// Appends its elements to `bytes`, little-endian, without gaps.
    pub fn write_le(&self, bytes: &mut Vec<u8>) {
        match self {
            Array::Char(elements) => bytes.extend_from_slice(elements),
            Array::Int(elements) => elements.iter().for_each(|e| bytes.extend_from_slice(&e.to_le_bytes())),
            Array::Long(elements) => elements.iter().for_each(|e| bytes.extend_from_slice(&e.to_le_bytes())),
            Array::Float(elements) => elements.iter().for_each(|e| bytes.extend_from_slice(&e.to_le_bytes())),
            Array::Double(elements) => {
                elements.iter().for_each(|e| bytes.extend_from_slice(&e.to_le_bytes()));
            }
        }
    }

    /// The elements that [`Array::write_le`] wrote; bytes behind the last whole element are ignored.
    pub fn read_le(scalar: ScalarType, bytes: &[u8]) -> Array {
        fn all<const N: usize, T>(bytes: &[u8], of: impl Fn([u8; N]) -> T) -> Vec<T> {
            bytes.as_chunks::<N>().0.iter().map(|chunk| of(*chunk)).collect()
        }
        match scalar {
            ScalarType::Char => Array::Char(bytes.to_vec()),
            ScalarType::Int => Array::Int(all(bytes, i32::from_le_bytes)),
            ScalarType::Long => Array::Long(all(bytes, i64::from_le_bytes)),
            ScalarType::Float => Array::Float(all(bytes, f32::from_le_bytes)),
            ScalarType::Double => Array::Double(all(bytes, f64::from_le_bytes)),
        }
    }
}

impl Value {
    /// What it is, in the words of a signature: `int`, `double[3]`, `double[2][2]`.
    pub fn describe(&self) -> String {
        match self {
            Value::Char(_) => "char".to_owned(),
            Value::Int(_) => "int".to_owned(),
            Value::Long(_) => "long".to_owned(),
            Value::Float(_) => "float".to_owned(),
            Value::Double(_) => "double".to_owned(),
            Value::String(text) => format!("string of {} bytes", text.len()),
            Value::File(_) => "file".to_owned(),
            Value::Vector(elements) => format!("{}[{}]", elements.scalar().name(), elements.len()),
            Value::Matrix { rows, columns, elements } => {
                format!("{}[{rows}][{columns}]", elements.scalar().name())
            }
        }
    }

    /// The type of a number; none of others.
    pub fn scalar(&self) -> Option<ScalarType> {
        match self {
            Value::Char(_) => Some(ScalarType::Char),
            Value::Int(_) => Some(ScalarType::Int),
            Value::Long(_) => Some(ScalarType::Long),
            Value::Float(_) => Some(ScalarType::Float),
            Value::Double(_) => Some(ScalarType::Double),
            _ => None,
        }
    }

    /// A whole number; none of others.
    pub fn whole(&self) -> Option<i64> {
        match self {
            Value::Char(number) => Some(i64::from(*number)),
            Value::Int(number) => Some(i64::from(*number)),
            Value::Long(number) => Some(*number),
            _ => None,
        }
    }

    /// A number as text, if it is one and finite: what a job is planned with.
    pub fn finite_number(&self) -> Option<String> {
        let is_finite = match self {
            Value::Float(number) => number.is_finite(),
            Value::Double(number) => number.is_finite(),
            value => value.scalar().is_some(),
        };
        self.word().filter(|_| is_finite)
    }

    /// The number or the text that a command gets as an argument; none of vectors and matrices.
    pub fn word(&self) -> Option<String> {
        match self {
            Value::Char(number) => Some(number.to_string()),
            Value::Int(number) => Some(number.to_string()),
            Value::Long(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Double(number) => Some(number.to_string()),
            Value::String(text) | Value::File(text) => Some(text.clone()),
            Value::Vector(_) | Value::Matrix { .. } => None,
        }
    }
}
