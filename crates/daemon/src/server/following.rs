//! Jobs that clients watch, wait for and end.

use std::sync::Arc;
use std::time::Duration;

use pliant_control::access::Caller;
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Token};
use pliant_control::server::{Answer, Event};
use pliant_site::JobFolder;
use pliant_telemetry::RequestId;
use pliant_wire::bounds::CALL_BYTES_MAX;
use pliant_wire::{self as wire, CallAnswer, CallEnd, Submission, SubmitAnswer, proto};
use tokio::sync::{broadcast, mpsc};
use tonic::{Code, Response, Status};

use super::job_ends::{JobEnd, WaitedJob};
use super::service::{Service, stopping};
use crate::host::stopped;

/// How long a client waits for the end of a call before it asks again.
const CALL_WAIT: Duration = Duration::from_secs(20);
/// The same of a client that has just submitted the call: others of its calls may wait to be submitted.
const SUBMITTED_CALL_WAIT: Duration = Duration::from_secs(1);

impl Service {
    /// Has the machine withdraw or end a job.
    pub(super) async fn end(
        &self,
        caller: &Caller,
        handle: &Handle,
        event: impl FnOnce(Token, u32, Caller) -> Event,
    ) -> Result<Response<proto::Job>, Status> {
        let Some(number) = self.number(handle).await? else {
            return Ok(Response::new((&self.archived(caller, handle).await?).into()));
        };
        match self.call(|reply| event(reply, number, caller.clone()), 0).await? {
            Answer::Cancelling(record) | Answer::Elsewhere(record) => {
                Ok(Response::new((&record.without_signatures()).into()))
            }
            // It may have ended long ago.
            _ => {
                let record = self.archived(caller, handle).await.inspect_err(|status| {
                    if status.code() == Code::NotFound && !caller.operator {
                        self.denied(caller, &format!("end {handle}, which is no job of theirs"));
                    }
                })?;
                Ok(Response::new((&record).into()))
            }
        }
    }

    /// Sends each change of a job until it has ended.
    pub(super) async fn follow(
        &self,
        caller: Caller,
        mut record: JobRecord,
        mut changes: broadcast::Receiver<Arc<JobRecord>>,
        sender: &mpsc::Sender<Result<proto::Job, Status>>,
    ) {
        loop {
            let is_here = *record.server() == self.offer.info.name;
            // Wherever it went, the client follows it there.
            if sender.send(Ok((&record).into())).await.is_err() || record.state.is_final() || !is_here {
                return;
            }
            record = loop {
                match changes.recv().await {
                    Ok(change)
                        if change.handle == record.handle && change.progress() != record.progress() =>
                    {
                        let JobRecord { compared, discovery, .. } = record;
                        break JobRecord { compared, discovery, ..(*change).clone().without_signatures() };
                    }
                    Ok(_) => {}
                    // Too many changes of other jobs at once: read the record.
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        match self.find(&caller, &record.handle.to_string()).await {
                            Ok(found) if found.progress() != record.progress() => break found,
                            _ => {}
                        }
                    }
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            };
        }
    }

    /// The record of a job as soon as it has ended, or after a while, with the outcome of a call if that is small.
    pub(super) async fn end_of_call(&self, caller: &Caller, handle: &str) -> Result<CallEnd, Status> {
        // Before the present state is looked up, so that no end is missed.
        let end = self.ends.wait(WaitedJob::Handle(wire::handle_of(handle)?));
        let record = self.find(caller, handle).await?;
        match self.end_within(&record, end, CALL_WAIT).await? {
            Some(end) => Ok(end),
            None => Ok(CallEnd { job: self.find(caller, handle).await?, outcome: Vec::new() }),
        }
    }

    /// Accepts a call, and answers as soon as it has ended, or after a while.
    pub(super) async fn ended_call(
        &self,
        caller: Caller,
        id: RequestId,
        submission: Submission,
        request_bytes: usize,
    ) -> Result<CallAnswer, Status> {
        // Before it is accepted, so that no end is missed.
        let end = self.ends.wait(WaitedJob::Key(caller.user.clone(), submission.key));
        let record = match self.accept(caller, id, submission, request_bytes).await? {
            SubmitAnswer::Accepted(record) => *record,
            SubmitAnswer::Refused(refused) => return Ok(CallAnswer::Refused(refused)),
        };
        // It is accepted, whatever comes now: without its end the client asks for that.
        let end = match self.end_within(&record, end, SUBMITTED_CALL_WAIT).await {
            Ok(Some(end)) => end,
            Ok(None) | Err(_) => CallEnd { job: record, outcome: Vec::new() },
        };
        Ok(CallAnswer::Accepted(Box::new(end)))
    }

    /// The end of a job, if it comes within that time.
    async fn end_within(
        &self,
        record: &JobRecord,
        mut end: JobEnd,
        within: Duration,
    ) -> Result<Option<CallEnd>, Status> {
        if self.ends.is_over(record) {
            return Ok(Some(self.with_outcome(record.clone()).await));
        }
        let ended = tokio::select! {
            ended = end.record() => ended.ok_or_else(stopping)?,
            () = tokio::time::sleep(within) => return Ok(None),
            () = stopped(self.stop.clone()) => return Err(stopping()),
        };
        let JobRecord { compared, discovery, .. } = record.clone();
        let ended = JobRecord { compared, discovery, ..(*ended).clone().without_signatures() };
        Ok(Some(self.with_outcome(ended).await))
    }

    /// The record with the outcome of the call, if that is in the folder of the job and small.
    async fn with_outcome(&self, job: JobRecord) -> CallEnd {
        let is_here = *job.server() == self.offer.info.name;
        if !job.state.is_final() || !is_here {
            return CallEnd { job, outcome: Vec::new() };
        }
        let dir = self.host.dir(&job.handle, job.requeues);
        if let Some(outcome) = self.host.residents.take_outcome(&dir) {
            return CallEnd { job, outcome };
        }
        // A job that is no call has none; one that is long, or cannot be read now, is fetched as a result.
        let outcome = JobFolder::call_outcome(&dir, CALL_BYTES_MAX).await.unwrap_or_default();
        CallEnd { job, outcome }
    }
}
