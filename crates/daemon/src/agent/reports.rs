//! Status updates of children: which are believed.
//!
//! A server reports the jobs that it has, by its own name or by handoffs that other servers have signed
//! (`pliant_control::signed::check_reporter`). Agents pass on what they have checked. What contradicts the record of a job in
//! memory, the machine refuses; what contradicts the archive is refused here.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use pliant_control::agent::{ChildKind, Contradiction};
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use pliant_control::signed::check_reporter;
use pliant_journal::Archive;
use pliant_telemetry::names;
use pliant_transport::{Revocations, ServerTls};
use tonic::Status;

use super::numbers::Numbers;
use crate::host::{archived, record};
use crate::signatures::check_handoff;

/// The status updates of one child, over one connection.
pub(super) struct Reports {
    child: Name,
    kind: ChildKind,
    tls: Arc<ServerTls>,
    numbers: Numbers,
    /// The highest number of the server's own jobs, once it was looked up: a job with a higher one is new.
    highest: Option<u32>,
    /// Jobs that the server has, and that were compared with the archive.
    open: BTreeSet<Handle>,
}

/// Why a status update is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReportRefusal {
    word: &'static str,
    why: String,
}

impl ReportRefusal {
    /// Logs and counts the refusal.
    pub(super) fn note(&self, child: &Name, job: &Handle) {
        metrics::counter!(names::STATUS_UPDATES_REFUSED, "reason" => self.word).increment(1);
        tracing::warn!(%child, %job, reason = %self, "status update refused");
    }
}

impl fmt::Display for ReportRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<Contradiction> for ReportRefusal {
    fn from(found: Contradiction) -> ReportRefusal {
        ReportRefusal { word: found.word(), why: found.to_string() }
    }
}

impl Reports {
    pub(super) fn new(child: Name, kind: ChildKind, tls: Arc<ServerTls>, numbers: Numbers) -> Reports {
        Reports { child, kind, tls, numbers, highest: None, open: BTreeSet::new() }
    }

    /// What to record of a reported job: the report, or what the archive knows better; or why the report is refused.
    pub(super) async fn checked(
        &mut self,
        reported: JobRecord,
    ) -> Result<Result<JobRecord, ReportRefusal>, Status> {
        if self.kind == ChildKind::Server {
            let tls = &self.tls;
            let verified = check_reporter(&reported, &self.child, |statement, signature| {
                check_handoff(tls, statement, signature, Revocations::AreLater)
            });
            if let Err(fault) = verified {
                return Ok(Err(ReportRefusal { word: fault.word(), why: fault.to_string() }));
            }
        }
        let reported = reported.without_signatures();
        let Some(known) = self.archived(&reported).await? else { return Ok(Ok(reported)) };
        Ok(match Contradiction::of(&known, &reported) {
            Some(contradiction) => Err(contradiction.into()),
            None if known.progress() > reported.progress() => Ok(known),
            None => Ok(reported),
        })
    }

    /// What the archive knows of a job, unless it can know nothing: the job has ended or gone elsewhere long ago, and its
    /// server reports it late, or falsely.
    async fn archived(&mut self, reported: &JobRecord) -> Result<Option<JobRecord>, Status> {
        let handle = reported.handle.clone();
        let is_new = self.is_new(&handle).await?;
        let is_open =
            self.kind == ChildKind::Server && !reported.state.is_final() && *reported.server() == self.child;
        let was_open = self.open.contains(&handle);
        match is_open {
            true => drop(self.open.insert(handle.clone())),
            false => drop(self.open.remove(&handle)),
        }
        if is_new || was_open {
            return Ok(None);
        }
        let look = move |archive: &mut dyn Archive| archive.job(handle.server.as_str(), handle.number);
        archived(&self.numbers.archive, look).await?.as_ref().map(record).transpose()
    }

    /// True if this is the first report of one of the server's own jobs, which it numbers in order.
    async fn is_new(&mut self, handle: &Handle) -> Result<bool, Status> {
        if self.kind != ChildKind::Server || handle.server != self.child {
            return Ok(false);
        }
        let highest = match self.highest {
            Some(highest) => highest,
            None => self.numbers.highest(self.child.clone()).await?,
        };
        self.highest = Some(highest.max(handle.number));
        Ok(handle.number > highest)
    }
}

/// Logs and counts a status update that the machine has refused.
pub(super) fn note_contradiction(child: &Name, job: &Handle, why: Contradiction) {
    ReportRefusal::from(why).note(child, job);
}
