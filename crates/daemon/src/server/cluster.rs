//! What a server's commands mean in a batch system that is not Pliant's: Slurm or OAR ([`BatchSystem`]).
//!
//! Every job's folder is made ready before the job is submitted, or released: from then on it may start at any moment, on
//! another host, where a supervisor claims the folder. So the folders must be on a file system that the nodes share, and
//! nothing is signalled from here. Each command is tried until it succeeds or is refused for good; a server that was killed
//! meanwhile is given it again by its machine.

mod folders;
mod freshness;
mod gates;
mod limits;
mod listings;
mod outcome;
mod queueing;
mod submission_slots;
mod submitters;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_control::batch;
use pliant_control::batch::external::{Command, Event, WithdrawalOutcome};
use pliant_control::coallocation::{SubjobId, SubjobState};
use pliant_control::job::Exit;
use pliant_control::server::{self, Server};
use pliant_model::JobId;
use pliant_policy::alternatives::Alternative;
use pliant_site::accounts::AccountName;
use pliant_site::{BatchSystem, BatchSystemSettings, JobFolder, StartPrevention};
use tokio::sync::{Notify, watch};

pub(super) use self::freshness::FreshListings;

use self::folders::NotReady;
use self::freshness::LastListing;
use self::limits::Limits;
use self::submission_slots::SubmissionSlots;
use super::execution::{Execution, Host, MISSING, Retry, observer};
use crate::host::Mailbox;
use pliant_transport::Clock;

/// How long a supervisor may take to see that its job is to be ended.
const NOTICED: Duration = Duration::from_secs(3);
/// The polling interval for a supervisor; each look into a folder of an account is a process.
const POLL_PERIOD: Duration = Duration::from_millis(200);
const POLL_PERIOD_OF_ACCOUNT: Duration = Duration::from_secs(1);

/// A cluster, and what is done in it.
#[derive(Clone)]
pub(super) struct Cluster {
    host: Arc<Host>,
    mailbox: Mailbox<Server>,
    /// Once its batch system has answered for the first time.
    system: watch::Receiver<Option<Arc<BatchSystem>>>,
    /// The outcome of the last listing.
    last: watch::Receiver<LastListing>,
    /// Something was done that a listing shows.
    changed: Arc<Notify>,
    /// Whose turn it is to be submitted.
    slots: SubmissionSlots,
    /// The jobs that wait here since the batch system takes no more of their accounts.
    limits: Limits,
}

/// A job, as far as it concerns a batch system.
#[derive(Clone)]
struct Job {
    number: u32,
    /// Its folders; none if the machine does not know it any more.
    folder: Option<JobFolder>,
    /// What is to run; none while it is another server's.
    execution: Option<Arc<Execution>>,
    /// How far it stands back behind others.
    nice: u32,
}

impl Job {
    /// The account as which it is submitted and runs; none if that is the server's own user.
    fn account(&self) -> Option<&AccountName> {
        Some(&self.folder.as_ref()?.account()?.name)
    }

    /// True if it is this server's although it is to be held: it may not start yet. Others that are held are prepared for other servers, or
    /// subjobs.
    fn is_deferred(&self) -> bool {
        self.execution.as_ref().is_some_and(|execution| execution.subjob().is_none())
    }

    /// True if it had started before an older copy of the journal was put back.
    fn had_started(&self) -> bool {
        self.execution.as_ref().is_some_and(|execution| execution.had_started)
    }

    /// The end of one that had started, and whose folder is missing.
    fn missing(&self) -> Event {
        let (job, exit) = (JobId(self.number), Exit::Lost(MISSING.to_owned()));
        Event::Ended { job, exit, started: None, elapsed_ms: None }
    }
}

impl Cluster {
    /// Begins to list the jobs, and does what was not done when the server went down.
    pub(super) fn start(
        host: Arc<Host>,
        mailbox: Mailbox<Server>,
        settings: BatchSystemSettings,
        machine: &Server,
        clock: Clock,
        stop: watch::Receiver<bool>,
    ) -> Cluster {
        let (connected, system) = watch::channel(None);
        let (seen, last) = watch::channel(LastListing::default());
        let changed = Arc::new(Notify::new());
        let mirror = machine.mirror().cloned().unwrap_or_default();
        let listings = listings::Listings {
            settings,
            server: host.server.clone(),
            submitters: host.submitters.clone(),
            known: submitters::known(&host, machine),
            mailbox: mailbox.clone(),
            clock,
            mirror,
            unread: BTreeSet::new(),
            connected,
            last: seen,
            changed: changed.clone(),
        };
        host.runtime.spawn(listings.keep(stop.clone()));
        host.runtime.spawn(gates::watch_gates(host.clone(), changed.clone(), stop));
        let cluster = Cluster {
            host,
            mailbox,
            system,
            last,
            changed,
            slots: SubmissionSlots::default(),
            limits: Limits::default(),
        };
        for (subjob, _, state) in machine.subjobs() {
            if matches!(state, SubjobState::Committed | SubjobState::Runs { .. }) {
                cluster.follow_tasks(&subjob.id);
            }
        }
        for command in machine.unanswered() {
            if let batch::Command::External(command) = command {
                cluster.carry_out(machine, command);
            }
        }
        cluster
    }

    /// Its listings, for those who need a new one.
    pub(super) fn fresh(&self) -> FreshListings {
        let (last, wanted) = (self.last.clone(), self.changed.clone());
        FreshListings { last, wanted, mailbox: self.mailbox.clone() }
    }

    /// Does what the machine wants done.
    pub(super) fn carry_out(&self, machine: &Server, command: Command) {
        let own = self.clone();
        let job = |number: JobId| own.job(machine, number);
        match command {
            Command::Queue(queue) => {
                let job = job(queue.job);
                let slot = own.slots.next(job.account());
                own.clone().spawn(job, |own, job| own.queue(job, queue, slot));
            }
            Command::Release { job: number, ids, alternatives, tentative } => {
                own.clone()
                    .spawn(job(number), move |own, job| own.release(job, ids, alternatives, tentative));
            }
            Command::Withdraw { job: number, ids, tentative } => {
                own.clone().spawn(job(number), move |own, job| own.withdraw(job, ids, tentative));
            }
            Command::Remove { job: number, ids } => {
                own.clone().spawn(job(number), |own, job| own.remove(job, ids));
            }
            Command::Terminate { job: number, ids } => {
                own.clone().spawn(job(number), |own, job| own.terminate(job, ids));
            }
            Command::Inspect { job: number, ids, listed } => {
                own.clone().spawn(job(number), |own, job| own.find_outcome(job, ids, listed));
            }
        }
    }

    fn job(&self, machine: &Server, number: JobId) -> Job {
        let host = &self.host;
        let execution = Execution::of_number(host, machine, number).map(Arc::new);
        let dir = execution.as_ref().map(|execution| execution.dir.clone());
        let dir =
            dir.or_else(|| machine.prepared_as(number.0).map(|(job, requeues)| host.dir(job, requeues)));
        let account = submitters::account_of(host, machine, number.0);
        let folder = dir.and_then(|dir| match host.job_folder(account.as_deref(), &dir) {
            Ok(folder) => Some(folder),
            Err(error) => {
                tracing::error!(job = number.0, error = error.reason, "cannot see as whom a job runs");
                None
            }
        });
        Job { number: number.0, folder, execution, nice: machine.nice(number.0) }
    }

    fn spawn<F>(self, job: Job, act: impl FnOnce(Cluster, Job) -> F + Send + 'static)
    where
        F: Future<Output = Event> + Send + 'static,
    {
        let (mailbox, changed) = (self.mailbox.clone(), self.changed.clone());
        let runtime = self.host.runtime.clone();
        let execution = job.execution.clone();
        runtime.spawn(async move {
            if let Err(why) = self.noted(&job).await {
                tracing::warn!(job = job.number, why, "not known as this server's in the batch system");
            }
            let event = act(self, job).await;
            if let (Event::Ended { .. } | Event::NodeFailed { .. }, Some(execution)) = (&event, execution) {
                observer::details(&mailbox, &execution).await;
                folders::remove_copies(execution.dir.clone()).await;
            }
            // A server that has stopped finds out when it starts again.
            let _ = mailbox.send(server::Event::Batch(batch::Event::External(event)));
            changed.notify_one();
        });
    }

    async fn system(&self) -> Arc<BatchSystem> {
        let mut system = self.system.clone();
        let found = system.wait_for(Option::is_some).await.ok().and_then(|found| found.clone());
        match found {
            Some(system) => system,
            // The daemon stops, and this task with it.
            None => std::future::pending().await,
        }
    }

    /// What runs a job.
    fn program(&self, dir: &Path) -> Vec<OsString> {
        let words = self.host.supervisor.iter().cloned();
        words.chain([dir.into()]).collect()
    }

    async fn release(
        self,
        job: Job,
        ids: Vec<String>,
        alternatives: Vec<Alternative>,
        tentative: bool,
    ) -> Event {
        let number = JobId(job.number);
        let system = self.system().await;
        match self.prepared(&job, None, &alternatives).await {
            Ok(_) => {}
            Err(NotReady::Failed(why)) => return self.not_started(&system, &job, &ids, why).await,
            Err(NotReady::Unwanted) => {
                let wanted = job.number;
                let is_cancelled = move |server: &mut Server, _: _| server.is_cancelled(wanted);
                match self.mailbox.ask(is_cancelled).await {
                    // It is withdrawn next, and has not been permitted to start.
                    Ok(false) if !tentative => return Event::Released { job: number },
                    Ok(false) => {
                        self.refuse(&job).await;
                        self.end_there(&system, &job, &ids).await;
                        return Event::ReleasedTooLate { job: number };
                    }
                    Ok(true) | Err(_) => {
                        return self.not_started(&system, &job, &ids, "it was cancelled".to_owned()).await;
                    }
                }
            }
        }
        if tentative {
            if let Some(subjob) = job.execution.as_ref().and_then(|execution| execution.subjob()) {
                self.follow_tasks(&subjob.subjob.id);
            }
            return self.permit(&job).await;
        }
        for id in &ids {
            let mut retry = Retry::new("release a job", &job.number);
            self.mailbox.leads().await;
            while let Err(error) = system.release(job.number, id).await {
                if !error.may_pass() {
                    // A listing shows its outcome.
                    tracing::info!(job = job.number, id, %error, "not released");
                    break;
                }
                retry.after(&error).await;
            }
        }
        Event::Released { job: number }
    }

    /// The end of a job that is still held, or waits for its start permit: nothing of it has run.
    async fn not_started(&self, system: &BatchSystem, job: &Job, ids: &[String], why: String) -> Event {
        self.refuse(job).await;
        self.end_there(system, job, ids).await;
        Event::Ended { job: JobId(job.number), exit: Exit::NotStarted(why), started: None, elapsed_ms: None }
    }

    async fn withdraw(self, job: Job, ids: Vec<String>, tentative: bool) -> Event {
        let (system, number) = (self.system().await, JobId(job.number));
        let mut outcome = WithdrawalOutcome::Withdrawn;
        for id in &ids {
            if !self.prevent_start(&system, &job, id).await.is_prevented() {
                outcome = WithdrawalOutcome::Started;
            }
        }
        if outcome == WithdrawalOutcome::Started && !tentative && self.was_removed(&job).await {
            // By an earlier try of the same: what has started since found nothing to run.
            outcome = WithdrawalOutcome::Withdrawn;
        }
        if outcome == WithdrawalOutcome::Withdrawn && !self.remove_folder(&job).await {
            outcome = WithdrawalOutcome::Started;
        }
        if outcome == WithdrawalOutcome::Withdrawn {
            self.clear(&job).await;
            self.remove_prevented(&system, &job, &ids).await;
        }
        tracing::info!(job = job.number, ?outcome, "withdrawn");
        Event::Withdrawal { job: number, outcome }
    }

    /// Has the machine notified how the tasks of a subjob end that is to run.
    fn follow_tasks(&self, id: &SubjobId) {
        let dir = self.host.subjob_dir(id);
        self.host.runtime.spawn(observer::follow_tasks(self.mailbox.clone(), dir, id.clone()));
    }

    async fn prevent_start(&self, system: &BatchSystem, job: &Job, id: &str) -> StartPrevention {
        let mut retry = Retry::new("withdraw a job", &job.number);
        loop {
            match system.prevent_start(job.number, id).await {
                Ok(kept) => return kept,
                // Nothing may be concluded from that.
                Err(error) => retry.after(&error).await,
            }
        }
    }

    async fn remove_prevented(&self, system: &BatchSystem, job: &Job, ids: &[String]) {
        for id in ids {
            let mut retry = Retry::new("take a job out of the queue", &job.number);
            while let Err(error) = system.remove_prevented(job.number, id).await {
                retry.after(&error).await;
            }
        }
    }

    async fn remove(self, job: Job, ids: Vec<String>) -> Event {
        let system = self.system().await;
        self.clear(&job).await;
        for id in ids {
            // If one has started meanwhile it finds nothing to run, or that it was run.
            let outcome = self.prevent_start(&system, &job, &id).await;
            tracing::info!(job = job.number, id, ?outcome, "removed what was left of a job");
            if outcome.is_prevented() {
                self.remove_prevented(&system, &job, &[id]).await;
            }
        }
        Event::Removed { job: JobId(job.number) }
    }

    async fn terminate(self, job: Job, ids: Vec<String>) -> Event {
        self.refuse(&job).await;
        self.ask_end(&job).await;
        // Its supervisor ends it in its own way, and records that; the batch system, which signals everybody, ends what is left.
        let begin = Instant::now();
        let timeout = Duration::from_secs(u64::from(self.host.cluster.grace_s)) + NOTICED;
        let period = if job.account().is_some() { POLL_PERIOD_OF_ACCOUNT } else { POLL_PERIOD };
        while begin.elapsed() < timeout && self.runs(&job).await {
            tokio::time::sleep(period).await;
        }
        let system = self.system().await;
        self.end_there(&system, &job, &ids).await;
        Event::Terminated { job: JobId(job.number) }
    }

    /// Has the batch system end a job.
    async fn end_there(&self, system: &BatchSystem, job: &Job, ids: &[String]) {
        for id in ids {
            let mut retry = Retry::new("end a job", &job.number);
            while let Err(error) = system.terminate(job.number, id).await {
                if !error.may_pass() {
                    tracing::error!(job = job.number, id, %error, "the batch system does not end a job");
                    break;
                }
                retry.after(&error).await;
            }
        }
    }
}
