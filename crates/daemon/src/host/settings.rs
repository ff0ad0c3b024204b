//! How the loop of a daemon is to run.

use pliant_model::Span;

/// How the loop is to run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// How many entries between two snapshots at least.
    pub snapshot_every: u64,
    /// How long entries are kept for replays once they are in a snapshot.
    pub history: Span,
    /// How many bytes of the disk are kept for commits, and must be free for new work; zero for none.
    pub reserve_bytes: u64,
    /// Whether the daemon has a parent to send status updates to.
    pub notices: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { snapshot_every: 20_000, history: Span(30 * 86_400), reserve_bytes: 0, notices: true }
    }
}

impl Settings {
    /// So many days.
    pub fn days(days: u32) -> Span {
        Span(i64::from(days) * 86_400)
    }
}
