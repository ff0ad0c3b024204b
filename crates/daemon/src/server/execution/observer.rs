//! The machines for which things are run, as they are notified of progress and ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pliant_control::coallocation::SubjobId;
use pliant_control::optional::server::{self as optional, Journaled, TimedEvent};
use pliant_control::server::{Event, Server, SubjobEvent};
use pliant_journal::Durability;
use pliant_model::{JobId, TimeMs};
use pliant_site::JobFolder;
use pliant_site::processes::TaskEnd;
use pliant_transport::Clock;

use super::end::exit_of;
use super::{End, Execution, ExecutionId, Work, blocking};
use crate::host::Mailbox;
use crate::server::subjobs::TaskPorts;

/// The polling interval for the ends of a subjob's tasks.
const POLL_PERIOD: Duration = Duration::from_millis(200);
/// After this number of polls without a change the machine is asked whether the subjob still exists.
const POLLS_MAX: u32 = 50;

/// A machine for which things are run, as their runner notifies it.
pub(in crate::server) trait Observer: Clone + Send + Sync + 'static {
    /// An execution starts now.
    fn starting(&self, execution: &Execution);
    /// Reports the progress of an execution that runs.
    fn progress(&self, execution: &Execution) -> impl Future<Output = ()> + Send;
    /// Reports what the machine must know before it is notified of the end.
    fn details(&self, execution: &Execution) -> impl Future<Output = ()> + Send;
    /// Reports the end.
    fn ended(&self, id: ExecutionId, end: End);
    /// Reports the end of a call of a resident process, which need not survive a power failure.
    fn ended_call(&self, id: ExecutionId, end: End) {
        self.ended(id, end);
    }
}

/// Notifies the machine of a server.
#[derive(Clone)]
pub(in crate::server) struct JobObserver {
    pub(in crate::server) mailbox: Mailbox<Server>,
    /// The ports of subjobs, until these start.
    pub(in crate::server) task_ports: TaskPorts,
}

impl Observer for JobObserver {
    fn starting(&self, execution: &Execution) {
        if let Some(subjob) = execution.subjob() {
            self.task_ports.free(&subjob.subjob.id);
        }
    }

    async fn progress(&self, execution: &Execution) {
        if let Some(subjob) = execution.subjob() {
            follow_tasks(self.mailbox.clone(), execution.dir.clone(), subjob.subjob.id.clone()).await;
        }
    }

    async fn details(&self, execution: &Execution) {
        details(&self.mailbox, execution).await;
    }

    fn ended(&self, id: ExecutionId, end: End) {
        let ExecutionId::Job(job) = id else { return };
        // A server that has stopped finds out when it starts again.
        let _ = self.mailbox.send(Event::Batch(end.of_job(job)));
    }

    fn ended_call(&self, id: ExecutionId, end: End) {
        let ExecutionId::Job(job) = id else { return };
        let _ = self.mailbox.send_durable(Event::Batch(end.of_job(job)), Durability::Process);
    }
}

/// Notifies the machine of a server's requests.
#[derive(Clone)]
pub(in crate::server) struct RequestObserver {
    pub(in crate::server) mailbox: Mailbox<Journaled>,
    pub(in crate::server) clock: Clock,
}

impl Observer for RequestObserver {
    fn starting(&self, _execution: &Execution) {}

    async fn progress(&self, _execution: &Execution) {}

    async fn details(&self, _execution: &Execution) {}

    fn ended(&self, id: ExecutionId, end: End) {
        let ExecutionId::Request(request) = id else { return };
        let (exit, at) = end.of_request();
        let event = optional::Event::Ended { request, exit, at };
        let now = TimeMs(self.clock.exact().as_millis() as i64);
        // A server that has stopped finds it when it starts again.
        let _ = self.mailbox.send(TimedEvent { at: now, event });
    }
}

/// Reports how the tasks of a subjob ended, or how long the longest instance of a batch took.
pub(in crate::server) async fn details(mailbox: &Mailbox<Server>, execution: &Execution) {
    match (&execution.work, execution.id) {
        (Work::Subjob(subjob), _) => _ = report_tasks(mailbox, &execution.dir, &subjob.subjob.id, None).await,
        (Work::Job(..), ExecutionId::Job(job)) => longest(mailbox, &execution.dir, job).await,
        _ => {}
    }
}

/// Reports how long the longest instance of a batch took, if the machine wants to know that of a job.
async fn longest(mailbox: &Mailbox<Server>, dir: &Path, JobId(number): JobId) {
    let wanted = mailbox.ask(move |server, _| server.needs_longest_instance(number)).await;
    if wanted == Ok(true)
        && let Some(ms) = blocking(dir, |dir| JobFolder::at(dir).ok()?.longest_of_batch()).await
    {
        // A server that has stopped finds out when it starts again.
        let _ = mailbox.send(Event::LongestInstance { number, ms });
    }
}

/// Reports the ends of a subjob's tasks as they come, until nothing of the subjob is left.
pub(in crate::server) async fn follow_tasks(mailbox: Mailbox<Server>, dir: PathBuf, id: SubjobId) {
    let (mut seen, mut looks) = (0, 0);
    loop {
        tokio::time::sleep(POLL_PERIOD).await;
        looks += 1;
        // Whether there is anything new, or else whether the subjob still exists.
        let known = (looks < POLLS_MAX).then_some(seen);
        looks = if known.is_some() { looks } else { 0 };
        match report_tasks(&mailbox, &dir, &id, known).await {
            Reported::All(length) => seen = length,
            Reported::NotNow => {}
            Reported::TooLate => return,
        }
    }
}

/// What the machine knows after a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reported {
    /// All ends that there are, in so many bytes.
    All(u64),
    /// Not all: they cannot be read at the moment.
    NotNow,
    /// The subjob does not run, or not any more.
    TooLate,
}

/// Reports all ends of tasks that the machine does not know, unless there are only as many bytes of them as are `known`.
async fn report_tasks(mailbox: &Mailbox<Server>, dir: &Path, id: &SubjobId, known: Option<u64>) -> Reported {
    let found = blocking(dir, move |dir| JobFolder::at(dir)?.task_ends(known.unwrap_or(u64::MAX))).await;
    let (length, ends) = match found {
        Ok((_, None)) => return Reported::All(known.unwrap_or_default()),
        Ok((length, Some(ends))) => (length, ends),
        Err(error) => {
            tracing::warn!(%error, subjob = %id, "cannot see how the tasks of a subjob ended");
            return Reported::NotNow;
        }
    };
    let wanted = id.clone();
    let Ok(Some(mut running)) = mailbox.ask(move |server, _| server.running_tasks(&wanted)).await else {
        return Reported::TooLate;
    };
    // Its job may have written further reports.
    for TaskEnd { task, outcome, .. } in ends.into_iter().filter(|end| running.remove(&end.task)) {
        let exit = exit_of(outcome);
        tracing::info!(subjob = %id, task, %exit, "a task has ended");
        if mailbox.send(Event::Subjob(SubjobEvent::TaskEnded { id: id.clone(), task, exit })).is_err() {
            return Reported::TooLate;
        }
    }
    Reported::All(length)
}
