//! Configuration files: errors with line, column, key and a hint.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// The text of a configuration file, for errors that point into it.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
}

/// A configuration that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContentError {
    /// The file.
    pub path: PathBuf,
    /// The line; 1 is the first.
    pub line: usize,
    /// The column in characters; 1 is the first.
    pub column: usize,
    /// What was expected and what was found, naming the key.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Source {
    /// A text that was read from `path`.
    pub fn new(path: &Path, text: String) -> Source {
        Source { path: path.to_owned(), text }
    }

    /// Reads the values. `hint` says what such a file looks like.
    ///
    /// # Errors
    ///
    /// If a key is unknown or missing or has a value of another kind.
    pub fn parse<T: DeserializeOwned>(&self, hint: &str) -> Result<T, ContentError> {
        toml::from_str(&self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = in_plain_words(error.message());
            let about_keys = message.starts_with("unknown key") || message.starts_with("missing key");
            let message = if about_keys { message } else { self.about_key(&span, message) };
            self.error(span, message, hint)
        })
    }

    /// The message, behind the key whose value begins in `span`, if its line has one.
    fn about_key(&self, span: &Range<usize>, message: String) -> String {
        let at = self.text.floor_char_boundary(span.start);
        let line_start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        match line.split_once('=').map(|(key, _)| key.trim()) {
            Some(key) if !key.is_empty() && !key.starts_with('#') => format!("`{key}`: {message}"),
            _ => message,
        }
    }

    /// An error about the bytes of `span`.
    pub fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ContentError {
        let before = &self.text[..self.text.floor_char_boundary(span.start)];
        ContentError {
            path: self.path.clone(),
            line: before.matches('\n').count() + 1,
            column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
            message: message.into(),
            hint: hint.into(),
        }
    }
}

/// A parser's message in the words of this project: keys, tables and lists instead of fields, structs and
/// sequences; what was expected before what was found.
fn in_plain_words(message: &str) -> String {
    let message = message.trim_end().replace('\n', "; ");
    let message = message.replace("unknown field", "unknown key").replace("missing field", "missing key");
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match mismatch.and_then(|rest| rest.split_once(", expected ")) {
        Some((found, expected)) => format!("expected {}, found {}", kind(expected), value(found)),
        None => message,
    }
}

fn kind(expected: &str) -> &str {
    match expected {
        "f64" => "a number",
        "i64" => "a whole number",
        "a boolean" => "true or false",
        "a string" => "text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

fn value(found: &str) -> &str {
    let kinds = ["integer ", "floating point ", "boolean ", "string "];
    match found {
        "map" => "a table",
        "sequence" => "a list",
        other => kinds.iter().find_map(|kind| other.strip_prefix(kind)).unwrap_or(other),
    }
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.path.display(), self.line, self.column, self.message)
    }
}

impl std::error::Error for ContentError {}
