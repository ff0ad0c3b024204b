//! What users submitted, for those who submit it again: of a job that waits or runs the machine knows it, of one that has ended the
//! folder of its records.

use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_control::payload::Payload;
use pliant_control::server::Server;
use pliant_wire::SubmittedJob;
use tonic::Status;

use super::execution::{Host, Program, keep_submitted, kept_submitted};
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
                "what was submitted as job {handle} is not kept at server {}: the folder of the job was removed or its file lost, \
                 the disk had no space for it, the job is a batch of a multi-job, or an earlier version of the server had it",
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
}

/// Keeps what was submitted as a job of this server that has ended without a start, of which nothing is on the disk. A failure
/// is logged.
pub(super) fn keep_without_start(host: &Host, record: &JobRecord, payload: &Payload) {
    let program = payload.read::<Program>().ok();
    let Some(submitted) = program.and_then(|program| program.submitted_job(record.pinned)) else {
        return;
    };
    let dir = host.dir(&record.handle, record.requeues);
    let job = record.handle.clone();
    host.runtime.spawn_blocking(move || {
        if let Err(error) = keep_submitted(&dir, submitted) {
            tracing::warn!(%job, %error, "what was submitted is not kept");
        }
    });
}

fn of_multi_job(handle: &Handle) -> Status {
    Status::failed_precondition(format!(
        "job {handle} is a batch of instances of a multi-job; `pliant sweep` submits the multi-job again"
    ))
}
