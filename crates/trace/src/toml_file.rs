//! TOML files of workloads, platforms and applications, read with bounds.

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

    /// Reads an open file.
    pub(crate) fn read_from(path: &Path, input: impl Read) -> Result<Source, TraceError> {
        let content = read_all(input, 64 << 20).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
        let text = String::from_utf8(content).map_err(|error| {
            let message =
                format!("expected UTF-8 text, found another byte at {}", error.utf8_error().valid_up_to());
            TraceError::new(
                path,
                Problem::Content { message, hint: "check that the file is TOML".to_owned() },
            )
        })?;
        Ok(Source(pliant_config::Source::new(path, text)))
    }

    /// A text in memory; errors name `path`.
    pub fn of(path: &Path, text: &str) -> Source {
        Source(pliant_config::Source::new(path, text.to_owned()))
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The path of a file named in the text, resolved against the folder of this file.
    pub fn resolve(&self, named: &Path) -> PathBuf {
        self.0.path().parent().map_or_else(|| named.to_owned(), |folder| folder.join(named))
    }

    /// Deserializes the text. `hint` describes the expected content.
    pub fn parse<T: DeserializeOwned>(&self, hint: &str) -> Result<T, TraceError> {
        self.0.parse(hint).map_err(TraceError::from)
    }

    /// The message, prefixed with the key whose value begins at `span` if its line has one.
    pub fn about_key(&self, span: &Range<usize>, message: String) -> String {
        self.0.about_key(span, message)
    }

    /// An error at the first byte of `span`.
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
