//! Copies of our waiting jobs at other servers: the source's half of what [`crate::handoff`] says of them.
//!
//! A copy is a handoff whose target has said that it waits there. When its turn has come, it goes on as the handoff
//! (`source`): the job is withdrawn here, and what follows from that is the same as in a move.

use pliant_model::{JobId, Time};

use super::source::{OutgoingJob, Phase, answer};
use super::{Answer, Command, Server};
use crate::handoff::{HandoffId, MoveOutcome, Peer, Reply, StayReason};
use crate::names::Token;
use crate::names::{Handle, Name};

impl Server {
    /// A target has answered about a copy.
    pub(super) fn copy_answered(
        &mut self,
        number: u32,
        id: &HandoffId,
        reply: Reply,
        commands: &mut Vec<Command>,
    ) {
        let copies = self.copies.get_mut(&number).into_iter().flatten();
        let Some(copy) = copies.into_iter().find(|copy| copy.id == *id) else { return };
        match (copy.phase, reply) {
            (Phase::Preparing, Reply::Prepared(estimate)) => {
                copy.phase = Phase::Waiting(estimate);
                answer(copy.reply.take(), MoveOutcome::Copied(estimate), commands);
            }
            (Phase::Preparing, Reply::Refused(why)) => {
                if let Some(copy) = self.forget_copy(number, |copy| copy.id == *id) {
                    copy.stays(StayReason::Refused(why), commands);
                }
            }
            // Late or twice.
            _ => {}
        }
    }

    /// The turn of a copy has come.
    pub(super) fn ready(&mut self, now: Time, reply: Token, id: &HandoffId, commands: &mut Vec<Command>) {
        if let Some(number) = self.number_of(&id.job) {
            self.let_go(now, number, id, commands);
        }
        let answer = Answer::Decision(self.decision(id));
        commands.push(Command::Reply { to: reply, answer });
    }

    /// Withdraws a job for the copy that asks, unless it is on its way already: then that is decided first. One whose
    /// answer to the preparation has not arrived asks again.
    fn let_go(&mut self, now: Time, number: u32, id: &HandoffId, commands: &mut Vec<Command>) {
        // Whoever holds it back here does not want it to run elsewhere either: the copy asks again.
        if self.leaving.contains_key(&number) || self.batch.kept().contains(&JobId(number)) {
            return;
        }
        let waits = |copy: &OutgoingJob| copy.id == *id && matches!(copy.phase, Phase::Waiting(_));
        let Some(mut copy) = self.forget_copy(number, waits) else { return };
        if let Phase::Waiting(estimate) = copy.phase {
            copy.phase = Phase::Withdrawing(estimate);
        }
        self.leaving.insert(number, copy);
        self.with_batch(now, commands, |batch, effects| batch.withdraw(now, JobId(number), effects));
    }

    /// Takes a copy off the list.
    pub(super) fn forget_copy(
        &mut self,
        number: u32,
        which: impl Fn(&OutgoingJob) -> bool,
    ) -> Option<OutgoingJob> {
        let copies = self.copies.get_mut(&number)?;
        let copy = copies.iter().position(which).map(|place| copies.remove(place));
        if copies.is_empty() {
            self.copies.remove(&number);
        }
        copy
    }

    /// The job has started, or has ended, or goes to one of them: all others are of no use.
    pub(super) fn drop_copies(&mut self, number: u32, commands: &mut Vec<Command>) {
        for copy in self.copies.remove(&number).into_iter().flatten() {
            copy.abort(StayReason::NotWaiting, commands);
        }
    }

    /// Asks targets again that have not answered, and gives up those that take too long.
    pub(super) fn copy_on(&mut self, now: Time, commands: &mut Vec<Command>) {
        let is_due = |copy: &&mut OutgoingJob| copy.due().is_some_and(|at| at <= now);
        let mut due = Vec::new();
        for (number, copies) in &mut self.copies {
            for copy in copies.iter_mut().filter(is_due) {
                copy.pauses(now);
                due.push((*number, copy.clone()));
            }
        }
        for (number, copy) in due {
            if copy.until > now {
                self.prepare_there(number, &copy, commands);
            } else if let Some(copy) = self.forget_copy(number, |one| one.id == copy.id) {
                copy.abort(StayReason::Silent, commands);
            }
        }
    }

    /// The servers that have a copy of a job, or are about to.
    pub(super) fn copies_of(&self, number: u32) -> impl Iterator<Item = &Name> {
        self.copies.get(&number).into_iter().flatten().map(|copy| &copy.to.name)
    }

    /// Every copy of a waiting job, and where it is.
    pub fn copies(&self) -> impl Iterator<Item = (&Handle, &Peer)> {
        self.copies.values().flatten().map(|copy| (&copy.id.job, &copy.to))
    }
}
