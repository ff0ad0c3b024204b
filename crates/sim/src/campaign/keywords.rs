//! Keywords of campaign files and options that have no registry of their own.

use std::str::FromStr;

use pliant_policy::UnknownName;
use pliant_policy::runtimes::Choice;
use pliant_policy::runtimes::Estimator;

use super::Sizes;
use crate::{Estimates, MoldableMemory, Ties};

/// The choice of moldable jobs and their speedups (`docs/reference/files/workload.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moldable {
    /// None: every job keeps its size in the log.
    None,
    /// Jobs of more than one processor, with the four types of paper 000 (section 4.2.1).
    Paper,
    /// The same jobs and types, with sizes from half to twice the requested one.
    PaperWithin2x,
    /// A third of these jobs.
    PaperThird,
    /// All of these jobs, with wrong assumed speedups, which plans use.
    PaperMisjudged,
}

impl Moldable {
    /// All choices, in the order of user listings.
    pub const ALL: &'static [Moldable] =
        &[Self::None, Self::Paper, Self::PaperWithin2x, Self::PaperThird, Self::PaperMisjudged];

    /// The stable name, as in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Paper => "paper",
            Self::PaperWithin2x => "paper-within-2x",
            Self::PaperThird => "paper-third",
            Self::PaperMisjudged => "paper-misjudged",
        }
    }

    /// Its description, in a line.
    pub const fn summary(self) -> &'static str {
        match self {
            Self::None => "every job keeps the size that its log says",
            Self::Paper => {
                "jobs of two processors and more scale by Amdahl's law, in four types drawn from the seed"
            }
            Self::PaperWithin2x => "the same types, with sizes from half to twice the requested one",
            Self::PaperThird => "the same types for a third of these jobs, drawn from the seed",
            Self::PaperMisjudged => {
                "the same types; plans believe in a sequential fraction of 1/4, 1/2, 2 or 4 times the true one"
            }
        }
    }
}

impl FromStr for Moldable {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Moldable, UnknownName> {
        let words = Self::ALL.iter().map(|one| (one.name(), *one)).collect();
        find("choice of moldable jobs", words, text)
    }
}

impl FromStr for Sizes {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Sizes, UnknownName> {
        find("choice of sizes", vec![("chosen", Sizes::Chosen), ("asked", Sizes::Asked)], text)
    }
}

impl FromStr for Ties {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Ties, UnknownName> {
        let words = vec![("finish-first", Ties::FinishFirst), ("submit-first", Ties::SubmitFirst)];
        find("order of events", words, text)
    }
}

impl FromStr for Estimates {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Estimates, UnknownName> {
        let words = vec![("nodes", Estimates::Nodes), ("processors", Estimates::Processors)];
        find("basis of estimates", words, text)
    }
}

impl FromStr for MoldableMemory {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<MoldableMemory, UnknownName> {
        let words = vec![("per-processor", MoldableMemory::PerProcessor), ("total", MoldableMemory::Total)];
        find("memory of moldable jobs", words, text)
    }
}

/// The estimator of a category, by its keyword.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EstimatorKeyword {
    Mean,
    RecentMean,
    Quantile,
}

impl FromStr for EstimatorKeyword {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<EstimatorKeyword, UnknownName> {
        let words = vec![
            ("mean", EstimatorKeyword::Mean),
            ("recent-mean", EstimatorKeyword::RecentMean),
            ("quantile", EstimatorKeyword::Quantile),
        ];
        find("estimator", words, text)
    }
}

/// The estimator of a keyword and a quantile; an error is a sentence for the user.
pub(super) fn estimator(word: Option<EstimatorKeyword>, quantile: Option<f64>) -> Result<Estimator, String> {
    match (word, quantile) {
        (None | Some(EstimatorKeyword::Mean), None) => Ok(Estimator::Mean),
        (Some(EstimatorKeyword::RecentMean), None) => Ok(Estimator::RecentMean),
        (Some(EstimatorKeyword::Quantile), Some(quantile)) => {
            Choice::new(quantile, 1.0).map(Estimator::Quantile).map_err(|error| error.to_string())
        }
        _ => Err("expected `quantile` with `estimator = \"quantile\"` and nowhere else".to_owned()),
    }
}

/// Finds the value of a keyword, or fails with the list of keywords.
pub(super) fn find<T>(
    what: &'static str,
    words: Vec<(&'static str, T)>,
    text: &str,
) -> Result<T, UnknownName> {
    let expected = words.iter().map(|(word, _)| *word).collect();
    let found = words.into_iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| value).ok_or_else(|| UnknownName { what, found: text.to_owned(), expected })
}
