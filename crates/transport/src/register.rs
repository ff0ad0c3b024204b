//! The certificates that an authority has issued and revoked: the file `register.toml` in its folder.

use std::path::Path;

use pliant_config::Source;
use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::dates::date;
use super::error::{AuthorityError, io};
use super::files::{FileReaders, replace};
use super::peer::Serial;
use super::role::{Identity, Role};

/// The hint for a damaged register.
const HINT: &str = "restore the file from a backup of the folder";

/// One issued certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateRecord {
    /// Its number.
    pub serial: Serial,
    /// The role of its holder.
    pub role: Role,
    /// Its holder's name.
    pub name: String,
    /// When it was issued, in seconds since the Unix epoch.
    pub issued: i64,
    /// The last second in which it is valid, since the Unix epoch.
    pub not_after: i64,
    /// The SHA-256 of its public key, as hexadecimal digits. None in registers of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// When it was revoked, in seconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<i64>,
}

impl CertificateRecord {
    /// `ROLE/NAME`.
    pub fn holder(&self) -> String {
        format!("{}/{}", self.role, self.name)
    }

    /// `valid`, `expired` or `revoked`.
    pub fn state(&self, now: Time) -> &'static str {
        match self.revoked {
            Some(_) => "revoked",
            None if self.not_after < now.seconds() => "expired",
            None => "valid",
        }
    }

    /// The day of `not_after` in UTC, as `2027-01-31`.
    pub fn last_day(&self) -> String {
        date(self.not_after)
    }

    pub(super) fn is_of(&self, identity: &Identity) -> bool {
        self.role == identity.role() && self.name == identity.name()
    }
}

/// The key of an authority's first root.
pub(super) const KEY_FILE: &str = "ca.key";

/// How far the replacement of an authority is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RolloverStep {
    /// There is a new root, and the old one signs.
    Begun,
    /// The new root signs, and the old one is trusted.
    Switched,
}

impl RolloverStep {
    /// The step's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Switched => "switched",
        }
    }
}

/// The replacement of an authority, with its other root: the new one before the switch, then the old one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rollover {
    pub(super) step: RolloverStep,
    /// The file of its key.
    pub(super) key: String,
    /// The last second in which it is valid, since the Unix epoch.
    pub(super) not_after: i64,
    /// How many certificates, the first ones of the register, are of the old root.
    pub(super) old_certificates: usize,
    /// Its certificate (PEM).
    pub(super) certificate: String,
}

/// The whole file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Register {
    /// The federation's name.
    pub(super) federation: String,
    /// The last second in which the certificate of the root that signs is valid, since the Unix epoch.
    pub(super) not_after: i64,
    /// The number of the newest revocation list.
    pub(super) crl_number: u64,
    /// The file of the key that signs certificates.
    #[serde(default = "first_key", skip_serializing_if = "is_first_key")]
    pub(super) key: String,
    /// The replacement that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rollover: Option<Rollover>,
    /// In the order in which they were issued.
    #[serde(default, rename = "certificate")]
    pub(super) certificates: Vec<CertificateRecord>,
}

fn first_key() -> String {
    KEY_FILE.to_owned()
}

fn is_first_key(key: &str) -> bool {
    key == KEY_FILE
}

impl Register {
    pub(super) fn read(path: &Path) -> Result<Register, AuthorityError> {
        let text = std::fs::read_to_string(path).map_err(io(path, "read"))?;
        Source::new(path, text).parse(HINT).map_err(AuthorityError::Register)
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), AuthorityError> {
        let text = toml::to_string(self).map_err(std::io::Error::other).map_err(io(path, "write"))?;
        replace(path, text.as_bytes(), FileReaders::Owner).map_err(io(path, "write"))
    }
}
