//! Names of daemons and users, IDs of jobs, keys of submissions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use pliant_model::Owner;
use serde::{Deserialize, Serialize};

/// The name of a daemon: 1 to 63 lower-case letters, digits and hyphens, beginning with a letter or a digit
/// and not ending with a hyphen, so that it can stand in a certificate and in a [`Handle`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

/// The name of a user: 1 to 64 letters, digits and `. _ - @`, beginning with a letter or a digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct User(Arc<str>);

/// The ID of a job: `<server>.<number>`, the server that accepted the job and the number that server gave it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Handle {
    /// The server that accepted the job.
    pub server: Name,
    /// The number that the server gave the job.
    pub number: u32,
}

/// The key of a submission: 128 bits, drawn by its client. A submission that is sent twice has the same key and is accepted
/// once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(pub [u8; 16]);

/// A text that is not a valid name, job ID or key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseIdError {
    expected: &'static str,
    found: String,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.found.chars().take(80).flat_map(char::escape_debug).collect();
        write!(f, "expected {}, found `{shown}`", self.expected)
    }
}

impl std::error::Error for ParseIdError {}

pub(crate) fn parse_id_error(expected: &'static str, found: &str) -> ParseIdError {
    ParseIdError { expected, found: found.to_owned() }
}

impl Name {
    /// The name, as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Name, ParseIdError> {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = (1..=63).contains(&text.len())
            && text.bytes().all(|byte| letters(byte) || byte == b'-')
            && text.bytes().next().is_some_and(letters)
            && text.bytes().last().is_some_and(letters);
        if fits {
            return Ok(Name(text.into()));
        }
        Err(parse_id_error("a name of 1 to 63 lower-case letters, digits and hyphens", text))
    }
}

impl User {
    /// The name, as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for User {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<User, ParseIdError> {
        let letters = |byte: u8| byte.is_ascii_alphanumeric();
        let fits = (1..=64).contains(&text.len())
            && text.bytes().all(|byte| letters(byte) || b"._-@".contains(&byte))
            && text.bytes().next().is_some_and(letters);
        if fits {
            return Ok(User(text.into()));
        }
        Err(parse_id_error("a user name of 1 to 64 letters, digits and `. _ - @`", text))
    }
}

impl FromStr for Handle {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Handle, ParseIdError> {
        let parse = || {
            let (server, number) = text.rsplit_once('.')?;
            // Each job ID has one spelling: no sign, no leading zero.
            let plain = number == "0" || !number.starts_with(['0', '+']);
            let number = number.parse().ok().filter(|_| plain)?;
            Some(Handle { server: server.parse().ok()?, number })
        };
        parse().ok_or_else(|| parse_id_error("a job ID like `lyon.17`", text))
    }
}

impl FromStr for Key {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<Key, ParseIdError> {
        let parse = || {
            let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            u128::from_str_radix(text, 16).ok().filter(|_| digits)
        };
        let number = parse().ok_or_else(|| parse_id_error("a key of 32 hexadecimal digits", text))?;
        Ok(Key(number.to_be_bytes()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.server, self.number)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl User {
    /// The user's identifier in queue orders.
    pub fn owner(&self) -> Owner {
        Owner::named(&self.0)
    }
}

macro_rules! serde_as_text {
    ($($name:ident),*) => {$(
        impl TryFrom<String> for $name {
            type Error = ParseIdError;
            fn try_from(text: String) -> Result<$name, ParseIdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.to_string()
            }
        }
    )*};
}

serde_as_text!(Name, User, Handle, Key);

/// The driver's number of an open call, used to answer its caller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Token(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names_are_rejected() {
        for good in ["a", "lyon", "g5k-2", "0x"] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        let long = "a".repeat(64);
        for bad in ["", "Lyon", "-a", "a-", "a.b", "a/b", "a\n", "é", "a b", &long] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn invalid_users_are_rejected() {
        for good in ["alice", "Bob.B", "x_1@site"] {
            assert_eq!(good.parse::<User>().unwrap().as_str(), good);
        }
        for bad in ["", ".a", "a b", "a/b", "a\n", "a;b", "$(id)", "-rf"] {
            assert!(bad.parse::<User>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_job_id_has_one_spelling() {
        let handle: Handle = "lyon.17".parse().unwrap();
        assert_eq!((handle.server.as_str(), handle.number), ("lyon", 17));
        assert_eq!(handle.to_string(), "lyon.17");
        for bad in ["lyon", "lyon.", ".17", "lyon.017", "lyon.+1", "lyon.-1", "lyon.4294967296", "a.b.1"] {
            assert!(bad.parse::<Handle>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_key_is_32_digits() {
        let text = "000102030405060708090a0b0c0d0e0f";
        let key: Key = text.parse().unwrap();
        assert_eq!((key.0[1], key.0[15]), (1, 15));
        assert_eq!(key.to_string(), text);
        for bad in ["", "00", &format!("+{}", &text[1..]), &format!("{text}0")] {
            assert!(bad.parse::<Key>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn invalid_names_are_shown_escaped_and_truncated() {
        let error = format!("a\n\u{1b}[31m{}", "x".repeat(500)).parse::<Name>().unwrap_err().to_string();
        assert!(!error.contains('\n') && !error.contains('\u{1b}') && error.len() < 300, "{error}");
    }
}
