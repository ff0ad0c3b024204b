//! Words of a command of which something is open until it is run.

use pliant_model::{Procs, Span};
use serde::{Deserialize, Serialize};

/// A word of which only the processors and the walltime are open, which are decided after the submission; and in a batch
/// the values that differ between its instances.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Word(Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Piece {
    /// This text.
    Text(String),
    /// The processors.
    Procs,
    /// The walltime in seconds.
    WalltimeS,
    /// The value of an argument that differs between the instances of a multi-job.
    Varied(String),
}

impl Word {
    /// A word of these pieces.
    pub(crate) fn of(pieces: Vec<Piece>) -> Word {
        Word(pieces)
    }

    /// A word with nothing open.
    pub fn text(text: impl Into<String>) -> Word {
        Word(vec![Piece::Text(text.into())])
    }

    /// The word of a job that starts on `procs` processors for `walltime`.
    pub fn at_start(&self, procs: Procs, walltime: Span) -> String {
        self.of_instance(procs, walltime, |_| "")
    }

    /// The same with its processors and its walltime, and what else was left open.
    #[must_use]
    pub(crate) fn with_size(&self, procs: Procs, walltime: Span) -> Word {
        let piece = |piece: &Piece| match piece {
            Piece::Procs => Piece::Text(procs.0.to_string()),
            Piece::WalltimeS => Piece::Text(walltime.seconds().to_string()),
            Piece::Text(_) | Piece::Varied(_) => piece.clone(),
        };
        Word(self.0.iter().map(piece).collect())
    }

    /// The same as text, with these values of the arguments that were left open.
    pub(crate) fn filled<'a>(&self, value: impl Fn(&str) -> &'a str) -> String {
        self.of_instance(Procs::ONE, Span::ZERO, value)
    }

    /// The argument that was left open with whose value the word begins; none if it begins with something else. Empty ones do not
    /// count.
    pub(crate) fn opened_by(&self, is_empty: impl Fn(&str) -> bool) -> Option<&str> {
        let begins = self.0.iter().find_map(|piece| match piece {
            Piece::Varied(name) if is_empty(name) => None,
            Piece::Varied(name) => Some(Some(name.as_str())),
            _ => Some(None),
        });
        begins.flatten()
    }

    /// The same of an instance with these values of the arguments that were left open.
    pub(crate) fn of_instance<'a>(
        &self,
        procs: Procs,
        walltime: Span,
        value: impl Fn(&str) -> &'a str,
    ) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Procs => procs.0.to_string(),
            Piece::WalltimeS => walltime.seconds().to_string(),
            Piece::Varied(name) => value(name).to_owned(),
        };
        self.0.iter().map(piece).collect()
    }
}
