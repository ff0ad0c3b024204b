//! Servers that refuse, are lost, and come back.

use pliant_model::TimeMs;
use pliant_policy::optional::RunElsewhere;

use super::{Command, ExplorationClient, Phase};
use crate::names::Name;

impl ExplorationClient {
    /// A server that was given up has run a request after all. True if that is news; then whoever has it instead
    /// need not run it.
    pub(super) fn ended_elsewhere(&mut self, number: u32, name: &Name, commands: &mut Vec<Command>) -> bool {
        match self.dispatcher.run_by(number, name) {
            RunElsewhere::AssignedTo(unneeded) => {
                self.is_nowhere(number);
                let other = unneeded.server.clone();
                commands.push(Command::cancel_one(unneeded));
                self.fill(&other, commands);
                true
            }
            RunElsewhere::Waited => true,
            RunElsewhere::Over => false,
        }
    }

    /// A request goes elsewhere, and the server gets no more until the agent names it again.
    pub(super) fn refused(&mut self, now: TimeMs, number: u32, name: &Name, commands: &mut Vec<Command>) {
        if !self.take_off(number, name) {
            return;
        }
        self.dispatcher.refused(name);
        self.dispatcher.put_back(number);
        self.place_mandatory(now, commands);
    }

    /// What a server had goes elsewhere; it may run some of it all the same.
    pub(super) fn lost(&mut self, now: TimeMs, name: &Name, commands: &mut Vec<Command>) {
        for number in self.dispatcher.lost(name) {
            self.is_nowhere(number);
        }
        self.moving.forget(name);
        if self.phase == Phase::Monitoring {
            self.place_mandatory(now, commands);
        }
    }
}
