//! Mandatory requests that wait are moved to better servers, by [`Dispatcher::moves`](super::Dispatcher::moves).
//!
//! From time to time, while there are mandatory requests, all servers are asked what may be expected of them. When all have
//! answered, or at the next such time, it is decided which requests move. Each is taken back from its server, and submitted to
//! the other one only when the first says that it does not have it any more and has not run it. So it runs once,
//! whatever is asked at whatever moment; one that has begun to run stays.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::TimeMs;
use pliant_policy::optional::Prospects;
use serde::{Deserialize, Serialize};

use super::{Command, ExplorationClient, Phase};
use crate::names::Name;

/// What is on its way between servers, and what is asked.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub(super) struct Moving {
    /// When servers are asked next.
    next: Option<TimeMs>,
    /// Servers that were asked and have not answered.
    asked: BTreeSet<Name>,
    /// What the others have said.
    told: BTreeMap<Name, Prospects>,
    /// Where requests are to go that are being taken back.
    bound: BTreeMap<u32, Name>,
}

impl Moving {
    /// True if nothing is to be remembered.
    pub(super) fn is_idle(&self) -> bool {
        *self == Moving::default()
    }

    /// A request is not being taken back any more.
    pub(super) fn stays(&mut self, number: u32) {
        self.bound.remove(&number);
    }

    /// A server is gone.
    pub(super) fn forget(&mut self, server: &Name) {
        self.asked.remove(server);
        self.told.remove(server);
    }
}

impl ExplorationClient {
    /// Says when servers are to be asked next, if that is not said and there is a mandatory request to be moved.
    pub(super) fn look_later(&mut self, now: TimeMs, commands: &mut Vec<Command>) {
        let Some(reallocation) = self.plan().reallocation else { return };
        let is_wanted = self.phase == Phase::Monitoring && self.dispatcher.has_sent_mandatory();
        if is_wanted && self.moving.next.is_none() {
            let next = now + reallocation.every;
            self.moving.next = Some(next);
            commands.push(Command::WakeAt(next));
        }
    }

    /// Asks the servers, if it is time.
    pub(super) fn look(&mut self, now: TimeMs, commands: &mut Vec<Command>) {
        if self.phase != Phase::Monitoring || self.moving.next.is_none_or(|next| next > now) {
            return;
        }
        self.moving.next = None;
        if !self.moving.asked.is_empty() {
            self.reallocate(commands);
        }
        self.moving.asked = self.dispatcher.up().cloned().collect();
        self.moving.told.clear();
        commands.extend(self.moving.asked.iter().map(|server| Command::Expect { server: server.clone() }));
    }

    /// A server has answered.
    pub(super) fn expected(&mut self, server: Name, prospects: Prospects, commands: &mut Vec<Command>) {
        if !self.moving.asked.remove(&server) {
            return;
        }
        self.moving.told.insert(server, prospects);
        if self.moving.asked.is_empty() {
            self.reallocate(commands);
        }
    }

    /// Decides on what the servers have said.
    fn reallocate(&mut self, commands: &mut Vec<Command>) {
        let told = std::mem::take(&mut self.moving.told);
        for moved in self.dispatcher.moves(&told) {
            let number = moved.number;
            let attempt = self.dispatcher.attempt(number);
            self.moving.bound.insert(number, moved.to);
            commands.push(Command::Withdraw { server: moved.from, number, attempt });
        }
    }

    /// A server does not have a request any more: another one gets it.
    pub(super) fn withdrawn(
        &mut self,
        now: TimeMs,
        number: u32,
        attempt: u32,
        server: &Name,
        commands: &mut Vec<Command>,
    ) {
        if self.dispatcher.attempt(number) != attempt || self.dispatcher.server_of(number) != Some(server) {
            return;
        }
        let bound = self.moving.bound.remove(&number);
        self.take_off(number, server);
        self.dispatcher.put_back(number);
        match bound.and_then(|to| self.dispatcher.place_at(number, to)) {
            Some(placed) => self.send(placed, commands),
            None => self.place_mandatory(now, commands),
        }
    }
}
