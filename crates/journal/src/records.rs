//! The records of a journal and the filter of its archive.

use crate::Durability;

/// One event of a machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Number, from 1 without gaps.
    pub seq: u64,
    /// Time in seconds since the Unix epoch; never before the previous entry.
    pub at: i64,
    /// The event, as JSON.
    pub event: String,
    /// A hash of the resulting commands, which a replay checks.
    pub commands: u64,
}

/// A snapshot: the whole state of a machine, in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The last entry contained.
    pub seq: u64,
    /// When it was taken, in seconds since the Unix epoch.
    pub at: i64,
    /// How many parts it has.
    pub parts: u32,
}

/// A part of a snapshot. Parts are committed in their order, between and along with other changes; a snapshot counts from the
/// commit of its last part on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapshotPart {
    /// The last entry contained in the snapshot.
    pub seq: u64,
    /// When the snapshot was taken, in seconds since the Unix epoch.
    pub at: i64,
    /// The number of the part, from 0.
    pub part: u32,
    /// The bytes of the state, which is JSON, that follow those of the part before.
    pub bytes: Vec<u8>,
    /// Whether the state ends with it.
    pub is_last: bool,
}

/// A status update for the parent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StatusUpdate {
    /// Number, from 1 per journal.
    pub seq: u64,
    /// The update, as JSON.
    pub body: String,
}

/// An ended job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobRow {
    /// The server that accepted it.
    pub server: String,
    /// The job's number at this server.
    pub number: u32,
    /// The key of its submission. A moved job has a row with the same key at each server.
    pub key: Option<[u8; 16]>,
    /// The user.
    pub owner: String,
    /// The service or script.
    pub name: String,
    /// Its final state.
    pub state: String,
    /// When it was accepted; all times are in seconds since the Unix epoch.
    pub submitted: i64,
    /// When it started, if it did.
    pub started: Option<i64>,
    /// When it ended.
    pub ended: i64,
    /// The promised start, if it started.
    pub expected_start: Option<i64>,
    /// The promised completion, if it started.
    pub expected_completion: Option<i64>,
    /// The full record, as JSON.
    pub record: String,
    /// The last server of the job: differs from `server` after a move.
    pub last_server: String,
}

/// An ended run of a local user's job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalJobRow {
    /// When it ended, in seconds since the Unix epoch.
    pub ended: i64,
    /// The data that a replay needs, as JSON.
    pub record: String,
}

/// The position of a [`LocalJobRow`] in the order of ends: its end and its number.
pub type LocalJobCursor = (i64, u64);

/// A record of the audit trail: what somebody did or was not allowed to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditRow {
    /// When, in seconds since the Unix epoch.
    pub at: i64,
    /// The record, as JSON.
    pub record: String,
}

/// The changes of one commit.
///
/// Entries follow the last entry of the journal without a gap, and so do status updates. A batch whose entries are
/// already in the journal repeats a commit with unknown outcome: it counts once.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Batch {
    /// Events, in order.
    pub entries: Vec<Entry>,
    /// Status updates that follow from them.
    pub status_updates: Vec<StatusUpdate>,
    /// Ended jobs; each replaces a row with the same server and number.
    pub ended: Vec<JobRow>,
    /// Ended runs of local users' jobs. They need entries in the same batch, by which a repetition is recognised.
    pub local_jobs: Vec<LocalJobRow>,
    /// Records of the audit trail. They need entries in the same batch, as [`Batch::local_jobs`].
    pub audit: Vec<AuditRow>,
    /// The parent has acknowledged the status updates up to this one: they are deleted.
    pub updates_acknowledged: Option<u64>,
    /// A part of a snapshot. A later commit of the same part replaces it.
    pub snapshot_part: Option<SnapshotPart>,
    /// What its commit survives. A power failure loses no commit without all later ones. PostgreSQL syncs every commit.
    pub durability: Durability,
}

impl Batch {
    /// True if there is nothing to commit.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.status_updates.is_empty()
            && self.ended.is_empty()
            && self.local_jobs.is_empty()
            && self.audit.is_empty()
            && self.updates_acknowledged.is_none()
            && self.snapshot_part.is_none()
    }
}

/// From when on things are kept: what is older may be deleted. All times are in seconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepFrom {
    /// Entries, and ends of local users' runs.
    pub entries: i64,
    /// The number of the first entry to keep: earlier ones may be deleted however young they are.
    pub first_entry: u64,
    /// Ends of jobs.
    pub jobs: i64,
    /// Records of the audit trail.
    pub audit: i64,
}

/// What a restart begins with. The parts of the snapshot and the entries after it are read piece by piece
/// ([`super::Journal::snapshot_part`], [`super::Journal::entries`]).
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Loaded {
    /// The last snapshot.
    pub snapshot: Option<Snapshot>,
    /// The last entry; 0 if there is none.
    pub last_entry: u64,
    /// The numbers of unacknowledged status updates, in order. Their bodies are read when they are sent
    /// ([`super::Archive::status_updates`]).
    pub status_updates: Vec<u64>,
    /// The number of the next status update.
    pub next_update: u64,
    /// About how many bytes the entries have, those that are in the snapshot included; in order.
    pub history: Vec<EntryBytes>,
}

/// The bytes of some entries in succession.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryBytes {
    /// The number of the first of them.
    pub first: u64,
    /// The bytes of their events.
    pub bytes: u64,
}

/// The position of a [`JobRow`] in an order by time: its submission or its end, its server and its number.
pub type JobCursor = (i64, String, u32);

/// A filter of ended jobs.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Filter {
    /// The user.
    pub owner: Option<String>,
    /// The last server.
    pub server: Option<String>,
    /// The states; empty for all.
    pub states: Vec<String>,
    /// The largest number of rows.
    pub limit: u32,
    /// Only older jobs: the submission, server and number of the last row seen.
    pub before: Option<JobCursor>,
}
