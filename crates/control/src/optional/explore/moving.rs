//! Moves of waiting mandatory requests to better servers, by [`Dispatcher::moves`](super::Dispatcher::moves).
//!
//! While there are mandatory requests, the client periodically queries the prospects of all servers. When all have
//! answered, or at the next query, it decides the moves. It withdraws each request from its server, and submits it to the
//! other one only after the first has confirmed that it no longer has the request and has not run it. So the request runs
//! once; one that already runs stays.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::TimeMs;
use pliant_policy::optional::Prospects;
use serde::{Deserialize, Serialize};

use super::{Command, ExplorationClient, Phase};
use crate::names::Name;

/// Requests that are being moved, and open queries.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub(super) struct PendingMoves {
    /// When servers are queried next.
    next: Option<TimeMs>,
    /// Servers that have not answered the query.
    asked: BTreeSet<Name>,
    /// The prospects that servers have reported.
    reported: BTreeMap<Name, Prospects>,
    /// The target server of each request that is being withdrawn.
    targets: BTreeMap<u32, Name>,
}

impl PendingMoves {
    /// True if there is no state to keep.
    pub(super) fn is_idle(&self) -> bool {
        *self == PendingMoves::default()
    }

    /// Records that a request is no longer being withdrawn.
    pub(super) fn end_withdrawal(&mut self, number: u32) {
        self.targets.remove(&number);
    }

    /// Removes a lost server.
    pub(super) fn forget(&mut self, server: &Name) {
        self.asked.remove(server);
        self.reported.remove(server);
    }
}

impl ExplorationClient {
    /// Schedules the next query, if none is scheduled and a mandatory request can move.
    pub(super) fn schedule_query(&mut self, now: TimeMs, commands: &mut Vec<Command>) {
        let Some(reallocation) = self.plan().reallocation else { return };
        let can_move = self.phase == Phase::Monitoring && self.dispatcher.has_sent_mandatory();
        if can_move && self.moving.next.is_none() {
            let next = now + reallocation.every;
            self.moving.next = Some(next);
            commands.push(Command::WakeAt(next));
        }
    }

    /// Queries the servers, if that is due.
    pub(super) fn query_servers(&mut self, now: TimeMs, commands: &mut Vec<Command>) {
        if self.phase != Phase::Monitoring || self.moving.next.is_none_or(|next| next > now) {
            return;
        }
        self.moving.next = None;
        if !self.moving.asked.is_empty() {
            self.reallocate(commands);
        }
        self.moving.asked = self.dispatcher.up().cloned().collect();
        self.moving.reported.clear();
        commands.extend(self.moving.asked.iter().map(|server| Command::Expect { server: server.clone() }));
    }

    /// Records a server's prospects.
    pub(super) fn expected(&mut self, server: Name, prospects: Prospects, commands: &mut Vec<Command>) {
        if !self.moving.asked.remove(&server) {
            return;
        }
        self.moving.reported.insert(server, prospects);
        if self.moving.asked.is_empty() {
            self.reallocate(commands);
        }
    }

    /// Decides the moves by the reported prospects.
    fn reallocate(&mut self, commands: &mut Vec<Command>) {
        let reported = std::mem::take(&mut self.moving.reported);
        for moved in self.dispatcher.moves(&reported) {
            let number = moved.number;
            let attempt = self.dispatcher.attempt(number);
            self.moving.targets.insert(number, moved.to);
            commands.push(Command::Withdraw { server: moved.from, number, attempt });
        }
    }

    /// Submits a withdrawn request to its target server.
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
        let target = self.moving.targets.remove(&number);
        self.take_off(number, server);
        self.dispatcher.put_back(number);
        match target.and_then(|to| self.dispatcher.place_at(number, to)) {
            Some(placed) => self.send(placed, commands),
            None => self.place_mandatory(now, commands),
        }
    }
}
