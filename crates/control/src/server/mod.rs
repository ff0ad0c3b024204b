//! The server of one cluster (paper 000, section 3.1): it submits, cancels waiting jobs, estimates and lists, nothing else.
//!
//! The server sizes requests, checks decisions of others against its present state (`admission`), keeps accepted jobs
//! until shortly after their end, and reports each change to its agent. Whatever changes its state is an [`Event`],
//! journaled before the commands that follow from it are carried out. Queries are not journaled.

mod admission;
mod banning;
mod cancelling;
mod configuration;
mod deferring;
mod draining;
mod ending;
mod entry;
mod estimate_history;
mod event;
mod forgetting;
#[cfg(test)]
mod handoff_bench;
#[cfg(test)]
mod handoff_tests;
mod holding;
mod incoming_siblings;
mod jobs;
mod learning;
mod limiting;
mod nice;
mod prospects;
#[cfg(test)]
mod prospects_tests;
mod queries;
mod requeueing;
mod restored;
mod siblings;
#[cfg(test)]
mod siblings_tests;
mod snapshot;
mod source;
mod subjobs;
mod target;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pliant_model::{JobId, Procs, Speed, Time, Walltimes};
use pliant_policy::UnknownName;
use pliant_policy::runtimes::Runtimes;
use pliant_policy::runtimes::history::History;
use pliant_policy::tuning::Tuner;
use rustc_hash::FxHashMap;

use crate::audit::{Actor, AuditAct, AuditRecord};
use crate::batch::embedded::{Embedded, HostResources};
use crate::batch::external::{self, External, System};
use crate::batch::{self, BatchSystem, Effects, StatusUpdate};
use crate::job::{Exit, JobRecord, JobState, Work};
use crate::names::{Handle, Key, Name, User};
use crate::reason::DiscoverySummary;
use crate::replay::Machine;

pub use admission::{AdmissionRefusal, Submit};
pub use banning::Ban;
pub use configuration::ChangeEffect;
pub use draining::Drain;
pub use event::{Answer, Command, Event};
pub use holding::Hold;
pub use limiting::{LIMITED_USERS_MAX, LimitChange, LimitKey, UserLimits};
pub use prospects::Instance;
pub use snapshot::ServerState;
pub use subjobs::{ListedSubjob, SubjobCommand, SubjobEvent};
pub use waiting::{WaitingLimits, WaitingOfUser};

use ending::KEPT_AFTER_END;
use entry::ServerJob;
use jobs::ServerJobs;
use source::OutgoingJob;
use subjobs::Subjobs;
use target::PreparedJob;
use waiting::Waiting;

/// Size of the blocks of job numbers that a new journal skips.
const NUMBERS: u32 = 100_000;
/// How many job numbers are skipped after a failure of the host: more than there are jobs without a synced record.
const SKIPPED: u32 = 10_000;

/// The configuration of a server.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerConfig {
    /// The server's name.
    pub name: Name,
    /// The address for clients and other servers, `host:port`.
    pub address: String,
    /// Processors of the cluster, unless its batch system reports them.
    pub procs: Procs,
    /// The speed of these processors.
    pub speed: Speed,
    /// The local policy of the embedded batch system, or [`external::SLURM`] or [`external::OAR`].
    pub policy: String,
    /// The rule that sizes moldable requests.
    pub tuner: Tuner,
    /// The bounds of what waits.
    pub waiting: WaitingLimits,
    /// The host of the embedded batch system, if it counts what jobs need besides processors.
    pub host: Option<Arc<HostResources>>,
}

/// The server of one cluster.
pub struct Server {
    config: ServerConfig,
    batch: Box<dyn BatchSystem>,
    jobs: ServerJobs,
    /// Ended jobs in the order of their ends: they are forgotten in that order.
    ended: VecDeque<(Time, u32)>,
    keys: FxHashMap<Key, u32>,
    ended_keys: VecDeque<(Time, Key)>,
    /// What waits.
    waiting: Waiting,
    /// Numbers here of jobs whose handle has another number.
    numbers: BTreeMap<Handle, u32>,
    /// Jobs that are being handed over to other servers.
    outgoing: BTreeMap<u32, OutgoingJob>,
    /// Siblings of waiting jobs, queued at other servers.
    siblings: BTreeMap<u32, Vec<OutgoingJob>>,
    /// Jobs that this server has prepared for other servers.
    prepared: BTreeMap<Handle, PreparedJob>,
    /// Jobs that were taken over: by which attempt, and when.
    taken_over: BTreeMap<Handle, (u32, Time)>,
    /// The same in the order of time: they are forgotten in that order.
    taken_over_order: VecDeque<(Time, Handle)>,
    /// Subjobs of launches that agents coordinate.
    subjobs: Subjobs,
    history: History,
    /// Runtime statistics for multi-jobs.
    runtimes: Runtimes<String>,
    /// Number of failed jobs.
    failures: u64,
    /// The act of an operator that drained the server.
    drained: Option<Drain>,
    /// The users whom operators have banned.
    banned: BTreeMap<User, Ban>,
    /// The limits that operators have set.
    limits: BTreeMap<User, UserLimits>,
    /// When waiting jobs may start, or are too late to start.
    instants: BTreeSet<(Time, u32)>,
    /// Waiting jobs that stand back behind others of their owners ([`nice`]).
    nice: BTreeSet<u32>,
    next: u32,
    /// The first number of this journal is known.
    numbered: bool,
    /// The number of the journal for the parent, since an older copy of it was put back.
    journal: Option<u64>,
    /// When changed estimates of waiting jobs were noted last.
    estimates_noted: Option<Time>,
}

impl Server {
    /// An empty server.
    pub fn new(config: ServerConfig, now: Time) -> Result<Server, UnknownName> {
        let batch: Box<dyn BatchSystem> = match config.policy.as_str() {
            external::SLURM => Box::new(External::new()),
            external::OAR => Box::new(External::of(System::Oar)),
            policy => Box::new(Embedded::new(policy, config.procs, config.host.clone(), now)?),
        };
        Ok(Server {
            config,
            batch,
            jobs: ServerJobs::default(),
            ended: VecDeque::new(),
            keys: FxHashMap::default(),
            ended_keys: VecDeque::new(),
            waiting: Waiting::default(),
            numbers: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            siblings: BTreeMap::new(),
            prepared: BTreeMap::new(),
            taken_over: BTreeMap::new(),
            taken_over_order: VecDeque::new(),
            subjobs: Subjobs::default(),
            history: learning::empty(),
            runtimes: prospects::empty(),
            failures: 0,
            drained: None,
            banned: BTreeMap::new(),
            limits: BTreeMap::new(),
            instants: BTreeSet::new(),
            nice: BTreeSet::new(),
            next: 1,
            numbered: false,
            journal: None,
            estimates_noted: None,
        })
    }

    /// The server's configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Applies an event and appends the commands that follow.
    pub fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        let (before, is_denial) = (commands.len(), matches!(event, Event::Denied { .. }));
        self.apply(now, event, commands);
        // What is not journaled changes nothing: not what waits for limits either.
        if !is_denial && !Server::is_without_effect(&commands[before..]) {
            self.keep_behind_own(now, commands);
            self.keep_within_limits(now, commands);
            self.note_estimates(now);
        }
    }

    fn apply(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        match event {
            Event::Submit { reply, submit } => {
                let answer = self.admit(now, *submit, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Cancel { reply, number, caller } => {
                if let Some(answer) = self.cancel(now, reply, number, &caller, commands) {
                    commands.push(Command::Reply { to: reply, answer });
                }
            }
            Event::Withdraw { reply, number, caller } => {
                let answer = self.recall(now, number, &caller, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Configured { procs, policy, host } => self.configure(now, procs, &policy, host),
            Event::PrioritySettings(priority) => self.batch.set_priority(now, &priority),
            Event::WaitingLimits(limits) => self.config.waiting = limits,
            Event::Drain { reply, by, why } => {
                let answer = self.drain(now, by, why, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Resume { reply, by, why } => {
                let answer = self.resume(now, by, why, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Hold { reply, number, by, why } => {
                let answer = self.hold_job(now, number, by, why, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Release { reply, number, by, why } => {
                let answer = self.release_job(now, number, by, why, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Prioritise { reply, number, priority, by, why } => {
                let answer = self.prioritise(now, number, priority, (by, why), commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Ban { reply, user, by, why } => {
                let answer = self.ban(now, user, by, why, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Unban { reply, user, by, why } => {
                let answer = self.unban(now, user, by, why, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Limit { reply, user, changes, by, why } => {
                let answer = self.limit_user(now, user, &changes, (by, why), commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Forget { reply, server, by, why } => {
                let answer = self.forget_server(now, &server, by, &why, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Denied { by, act } => audit(now, Actor::User(by), AuditAct::Deny, None, act, commands),
            Event::Numbered { highest } => self.start_numbering_after(highest),
            Event::SkipNumbers => self.next = self.next.saturating_add(SKIPPED),
            Event::Restored { journal, highest, known } => {
                self.restored(now, journal, highest, known, commands);
            }
            Event::RestoredLater(known) => self.restored_later(now, known, commands),
            Event::LongestInstance { number, ms } => {
                if let Some(entry) = self.jobs.get_mut(&number) {
                    entry.longest = Some(ms);
                }
            }
            Event::Batch(event) => {
                self.with_batch(now, commands, |batch, effects| batch.on(now, event, effects))
            }
            Event::ProposeMove { reply, proposal } => self.propose_move(now, reply, *proposal, commands),
            Event::Prepare { reply, handoff } => self.prepare(now, reply, *handoff, commands),
            Event::HandoffSigned { id, signed } => self.handoff_signed(&id, signed),
            Event::Commit { reply, id, cancelled, attempts } => {
                self.commit(now, Some(reply), &id, (cancelled, attempts), commands);
            }
            Event::Ready { reply, id } => self.ready(now, reply, &id, commands),
            Event::Abort { reply, id } => self.abort(now, Some(reply), &id, commands),
            Event::Answered { id, reply } => self.answered(now, &id, reply, commands),
            Event::Decided { id, decision } => self.decided(now, &id, decision, commands),
            Event::Subjob(event) => self.on_subjob(now, event, commands),
            Event::Due => {
                self.pass_instants(now, commands);
                self.with_batch(now, commands, |batch, effects| batch.due(now, effects));
                self.retry_outgoing(now, commands);
                self.retry_siblings(now, commands);
                self.inquire(now, commands);
                self.report_subjobs(now, commands);
                self.forget(now);
            }
        }
    }

    /// True if the server knows its first job number: it was given, or jobs were numbered. A driver accepts no submission before.
    pub fn is_numbered(&self) -> bool {
        self.numbered
    }

    /// Starts numbering after `highest`, the last known number of an earlier journal. Skips a block or two, as agents may not
    /// know the last jobs of that journal.
    fn start_numbering_after(&mut self, highest: u32) {
        if !self.numbered && highest > 0 {
            self.next = (highest / NUMBERS + 2).saturating_mul(NUMBERS).saturating_add(1);
        }
        self.numbered = true;
    }

    /// When the next [`Event::Due`] is due; now if that time has passed.
    pub fn next_due(&self) -> Option<Time> {
        let forget = self.ended.front().map(|(at, _)| *at + KEPT_AFTER_END);
        let outgoing =
            self.outgoing.values().chain(self.siblings.values().flatten()).filter_map(OutgoingJob::due);
        let prepared = self.prepared.values().map(PreparedJob::due);
        let instant = self.instants.first().map(|(at, _)| *at);
        let due = self.batch.next_due().into_iter().chain(forget).chain(outgoing).chain(prepared);
        due.chain(self.subjobs.next_due()).chain(instant).min()
    }

    fn with_batch(
        &mut self,
        now: Time,
        commands: &mut Vec<Command>,
        act: impl FnOnce(&mut dyn BatchSystem, &mut Effects),
    ) {
        let mut effects = Effects::default();
        act(self.batch.as_mut(), &mut effects);
        for update in effects.updates {
            self.apply_update(now, update, commands);
        }
        for command in effects.commands {
            if let batch::Command::Run(run) = &command {
                self.subjobs.runs(run);
                if let Some(entry) = self.jobs.get_mut(&run.job.0) {
                    entry.run = Some(run.clone());
                }
            }
            commands.push(Command::Batch(command));
        }
    }

    /// Like [`Self::with_batch`], with the walltimes of a moldable job on its possible sizes.
    fn with_sizes(
        &mut self,
        now: Time,
        work: &Work,
        speed: Speed,
        commands: &mut Vec<Command>,
        act: impl FnOnce(&mut dyn BatchSystem, Option<&Walltimes<'_>>, &mut Effects),
    ) {
        let request = work.request(JobId(self.next), now);
        let sizes = request.where_counted(self.procs(), speed, self.batch.counts_resources());
        // A batch system that chooses among sizes takes the one that completes first.
        let sizes = sizes.filter(|sizes| self.config.tuner.is_greedy() && sizes.least() < sizes.most());
        self.with_batch(now, commands, |batch, effects| act(batch, sizes.as_ref(), effects));
    }

    fn apply_update(&mut self, now: Time, update: StatusUpdate, commands: &mut Vec<Command>) {
        if self.apply_subjob_update(now, &update, commands) {
            return;
        }
        match update {
            StatusUpdate::Held { job } => self.preparation_confirmed(job.0, commands),
            StatusUpdate::LocalEnded(job) => {
                if job.is_early() {
                    commands.push(Command::Freed);
                }
                commands.push(Command::ArchiveLocal(Box::new(job)));
            }
            StatusUpdate::Ready { job } => self.sibling_ready(now, job.0, commands),
            StatusUpdate::ReleasedTooLate { job } => self.queue_again(now, job.0, commands),
            StatusUpdate::Withdrawn { job } if self.take_recall(job.0) => {
                self.end(now, job, self.exit_of_withdrawn(job), None, commands);
            }
            StatusUpdate::Withdrawn { job } => self.withdrawn(now, job.0, commands),
            StatusUpdate::NotWithdrawn { job } => {
                self.take_recall(job.0);
                self.keep_job(job.0, commands);
            }
            // Its end is known already, or it is another server's.
            StatusUpdate::Started { job, .. }
            | StatusUpdate::Ended { job, .. }
            | StatusUpdate::NodeFailed { job, .. }
                if self.is_over_here(job) => {}
            StatusUpdate::Started { job, procs, walltime, at } => {
                self.take_recall(job.0);
                self.keep_job(job.0, commands);
                // In an external batch system it can have been released by a user.
                self.forget_instants(job.0);
                let Some(entry) = self.jobs.get_mut(&job.0) else { return };
                self.waiting.remove_job(entry);
                entry.record.state = JobState::Active;
                let at = entry.started_before.unwrap_or(at);
                // Its account can have recorded any time.
                entry.record.started = Some(at.max(entry.record.submitted).min(now));
                entry.record.shape(procs, walltime, entry.speed_on(self.config.speed));
                report(&entry.record, commands);
            }
            StatusUpdate::NodeFailed { job, exit } => self.node_failed(now, job, exit, commands),
            StatusUpdate::Ended { job, exit, elapsed_ms } => {
                self.keep_job(job.0, commands);
                self.preparation_ended(now, job.0, &exit, commands);
                let elapsed_ms = elapsed_ms.map(|ms| ms.min(self.longest_ms(now, job)));
                if exit == Exit::Code(0) {
                    let elapsed = elapsed_ms.map(Duration::from_millis);
                    self.record_walltime_sample(job.0, elapsed, now);
                    self.record_runtimes(job.0, elapsed, now);
                }
                self.end(now, job, exit, elapsed_ms, commands);
            }
        }
    }
}

/// Reports a job's record to the agent, without the estimates that were compared and those that have changed.
fn report(record: &JobRecord, commands: &mut Vec<Command>) {
    let update = JobRecord {
        compared: Vec::new(),
        estimates: Vec::new(),
        discovery: DiscoverySummary::default(),
        ..record.clone()
    };
    commands.push(Command::Report(Box::new(update)));
}

/// Adds a record to the audit trail.
fn audit(at: Time, by: Actor, act: AuditAct, job: Option<&Handle>, why: String, commands: &mut Vec<Command>) {
    let job = job.cloned();
    commands.push(Command::Audit(Box::new(AuditRecord { at, by, act, job, user: None, why })));
}
