//! Large values, which take long to encode and decode.

use pliant_calls::{Array, Value};
use tokio::runtime::{Handle, RuntimeFlavor};

/// From how many bytes on values are encoded and decoded where that holds up no other task: some milliseconds of work.
const LARGE: usize = 1 << 20;

/// The bytes that the texts and elements of values take.
pub fn bytes_of(values: &[Option<Value>]) -> usize {
    let bytes = |value: &Value| match value {
        Value::String(text) | Value::File(text) => text.len(),
        Value::Vector(elements) | Value::Matrix { elements, .. } => match elements {
            Array::Char(elements) => elements.len(),
            Array::Int(elements) => size_of_val(elements.as_slice()),
            Array::Long(elements) => size_of_val(elements.as_slice()),
            Array::Float(elements) => size_of_val(elements.as_slice()),
            Array::Double(elements) => size_of_val(elements.as_slice()),
        },
        Value::Char(_) | Value::Int(_) | Value::Long(_) | Value::Float(_) | Value::Double(_) => 0,
    };
    values.iter().flatten().map(bytes).sum()
}

/// Does work on so many bytes. If they are many, the other tasks of this thread go on in another one.
pub(super) fn blocking<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    // A runtime of one thread has no other one.
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread if bytes >= LARGE => tokio::task::block_in_place(work),
        _ => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_elements_count() {
        let values = [
            Some(Value::String("four".to_owned())),
            None,
            Some(Value::Int(7)),
            Some(Value::Vector(Array::Long(vec![1, 2]))),
            Some(Value::Matrix { rows: 1, columns: 3, elements: Array::Float(vec![0.0; 3]) }),
        ];
        assert_eq!(bytes_of(&values), 4 + 16 + 12);
    }
}
