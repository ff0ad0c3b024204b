//! The bytes of a list of values, for arguments and results alike. All numbers are little-endian and without gaps:
//!
//! ```text
//! list    = "PLV" version:u8 (1) count:u16 value * count         one value for each parameter, in the order of the signature
//! value   = 0                                                    none: an `out` parameter in arguments, an `in` parameter in results
//!         | 1 u8 | 2 i32 | 3 i64 | 4 f32 | 5 f64                 char, int, long, float, double
//!         | 6 bytes:u32 text                                     string, UTF-8 without NUL
//!         | 7 bytes:u32 name                                     file, UTF-8 without NUL
//!         | 8 type:u8 (1 to 5) length:u64 elements               vector
//!         | 9 type:u8 (1 to 5) rows:u64 columns:u64 elements     matrix, row by row
//! ```
//!
//! A list ends behind its last value. It has at most [`PARAMETERS_MAX`] values and [`VALUES_BYTES_MAX`] bytes.

use std::borrow::Borrow;

use crate::signature::{PARAMETERS_MAX, ScalarType};
use crate::value::{Array, Value};

/// The version of the encoding, the fourth byte of a list.
pub const ENCODING_VERSION: u8 = 1;
/// The most bytes of an encoded list.
pub const VALUES_BYTES_MAX: usize = 256 << 20;

const MAGIC: [u8; 3] = *b"PLV";

/// A list of values that cannot be written or read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EncodingError {
    /// The bytes do not begin as a list does.
    #[error("expected a list of values, which begins with \"PLV\", found other bytes")]
    Magic,
    /// Another version of the encoding.
    #[error("expected a list of values of version {ENCODING_VERSION}, found version {0}")]
    Version(u8),
    /// The list ends within a value.
    #[error("expected {expected} more bytes at byte {at}, found {found}")]
    Truncated {
        /// Where.
        at: usize,
        /// How many bytes are needed.
        expected: u64,
        /// How many are left.
        found: u64,
    },
    /// Something stands behind the last value.
    #[error("expected the end of the list at byte {0}, found more bytes")]
    Trailing(usize),
    /// No such type of value.
    #[error("expected the type of a value at byte {at}, found {found}")]
    Type {
        /// Where.
        at: usize,
        /// The byte.
        found: u8,
    },
    /// A text that is not UTF-8, or has a NUL.
    #[error("expected UTF-8 without NUL at byte {0}, found other bytes")]
    Text(usize),
    /// Too many values.
    #[error("expected at most {PARAMETERS_MAX} values, found {0}")]
    Count(usize),
    /// Too many bytes.
    #[error("expected at most {VALUES_BYTES_MAX} bytes of values, found {0}")]
    TooLarge(usize),
    /// A matrix whose number of elements is not that of its rows and columns.
    #[error("expected a matrix of {rows} rows and {columns} columns to have as many elements, found {found}")]
    Matrix {
        /// Its rows.
        rows: u64,
        /// Its columns.
        columns: u64,
        /// Its elements.
        found: usize,
    },
}

/// The bytes of a list of values.
///
/// # Errors
/// If the list is too long, or has a value that [`decode`] would not read.
pub fn encode<V: Borrow<Value>>(values: &[Option<V>]) -> Result<Vec<u8>, EncodingError> {
    if values.len() > PARAMETERS_MAX {
        return Err(EncodingError::Count(values.len()));
    }
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(&MAGIC);
    bytes.push(ENCODING_VERSION);
    bytes.extend_from_slice(&(values.len() as u16).to_le_bytes());
    for value in values {
        match value {
            None => bytes.push(0),
            Some(value) => write(value.borrow(), &mut bytes)?,
        }
        if bytes.len() > VALUES_BYTES_MAX {
            return Err(EncodingError::TooLarge(bytes.len()));
        }
    }
    Ok(bytes)
}

/// The values of a list.
///
/// # Errors
/// If the bytes are not a whole list of this version, within its bounds.
pub fn decode(bytes: &[u8]) -> Result<Vec<Option<Value>>, EncodingError> {
    if bytes.len() > VALUES_BYTES_MAX {
        return Err(EncodingError::TooLarge(bytes.len()));
    }
    let mut reader = Reader { bytes, at: 0 };
    if reader.array::<3>().map_err(|_| EncodingError::Magic)? != MAGIC {
        return Err(EncodingError::Magic);
    }
    match reader.byte()? {
        ENCODING_VERSION => {}
        version => return Err(EncodingError::Version(version)),
    }
    let count = usize::from(u16::from_le_bytes(reader.array()?));
    if count > PARAMETERS_MAX {
        return Err(EncodingError::Count(count));
    }
    let values = (0..count).map(|_| reader.value()).collect::<Result<Vec<_>, _>>()?;
    match reader.at == bytes.len() {
        true => Ok(values),
        false => Err(EncodingError::Trailing(reader.at)),
    }
}

fn tag(scalar: ScalarType) -> u8 {
    match scalar {
        ScalarType::Char => 1,
        ScalarType::Int => 2,
        ScalarType::Long => 3,
        ScalarType::Float => 4,
        ScalarType::Double => 5,
    }
}

fn write(value: &Value, bytes: &mut Vec<u8>) -> Result<(), EncodingError> {
    if let Some(scalar) = value.scalar() {
        bytes.push(tag(scalar));
    }
    match value {
        Value::Char(number) => bytes.push(*number),
        Value::Int(number) => bytes.extend_from_slice(&number.to_le_bytes()),
        Value::Long(number) => bytes.extend_from_slice(&number.to_le_bytes()),
        Value::Float(number) => bytes.extend_from_slice(&number.to_le_bytes()),
        Value::Double(number) => bytes.extend_from_slice(&number.to_le_bytes()),
        Value::String(text) => write_text(6, text, bytes)?,
        Value::File(name) => write_text(7, name, bytes)?,
        Value::Vector(elements) => {
            bytes.extend_from_slice(&[8, tag(elements.scalar())]);
            bytes.extend_from_slice(&(elements.len() as u64).to_le_bytes());
            write_elements(elements, bytes)?;
        }
        Value::Matrix { rows, columns, elements } => {
            if rows.checked_mul(*columns) != Some(elements.len() as u64) {
                let (rows, columns) = (*rows, *columns);
                return Err(EncodingError::Matrix { rows, columns, found: elements.len() });
            }
            bytes.extend_from_slice(&[9, tag(elements.scalar())]);
            bytes.extend_from_slice(&rows.to_le_bytes());
            bytes.extend_from_slice(&columns.to_le_bytes());
            write_elements(elements, bytes)?;
        }
    }
    Ok(())
}

fn write_text(tag: u8, text: &str, bytes: &mut Vec<u8>) -> Result<(), EncodingError> {
    if text.len() > VALUES_BYTES_MAX {
        return Err(EncodingError::TooLarge(text.len()));
    }
    if text.contains('\0') {
        return Err(EncodingError::Text(bytes.len()));
    }
    bytes.push(tag);
    bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    Ok(())
}

fn write_elements(elements: &Array, bytes: &mut Vec<u8>) -> Result<(), EncodingError> {
    let size = elements.len().saturating_mul(elements.scalar().bytes() as usize);
    if size > VALUES_BYTES_MAX {
        return Err(EncodingError::TooLarge(size));
    }
    bytes.reserve(size);
    elements.write_le(bytes);
    Ok(())
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: u64) -> Result<&'a [u8], EncodingError> {
        let left = &self.bytes[self.at..];
        if count > left.len() as u64 {
            let (at, found) = (self.at, left.len() as u64);
            return Err(EncodingError::Truncated { at, expected: count, found });
        }
        self.at += count as usize;
        Ok(&left[..count as usize])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], EncodingError> {
        Ok(self.take(N as u64)?.try_into().expect("as many bytes as were asked for"))
    }

    fn byte(&mut self) -> Result<u8, EncodingError> {
        Ok(self.array::<1>()?[0])
    }

    fn text(&mut self) -> Result<String, EncodingError> {
        let length = u64::from(u32::from_le_bytes(self.array()?));
        let at = self.at;
        let text = std::str::from_utf8(self.take(length)?).map_err(|_| EncodingError::Text(at))?;
        match text.contains('\0') {
            true => Err(EncodingError::Text(at)),
            false => Ok(text.to_owned()),
        }
    }

    fn scalar(&mut self) -> Result<ScalarType, EncodingError> {
        let at = self.at;
        let found = self.byte()?;
        ScalarType::ALL
            .into_iter()
            .find(|scalar| tag(*scalar) == found)
            .ok_or(EncodingError::Type { at, found })
    }

    fn elements(&mut self, scalar: ScalarType, count: u64) -> Result<Array, EncodingError> {
        // A count that is too large for its bytes is longer than any list.
        Ok(Array::read_le(scalar, self.take(count.saturating_mul(scalar.bytes()))?))
    }

    fn value(&mut self) -> Result<Option<Value>, EncodingError> {
        let at = self.at;
        Ok(Some(match self.byte()? {
            0 => return Ok(None),
            1 => Value::Char(self.byte()?),
            2 => Value::Int(i32::from_le_bytes(self.array()?)),
            3 => Value::Long(i64::from_le_bytes(self.array()?)),
            4 => Value::Float(f32::from_le_bytes(self.array()?)),
            5 => Value::Double(f64::from_le_bytes(self.array()?)),
            6 => Value::String(self.text()?),
            7 => Value::File(self.text()?),
            8 => {
                let scalar = self.scalar()?;
                let length = u64::from_le_bytes(self.array()?);
                Value::Vector(self.elements(scalar, length)?)
            }
            9 => {
                let scalar = self.scalar()?;
                let rows = u64::from_le_bytes(self.array()?);
                let columns = u64::from_le_bytes(self.array()?);
                let elements = self.elements(scalar, rows.saturating_mul(columns))?;
                Value::Matrix { rows, columns, elements }
            }
            found => return Err(EncodingError::Type { at, found }),
        }))
    }
}
