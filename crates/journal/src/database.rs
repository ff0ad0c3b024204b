//! Statements of SQL that both databases understand, their parameters and their rows.
//!
//! Parameters are written `$1`, `$2`, ... and appear in this order for the first time, since SQLite numbers them by
//! appearance.

use crate::JournalError;

/// A parameter of a statement or a field of a row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A row of a result. Each field can be taken once.
pub(crate) struct Row(pub Vec<Value>);

/// Runs statements in one transaction.
pub(crate) trait Statements {
    /// The database, for messages.
    fn location(&self) -> String;

    /// Runs a statement and returns its rows.
    fn rows(&mut self, text: &str, values: &[Value]) -> Result<Vec<Row>, JournalError>;

    /// Runs a statement that returns no rows.
    fn execute(&mut self, text: &str, values: &[Value]) -> Result<(), JournalError>;
}

/// Reads the rows of a statement as values of a type.
pub(crate) fn read_all<A>(
    database: &mut dyn Statements,
    text: &str,
    values: &[Value],
    read: impl Fn(&mut Row) -> Result<A, String>,
) -> Result<Vec<A>, JournalError> {
    let rows = database.rows(text, values)?;
    let read = rows.into_iter().map(|mut row| read(&mut row)).collect::<Result<_, _>>();
    read.map_err(|why| JournalError::Damaged { location: database.location(), why })
}

/// Reads the first row of a statement; none if it returns none.
pub(crate) fn read_first<A>(
    database: &mut dyn Statements,
    text: &str,
    values: &[Value],
    read: impl Fn(&mut Row) -> Result<A, String>,
) -> Result<Option<A>, JournalError> {
    Ok(read_all(database, text, values, read)?.into_iter().next())
}

/// Reads the only row of a statement.
pub(crate) fn read_one<A>(
    database: &mut dyn Statements,
    text: &str,
    values: &[Value],
    read: impl Fn(&mut Row) -> Result<A, String>,
) -> Result<A, JournalError> {
    let found = read_first(database, text, values, read)?;
    found.ok_or_else(|| {
        let why = format!("expected a row, found none: {text}");
        JournalError::Damaged { location: database.location(), why }
    })
}

impl Row {
    /// Takes a field out of the row; the error names its column and what was found.
    pub(crate) fn take<F: Field>(&mut self, column: usize) -> Result<F, String> {
        let value = std::mem::replace(&mut self.0[column], Value::Null);
        F::of(value).map_err(|found| {
            let found = match found {
                Value::Null => "nothing".to_owned(),
                Value::Number(number) => number.to_string(),
                Value::Text(_) => "a text".to_owned(),
                Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
            };
            format!("expected {} in column {}, found {found}", F::EXPECTED, column + 1)
        })
    }
}

/// A type that a field of a row can have.
pub(crate) trait Field: Sized {
    /// What is expected, for errors.
    const EXPECTED: &str;

    /// The field as this type; an error returns the value.
    fn of(value: Value) -> Result<Self, Value>;
}

/// Implements [`Field`] by one pattern per type.
macro_rules! fields {
    ($($field:ty, $expected:literal, $value:pat => $read:expr;)*) => {$(
        impl Field for $field {
            const EXPECTED: &str = $expected;
            fn of(value: Value) -> Result<Self, Value> {
                match value {
                    $value => $read,
                    other => Err(other),
                }
            }
        }
    )*};
}

fields! {
    i64, "a number", Value::Number(number) => Ok(number);
    u64, "a number", Value::Number(number) => Ok(number as u64);
    u32, "a number from 0 to 4294967295", Value::Number(number) => u32::try_from(number).map_err(|_| Value::Number(number));
    bool, "true or false", Value::Number(number) => Ok(number != 0);
    String, "a text", Value::Text(text) => Ok(text);
    Vec<u8>, "bytes", Value::Bytes(bytes) => Ok(bytes);
    [u8; 16], "16 bytes", Value::Bytes(bytes) => <[u8; 16]>::try_from(bytes).map_err(Value::Bytes);
}

impl<F: Field> Field for Option<F> {
    const EXPECTED: &str = F::EXPECTED;

    fn of(value: Value) -> Result<Self, Value> {
        if value == Value::Null { Ok(None) } else { F::of(value).map(Some) }
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as i64)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}
