//! How the loop of a daemon is to run.

use pliant_journal::KeepFrom;
use pliant_model::{Span, Time};

/// How the loop is to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// How many entries between two snapshots at least.
    pub snapshot_every: u64,
    /// How long entries are kept for replays once they are in a snapshot, and runs of local users' jobs.
    pub history: Span,
    /// How many bytes of entries are kept; what no snapshot has comes in addition.
    pub history_bytes: u64,
    /// How long the records of jobs are kept after their ends.
    pub jobs: Span,
    /// How long records of the audit trail are kept.
    pub audit: Span,
    /// How many bytes of the disk are kept for commits, and must be free for new work; zero for none.
    pub reserve_bytes: u64,
    /// Whether the daemon has a parent to send status updates to.
    pub notices: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            snapshot_every: 20_000,
            history: Settings::days(30),
            history_bytes: 16 << 30,
            jobs: Settings::days(90),
            audit: Settings::days(365),
            reserve_bytes: 0,
            notices: true,
        }
    }
}

impl Settings {
    /// So many days.
    pub fn days(days: u32) -> Span {
        Span(i64::from(days) * 86_400)
    }

    /// From when on the journal keeps what it has, and from which entry on.
    pub fn keep_from(&self, now: Time, first_entry: u64) -> KeepFrom {
        let [entries, jobs, audit] = [self.history, self.jobs, self.audit].map(|kept| (now - kept).0);
        KeepFrom { entries, first_entry, jobs, audit }
    }
}
