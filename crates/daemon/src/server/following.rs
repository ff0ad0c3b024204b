//! Jobs that clients watch.

use std::sync::Arc;
use std::time::Duration;

use pliant_control::access::Caller;
use pliant_control::job::JobRecord;
use pliant_site::JobFolder;
use pliant_staging::{FileName, ResultName};
use pliant_wire::bounds::CALL_BYTES_MAX;
use pliant_wire::{CALL_OUTCOME, CallEnd, proto};
use tokio::sync::{broadcast, mpsc};
use tonic::Status;

use super::service::{Service, stopping};
use crate::host::stopped;

/// How long a client waits for the end of a call before it asks again.
const CALL_WAIT: Duration = Duration::from_secs(20);

impl Service {
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
        // Before the present state is looked up, so that no change is missed.
        let changes = self.changes.subscribe();
        let record = self.find(caller, handle).await?;
        let is_here = |record: &JobRecord| *record.server() == self.offer.info.name;
        if record.state.is_final() || !is_here(&record) {
            return Ok(self.with_outcome(record).await);
        }
        let ended = tokio::select! {
            ended = self.changed_to_end(caller, &record, changes) => Some(ended?),
            () = tokio::time::sleep(CALL_WAIT) => None,
            () = stopped(self.stop.clone()) => return Err(stopping()),
        };
        match ended {
            Some(ended) => Ok(self.with_outcome(ended).await),
            None => Ok(CallEnd { job: self.find(caller, handle).await?, outcome: Vec::new() }),
        }
    }

    /// The record of a job that has ended, or has left this server.
    async fn changed_to_end(
        &self,
        caller: &Caller,
        record: &JobRecord,
        mut changes: broadcast::Receiver<Arc<JobRecord>>,
    ) -> Result<JobRecord, Status> {
        let is_over =
            |record: &JobRecord| record.state.is_final() || *record.server() != self.offer.info.name;
        loop {
            match changes.recv().await {
                Ok(change) if change.handle == record.handle && is_over(&change) => {
                    let JobRecord { compared, discovery, .. } = record.clone();
                    return Ok(JobRecord { compared, discovery, ..(*change).clone().without_signatures() });
                }
                Ok(_) => {}
                // Too many changes of other jobs at once: read the record.
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    let found = self.find(caller, &record.handle.to_string()).await?;
                    if is_over(&found) {
                        return Ok(found);
                    }
                }
                Err(broadcast::error::RecvError::Closed) => return Err(stopping()),
            }
        }
    }

    /// The record with the outcome of the call, if that is in the folder of the job and small.
    async fn with_outcome(&self, job: JobRecord) -> CallEnd {
        let is_here = *job.server() == self.offer.info.name;
        if !job.state.is_final() || !is_here {
            return CallEnd { job, outcome: Vec::new() };
        }
        let dir = self.host.dir(&job.handle, job.requeues);
        let name: FileName = CALL_OUTCOME.parse().expect("it is the name of a file");
        let read = async {
            let mut stream = JobFolder::open(&dir, None, &ResultName::File(name), 0).await.ok()?;
            let mut outcome = Vec::new();
            loop {
                let (piece, rest) = stream.piece(CALL_BYTES_MAX + 1 - outcome.len()).await.ok()?;
                outcome.extend_from_slice(&piece);
                if piece.is_empty() || outcome.len() > CALL_BYTES_MAX {
                    return Some(outcome);
                }
                stream = rest;
            }
        };
        // A job that is no call has none; one that is long, or cannot be read now, is fetched as a result.
        let outcome = read.await.filter(|outcome| outcome.len() <= CALL_BYTES_MAX).unwrap_or_default();
        CallEnd { job, outcome }
    }
}
