//! Scripts and output, which need not be UTF-8: a self-extracting script ends with an archive.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// The text of a script or of an output, byte for byte.
///
/// In JSON, and so in journals, it is a string where that is shorter than base64, and `{"base64": "..."}` otherwise. So it takes
/// at most a third more than its bytes, whatever they are.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Form", into = "Form")]
pub struct ExactText(Vec<u8>);

/// How it is in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Bytes { base64: Base64 },
}

/// Bytes in base64.
struct Base64(Vec<u8>);

impl ExactText {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<Vec<u8>> for ExactText {
    fn from(bytes: Vec<u8>) -> ExactText {
        ExactText(bytes)
    }
}

impl From<String> for ExactText {
    fn from(text: String) -> ExactText {
        ExactText(text.into_bytes())
    }
}

impl From<&str> for ExactText {
    fn from(text: &str) -> ExactText {
        ExactText(text.as_bytes().to_vec())
    }
}

impl From<ExactText> for Vec<u8> {
    fn from(text: ExactText) -> Vec<u8> {
        text.0
    }
}

/// For people: bytes that are not UTF-8 are replaced.
impl fmt::Display for ExactText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for ExactText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExactText(\"{}\")", self.0.escape_ascii())
    }
}

impl From<Form> for ExactText {
    fn from(form: Form) -> ExactText {
        match form {
            Form::Text(text) => ExactText::from(text),
            Form::Bytes { base64: Base64(bytes) } => ExactText(bytes),
        }
    }
}

impl From<ExactText> for Form {
    fn from(ExactText(bytes): ExactText) -> Form {
        if json_length(&bytes) > bytes.len().div_ceil(3) * 4 {
            return Form::Bytes { base64: Base64(bytes) };
        }
        match String::from_utf8(bytes) {
            Ok(text) => Form::Text(text),
            Err(error) => Form::Bytes { base64: Base64(error.into_bytes()) },
        }
    }
}

/// For readers that expect a string: base64 only if it is not UTF-8. To be named in `#[serde(with = "...")]`.
pub mod string_if_utf8 {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::ExactText;

    /// Writes it.
    pub fn serialize<S: Serializer>(text: &ExactText, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(text.as_bytes()) {
            Ok(text) => text.serialize(serializer),
            Err(_) => text.serialize(serializer),
        }
    }

    /// Reads it in either form.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ExactText, D::Error> {
        ExactText::deserialize(deserializer)
    }
}

/// The bytes that a text takes in JSON, with its escapes.
fn json_length(text: &[u8]) -> usize {
    let of_byte = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0x00..0x20 => 6,
        _ => 1,
    };
    text.iter().map(of_byte).sum()
}

impl Serialize for Base64 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Base64, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Base64).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], json: &str) {
        let text = ExactText::from(bytes.to_vec());
        assert_eq!(serde_json::to_string(&text).unwrap(), json);
        assert_eq!(serde_json::from_str::<ExactText>(json).unwrap().as_bytes(), bytes);
    }

    #[test]
    fn texts_are_strings_in_json_and_other_bytes_are_base64() {
        check(b"#!/bin/sh\necho \"\xc3\xa9\"\n", r##""#!/bin/sh\necho \"é\"\n""##);
        check(b"#!/bin/sh\necho \xe9\n", r#"{"base64":"IyEvYmluL3NoCmVjaG8g6Qo="}"#);
        check(b"\0\x01\x02", r#"{"base64":"AAEC"}"#);
        check(b"", r#""""#);
        for bad in ["1", "{}", r#"{"base64":"A"}"#, r#"{"base64":[1]}"#] {
            assert!(serde_json::from_str::<ExactText>(bad).is_err(), "{bad}");
        }
        assert_eq!(ExactText::from(b"a\xe9".to_vec()).to_string(), "a\u{fffd}");
        assert_eq!(format!("{:?}", ExactText::from(b"a\xe9\n".to_vec())), r#"ExactText("a\xe9\n")"#);
    }

    /// A script of 1 MiB takes about as much in a journal, whatever bytes it has.
    #[test]
    fn no_bytes_take_more_than_a_third_more() {
        let most = 1 << 20;
        for (one, expected) in [
            ("echo of a line\n".as_bytes(), most * 16 / 15),
            ("é".as_bytes(), most),
            (b"\n", most * 4 / 3),
            (b"\"", most * 4 / 3),
            (b"\x01", most * 4 / 3),
            (b"\xff", most * 4 / 3),
        ] {
            let bytes: Vec<u8> = one.iter().copied().cycle().take(most).collect();
            let json = serde_json::to_vec(&ExactText::from(bytes.clone())).unwrap();
            assert!(json.len().abs_diff(expected) <= 32, "{one:?}: {} in place of {expected}", json.len());
            assert_eq!(serde_json::from_slice::<ExactText>(&json).unwrap().as_bytes(), bytes);
        }
    }

    #[test]
    fn the_length_in_json_is_that_of_serde() {
        for byte in 0..0x80 {
            let text = [byte; 7];
            let json = serde_json::to_string(std::str::from_utf8(&text).unwrap()).unwrap();
            assert_eq!(json_length(&text) + 2, json.len(), "{byte}");
        }
    }
}
