//! Servers that refuse, are lost, and come back.

use pliant_model::TimeMs;

use super::{Command, Explore, Phase};
use crate::names::Name;

impl Explore {
    /// A server that was given up has run a request after all. True if that is news; then whoever has it instead
    /// need not run it.
    pub(super) fn ended_elsewhere(&mut self, number: u32, name: &Name, commands: &mut Vec<Command>) -> bool {
        let Some(server) = self.servers.get_mut(name) else { return false };
        let Some(at) = server.given_up.iter().position(|given_up| *given_up == number) else { return false };
        server.given_up.swap_remove(at);
        if let Some(other) = self.sent.get(&number).cloned() {
            self.take_off(number, &other);
            let attempt = self.attempt(number);
            commands.push(Command::CancelOne { server: other.clone(), number, attempt });
            self.fill(&other, commands);
            return true;
        }
        let waits = self.homeless.len() + self.returned.len();
        self.homeless.retain(|homeless| *homeless != number);
        self.returned.retain(|returned| *returned != number);
        self.homeless.len() + self.returned.len() < waits
    }

    /// A request goes elsewhere, and the server gets no more until the agent names it again.
    pub(super) fn refused(&mut self, now: TimeMs, number: u32, name: &Name, commands: &mut Vec<Command>) {
        if !self.take_off(number, name) {
            return;
        }
        if let Some(server) = self.servers.get_mut(name) {
            server.there = false;
        }
        self.put_back(number);
        self.place_mandatory(now, commands);
    }

    /// What a server had goes elsewhere; it may run some of it all the same.
    pub(super) fn lost(&mut self, now: TimeMs, name: &Name, commands: &mut Vec<Command>) {
        let there: Vec<u32> = self.sent_to(name).collect();
        for number in &there {
            self.take_off(*number, name);
            self.put_back(*number);
        }
        if let Some(server) = self.servers.get_mut(name) {
            server.there = false;
            server.given_up.extend(there);
        }
        self.moving.forget(name);
        if self.phase == Phase::Monitoring {
            self.place_mandatory(now, commands);
        }
    }
}
