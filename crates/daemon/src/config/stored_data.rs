//! The table `[stored_data]` of a server's file: what calls of typed services may leave at the server.

use std::time::Duration;

use pliant_wire::bounds::STORED_DATA_MAX;
use serde::{Deserialize, Serialize};

/// The table as it stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoredDataFile {
    /// How many bytes of data a user may have.
    pub bytes_per_user: u64,
    /// How many data a user may have.
    pub count_per_user: u32,
    /// After how many hours without a call that names them data are deleted.
    pub expiry_h: u32,
}

impl Default for StoredDataFile {
    fn default() -> StoredDataFile {
        StoredDataFile { bytes_per_user: 1 << 30, count_per_user: 1000, expiry_h: 24 }
    }
}

impl StoredDataFile {
    /// After how long without a call that names them data are deleted.
    pub(crate) fn expiry(self) -> Duration {
        Duration::from_secs(u64::from(self.expiry_h) * 3600)
    }

    /// Makes sure that the values make sense.
    pub(super) fn check(self) -> Result<(), (&'static str, String)> {
        let StoredDataFile { count_per_user, expiry_h, .. } = self;
        if count_per_user as usize > STORED_DATA_MAX {
            let why = format!("expected at most {STORED_DATA_MAX}, found {count_per_user}");
            return Err(("stored_data.count_per_user", why));
        }
        if !(1..=24 * 366).contains(&expiry_h) {
            return Err(("stored_data.expiry_h", format!("expected 1 to 8784, found {expiry_h}")));
        }
        Ok(())
    }
}
