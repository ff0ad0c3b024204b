//! The text of a configuration file and errors that point into it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// The text of a configuration file with its path.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    text: String,
}

/// An error at a position in a configuration file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}:{line}:{column}: {message}", path.display())]
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
    /// The text read from `path`.
    pub fn new(path: &Path, text: String) -> Source {
        Source { path: path.to_owned(), text }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Deserializes the text. `hint` describes the expected content.
    ///
    /// # Errors
    ///
    /// If a key is unknown or missing, or a value has the wrong type.
    pub fn parse<T: DeserializeOwned>(&self, hint: &str) -> Result<T, ContentError> {
        toml::from_str(&self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = plain_message(error.message());
            // The parser's messages about unknown and missing keys contain the key.
            let about_keys = message.starts_with("unknown key") || message.starts_with("missing key");
            let message = if about_keys { message } else { self.about_key(&span, message) };
            self.error(span, message, hint)
        })
    }

    /// The message, prefixed with the key whose value begins at `span` if its line has one.
    pub fn about_key(&self, span: &Range<usize>, message: String) -> String {
        let at = self.text.floor_char_boundary(span.start);
        let line_start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        match line.split_once('=').map(|(key, _)| key.trim()) {
            Some(key) if !key.is_empty() && !key.starts_with('#') => format!("`{key}`: {message}"),
            _ => message,
        }
    }

    /// An error at the first byte of `span`.
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

/// A parser's message in Pliant's terms: keys, tables and lists instead of fields, structs and sequences; what was
/// expected before what was found.
pub fn plain_message(message: &str) -> String {
    let message = message.trim_end().replace('\n', "; ");
    let message = message.replace("unknown field", "unknown key").replace("missing field", "missing key");
    if message.starts_with("EOF while parsing") {
        return "expected more, found the end of the file".to_owned();
    }
    if message == "expected value" {
        return "expected a value".to_owned();
    }
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match mismatch.and_then(|rest| rest.split_once(", expected ")) {
        Some((found, expected)) => format!("expected {}, found {}", kind(expected), value(found)),
        None => message,
    }
}

fn kind(expected: &str) -> &str {
    match expected {
        "f64" => "a number",
        "u32" => "a whole number of 0 to 4294967295",
        "u64" | "usize" => "a whole number of at least 0",
        "i64" => "a whole number",
        "a boolean" => "true or false",
        "a string" | "path string" | "string or table" => "text in quotes",
        "a sequence" => "a list",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

fn value(found: &str) -> &str {
    let number = ["integer ", "floating point ", "boolean "].iter().find_map(|kind| found.strip_prefix(kind));
    match (number, found.strip_prefix("string "), found) {
        (Some(number), ..) => number,
        (None, Some(text), _) => text,
        (None, None, "map") => "a table",
        (None, None, "sequence") => "a list",
        (None, None, other) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::plain_message;

    #[test]
    fn messages_use_the_terms_of_toml() {
        let check = |message: &str, expected: &str| assert_eq!(plain_message(message), expected);
        check("unknown field `a`, expected `b` or `c`", "unknown key `a`, expected `b` or `c`");
        check("missing field `name`", "missing key `name`");
        check("invalid type: string \"high\", expected f64", "expected a number, found \"high\"");
        check("invalid type: floating point `4.5`, expected i64", "expected a whole number, found `4.5`");
        check(
            "invalid value: integer `-1`, expected u32",
            "expected a whole number of 0 to 4294967295, found `-1`",
        );
        check("invalid type: map, expected a sequence", "expected a list, found a table");
        check("invalid type: boolean `true`, expected a string", "expected text in quotes, found `true`");
        check("invalid type: sequence, expected struct File", "expected a table, found a list");
        check("EOF while parsing a list", "expected more, found the end of the file");
        check("unclosed array table, expected `]`\n", "unclosed array table, expected `]`");
    }
}
