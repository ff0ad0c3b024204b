//! Checksums of staged files.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A SHA-256 checksum, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum(pub [u8; 32]);

/// A text that is no checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChecksumError {
    found: String,
}

impl Checksum {
    /// The checksum of some bytes.
    pub fn of(bytes: &[u8]) -> Checksum {
        Checksum(Sha256::digest(bytes).into())
    }

    /// The checksum of all that is left to read, and how many bytes that was.
    pub fn of_reader(mut reader: impl Read) -> std::io::Result<(Checksum, u64)> {
        let mut state = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        let mut length = 0;
        loop {
            let read = match reader.read(&mut buffer) {
                Ok(0) => return Ok((Checksum(state.finalize().into()), length)),
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            state.update(&buffer[..read]);
            length += read as u64;
        }
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Checksum {
    type Err = ChecksumError;
    fn from_str(text: &str) -> Result<Checksum, ChecksumError> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut checksum = [0; 32];
        let fits = text.len() == 64
            && checksum.iter_mut().zip(text.as_bytes().chunks(2)).all(|(byte, pair)| {
                let value = digit(pair[0]).zip(digit(pair[1])).map(|(high, low)| high << 4 | low);
                *byte = value.unwrap_or_default();
                value.is_some()
            });
        if fits { Ok(Checksum(checksum)) } else { Err(ChecksumError { found: text.to_owned() }) }
    }
}

impl TryFrom<String> for Checksum {
    type Error = ChecksumError;
    fn try_from(text: String) -> Result<Checksum, ChecksumError> {
        text.parse()
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> String {
        checksum.to_string()
    }
}

impl fmt::Display for ChecksumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = super::names::shown(&self.found);
        write!(f, "expected a SHA-256 checksum of 64 lower-case hexadecimal digits, found `{found}`")
    }
}

impl std::error::Error for ChecksumError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of FIPS 180 for `abc`.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn checksums_are_those_of_the_standard_and_read_back() {
        let checksum = Checksum::of(b"abc");
        assert_eq!(checksum.to_string(), ABC);
        assert_eq!(ABC.parse(), Ok(checksum));
        assert_eq!(Checksum::of_reader(&b"abc"[..]).unwrap(), (checksum, 3));
    }

    #[test]
    fn only_64_lower_case_digits_are_a_checksum() {
        let upper = ABC.to_uppercase();
        for bad in ["", "ab", &ABC[1..], &format!("{ABC}0"), &upper, &format!("é{}", &ABC[2..])] {
            assert!(bad.parse::<Checksum>().is_err(), "{bad}");
        }
    }
}
