//! Siblings of our waiting jobs at other servers: the source's side (see [`crate::handoff`]).
//!
//! A sibling is a handoff that stays open while the job waits at both servers. Once the sibling is ready to start, the
//! handoff continues as in a move (`source`): the job is withdrawn here, and so on.

use pliant_model::{JobId, Time};

use super::source::{OutgoingJob, Phase, reply_outcome};
use super::{Answer, Command, Server};
use crate::handoff::{HandoffId, MoveOutcome, Peer, Reply, StayReason};
use crate::names::Token;
use crate::names::{Handle, Name};

impl Server {
    /// Handles a target's reply about a sibling.
    pub(super) fn sibling_answered(
        &mut self,
        number: u32,
        id: &HandoffId,
        reply: Reply,
        commands: &mut Vec<Command>,
    ) {
        let siblings = self.siblings.get_mut(&number).into_iter().flatten();
        let Some(sibling) = siblings.into_iter().find(|sibling| sibling.id == *id) else { return };
        match (sibling.phase, reply) {
            (Phase::Preparing, Reply::Prepared(estimate)) => {
                sibling.phase = Phase::Waiting(estimate);
                reply_outcome(sibling.reply.take(), MoveOutcome::SiblingQueued(estimate), commands);
            }
            (Phase::Preparing, Reply::Refused(why)) => {
                if let Some(sibling) = self.remove_sibling(number, |sibling| sibling.id == *id) {
                    sibling.report_stay(StayReason::Refused(why), commands);
                }
            }
            // A late or repeated reply.
            _ => {}
        }
    }

    /// A sibling is ready to start: answers the target with a decision.
    pub(super) fn ready(&mut self, now: Time, reply: Token, id: &HandoffId, commands: &mut Vec<Command>) {
        if let Some(number) = self.number_of(&id.job) {
            self.release_to_sibling(now, number, id, commands);
        }
        let answer = Answer::Decision(self.decision(id));
        commands.push(Command::Reply { to: reply, answer });
    }

    /// Withdraws a job for a sibling that is ready, unless the job is being handed over already. A sibling whose reply has
    /// not arrived asks again.
    fn release_to_sibling(&mut self, now: Time, number: u32, id: &HandoffId, commands: &mut Vec<Command>) {
        // A job that is held here by a user or an administrator, or is being withdrawn, does not start elsewhere either.
        let is_recalled = self.jobs.get(&number).is_some_and(|entry| entry.recalled);
        if is_recalled
            || self.outgoing.contains_key(&number)
            || self.batch.held_jobs().contains(&JobId(number))
        {
            return;
        }
        let waits = |sibling: &OutgoingJob| sibling.id == *id && matches!(sibling.phase, Phase::Waiting(_));
        let Some(mut sibling) = self.remove_sibling(number, waits) else { return };
        if let Phase::Waiting(estimate) = sibling.phase {
            sibling.phase = Phase::Withdrawing(estimate);
        }
        self.outgoing.insert(number, sibling);
        self.with_batch(now, commands, |batch, effects| batch.withdraw(now, JobId(number), effects));
    }

    /// Removes a sibling from the list.
    pub(super) fn remove_sibling(
        &mut self,
        number: u32,
        which: impl Fn(&OutgoingJob) -> bool,
    ) -> Option<OutgoingJob> {
        let siblings = self.siblings.get_mut(&number)?;
        let sibling = siblings.iter().position(which).map(|index| siblings.remove(index));
        if siblings.is_empty() {
            self.siblings.remove(&number);
        }
        sibling
    }

    /// The job has started, has ended or moves: aborts all its siblings.
    pub(super) fn abort_siblings(&mut self, number: u32, commands: &mut Vec<Command>) {
        for sibling in self.siblings.remove(&number).into_iter().flatten() {
            sibling.abort(StayReason::NotWaiting, commands);
        }
    }

    /// Repeats unanswered calls, and gives up targets that take too long.
    pub(super) fn retry_siblings(&mut self, now: Time, commands: &mut Vec<Command>) {
        let is_due = |sibling: &&mut OutgoingJob| sibling.due().is_some_and(|at| at <= now);
        let mut due = Vec::new();
        for (number, siblings) in &mut self.siblings {
            for sibling in siblings.iter_mut().filter(is_due) {
                sibling.schedule_retry(now);
                due.push((*number, sibling.clone()));
            }
        }
        for (number, sibling) in due {
            if sibling.prepare_deadline > now {
                self.call_prepare(number, &sibling, commands);
            } else if let Some(sibling) = self.remove_sibling(number, |one| one.id == sibling.id) {
                sibling.abort(StayReason::NoAnswer, commands);
            }
        }
    }

    /// The servers at which a job has a sibling or is about to have one.
    pub(super) fn sibling_servers(&self, number: u32) -> impl Iterator<Item = &Name> {
        self.siblings.get(&number).into_iter().flatten().map(|sibling| &sibling.to.name)
    }

    /// Every sibling of a waiting job, and its server.
    pub fn siblings(&self) -> impl Iterator<Item = (&Handle, &Peer)> {
        self.siblings.values().flatten().map(|sibling| (&sibling.id.job, &sibling.to))
    }
}
