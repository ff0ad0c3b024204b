//! Options that take a word of a registry: help and completion list the words, anything else is refused.

use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use pliant_policy::UnknownName;
use pliant_policy::batch::order::Aging;
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic};
use pliant_policy::runtimes::predicted::Basis;
use pliant_policy::tuning::Tuner;
use pliant_request::registries::words;
use pliant_sim::Ties;
use pliant_sim::campaign::{self, Generator, Moldable};
use pliant_trace::generate::{MONTHS, Month};

pub(crate) fn tuner() -> impl TypedValueParser<Value = Tuner> {
    TunerParser
}

/// `--tuner`: help and completion list the names, parameters may follow a name in parentheses.
#[derive(Clone)]
struct TunerParser;

impl TypedValueParser for TunerParser {
    type Value = Tuner;

    fn parse_ref(
        &self,
        command: &clap::Command,
        option: Option<&clap::Arg>,
        text: &std::ffi::OsStr,
    ) -> Result<Tuner, clap::Error> {
        let parse = |text: &str| text.parse::<Tuner>();
        parse.parse_ref(command, option, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Tuner::ALL.iter().map(|one| PossibleValue::new(one.name()))))
    }
}

pub(crate) fn mapping() -> impl TypedValueParser<Value = Mapping> {
    words(Mapping::ALL.iter().map(|one| one.name()))
}

pub(crate) fn basis() -> impl TypedValueParser<Value = Basis> {
    words(Basis::ALL.iter().map(|one| one.name()))
}

pub(crate) fn heuristic() -> impl TypedValueParser<Value = Heuristic> {
    words(Heuristic::ALL.iter().map(|one| one.name()))
}

pub(crate) fn moldable() -> impl TypedValueParser<Value = Moldable> {
    words(Moldable::ALL.iter().map(|one| one.name()))
}

pub(crate) fn ties() -> impl TypedValueParser<Value = Ties> {
    words(["finish-first", "submit-first"])
}

pub(crate) fn batch() -> PossibleValuesParser {
    PossibleValuesParser::new(pliant_policy::batch::names())
}

pub(crate) fn order() -> PossibleValuesParser {
    PossibleValuesParser::new(pliant_policy::batch::order::ORDERS.iter().map(|one| one.name))
}

/// `--aging`: a bound, or `none`.
pub(crate) fn aging() -> impl TypedValueParser<Value = Aging> {
    |text: &str| text.parse::<Aging>()
}

/// `--realloc`: an algorithm, or `none`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReallocationChoice(pub(crate) Option<Algorithm>);

impl FromStr for ReallocationChoice {
    type Err = UnknownName;

    fn from_str(word: &str) -> Result<ReallocationChoice, UnknownName> {
        if word == "none" {
            Ok(ReallocationChoice(None))
        } else {
            word.parse().map(|one| ReallocationChoice(Some(one)))
        }
    }
}

pub(crate) fn realloc() -> impl TypedValueParser<Value = ReallocationChoice> {
    words(std::iter::once("none").chain(Algorithm::ALL.iter().map(|one| one.name())))
}

pub(crate) fn generator() -> impl TypedValueParser<Value = Generator> {
    words(Generator::ALL.iter().map(|one| one.name()))
}

pub(crate) fn month() -> impl TypedValueParser<Value = &'static Month> {
    PossibleValuesParser::new(MONTHS.iter().map(|month| month.name)).try_map(|word| campaign::month(&word))
}
