//! The records of the recorded database.

use pliant_journal::{
    AuditRow, Batch, Entry, JobRow, Journal, JournalError, LocalJobRow, SnapshotPart, StatusUpdate,
};

/// The ID of the journal, which is drawn at its creation otherwise.
pub(crate) const ID: u64 = 77;
/// The daemon that has claimed it.
pub(crate) const OWNER: &str = "server lyon";
/// The state in its snapshot, in two parts.
pub(crate) const STATE: &str = r#"{"next":3,"name":"l'été à Lyon","jobs":[]}"#;
/// The last entry in its snapshot, and when it was taken.
pub(crate) const SNAPSHOT: (u64, i64) = (2, 1_700_000_020);

/// Entries whose hashes use all bits.
pub(crate) fn entries() -> Vec<Entry> {
    let text = |event: &str, seq: u64| Entry {
        seq,
        at: 1_700_000_000 + 10 * seq as i64,
        event: event.to_owned(),
        commands: seq.wrapping_mul(u64::MAX / 3),
    };
    let events = [
        r#""due""#,
        r#"{"drain":{"reply":7,"by":"root","why":"it's late"}}"#,
        r#"{"numbered":{"highest":41}}"#,
    ];
    events.iter().zip(1..).map(|(event, seq)| text(event, seq)).collect()
}

/// Status updates, of which the first was acknowledged.
pub(crate) fn status_updates() -> Vec<StatusUpdate> {
    (1..=3).map(|seq| StatusUpdate { seq, body: format!("{{\"job\":\"lyon.{seq}\"}}") }).collect()
}

/// A job that completed, one that moved away, and one without anything that a job may lack.
pub(crate) fn jobs() -> Vec<JobRow> {
    let completed = JobRow {
        server: "lyon".to_owned(),
        number: 1,
        key: Some(*b"0123456789abcdef"),
        owner: "alice".to_owned(),
        name: "matrix".to_owned(),
        state: "completed".to_owned(),
        submitted: 1_700_000_000,
        started: Some(1_700_000_005),
        ended: 1_700_000_100,
        expected_start: Some(1_700_000_003),
        expected_completion: Some(1_700_000_110),
        record: r#"{"handle":"lyon.1"}"#.to_owned(),
        last_server: "lyon".to_owned(),
    };
    let moved = JobRow {
        number: 2,
        key: Some([255; 16]),
        owner: "bob".to_owned(),
        submitted: 1_700_000_001,
        record: r#"{"handle":"lyon.2","name":"l'ö"}"#.to_owned(),
        last_server: "nancy".to_owned(),
        ..completed.clone()
    };
    let bare = JobRow {
        number: 3,
        key: None,
        state: "canceled".to_owned(),
        submitted: 1_700_000_002,
        started: None,
        expected_start: None,
        expected_completion: None,
        record: "{}".to_owned(),
        ..completed.clone()
    };
    vec![completed, moved, bare]
}

/// Runs of local users' jobs, in order of their ends.
pub(crate) fn local_jobs() -> Vec<LocalJobRow> {
    let row = |ended, number| LocalJobRow { ended, record: format!("{{\"number\":{number}}}") };
    vec![row(1_700_000_050, 4), row(1_700_000_060, 3)]
}

/// Records of the audit trail.
pub(crate) fn audit() -> Vec<AuditRow> {
    let row = |at, act: &str| AuditRow { at, record: format!("{{\"act\":\"{act}\"}}") };
    vec![row(1_700_000_010, "accept"), row(1_700_000_020, "drain")]
}

/// A part of a snapshot that is being written: the first one of three bytes.
pub(crate) fn unfinished_part() -> SnapshotPart {
    SnapshotPart { seq: 3, at: 1_700_000_030, part: 0, bytes: b"{\"n".to_vec(), is_last: false }
}

/// Writes all of them into a new journal.
#[allow(dead_code, reason = "called by the example that records a database")]
pub(crate) fn write(journal: &mut dyn Journal) -> Result<(), JournalError> {
    journal.claim(OWNER)?;
    journal.commit(&Batch {
        entries: entries(),
        status_updates: status_updates(),
        ended: jobs(),
        local_jobs: local_jobs(),
        audit: audit(),
        ..Batch::default()
    })?;
    journal.commit(&Batch { updates_acknowledged: Some(1), ..Batch::default() })?;
    let (first, second) = STATE.as_bytes().split_at(16);
    let (seq, at) = SNAPSHOT;
    for (part, bytes, is_last) in [(0, first, false), (1, second, true)] {
        let part = SnapshotPart { seq, at, part, bytes: bytes.to_vec(), is_last };
        journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() })?;
    }
    journal.commit(&Batch { snapshot_part: Some(unfinished_part()), ..Batch::default() })
}
