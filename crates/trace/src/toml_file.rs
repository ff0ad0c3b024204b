//! TOML files that users write: errors with line, column, key and a hint.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::error::{Problem, TraceError};
use crate::lines::{open, read_all};

/// The text of a TOML file, for errors that point into it.
pub struct Source<'a> {
    path: &'a Path,
    text: Cow<'a, str>,
}

impl<'a> Source<'a> {
    /// Reads a file of at most 64 MiB.
    pub fn read(path: &'a Path) -> Result<Source<'a>, TraceError> {
        let input = open(path).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
        Source::read_from(path, input)
    }

    /// Reads what is open already.
    pub(crate) fn read_from(path: &'a Path, input: impl Read) -> Result<Source<'a>, TraceError> {
        let content = read_all(input, 64 << 20).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
        let text = String::from_utf8(content).map_err(|error| {
            let message =
                format!("expected UTF-8 text, found another byte at {}", error.utf8_error().valid_up_to());
            TraceError::new(path, Problem::Content { message, hint: "is this a TOML file?".to_owned() })
        })?;
        Ok(Source { path, text: Cow::Owned(text) })
    }

    /// A text that is in memory; `path` is for errors.
    pub fn of(path: &'a Path, text: &'a str) -> Source<'a> {
        Source { path, text: Cow::Borrowed(text) }
    }

    /// Reads the values. `hint` says what such a file looks like.
    pub fn parse<T: DeserializeOwned>(&self, hint: &str) -> Result<T, TraceError> {
        toml::from_str(&self.text).map_err(|error| {
            self.error(error.span().unwrap_or(0..0), error.message().to_owned(), hint.to_owned())
        })
    }

    /// An error about the bytes of `span`.
    pub fn error(&self, span: Range<usize>, message: String, hint: String) -> TraceError {
        let before = &self.text[..self.text.floor_char_boundary(span.start)];
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        TraceError::new(self.path, Problem::Key { line, column, message, hint })
    }
}

/// `` `key`: expected a thing (these, ones), found `word` ``.
pub fn unknown_word(key: &str, what: &str, word: &str, expected: &[&str]) -> String {
    format!("`{key}`: expected {what} ({}), found `{word}`", expected.join(", "))
}
