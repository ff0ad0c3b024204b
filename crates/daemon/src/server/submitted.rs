//! What users submitted, for those who submit it again: of a job that waits or runs the machine knows it, of one that has ended the
//! folder of its records.

use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_control::server::Server;
use pliant_wire::SubmittedJob;
use tonic::Status;

use super::execution::{Program, keep_submitted, kept_submitted};
use super::service::{Service, blocking, stopping};

impl Service {
    /// What the user of a job of this server submitted.
    pub(super) async fn submitted_of(&self, record: &JobRecord) -> Result<SubmittedJob, Status> {
        let JobRecord { handle, pinned, .. } = record;
        if let Some(program) = self.program(handle).await? {
            return program.submitted_job(*pinned).ok_or_else(|| of_multi_job(handle));
        }
        let dir = self.host.dir(handle, record.requeues);
        let kept = blocking(move || kept_submitted(&dir)).await?;
        kept.ok_or_else(|| {
            Status::not_found(format!(
                "what was submitted as job {handle} is not kept at server {}: its folder was removed, it is a batch of a multi-job, \
                 or an earlier version of the server ran it",
                self.offer.info.name
            ))
        })
    }

    /// What a job runs, while the machine knows it.
    async fn program(&self, handle: &Handle) -> Result<Option<Program>, Status> {
        let wanted = handle.clone();
        let payload = move |server: &mut Server, _| {
            server.number_of(&wanted).and_then(|number| server.payload(number).cloned())
        };
        let payload = self.mailbox.ask(payload).await.map_err(|_| stopping())?;
        // That of an ended job is empty.
        Ok(payload.and_then(|payload| payload.read().ok()))
    }

    /// What is to be kept of a job that is cancelled before it starts: nothing of it is on the disk yet.
    pub(super) async fn submitted_before_start(&self, handle: &Handle) -> Option<SubmittedJob> {
        // The cancellation counts, whatever becomes of this.
        let program = self.program(handle).await.ok().flatten()?;
        program.submitted_job(false)
    }

    /// Keeps what was submitted as a job that has ended without a start, as far as the disk has space.
    pub(super) async fn keep_without_start(&self, record: &JobRecord, submitted: Option<SubmittedJob>) {
        let Some(submitted) = submitted.filter(|_| record.state.is_final() && record.started.is_none())
        else {
            return;
        };
        if *record.server() != self.offer.info.name || self.has_room().is_err() {
            return;
        }
        let dir = self.host.dir(&record.handle, record.requeues);
        let submitted = SubmittedJob { pinned: record.pinned, ..submitted };
        if let Err(status) = blocking(move || keep_submitted(&dir, submitted)).await {
            tracing::warn!(job = %record.handle, why = status.message(), "what was submitted is not kept");
        }
    }
}

fn of_multi_job(handle: &Handle) -> Status {
    Status::failed_precondition(format!(
        "job {handle} is a batch of instances of a multi-job; `pliant sweep` submits the multi-job again"
    ))
}
