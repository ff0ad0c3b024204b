//! Whether the disk of a journal has room for new work: it is looked at before it is full, and space for commits is kept in reserve.

use std::time::{Duration, Instant};

use pliant_journal::{Journal, JournalError};
use pliant_telemetry::names;

use super::health::JournalHealth;

/// How often the disk is looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// The disk of a journal.
#[derive(Debug)]
pub(super) struct DiskSpace {
    /// What is kept for commits, and what must be free for new work; zero for nothing.
    reserve_bytes: u64,
    /// What is kept was allocated, or cannot be.
    is_reserved: bool,
    not_before: Option<Instant>,
    /// There was no room for new work.
    is_short: bool,
}

impl DiskSpace {
    pub(super) fn new(reserve_bytes: u64) -> DiskSpace {
        DiskSpace { reserve_bytes, is_reserved: reserve_bytes == 0, not_before: None, is_short: false }
    }

    /// True if there was no room for new work. Nothing but what was accepted is to be written then: no snapshots.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Looks at the disk, unless it was looked at just now, and reports whether there is room for new work.
    pub(super) fn observe(&mut self, journal: &mut dyn Journal, health: &JournalHealth) {
        let now = Instant::now();
        if self.not_before.is_none_or(|not_before| now >= not_before) {
            self.not_before = Some(now + PERIOD);
            let shortage = self.shortage(journal);
            self.is_short = shortage.is_some();
            health.disk(shortage);
            match journal.stored_bytes() {
                Ok(None) => {}
                Ok(Some(bytes)) => metrics::gauge!(names::JOURNAL_STORED_BYTES).set(bytes as f64),
                Err(error) => tracing::warn!(%error, "cannot see how large the journal is"),
            }
        }
    }

    /// Has the disk looked at with the next event.
    #[cfg(test)]
    pub(super) fn look_again(&mut self) {
        self.not_before = None;
    }

    /// Why there is no room for new work. Allocates the reserve if that was not possible before.
    fn shortage(&mut self, journal: &mut dyn Journal) -> Option<String> {
        if !self.is_reserved {
            match journal.reserve(self.reserve_bytes) {
                Ok(()) => self.is_reserved = true,
                Err(error @ JournalError::Full { .. }) => return Some(error.to_string()),
                Err(error) => {
                    tracing::warn!(%error, "no space can be reserved for the journal on this file system");
                    self.is_reserved = true;
                }
            }
        }
        let free_bytes = match journal.free_bytes() {
            Ok(free_bytes) => free_bytes?,
            Err(error) => {
                tracing::warn!(%error, "cannot see how much of the disk is free");
                return None;
            }
        };
        metrics::gauge!(names::JOURNAL_DISK_FREE_BYTES).set(free_bytes as f64);
        let needed = self.reserve_bytes;
        (free_bytes < needed)
            .then(|| format!("the disk has {free_bytes} bytes left, new work needs {needed}"))
    }
}
