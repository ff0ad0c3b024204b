//! The peer of a connection: the identity in a certificate that TLS has verified.

use std::fmt;

use pliant_model::Time;
use rustls::pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::role::{Identity, Role, UnknownRole};

/// The serial number of a certificate, unique in an authority: lower-case hexadecimal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Serial(String);

impl Serial {
    /// The number of these bytes, most significant first.
    pub fn from_bytes(bytes: &[u8]) -> Serial {
        let significant = bytes.iter().skip_while(|byte| **byte == 0);
        Serial(significant.map(|byte| format!("{byte:02x}")).collect())
    }

    /// The bytes of the number, if it is one.
    pub(super) fn to_bytes(&self) -> Option<Vec<u8>> {
        let digits = self.0.as_bytes();
        if digits.is_empty() || !digits.len().is_multiple_of(2) {
            return None;
        }
        let digit = |digit: u8| (digit as char).to_digit(16).and_then(|value| u8::try_from(value).ok());
        digits.chunks(2).map(|pair| Some((digit(pair[0])? << 4) | digit(pair[1])?)).collect()
    }

    /// The number as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The holder of a certificate.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Peer {
    /// The role of the holder.
    pub role: Role,
    /// The holder's name among those of the role.
    pub name: String,
    /// The serial number of the certificate.
    pub serial: Serial,
    /// The last second in which the certificate is valid.
    pub not_after: Time,
}

/// A certificate without an identity of a federation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IdentityError {
    /// Nothing was presented.
    Absent,
    /// It cannot be read.
    Unreadable {
        /// Why.
        problem: String,
    },
    /// It has not exactly one identity.
    Count {
        /// How many it has.
        found: usize,
    },
    /// Its identity is not valid.
    Invalid {
        /// What was found.
        found: String,
        /// Why it is none.
        problem: String,
    },
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "expected a certificate, found none"),
            Self::Unreadable { problem } => {
                write!(f, "expected a certificate, found bytes that are none: {problem}")
            }
            Self::Count { found } => {
                write!(f, "expected one identity (pliant://ROLE/NAME) in the certificate, found {found}")
            }
            Self::Invalid { found, problem } => {
                write!(
                    f,
                    "expected an identity pliant://ROLE/NAME, found `{}`: {problem}",
                    found.escape_debug()
                )
            }
        }
    }
}

impl std::error::Error for IdentityError {}

impl Peer {
    /// The holder of a certificate that has been verified.
    pub fn from_certificate(certificate: &CertificateDer<'_>) -> Result<Peer, IdentityError> {
        let unreadable = |problem: String| IdentityError::Unreadable { problem };
        let (_, certificate) =
            X509Certificate::from_der(certificate).map_err(|error| unreadable(error.to_string()))?;
        Peer::from_parsed(&certificate)
    }

    /// The same of one that has been parsed.
    pub(super) fn from_parsed(certificate: &X509Certificate<'_>) -> Result<Peer, IdentityError> {
        let unreadable = |problem: String| IdentityError::Unreadable { problem };
        let names = certificate.subject_alternative_name().map_err(|error| unreadable(error.to_string()))?;
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let uris: Vec<&str> = names
            .iter()
            .filter_map(|name| match name {
                GeneralName::URI(uri) if uri.starts_with(SCHEME) => Some(*uri),
                _ => None,
            })
            .collect();
        let [uri] = uris[..] else { return Err(IdentityError::Count { found: uris.len() }) };
        let identity = identity(uri)?;
        let (role, name) = (identity.role(), identity.name().to_owned());
        let serial = Serial::from_bytes(certificate.raw_serial());
        let not_after = Time(certificate.validity().not_after.timestamp());
        Ok(Peer { role, name, serial, not_after })
    }

    /// True if the holder is that one, with any certificate.
    pub fn is(&self, identity: &Identity) -> bool {
        self.role == identity.role() && self.name == identity.name()
    }
}

/// `ROLE/NAME`.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.role, self.name)
    }
}

pub(super) const SCHEME: &str = "pliant:";

/// The identity that a URI of a certificate or request says.
pub(super) fn identity(uri: &str) -> Result<Identity, IdentityError> {
    let odd = |problem: String| IdentityError::Invalid { found: uri.to_owned(), problem };
    let path = uri.strip_prefix("pliant://").and_then(|path| path.split_once('/'));
    let (role, name) = path.ok_or_else(|| odd("it has no role and name".to_owned()))?;
    let role = role.parse().map_err(|error: UnknownRole| odd(error.to_string()))?;
    Identity::new(role, name).map_err(|error| odd(error.to_string()))
}
