//! What is written is read as it was meant; what is malformed is refused with its field; nothing panics.

mod arbitrary;
mod explorations;
mod hostile_bytes;
mod launches;
mod links;
mod malformed;
mod malformed_calls;
mod round_trips;
mod samples;

use prost::Message;

use super::Malformed;

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
