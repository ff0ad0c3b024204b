//! What users and servers sign, in the bytes that they sign, and what must match when a signature is accepted.
//!
//! A user signs a [`Claim`] with each submission and each launch. A server that hands a job over signs a
//! [`HandoffStatement`] when it commits. Both go with the job, so that a server that takes it over need not trust the server
//! that sends it. This module decides what must match ([`Claim::check`], [`check_chain`](crate::handoff_chain::check_chain)); who signed is for the drivers to
//! find out, and signatures are opaque bytes to the machines of this crate.
//!
//! The signed bytes begin with a text that says what they are and in which version, so that no signature counts for
//! anything else. Behind it are the fields in their order, each with its length in 4 bytes before it; numbers are 8 bytes, the
//! most significant one first. So two different statements never have the same bytes.

mod claim;
mod handoff;
#[cfg(test)]
mod tests;

use std::fmt::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use claim::{
    CLAIM_LIFETIME, CLAIM_MOVES, CLOCK_TOLERANCE, Claim, ClaimFault, ClaimSubject, Expected, SignedClaim,
};
pub use handoff::{HandoffSignature, HandoffStatement};

/// A SHA-256 digest of what a user has signed for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

/// A signature with the certificate of its signer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Signature {
    /// The signature.
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub bytes: Vec<u8>,
    /// The certificate of the signer (X.509, DER).
    #[serde(serialize_with = "as_text", deserialize_with = "from_text")]
    pub certificate: Vec<u8>,
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of each submission it is written several times: in the journal and in status updates.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .try_for_each(|digit| f.write_char(char::from(DIGITS[usize::from(digit)])))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Digest, String> {
        let parse = || {
            let digits: Option<Vec<u8>> =
                text.bytes().map(|byte| (byte as char).to_digit(16).map(|digit| digit as u8)).collect();
            let bytes: Vec<u8> =
                digits?.chunks(2).map(|pair| pair.iter().fold(0, |sum, digit| sum << 4 | digit)).collect();
            <[u8; 32]>::try_from(bytes).ok().filter(|_| text.len() == 64)
        };
        parse().map(Digest).ok_or_else(|| "expected a digest of 64 hexadecimal digits".to_owned())
    }
}

fn as_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn from_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map_err(serde::de::Error::custom)
}

/// The bytes of a statement, field by field.
struct SignedBytes(Vec<u8>);

impl SignedBytes {
    /// Begins a statement of that kind; the kind says its version.
    fn new(kind: &str) -> SignedBytes {
        SignedBytes(Vec::with_capacity(256)).field(kind.as_bytes())
    }

    fn field(mut self, bytes: &[u8]) -> SignedBytes {
        let length = u32::try_from(bytes.len()).expect("a field is a name, a number or a digest");
        self.0.extend(length.to_be_bytes());
        self.0.extend(bytes);
        self
    }

    fn number(self, number: i64) -> SignedBytes {
        self.field(&number.to_be_bytes())
    }
}
