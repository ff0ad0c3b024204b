//! Words of campaign files and options that have no registry of their own.

use std::str::FromStr;

use pliant_policy::UnknownName;
use pliant_policy::history::Choice;
use pliant_policy::runtimes::Estimator;

use crate::Ties;

/// Which jobs are moldable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moldable {
    /// None: every job keeps the size that its log says.
    None,
    /// Those of more than one processor, with the four types of paper 000 (section 4.2.1).
    Paper,
}

impl Moldable {
    /// Every one, in the order in which they are listed to users.
    pub const ALL: &'static [Moldable] = &[Moldable::None, Moldable::Paper];

    /// The stable name, as in options and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Paper => "paper",
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

impl FromStr for Ties {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Ties, UnknownName> {
        let words = vec![("finish-first", Ties::FinishFirst), ("submit-first", Ties::SubmitFirst)];
        find("order of events", words, text)
    }
}

/// What is taken of a category.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EstimatorWord {
    Mean,
    RecentMean,
    Quantile,
}

impl FromStr for EstimatorWord {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<EstimatorWord, UnknownName> {
        let words = vec![
            ("mean", EstimatorWord::Mean),
            ("recent-mean", EstimatorWord::RecentMean),
            ("quantile", EstimatorWord::Quantile),
        ];
        find("estimator", words, text)
    }
}

/// What is taken of a category, by its word and its quantile; an error is a sentence for the user.
pub(super) fn estimator(word: Option<EstimatorWord>, quantile: Option<f64>) -> Result<Estimator, String> {
    match (word, quantile) {
        (None | Some(EstimatorWord::Mean), None) => Ok(Estimator::Mean),
        (Some(EstimatorWord::RecentMean), None) => Ok(Estimator::RecentMean),
        (Some(EstimatorWord::Quantile), Some(quantile)) => {
            Choice::new(quantile, 1.0).map(Estimator::Quantile).map_err(|error| error.to_string())
        }
        _ => Err("expected `quantile` with `estimator = \"quantile\"` and nowhere else".to_owned()),
    }
}

/// The value of a word, or what the words are.
pub(super) fn find<T>(
    what: &'static str,
    words: Vec<(&'static str, T)>,
    text: &str,
) -> Result<T, UnknownName> {
    let expected = words.iter().map(|(word, _)| *word).collect();
    let found = words.into_iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| value).ok_or_else(|| UnknownName { what, found: text.to_owned(), expected })
}
