//! The requests of a server as a journaled machine.
//!
//! Journals count in seconds, requests in milliseconds: each event has its own time, and decisions follow it at once. A
//! mandatory request that arrives a moment later ends a request that has just started, which costs its user that moment.

use pliant_model::{Time, TimeMs};
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Event, Requests};
use crate::replay::Machine;

/// The requests of one server, with the time of their last event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Journaled {
    requests: Requests,
    /// Events from several threads may arrive out of order: an earlier one counts as of this time.
    at: TimeMs,
}

/// An event with its time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TimedEvent {
    /// Since the Unix epoch.
    pub at: TimeMs,
    /// The event.
    pub event: Event,
}

impl Journaled {
    /// Makes a machine without events.
    pub fn new(requests: Requests) -> Journaled {
        Journaled { requests, at: TimeMs::ZERO }
    }

    /// The requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// The time of the last event.
    pub fn at(&self) -> TimeMs {
        self.at
    }

    /// When the machine needs the next [`Event::Due`].
    pub fn next_wake(&self) -> Option<TimeMs> {
        self.requests.next_due(self.at)
    }

    /// Applies a new configuration to these requests.
    ///
    /// # Errors
    ///
    /// The new cores or order differ while requests run or wait: decisions about them would no longer hold.
    pub fn reconfigured(mut self, new: Requests) -> Result<Journaled, String> {
        let config = new.config_with(&self.requests);
        if self.requests.decides_as(&config) {
            self.requests.config = config;
            return Ok(self);
        }
        match self.requests.requests.is_empty() {
            true => Ok(Journaled { requests: new, at: self.at }),
            false => Err("[optional] has changed while there are requests".to_owned()),
        }
    }
}

impl Machine for Journaled {
    type Event = TimedEvent;
    type Command = Command;
    type State = Journaled;

    fn on(&mut self, _now: Time, event: TimedEvent, commands: &mut Vec<Command>) {
        self.at = self.at.max(event.at);
        self.requests.on(self.at, event.event, commands);
        if self.requests.next_due(self.at).is_some_and(|due| due <= self.at) {
            self.requests.on(self.at, Event::Due, commands);
        }
    }

    /// The driver uses [`Journaled::next_wake`] instead: seconds are too coarse.
    fn next_due(&self) -> Option<Time> {
        None
    }

    fn due() -> TimedEvent {
        TimedEvent { at: TimeMs::ZERO, event: Event::Due }
    }

    fn dump(&mut self, _now: Time) -> Journaled {
        self.clone()
    }

    /// A refusal changes no state.
    fn is_without_effect(commands: &[Command]) -> bool {
        matches!(commands, [Command::Reply { answer: Answer::Refused(_), .. }])
    }
}
