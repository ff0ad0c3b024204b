//! Siblings of other servers' jobs that wait here: the target's side (see [`crate::handoff`]).
//!
//! A sibling is a prepared job that waits in the queue. Once it is ready to start, its source decides. A sibling that
//! has yielded is not in the batch system; when it is queued again it gets a new number, so that updates about the old
//! number do not concern it.

use pliant_model::{Estimate, JobId, Span, Speed, Time};
use pliant_policy::batch::Submission;
use serde::{Deserialize, Serialize};

use super::target::{self, PreparedJob};
use super::{Command, Server};
use crate::handoff::{Call, Handoff, HandoffId};
use crate::job::JobRecord;

/// How often the source of a waiting sibling is asked, in case its abort was lost. Rare, as a sibling may wait long, and
/// asks anyway when it is ready.
pub(super) const INQUIRE_EVERY: Span = Span(600);
/// How often the source is asked about a ready sibling, and how long a ready sibling keeps its processors.
const READY: (Span, Span) = (Span(2), Span(30));

/// The state of a sibling.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SiblingState {
    /// In the queue.
    #[default]
    Waiting,
    /// Holds its processors since that time.
    Ready(Time),
    /// Has given its processors back, and is not in the batch system until the source answers.
    Yielded,
}

impl Server {
    /// A sibling has its processors: asks the source. One of a user whose jobs are kept back yields at once.
    pub(super) fn sibling_ready(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let prepared = self.prepared.values().find(|prepared| prepared.number == number);
        let Some(owner) = prepared.map(|prepared| &prepared.handoff.owner) else { return };
        let is_kept = self.keeps_siblings_back(owner);
        let Some(prepared) = self.prepared.values_mut().find(|prepared| prepared.number == number) else {
            return;
        };
        if is_kept {
            let job = JobId(prepared.number);
            prepared.yield_processors(now, &mut self.next);
            prepared.query(now + target::INQUIRE_EVERY, Call::Inquire, commands);
            return self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
        }
        prepared.sibling_state = SiblingState::Ready(now);
        prepared.query(now + READY.0, Call::Ready, commands);
    }

    /// Asks sources about siblings. A sibling that has been ready for too long yields.
    pub(super) fn query_sources_of_siblings(&mut self, now: Time, commands: &mut Vec<Command>) {
        let mut yielding = Vec::new();
        for prepared in self
            .prepared
            .values_mut()
            .filter(|prepared| prepared.handoff.sibling && prepared.inquire_at <= now)
        {
            match prepared.sibling_state {
                SiblingState::Waiting => prepared.query(now + INQUIRE_EVERY, Call::Inquire, commands),
                SiblingState::Yielded => prepared.query(now + target::INQUIRE_EVERY, Call::Inquire, commands),
                SiblingState::Ready(since) if since + READY.1 > now => {
                    prepared.query(now + READY.0, Call::Ready, commands)
                }
                SiblingState::Ready(_) => {
                    yielding.push(JobId(prepared.number));
                    prepared.yield_processors(now, &mut self.next);
                    prepared.query(now + target::INQUIRE_EVERY, Call::Inquire, commands);
                }
            }
        }
        for job in yielding {
            self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
        }
    }

    /// The source is up and has not decided: a sibling that yielded is queued again, unless its owner's jobs are kept back.
    pub(super) fn requeue_yielded(&mut self, now: Time, id: &HandoffId, commands: &mut Vec<Command>) {
        let may_wait = |prepared: &&PreparedJob| {
            let has_yielded = prepared.sibling_state == SiblingState::Yielded;
            prepared.handoff.id == *id && has_yielded && !self.keeps_siblings_back(&prepared.handoff.owner)
        };
        if self.prepared.get(&id.job).filter(may_wait).is_none() {
            return;
        }
        let Some(prepared) = self.prepared.get_mut(&id.job) else { return };
        (prepared.sibling_state, prepared.inquire_at) = (SiblingState::Waiting, now + INQUIRE_EVERY);
        let submission = prepared.submission(self.config.speed);
        self.with_batch(now, commands, |batch, effects| batch.submit_tentatively(now, submission, effects));
    }
}

impl Server {
    /// Queues a job again, under the next number, that is no longer in the batch system: a sibling that was committed after it had lost its
    /// processors, or a job that was withdrawn for a server that is lost.
    pub(super) fn queue_again(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        if self.jobs.get(&number).is_some_and(|entry| entry.is_too_late) {
            return self.end_too_late(now, number, commands);
        }
        let Some(number) = self.renumber(number) else { return };
        let speed = self.config.speed;
        let Some(submission) = self.jobs.get(&number).map(|entry| entry.submission(speed)) else { return };
        self.watch(number);
        self.with_batch(now, commands, |batch, effects| batch.submit(now, submission, effects));
    }

    /// Gives a job that is no longer in the batch system the next number, which is returned.
    pub(super) fn renumber(&mut self, number: u32) -> Option<u32> {
        self.forget_instants(number);
        let mut entry = self.jobs.remove(&number)?;
        entry.number = self.next;
        self.next += 1;
        let JobRecord { handle, key, .. } = &entry.record;
        self.keys.insert(*key, entry.number);
        self.numbers.insert(handle.clone(), entry.number);
        // It may be in the course of another handoff, or have siblings.
        if let Some(outgoing) = self.outgoing.remove(&number) {
            self.outgoing.insert(entry.number, outgoing);
        }
        if let Some(siblings) = self.siblings.remove(&number) {
            self.siblings.insert(entry.number, siblings);
        }
        let number = entry.number;
        self.jobs.insert(entry);
        Some(number)
    }
}

impl PreparedJob {
    /// The job as it is submitted to the batch system.
    pub(super) fn submission(&self, speed: Speed) -> Submission {
        let Estimate { procs, walltime, .. } = self.estimate;
        let Handoff { work, submitted, owner, .. } = &self.handoff;
        let (submit, owner) = (work.eligible(*submitted), owner.owner());
        let request = work.request(JobId(self.number), *submitted);
        let resources = request.resources_at(speed, procs, walltime);
        Submission { submit, owner, resources, ..Submission::new(JobId(self.number), procs, walltime) }
    }

    /// Records that the job has left the batch system; it is queued again under the next number.
    pub(super) fn yield_processors(&mut self, now: Time, next: &mut u32) {
        (self.sibling_state, self.number, self.inquire_at) = (SiblingState::Yielded, *next, now);
        *next += 1;
    }

    /// Calls the source, and sets when it is called again.
    fn query(&mut self, repeat_at: Time, call: Call, commands: &mut Vec<Command>) {
        self.inquire_at = repeat_at;
        let (to, id) = (self.handoff.from.clone(), self.handoff.id.clone());
        commands.push(Command::Call { to, id, call });
    }
}
