//! TOML files that users write: errors with line, column, key and a hint.

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pliant_config::ContentError;
use serde::de::DeserializeOwned;

use crate::error::{Problem, TraceError};
use crate::lines::{open, read_all};

/// The text of a TOML file, for errors that point into it.
pub struct Source(pliant_config::Source);

impl Source {
    /// Reads a file of at most 64 MiB.
    pub fn read(path: &Path) -> Result<Source, TraceError> {
        let input = open(path).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
        Source::read_from(path, input)
    }

    /// Reads what is open already.
    pub(crate) fn read_from(path: &Path, input: impl Read) -> Result<Source, TraceError> {
        let content = read_all(input, 64 << 20).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
        let text = String::from_utf8(content).map_err(|error| {
            let message =
                format!("expected UTF-8 text, found another byte at {}", error.utf8_error().valid_up_to());
            TraceError::new(path, Problem::Content { message, hint: "is this a TOML file?".to_owned() })
        })?;
        Ok(Source(pliant_config::Source::new(path, text)))
    }

    /// A text that is in memory; `path` is for errors.
    pub fn of(path: &Path, text: &str) -> Source {
        Source(pliant_config::Source::new(path, text.to_owned()))
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The path of a file that the text names: relative to its own folder.
    pub fn beside(&self, named: &Path) -> PathBuf {
        self.0.path().parent().map_or_else(|| named.to_owned(), |folder| folder.join(named))
    }

    /// Reads the values. `hint` says what such a file looks like.
    pub fn parse<T: DeserializeOwned>(&self, hint: &str) -> Result<T, TraceError> {
        self.0.parse(hint).map_err(TraceError::from)
    }

    /// The message, behind the key whose value begins in `span`, if its line has one.
    pub fn about_key(&self, span: &Range<usize>, message: String) -> String {
        self.0.about_key(span, message)
    }

    /// An error about the bytes of `span`.
    pub fn error(&self, span: Range<usize>, message: String, hint: String) -> TraceError {
        self.0.error(span, message, hint).into()
    }
}

impl From<ContentError> for TraceError {
    fn from(error: ContentError) -> TraceError {
        let ContentError { path, line, column, message, hint } = error;
        let (line, column) = (line as u64, column as u64);
        TraceError { path, problem: Problem::Key { line, column, message, hint } }
    }
}

/// `` `key`: expected a thing (these, ones), found `word` ``.
pub fn unknown_word(key: &str, what: &str, word: &str, expected: &[&str]) -> String {
    format!("`{key}`: expected {what} ({}), found `{word}`", expected.join(", "))
}
