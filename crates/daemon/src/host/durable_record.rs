//! What the journal keeps of the commands of a machine, other than its events.

use pliant_journal::{AuditRow, Batch, JobRow, LocalJobRow, StatusUpdate};

/// What is kept of a command.
#[derive(Clone, PartialEq, Debug)]
pub enum DurableRecord {
    /// Nothing.
    Nothing,
    /// Status updates for the parent, until they are acknowledged.
    StatusUpdate(String),
    /// The row of a job that has ended.
    Ended(Box<JobRow>),
    /// A run of a local user's job that is over.
    Local(LocalJobRow),
    /// A record of the audit trail.
    Audit(AuditRow),
}

/// Adds to a batch what is kept of a command, and returns the number of a status update.
pub(super) fn keep(batch: &mut Batch, record: DurableRecord, next_update: &mut u64) -> Option<u64> {
    match record {
        DurableRecord::Nothing => {}
        DurableRecord::StatusUpdate(body) => {
            let seq = *next_update;
            *next_update += 1;
            batch.status_updates.push(StatusUpdate { seq, body });
            return Some(seq);
        }
        DurableRecord::Ended(row) => batch.ended.push(*row),
        DurableRecord::Local(row) => batch.local_jobs.push(row),
        DurableRecord::Audit(row) => batch.audit.push(row),
    }
    None
}
