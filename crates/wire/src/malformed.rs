//! The error of a message that is not valid.

use std::fmt;

/// A message that is not valid, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// The field, as a path from the message: `work.speedup.amdahl.parallel`, `vectors[3].address`.
    pub field: String,
    /// What was expected.
    pub expected: String,
    /// What was found, escaped and cut.
    pub found: String,
}

/// How much of a text is shown, in characters.
const SHOWN: usize = 80;

impl Malformed {
    /// A field with an unexpected number or word.
    pub(super) fn new(field: &str, expected: impl Into<String>, found: impl fmt::Display) -> Malformed {
        let found = found.to_string().chars().take(SHOWN).flat_map(char::escape_debug).collect();
        Malformed { field: field.to_owned(), expected: expected.into(), found }
    }

    /// A field with a text that is not what was expected.
    pub(super) fn text(field: &str, expected: impl Into<String>, found: &str) -> Malformed {
        if found.is_empty() {
            return Malformed::new(field, expected, "an empty text");
        }
        let malformed = Malformed::new(field, expected, found);
        let more = if found.chars().nth(SHOWN).is_some() { "..." } else { "" };
        Malformed { found: format!("`{}{more}`", malformed.found), ..malformed }
    }

    /// A missing field.
    pub(super) fn missing(field: &str, expected: impl Into<String>) -> Malformed {
        Malformed::new(field, expected, "nothing")
    }

    /// The error with its path from the parent message.
    pub(super) fn under(mut self, parent: &str) -> Malformed {
        let is_path = !parent.is_empty() && !self.field.is_empty() && !self.field.starts_with('[');
        let point = if is_path { "." } else { "" };
        self.field = format!("{parent}{point}{}", self.field);
        self
    }

    /// The error with its path from the message that has the list.
    pub(super) fn at(self, list: &str, index: usize) -> Malformed {
        self.under(&format!("{list}[{index}]"))
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Malformed { field, expected, found } = self;
        if field.is_empty() {
            return write!(f, "expected {expected}, found {found}");
        }
        write!(f, "{field}: expected {expected}, found {found}")
    }
}

impl std::error::Error for Malformed {}

/// INVALID_ARGUMENT: the same message would be refused again.
impl From<Malformed> for tonic::Status {
    fn from(malformed: Malformed) -> tonic::Status {
        tonic::Status::invalid_argument(malformed.to_string())
    }
}
