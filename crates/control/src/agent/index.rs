//! The index of jobs: status updates from servers, kept and passed on.

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use super::{Agent, Command, Contradiction, JobCounts};
use crate::job::{Hop, JobRecord, JobState};
use crate::names::{Handle, Name, User};

/// The number of moves kept.
const MOVES_KEPT: usize = 10_000;

/// How long an ended job stays in memory: longer than it takes until the archive has it.
const KEPT_AFTER_END: Span = Span(60);

/// How long an ended job that was moved stays in memory: longer than a status update of an earlier server may take.
const MOVED_KEPT_AFTER_END: Span = Span(3600);

/// A move that a status update reported.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReportedMove {
    /// The job.
    pub job: Handle,
    /// The job's owner.
    pub owner: User,
    /// The move: its servers, time and reason.
    pub hop: Hop,
}

impl Agent {
    pub(super) fn record_status(
        &mut self,
        now: Time,
        child: &Name,
        sequence: u64,
        record: JobRecord,
        commands: &mut Vec<Command>,
    ) {
        let Some(known) = self.children.get_mut(child) else { return };
        if sequence > known.sequence {
            known.sequence = sequence;
            self.is_not_lost(child, &record.handle);
            let known = self.jobs.get(&record.handle);
            if let Some(why) = known.and_then(|known| Contradiction::of(known, &record)) {
                let (child, job) = (child.clone(), record.handle);
                commands.push(Command::Acknowledge { child: child.clone(), sequence });
                commands.push(Command::RefuseStatus { child, job, why });
                return;
            }
            if self.is_late(&record) {
                commands.push(Command::Acknowledge { child: child.clone(), sequence });
                return;
            }
            if !self.config.root {
                commands.push(Command::ReportStatus(Box::new(record.clone())));
            }
            if self.is_below(record.server()) {
                self.update_index(now, record, commands);
            } else {
                self.archive_departed(now, record, commands);
            }
        }
        let sequence = self.children[child].sequence;
        commands.push(Command::Acknowledge { child: child.clone(), sequence });
    }

    /// Acknowledges a status update that is not kept.
    pub(super) fn skip_status(&mut self, child: &Name, sequence: u64, commands: &mut Vec<Command>) {
        let Some(known) = self.children.get_mut(child) else { return };
        known.sequence = known.sequence.max(sequence);
        let sequence = known.sequence;
        commands.push(Command::Acknowledge { child: child.clone(), sequence });
    }

    /// True if the agent knows a later status of the job. Two agents may report a job that has moved from one to the other,
    /// and the updates of the first one may be late.
    pub(super) fn is_late(&self, record: &JobRecord) -> bool {
        let known = self.jobs.get(&record.handle);
        known.is_some_and(|known| known.progress() > record.progress()) || self.departed.is_late(record)
    }

    /// True if this agent receives the status updates of a server. The master agent receives those of every server.
    pub(super) fn is_below(&self, server: &Name) -> bool {
        self.config.root || self.below.of(server).next().is_some()
    }

    /// Archives a job that has gone to a server below another agent: this agent gets no further status updates of it. The
    /// record is kept for good, because earlier servers of the job may still report it.
    pub(super) fn archive_departed(&mut self, now: Time, record: JobRecord, commands: &mut Vec<Command>) {
        self.jobs.remove(&record.handle);
        self.changes.note(&record);
        self.departed.insert(now, &record);
        commands.push(Command::Archive(Box::new(record)));
    }

    pub(super) fn update_index(&mut self, now: Time, record: JobRecord, commands: &mut Vec<Command>) {
        let before = self.jobs.get(&record.handle);
        let waited = before.is_some_and(|before| before.state == JobState::Queued);
        let had_ended = before.is_some_and(|before| before.state.is_final());
        let waits = record.state == JobState::Queued;
        if self.jobs.waiting() == 0 && waits {
            self.waits_since = now;
        }
        self.arrived |= waits && !waited;
        let seen = before.map_or(0, |before| before.hops.len());
        for hop in record.hops.iter().skip(seen) {
            let (job, owner) = (record.handle.clone(), record.owner.clone());
            self.moves.push_back(ReportedMove { job, owner, hop: hop.clone() });
        }
        while self.moves.len() > MOVES_KEPT {
            self.moves.pop_front();
        }
        self.freed |= is_early(&record);
        if record.state.is_final() {
            if !had_ended {
                self.learn_runtime(&record);
                self.promise_days.count(now, &record);
            }
            self.ended.push_back((now, record.handle.clone()));
            commands.push(Command::Archive(Box::new(record.clone())));
        }
        self.changes.note(&record);
        self.jobs.insert(record);
    }

    /// Handles the early end of a local user's job, which can start a cycle like the early end of a job of the federation.
    pub(super) fn record_freed(&mut self, child: &Name, commands: &mut Vec<Command>) {
        if !self.children.contains_key(child) {
            return;
        }
        self.freed |= self.jobs.waiting() > 0 && self.reallocation().is_some();
        if !self.config.root {
            commands.push(Command::Freed);
        }
    }

    /// Removes jobs that ended long enough ago from memory.
    pub(super) fn forget(&mut self, now: Time) {
        while let Some((at, handle)) = self.ended.front()
            && *at + KEPT_AFTER_END <= now
        {
            // One that was taken to be lost may run elsewhere.
            let is_over = |record: &&JobRecord| record.state.is_final();
            match self.jobs.get(handle).filter(is_over) {
                Some(record) if !record.hops.is_empty() => self.ended_moved.push_back((*at, handle.clone())),
                Some(_) => drop(self.jobs.remove(handle)),
                None => {}
            }
            self.ended.pop_front();
        }
        while let Some((at, handle)) = self.ended_moved.front()
            && *at + MOVED_KEPT_AFTER_END <= now
        {
            if self.jobs.get(handle).is_some_and(|record| record.state.is_final()) {
                self.jobs.remove(handle);
            }
            self.ended_moved.pop_front();
        }
        self.departed.forget(now);
    }

    /// When [`Agent::forget`] has to run next.
    pub(super) fn next_forgotten(&self) -> Option<Time> {
        let ended = self.ended.front().map(|(at, _)| *at + KEPT_AFTER_END);
        let moved = self.ended_moved.front().map(|(at, _)| *at + MOVED_KEPT_AFTER_END);
        [ended, moved, self.departed.next_forgotten()].into_iter().flatten().min()
    }

    /// The last moves, oldest first.
    pub fn moves(&self) -> impl DoubleEndedIterator<Item = &ReportedMove> {
        self.moves.iter()
    }

    /// A job in memory: one that has not ended, or ended just now.
    pub fn job(&self, handle: &Handle) -> Option<&JobRecord> {
        self.jobs.get(handle)
    }

    /// The number of the last change of a job since this agent was made.
    pub fn last_change(&self) -> u64 {
        self.changes.last()
    }

    /// The changes of jobs after one, the oldest first: the number, the job and its owner. None if they are not all known any more.
    pub fn changes_after(&self, number: u64) -> Option<impl Iterator<Item = (u64, &Handle, &User)>> {
        self.changes.after(number)
    }

    /// The jobs in memory after one, by server and number.
    pub fn jobs_after(&self, after: Option<&Handle>) -> impl Iterator<Item = &JobRecord> {
        self.jobs.after(after)
    }

    /// The highest number among a server's jobs in memory.
    pub fn last_number(&self, server: &Name) -> Option<u32> {
        self.jobs.accepted_by(server).next_back().map(|last| last.handle.number)
    }

    /// The jobs in memory with higher numbers of a server, in their order.
    pub fn jobs_later_than(&self, server: &Name, number: u32) -> impl Iterator<Item = &JobRecord> {
        self.jobs.accepted_by(server).filter(move |job| job.handle.number > number)
    }

    /// The jobs in memory before a position, the last to be submitted first.
    pub fn newest_jobs(&self, before: Option<(Time, Handle)>) -> impl Iterator<Item = &JobRecord> {
        self.jobs.newest(before)
    }

    /// Every job in memory, by server and number.
    pub fn jobs(&self) -> impl Iterator<Item = &JobRecord> {
        self.jobs.all()
    }

    /// The jobs of a user in memory, the last to be submitted first, from those before a position on.
    pub fn jobs_of(&self, owner: &User, before: Option<(Time, Handle)>) -> impl Iterator<Item = &JobRecord> {
        self.jobs.of_owner(owner, before)
    }

    /// How many jobs in memory wait and run at a server.
    pub fn job_counts(&self, server: &Name) -> JobCounts {
        self.jobs.counts(server)
    }
}

/// True if a job has ended before its walltime.
fn is_early(record: &JobRecord) -> bool {
    let planned = record.started.map(|started| started + record.walltime);
    record.ended.zip(planned).is_some_and(|(ended, planned)| ended < planned)
}
