//! A journal that is an older copy of itself: what is closed or followed because agents know more of it.
//!
//! What a server has done since the copy was made is in no journal. Its agent has the status updates: a job that has ended or gone to
//! another server since is closed as the agent knows it, and one that has started is looked for in its folder and never started. What was
//! submitted after the copy was made is recorded, so that its key is known.

use pliant_model::{JobId, Time};

use super::{Command, Server, report};
use crate::batch::{self, BatchSystem, Effects};
use crate::handoff::HandoffId;
use crate::job::{Exit, JobRecord, JobState};
use crate::names::Handle;

impl Server {
    /// The number of the journal for the parent; none if it is the one that was drawn when the journal was created.
    pub fn journal(&self) -> Option<u64> {
        self.journal
    }

    /// The number of the last job that was submitted here; 0 if there is none.
    pub fn last_number(&self) -> u32 {
        self.next - 1
    }

    /// The jobs that wait or run here, and those that are prepared here for others.
    pub fn open_jobs(&self) -> impl Iterator<Item = &Handle> {
        let is_open = |record: &&JobRecord| !record.state.is_final() && *record.server() == self.config.name;
        let open = self.jobs.values().map(|entry| &entry.record).filter(is_open);
        open.map(|record| &record.handle).chain(self.prepared.keys())
    }

    /// True if a job or a subjob had started before an older copy of the journal was put back.
    pub fn had_started(&self, number: u32) -> bool {
        let is_job = self.jobs.get(&number).is_some_and(|entry| entry.started_before.is_some());
        is_job || self.subjobs.had_started(number)
    }

    /// True if a job has ended, or is another server's.
    pub(super) fn is_over_here(&self, job: JobId) -> bool {
        let is_over = |record: &JobRecord| record.state.is_final() || *record.server() != self.config.name;
        self.jobs.get(&job.0).is_some_and(|entry| is_over(&entry.record))
    }

    /// Applies what the agents know of a journal that was put back.
    pub(super) fn restored(
        &mut self,
        now: Time,
        journal: u64,
        highest: u32,
        known: Vec<JobRecord>,
        commands: &mut Vec<Command>,
    ) {
        self.journal = Some(journal);
        self.numbered = false;
        self.start_numbering_after(highest.max(self.next - 1));
        let active = self.jobs.values().filter(|entry| entry.record.state == JobState::Active);
        let active: Vec<u32> = active.map(|entry| entry.number).collect();
        for number in active {
            if let Some(entry) = self.jobs.get_mut(&number) {
                entry.started_before = entry.record.started.or(Some(now));
            }
        }
        self.subjobs.mark_started_before();
        for record in known {
            self.settle_prepared(now, &record, commands);
            self.adopt(now, record, commands);
        }
    }

    /// Records jobs that agents know and that were submitted after the copy was made: their keys stand for them, and none is given again.
    /// One that has not ended and is nowhere else is lost.
    pub(super) fn restored_later(&mut self, now: Time, known: Vec<JobRecord>, commands: &mut Vec<Command>) {
        for record in known {
            let is_own = record.handle.server == self.config.name;
            if !is_own || record.handle.number < self.next || self.jobs.contains_key(&record.handle.number) {
                continue;
            }
            let is_lost = !record.state.is_final() && *record.server() == self.config.name;
            let record = if is_lost { lost(now, record) } else { record };
            if is_lost {
                report(&record, commands);
            }
            commands.push(Command::Archive(Box::new(record)));
        }
    }

    /// Takes a prepared job over that the agent knows to be here, and drops one that it knows to have gone on elsewhere.
    fn settle_prepared(&mut self, now: Time, known: &JobRecord, commands: &mut Vec<Command>) {
        let Some(prepared) = self.prepared.get(&known.handle) else { return };
        let HandoffId { attempt, .. } = prepared.handoff.id;
        let (id, taken_over) = (prepared.handoff.id.clone(), (prepared.handoff.hops.len() + 1, 0));
        let came = |record: &JobRecord| {
            let last = record.hops.last();
            last.is_some_and(|hop| hop.attempt == attempt && hop.to == self.config.name)
        };
        if came(known) {
            self.take_over(now, &id, attempt, commands);
        } else if known.progress() >= taken_over {
            self.drop_prepared(now, &id, commands);
        }
    }

    /// Closes a job, or marks it as started, if the agent knows more of it than the copy.
    fn adopt(&mut self, now: Time, known: JobRecord, commands: &mut Vec<Command>) {
        let Some(number) = self.number_of(&known.handle) else { return };
        let job = JobId(number);
        let Some(entry) = self.jobs.get(&number) else { return };
        // Another key: this copy went on without its agent, and has given a number again.
        if known.progress() <= entry.record.progress()
            || known.key != entry.record.key
            || self.is_over_here(job)
        {
            return;
        }
        // The other servers ask for the outcome of what is dropped here.
        self.siblings.remove(&number);
        self.outgoing.remove(&number);
        let Some(entry) = self.jobs.get_mut(&number) else { return };
        let record = merged(&entry.record, known);
        if !record.state.is_final() && *record.server() == self.config.name {
            let Some(number) = self.catch_up(now, number, record.requeues, commands) else { return };
            let Some(entry) = self.jobs.get_mut(&number) else { return };
            entry.started_before = (record.state == JobState::Active).then(|| record.started.unwrap_or(now));
            let attempts = record.hops.iter().map(|hop| hop.attempt);
            entry.attempts = attempts.fold(entry.attempts, u32::max);
            entry.record.hops = record.hops;
            if record.state == JobState::Active {
                entry.held = None;
                self.forget_instants(number);
                let started_before = |batch: &mut dyn BatchSystem, effects: &mut Effects| {
                    batch.started_before(now, JobId(number), effects);
                };
                self.with_batch(now, commands, started_before);
            }
            return;
        }
        let was_active = entry.record.state == JobState::Active;
        self.waiting.remove_job(entry);
        self.forget_instants(number);
        let Some(entry) = self.jobs.get_mut(&number) else { return };
        entry.record = record;
        self.close(now, job, was_active, commands);
    }

    /// Takes a closed job out of the batch system, and archives it.
    fn close(&mut self, now: Time, job: JobId, was_active: bool, commands: &mut Vec<Command>) {
        self.leave_batch(now, job, was_active);
        let Some(entry) = self.jobs.get(&job.0) else { return };
        let record = &entry.record;
        let is_here = *record.server() == self.config.name;
        let archived = if is_here { record.clone() } else { record.without_claim() };
        commands.push(Command::Archive(Box::new(archived)));
        self.ended_keys.push_back((now, record.key));
        self.ended.push_back((now, job.0));
    }

    /// Takes a job out of the batch system of which more is known than the copy says.
    pub(super) fn leave_batch(&mut self, now: Time, job: JobId, was_active: bool) {
        // What the batch system says of it changes nothing, and a restarted driver carries out what it asks for.
        let mut effects = Effects::default();
        if was_active && !self.is_external() {
            let ended = batch::Event::Ended { job, exit: Exit::Cancelled, elapsed_ms: None };
            self.batch.on(now, ended, &mut effects);
        } else {
            self.batch.cancel(now, job, &mut effects);
        }
    }
}

/// A job that was submitted after the copy was made, and whose files the copy does not have.
fn lost(now: Time, known: JobRecord) -> JobRecord {
    let exit = Exit::Lost("the journal of its server was put back, from before its submission".to_owned());
    JobRecord { state: exit.state(), exit: Some(exit), ended: Some(now), ..known }
}

/// What an agent knows of a job, with what it does not keep: what the client compared, and signatures.
fn merged(own: &JobRecord, known: JobRecord) -> JobRecord {
    let mut hops = known.hops;
    for (hop, own) in hops.iter_mut().zip(&own.hops).filter(|(hop, own)| hop.is_same(own)) {
        hop.signed = own.signed.clone();
    }
    let (compared, discovery) = (own.compared.clone(), own.discovery.clone());
    let estimates = own.estimates.clone();
    JobRecord { hops, compared, discovery, estimates, claim: own.claim.clone(), ..known }
}
