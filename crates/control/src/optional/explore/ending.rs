//! A client that begins again, and the cleanup phase.
//!
//! A client leaves as soon as its time is over, which is right for one that has listened until then. Requests of one
//! that was away may have ended in time without its knowledge: it *recalls* each of these, so that a server says what
//! had become of it, and leaves when all are answered or their servers are given up.

use super::{Command, ExplorationClient, Moving, Outcome, Phase};

impl ExplorationClient {
    /// Sends again what was not answered: the servers know the numbers. Past the deadline it has only to know what became
    /// of it, if nothing mandatory is left. Whoever waited to ask the agent does so now: the word for that is lost.
    pub(super) fn resume(&mut self, passed: bool, commands: &mut Vec<Command>) {
        self.moving = Moving::default();
        if matches!(self.phase, Phase::Pausing | Phase::Recalling) {
            self.phase = Phase::Discovering;
        }
        self.unheard = self.dispatcher.sent_optional().collect();
        if self.open > 0 || !passed {
            let again =
                self.dispatcher.sent().map(|(number, server)| self.submission(number, server.clone()));
            commands.extend(again.map(Command::Submit));
        }
        // Also where those servers are that have something.
        commands.push(Command::Discover { most: self.plan().most });
        commands.push(Command::WakeAt(self.plan().deadline));
    }

    /// Its time is over: leaves, if nothing is to be recalled before.
    pub(super) fn finish(&mut self, commands: &mut Vec<Command>) {
        if self.unheard.is_empty() {
            return self.leave(false, commands);
        }
        if self.phase != Phase::Recalling {
            self.phase = Phase::Recalling;
            let at = |number: &u32| Some((*number, self.dispatcher.server_of(*number)?));
            let unheard = self.unheard.iter().filter_map(at);
            commands.extend(unheard.map(|(number, at)| Command::Recall(self.submission(number, at.clone()))));
        }
    }

    /// The cleanup phase.
    pub(super) fn leave(&mut self, interrupted: bool, commands: &mut Vec<Command>) {
        self.phase = Phase::Over;
        self.interrupted = interrupted;
        let asked = self.dispatcher.possible_holders();
        commands.extend(asked.map(|server| Command::Cancel { server: server.clone() }));
        commands.push(Command::Done(Outcome { progress: self.progress, interrupted }));
    }
}
