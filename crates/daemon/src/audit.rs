//! The audit trail of a daemon, as its journal keeps it and as operators read it.

use pliant_control::audit::AuditRecord;
use pliant_journal::AuditRow;
use pliant_wire::{AuditEntry, AuditPage, AuditQuery};
use tonic::Status;

use crate::host::{SharedArchive, archived};

/// The row of a record.
pub(crate) fn row(record: &AuditRecord) -> AuditRow {
    let text = serde_json::to_string(record).expect("records are plain data with text keys");
    AuditRow { at: record.at.0, record: text }
}

/// A page of the audit trail.
pub(crate) async fn page(archive: &SharedArchive, query: AuditQuery) -> Result<AuditPage, Status> {
    let AuditQuery { after, limit } = query;
    let rows = archived(archive, move |archive| archive.audit(after, limit)).await?;
    let next = rows.last().filter(|_| rows.len() == limit as usize).map(|(number, _)| *number);
    let records = rows.iter().map(|(number, row)| entry(*number, row)).collect::<Result<_, _>>()?;
    Ok(AuditPage { records, next })
}

fn entry(number: u64, row: &AuditRow) -> Result<AuditEntry, Status> {
    let record: AuditRecord = serde_json::from_str(&row.record).map_err(|error| {
        tracing::error!(%error, number, "unreadable record of the audit trail");
        Status::data_loss(format!("record {number} of the audit trail cannot be read"))
    })?;
    let AuditRecord { at, by, act, job, user, why } = record;
    Ok(AuditEntry { number, at, by: by.to_string(), act: act.word().to_owned(), job, user, why })
}
