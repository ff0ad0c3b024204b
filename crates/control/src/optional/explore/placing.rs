//! RequestSubmission of requests to the servers that the dispatcher chooses.

use pliant_model::TimeMs;
use pliant_policy::optional::{NextMandatory, ObsoleteRequest, Placed};

use super::{Command, ExplorationClient, PAUSE, Phase, RequestSubmission};
use crate::names::Name;

impl ExplorationClient {
    /// Sends every unplaced mandatory request to the next server.
    pub(super) fn place_mandatory(&mut self, now: TimeMs, commands: &mut Vec<Command>) {
        loop {
            match self.dispatcher.place_mandatory() {
                NextMandatory::Placed(placed) => self.send(placed, commands),
                NextMandatory::None => return,
                NextMandatory::NoServer => {
                    self.phase = Phase::Pausing;
                    return commands.push(Command::WakeAt(now + PAUSE));
                }
            }
        }
    }

    /// Sends the optional requests of a guessed number.
    pub(super) fn place_guessed(&mut self, commands: &mut Vec<Command>) {
        while let Some(placed) = self.dispatcher.place_guessed() {
            self.send(placed, commands);
        }
    }

    /// Keeps a server's cores supplied.
    pub(super) fn fill(&mut self, name: &Name, commands: &mut Vec<Command>) {
        if self.phase == Phase::Recalling {
            return;
        }
        while let Some(placed) = self.dispatcher.fill(name) {
            self.send(placed, commands);
        }
    }

    pub(super) fn submission(&self, number: u32, server: Name) -> RequestSubmission {
        let (weight, deadline) = (self.plan().weight, self.plan().deadline);
        let (kind, attempt) = (self.dispatcher.kind(number), self.dispatcher.attempt(number));
        RequestSubmission { number, server, kind, attempt, weight, deadline }
    }

    pub(super) fn send(&self, placed: Placed<Name>, commands: &mut Vec<Command>) {
        commands.push(Command::Submit(self.submission(placed.number, placed.server)));
    }

    /// Removes a request from its server; false if another server has it.
    pub(super) fn take_off(&mut self, number: u32, name: &Name) -> bool {
        let is_its = self.dispatcher.take_off(number, name);
        if is_its {
            self.unassign(number);
        }
        is_its
    }

    /// Records that no server has a request.
    pub(super) fn unassign(&mut self, number: u32) {
        self.without_status.remove(&number);
        self.moving.end_withdrawal(number);
    }
}

impl Command {
    /// Cancels a request that another server has now.
    pub(super) fn cancel_one(unneeded: ObsoleteRequest<Name>) -> Command {
        let ObsoleteRequest { number, server, attempt } = unneeded;
        Command::CancelOne { server, number, attempt }
    }
}
