//! Taking a waiting job over: the following half of a handoff (see [`crate::handoff`]). What is different with copies is in
//! `turn`.

use pliant_model::{Estimate, JobId, Span, Time};
use serde::{Deserialize, Serialize};

use super::turn::{self, SiblingState};
use super::{Answer, Command, Refused, Server, ServerJob, tell};
use crate::handoff::{Call, Handoff, HandoffDecision, HandoffId, Reply};
use crate::job::{Exit, Hop, JobRecord, JobState, SizeChoice, avoided_servers};
use crate::names::Token;
use crate::names::{Handle, Name};

/// How long a target waits for word from the source before it asks, and between two questions.
pub(super) const INQUIRE_EVERY: Span = Span(60);
/// How long a target remembers what it took over: longer than a source that repeats itself may be away.
const TAKEN_KEPT: Span = Span(7 * 86_400);

/// A job that another server may hand over: it is in the batch system, held.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct PreparedJob {
    pub(super) handoff: Handoff,
    pub(super) number: u32,
    pub(super) estimate: Estimate,
    /// Whom to tell that it is held, while the batch system has not said so.
    reply: Option<Token>,
    /// The batch system holds it.
    ready: bool,
    pub(super) ask_at: Time,
    /// How far it is, if it is a copy.
    pub(super) turn: SiblingState,
    /// It has ended there although nobody has let it go: whoever gets it is told so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<Exit>,
    /// What it gave up for other jobs when its size was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size_choice: Option<SizeChoice>,
}

impl PreparedJob {
    /// When the source is asked about it.
    pub(super) fn due(&self) -> Time {
        self.ask_at
    }
}

impl Server {
    /// A source asks that a job be queued, held.
    pub(super) fn prepare(&mut self, now: Time, reply: Token, handoff: Handoff, commands: &mut Vec<Command>) {
        self.has_arrived(now, &handoff.id.job, &handoff.hops, commands);
        match self.may_prepare(now, &handoff) {
            Ok(Some(estimate)) => self.hold(now, reply, handoff, estimate, commands),
            Ok(None) => self.hold_on(reply, &handoff.id, commands),
            Err(why) => respond(reply, Reply::Refused(why), commands),
        }
    }

    /// The shape in which it would be queued; none if it is held already.
    fn may_prepare(&mut self, now: Time, handoff: &Handoff) -> Result<Option<Estimate>, String> {
        let HandoffId { job, attempt } = &handoff.id;
        let late = || "a later attempt was made since".to_owned();
        let at = handoff.hops.last().map_or(&job.server, |hop| &hop.to);
        if *at != handoff.from.name {
            return Err(format!("the job is at {at}, which alone can hand it over"));
        }
        if let Some(held) = self.held.get(job) {
            match held.handoff.id.attempt.cmp(attempt) {
                std::cmp::Ordering::Equal => return Ok(None),
                std::cmp::Ordering::Greater => return Err(late()),
                // What the source has given up may be dropped below.
                std::cmp::Ordering::Less => {}
            }
        }
        if self.taken.get(job).is_some_and(|(taken, _)| taken >= attempt) {
            return Err(late());
        }
        let known = self.keys.get(&handoff.key).and_then(|number| self.jobs.get(number));
        if known.is_some_and(|known| known.record.handle != *job) {
            return Err(Refused::KeyTaken.to_string());
        }
        if let Some(why) = self.closed_to_others() {
            return Err(why);
        }
        if avoided_servers(&handoff.hops, now).contains(&self.config.name) {
            return Err("it has waited here without a plan, and does not come back so soon".to_owned());
        }
        let latest = (!handoff.copy).then_some(handoff.latest);
        let Handoff { owner, submitted, work, .. } = handoff;
        let shape = self.shape_for(now, owner, *submitted, work, false, latest);
        shape.map(Some).map_err(|refused| refused.to_string())
    }

    fn hold(
        &mut self,
        now: Time,
        reply: Token,
        handoff: Handoff,
        estimate: Estimate,
        commands: &mut Vec<Command>,
    ) {
        self.drop_held(now, &handoff.id, commands);
        let request = handoff.work.request(JobId(self.next), handoff.submitted);
        let request = request.owned_by(handoff.owner.owner());
        let size_choice = self.size_choice(now, &request, self.config.speed, &estimate);
        let number = self.next;
        self.next += 1;
        let work = handoff.work.clone();
        let job = handoff.id.job.clone();
        let (reply, copy) = (Some(reply), handoff.copy);
        let turn = SiblingState::default();
        let ask_at = now + if copy { turn::INQUIRE_EVERY } else { INQUIRE_EVERY };
        let held = PreparedJob {
            handoff,
            number,
            estimate,
            reply,
            ready: false,
            ask_at,
            turn,
            over: None,
            size_choice,
        };
        let (submission, speed) = (held.submission(), self.config.speed);
        self.held.insert(job, held);
        self.with_sizes(now, &work, speed, commands, |batch, sizes, effects| match sizes {
            _ if copy => batch.submit_tentatively(now, submission, effects),
            Some(sizes) => batch.hold_moldable(now, submission, sizes, effects),
            None => batch.hold(now, submission, effects),
        });
    }

    /// It is held already: says so, now or when it is.
    fn hold_on(&mut self, reply: Token, id: &HandoffId, commands: &mut Vec<Command>) {
        let Some(held) = self.held.get_mut(&id.job) else { return };
        if held.ready {
            respond(reply, Reply::Prepared(held.estimate), commands);
        } else {
            held.reply = Some(reply);
        }
    }

    /// The batch system holds a job.
    pub(super) fn is_held(&mut self, number: u32, commands: &mut Vec<Command>) {
        let Some(held) = self.held.values_mut().find(|held| held.number == number) else { return };
        held.ready = true;
        if let Some(to) = held.reply.take() {
            respond(to, Reply::Prepared(held.estimate), commands);
        }
    }

    /// The batch system does not take a job that was to be held, or holds it no more: somebody has cancelled it there.
    pub(super) fn is_not_held(&mut self, now: Time, number: u32, exit: &Exit, commands: &mut Vec<Command>) {
        let Some(held) = self.held.values_mut().find(|held| held.number == number) else { return };
        if held.ready {
            if held.handoff.copy {
                held.steps_back(now, &mut self.next);
            } else {
                // The source was told that it is held, and may have withdrawn it: the job is not to be lost with that.
                held.over = Some(exit.clone());
            }
            return;
        }
        let (job, reply) = (held.handoff.id.job.clone(), held.reply);
        self.held.remove(&job);
        if let Some(to) = reply {
            respond(to, Reply::Refused(exit.to_string()), commands);
        }
    }

    /// The source says that the job is ours.
    pub(super) fn commit(
        &mut self,
        now: Time,
        reply: Option<Token>,
        id: &HandoffId,
        (cancelled, attempts): (bool, u32),
        commands: &mut Vec<Command>,
    ) {
        let done = match self.held.get(&id.job) {
            Some(held) if held.handoff.id == *id => {
                self.take(now, id, attempts, commands);
                true
            }
            // However long ago, while the job is in memory it tells how it came.
            _ => {
                let taken = self.taken.get(&id.job).is_some_and(|(attempt, _)| *attempt >= id.attempt);
                taken || self.came_from(id).is_some()
            }
        };
        if done && cancelled {
            self.cancel_taken(now, id, commands);
        }
        if let Some(to) = reply {
            respond(to, if done { Reply::Done } else { Reply::Unknown }, commands);
        }
    }

    fn cancel_taken(&mut self, now: Time, id: &HandoffId, commands: &mut Vec<Command>) {
        let Some(number) = self.number_of(&id.job) else { return };
        if self.jobs.get(&number).is_some_and(|kept| !kept.record.state.is_final()) {
            self.cancel_job(now, number, commands);
        }
    }

    fn take(&mut self, now: Time, id: &HandoffId, attempts: u32, commands: &mut Vec<Command>) {
        let Some(held) = self.held.remove(&id.job) else { return };
        let submission = held.submission();
        let PreparedJob { handoff, number, estimate, turn, over, size_choice, .. } = held;
        let Handoff {
            key,
            owner,
            name,
            work,
            submitted,
            compared,
            survey,
            mut hops,
            before,
            reason,
            payload,
            sample,
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
        });
        let record = JobRecord {
            handle: id.job.clone(),
            key,
            owner,
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
            compared,
            survey,
            pinned: false,
            hops,
            unit_runtime: None,
            runtime: None,
            size_choice,
        };
        self.keys.insert(key, number);
        self.numbers.insert(id.job.clone(), number);
        self.taken.insert(id.job.clone(), (id.attempt, now));
        self.taken_order.push_back((now, id.job.clone()));
        *self.waiting.entry(record.owner.clone()).or_default() += 1;
        tell(&record, commands);
        let attempts = attempts.max(id.attempt);
        let kept = ServerJob { number, attempts, ..ServerJob::new(record, payload, sample) };
        self.jobs.insert(number, kept);
        if let Some(exit) = over {
            return self.end(now, JobId(number), exit, None, commands);
        }
        self.with_batch(now, commands, |batch, effects| match turn {
            SiblingState::SteppedBack => batch.submit(now, submission, effects),
            SiblingState::ToCome | SiblingState::Since(_) => batch.release(now, submission.job, effects),
        });
    }

    /// The source says that the job is not ours.
    pub(super) fn abort(
        &mut self,
        now: Time,
        reply: Option<Token>,
        id: &HandoffId,
        commands: &mut Vec<Command>,
    ) {
        self.drop_held(now, id, commands);
        if let Some(to) = reply {
            respond(to, Reply::Done, commands);
        }
    }

    /// Drops what is held by this attempt or an earlier one.
    fn drop_held(&mut self, now: Time, id: &HandoffId, commands: &mut Vec<Command>) {
        let Some(held) = self.held.get(&id.job) else { return };
        if held.handoff.id.attempt > id.attempt {
            return;
        }
        let (number, turn) = (held.number, held.turn);
        self.held.remove(&id.job);
        if turn != SiblingState::SteppedBack {
            self.with_batch(now, commands, |batch, effects| batch.cancel(now, JobId(number), effects));
        }
    }

    /// The source has said what is to become of a held job.
    pub(super) fn judged(
        &mut self,
        now: Time,
        id: &HandoffId,
        decision: HandoffDecision,
        commands: &mut Vec<Command>,
    ) {
        match decision {
            HandoffDecision::Undecided => self.queue_again(now, id, commands),
            HandoffDecision::Commit { cancelled, attempts } => {
                self.commit(now, None, id, (cancelled, attempts), commands);
            }
            HandoffDecision::Abort => self.abort(now, None, id, commands),
        }
    }

    /// Asks sources about jobs that have been held for long, and forgets what was taken long ago.
    pub(super) fn inquire(&mut self, now: Time, commands: &mut Vec<Command>) {
        self.ask_for_copies(now, commands);
        for held in self.held.values_mut().filter(|held| !held.handoff.copy && held.ask_at <= now) {
            held.ask_at = now + INQUIRE_EVERY;
            let (to, id) = (held.handoff.from.clone(), held.handoff.id.clone());
            commands.push(Command::Call { to, id, call: Call::Inquire });
        }
        while let Some((at, job)) = self.taken_order.front()
            && *at + TAKEN_KEPT <= now
        {
            if self.taken.get(job).is_some_and(|(_, taken)| taken == at) {
                self.taken.remove(job);
            }
            self.taken_order.pop_front();
        }
    }

    /// What was taken over: when, which job, by which attempt. A job that came twice is there once, as it came last.
    pub(super) fn taken_in_order(&self) -> impl Iterator<Item = (Time, Handle, u32)> {
        self.taken_order.iter().filter_map(|(at, job)| {
            let (attempt, taken) = self.taken.get(job)?;
            (taken == at).then(|| (*at, job.clone(), *attempt))
        })
    }

    /// The server that hands a job over by that attempt, or did: none if that is not known here.
    pub fn source_of(&self, id: &HandoffId) -> Option<&Name> {
        let held = self.held.get(&id.job).filter(|held| held.handoff.id.attempt >= id.attempt);
        held.map(|held| &held.handoff.from.name).or_else(|| self.came_from(id))
    }

    /// The server from which a job in memory came by that attempt.
    fn came_from(&self, id: &HandoffId) -> Option<&Name> {
        let hops = &self.jobs.get(&self.number_of(&id.job)?)?.record.hops;
        let by_it = |hop: &&Hop| hop.attempt == id.attempt && hop.to == self.config.name;
        hops.iter().find(by_it).map(|hop| &hop.from)
    }

    /// The job that has this number here while it is held for another server.
    pub fn held_as(&self, number: u32) -> Option<&Handle> {
        self.held.values().find(|held| held.number == number).map(|held| &held.handoff.id.job)
    }

    /// The jobs that are held for other servers.
    pub fn held(&self) -> impl Iterator<Item = &Handoff> {
        self.held.values().map(|held| &held.handoff)
    }
}

fn respond(to: Token, reply: Reply, commands: &mut Vec<Command>) {
    commands.push(Command::Reply { to, answer: Answer::Handoff(reply) });
}
