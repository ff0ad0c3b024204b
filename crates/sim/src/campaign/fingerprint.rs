//! The fingerprint that distinguishes campaigns.

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use pliant_model::Fnv;

use super::CampaignError;

/// A 64-bit hash of everything that results depend on: the version of Pliant, the parsed campaign (without comments and
/// layout) and the content of its files. It contains the debug output of the campaign's types, so that their field and
/// variant names are part of it.
///
/// FNV-1a, because the standard hasher is not stable across versions and machines.
pub(super) struct Fingerprint(Fnv);

impl Fingerprint {
    pub(super) fn new() -> Fingerprint {
        let mut fingerprint = Fingerprint(Fnv::default());
        fingerprint.bytes(env!("CARGO_PKG_VERSION").as_bytes());
        fingerprint
    }

    /// Adds a parsed value.
    pub(super) fn add(&mut self, value: &impl Debug) {
        self.bytes(format!("{value:?}").as_bytes());
    }

    /// Adds the content of a file.
    pub(super) fn file(&mut self, path: &Path) -> Result<(), CampaignError> {
        self.bytes(&fs::read(path).map_err(|source| CampaignError::io(path, "read this file", source))?);
        Ok(())
    }

    pub(super) fn finish(self) -> String {
        format!("{:016x}", self.0.value())
    }

    /// Adds bytes and their number, so that bytes cannot move between neighbours unnoticed.
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 = self.0.with(bytes).with(&(bytes.len() as u64).to_le_bytes());
    }
}
