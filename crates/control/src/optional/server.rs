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
#[cfg(test)]
mod tests;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Decision, Ended, Kind, Queue, Request, RequestId, UserId};
use serde::{Deserialize, Serialize};

use self::messages::is_first;
use crate::names::{Key, User};
use crate::reason::{Cause, Reason};

pub use journaled::{Journaled, Told};
pub use messages::{Answer, Command, Config, Event, Exit, RequestKey, Standing, Submit};
pub use views::{Process, Prospects, UserShare};

/// How long an exploration is remembered after its last request is over: longer than a client repeats itself.
const KEPT: SpanMs = SpanMs(3_600_000);

/// A request that waits or runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Kept {
    key: RequestKey,
    #[serde(default, skip_serializing_if = "is_first")]
    attempt: u32,
    launch: String,
    cancelled: bool,
}

/// What is known of an exploration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Exploration {
    user: User,
    /// Requests that are here, by their numbers in it.
    here: BTreeMap<u32, RequestId>,
    /// Optional ones among them.
    optional: u32,
    /// Requests that are over, and how they stand.
    over: BTreeMap<u32, Standing>,
    /// Up to which attempt requests were cancelled or withdrawn, if not only the first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    given_back: BTreeMap<u32, u32>,
    /// Nothing of it is wanted any more.
    cancelled: bool,
    /// When something was last heard of it.
    heard: TimeMs,
}

/// The requests of one server. All of it is data: its snapshot is itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Requests {
    config: Config,
    queue: Queue,
    users: BTreeMap<User, UserId>,
    requests: BTreeMap<RequestId, Kept>,
    optional: BTreeSet<RequestId>,
    explorations: BTreeMap<Key, Exploration>,
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
            explorations: BTreeMap::new(),
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

    /// Takes in an event and appends what is to be done. O(log requests), and for [`Event::Due`] what
    /// [`Queue::decide`] costs.
    pub fn on(&mut self, now: TimeMs, event: Event, commands: &mut Vec<Command>) {
        match event {
            Event::Submit { reply, submit } => {
                let answer = self.submit(now, *submit);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Cancel { reply, key, attempt, user } => {
                let answer = match self.exploration(now, key.exploration, &user) {
                    Some(_) => Answer::Stands(self.cancel(now, key, attempt, commands)),
                    None => not_yours(),
                };
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Withdraw { reply, key, attempt, user } => {
                let answer = match self.exploration(now, key.exploration, &user) {
                    Some(_) => Answer::Stands(self.withdraw(now, key, attempt, commands)),
                    None => not_yours(),
                };
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::CancelAll { reply, exploration, user } => {
                let answer = self.cancel_all(now, exploration, &user, commands);
                commands.push(Command::Reply { to: reply, answer });
            }
            Event::Ended { request, exit } => self.ended(now, request, exit, commands),
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

    /// Optional requests of a user that are here, of all explorations. O(explorations).
    pub fn optional_of(&self, user: &User) -> u32 {
        self.of_user(user).map(|known| known.optional).sum()
    }

    fn of_user(&self, user: &User) -> impl Iterator<Item = &Exploration> {
        self.explorations.values().filter(move |known| known.user == *user)
    }

    /// The exploration of that key; none if it is another user's.
    fn exploration(&mut self, now: TimeMs, key: Key, user: &User) -> Option<&mut Exploration> {
        let new = || Exploration {
            user: user.clone(),
            here: BTreeMap::new(),
            optional: 0,
            over: BTreeMap::new(),
            given_back: BTreeMap::new(),
            cancelled: false,
            heard: now,
        };
        let exploration = self.explorations.entry(key).or_insert_with(new);
        exploration.heard = now;
        (exploration.user == *user).then_some(exploration)
    }

    fn submit(&mut self, now: TimeMs, submit: Submit) -> Answer {
        let Submit { key, user, weight, kind, attempt, deadline, launch } = submit;
        let id = RequestId(self.next);
        let crowd = self.crowd(&user, kind);
        let Some(exploration) = self.exploration(now, key.exploration, &user) else { return not_yours() };
        if let Some(standing) = exploration.over.get(&key.number)
            && !(*standing == Standing::Cancelled && exploration.comes_back(key.number, attempt))
        {
            return Answer::Stands(*standing);
        }
        if let Some(here) = exploration.here.get(&key.number).copied() {
            return match self.requests.get(&here).is_some_and(|kept| kept.cancelled && kept.attempt < attempt)
            {
                true => Answer::Refused(Cause::Busy.because("an earlier attempt of it is being ended")),
                false => Answer::Stands(self.standing(here)),
            };
        }
        if exploration.cancelled {
            return Answer::Stands(Standing::Cancelled);
        }
        if let Some(why) = crowd {
            return Answer::Refused(why);
        }
        exploration.optional += u32::from(kind == Kind::Optional);
        exploration.over.remove(&key.number);
        exploration.here.insert(key.number, id);
        self.next += 1;
        let users = self.users.len() as u32;
        let user = *self.users.entry(user).or_insert(UserId(users));
        if kind == Kind::Optional {
            self.optional.insert(id);
        }
        self.queue.submit(now, Request { id, user, weight, kind, deadline });
        self.requests.insert(id, Kept { key, attempt, launch, cancelled: false });
        self.changed = true;
        Answer::Stands(Standing::Waiting)
    }

    /// Why a user may not have one more request of that kind here. O(explorations).
    fn crowd(&self, user: &User, kind: Kind) -> Option<Reason> {
        let Config { cores, optional_per_core, mandatory_per_user, .. } = self.config;
        let optional = self.optional_of(user);
        let (word, here, most) = match kind {
            Kind::Optional => ("optional", optional, optional_per_core?.saturating_mul(cores)),
            Kind::Mandatory => {
                let all: u32 = self.of_user(user).map(|known| known.here.len() as u32).sum();
                ("mandatory", all - optional, mandatory_per_user?)
            }
        };
        (here >= most).then(|| {
            let why = format!("expected at most {most} {word} requests of a user here, found one more");
            Cause::TooMany.because(why)
        })
    }

    fn standing(&self, request: RequestId) -> Standing {
        match self.requests.get(&request) {
            Some(kept) if kept.cancelled => Standing::Cancelled,
            _ if self.queue.waits(request) => Standing::Waiting,
            _ => Standing::Running,
        }
    }

    fn ended(&mut self, now: TimeMs, request: RequestId, exit: Exit, commands: &mut Vec<Command>) {
        let Some(kept) = self.requests.get(&request) else { return };
        let cancelled = kept.cancelled;
        let how = match exit {
            Exit::Completed => Ended::Over,
            Exit::Failed => Ended::Failed,
            Exit::Killed => Ended::Killed,
        };
        let waits = self.queue.ended(now, request, how);
        self.changed = true;
        if waits {
            return;
        }
        let standing = match exit {
            // Completed before its end was heard of.
            Exit::Completed => Standing::Completed,
            _ if cancelled => Standing::Cancelled,
            Exit::Failed | Exit::Killed => Standing::Failed,
        };
        if let Some(key) = self.over(request, standing) {
            commands.push(Command::Tell { key, standing });
        }
    }

    /// A request is here no more.
    fn over(&mut self, request: RequestId, standing: Standing) -> Option<RequestKey> {
        let key = self.requests.remove(&request)?.key;
        let optional = self.optional.remove(&request);
        if let Some(exploration) = self.explorations.get_mut(&key.exploration) {
            exploration.here.remove(&key.number);
            exploration.optional -= u32::from(optional);
            exploration.over.insert(key.number, standing);
        }
        Some(key)
    }

    fn due(&mut self, now: TimeMs, commands: &mut Vec<Command>) {
        self.changed = false;
        let mut decisions = Vec::new();
        self.queue.decide(now, &mut self.config.draws, &mut decisions);
        for decision in decisions {
            commands.push(match decision {
                Decision::Start { request, core } => {
                    let launch =
                        self.requests.get(&request).map(|kept| kept.launch.clone()).unwrap_or_default();
                    Command::Run { request, core, launch }
                }
                Decision::End { request } => Command::End { request },
            });
        }
        self.explorations.retain(|_, known| !known.here.is_empty() || now - known.heard < KEPT);
    }
}

fn not_yours() -> Answer {
    Answer::Refused(Cause::KeyTaken.because("another user's exploration has this key"))
}
