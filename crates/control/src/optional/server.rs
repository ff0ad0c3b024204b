//! The requests of one server: a queue of its own before its cores, beside the batch queue (paper 004, section 4.1.1).
//!
//! A request is known by the exploration it belongs to and its number there ([`RequestKey`]): submitted twice it is run
//! once, and whoever submits it again is told how it stands, so that repeating a submission is also how a client asks.
//! What is cancelled is remembered, so that a submission that was overtaken by its cancellation does not run. A client that
//! takes a request away ([`Event::Withdraw`], which one that runs does not heed) and brings it back later counts its attempts, so that a
//! late message of an earlier one changes nothing.
//!
//! Everything that changes the state is an [`Event`], to be journaled before its commands are carried out. Ties are
//! drawn by counting, so a journal told again gives the same commands.

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
use self::remembered::{Crowd, ExplorationTable};
use crate::names::User;
use crate::reason::{Cause, Reason};

pub use journaled::{Journaled, TimedEvent};
pub use messages::{Answer, Command, Config, Event, Exit, RequestKey, RequestState, Submit};
pub use pliant_policy::optional::Prospects;
pub use views::{Process, UserShare};

/// A request that waits or runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct RequestEntry {
    key: RequestKey,
    #[serde(default, skip_serializing_if = "is_first")]
    attempt: u32,
    payload: Payload,
    cancelled: bool,
}

/// The requests of one server. All of it is data: its snapshot is itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Requests {
    config: Config,
    queue: Queue,
    users: BTreeMap<User, UserId>,
    requests: BTreeMap<RequestId, RequestEntry>,
    optional: BTreeSet<RequestId>,
    explorations: ExplorationTable,
    next: u32,
    /// Something has happened since the last decisions.
    changed: bool,
}

impl Requests {
    /// A server without requests.
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

    /// Its configuration with the numbers that another one has drawn.
    fn config_with(&self, other: &Requests) -> Config {
        Config { draws: other.config.draws, ..self.config.clone() }
    }

    /// True if another configuration differs in nothing that decisions on those who are here rest on.
    fn decides_as(&self, config: &Config) -> bool {
        let mandatory_per_user = config.mandatory_per_user;
        Config { mandatory_per_user, ..self.config.clone() } == *config
    }

    /// Takes in an event and appends what is to be done. O(log requests), for each request of an exploration that is
    /// cancelled as a whole, and for [`Event::Due`] what [`Queue::decide`] costs.
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

    /// When [`Event::Due`] is to be told next if nothing else happens.
    pub fn next_due(&self, now: TimeMs) -> Option<TimeMs> {
        if self.changed { Some(now) } else { self.queue.next_due() }
    }

    /// The queue, for those who ask how busy it is.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Whose request that is, while it is here.
    pub fn key(&self, request: RequestId) -> Option<RequestKey> {
        self.requests.get(&request).map(|kept| kept.key)
    }

    /// Optional requests of a user that are here, of all explorations.
    pub fn optional_of(&self, user: &User) -> u32 {
        self.explorations.crowd(user).optional
    }

    fn submit(&mut self, now: TimeMs, submit: Submit) -> Answer {
        let Submit { key: RequestKey { exploration, number }, ref user, attempt, .. } = submit;
        if let Err(why) = self.explorations.admits(exploration, user) {
            return Answer::Refused(why);
        }
        if let Some(known) = self.explorations.get(exploration) {
            if let Some(here) = known.here(number) {
                let ends =
                    self.requests.get(&here).is_some_and(|kept| kept.cancelled && kept.attempt < attempt);
                if ends {
                    return Answer::Refused(Cause::Busy.because("an earlier attempt of it is being ended"));
                }
                self.explorations.hear(now, exploration, user);
                return Answer::Stands(self.state(here));
            }
            if let Some(state) = known.stands(number)
                && !(state == RequestState::Cancelled && known.comes_back(number, attempt))
            {
                self.explorations.hear(now, exploration, user);
                return Answer::Stands(state);
            }
        }
        match self.has_room(user, submit.kind) {
            Ok(()) => {
                self.take(now, submit);
                Answer::Stands(RequestState::Waiting)
            }
            Err(why) => Answer::Refused(why),
        }
    }

    /// A request is here from now on.
    fn take(&mut self, now: TimeMs, submit: Submit) {
        let Submit { key, user, weight, kind, attempt, deadline, payload } = submit;
        let (id, optional) = (RequestId(self.next), kind == Kind::Optional);
        self.next += 1;
        self.explorations.hear(now, key.exploration, &user);
        self.explorations.came(key.exploration, key.number, id, optional);
        let users = self.users.len() as u32;
        let user = *self.users.entry(user).or_insert(UserId(users));
        if optional {
            self.optional.insert(id);
        }
        self.queue.submit(now, Request { id, user, weight, kind, deadline });
        self.requests.insert(id, RequestEntry { key, attempt, payload, cancelled: false });
        self.changed = true;
    }

    /// Why a user may not have one more request of that kind here.
    fn has_room(&self, user: &User, kind: Kind) -> Result<(), Reason> {
        let Config { cores, optional_per_core, mandatory_per_user, .. } = self.config;
        let Crowd { here, optional, .. } = self.explorations.crowd(user);
        let (word, there, most) = match kind {
            Kind::Optional => {
                ("optional", optional, optional_per_core.map(|each| each.saturating_mul(cores)))
            }
            Kind::Mandatory => ("mandatory", here - optional, mandatory_per_user),
        };
        if let Some(most) = most.filter(|most| there >= *most) {
            let why = format!("expected at most {most} {word} requests of a user here, found one more");
            return Err(Cause::TooMany.because(why));
        }
        // What is cancelled here is always taken, and remembered.
        self.explorations.admits_cancelled(user)
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
            // Completed before its end was heard of.
            Exit::Completed => RequestState::Completed,
            _ if cancelled => RequestState::Cancelled,
            Exit::Failed | Exit::Killed => RequestState::Failed,
        };
        if let Some(key) = self.over(now, request, state) {
            commands.push(Command::Tell { key, state });
        }
    }

    /// A request is here no more.
    fn over(&mut self, now: TimeMs, request: RequestId, state: RequestState) -> Option<RequestKey> {
        let key = self.requests.remove(&request)?.key;
        let optional = self.optional.remove(&request);
        self.explorations.over(now, key.exploration, key.number, optional, state);
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
