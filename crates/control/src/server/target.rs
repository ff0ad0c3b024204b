//! The target of a handoff, which takes a waiting job over (see [`crate::handoff`]). Siblings: module `incoming_siblings`.

use pliant_model::{Estimate, JobId, Span, Time};
use serde::{Deserialize, Serialize};

use super::estimate_history::taken_over;
use super::incoming_siblings::{self, SiblingState};
use super::waiting::bytes_of_handoff;
use super::{AdmissionRefusal, Answer, Command, Server, ServerJob, audit, report};
use crate::audit::{Actor, AuditAct};
use crate::handoff::{Call, Handoff, HandoffDecision, HandoffId, Reply};
use crate::job::{Exit, Hop, JobRecord, JobState, SizeChoice, avoided_servers};
use crate::names::Token;
use crate::names::{Handle, Name};
use crate::payload::Payload;
use crate::signed::HandoffSignature;

/// How long a target waits for the source's decision before it asks, and between two inquiries.
pub(super) const INQUIRE_EVERY: Span = Span(60);
/// How long a target remembers what it took over: longer than a source that repeats itself may be down.
const TAKEN_KEPT: Span = Span(7 * 86_400);

/// A job that another server may hand over: it is queued in the batch system and does not start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct PreparedJob {
    pub(super) handoff: Handoff,
    pub(super) number: u32,
    pub(super) estimate: Estimate,
    /// The source to answer, while the batch system has not confirmed the job.
    reply: Option<Token>,
    /// The batch system has confirmed the job.
    ready: bool,
    pub(super) inquire_at: Time,
    /// The state of a sibling.
    pub(super) sibling_state: SiblingState,
    /// The job ended in the batch system before the source decided: recorded for whichever server gets the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Exit>,
    /// What the job gave up for other jobs when its size was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size_choice: Option<SizeChoice>,
    /// The source's signature that it has handed the job over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signed: Option<Box<HandoffSignature>>,
}

impl PreparedJob {
    /// When the source is asked for its decision.
    pub(super) fn due(&self) -> Time {
        self.inquire_at
    }
}

impl Server {
    /// Handles a source's request to prepare a job.
    pub(super) fn prepare(&mut self, now: Time, reply: Token, handoff: Handoff, commands: &mut Vec<Command>) {
        self.confirm_arrival(now, &handoff.id.job, &handoff.hops, commands);
        match self.check_prepare(now, &handoff) {
            Ok(Some(estimate)) => self.queue_prepared(now, reply, handoff, estimate, commands),
            Ok(None) => self.answer_when_prepared(reply, &handoff.id, commands),
            Err(why) => commands.push(Command::Reply { to: reply, answer: Answer::NotPrepared(why) }),
        }
    }

    /// The shape in which the job would be queued; none if it is prepared already.
    fn check_prepare(&mut self, now: Time, handoff: &Handoff) -> Result<Option<Estimate>, String> {
        let HandoffId { job, attempt } = &handoff.id;
        let late = || "a later attempt has been made".to_owned();
        let at = handoff.hops.last().map_or(&job.server, |hop| &hop.to);
        if *at != handoff.from.name {
            return Err(format!("the job is at {at}, the only server that can hand it over"));
        }
        let known = self.number_of(job).and_then(|number| self.jobs.get(&number));
        if let Some(known) = known {
            Handoff::check_return(job, &handoff.hops, &known.record, &self.config.name)?;
        }
        if let Some(prepared) = self.prepared.get(job) {
            Handoff::check_path(job, &handoff.hops, &prepared.handoff.hops)?;
            match prepared.handoff.id.attempt.cmp(attempt) {
                std::cmp::Ordering::Equal => return Ok(None),
                std::cmp::Ordering::Greater => return Err(late()),
                // The new attempt replaces one that the source has given up.
                std::cmp::Ordering::Less => {}
            }
        }
        if self.taken_over.get(job).is_some_and(|(taken_over, _)| taken_over >= attempt) {
            return Err(late());
        }
        let known = self.keys.get(&handoff.key).and_then(|number| self.jobs.get(number));
        let other = self.prepared.values().find(|prepared| prepared.handoff.key == handoff.key);
        let is_taken = known.is_some_and(|known| known.record.handle != *job)
            || other.is_some_and(|other| other.handoff.id.job != *job);
        if is_taken {
            return Err(AdmissionRefusal::KeyTaken.to_string());
        }
        if let Some(why) = self.closed_to_others() {
            return Err(why);
        }
        if avoided_servers(&handoff.hops, now).contains(&self.config.name) {
            return Err("it waited here without a plan a short time ago".to_owned());
        }
        // The clock of the source may be ahead.
        if let Some(begin) = handoff.work.begin.filter(|begin| *begin > now) {
            return Err(format!("it may not start before {}", begin.utc()));
        }
        let latest = (!handoff.sibling).then_some(handoff.latest);
        let Handoff { owner, submitted, work, .. } = handoff;
        // The attempt that it replaces is counted already.
        let replaced = self.prepared.get(job).map_or(0, |prepared| bytes_of_handoff(&prepared.handoff));
        let may_wait = self.check_waiting(owner, bytes_of_handoff(handoff).saturating_sub(replaced));
        let shape = may_wait.and_then(|()| self.shape_for(now, owner, *submitted, work, false, latest));
        let estimate = shape.map_err(|refused| refused.to_string())?;
        match self.running_limits(owner) {
            Some(limits) if handoff.sibling => Err(limits.act_about_running()),
            _ => self.check_room(owner, estimate.procs).map(|()| Some(estimate)),
        }
    }

    fn queue_prepared(
        &mut self,
        now: Time,
        reply: Token,
        handoff: Handoff,
        estimate: Estimate,
        commands: &mut Vec<Command>,
    ) {
        self.drop_prepared(now, &handoff.id, commands);
        let request = handoff.work.request(JobId(self.next), handoff.submitted);
        let request = request.owned_by(handoff.owner.owner());
        let size_choice = self.size_choice(now, &handoff.owner, (&request, self.config.speed), &estimate);
        let number = self.next;
        self.next += 1;
        let work = handoff.work.clone();
        let job = handoff.id.job.clone();
        let (reply, sibling) = (Some(reply), handoff.sibling);
        let sibling_state = SiblingState::default();
        let inquire_at = now + if sibling { incoming_siblings::INQUIRE_EVERY } else { INQUIRE_EVERY };
        let prepared = PreparedJob {
            handoff,
            number,
            estimate,
            reply,
            ready: false,
            inquire_at,
            sibling_state,
            ended: None,
            size_choice,
            signed: None,
        };
        let speed = self.config.speed;
        let submission = prepared.submission(speed);
        self.waiting.add_prepared(&prepared.handoff);
        self.prepared.insert(job, prepared);
        self.with_sizes(now, &work, speed, commands, |batch, sizes, effects| match sizes {
            _ if sibling => batch.submit_tentatively(now, submission, effects),
            Some(sizes) => batch.hold_moldable(now, submission, sizes, effects),
            None => batch.hold(now, submission, effects),
        });
    }

    /// Answers that the job is prepared, now or once the batch system confirms it.
    fn answer_when_prepared(&mut self, reply: Token, id: &HandoffId, commands: &mut Vec<Command>) {
        let Some(prepared) = self.prepared.get_mut(&id.job) else { return };
        if prepared.ready {
            respond(reply, Reply::Prepared(prepared.estimate), commands);
        } else {
            prepared.reply = Some(reply);
        }
    }

    /// The batch system has queued a job that does not start before it is released.
    pub(super) fn preparation_confirmed(&mut self, number: u32, commands: &mut Vec<Command>) {
        let Some(prepared) = self.prepared.values_mut().find(|prepared| prepared.number == number) else {
            return;
        };
        prepared.ready = true;
        if let Some(to) = prepared.reply.take() {
            respond(to, Reply::Prepared(prepared.estimate), commands);
        }
    }

    /// The batch system refused a job that was to be prepared, or a user or administrator cancelled it there.
    pub(super) fn preparation_ended(
        &mut self,
        now: Time,
        number: u32,
        exit: &Exit,
        commands: &mut Vec<Command>,
    ) {
        let Some(prepared) = self.prepared.values_mut().find(|prepared| prepared.number == number) else {
            return;
        };
        if prepared.ready {
            if prepared.handoff.sibling {
                prepared.yield_processors(now, &mut self.next);
            } else {
                // The source may have withdrawn the job since it was prepared: it must not be lost.
                prepared.ended = Some(exit.clone());
            }
            return;
        }
        let (job, reply) = (prepared.handoff.id.job.clone(), prepared.reply);
        self.waiting.remove_prepared(&prepared.handoff);
        self.prepared.remove(&job);
        if let Some(to) = reply {
            respond(to, Reply::Refused(exit.to_string()), commands);
        }
    }

    /// Keeps the source's signature that it has handed the job over. The commit follows.
    pub(super) fn handoff_signed(&mut self, id: &HandoffId, signed: Box<HandoffSignature>) {
        if let Some(prepared) = self.prepared.get_mut(&id.job).filter(|prepared| prepared.handoff.id == *id) {
            prepared.signed = Some(signed);
        }
    }

    /// The job that is prepared by that attempt, and whether the source's signature is kept.
    pub fn prepared_by(&self, id: &HandoffId) -> Option<(&Handoff, bool)> {
        let prepared = self.prepared.get(&id.job).filter(|prepared| prepared.handoff.id == *id)?;
        Some((&prepared.handoff, prepared.signed.is_some()))
    }

    /// Handles a source's commit: the job belongs to this server.
    pub(super) fn commit(
        &mut self,
        now: Time,
        reply: Option<Token>,
        id: &HandoffId,
        (cancelled, attempts): (bool, u32),
        commands: &mut Vec<Command>,
    ) {
        let done = match self.prepared.get(&id.job) {
            // A user may have submitted a job with the key since.
            Some(prepared) if prepared.handoff.id == *id && self.is_key_of_another(prepared) => {
                self.drop_prepared(now, id, commands);
                false
            }
            Some(prepared) if prepared.handoff.id == *id => {
                self.take_over(now, id, attempts, commands);
                true
            }
            // The job's own path shows an older handoff.
            _ => {
                let taken_over =
                    self.taken_over.get(&id.job).is_some_and(|(attempt, _)| *attempt >= id.attempt);
                taken_over || self.taken_from(id).is_some()
            }
        };
        if done && cancelled && self.taken_from(id).is_some() {
            self.cancel_taken(now, id, commands);
        }
        if let Some(to) = reply {
            respond(to, if done { Reply::Done } else { Reply::Unknown }, commands);
        }
    }

    fn is_key_of_another(&self, prepared: &PreparedJob) -> bool {
        let known = self.keys.get(&prepared.handoff.key).and_then(|number| self.jobs.get(number));
        known.is_some_and(|known| known.record.handle != prepared.handoff.id.job)
    }

    fn cancel_taken(&mut self, now: Time, id: &HandoffId, commands: &mut Vec<Command>) {
        let Some(number) = self.number_of(&id.job) else { return };
        if self.jobs.get(&number).is_some_and(|entry| !entry.record.state.is_final()) {
            self.cancel_job(now, number, commands);
        }
    }

    pub(super) fn take_over(
        &mut self,
        now: Time,
        id: &HandoffId,
        attempts: u32,
        commands: &mut Vec<Command>,
    ) {
        let Some(prepared) = self.prepared.remove(&id.job) else { return };
        self.waiting.remove_prepared(&prepared.handoff);
        let submission = prepared.submission(self.config.speed);
        let PreparedJob { handoff, number, estimate, sibling_state, ended, size_choice, signed, .. } =
            prepared;
        let Handoff {
            key,
            owner,
            name,
            work,
            submitted,
            compared,
            discovery,
            requeues,
            mut hops,
            estimates,
            before,
            reason,
            payload,
            sample,
            claim,
            ..
        } = handoff;
        hops.push(Hop {
            from: handoff.from.name,
            to: self.config.name.clone(),
            attempt: id.attempt,
            at: now,
            before,
            expected: estimate,
            reason,
            signed,
        });
        let gpus = work.gpus_in(estimate.procs, estimate.walltime, self.config.speed);
        let record = JobRecord {
            handle: id.job.clone(),
            key,
            owner: owner.clone(),
            name,
            work,
            state: JobState::Queued,
            submitted,
            expected: estimate,
            procs: estimate.procs,
            walltime: estimate.walltime,
            started: None,
            ended: None,
            exit: None,
            requeues,
            compared,
            discovery,
            pinned: false,
            hops,
            unit_runtime: None,
            runtime: None,
            size_choice,
            gpus,
            estimates: taken_over(estimates, now),
            claim,
        };
        self.keys.insert(key, number);
        self.numbers.insert(id.job.clone(), number);
        self.taken_over.insert(id.job.clone(), (id.attempt, now));
        self.taken_over_order.push_back((now, id.job.clone()));
        if let Some(hop) = record.hops.last() {
            let by = Actor::Server(hop.from.clone());
            audit(now, by, AuditAct::TakeOver, Some(&record.handle), String::new(), commands);
        }
        report(&record, commands);
        let attempts = attempts.max(id.attempt);
        let entry = ServerJob { number, attempts, ..ServerJob::new(record, payload, sample) };
        self.waiting.add_job(&entry);
        self.jobs.insert(entry);
        self.watch(number);
        if let Some(exit) = ended {
            return self.end(now, JobId(number), exit, None, commands);
        }
        if self.is_too_late(now, number) {
            // It may be ready, and would start.
            return match sibling_state {
                SiblingState::Yielded => self.end_too_late(now, number, commands),
                SiblingState::Waiting | SiblingState::Ready(_) => self.give_up(now, number, commands),
            };
        }
        let is_kept = self.keeps_back(&owner);
        self.with_batch(now, commands, |batch, effects| match sibling_state {
            SiblingState::Yielded if is_kept => batch.hold(now, submission, effects),
            // One that was prepared as held is kept already.
            _ if is_kept => _ = batch.keep_back(now, submission),
            SiblingState::Yielded => batch.submit(now, submission, effects),
            SiblingState::Waiting | SiblingState::Ready(_) => batch.release(now, submission.job, effects),
        });
    }

    /// Handles a source's abort: the job does not belong to this server.
    pub(super) fn abort(
        &mut self,
        now: Time,
        reply: Option<Token>,
        id: &HandoffId,
        commands: &mut Vec<Command>,
    ) {
        self.drop_prepared(now, id, commands);
        if let Some(to) = reply {
            respond(to, Reply::Done, commands);
        }
    }

    /// Drops a job that this attempt or an earlier one has prepared.
    pub(super) fn drop_prepared(&mut self, now: Time, id: &HandoffId, commands: &mut Vec<Command>) {
        let Some(prepared) = self.prepared.get(&id.job) else { return };
        if prepared.handoff.id.attempt > id.attempt {
            return;
        }
        let (number, sibling_state) = (prepared.number, prepared.sibling_state);
        self.waiting.remove_prepared(&prepared.handoff);
        self.prepared.remove(&id.job);
        if sibling_state != SiblingState::Yielded {
            self.with_batch(now, commands, |batch, effects| batch.cancel(now, JobId(number), effects));
        }
    }

    /// Handles a source's decision about a prepared job.
    pub(super) fn decided(
        &mut self,
        now: Time,
        id: &HandoffId,
        decision: HandoffDecision,
        commands: &mut Vec<Command>,
    ) {
        match decision {
            HandoffDecision::Undecided => self.requeue_yielded(now, id, commands),
            HandoffDecision::Commit { cancelled, attempts } => {
                self.commit(now, None, id, (cancelled, attempts), commands);
            }
            HandoffDecision::Abort => self.abort(now, None, id, commands),
        }
    }

    /// Asks sources about jobs that were prepared long ago, and forgets jobs that were taken over long ago.
    pub(super) fn inquire(&mut self, now: Time, commands: &mut Vec<Command>) {
        self.query_sources_of_siblings(now, commands);
        for prepared in self
            .prepared
            .values_mut()
            .filter(|prepared| !prepared.handoff.sibling && prepared.inquire_at <= now)
        {
            prepared.inquire_at = now + INQUIRE_EVERY;
            let (to, id) = (prepared.handoff.from.clone(), prepared.handoff.id.clone());
            commands.push(Command::Call { to, id, call: Call::Inquire });
        }
        while let Some((at, job)) = self.taken_over_order.front()
            && *at + TAKEN_KEPT <= now
        {
            if self.taken_over.get(job).is_some_and(|(_, taken_over)| taken_over == at) {
                self.taken_over.remove(job);
            }
            self.taken_over_order.pop_front();
        }
    }

    /// Jobs that were taken over: time, job, attempt. Of a job that came twice only the last time counts.
    pub(super) fn taken_over_in_order(&self) -> impl Iterator<Item = (Time, Handle, u32)> {
        self.taken_over_order.iter().filter_map(|(at, job)| {
            let (attempt, taken_over) = self.taken_over.get(job)?;
            (taken_over == at).then(|| (*at, job.clone(), *attempt))
        })
    }

    /// The server whose handoff of the job is prepared here, by whatever attempt, or else the one from which the job came by that
    /// attempt: it alone may commit or abort. None if that is not known here: then neither of the two changes anything.
    pub fn source_of(&self, id: &HandoffId) -> Option<&Name> {
        let prepared = self.prepared.get(&id.job).map(|prepared| &prepared.handoff.from.name);
        prepared.or_else(|| self.taken_from(id))
    }

    /// The server from which a job in memory came by that attempt.
    fn taken_from(&self, id: &HandoffId) -> Option<&Name> {
        let hops = &self.jobs.get(&self.number_of(&id.job)?)?.record.hops;
        let by_it = |hop: &&Hop| hop.attempt == id.attempt && hop.to == self.config.name;
        hops.iter().find(by_it).map(|hop| &hop.from)
    }

    /// The estimate of a job that this very attempt has prepared, once the batch system has confirmed it. Preparing it again changes
    /// nothing.
    pub fn prepared_estimate(&self, id: &HandoffId) -> Option<Estimate> {
        let prepared = self.prepared.get(&id.job).filter(|prepared| prepared.handoff.id == *id)?;
        prepared.ready.then_some(prepared.estimate)
    }

    /// The job that this server has prepared under that number, and how often it was queued again.
    pub fn prepared_as(&self, number: u32) -> Option<(&Handle, u32)> {
        let prepared = self.prepared.values().find(|prepared| prepared.number == number)?;
        Some((&prepared.handoff.id.job, prepared.handoff.requeues))
    }

    /// What a job runs that this server has prepared under that number.
    pub fn prepared_payload(&self, number: u32) -> Option<&Payload> {
        let prepared = self.prepared.values().find(|prepared| prepared.number == number);
        prepared.map(|prepared| &prepared.handoff.payload)
    }

    /// The numbers under which this server has prepared jobs for others.
    pub fn prepared_numbers(&self) -> impl Iterator<Item = u32> {
        self.prepared.values().map(|prepared| prepared.number)
    }

    /// The jobs that this server has prepared for others.
    pub fn prepared(&self) -> impl Iterator<Item = &Handoff> {
        self.prepared.values().map(|prepared| &prepared.handoff)
    }
}

fn respond(to: Token, reply: Reply, commands: &mut Vec<Command>) {
    commands.push(Command::Reply { to, answer: Answer::Handoff(reply) });
}
