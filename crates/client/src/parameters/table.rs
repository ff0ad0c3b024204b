//! A file that lists the values of arguments: comma-separated, with their names in the first line (RFC 4180 without line
//! ends inside values). Its text is kept as it is, with the range of each row.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Rows of values of some arguments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ParameterTable {
    text: String,
    names: Vec<String>,
    /// Where each row begins and ends.
    rows: Vec<(u32, u32)>,
}

/// A text that is no such table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParameterTableError {
    line: usize,
    expected: String,
    found: String,
}

impl fmt::Display for ParameterTableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: expected {}, found {}", self.line, self.expected, self.found)
    }
}

impl std::error::Error for ParameterTableError {}

impl From<ParameterTable> for String {
    fn from(table: ParameterTable) -> String {
        table.text
    }
}

impl TryFrom<String> for ParameterTable {
    type Error = ParameterTableError;
    fn try_from(text: String) -> Result<ParameterTable, ParameterTableError> {
        let error = |line, expected: &str, found: String| ParameterTableError {
            line,
            expected: expected.to_owned(),
            found,
        };
        // Spreadsheets write a byte order mark, which is no part of the first name.
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        if u32::try_from(text.len()).is_err() {
            return Err(error(1, "a file below 4 GiB", format!("{} bytes", text.len())));
        }
        let mut names: Option<Vec<String>> = None;
        let (mut rows, mut begin) = (Vec::new(), 0);
        for (line, whole) in (1..).zip(text.split_inclusive('\n')) {
            let row = whole.trim_end_matches(['\n', '\r']);
            let range = (begin as u32, (begin + row.len()) as u32);
            begin += whole.len();
            if row.is_empty() {
                continue;
            }
            let values = split(row).ok_or_else(|| {
                error(line, "a second quote behind each", format!("`{}`", row.escape_debug()))
            })?;
            match &names {
                None if values.iter().any(String::is_empty) => {
                    return Err(error(line, "the names of arguments", format!("`{}`", row.escape_debug())));
                }
                None => names = Some(values),
                Some(names) if names.len() != values.len() => {
                    let expected = format!("{} values, as there are names", names.len());
                    return Err(error(line, &expected, values.len().to_string()));
                }
                Some(_) => rows.push(range),
            }
        }
        let nothing = || error(1, "a line of names and lines of values", "nothing".to_owned());
        let names = names.ok_or_else(nothing)?;
        if rows.is_empty() {
            return Err(error(2, "a line of values", "nothing".to_owned()));
        }
        Ok(ParameterTable { text, names, rows })
    }
}

impl fmt::Display for ParameterTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of {}", self.rows.len(), self.names.join(","))
    }
}

impl ParameterTable {
    /// The arguments that it lists.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The values of a row.
    pub(super) fn row(&self, index: u64) -> Vec<String> {
        let (begin, end) = self.rows[index as usize];
        // It was split before.
        split(&self.text[begin as usize..end as usize]).unwrap_or_default()
    }

    /// The most bytes that the values of a row have.
    pub(super) fn bytes_most(&self) -> usize {
        self.rows.iter().map(|(begin, end)| (end - begin) as usize).max().unwrap_or(0)
    }
}

/// The values of a row; none if a quote has no other.
fn split(row: &str) -> Option<Vec<String>> {
    let (mut values, mut rest) = (Vec::new(), row);
    loop {
        let Some(quoted) = rest.strip_prefix('"') else {
            let (value, after) =
                rest.split_once(',').map_or((rest, None), |(value, after)| (value, Some(after)));
            values.push(value.to_owned());
            match after {
                Some(after) => rest = after,
                None => return Some(values),
            }
            continue;
        };
        let (mut value, mut left) = (String::new(), quoted);
        let after = loop {
            let (part, behind) = left.split_once('"')?;
            value.push_str(part);
            match behind.strip_prefix('"') {
                Some(more) => {
                    value.push('"');
                    left = more;
                }
                None => break behind,
            }
        };
        values.push(value);
        match after.strip_prefix(',') {
            Some(after) => rest = after,
            None if after.is_empty() => return Some(values),
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_split_as_spreadsheets_write_them() {
        let check = |text: &str, expected: &[&[&str]]| {
            let table = ParameterTable::try_from(text.to_owned()).unwrap();
            let found: Vec<Vec<String>> = (0..table.len()).map(|index| table.row(index)).collect();
            assert_eq!(found, expected, "{text:?}");
        };
        check("a,b\n1,2\r\n\n3,\n", &[&["1", "2"], &["3", ""]]);
        check("a\n\"x,\"\"y\"\"\"", &[&["x,\"y\""]]);
        check("a,b\n\"\",\"z\"\n", &[&["", "z"]]);
        check("\u{feff}a,b\r\n1,2\r\n", &[&["1", "2"]]);
        let marked = ParameterTable::try_from("\u{feff}\"a\",b\n1,2\n".to_owned()).unwrap();
        assert_eq!(marked.names().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn errors_of_an_invalid_table_name_the_line() {
        let check = |text: &str, expected: &str| {
            let error = ParameterTable::try_from(text.to_owned()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check("", "line 1: expected a line of names");
        check("a,b\n", "line 2: expected a line of values");
        check("a,\n1,2\n", "line 1: expected the names");
        check("a,b\n1,2\n3\n", "line 3: expected 2 values, as there are names, found 1");
        check("a\n\"x\n", "line 2: expected a second quote");
        check("a\n\"x\"y\n", "line 2: expected a second quote");
    }
}
