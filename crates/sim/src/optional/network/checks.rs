//! What must hold, whatever happens.

use super::World;
use super::faults::retold;

impl World<'_> {
    /// No more optional requests of a user are stored than there are cores, so on the whole platform never more than
    /// users times cores (claim C004-19).
    pub(super) fn check_bound(&mut self, at: usize) {
        let Some(most) = self.window.map(|window| window * self.scenario.cores) else { return };
        let machine = &self.servers[at].machine;
        if self.clients.iter().any(|client| machine.optional_of(client.key) > most) {
            self.violations.push(format!("server {at} stores more than {most} optional requests of a user"));
        }
    }

    pub(super) fn check_end(&mut self) {
        for (user, client) in self.clients.iter().enumerate() {
            let progress = client.machine.progress();
            let done = &self.completed[user];
            let mandatory = done.keys().filter(|number| **number < client.machine.plan().mandatory).count();
            if self.fair && mandatory as u32 != self.scenario.mandatory {
                self.violations.push(format!("user {user}: {mandatory} mandatory requests were completed"));
            }
            if !client.machine.is_over() {
                self.violations.push(format!("user {user} has not left"));
            }
            if progress.mandatory + progress.optional > done.len() as u32 {
                self.violations.push(format!("user {user} was told of more requests than were completed"));
            }
            if let Some((number, times)) = done.iter().find(|(_, times)| **times > 1) {
                self.violations.push(format!("request {number} of user {user} was completed {times} times"));
            }
        }
        for (at, server) in self.servers.iter().enumerate() {
            if server.machine.queue().counts() != (0, 0) || !server.running.is_empty() {
                self.violations.push(format!("server {at} still has requests"));
            }
            if retold(server) != server.machine {
                self.violations.push(format!("the journal of server {at} tells another story"));
            }
        }
    }
}
