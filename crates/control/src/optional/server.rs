//! The requests of one server: a queue before cores of its own, apart from the batch queue (paper 004, section 4.1.1).
//!
//! A request is identified by its exploration and its number there ([`RequestKey`]). A request that is submitted twice runs
//! once; the second submission returns its state, so a client queries by submitting again. The server remembers cancelled
//! requests, so that a submission that arrives after its cancellation does not run. A client may withdraw a request
//! ([`Event::Withdraw`], except a running one) and submit it again later. It counts its attempts, so that late messages of
//! an earlier attempt change nothing.
//!
//! Every change of the state is an [`Event`], journaled before its commands are carried out. Ties are drawn by counting, so
//! a replayed journal gives the same commands.

mod journaled;
mod leaving;
mod messages;
mod remembered;
#[cfg(test)]
mod tests;
mod views;

use crate::payload::Payload;
use std::collections::{BTreeMap, BTreeSet};

use pliant_model::TimeMs;
use pliant_policy::optional::{Decision, Kind, Queue, Request, RequestId, RunOutcome, UserId};
use serde::{Deserialize, Serialize};

use self::messages::is_first;
use self::remembered::{ExplorationTable, UserCounts};
use crate::names::User;
use crate::reason::{Cause, Reason};

pub use journaled::{Journaled, TimedEvent};
pub use messages::{Answer, Command, Config, Event, Exit, RequestKey, RequestState, Submit};
pub use pliant_policy::optional::Prospects;
pub use views::{Process, UserShare};

/// A waiting or running request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct RequestEntry {
    key: RequestKey,
    #[serde(default, skip_serializing_if = "is_first")]
    attempt: u32,
    payload: Payload,
    cancelled: bool,
}

/// The requests of one server. The whole struct is data and serves as its own snapshot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Requests {
    config: Config,
    queue: Queue,
    users: BTreeMap<User, UserId>,
    requests: BTreeMap<RequestId, RequestEntry>,
    optional: BTreeSet<RequestId>,
    explorations: ExplorationTable,
    next: u32,
    /// Something has changed since the last decisions.
    changed: bool,
}

impl Requests {
    /// Makes a server without requests.
    pub fn new(config: Config) -> Requests {
        Requests {
            queue: Queue::new(config.order, config.cores),
            config,
            users: BTreeMap::new(),
            requests: BTreeMap::new(),
            optional: BTreeSet::new(),
            explorations: ExplorationTable::default(),
            next: 0,
            changed: false,
        }
    }

    /// Its configuration with the draws of another server.
    fn config_with(&self, other: &Requests) -> Config {
        Config { draws: other.config.draws, ..self.config.clone() }
    }

    /// True if another configuration decides the same for the present requests.
    fn decides_as(&self, config: &Config) -> bool {
        let Config { mandatory_per_user, bytes_per_user, bytes, .. } = *config;
        Config { mandatory_per_user, bytes_per_user, bytes, ..self.config.clone() } == *config
    }

    /// Handles an event and appends the commands that follow. O(log requests), also for each request of an exploration that
    /// is cancelled; for [`Event::Due`] the cost of [`Queue::decide`].
    pub fn on(&mut self, now: TimeMs, event: Event, commands: &mut Vec<Command>) {
        match event {
            Event::Submit { reply, submit } => {
                let answer = self.submit(now, *submit);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Cancel { reply, key, attempt, user } => {
                let answer = self.cancel(now, key, attempt, &user, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Withdraw { reply, key, attempt, user } => {
                let answer = self.withdraw(now, key, attempt, &user, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::CancelAll { reply, exploration, user } => {
                let answer = self.cancel_all(now, exploration, &user, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Ended { request, exit, at } => self.ended(now, at.unwrap_or(now), request, exit, commands),
            Event::Due => self.due(now, commands),
        }
    }

    /// When the machine needs the next [`Event::Due`].
    pub fn next_due(&self, now: TimeMs) -> Option<TimeMs> {
        if self.changed { Some(now) } else { self.queue.next_due() }
    }

    /// The queue, for metrics.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The key of a request, while it is here.
    pub fn key(&self, request: RequestId) -> Option<RequestKey> {
        self.requests.get(&request).map(|kept| kept.key)
    }

    /// The number of a user's optional requests here, over all explorations.
    pub fn optional_of(&self, user: &User) -> u32 {
        self.explorations.counts(user).optional
    }

    fn submit(&mut self, now: TimeMs, submit: Submit) -> Answer {
        let Submit { key: RequestKey { exploration, .. }, ref user, attempt, .. } = submit;
        if let Err(why) = self.explorations.admits(exploration, user) {
            return Answer::Refused(why);
        }
        match self.known(submit.key, attempt) {
            Some(Ok(state)) => {
                self.explorations.touch(now, exploration, user);
                return Answer::State(state);
            }
            Some(Err(why)) => return Answer::Refused(why),
            None => {}
        }
        let limits = self.check_limits(user, submit.kind);
        match limits.and_then(|()| self.check_bytes(user, submit.payload.bytes() as u64)) {
            Ok(()) => {
                self.add(now, submit);
                Answer::State(RequestState::Waiting)
            }
            Err(why) => Answer::Refused(why),
        }
    }

    /// The state of a request that was submitted before, or why a later attempt of it is refused; none of a new request or attempt.
    fn known(
        &self,
        RequestKey { exploration, number }: RequestKey,
        attempt: u32,
    ) -> Option<Result<RequestState, Reason>> {
        let known = self.explorations.get(exploration)?;
        if let Some(here) = known.here(number) {
            let ends = self.requests.get(&here).is_some_and(|kept| kept.cancelled && kept.attempt < attempt);
            let why = || Cause::Busy.because("an earlier attempt of it is being ended");
            return Some(if ends { Err(why()) } else { Ok(self.state(here)) });
        }
        let state = known.state(number)?;
        let is_new = state == RequestState::Cancelled && known.is_new_attempt(number, attempt);
        (!is_new).then_some(Ok(state))
    }

    /// Adds a request to the queue.
    fn add(&mut self, now: TimeMs, submit: Submit) {
        let Submit { key, user, weight, kind, attempt, deadline, payload } = submit;
        let (id, optional) = (RequestId(self.next), kind == Kind::Optional);
        self.next += 1;
        self.explorations.touch(now, key.exploration, &user);
        self.explorations.add(key.exploration, key.number, id, optional, payload.bytes() as u64);
        let users = self.users.len() as u32;
        let user = *self.users.entry(user).or_insert(UserId(users));
        if optional {
            self.optional.insert(id);
        }
        self.queue.submit(now, Request { id, user, weight, kind, deadline });
        self.requests.insert(id, RequestEntry { key, attempt, payload, cancelled: false });
        self.changed = true;
    }

    /// Checks that a user may have one more request of this kind.
    fn check_limits(&self, user: &User, kind: Kind) -> Result<(), Reason> {
        let Config { cores, optional_per_core, mandatory_per_user, .. } = self.config;
        let UserCounts { here, optional, .. } = self.explorations.counts(user);
        let (word, present, most) = match kind {
            Kind::Optional => {
                ("optional", optional, optional_per_core.map(|each| each.saturating_mul(cores)))
            }
            Kind::Mandatory => ("mandatory", here - optional, mandatory_per_user),
        };
        if let Some(most) = most.filter(|most| present >= *most) {
            let why = format!("expected at most {most} {word} requests of a user here, found one more");
            return Err(Cause::TooMany.because(why));
        }
        // Cancelled requests must always be accepted and remembered.
        self.explorations.admits_cancelled(user)
    }

    /// Checks that a user may have one more request of so many bytes.
    fn check_bytes(&self, user: &User, bytes: u64) -> Result<(), Reason> {
        let needed = self.explorations.counts(user).bytes.saturating_add(bytes);
        if let Some(limit) = self.config.bytes_per_user.filter(|limit| needed > *limit) {
            let why = format!(
                "the requests of this user would have {needed} bytes here, at most {limit} are accepted"
            );
            return Err(Cause::TooMany.because(why));
        }
        let needed = self.explorations.bytes().saturating_add(bytes);
        if let Some(limit) = self.config.bytes.filter(|limit| needed > *limit) {
            let why = format!(
                "the requests of all users would have {needed} bytes here, at most {limit} are accepted"
            );
            return Err(Cause::Busy.because(why));
        }
        Ok(())
    }

    fn state(&self, request: RequestId) -> RequestState {
        match self.requests.get(&request) {
            Some(kept) if kept.cancelled => RequestState::Cancelled,
            _ if self.queue.waits(request) => RequestState::Waiting,
            _ => RequestState::Running,
        }
    }

    fn ended(
        &mut self,
        now: TimeMs,
        at: TimeMs,
        request: RequestId,
        exit: Exit,
        commands: &mut Vec<Command>,
    ) {
        let Some(kept) = self.requests.get(&request) else { return };
        let cancelled = kept.cancelled;
        let how = match exit {
            Exit::Completed => RunOutcome::Over,
            Exit::Failed => RunOutcome::Failed,
            Exit::Killed => RunOutcome::Killed,
        };
        let waits = self.queue.ended_at(now, at, request, how);
        self.changed = true;
        if waits {
            return;
        }
        let state = match exit {
            // The run completed before the cancellation reached it.
            Exit::Completed => RequestState::Completed,
            _ if cancelled => RequestState::Cancelled,
            Exit::Failed | Exit::Killed => RequestState::Failed,
        };
        if let Some(key) = self.remove(now, request, state) {
            commands.push(Command::ReportState { key, state });
        }
    }

    /// Removes a request that has ended.
    fn remove(&mut self, now: TimeMs, request: RequestId, state: RequestState) -> Option<RequestKey> {
        let RequestEntry { key, payload, .. } = self.requests.remove(&request)?;
        let optional = self.optional.remove(&request);
        self.explorations.record_end(now, key, (optional, payload.bytes() as u64), state);
        Some(key)
    }

    fn due(&mut self, now: TimeMs, commands: &mut Vec<Command>) {
        self.changed = false;
        let mut decisions = Vec::new();
        self.queue.decide(now, &mut self.config.draws, &mut decisions);
        for decision in decisions {
            commands.push(match decision {
                Decision::Start { request, core } => Command::Run { request, core },
                Decision::End { request } => Command::End { request },
            });
        }
        self.explorations.forget(now);
    }
}
