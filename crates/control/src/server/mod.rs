//! The server in front of one cluster (paper 000, section 3.1: it can submit, cancel a waiting job, estimate
//! and list, and nothing else).
//!
//! It sizes what it is asked for, checks every decision that was made elsewhere against its present state
//! (module `admission`), keeps the jobs it accepted until they have ended and a little longer, and tells its agent
//! about each change. Whatever changes its state comes in as an [`Event`], to be journaled before the commands
//! that follow from it are carried out; questions change nothing and are not journaled.

mod admission;
mod copies;
#[cfg(test)]
mod copies_tests;
mod event;
#[cfg(test)]
mod handoff_bench;
#[cfg(test)]
mod handoff_tests;
mod learning;
mod prospects;
#[cfg(test)]
mod prospects_tests;
mod queries;
mod snapshot;
mod source;
mod subjobs;
mod target;
#[cfg(test)]
mod tests;
mod turn;

use crate::payload::Payload;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pliant_model::{JobId, Procs, Span, Speed, Time, Walltimes};
use pliant_policy::UnknownName;
use pliant_policy::runtimes::Runtimes;
use pliant_policy::runtimes::history::History;
use pliant_policy::tuning::Tuner;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::batch::embedded::Embedded;
use crate::batch::external::{self, External, System};
use crate::batch::{self, BatchSystem, Effects, News};
use crate::job::{Exit, JobRecord, JobState, Work, is_false};
use crate::names::Token;
use crate::names::{Handle, Key, Name, User};
use crate::reason::DiscoverySummary;
use crate::runtime_sample::RuntimeSample;

pub use admission::{Refused, Submit};
pub use event::{Answer, Command, Event};
pub use prospects::Instance;
pub use snapshot::ServerState;
pub use subjobs::{ListedSubjob, SubjobCommand, SubjobEvent};

use source::OutgoingJob;
use subjobs::Subjobs;
use target::PreparedJob;

/// How long an ended job stays in memory: longer than it takes to be found in the archive.
const KEPT_AFTER_END: Span = Span(60);
/// How long the key of an ended job stays in memory: longer than a client repeats itself.
const KEY_KEPT_AFTER_END: Span = Span(3600);
/// So many of the last keys stay longer: a clock that jumps makes a server forget no key of a submission that is on its way.
const KEYS_KEPT: usize = 1_000;

/// The numbers of a journal begin after a multiple of this.
const NUMBERS: u32 = 100_000;

/// What a server is.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerConfig {
    /// Its name.
    pub name: Name,
    /// Where clients and other servers reach it, `host:port`.
    pub address: String,
    /// Processors of its cluster, unless its batch system says how many there are.
    pub procs: Procs,
    /// How fast they are.
    pub speed: Speed,
    /// The local policy of its embedded batch system, or [`external::SLURM`] or
    /// [`external::OAR`] for the snapshot of another.
    pub policy: String,
    /// How moldable requests are sized.
    pub tuner: Tuner,
    /// How many jobs of one user may wait.
    pub waiting_per_user: u32,
}

/// A job that the server keeps.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct ServerJob {
    /// Its number here, which is the one in its handle unless it came from another server.
    number: u32,
    record: JobRecord,
    /// What to run: as its driver describes it.
    payload: Payload,
    /// What its run teaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sample: Option<RuntimeSample>,
    /// How it was run, once it was.
    run: Option<batch::Run>,
    /// Of a batch: how long its longest instance took, in milliseconds ([`Event::Longest`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    longest: Option<u64>,
    /// It was asked to end while it ran.
    cancelling: bool,
    /// Its owner wants it back if it has not started, and the batch system has not said whether it has.
    #[serde(default, skip_serializing_if = "is_false")]
    recalled: bool,
    /// How often handing it over was tried.
    attempts: u32,
}

impl ServerJob {
    /// A job with the number of its handle.
    fn new(record: JobRecord, payload: Payload, sample: Option<RuntimeSample>) -> ServerJob {
        let number = record.handle.number;
        ServerJob {
            number,
            record,
            payload,
            sample,
            run: None,
            longest: None,
            cancelling: false,
            recalled: false,
            attempts: 0,
        }
    }
}

/// The server of one cluster.
pub struct Server {
    config: ServerConfig,
    batch: Box<dyn BatchSystem>,
    jobs: BTreeMap<u32, ServerJob>,
    /// Jobs that have ended, by when: forgotten in that order.
    ended: VecDeque<(Time, u32)>,
    keys: FxHashMap<Key, u32>,
    ended_keys: VecDeque<(Time, Key)>,
    /// How many jobs of each user wait.
    waiting: FxHashMap<User, u32>,
    /// The numbers of jobs that came from other servers, or back from there.
    numbers: BTreeMap<Handle, u32>,
    /// Jobs on their way to other servers.
    leaving: BTreeMap<u32, OutgoingJob>,
    /// Copies of waiting jobs at other servers.
    copies: BTreeMap<u32, Vec<OutgoingJob>>,
    /// Jobs that other servers may hand over.
    held: BTreeMap<Handle, PreparedJob>,
    /// Jobs that were taken over: by which attempt, and when.
    taken: BTreeMap<Handle, (u32, Time)>,
    /// The same by when: forgotten in that order.
    taken_order: VecDeque<(Time, Handle)>,
    /// What runs here of launches that agents coordinate.
    subjobs: Subjobs,
    history: History,
    /// What jobs took, for multi-jobs.
    runtimes: Runtimes<String>,
    /// Jobs that failed.
    failures: u64,
    next: u32,
    /// It is known from which number on jobs are numbered.
    numbered: bool,
}

impl Server {
    /// A server without jobs.
    pub fn new(config: ServerConfig, now: Time) -> Result<Server, UnknownName> {
        let batch: Box<dyn BatchSystem> = match config.policy.as_str() {
            external::SLURM => Box::new(External::new()),
            external::OAR => Box::new(External::of(System::Oar)),
            policy => Box::new(Embedded::new(policy, config.procs, now)?),
        };
        Ok(Server {
            config,
            batch,
            jobs: BTreeMap::new(),
            ended: VecDeque::new(),
            keys: FxHashMap::default(),
            ended_keys: VecDeque::new(),
            waiting: FxHashMap::default(),
            numbers: BTreeMap::new(),
            leaving: BTreeMap::new(),
            copies: BTreeMap::new(),
            held: BTreeMap::new(),
            taken: BTreeMap::new(),
            taken_order: VecDeque::new(),
            subjobs: Subjobs::default(),
            history: learning::empty(),
            runtimes: prospects::empty(),
            failures: 0,
            next: 1,
            numbered: false,
        })
    }

    /// What it is.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Takes in an event and appends what is to be done.
    pub fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
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
            Event::Numbered { highest } => self.number_after(highest),
            Event::Longest { number, ms } => {
                if let Some(kept) = self.jobs.get_mut(&number) {
                    kept.longest = Some(ms);
                }
            }
            Event::Batch(event) => {
                self.with_batch(now, commands, |batch, effects| batch.on(now, event, effects))
            }
            Event::Order { reply, order } => self.order(now, reply, *order, commands),
            Event::Prepare { reply, handoff } => self.prepare(now, reply, *handoff, commands),
            Event::Commit { reply, id, cancelled, attempts } => {
                self.commit(now, Some(reply), &id, (cancelled, attempts), commands);
            }
            Event::Ready { reply, id } => self.ready(now, reply, &id, commands),
            Event::Abort { reply, id } => self.abort(now, Some(reply), &id, commands),
            Event::Answered { id, reply } => self.answered(now, &id, reply, commands),
            Event::Judged { id, decision } => self.judged(now, &id, decision, commands),
            Event::Subjob(event) => self.on_subjob(now, event, commands),
            Event::Due => {
                self.with_batch(now, commands, |batch, effects| batch.due(now, effects));
                self.leave_on(now, commands);
                self.copy_on(now, commands);
                self.inquire(now, commands);
                self.tell_of_subjobs(now, commands);
                self.forget(now);
            }
        }
    }

    /// True if it is known from which number on jobs are numbered: it was told, or has numbered some. A driver accepts
    /// nothing before.
    pub fn is_numbered(&self) -> bool {
        self.numbered
    }

    /// Jobs that another journal has numbered keep their numbers to themselves. Some of the last ones may not have been
    /// told of, so that a block or two are left out.
    fn number_after(&mut self, highest: u32) {
        if !self.numbered && highest > 0 {
            self.next = (highest / NUMBERS + 2).saturating_mul(NUMBERS).saturating_add(1);
        }
        self.numbered = true;
    }

    /// When [`Event::Due`] is wanted next: at once if that is not later than now.
    pub fn next_due(&self) -> Option<Time> {
        let forget = self.ended.front().map(|(at, _)| *at + KEPT_AFTER_END);
        let leaving =
            self.leaving.values().chain(self.copies.values().flatten()).filter_map(OutgoingJob::due);
        let held = self.held.values().map(PreparedJob::due);
        let subjobs = self.subjobs.next_due();
        self.batch.next_due().into_iter().chain(forget).chain(leaving).chain(held).chain(subjobs).min()
    }

    fn with_batch(
        &mut self,
        now: Time,
        commands: &mut Vec<Command>,
        act: impl FnOnce(&mut dyn BatchSystem, &mut Effects),
    ) {
        let mut effects = Effects::default();
        act(self.batch.as_mut(), &mut effects);
        for news in effects.news {
            self.learn(now, news, commands);
        }
        for command in effects.commands {
            if let batch::Command::Run(run) = &command {
                self.subjobs.runs(run);
                if let Some(kept) = self.jobs.get_mut(&run.job.0) {
                    kept.run = Some(run.clone());
                }
            }
            commands.push(Command::Batch(command));
        }
    }

    /// The same with the walltimes of a moldable job on its possible sizes.
    fn with_sizes(
        &mut self,
        now: Time,
        work: &Work,
        speed: Speed,
        commands: &mut Vec<Command>,
        act: impl FnOnce(&mut dyn BatchSystem, Option<&Walltimes<'_>>, &mut Effects),
    ) {
        let request = work.request(JobId(self.next), now);
        let sizes = request.on(self.procs(), speed);
        // A batch system that chooses among sizes itself takes the one that completes first.
        let sizes = sizes.filter(|sizes| self.config.tuner.is_greedy() && sizes.least() < sizes.most());
        self.with_batch(now, commands, |batch, effects| act(batch, sizes.as_ref(), effects));
    }

    fn learn(&mut self, now: Time, news: News, commands: &mut Vec<Command>) {
        if self.subjob_news(now, &news, commands) {
            return;
        }
        match news {
            News::Held { job } => self.is_held(job.0, commands),
            News::Local(job) => {
                if job.is_early() {
                    commands.push(Command::Freed);
                }
                commands.push(Command::KeepLocal(Box::new(job)));
            }
            News::Turn { job } => self.its_turn(now, job.0, commands),
            News::Missed { job } => self.queue_anew(now, job.0, commands),
            News::Withdrawn { job } if self.ends_recall(job.0) => {
                self.end(now, job, Exit::Cancelled, None, commands);
            }
            News::Withdrawn { job } => self.withdrawn(now, job.0, commands),
            News::Stays { job } => {
                self.ends_recall(job.0);
                self.stays(job.0, commands);
            }
            News::Started { job, procs, walltime, at } => {
                self.ends_recall(job.0);
                self.stays(job.0, commands);
                let Some(kept) = self.jobs.get_mut(&job.0) else { return };
                waits_no_more(&mut self.waiting, &kept.record);
                kept.record.state = JobState::Active;
                kept.record.started = Some(at.min(now));
                kept.record.procs = procs;
                kept.record.walltime = walltime;
                tell(&kept.record, commands);
            }
            News::Ended { job, exit, elapsed_ms } => {
                self.stays(job.0, commands);
                self.is_not_held(now, job.0, &exit, commands);
                if exit == Exit::Code(0) {
                    let elapsed = elapsed_ms.map(Duration::from_millis);
                    self.learn_from(job.0, elapsed, now);
                    self.tell_runtimes(job.0, elapsed, now);
                }
                self.end(now, job, exit, elapsed_ms, commands);
            }
        }
    }

    fn end(
        &mut self,
        now: Time,
        job: JobId,
        exit: Exit,
        elapsed_ms: Option<u64>,
        commands: &mut Vec<Command>,
    ) {
        let Some(kept) = self.jobs.get_mut(&job.0) else { return };
        waits_no_more(&mut self.waiting, &kept.record);
        kept.record.state = exit.state();
        self.failures += u64::from(kept.record.state == JobState::Failed);
        // It may have ended while nobody was here to see it.
        let ran = elapsed_ms.map(|elapsed| Span(elapsed.div_ceil(1000).try_into().unwrap_or(i64::MAX / 4)));
        let ended = kept.record.started.zip(ran).map_or(now, |(started, ran)| started + ran);
        kept.record.ended = Some(ended.min(now));
        kept.record.exit = Some(exit);
        tell(&kept.record, commands);
        commands.push(Command::Archive(Box::new(kept.record.clone())));
        self.ended.push_back((now, job.0));
        self.ended_keys.push_back((now, kept.record.key));
    }

    /// None if the answer comes later: the job is on its way, and only where it arrives it is certain that it is
    /// cancelled.
    fn cancel(
        &mut self,
        now: Time,
        reply: Token,
        number: u32,
        caller: &Caller,
        commands: &mut Vec<Command>,
    ) -> Option<Answer> {
        let kept = self.jobs.get(&number).filter(|kept| caller.may_access(&kept.record.owner));
        let Some(kept) = kept else { return Some(Answer::NoSuchJob) };
        if *kept.record.server() != self.config.name {
            return Some(Answer::Elsewhere(Box::new(kept.record.clone())));
        }
        self.cancel_job(now, number, commands);
        if self.answer_on_arrival(number, reply) {
            return None;
        }
        Some(Answer::Cancelling(Box::new(self.jobs[&number].record.clone())))
    }

    /// Withdraws a job for its owner if it has not started. One that is on its way elsewhere is left alone.
    fn recall(&mut self, now: Time, number: u32, caller: &Caller, commands: &mut Vec<Command>) -> Answer {
        let kept = self.jobs.get_mut(&number).filter(|kept| caller.may_access(&kept.record.owner));
        let Some(kept) = kept else { return Answer::NoSuchJob };
        if *kept.record.server() != self.config.name {
            return Answer::Elsewhere(Box::new(kept.record.clone()));
        }
        if kept.record.state == JobState::Queued && !kept.recalled && !self.leaving.contains_key(&number) {
            kept.recalled = true;
            self.with_batch(now, commands, |batch, effects| batch.withdraw(now, JobId(number), effects));
        }
        Answer::Cancelling(Box::new(self.jobs[&number].record.clone()))
    }

    /// It is known whether a job had started; true if its owner wanted it back.
    fn ends_recall(&mut self, number: u32) -> bool {
        self.jobs.get_mut(&number).is_some_and(|kept| std::mem::take(&mut kept.recalled))
    }

    fn cancel_job(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let Some(kept) = self.jobs.get_mut(&number) else { return };
        let is_here = *kept.record.server() == self.config.name;
        if kept.record.state.is_final() || !is_here || self.cancel_on_its_way(number, commands) {
            return;
        }
        if let Some(kept) = self.jobs.get_mut(&number) {
            kept.cancelling |= kept.record.state == JobState::Active;
        }
        self.with_batch(now, commands, |batch, effects| batch.cancel(now, JobId(number), effects));
    }

    /// Drops what ended long enough ago.
    fn forget(&mut self, now: Time) {
        while let Some((at, number)) = self.ended.front().copied()
            && at + KEPT_AFTER_END <= now
        {
            self.ended.pop_front();
            let Some(ServerJob { record: JobRecord { handle, key, .. }, .. }) = self.jobs.remove(&number)
            else {
                continue;
            };
            if self.numbers.get(&handle) == Some(&number) {
                self.numbers.remove(&handle);
                // From now on the key can lead to nothing but the handle.
                if handle.server == self.config.name {
                    self.keys.insert(key, handle.number);
                } else {
                    self.keys.remove(&key);
                }
            }
        }
        while let Some((at, key)) = self.ended_keys.front().copied()
            && at + KEY_KEPT_AFTER_END <= now
            && self.ended_keys.len() > KEYS_KEPT
        {
            self.ended_keys.pop_front();
            // A job that went away may have come back.
            if !self.keys.get(&key).is_some_and(|number| self.jobs.contains_key(number)) {
                self.keys.remove(&key);
            }
        }
    }
}

/// How a job stands, for the agent: without the estimates that were compared.
fn tell(record: &JobRecord, commands: &mut Vec<Command>) {
    let told = JobRecord { compared: Vec::new(), survey: DiscoverySummary::default(), ..record.clone() };
    commands.push(Command::Tell(Box::new(told)));
}

/// A job starts or leaves.
fn waits_no_more(waiting: &mut FxHashMap<User, u32>, record: &JobRecord) {
    if record.state != JobState::Queued {
        return;
    }
    if let Some(count) = waiting.get_mut(&record.owner) {
        *count -= 1;
        if *count == 0 {
            waiting.remove(&record.owner);
        }
    }
}
