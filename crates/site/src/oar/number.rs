//! Numbers of OAR's: Perl writes them with or without quotes, as they were used last.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// A number, however it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Number(pub(super) i64);

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(i64),
    Quoted(String),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Plain(number) => Ok(Number(number)),
            Written::Quoted(text) => text
                .parse()
                .map(Number)
                .map_err(|_| D::Error::custom(format!("expected a number, found `{text}`"))),
        }
    }
}
