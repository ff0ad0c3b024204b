//! Messages within messages, lists, maps, and fields that may be absent.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::marker::PhantomData;

#[cfg(test)]
use proptest::prelude::*;

use super::super::{Malformed, bounds};
use super::{ARGUMENT, ARGUMENT_NAME, FieldType, HasMessage, Text};

/// Any value, without bounds.
pub(crate) fn as_is<T: Unbounded>() -> AsIs<T> {
    AsIs(PhantomData)
}

/// A type whose every value may be sent.
pub(crate) trait Unbounded: Clone + Debug + 'static {
    /// Every value.
    #[cfg(test)]
    fn values() -> BoxedStrategy<Self>;
}

macro_rules! unbounded {
    ($($type:ty),*) => {$(
        impl Unbounded for $type {
            #[cfg(test)]
            fn values() -> BoxedStrategy<$type> {
                any::<$type>().boxed()
            }
        }
    )*};
}

unbounded!(bool, u32, u64, i32, i64, f64, Vec<u32>);

#[derive(Clone)]
pub(crate) struct AsIs<T>(PhantomData<T>);

impl<T: Unbounded> FieldType for AsIs<T> {
    type Value = T;
    type Wire = T;
    fn encode(&self, value: &T) -> T {
        value.clone()
    }
    fn decode(&self, _field: &str, found: T) -> Result<T, Malformed> {
        Ok(found)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<T> {
        T::values()
    }
}

/// A message as an item of a list or the value of a variant.
pub(crate) fn nested<T: HasMessage>() -> NestedMessage<T> {
    NestedMessage(PhantomData)
}

#[derive(Clone)]
pub(crate) struct NestedMessage<T>(PhantomData<T>);

impl<T: HasMessage> FieldType for NestedMessage<T> {
    type Value = T;
    type Wire = T::Message;
    fn encode(&self, value: &T) -> T::Message {
        value.to_message()
    }
    fn decode(&self, field: &str, found: T::Message) -> Result<T, Malformed> {
        T::from_message(found).map_err(|malformed| malformed.under(field))
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<T> {
        T::strategy()
    }
}

/// A message that must be there; `expected` says what it is.
pub(crate) fn required<T: HasMessage>(expected: &'static str) -> Required<T> {
    Required { expected, message: nested() }
}

#[derive(Clone)]
pub(crate) struct Required<T> {
    expected: &'static str,
    message: NestedMessage<T>,
}

impl<T: HasMessage> FieldType for Required<T> {
    type Value = T;
    type Wire = Option<T::Message>;
    fn encode(&self, value: &T) -> Option<T::Message> {
        Some(value.to_message())
    }
    fn decode(&self, field: &str, found: Option<T::Message>) -> Result<T, Malformed> {
        self.message.decode(field, found.ok_or_else(|| Malformed::missing(field, self.expected))?)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<T> {
        T::strategy()
    }
}

/// A field that may be absent.
pub(crate) fn optional<F: FieldType>(inner: F) -> Optional<F> {
    Optional(inner)
}

#[derive(Clone)]
pub(crate) struct Optional<F>(F);

impl<F: FieldType> FieldType for Optional<F> {
    type Value = Option<F::Value>;
    type Wire = Option<F::Wire>;
    fn encode(&self, value: &Option<F::Value>) -> Option<F::Wire> {
        value.as_ref().map(|value| self.0.encode(value))
    }
    fn decode(&self, field: &str, found: Option<F::Wire>) -> Result<Option<F::Value>, Malformed> {
        found.map(|found| self.0.decode(field, found)).transpose()
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Option<F::Value>> {
        proptest::option::of(self.0.strategy()).boxed()
    }
}

/// A message that must be there, where a value without it can be encoded.
pub(crate) fn present<T: HasMessage>(expected: &'static str) -> Present<T> {
    Present(required(expected))
}

#[derive(Clone)]
pub(crate) struct Present<T>(Required<T>);

impl<T: HasMessage> FieldType for Present<T> {
    type Value = Option<T>;
    type Wire = Option<T::Message>;
    fn encode(&self, value: &Option<T>) -> Option<T::Message> {
        value.as_ref().map(T::to_message)
    }
    fn decode(&self, field: &str, found: Option<T::Message>) -> Result<Option<T>, Malformed> {
        self.0.decode(field, found).map(Some)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Option<T>> {
        T::strategy().prop_map(Some).boxed()
    }
}

/// A field that may be absent, which is the empty text, no bytes or 0 in the message.
pub(crate) fn unless_empty<F: FieldType>(inner: F) -> AbsentIfEmpty<F> {
    AbsentIfEmpty(inner)
}

#[derive(Clone)]
pub(crate) struct AbsentIfEmpty<F>(F);

impl<F: FieldType> FieldType for AbsentIfEmpty<F>
where
    F::Wire: Default + PartialEq,
{
    type Value = Option<F::Value>;
    type Wire = F::Wire;
    fn encode(&self, value: &Option<F::Value>) -> F::Wire {
        value.as_ref().map(|value| self.0.encode(value)).unwrap_or_default()
    }
    fn decode(&self, field: &str, found: F::Wire) -> Result<Option<F::Value>, Malformed> {
        if found == F::Wire::default() { Ok(None) } else { self.0.decode(field, found).map(Some) }
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Option<F::Value>> {
        let inner = self.0.clone();
        let is_empty = move |value: &F::Value| inner.encode(value) == F::Wire::default();
        let values = proptest::option::of(self.0.strategy());
        values.prop_map(move |value| value.filter(|value| !is_empty(value))).boxed()
    }
}

/// A field that says `absent` if it is absent, and is absent if it says that.
pub(crate) fn unless<F: FieldType>(absent: F::Value, inner: F) -> AbsentIf<F> {
    AbsentIf { absent, inner, always: false }
}

/// A field that says `absent` if it is absent, and is always sent.
pub(crate) const fn absent_means<F: FieldType>(absent: F::Value, inner: F) -> AbsentIf<F> {
    AbsentIf { absent, inner, always: true }
}

#[derive(Clone)]
pub(crate) struct AbsentIf<F: FieldType> {
    absent: F::Value,
    inner: F,
    always: bool,
}

impl<F: FieldType> FieldType for AbsentIf<F>
where
    F::Value: PartialEq,
{
    type Value = F::Value;
    type Wire = Option<F::Wire>;
    fn encode(&self, value: &F::Value) -> Option<F::Wire> {
        (self.always || *value != self.absent).then(|| self.inner.encode(value))
    }
    fn decode(&self, field: &str, found: Option<F::Wire>) -> Result<F::Value, Malformed> {
        found.map_or_else(|| Ok(self.absent.clone()), |found| self.inner.decode(field, found))
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<F::Value> {
        if self.always {
            return self.inner.strategy();
        }
        let absent = self.absent.clone();
        prop_oneof![3 => self.inner.strategy(), 1 => Just(()).prop_map(move |()| absent.clone())].boxed()
    }
}

/// A value on the heap.
pub(crate) fn boxed<F: FieldType>(inner: F) -> Boxed<F> {
    Boxed(inner)
}

#[derive(Clone)]
pub(crate) struct Boxed<F>(F);

impl<F: FieldType> FieldType for Boxed<F> {
    type Value = Box<F::Value>;
    type Wire = F::Wire;
    fn encode(&self, value: &Box<F::Value>) -> F::Wire {
        self.0.encode(value)
    }
    fn decode(&self, field: &str, found: F::Wire) -> Result<Box<F::Value>, Malformed> {
        self.0.decode(field, found).map(Box::new)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Box<F::Value>> {
        self.0.strategy().prop_map(Box::new).boxed()
    }
}

/// The values of another field type, as another Rust type: `decoded` makes it, `encoded` goes back.
pub(crate) fn converted<F: FieldType, V>(
    inner: F,
    decoded: fn(F::Value) -> V,
    encoded: fn(&V) -> F::Value,
) -> Converted<F, V> {
    Converted { inner, decoded, encoded }
}

pub(crate) struct Converted<F: FieldType, V> {
    inner: F,
    decoded: fn(F::Value) -> V,
    encoded: fn(&V) -> F::Value,
}

impl<F: FieldType, V> Clone for Converted<F, V> {
    fn clone(&self) -> Self {
        converted(self.inner.clone(), self.decoded, self.encoded)
    }
}

impl<F: FieldType, V: Clone + Debug + 'static> FieldType for Converted<F, V> {
    type Value = V;
    type Wire = F::Wire;
    fn encode(&self, value: &V) -> F::Wire {
        self.inner.encode(&(self.encoded)(value))
    }
    fn decode(&self, field: &str, found: F::Wire) -> Result<V, Malformed> {
        self.inner.decode(field, found).map(self.decoded)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<V> {
        self.inner.strategy().prop_map(self.decoded).boxed()
    }
}

/// A list of at most `most` items.
pub(crate) fn list<F: FieldType>(item: F, most: usize) -> List<F> {
    List { item, most, least: None, cut: Truncation::End }
}

#[derive(Clone)]
pub(crate) struct List<F> {
    item: F,
    most: usize,
    /// What is expected of a list that must not be empty.
    least: Option<&'static str>,
    cut: Truncation,
}

/// Which items of a list that is too long are not sent.
#[derive(Clone, Copy)]
enum Truncation {
    Begin,
    End,
    None,
}

impl<F> List<F> {
    /// Not cut to the bounds: it comes from a user, whom the error at the other end informs.
    pub(crate) fn exact(self) -> List<F> {
        List { cut: Truncation::None, ..self }
    }

    /// With at least one item; `expected` says that.
    pub(crate) fn not_empty(self, expected: &'static str) -> List<F> {
        List { least: Some(expected), ..self }
    }

    /// The last items matter most.
    pub(crate) fn last(self) -> List<F> {
        List { cut: Truncation::Begin, ..self }
    }
}

impl<F: FieldType> FieldType for List<F> {
    type Value = Vec<F::Value>;
    type Wire = Vec<F::Wire>;
    fn encode(&self, value: &Vec<F::Value>) -> Vec<F::Wire> {
        let sent = match self.cut {
            Truncation::Begin => &value[value.len().saturating_sub(self.most)..],
            Truncation::End => &value[..value.len().min(self.most)],
            Truncation::None => value,
        };
        sent.iter().map(|item| self.item.encode(item)).collect()
    }
    fn decode(&self, field: &str, found: Vec<F::Wire>) -> Result<Vec<F::Value>, Malformed> {
        count(field, found.len(), self.most)?;
        if let (Some(expected), true) = (self.least, found.is_empty()) {
            return Err(Malformed::missing(field, expected));
        }
        let item = |(index, item)| self.item.decode("", item).map_err(|malformed| malformed.at(field, index));
        found.into_iter().enumerate().map(item).collect()
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Vec<F::Value>> {
        let least = usize::from(self.least.is_some());
        proptest::collection::vec(self.item.strategy(), least..=self.most.min(3)).boxed()
    }
}

/// The length of a list.
pub(crate) fn count(field: &str, found: usize, most: usize) -> Result<(), Malformed> {
    if found <= most {
        return Ok(());
    }
    Err(Malformed::new(field, format!("at most {most} items"), found))
}

/// At most `most` values by texts, which are not cut. Errors of a value name its key: `arguments[n]`.
pub(crate) fn map<K: FieldType, F: FieldType>(key: K, value: F, most: usize) -> Map<K, F> {
    Map { key, value, most }
}

#[derive(Clone)]
pub(crate) struct Map<K, F> {
    key: K,
    value: F,
    most: usize,
}

impl<K: FieldType<Value = String, Wire = String>, F: FieldType> FieldType for Map<K, F> {
    type Value = BTreeMap<String, F::Value>;
    type Wire = BTreeMap<String, F::Wire>;
    fn encode(&self, value: &BTreeMap<String, F::Value>) -> BTreeMap<String, F::Wire> {
        value.iter().map(|(key, value)| (self.key.encode(key), self.value.encode(value))).collect()
    }
    fn decode(
        &self,
        field: &str,
        found: BTreeMap<String, F::Wire>,
    ) -> Result<BTreeMap<String, F::Value>, Malformed> {
        count(field, found.len(), self.most)?;
        let checked = found.into_iter().map(|(key, value)| {
            let key = self.key.decode(field, key)?;
            let value = self.value.decode(&format!("{field}[{key}]"), value)?;
            Ok((key, value))
        });
        checked.collect()
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<BTreeMap<String, F::Value>> {
        proptest::collection::btree_map(self.key.strategy(), self.value.strategy(), 0..4).boxed()
    }
}

/// The arguments of a service, by name. Not cut: they come from a user, whom the error at the other end informs.
pub(crate) const ARGUMENTS: Map<Text, Text> =
    Map { key: ARGUMENT_NAME, value: ARGUMENT, most: bounds::ARGUMENTS_MAX };
