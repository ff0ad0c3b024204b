//! What goes to servers, by what the dispatcher decides.

use pliant_model::TimeMs;
use pliant_policy::optional::{NextMandatory, ObsoleteRequest, Placed};

use super::{Command, ExplorationClient, PAUSE, Phase, Submission};
use crate::names::Name;

impl ExplorationClient {
    /// Gives every mandatory request that is nowhere to the next server.
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

    /// Gives out the optional requests that the user guessed.
    pub(super) fn place_guessed(&mut self, commands: &mut Vec<Command>) {
        while let Some(placed) = self.dispatcher.place_guessed() {
            self.send(placed, commands);
        }
    }

    /// Keeps a server's cores busy.
    pub(super) fn fill(&mut self, name: &Name, commands: &mut Vec<Command>) {
        if self.phase == Phase::Recalling {
            return;
        }
        while let Some(placed) = self.dispatcher.fill(name) {
            self.send(placed, commands);
        }
    }

    pub(super) fn submission(&self, number: u32, server: Name) -> Submission {
        let (weight, deadline) = (self.plan().weight, self.plan().deadline);
        let (kind, attempt) = (self.dispatcher.kind(number), self.dispatcher.attempt(number));
        Submission { number, server, kind, attempt, weight, deadline }
    }

    pub(super) fn send(&self, placed: Placed<Name>, commands: &mut Vec<Command>) {
        commands.push(Command::Submit(self.submission(placed.number, placed.server)));
    }

    /// Takes a request off the server that has it; false if that is not this server.
    pub(super) fn take_off(&mut self, number: u32, name: &Name) -> bool {
        let is_its = self.dispatcher.take_off(number, name);
        if is_its {
            self.is_nowhere(number);
        }
        is_its
    }

    /// No server has a request any more.
    pub(super) fn is_nowhere(&mut self, number: u32) {
        self.unheard.remove(&number);
        self.moving.stays(number);
    }
}

impl Command {
    /// Another server has a request now.
    pub(super) fn cancel_one(unneeded: ObsoleteRequest<Name>) -> Command {
        let ObsoleteRequest { number, server, attempt } = unneeded;
        Command::CancelOne { server, number, attempt }
    }
}
