//! The part of TOML in which the launcher's file is written: keys with numbers, truth values, texts and lists of texts.
//!
//! Comments, lists over several lines and both kinds of quotes are TOML's. Tables, dates, escapes and everything else is refused: a file is
//! never understood otherwise than TOML's readers understand it.

use crate::error::ConfigError;

/// A key and its value.
pub(crate) struct Entry {
    /// The line of the key, from 1.
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) value: Value,
}

/// A value of the file.
pub(crate) enum Value {
    Number(u64),
    Bool(bool),
    Text(String),
    List(Vec<String>),
}

/// The entries of a text, each key once.
pub(crate) fn parse(text: &str) -> Result<Vec<Entry>, ConfigError> {
    // Neither a text nor a comment can have a line break, whichever it is.
    let text = text.replace("\r\n", "\n");
    let mut reader = Reader { text: &text, rest: &text };
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        reader.skip_lines();
        if reader.rest.is_empty() {
            return Ok(entries);
        }
        let line = reader.line();
        let key = reader.take_while(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-'));
        if key.is_empty() {
            return Err(reader.expected("a key"));
        }
        if let Some(Entry { line, .. }) = entries.iter().find(|entry| entry.key == key) {
            return Err(reader.error(format!("the key `{key}` is there twice, first in line {line}")));
        }
        reader.skip_blanks();
        if !reader.skip('=') {
            return Err(reader.expected("`=` behind the key"));
        }
        reader.skip_blanks();
        let value = reader.value()?;
        reader.skip_comment();
        if !reader.rest.is_empty() && !reader.skip('\n') {
            return Err(reader.expected("the end of the line"));
        }
        entries.push(Entry { line, key: key.to_owned(), value });
    }
}

struct Reader<'a> {
    text: &'a str,
    /// What is still to be read of it.
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn value(&mut self) -> Result<Value, ConfigError> {
        if self.skip('[') {
            return self.list().map(Value::List);
        }
        if self.rest.starts_with(['t', 'f']) {
            let word = self.take_while(|char| char.is_ascii_alphanumeric());
            let value =
                word.parse().map_err(|_| self.error(format!("expected true or false, found `{word}`")));
            return value.map(Value::Bool);
        }
        let digits = self.take_while(|char| char.is_ascii_digit());
        match digits.parse() {
            Ok(number) if digits == "0" || !digits.starts_with('0') => Ok(Value::Number(number)),
            _ if digits.is_empty() => {
                self.text("a number, true, false, a text in quotes or a list of texts").map(Value::Text)
            }
            _ => Err(self.error(format!("`{digits}` is no number that can be used here"))),
        }
    }

    /// The rest of a list.
    fn list(&mut self) -> Result<Vec<String>, ConfigError> {
        let mut list = Vec::new();
        loop {
            self.skip_lines();
            if self.skip(']') {
                return Ok(list);
            }
            list.push(self.text("a text in quotes")?);
            self.skip_lines();
            if !self.skip(',') && !self.rest.starts_with(']') {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    /// A text, where `expected` has to be.
    fn text(&mut self, expected: &str) -> Result<String, ConfigError> {
        let quote = ['"', '\''].into_iter().find(|quote| self.skip(*quote));
        let quote = quote.ok_or_else(|| self.expected(expected))?;
        let text = self.take_while(|char| char != quote && char != '\\' && !char.is_control());
        let end = "the quote at the end of a text (which has no `\\` and no control characters)";
        if self.skip(quote) { Ok(text.to_owned()) } else { Err(self.expected(end)) }
    }

    fn skip_lines(&mut self) {
        loop {
            self.skip_comment();
            if !self.skip('\n') {
                return;
            }
        }
    }

    /// Blanks, and a comment without control characters.
    fn skip_comment(&mut self) {
        self.skip_blanks();
        if self.skip('#') {
            self.take_while(|char| char == '\t' || !char.is_control());
        }
    }

    fn skip_blanks(&mut self) {
        self.take_while(|char| matches!(char, ' ' | '\t'));
    }

    fn skip(&mut self, char: char) -> bool {
        let rest = self.rest.strip_prefix(char);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|char| !belongs(char)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn expected(&self, what: &str) -> ConfigError {
        let found =
            self.rest.chars().next().map_or("the end of the file".to_owned(), |char| format!("{char:?}"));
        self.error(format!("expected {what}, found {found}"))
    }

    fn error(&self, message: String) -> ConfigError {
        ConfigError { line: self.line(), message }
    }

    fn line(&self) -> usize {
        1 + self.text[..self.text.len() - self.rest.len()].matches('\n').count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read() {
        let check = |text: &str, expected: &str| {
            let found = parse(text).err().map(|error| error.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{text:?}");
        };
        check("[table]", "1: expected a key, found '['");
        check("\n\"key\" = 1", "2: expected a key, found '\"'");
        check("a.b = 1", "1: expected `=` behind the key, found '.'");
        check("a", "1: expected `=` behind the key, found the end of the file");
        check(
            "a =\n1",
            "1: expected a number, true, false, a text in quotes or a list of texts, found '\\n'",
        );
        check("a = tru", "1: expected true or false, found `tru`");
        check("a = [true]", "1: expected a text in quotes, found 't'");
        check("a = -1", "1: expected a number, true, false, a text in quotes or a list of texts, found '-'");
        check("a = 01", "1: `01` is no number that can be used here");
        check("a = 99999999999999999999", "1: `99999999999999999999` is no number that can be used here");
        check("a = 1_000", "1: expected the end of the line, found '_'");
        check("a = 1 b = 2", "1: expected the end of the line, found 'b'");
        check("a = 'x' 'y'", "1: expected the end of the line, found '\\''");
        check(
            "a = \"x",
            "1: expected the quote at the end of a text (which has no `\\` and no control characters), found the end of the file",
        );
        check(
            "a = \"x\\n\"",
            "1: expected the quote at the end of a text (which has no `\\` and no control characters), found '\\\\'",
        );
        check("a = \"\"\"x\"\"\"", "1: expected the end of the line, found '\"'");
        check("a = [\'\'\'x\'\'\']", "1: expected `,` or `]`, found '\\''");
        check(
            "a = 1\r\nb = 'x\r\n'",
            "2: expected the quote at the end of a text (which has no `\\` and no control characters), found '\\n'",
        );
        check("a = ['x'\n'y']", "2: expected `,` or `]`, found '\\''");
        check("a = [1]", "1: expected a text in quotes, found '1'");
        check("a = [,]", "1: expected a text in quotes, found ','");
        check("a = [['x']]", "1: expected a text in quotes, found '['");
        check("a = ['x'", "1: expected `,` or `]`, found the end of the file");
        check("a = 1\r", "1: expected the end of the line, found '\\r'");
        check("# bell \u{7}", "1: expected a key, found '\\u{7}'");
        check("\u{feff}a = 1", "1: expected a key, found '\\u{feff}'");
    }
}
