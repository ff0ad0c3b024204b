//! Reporting all jobs again, to a parent that does not have the status updates any more that it had acknowledged: its journal is lost,
//! an older copy, or another parent's.

use pliant_control::masters::MasterShare;
use pliant_control::names::Handle;
use pliant_journal::{Archive, Filter, JobCursor};
use pliant_wire::FromChild;
use tonic::Status;

use super::reading::PAGE;
use super::{Child, JobsInMemory};
use crate::host::{SharedArchive, archived, record};

/// How far the jobs have been reported again: first those in memory, then the ended ones in the archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReportingAgain {
    /// The last status update that the parent had acknowledged.
    acknowledged: u64,
    next: Next,
}

/// What is read next.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Next {
    /// Jobs in memory after this position.
    Memory(Option<Handle>),
    /// Ended jobs before this one.
    Archive(Option<JobCursor>),
}

/// What is reported next, and what is left after it.
pub(super) type AgainPage = (Vec<FromChild>, Option<ReportingAgain>);

impl ReportingAgain {
    /// What has to be reported again to a parent that has kept the status updates up to a number, of which the journal ends at
    /// `last`; none if it has kept all that it acknowledged.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) async fn to(
        archive: &SharedArchive,
        kept: u64,
        last: u64,
    ) -> Result<Option<ReportingAgain>, Status> {
        let first = archived(archive, |archive: &mut dyn Archive| archive.status_updates(0, 1)).await?;
        let acknowledged = first.first().map_or(last, |first| first.seq.saturating_sub(1));
        let begin = ReportingAgain { acknowledged, next: Next::Memory(None) };
        Ok((kept < acknowledged).then_some(begin))
    }

    /// The last status update that the parent had acknowledged.
    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Reads the next page, of which the jobs of a share are reported.
    ///
    /// # Errors
    /// The journal cannot be read, or the daemon is stopping.
    pub(super) async fn next(
        self,
        archive: &SharedArchive,
        child: &impl Child,
        share: &MasterShare,
    ) -> Result<AgainPage, Status> {
        let ReportingAgain { acknowledged, next } = self;
        let (records, next) = match next {
            Next::Memory(after) => {
                let JobsInMemory { jobs, last } = child.jobs_after(after, PAGE as usize).await?;
                (jobs, if last.is_some() { Next::Memory(last) } else { Next::Archive(None) })
            }
            Next::Archive(before) => {
                let filter = Filter { before, limit: PAGE, ..child.archived_jobs() };
                let rows = archived(archive, move |archive: &mut dyn Archive| archive.jobs(&filter)).await?;
                let Some(last) = rows.last() else {
                    return Ok((vec![FromChild::AllReported { sequence: acknowledged }], None));
                };
                let cursor = (last.submitted, last.server.clone(), last.number);
                (rows.iter().map(record).collect::<Result<Vec<_>, _>>()?, Next::Archive(Some(cursor)))
            }
        };
        let own = records.into_iter().filter(|record| share.has(record.owner.owner()));
        let reports = own.map(|record| FromChild::ReportedAgain(Box::new(record)));
        Ok((reports.collect(), Some(ReportingAgain { acknowledged, next })))
    }
}
