//! The client of an exploration (paper 004, section 4.1.2; spec A.4.3): one user with mandatory requests, optional
//! ones and a deadline.
//!
//! *Setup*: discovers servers, gives the mandatory requests out in turn and then one optional request to each core.
//! *Monitoring*: where an optional request is completed the next one goes, so that at most one for each core is
//! stored on the platform. *Cleanup*: when the deadline has passed and the mandatory requests are completed, what is
//! left is cancelled. Which server gets which request is decided by [`Dispatcher`].
//!
//! Beyond the paper: all of the state is data: a client that begins again sends what it was not answered again,
//! under the same numbers, and the servers tell what became of it; past its deadline that is all that it asks
//! (`ending.rs`). With [`Plan::reallocation`] mandatory requests that wait are moved to servers that would complete them
//! sooner (`moving.rs`).
//!
//! Cost: O(log n) for each event, and O(servers) for setup and cleanup.

mod ending;
mod losses;
mod moving;
mod placing;

use std::collections::BTreeSet;

use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{self, Dispatcher, Kind, Prospects};
use serde::{Deserialize, Serialize};

use self::moving::Moving;
use crate::names::Name;

pub use pliant_policy::optional::{Dispatch, Plan};

/// A server that offers the service.
pub type ServerOffer = optional::Offer<Name>;

/// How long to wait before the agent is asked again if there is no server.
const PAUSE: SpanMs = SpanMs(1_000);

/// What happened to the client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// It is to begin.
    Begin,
    /// It is there again, with the state that it had.
    Resumed,
    /// The agent named servers; also later, when others have come.
    Found(Vec<ServerOffer>),
    /// A server does not take a request.
    Refused {
        /// The request.
        number: u32,
        /// The server.
        server: Name,
    },
    /// A request has ended.
    Ended {
        /// The request.
        number: u32,
        /// The server.
        server: Name,
        /// False if it failed by itself: it would fail again.
        completed: bool,
    },
    /// What may be expected of a server, as was asked for.
    Expected {
        /// The server.
        server: Name,
        /// What.
        prospects: Prospects,
    },
    /// A server does not have a request any more, and has not run it.
    Withdrawn {
        /// The request.
        number: u32,
        /// Which attempt of it.
        attempt: u32,
        /// The server.
        server: Name,
    },
    /// A server cannot be reached any more.
    Lost(Name),
    /// The user wants to stop: what is completed is kept.
    Interrupted,
    /// Time has passed.
    Due,
}

/// What the client is to do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Ask the agent for at most so many servers.
    Discover {
        /// How many.
        most: u32,
    },
    /// Submit a request, until it is answered.
    Submit(Submission),
    /// Cancel what is left of this exploration at a server.
    Cancel {
        /// The server.
        server: Name,
    },
    /// Cancel one request: another server has it now.
    CancelOne {
        /// The server.
        server: Name,
        /// The request.
        number: u32,
        /// Up to which attempt of it.
        attempt: u32,
    },
    /// Cancel a request and say what has become of it: [`Event::Ended`] if it had ended, [`Event::Withdrawn`] if not.
    Recall(Submission),
    /// Ask a server what may be expected of it. If it does not answer, it is left out.
    Expect {
        /// The server.
        server: Name,
    },
    /// Take a request back from a server, unless it has begun to run there.
    Withdraw {
        /// The server.
        server: Name,
        /// The request.
        number: u32,
        /// Which attempt of it.
        attempt: u32,
    },
    /// Say [`Event::Due`] then.
    WakeAt(TimeMs),
    /// It is over.
    Done(Outcome),
}

/// A request on its way to a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Submission {
    /// Its number in the exploration, from which its arguments follow.
    pub number: u32,
    /// Where it goes.
    pub server: Name,
    /// Whether it has to be completed.
    pub kind: Kind,
    /// How often a server had to be found for it before.
    pub attempt: u32,
    /// The user's weight.
    pub weight: u32,
    /// The user's deadline.
    pub deadline: TimeMs,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// How far it came.
    pub progress: Progress,
    /// The user stopped it.
    pub interrupted: bool,
}

/// How far an exploration is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// Mandatory requests that are completed.
    pub mandatory: u32,
    /// Optional requests that are completed.
    pub optional: u32,
    /// Requests of either kind that failed by themselves.
    pub failed: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Phase {
    Idle,
    Discovering,
    /// Waits to ask the agent again.
    Pausing,
    Monitoring,
    /// Wants nothing more than to know what has become of requests.
    Recalling,
    Over,
}

/// One exploration on its way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExplorationClient {
    dispatcher: Dispatcher<Name>,
    phase: Phase,
    /// Optional requests that servers have and of which nothing was heard since the client began again: they may have ended
    /// while it was away.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    unheard: BTreeSet<u32>,
    #[serde(default, skip_serializing_if = "Moving::is_idle")]
    moving: Moving,
    /// Mandatory requests that are not over.
    open: u32,
    progress: Progress,
    /// When the last mandatory request was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mandatory_done: Option<TimeMs>,
    /// It is over because its user stopped it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

impl ExplorationClient {
    /// An exploration that has not begun.
    pub fn new(plan: Plan) -> ExplorationClient {
        ExplorationClient {
            phase: Phase::Idle,
            unheard: BTreeSet::new(),
            moving: Moving::default(),
            open: plan.mandatory.min(plan.most),
            progress: Progress::default(),
            mandatory_done: None,
            interrupted: false,
            dispatcher: Dispatcher::new(plan),
        }
    }

    /// What was wanted.
    pub fn plan(&self) -> &Plan {
        self.dispatcher.plan()
    }

    /// True if it has found a server, so that requests may have gone there.
    pub fn has_begun(&self) -> bool {
        self.dispatcher.knows_servers()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// When the last mandatory request was completed, if all are.
    pub fn mandatory_done(&self) -> Option<TimeMs> {
        self.mandatory_done
    }

    /// True if nothing more is to be done.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// The requests that a server has, by all that is known.
    pub fn sent_to(&self, server: &Name) -> impl Iterator<Item = u32> {
        self.dispatcher.sent().filter(move |(_, at)| *at == server).map(|(number, _)| number)
    }

    /// True if it has no use for servers other than those that have something of it.
    pub fn wants_no_servers(&self) -> bool {
        matches!(self.phase, Phase::Recalling | Phase::Over)
    }

    /// True while it waits for the agent to name servers, or until it asks the agent again.
    pub fn looks_for_servers(&self) -> bool {
        matches!(self.phase, Phase::Discovering | Phase::Pausing)
    }

    /// Takes in an event and appends what is to be done. What is late or comes twice changes nothing.
    pub fn on(&mut self, now: TimeMs, event: Event, commands: &mut Vec<Command>) {
        // What ends at the very deadline is in time: of its instant, only the word that it has passed ends the stay.
        let deadline = self.plan().deadline;
        let passed =
            now > deadline || (now == deadline && event == Event::Due) || self.phase == Phase::Recalling;
        match (self.phase, event) {
            (Phase::Over, Event::Ended { .. } | Event::Refused { .. }) => return,
            (Phase::Over, Event::Resumed) => return self.leave(self.interrupted, commands),
            (Phase::Over, _) => return,
            (Phase::Idle, Event::Begin | Event::Resumed) | (Phase::Pausing, Event::Due) => {
                self.discover(commands)
            }
            (_, Event::Resumed) => self.resume(passed, commands),
            (Phase::Idle, _) => return,
            (_, Event::Interrupted) => return self.leave(true, commands),
            (Phase::Recalling, Event::Found(_)) => {}
            (_, Event::Found(offers)) => self.found(now, offers, commands),
            (_, Event::Ended { number, server, completed }) => {
                self.ended(now, number, &server, completed, commands)
            }
            (_, Event::Refused { number, server }) => self.refused(now, number, &server, commands),
            (_, Event::Expected { server, prospects }) => self.expected(server, prospects, commands),
            (_, Event::Withdrawn { number, attempt, server }) => {
                self.withdrawn(now, number, attempt, &server, commands)
            }
            (_, Event::Lost(server)) => self.lost(now, &server, commands),
            (_, Event::Due) => self.look(now, commands),
            (_, Event::Begin) => {}
        }
        self.look_later(now, commands);
        let nothing_left = self.dispatcher.is_idle() && self.phase == Phase::Monitoring;
        let exhausted = nothing_left && !self.dispatcher.has_optional();
        if self.open == 0 && (passed || exhausted) {
            self.finish(commands);
        }
    }

    fn discover(&mut self, commands: &mut Vec<Command>) {
        self.phase = Phase::Discovering;
        commands.push(Command::Discover { most: self.plan().most });
        commands.push(Command::WakeAt(self.plan().deadline));
    }

    fn found(&mut self, now: TimeMs, offers: Vec<ServerOffer>, commands: &mut Vec<Command>) {
        commands.extend(self.dispatcher.found(offers).into_iter().map(Command::cancel_one));
        if self.dispatcher.up().next().is_none() {
            self.phase = Phase::Pausing;
            return commands.push(Command::WakeAt(now + PAUSE));
        }
        self.phase = Phase::Monitoring;
        self.place_mandatory(now, commands);
        match self.plan().dispatch {
            Dispatch::Window(_) => {
                for server in self.dispatcher.order().to_vec() {
                    self.fill(&server, commands);
                }
            }
            Dispatch::Guess(_) => self.place_guessed(commands),
        }
    }

    fn ended(&mut self, now: TimeMs, number: u32, name: &Name, completed: bool, commands: &mut Vec<Command>) {
        if !self.take_off(number, name) && !self.ended_elsewhere(number, name, commands) {
            return;
        }
        match (completed, self.dispatcher.kind(number)) {
            (true, Kind::Mandatory) => self.progress.mandatory += 1,
            (true, Kind::Optional) => self.progress.optional += 1,
            (false, _) => self.progress.failed += 1,
        }
        match self.dispatcher.kind(number) {
            Kind::Mandatory => {
                self.open -= 1;
                self.mandatory_done = (self.progress.mandatory == self.plan().mandatory).then_some(now);
            }
            Kind::Optional => self.fill(name, commands),
        }
    }
}
