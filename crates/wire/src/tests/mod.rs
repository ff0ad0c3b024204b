//! What is written is read as it was meant; what is malformed is refused with its field; nothing panics.

mod explorations;
pub(crate) mod fit;
mod hostile_bytes;
mod launches;
mod links;
mod malformed;
mod malformed_calls;
mod messages;
mod round_trips;
mod samples;
mod signed;

use proptest::strategy::BoxedStrategy;
use prost::Message;

use super::Malformed;
use super::field::HasMessage;

/// Values of a type, within the bounds of its table.
fn drawn<T: HasMessage>() -> BoxedStrategy<T> {
    T::strategy()
}

/// A message after its way over the wire.
fn sent<M: Message + Default>(message: &M) -> M {
    M::decode(message.encode_to_vec().as_slice()).expect("what was encoded can be decoded")
}

/// A value after its way over the wire as an `M`.
fn received<M, T>(value: &T) -> Result<T, Malformed>
where
    M: Message + Default + for<'a> From<&'a T>,
    T: TryFrom<M, Error = Malformed>,
{
    T::try_from(sent(&M::from(value)))
}
