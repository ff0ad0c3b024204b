//! Restart of a client, and the cleanup phase.
//!
//! A client that was connected until the deadline leaves at once. Requests of a restarted client may have ended in time
//! without its knowledge. It *recalls* each of these, so that its server reports the outcome, and leaves when all are
//! answered or their servers are lost.

use super::{Command, ExplorationClient, ExplorationOutcome, PendingMoves, Phase};

impl ExplorationClient {
    /// Submits open requests again under their numbers. Past the deadline, without open mandatory requests, it only asks
    /// for outcomes. A client that waited for the next discovery discovers now, because its timer is lost.
    pub(super) fn resume(&mut self, passed: bool, commands: &mut Vec<Command>) {
        self.moving = PendingMoves::default();
        if matches!(self.phase, Phase::Pausing | Phase::Recalling) {
            self.phase = Phase::Discovering;
        }
        self.without_status = self.dispatcher.sent_optional().collect();
        if self.open > 0 || !passed {
            let again =
                self.dispatcher.sent().map(|(number, server)| self.submission(number, server.clone()));
            commands.extend(again.map(Command::Submit));
        }
        // Discovery also finds the servers that have requests.
        commands.push(Command::Discover { most: self.plan().most });
        commands.push(Command::WakeAt(self.plan().deadline));
    }

    /// Ends the exploration, once no request has to be recalled.
    pub(super) fn finish(&mut self, commands: &mut Vec<Command>) {
        if self.without_status.is_empty() {
            return self.leave(false, commands);
        }
        if self.phase != Phase::Recalling {
            self.phase = Phase::Recalling;
            let at = |number: &u32| Some((*number, self.dispatcher.server_of(*number)?));
            let without_status = self.without_status.iter().filter_map(at);
            commands.extend(
                without_status.map(|(number, at)| Command::Recall(self.submission(number, at.clone()))),
            );
        }
    }

    /// The cleanup phase.
    pub(super) fn leave(&mut self, interrupted: bool, commands: &mut Vec<Command>) {
        self.phase = Phase::Over;
        self.interrupted = interrupted;
        let asked = self.dispatcher.possible_holders();
        commands.extend(asked.map(|server| Command::Cancel { server: server.clone() }));
        commands.push(Command::Done(ExplorationOutcome { progress: self.progress, interrupted }));
    }
}
