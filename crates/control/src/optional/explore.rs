//! The client of an exploration (paper 004, section 4.1.2): one user with mandatory requests, optional requests
//! and a deadline.
//!
//! *Setup*: the client discovers servers, distributes the mandatory requests in turn, and then sends one optional request
//! to each core. *Monitoring*: each completed optional request is followed by the next one, so at most one per core is
//! stored on the platform. *Cleanup*: when the deadline has passed and the mandatory requests are completed, the client
//! cancels the rest. [`Dispatcher`] decides which server gets which request.
//!
//! Beyond the paper, all of the state is data. A restarted client sends open requests again under the same numbers, and the
//! servers report their outcomes; past its deadline it does nothing else (`ending.rs`). With [`Plan::reallocation`] waiting
//! mandatory requests move to servers that would complete them earlier (`moving.rs`).
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

use self::moving::PendingMoves;
use crate::names::Name;

pub use pliant_policy::optional::{Dispatch, Plan};

/// A server that offers the service.
pub type ServerOffer = optional::Offer<Name>;

/// The pause before the next discovery when there is no server.
const PAUSE: SpanMs = SpanMs(1_000);

/// An event of an exploration's client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The driver starts the client.
    Begin,
    /// The client has restarted with its saved state.
    Resumed,
    /// The agent reported servers; later also new ones.
    Found(Vec<ServerOffer>),
    /// A server refuses a request.
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
        /// False if the request failed by itself, and would fail again.
        completed: bool,
    },
    /// A server reports its prospects, as requested.
    Expected {
        /// The server.
        server: Name,
        /// The prospects.
        prospects: Prospects,
    },
    /// A server no longer has a request, and has not run it.
    Withdrawn {
        /// The request.
        number: u32,
        /// The attempt of the request.
        attempt: u32,
        /// The server.
        server: Name,
    },
    /// A server cannot be reached.
    Lost(Name),
    /// The user stops the exploration; completed results are kept.
    Interrupted,
    /// The time of [`Command::WakeAt`] has come.
    Due,
}

/// A command of an exploration's client to its driver.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Send a discovery query to the agent.
    Discover {
        /// The most servers to return.
        most: u32,
    },
    /// Submit a request, until it is answered.
    Submit(RequestSubmission),
    /// Cancel the rest of this exploration at a server.
    Cancel {
        /// The server.
        server: Name,
    },
    /// Cancel one request, which another server has now.
    CancelOne {
        /// The server.
        server: Name,
        /// The request.
        number: u32,
        /// The last attempt to cancel.
        attempt: u32,
    },
    /// Cancel a request and report its outcome: [`Event::Ended`] if it had ended, [`Event::Withdrawn`] if not.
    Recall(RequestSubmission),
    /// Query the prospects of a server. A server that does not answer is left out.
    Expect {
        /// The server.
        server: Name,
    },
    /// Withdraw a request from a server, unless it runs there.
    Withdraw {
        /// The server.
        server: Name,
        /// The request.
        number: u32,
        /// The attempt of the request.
        attempt: u32,
    },
    /// Send [`Event::Due`] at that time.
    WakeAt(TimeMs),
    /// The exploration has ended.
    Done(ExplorationOutcome),
}

/// A request and the server that it is submitted to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RequestSubmission {
    /// Its number in the exploration, which determines its arguments.
    pub number: u32,
    /// The server.
    pub server: Name,
    /// Mandatory or optional.
    pub kind: Kind,
    /// The number of earlier attempts to place it on a server.
    pub attempt: u32,
    /// The user's weight.
    pub weight: u32,
    /// The user's deadline.
    pub deadline: TimeMs,
}

/// The outcome of an exploration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExplorationOutcome {
    /// The requests that ended.
    pub progress: Progress,
    /// True if the user stopped it.
    pub interrupted: bool,
}

/// The progress of an exploration.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// Completed mandatory requests.
    pub mandatory: u32,
    /// Completed optional requests.
    pub optional: u32,
    /// Failed requests of either kind.
    pub failed: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Phase {
    Idle,
    Discovering,
    /// Waits before the next discovery.
    Pausing,
    Monitoring,
    /// Only waits for the outcomes of requests.
    Recalling,
    Over,
}

/// The state machine of an exploration's client.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExplorationClient {
    dispatcher: Dispatcher<Name>,
    phase: Phase,
    /// Sent optional requests without a status since the client restarted: they may have ended while it was down.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    without_status: BTreeSet<u32>,
    #[serde(default, skip_serializing_if = "PendingMoves::is_idle")]
    moving: PendingMoves,
    /// Mandatory requests that have not ended.
    open: u32,
    progress: Progress,
    /// When the last mandatory request was completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mandatory_done: Option<TimeMs>,
    /// True if the user stopped the exploration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    interrupted: bool,
}

impl ExplorationClient {
    /// Makes an exploration that has not started.
    pub fn new(plan: Plan) -> ExplorationClient {
        ExplorationClient {
            phase: Phase::Idle,
            without_status: BTreeSet::new(),
            moving: PendingMoves::default(),
            open: plan.mandatory.min(plan.most),
            progress: Progress::default(),
            mandatory_done: None,
            interrupted: false,
            dispatcher: Dispatcher::new(plan),
        }
    }

    /// The plan of the exploration.
    pub fn plan(&self) -> &Plan {
        self.dispatcher.plan()
    }

    /// True if it has found a server, so requests may have been sent.
    pub fn has_begun(&self) -> bool {
        self.dispatcher.knows_servers()
    }

    /// The progress.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// When the last mandatory request was completed, if all are.
    pub fn mandatory_done(&self) -> Option<TimeMs> {
        self.mandatory_done
    }

    /// True if the exploration has ended.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// True if the user stopped it.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted
    }

    /// The requests that servers have, as far as the client knows.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &Name)> {
        self.dispatcher.sent()
    }

    /// The requests that a server has, as far as the client knows.
    pub fn sent_to(&self, server: &Name) -> impl Iterator<Item = u32> {
        self.dispatcher.sent().filter(move |(_, at)| *at == server).map(|(number, _)| number)
    }

    /// True if it needs no further servers.
    pub fn needs_no_servers(&self) -> bool {
        matches!(self.phase, Phase::Recalling | Phase::Over)
    }

    /// True while it waits for a discovery or for the next one.
    pub fn is_discovering(&self) -> bool {
        matches!(self.phase, Phase::Discovering | Phase::Pausing)
    }

    /// Handles an event and appends the commands that follow. Late or duplicate events change nothing.
    pub fn on(&mut self, now: TimeMs, event: Event, commands: &mut Vec<Command>) {
        // Requests that end exactly at the deadline are in time: only `Due` ends the exploration at that instant.
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
            (_, Event::Due) => self.query_servers(now, commands),
            (_, Event::Begin) => {}
        }
        self.schedule_query(now, commands);
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
