//! Servers that refuse requests, are lost, and come back.

use pliant_model::TimeMs;
use pliant_policy::optional::RunElsewhere;

use super::{Command, ExplorationClient, Phase};
use crate::names::Name;

impl ExplorationClient {
    /// Handles the end of a request on a lost server. True if the request was still open; the server that has it now need
    /// not run it.
    pub(super) fn ended_elsewhere(&mut self, number: u32, name: &Name, commands: &mut Vec<Command>) -> bool {
        match self.dispatcher.run_by(number, name) {
            RunElsewhere::AssignedTo(unneeded) => {
                self.unassign(number);
                let other = unneeded.server.clone();
                commands.push(Command::cancel_one(unneeded));
                self.fill(&other, commands);
                true
            }
            RunElsewhere::Waited => true,
            RunElsewhere::Over => false,
        }
    }

    /// Sends a refused request to another server. The refusing server gets no more requests until the next discovery.
    pub(super) fn refused(&mut self, now: TimeMs, number: u32, name: &Name, commands: &mut Vec<Command>) {
        if !self.take_off(number, name) {
            return;
        }
        self.dispatcher.refused(name);
        self.dispatcher.put_back(number);
        self.place_mandatory(now, commands);
    }

    /// Sends a lost server's requests to other servers; the lost one may still run some.
    pub(super) fn lost(&mut self, now: TimeMs, name: &Name, commands: &mut Vec<Command>) {
        for number in self.dispatcher.lost(name) {
            self.unassign(number);
        }
        self.moving.forget(name);
        if self.phase == Phase::Monitoring {
            self.place_mandatory(now, commands);
        }
    }
}
