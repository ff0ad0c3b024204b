//! How a job gets into the queue of a batch system: with its folder ready, in its turn, and tried until it is taken or refused for good.

use pliant_control::batch::external::{Event, Queue};
use pliant_control::listing::CoreLayout;
use pliant_control::server::Server;
use pliant_model::JobId;
use pliant_site::Submission;

use super::folders::NotReady;
use super::limits::{Waiting, unwanted};
use super::outcome::found;
use super::submission_slots::SubmissionSlot;
use super::{Cluster, Job};
use crate::server::execution::{Retry, bounded};
use pliant_site::processes::FoundState;

impl Cluster {
    /// Submits a job, as soon as its folder is ready and the batch system takes it.
    pub(super) async fn queue(self, job: Job, queue: Queue, slot: SubmissionSlot) -> Event {
        let Queue {
            job: named, procs, walltime, held, tentative, alternatives, resources, partition, ..
        } = queue;
        let mut again = queue.resubmitted;
        let Some(dir) = job.folder.as_ref().map(|folder| folder.run_folder().to_owned()) else {
            return Event::Refused { job: named, why: "the server does not know it any more".to_owned() };
        };
        if job.had_started() && matches!(found(&job).await, FoundState::NeverStarted) {
            return job.missing();
        }
        if let Err(why) = self.noted(&job).await {
            return Event::Refused { job: named, why };
        }
        // What is held or tentative gets its folder when it is released.
        let mut in_any_order = false;
        let ready = match (held, tentative) {
            (_, true) => self.gated(&job, &dir).await,
            (true, _) => Ok((dir.clone(), self.program(&dir))),
            _ => {
                let prepared = self.prepared(&job, Some((procs, walltime)), &alternatives).await;
                prepared.map(|ready| {
                    in_any_order = ready.is_batch;
                    (dir.clone(), self.program(&dir))
                })
            }
        };
        let (folder, program) = match ready {
            Ok(ready) => ready,
            Err(NotReady::Unwanted) => return self.given_up(&job, again).await,
            Err(NotReady::Failed(why)) => {
                tracing::warn!(job = job.number, why, "not prepared");
                return Event::Refused { job: named, why };
            }
        };
        let system = self.system().await;
        let (folder, program, alternatives) = (&*folder, &*program, &*alternatives);
        let number = job.number;
        let node = job.execution.as_ref().and_then(|execution| execution.subjob()?.node());
        let shape = CoreLayout { cores: procs.0, nodes: node.map(|_| 1), ..CoreLayout::default() };
        let order = Submission {
            resources: resources.as_deref(),
            partition: partition.as_deref(),
            alternatives,
            node,
            held,
            in_any_order,
            nice: job.nice,
            ..Submission::new(number, folder, program, shape, walltime)
        };
        let mut retry = Retry::new("submit a job", &job.number);
        // The batches of a sweep join each other.
        let mut slot = match in_any_order {
            true => {
                drop(slot);
                None
            }
            false => tokio::select! {
                biased;
                slot = slot.wait() => Some(slot),
                () = unwanted(&self.mailbox, number) => return self.given_up(&job, again).await,
            },
        };
        let mut limited: Option<Waiting> = None;
        loop {
            // Also after the folder was made: one that hung before that submits nothing.
            self.mailbox.leads().await;
            match system.submit(&order, again).await {
                Ok(ids) => {
                    drop(slot);
                    if let Some(waiting) = limited {
                        waiting.taken();
                    }
                    tracing::info!(job = job.number, ?ids, held, "queued");
                    return Event::Queued { job: named, ids };
                }
                // There may be a job all the same.
                Err(error) if error.leaves_open() => {
                    again = true;
                    // The others need not wait for that.
                    slot = None;
                    retry.after(&error).await;
                }
                // A job that was accepted waits here.
                Err(error) if error.is_limit() && !tentative && (!held || job.is_deferred()) => {
                    slot = None;
                    let waiting = limited.take();
                    match self.limits.wait(&self.mailbox, &job, &error, waiting).await {
                        Some(waiting) => limited = Some(waiting),
                        None => return self.given_up(&job, again).await,
                    }
                }
                Err(error) => {
                    tracing::warn!(job = job.number, %error, "not queued");
                    if again {
                        // An earlier submission that comes to light later begins nothing.
                        self.ask_end(&job).await;
                    }
                    return Event::Refused { job: named, why: bounded(error.to_string()) };
                }
            }
        }
    }

    /// What becomes of a job that is not to be submitted any more, before the batch system has taken it.
    async fn given_up(&self, job: &Job, again: bool) -> Event {
        let (number, named) = (job.number, JobId(job.number));
        tracing::info!(job = number, "not submitted any more: it was cancelled, or goes to another server");
        if again {
            // An earlier submission that comes to light later begins nothing.
            self.ask_end(job).await;
        }
        let is_cancelled = move |server: &mut Server, _: _| server.is_cancelled(number);
        match self.mailbox.ask(is_cancelled).await {
            // It is withdrawn next, and is in no queue.
            Ok(false) => Event::Queued { job: named, ids: Vec::new() },
            Ok(true) | Err(_) => Event::Refused { job: named, why: "it was cancelled".to_owned() },
        }
    }
}
