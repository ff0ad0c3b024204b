//! What is written is read as it was meant; what is malformed is refused with its field; nothing panics.

mod explorations;
pub(crate) mod fit;
mod hostile_bytes;
mod launches;
mod links;
mod malformed;
mod malformed_calls;
mod round_trips;
mod samples;
mod signed;

use proptest::strategy::BoxedStrategy;

use super::any_bytes::{received, sent};
use super::field::HasMessage;

/// Values of a type, within the bounds of its table.
fn drawn<T: HasMessage>() -> BoxedStrategy<T> {
    T::strategy()
}
