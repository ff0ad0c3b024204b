//! Cancellations and withdrawals by owners and operators.

use pliant_model::{JobId, Time};

use super::{Answer, Command, Server, audit};
use crate::access::Caller;
use crate::audit::AuditAct;
use crate::job::JobState;
use crate::names::Token;

impl Server {
    /// Cancels a job. Returns none if the answer comes later: the job is being handed over, and only the target can cancel it.
    pub(super) fn cancel(
        &mut self,
        now: Time,
        reply: Token,
        number: u32,
        caller: &Caller,
        commands: &mut Vec<Command>,
    ) -> Option<Answer> {
        let entry = self.jobs.get(&number).filter(|entry| caller.may_access(&entry.record.owner));
        let Some(entry) = entry else { return Some(Answer::NoSuchJob) };
        if *entry.record.server() != self.config.name {
            return Some(Answer::Elsewhere(Box::new(entry.record.clone())));
        }
        let is_cancelled = entry.cancelling
            || self.batch.is_cancelling(JobId(number))
            || self.is_cancelled_on_its_way(number);
        if !entry.record.state.is_final() && !is_cancelled {
            audit(now, caller.into(), AuditAct::Cancel, Some(&entry.record.handle), String::new(), commands);
        }
        self.cancel_job(now, number, commands);
        if self.answer_on_arrival(number, reply) {
            return None;
        }
        Some(Answer::Cancelling(Box::new(self.jobs[&number].record.clone())))
    }

    /// Withdraws a job for its owner if it has not started. Leaves a job alone that is being handed over.
    pub(super) fn recall(
        &mut self,
        now: Time,
        number: u32,
        caller: &Caller,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let entry = self.jobs.get_mut(&number).filter(|entry| caller.may_access(&entry.record.owner));
        let Some(entry) = entry else { return Answer::NoSuchJob };
        if *entry.record.server() != self.config.name {
            return Answer::Elsewhere(Box::new(entry.record.clone()));
        }
        if entry.record.state == JobState::Queued && !entry.recalled && !self.outgoing.contains_key(&number) {
            entry.recalled = true;
            audit(
                now,
                caller.into(),
                AuditAct::Withdraw,
                Some(&entry.record.handle),
                String::new(),
                commands,
            );
            self.with_batch(now, commands, |batch, effects| batch.withdraw(now, JobId(number), effects));
        }
        Answer::Cancelling(Box::new(self.jobs[&number].record.clone()))
    }

    /// Ends a pending withdrawal by the owner; true if there was one.
    pub(super) fn take_recall(&mut self, number: u32) -> bool {
        self.jobs.get_mut(&number).is_some_and(|entry| std::mem::take(&mut entry.recalled))
    }

    pub(super) fn cancel_job(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let Some(entry) = self.jobs.get_mut(&number) else { return };
        let is_here = *entry.record.server() == self.config.name;
        if entry.record.state.is_final() || !is_here || self.cancel_on_its_way(number, commands) {
            return;
        }
        let is_external = self.is_external();
        if let Some(entry) = self.jobs.get_mut(&number) {
            if entry.cancelling && !is_external {
                // Its supervisor ends it, and is asked again after a restart.
                return;
            }
            entry.cancelling |= entry.record.state == JobState::Active;
        }
        self.with_batch(now, commands, |batch, effects| batch.cancel(now, JobId(number), effects));
    }
}
