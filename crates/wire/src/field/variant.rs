//! Variants of `enum`s and `oneof`s.

use std::marker::PhantomData;

#[cfg(test)]
use proptest::prelude::*;

use super::super::Malformed;
use super::{Enumeration, FieldType, OneOf};

/// A variant of an `enum`.
pub(crate) fn enumeration<T: Enumeration>() -> EnumValue<T> {
    EnumValue(PhantomData)
}

#[derive(Clone)]
pub(crate) struct EnumValue<T>(PhantomData<T>);

impl<T: Enumeration> FieldType for EnumValue<T> {
    type Value = T;
    type Wire = i32;
    fn encode(&self, value: &T) -> i32 {
        value.to_number()
    }
    fn decode(&self, field: &str, found: i32) -> Result<T, Malformed> {
        T::from_number(field, found)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<T> {
        T::strategy()
    }
}

/// A `oneof` beside other fields of a message. Protobuf gives it no field of its own, so errors name its variant.
pub(crate) fn one_of<W, T: OneOf<W>>() -> Variant<T, W> {
    Variant(PhantomData)
}

pub(crate) struct Variant<T, W>(PhantomData<fn() -> (T, W)>);

impl<T, W> Clone for Variant<T, W> {
    fn clone(&self) -> Self {
        Variant(PhantomData)
    }
}

impl<T: OneOf<W>, W: 'static> FieldType for Variant<T, W> {
    type Value = T;
    type Wire = Option<W>;
    fn encode(&self, value: &T) -> Option<W> {
        Some(value.to_variant())
    }
    fn decode(&self, _field: &str, found: Option<W>) -> Result<T, Malformed> {
        found.map_or_else(T::absent, T::from_variant)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<T> {
        T::strategy()
    }
}

/// The payload of a variant without data: an empty message, or a flag whose value does not matter.
#[derive(Clone)]
pub(crate) struct EmptyPayload<W>(W);

/// A message without fields that this version knows.
pub(crate) fn empty<W: Default + Clone + 'static>() -> EmptyPayload<W> {
    EmptyPayload(W::default())
}

/// A flag with any value.
pub(crate) const FLAG: EmptyPayload<bool> = EmptyPayload(true);

impl<W: Clone + 'static> FieldType for EmptyPayload<W> {
    type Value = ();
    type Wire = W;
    fn encode(&self, (): &()) -> W {
        self.0.clone()
    }
    fn decode(&self, _field: &str, _found: W) -> Result<(), Malformed> {
        Ok(())
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<()> {
        Just(()).boxed()
    }
}

/// A flag that must be set.
#[derive(Clone)]
pub(crate) struct TrueFlag;

impl FieldType for TrueFlag {
    type Value = ();
    type Wire = bool;
    fn encode(&self, (): &()) -> bool {
        true
    }
    fn decode(&self, field: &str, found: bool) -> Result<(), Malformed> {
        if found { Ok(()) } else { Err(Malformed::new(field, "true", found)) }
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<()> {
        Just(()).boxed()
    }
}
