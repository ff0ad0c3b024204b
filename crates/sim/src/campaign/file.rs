//! The tables and keys of a campaign file in TOML. [`super::check`] checks their meaning.
//!
//! Unknown keys are errors. `docs/reference/files/campaign.md` lists the keys.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use pliant_policy::UnknownName;
use pliant_policy::batch::order::Aging;
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic};
use pliant_policy::runtimes::Level;
use pliant_policy::runtimes::predicted::{Basis, Correction, Fallback};
use pliant_policy::tuning::Tuner;
use pliant_trace::CalendarMonth;
use pliant_trace::generate::Month;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::keywords::{EstimatorKeyword, find};
use super::sequence::Times;
use super::{Generator, Moldable, Sizes, month};
use crate::{Estimates, MoldableMemory, Ties};

/// Distinguishes campaigns of optional computations from those of jobs.
#[derive(Deserialize)]
pub(super) struct Kind {
    pub(super) scenario: Option<de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Spanned<String>,
    pub(super) seeds: Spanned<Seeds>,
    pub(super) dedicated_shares: Option<Spanned<Vec<Spanned<f64>>>>,
    pub(super) moldable: Option<Spanned<Vec<Keyword<Moldable>>>>,
    pub(super) platforms: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) batches: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) reference: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) planned_starts: bool,
    pub(super) tuner: Option<Keyword<Tuner>>,
    pub(super) mapping: Option<Keyword<Mapping>>,
    pub(super) ties: Option<Keyword<Ties>>,
    pub(super) workload: Spanned<Vec<Spanned<WorkloadTable>>>,
    pub(super) policy: Spanned<Vec<Spanned<PolicyTable>>>,
    /// Read before the rest ([`super::Kind`]).
    #[serde(default, rename = "kind")]
    _kind: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadTable {
    pub(super) name: Spanned<String>,
    pub(super) file: Option<PathBuf>,
    pub(super) optional: Option<Spanned<bool>>,
    pub(super) repair: Option<Spanned<Keyword<Repair>>>,
    pub(super) generate: Option<Spanned<Keyword<Generator>>>,
    pub(super) month: Option<Spanned<MonthName>>,
    pub(super) jobs: Option<Spanned<u32>>,
    pub(super) days: Option<Spanned<f64>>,
    pub(super) months: Option<Spanned<Months>>,
    pub(super) load: Option<Spanned<Loads>>,
    pub(super) walltime_max_s: Option<Spanned<i64>>,
    pub(super) seed: Option<Spanned<u64>>,
    pub(super) per_seed: Option<Spanned<bool>>,
    pub(super) sequence_jobs: Option<Spanned<i64>>,
    pub(super) sequence_first: Option<Spanned<Vec<usize>>>,
    pub(super) sequence_times: Option<Spanned<Keyword<Times>>>,
    pub(super) platform: Option<Spanned<String>>,
    pub(super) procs: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyTable {
    pub(super) name: Spanned<String>,
    pub(super) batch: Option<Spanned<String>>,
    pub(super) order: Option<Spanned<String>>,
    pub(super) aging: Option<Spanned<Keyword<Aging>>>,
    pub(super) compare_with: Option<Spanned<Vec<Spanned<String>>>>,
    pub(super) sizes: Option<Spanned<Keyword<Sizes>>>,
    pub(super) tuner: Option<Spanned<Keyword<Tuner>>>,
    pub(super) slack: Option<Spanned<f64>>,
    pub(super) share: Option<Spanned<f64>>,
    pub(super) efficiency: Option<Spanned<f64>>,
    pub(super) price: Option<Spanned<f64>>,
    pub(super) mapping: Option<Keyword<Mapping>>,
    pub(super) ties: Option<Keyword<Ties>>,
    pub(super) realloc: Option<Keyword<ReallocationChoice>>,
    pub(super) heuristic: Option<Keyword<Heuristic>>,
    pub(super) period_s: Option<Spanned<i64>>,
    pub(super) threshold_s: Option<Spanned<i64>>,
    pub(super) window: Option<Spanned<i64>>,
    pub(super) plan_by: Option<Keyword<Basis>>,
    pub(super) estimates: Option<Keyword<Estimates>>,
    pub(super) memory: Option<Keyword<MoldableMemory>>,
    pub(super) level: Option<Spanned<Keyword<Level>>>,
    pub(super) estimator: Option<Spanned<Keyword<EstimatorKeyword>>>,
    pub(super) quantile: Option<Spanned<f64>>,
    pub(super) last_jobs: Option<Spanned<i64>>,
    pub(super) least_jobs: Option<Spanned<i64>>,
    pub(super) fallback: Option<Spanned<Keyword<Fallback>>>,
    pub(super) correction: Option<Spanned<Keyword<Correction>>>,
}

impl PolicyTable {
    /// The keys that are parameters of tuners, with their values.
    pub(super) fn tuner_keys(&self) -> [(&'static str, &Option<Spanned<f64>>); 4] {
        let Self { slack, share, efficiency, price, .. } = self;
        [("slack", slack), ("share", share), ("efficiency", efficiency), ("price", price)]
    }

    /// The position of the first key that requires plans by predictions.
    pub(super) fn prediction_key(&self) -> Option<Range<usize>> {
        let spans = [
            self.level.as_ref().map(Spanned::span),
            self.estimator.as_ref().map(Spanned::span),
            self.quantile.as_ref().map(Spanned::span),
            self.last_jobs.as_ref().map(Spanned::span),
            self.least_jobs.as_ref().map(Spanned::span),
            self.fallback.as_ref().map(Spanned::span),
            self.correction.as_ref().map(Spanned::span),
        ];
        spans.into_iter().flatten().min_by_key(|span| span.start)
    }
}

impl WorkloadTable {
    /// The keys that require `generate`, with their positions.
    pub(super) fn generator_keys(&self) -> [(&'static str, Option<Range<usize>>); 7] {
        fn span<T>(given: &Option<Spanned<T>>) -> Option<Range<usize>> {
            given.as_ref().map(Spanned::span)
        }
        [
            ("month", span(&self.month)),
            ("jobs", span(&self.jobs)),
            ("days", span(&self.days)),
            ("load", span(&self.load)),
            ("walltime_max_s", span(&self.walltime_max_s)),
            ("seed", span(&self.seed)),
            ("per_seed", span(&self.per_seed)),
        ]
    }
}

/// `realloc`: an algorithm or `none`.
#[derive(Clone, Copy)]
pub(super) struct ReallocationChoice(pub(super) Option<Algorithm>);

impl FromStr for ReallocationChoice {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<ReallocationChoice, Self::Err> {
        if text == "none" {
            return Ok(ReallocationChoice(None));
        }
        text.parse().map(|algorithm| ReallocationChoice(Some(algorithm))).map_err(|mut unknown: Self::Err| {
            unknown.expected.insert(0, "none");
            unknown
        })
    }
}

/// `month`: a month of paper 000.
#[derive(Clone, Copy)]
pub(super) struct MonthName(pub(super) &'static Month);

impl<'de> Deserialize<'de> for MonthName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MonthName, D::Error> {
        month(&String::deserialize(deserializer)?).map(MonthName).map_err(de::Error::custom)
    }
}

/// `repair`: whether broken jobs are dropped or kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repair {
    Clean,
    KeepBad,
}

impl FromStr for Repair {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Repair, Self::Err> {
        find("repair", vec![("clean", Repair::Clean), ("keep-bad", Repair::KeepBad)], text)
    }
}

/// A name of a registry. The TOML deserializer adds the position to the registry's error.
#[derive(Clone, Copy)]
pub(super) struct Keyword<T>(pub(super) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Keyword<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keyword<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Keyword).map_err(de::Error::custom)
    }
}

/// `seeds = [1, 2]` or `seeds = { from = 1, count = 10 }`.
pub(super) struct Seeds(pub(super) Vec<u64>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SeedRange {
    from: u64,
    count: u64,
}

impl<'de> Deserialize<'de> for Seeds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seeds, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Seeds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of seeds or { from = 1, count = 10 }")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Seeds, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(Seeds)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Seeds, A::Error> {
                let SeedRange { from, count } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                let end = from.checked_add(count).filter(|_| count <= 1_000_000);
                let end = end.ok_or_else(|| de::Error::custom("expected at most 1000000 seeds"))?;
                Ok(Seeds((from..end).collect()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// `months = { from = "1996-10", count = 8 }`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Months {
    pub(super) from: Keyword<CalendarMonth>,
    pub(super) count: Spanned<i64>,
}

/// `load = 0.7` or `load = [0.4, 0.7]`.
pub(super) enum Loads {
    One(f64),
    List(Vec<f64>),
}

impl<'de> Deserialize<'de> for Loads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Loads, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Loads;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a list of numbers")
            }

            fn visit_f64<E>(self, load: f64) -> Result<Loads, E> {
                Ok(Loads::One(load))
            }

            fn visit_i64<E>(self, load: i64) -> Result<Loads, E> {
                Ok(Loads::One(load as f64))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<Loads, A::Error> {
                Deserialize::deserialize(SeqAccessDeserializer::new(list)).map(Loads::List)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
