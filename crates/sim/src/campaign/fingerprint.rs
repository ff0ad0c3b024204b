//! What tells two campaigns apart.

use std::fmt::Debug;
use std::fs;
use std::path::Path;

use super::CampaignError;

/// 64 bits over everything that results depend on: this version of Pliant, the campaign as understood (its comments and layout
/// do not count) and the content of the files that it names.
///
/// FNV-1a: stable across versions and machines, which the standard hasher is not.
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn new() -> Fingerprint {
        let mut fingerprint = Fingerprint(0xcbf2_9ce4_8422_2325);
        fingerprint.bytes(env!("CARGO_PKG_VERSION").as_bytes());
        fingerprint
    }

    /// Adds what a campaign file says.
    pub(super) fn add(&mut self, value: &impl Debug) {
        self.bytes(format!("{value:?}").as_bytes());
    }

    /// Adds the content of a file.
    pub(super) fn file(&mut self, path: &Path) -> Result<(), CampaignError> {
        self.bytes(&fs::read(path).map_err(|source| CampaignError::io(path, "read this file", source))?);
        Ok(())
    }

    pub(super) fn finish(self) -> String {
        format!("{:016x}", self.0)
    }

    /// Adds bytes and their number, so that neighbours cannot trade bytes.
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().chain(&(bytes.len() as u64).to_le_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
