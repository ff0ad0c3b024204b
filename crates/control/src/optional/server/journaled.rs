//! The requests of a server as a machine with a journal.
//!
//! Journals count in seconds, requests in milliseconds: each event brings its own time, and decisions follow it at
//! once. A mandatory request that comes a moment later ends what has just been started; that costs its user that moment.

use pliant_model::{Time, TimeMs};
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Event, Requests};
use crate::replay::Machine;

/// The requests of one server, and the time that they have come to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Journaled {
    requests: Requests,
    /// Events come from many sides: of two that are told in the other order, the later one counts as of this time.
    at: TimeMs,
}

/// Something that happened, and when.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TimedEvent {
    /// When, since the Unix epoch.
    pub at: TimeMs,
    /// What.
    pub event: Event,
}

impl Journaled {
    /// Requests that were never told anything.
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

    /// When [`Event::Due`] is to be told if nothing else happens.
    pub fn wakes(&self) -> Option<TimeMs> {
        self.requests.next_due(self.at)
    }

    /// The same requests before other cores or in another order.
    ///
    /// # Errors
    ///
    /// If they run, or wait: what was decided for them holds no more.
    pub fn fits(mut self, new: Requests) -> Result<Journaled, String> {
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

    fn on(&mut self, _now: Time, told: TimedEvent, commands: &mut Vec<Command>) {
        self.at = self.at.max(told.at);
        self.requests.on(self.at, told.event, commands);
        if self.requests.next_due(self.at).is_some_and(|due| due <= self.at) {
            self.requests.on(self.at, Event::Due, commands);
        }
    }

    /// The driver tells it, at [`Journaled::wakes`]: seconds would be too coarse.
    fn next_due(&self) -> Option<Time> {
        None
    }

    fn due() -> TimedEvent {
        TimedEvent { at: TimeMs::ZERO, event: Event::Due }
    }

    fn dump(&mut self, _now: Time) -> Journaled {
        self.clone()
    }

    /// A refusal.
    fn is_without_effect(commands: &[Command]) -> bool {
        matches!(commands, [Command::Reply { answer: Answer::Refused(_), .. }])
    }
}
