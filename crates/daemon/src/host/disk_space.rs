//! Whether the disk of a journal has room for new work: it is looked at before it is full, and space for commits is kept in reserve. A
//! disk has room if it has free bytes and free inodes: a job takes about ten files and folders, and each announced upload three.

use std::time::{Duration, Instant};

use pliant_journal::{Inodes, Journal, JournalError};
use pliant_telemetry::names;

use super::health::JournalHealth;

/// How often the disk is looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// Free inodes that new work needs on a large disk, so that accepted jobs find room for their folders.
const FREE_INODES_MAX: u64 = 10_000;
/// The same on a small one, for a few jobs.
const FREE_INODES_MIN: u64 = 100;
/// Between them, new work needs one free inode of so many.
const INODES_PER_FREE_INODE: u64 = 100;

/// The disk of a journal.
#[derive(Debug)]
pub(super) struct DiskSpace {
    /// What is kept for commits, and what must be free for new work; zero for nothing, and then no inodes need to be free either.
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
        // Both are measured, whichever is short.
        let [bytes, inodes] = [self.byte_shortage(journal), self.inode_shortage(journal)];
        bytes.or(inodes)
    }

    fn byte_shortage(&self, journal: &dyn Journal) -> Option<String> {
        let free_bytes = seen(journal.free_bytes())?;
        metrics::gauge!(names::JOURNAL_DISK_FREE_BYTES).set(free_bytes as f64);
        let needed = self.reserve_bytes;
        (free_bytes < needed)
            .then(|| format!("the disk has {free_bytes} bytes left, new work needs {needed}"))
    }

    fn inode_shortage(&self, journal: &dyn Journal) -> Option<String> {
        let Inodes { free, total } = seen(journal.inodes())?;
        metrics::gauge!(names::JOURNAL_DISK_FREE_INODES).set(free as f64);
        let needed = free_inodes_needed(total);
        (self.reserve_bytes > 0 && free < needed).then(|| {
            format!("the disk has {free} inodes left for files and folders, new work needs {needed}")
        })
    }
}

/// What the file system reports, if it does.
fn seen<A>(reported: Result<Option<A>, JournalError>) -> Option<A> {
    reported.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot see how much of the disk is free");
        None
    })
}

/// How many inodes must be free for new work on a disk that has so many in all: one percent of them, but at least 100 and at most 10,000.
pub(crate) fn free_inodes_needed(total: u64) -> u64 {
    (total / INODES_PER_FREE_INODE).clamp(FREE_INODES_MIN, FREE_INODES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_of_the_inodes_is_kept_free_within_bounds() {
        for (total, needed) in [
            (1, 100),
            (8_192, 100),
            (10_099, 100),
            (10_100, 101),
            (65_536, 655),
            (999_999, 9_999),
            (1_000_000, 10_000),
            (16_777_216, 10_000),
            (u64::MAX, 10_000),
        ] {
            assert_eq!(free_inodes_needed(total), needed, "of {total}");
        }
    }
}
