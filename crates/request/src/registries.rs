//! Options that take a word of a registry: help and completion list the words, anything else is refused.

use std::str::FromStr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use pliant_policy::UnknownName;
use pliant_policy::allocation::Strategy;

/// Reads one of these words.
pub fn words<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err = UnknownName> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|word| word.parse::<T>())
}

/// Reads a way to allocate instances to servers.
pub fn strategy() -> impl TypedValueParser<Value = Strategy> {
    words(Strategy::ALL.iter().map(|one| one.name()))
}
