//! TOML files that users write: errors with line, column, key and a hint.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

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

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where a file is that the text names: relative to its own.
    pub fn beside(&self, named: &Path) -> PathBuf {
        self.path.parent().map_or_else(|| named.to_owned(), |folder| folder.join(named))
    }

    /// Reads the values. `hint` says what such a file looks like.
    pub fn parse<T: DeserializeOwned>(&self, hint: &str) -> Result<T, TraceError> {
        toml::from_str(&self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = in_plain_words(error.message());
            // A message about keys names them itself.
            let about_keys = message.starts_with("unknown key") || message.starts_with("missing key");
            let message = if about_keys { message } else { self.about_key(&span, message) };
            self.error(span, message, hint.to_owned())
        })
    }

    /// The message, behind the key whose value begins in `span`, if its line has one.
    pub fn about_key(&self, span: &Range<usize>, message: String) -> String {
        let line_start =
            self.text[..self.text.floor_char_boundary(span.start)].rfind('\n').map_or(0, |end| end + 1);
        let line = self.text[line_start..].lines().next().unwrap_or_default();
        match line.split_once('=').map(|(key, _)| key.trim()) {
            Some(key) if !key.is_empty() && !key.starts_with('#') => format!("`{key}`: {message}"),
            _ => message,
        }
    }

    /// An error about the bytes of `span`.
    pub fn error(&self, span: Range<usize>, message: String, hint: String) -> TraceError {
        let before = &self.text[..self.text.floor_char_boundary(span.start)];
        let line = before.matches('\n').count() as u64 + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() as u64 + 1;
        TraceError::new(self.path, Problem::Key { line, column, message, hint })
    }
}

/// A parser's message in the words of this project: keys, tables and lists instead of fields, structs and
/// sequences; what was expected before what was found.
pub(crate) fn in_plain_words(message: &str) -> String {
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

/// `` `key`: expected a thing (these, ones), found `word` ``.
pub fn unknown_word(key: &str, what: &str, word: &str, expected: &[&str]) -> String {
    format!("`{key}`: expected {what} ({}), found `{word}`", expected.join(", "))
}

#[cfg(test)]
mod tests {
    use super::in_plain_words;

    #[test]
    fn messages_are_in_plain_words() {
        let check = |message: &str, expected: &str| assert_eq!(in_plain_words(message), expected);
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
