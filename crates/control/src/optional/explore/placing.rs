//! Who gets which request.

use pliant_model::TimeMs;
use pliant_policy::optional::Kind;

use super::{Command, Dispatch, Explore, PAUSE, Phase, Submission};
use crate::names::Name;

impl Explore {
    /// Gives every mandatory request that is nowhere to the next server.
    pub(super) fn place_mandatory(&mut self, now: TimeMs, commands: &mut Vec<Command>) {
        while let Some(number) = self.homeless.pop_front() {
            let Some(server) = self.next_server() else {
                self.homeless.push_front(number);
                self.phase = Phase::Pausing;
                return commands.push(Command::WakeAt(now + PAUSE));
            };
            self.send(number, server, commands);
        }
    }

    /// Gives out the optional requests that the user guessed, one server after the other.
    pub(super) fn place_guessed(&mut self, commands: &mut Vec<Command>) {
        while self.has_optional() {
            let Some(server) = self.next_server() else { return };
            let Some(number) = self.take_optional() else { return };
            self.send(number, server, commands);
        }
    }

    /// Keeps a server's cores busy.
    pub(super) fn fill(&mut self, name: &Name, commands: &mut Vec<Command>) {
        let Dispatch::Window(window) = self.plan.dispatch else { return };
        if self.phase == Phase::Recalling {
            return;
        }
        while let Some(server) = self.servers.get(name)
            && server.there
            && server.optional < server.per_core.unwrap_or(window).saturating_mul(server.cores)
            && let Some(number) = self.take_optional()
        {
            self.send(number, name.clone(), commands);
        }
    }

    /// The next server that is there, in turn.
    pub(super) fn next_server(&mut self) -> Option<Name> {
        for _ in 0..self.order.len() {
            let name = &self.order[self.turn % self.order.len()];
            self.turn += 1;
            if self.servers[name].there {
                return Some(name.clone());
            }
        }
        None
    }

    /// How many requests may be given numbers at all.
    pub(super) fn limit(&self) -> u32 {
        match self.plan.dispatch {
            Dispatch::Window(_) => self.plan.most,
            Dispatch::Guess(guess) => guess.min(self.plan.most),
        }
    }

    pub(super) fn has_optional(&self) -> bool {
        !self.returned.is_empty() || self.next < self.limit()
    }

    pub(super) fn take_optional(&mut self) -> Option<u32> {
        if let Some(number) = self.returned.pop() {
            return Some(number);
        }
        let number = self.next;
        (number < self.limit()).then(|| self.next += 1).map(|()| number)
    }

    pub(super) fn kind(&self, number: u32) -> Kind {
        if number < self.plan.mandatory { Kind::Mandatory } else { Kind::Optional }
    }

    pub(super) fn submission(&self, number: u32, server: Name) -> Submission {
        let (weight, deadline) = (self.plan.weight, self.plan.deadline);
        Submission {
            number,
            server,
            kind: self.kind(number),
            attempt: self.attempt(number),
            weight,
            deadline,
        }
    }

    /// How often a server had to be found for a request before.
    pub(super) fn attempt(&self, number: u32) -> u32 {
        self.attempts.get(&number).copied().unwrap_or_default()
    }

    /// The next time that it is sent is another attempt.
    pub(super) fn count_attempt(&mut self, number: u32) {
        *self.attempts.entry(number).or_default() += 1;
    }

    pub(super) fn send(&mut self, number: u32, name: Name, commands: &mut Vec<Command>) {
        let optional = self.kind(number) == Kind::Optional;
        if let Some(server) = self.servers.get_mut(&name) {
            server.optional += u32::from(optional);
            server.used = true;
        }
        commands.push(Command::Submit(self.submission(number, name.clone())));
        self.sent.insert(number, name);
    }

    /// Takes a request off the server that has it; false if that is not this server.
    pub(super) fn take_off(&mut self, number: u32, name: &Name) -> bool {
        if self.sent.get(&number) != Some(name) {
            return false;
        }
        self.sent.remove(&number);
        self.unheard.remove(&number);
        self.moving.stays(number);
        let optional = self.kind(number) == Kind::Optional;
        if let Some(server) = self.servers.get_mut(name) {
            server.optional -= u32::from(optional);
        }
        true
    }

    /// A request is nowhere.
    pub(super) fn put_back(&mut self, number: u32) {
        self.count_attempt(number);
        match self.kind(number) {
            Kind::Mandatory => self.homeless.push_back(number),
            Kind::Optional => self.returned.push(number),
        }
    }
}
