//! The source of a handoff, which hands a waiting job over and leads (see [`crate::handoff`]). Siblings: module `siblings`.

use pliant_model::{Estimate, JobId, MoveReason, Span, Time};
use pliant_policy::completion::{is_late, latest_with_gain, tolerated};
use serde::{Deserialize, Serialize};

use super::estimate_history::carried;
use super::{Answer, Command, Server, ServerJob, audit, report};
use crate::audit::{Actor, AuditAct};
use crate::handoff::{
    Call, Handoff, HandoffDecision, HandoffId, MoveOutcome, MoveProposal, Peer, Reply, StayReason,
};
use crate::job::{Exit, Hop, JobRecord, JobState, is_false};
use crate::names::Token;
use crate::names::{Handle, Name};

/// The first and the longest pause before a call is repeated.
const PAUSE: (Span, Span) = (Span(2), Span(30));

/// A job that is being handed over to another server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct OutgoingJob {
    pub(super) id: HandoffId,
    pub(super) to: Peer,
    /// The handoff queues a sibling.
    #[serde(default, skip_serializing_if = "is_false")]
    sibling: bool,
    /// The agent that gets the outcome.
    pub(super) reply: Option<Token>,
    reason: MoveReason,
    before: Time,
    latest: Time,
    pub(super) phase: Phase,
    /// The target must have prepared the job by then.
    pub(super) prepare_deadline: Time,
    /// When the call is repeated, and the pause after that.
    retry_at: Time,
    pause: Span,
    /// The owner cancelled the job after it was withdrawn here.
    cancelled: bool,
    /// The target was declared lost while the job was being withdrawn here: it is queued here again then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_target_lost: bool,
    /// The callers that cancelled, answered once the target has the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cancelled_by: Vec<Token>,
}

/// The phase of a handoff.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// The target has not answered; the job still waits here.
    Preparing,
    /// A sibling waits at the target while the job waits here.
    Waiting(Estimate),
    /// The target has prepared the job; the batch system has not said whether it was withdrawn here.
    Withdrawing(Estimate),
    /// The job was withdrawn here; the target has not acknowledged it.
    Committing(Estimate),
}

impl OutgoingJob {
    /// When a call is to be repeated or given up; none if the next step is an event.
    pub(super) fn due(&self) -> Option<Time> {
        match self.phase {
            Phase::Preparing => Some(self.retry_at.min(self.prepare_deadline)),
            // The target or the batch system reports the next step.
            Phase::Waiting(_) | Phase::Withdrawing(_) => None,
            Phase::Committing(_) => Some(self.retry_at),
        }
    }

    /// Schedules the next repetition of a call, after a longer pause each time.
    pub(super) fn schedule_retry(&mut self, now: Time) {
        self.retry_at = now + self.pause;
        self.pause = (self.pause + self.pause).min(PAUSE.1);
    }

    /// True if the job is no longer in this server's batch system.
    pub(super) fn is_withdrawn(&self) -> bool {
        matches!(self.phase, Phase::Committing(_))
    }
}

impl Server {
    /// Handles an agent's proposal to move a job.
    pub(super) fn propose_move(
        &mut self,
        now: Time,
        reply: Token,
        proposal: MoveProposal,
        commands: &mut Vec<Command>,
    ) {
        match self.start_handoff(now, reply, proposal) {
            Ok((number, outgoing)) => {
                self.call_prepare(number, &outgoing, commands);
                if outgoing.sibling {
                    self.siblings.entry(number).or_default().push(outgoing);
                } else {
                    // The move replaces a sibling at the same server.
                    if let Some(sibling) =
                        self.remove_sibling(number, |sibling| sibling.to.name == outgoing.to.name)
                    {
                        sibling.abort(StayReason::AlreadyMoving, commands);
                    }
                    self.outgoing.insert(number, outgoing);
                }
            }
            Err(reason) => reply_outcome(Some(reply), MoveOutcome::Stays(reason), commands),
        }
    }

    fn start_handoff(
        &mut self,
        now: Time,
        reply: Token,
        proposal: MoveProposal,
    ) -> Result<(u32, OutgoingJob), StayReason> {
        let number = self.number_of(&proposal.job).ok_or(StayReason::NotWaiting)?;
        let entry = self.jobs.get(&number).ok_or(StayReason::NotWaiting)?;
        // One that is being withdrawn here does not wait elsewhere either.
        let waits =
            entry.record.state == JobState::Queued && entry.started_before.is_none() && !entry.recalled;
        if !waits || *entry.record.server() != self.config.name {
            return Err(StayReason::NotWaiting);
        }
        if entry.record.pinned || entry.record.work.names_batch_options() {
            return Err(StayReason::Pinned);
        }
        let is_duplicate =
            proposal.sibling && self.sibling_servers(number).any(|server| *server == proposal.to);
        if self.outgoing.contains_key(&number) || is_duplicate {
            return Err(StayReason::AlreadyMoving);
        }
        let is_kept = self.batch.held_jobs().contains(&JobId(number)) || entry.deferred.is_some();
        if is_kept || self.banned.contains_key(&entry.record.owner) {
            return Err(StayReason::Held);
        }
        let plan = self.batch.plan(now, JobId(number));
        if plan.is_none() && !self.batch.is_stuck(now, JobId(number)) {
            return Err(StayReason::Other("it lost its planned start a moment ago".to_owned()));
        }
        // A job without a plan here completes earlier anywhere else.
        let before = plan.map_or(Time::MAX, |plan| plan.completion());
        let latest = match (plan, proposal.gain) {
            // A drained server gives its waiting jobs away whatever they gain.
            (Some(plan), Some(gain)) if self.drained.is_none() => {
                let latest = latest_with_gain(before, gain);
                if is_late(&proposal.expected, latest) {
                    return Err(StayReason::TooLittleGain { plan });
                }
                latest
            }
            _ => tolerated(&proposal.expected, now),
        };
        let Some(entry) = self.jobs.get_mut(&number) else { return Err(StayReason::NotWaiting) };
        let Some(attempts) = entry.attempts.checked_add(1) else {
            return Err(StayReason::Other("it was handed over too often".to_owned()));
        };
        entry.attempts = attempts;
        let outgoing = OutgoingJob {
            id: HandoffId { job: proposal.job, attempt: entry.attempts },
            to: Peer { name: proposal.to, address: proposal.address },
            sibling: proposal.sibling,
            reply: Some(reply),
            reason: proposal.reason,
            before,
            latest,
            phase: Phase::Preparing,
            prepare_deadline: now + proposal.timeout.max(Span(1)),
            retry_at: now + PAUSE.0,
            pause: PAUSE.0,
            cancelled: false,
            is_target_lost: false,
            cancelled_by: Vec::new(),
        };
        Ok((number, outgoing))
    }

    pub(super) fn call_prepare(&self, number: u32, outgoing: &OutgoingJob, commands: &mut Vec<Command>) {
        let Some(entry) = self.jobs.get(&number) else { return };
        let record = &entry.record;
        let handoff = Handoff {
            id: outgoing.id.clone(),
            from: Peer { name: self.config.name.clone(), address: self.config.address.clone() },
            key: record.key,
            owner: record.owner.clone(),
            name: record.name.clone(),
            work: record.work.clone(),
            submitted: record.submitted,
            compared: record.compared.clone(),
            discovery: record.discovery.clone(),
            requeues: record.requeues,
            hops: record.hops.clone(),
            estimates: carried(record),
            before: outgoing.before,
            latest: outgoing.latest,
            sibling: outgoing.sibling,
            reason: outgoing.reason,
            claim: record.claim.clone(),
            payload: entry.payload.clone(),
            sample: entry.sample.clone(),
        };
        outgoing.call(Call::Prepare(Box::new(handoff)), commands);
    }

    fn call_commit(&self, number: u32, commands: &mut Vec<Command>) {
        let (Some(entry), Some(outgoing)) = (self.jobs.get(&number), self.outgoing.get(&number)) else {
            return;
        };
        let (cancelled, attempts) = (outgoing.cancelled, entry.attempts);
        outgoing.call(Call::Commit { cancelled, attempts }, commands);
    }

    /// Handles a target's reply.
    pub(super) fn answered(&mut self, now: Time, id: &HandoffId, reply: Reply, commands: &mut Vec<Command>) {
        let Some(number) = self.number_of(&id.job) else { return };
        let Some(outgoing) = self.outgoing.get_mut(&number).filter(|outgoing| outgoing.id == *id) else {
            return self.sibling_answered(number, id, reply, commands);
        };
        match (outgoing.phase, reply) {
            (Phase::Preparing, Reply::Prepared(estimate)) => {
                outgoing.phase = Phase::Withdrawing(estimate);
                self.with_batch(now, commands, |batch, effects| batch.withdraw(now, JobId(number), effects));
            }
            (Phase::Preparing, Reply::Refused(why)) => {
                if let Some(outgoing) = self.outgoing.remove(&number) {
                    outgoing.report_stay(StayReason::Refused(why), commands);
                }
            }
            (Phase::Committing(estimate), Reply::Done) => self.complete_move(now, number, estimate, commands),
            (Phase::Committing(_), Reply::Unknown) => {
                // It acknowledged the job and has no record of it: it lost its state.
                let lost =
                    format!("server {} took the job over and has lost its state since", outgoing.to.name);
                self.end_withdrawn(now, number, lost, commands);
            }
            // A late or repeated reply.
            _ => {}
        }
    }

    /// Ends a job that was withdrawn here for a target that has lost it.
    pub(super) fn end_withdrawn(&mut self, now: Time, number: u32, why: String, commands: &mut Vec<Command>) {
        let cancelled_by = self.outgoing.remove(&number).map(|outgoing| outgoing.cancelled_by);
        self.end(now, JobId(number), Exit::Lost(why), None, commands);
        let Some(entry) = self.jobs.get(&number) else { return };
        for to in cancelled_by.into_iter().flatten() {
            let answer = Answer::Cancelling(Box::new(entry.record.clone()));
            commands.push(Command::Reply { to, answer });
        }
    }

    /// The batch system has withdrawn a job that is being handed over: commits at the target.
    pub(super) fn withdrawn(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let Some(outgoing) = self.outgoing.get_mut(&number) else { return };
        let Phase::Withdrawing(estimate) = outgoing.phase else { return };
        if outgoing.is_target_lost {
            if let Some(outgoing) = self.outgoing.remove(&number) {
                outgoing.report_stay(StayReason::NoAnswer, commands);
            }
            return self.queue_again(now, number, commands);
        }
        outgoing.phase = Phase::Committing(estimate);
        (outgoing.retry_at, outgoing.pause) = (now + PAUSE.0, PAUSE.0);
        self.call_commit(number, commands);
        self.abort_siblings(number, commands);
    }

    /// A job has started or ended here: aborts its handoff and its siblings.
    pub(super) fn keep_job(&mut self, number: u32, commands: &mut Vec<Command>) {
        self.abort_siblings(number, commands);
        let Some(outgoing) = self.outgoing.remove(&number) else { return };
        outgoing.abort(StayReason::NotWaiting, commands);
    }

    /// Cancels a job that is being handed over. True if it was withdrawn here, so that only the target can cancel it.
    pub(super) fn cancel_on_its_way(&mut self, number: u32, commands: &mut Vec<Command>) -> bool {
        let Some(outgoing) = self.outgoing.get_mut(&number).filter(|outgoing| outgoing.is_withdrawn()) else {
            return false;
        };
        outgoing.cancelled = true;
        self.call_commit(number, commands);
        true
    }

    /// True if the target is to cancel a job that was withdrawn here for it.
    pub(super) fn is_cancelled_on_its_way(&self, number: u32) -> bool {
        self.outgoing.get(&number).is_some_and(|outgoing| outgoing.is_withdrawn() && outgoing.cancelled)
    }

    /// Answers a cancellation once the target has the job, as only then it is known where the job can be cancelled. False if
    /// the job is not being handed over.
    pub(super) fn answer_on_arrival(&mut self, number: u32, reply: Token) -> bool {
        let Some(outgoing) = self.outgoing.get_mut(&number).filter(|outgoing| outgoing.is_withdrawn()) else {
            return false;
        };
        outgoing.cancelled_by.push(reply);
        true
    }

    /// Completes the handoff of a job that a later server hands back: its path shows that the target had it.
    pub(super) fn confirm_arrival(
        &mut self,
        now: Time,
        job: &Handle,
        hops: &[Hop],
        commands: &mut Vec<Command>,
    ) {
        let Some(number) = self.number_of(job) else { return };
        let Some(OutgoingJob { id, phase: Phase::Committing(estimate), .. }) = self.outgoing.get(&number)
        else {
            return;
        };
        if hops.iter().any(|hop| hop.from == self.config.name && hop.attempt == id.attempt) {
            self.complete_move(now, number, *estimate, commands);
        }
    }

    /// The target has the job: the handoff is complete.
    fn complete_move(&mut self, now: Time, number: u32, expected: Estimate, commands: &mut Vec<Command>) {
        let Some(OutgoingJob { id, to, reply, reason, before, cancelled_by, .. }) =
            self.outgoing.remove(&number)
        else {
            return;
        };
        self.forget_instants(number);
        let Some(entry) = self.jobs.get_mut(&number) else { return };
        self.waiting.remove_job(entry);
        let from = self.config.name.clone();
        let (to, attempt) = (to.name, id.attempt);
        let hop = Hop { from, to, attempt, at: now, before, expected, reason, signed: None };
        entry.record.hops.push(hop.clone());
        entry.record.expected = expected;
        entry.record.procs = expected.procs;
        entry.record.walltime = expected.walltime;
        // The size was chosen for this cluster, and the speed of the other one decides about the GPUs.
        (entry.record.size_choice, entry.record.gpus) = (None, None);
        let (by, to) = (Actor::Server(hop.from.clone()), hop.to.to_string());
        audit(now, by, AuditAct::HandOver, Some(&entry.record.handle), to, commands);
        report(&entry.record, commands);
        commands.push(Command::Archive(Box::new(entry.record.without_claim())));
        self.ended.push_back((now, number));
        self.ended_keys.push_back((now, entry.record.key));
        for to in cancelled_by {
            commands.push(Command::Reply { to, answer: Answer::Elsewhere(Box::new(entry.record.clone())) });
        }
        reply_outcome(reply, MoveOutcome::Moved(Box::new(hop)), commands);
    }

    /// Repeats unanswered calls and gives up targets that take too long.
    pub(super) fn retry_outgoing(&mut self, now: Time, commands: &mut Vec<Command>) {
        let due =
            |(number, outgoing): (&u32, &OutgoingJob)| Some(*number).filter(|_| outgoing.due() <= Some(now));
        let due: Vec<u32> =
            self.outgoing.iter().filter(|(_, one)| one.due().is_some()).filter_map(due).collect();
        for number in due {
            let Some(outgoing) = self.outgoing.get_mut(&number) else { continue };
            outgoing.schedule_retry(now);
            match outgoing.phase {
                Phase::Preparing if outgoing.prepare_deadline <= now => {
                    let Some(outgoing) = self.outgoing.remove(&number) else { continue };
                    outgoing.abort(StayReason::NoAnswer, commands);
                }
                Phase::Preparing => {
                    let outgoing = outgoing.clone();
                    self.call_prepare(number, &outgoing, commands);
                }
                Phase::Waiting(_) | Phase::Withdrawing(_) => {}
                Phase::Committing(_) => self.call_commit(number, commands),
            }
        }
    }

    /// The decision about a job that a target has prepared. Final unless undecided: an attempt that was given up is never
    /// resumed.
    pub fn decision(&self, id: &HandoffId) -> HandoffDecision {
        let Some(number) = self.number_of(&id.job) else { return HandoffDecision::Abort };
        let Some(ServerJob { record, attempts, .. }) = self.jobs.get(&number) else {
            return HandoffDecision::Abort;
        };
        let siblings = self.siblings.get(&number).into_iter().flatten();
        if let Some(outgoing) =
            self.outgoing.get(&number).into_iter().chain(siblings).find(|one| one.id == *id)
        {
            return match outgoing.phase {
                Phase::Committing(_) => {
                    HandoffDecision::Commit { cancelled: outgoing.cancelled, attempts: *attempts }
                }
                Phase::Preparing | Phase::Waiting(_) | Phase::Withdrawing(_) => HandoffDecision::Undecided,
            };
        }
        if record.hops.iter().any(|hop| hop.attempt == id.attempt && hop.from == self.config.name) {
            return HandoffDecision::Commit { cancelled: false, attempts: *attempts };
        }
        HandoffDecision::Abort
    }

    /// The server to which that attempt hands over the job or a sibling of it; none if that is not known here.
    pub fn target_of(&self, id: &HandoffId) -> Option<&Name> {
        let number = self.number_of(&id.job)?;
        let siblings = self.siblings.get(&number).into_iter().flatten();
        if let Some(one) = self.outgoing.get(&number).into_iter().chain(siblings).find(|one| one.id == *id) {
            return Some(&one.to.name);
        }
        let by_it = |hop: &&Hop| hop.attempt == id.attempt && hop.from == self.config.name;
        self.jobs.get(&number)?.record.hops.iter().find(by_it).map(|hop| &hop.to)
    }

    /// The job of a handoff that is committed: its record, and the server that takes it over. None unless
    /// [`Server::decision`] is to commit.
    pub fn committed(&self, id: &HandoffId) -> Option<(&JobRecord, &Name)> {
        let HandoffDecision::Commit { .. } = self.decision(id) else { return None };
        let entry = self.jobs.get(&self.number_of(&id.job)?)?;
        Some((&entry.record, self.target_of(id)?))
    }

    /// Every job in memory, and whether it was withdrawn here for a target that has not acknowledged it.
    pub fn jobs_and_withdrawn(&self) -> impl Iterator<Item = (&JobRecord, bool)> {
        let is_withdrawn = |number| self.outgoing.get(number).is_some_and(OutgoingJob::is_withdrawn);
        self.jobs.iter().map(move |(number, entry)| (&entry.record, is_withdrawn(number)))
    }

    /// The jobs that are being handed over, and to whom.
    pub fn outgoing(&self) -> impl Iterator<Item = (&Handle, &Peer)> {
        self.outgoing.values().map(|outgoing| (&outgoing.id.job, &outgoing.to))
    }
}

impl OutgoingJob {
    fn call(&self, call: Call, commands: &mut Vec<Command>) {
        commands.push(Command::Call { to: self.to.clone(), id: self.id.clone(), call });
    }

    /// Aborts the handoff at the target.
    pub(super) fn abort(self, why: StayReason, commands: &mut Vec<Command>) {
        self.call(Call::Abort, commands);
        self.report_stay(why, commands);
    }

    /// Reports to the agent that the job stays.
    pub(super) fn report_stay(self, why: StayReason, commands: &mut Vec<Command>) {
        reply_outcome(self.reply, MoveOutcome::Stays(why), commands);
    }
}

/// Reports the outcome of a proposal to the agent.
pub(super) fn reply_outcome(reply: Option<Token>, outcome: MoveOutcome, commands: &mut Vec<Command>) {
    if let Some(to) = reply {
        commands.push(Command::Reply { to, answer: Answer::MoveOutcome(outcome) });
    }
}
