//! The types of the fields of messages. A [`FieldType`] encodes the value of a field within its bounds, decodes it with the
//! checks, and draws values for property tests from the same bounds. The tables of [`message!`](crate::message) are made of
//! field types; messages, lists and whatever is composed of other field types are in [`composed`], variants in [`variant`],
//! numbers in [`number`], texts and bytes in [`text`].

mod composed;
mod number;
#[cfg(test)]
mod strategy;
mod text;
mod variant;

use std::fmt::Debug;

#[cfg(test)]
use proptest::prelude::*;

use super::Malformed;
pub(crate) use composed::*;
pub(crate) use number::*;
#[cfg(test)]
pub(crate) use strategy::*;
pub(crate) use text::*;
pub(crate) use variant::*;

/// The type of a field: how its value is encoded, decoded and drawn in property tests.
pub(crate) trait FieldType: Clone + 'static {
    /// The value in the domain type.
    type Value: Clone + Debug + 'static;
    /// The value in the message.
    type Wire;

    /// The value as [`FieldType::decode`] accepts it at the other end.
    fn encode(&self, value: &Self::Value) -> Self::Wire;

    /// The value of that field, if it is within the bounds. An error names the field, or the position within it.
    fn decode(&self, field: &str, found: Self::Wire) -> Result<Self::Value, Malformed>;

    /// Values within the bounds that are the same after encoding and decoding.
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Self::Value>;
}

/// A domain type that has a message of its own. The tables implement it.
pub(crate) trait HasMessage: Clone + Debug + 'static {
    /// The message.
    type Message;

    /// The message of this value, within the bounds.
    fn to_message(&self) -> Self::Message;

    /// The value of a message that is within the bounds.
    fn from_message(message: Self::Message) -> Result<Self, Malformed>;

    /// Values within the bounds.
    #[cfg(test)]
    fn strategy() -> BoxedStrategy<Self>;
}

/// A domain type whose variants are those of a protobuf `oneof`, as prost represents it. The tables implement it.
pub(crate) trait OneOf<W>: Clone + Debug + 'static {
    /// The variant.
    fn to_variant(&self) -> W;

    /// The value of a variant.
    fn from_variant(variant: W) -> Result<Self, Malformed>;

    /// The value of a message without any variant that this version knows.
    fn absent() -> Result<Self, Malformed>;

    /// Values within the bounds.
    #[cfg(test)]
    fn strategy() -> BoxedStrategy<Self>;
}

/// A domain type whose variants are those of a protobuf `enum`. The tables implement it.
pub(crate) trait Enumeration: Copy + Debug + 'static {
    /// The number of the variant.
    fn to_number(self) -> i32;

    /// The variant of that number.
    fn from_number(field: &str, number: i32) -> Result<Self, Malformed>;

    /// Every variant.
    #[cfg(test)]
    fn strategy() -> BoxedStrategy<Self>;
}
