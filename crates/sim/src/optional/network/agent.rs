//! The agent, which names servers, and how clients ask it: as `pliant_client` does.

use pliant_control::optional::explore::{self, ServerOffer};
use pliant_model::TimeMs;

use super::{AGAIN, Bug, Class, LOOK, LOOK_SOON, NetworkEvent, Timer, ToClient, World};

impl World<'_> {
    /// A client asks for servers, unless it waits for an answer.
    pub(super) fn ask_agent(&mut self, user: usize) {
        self.look_by(user, self.queue.now() + LOOK, true);
        let client = &mut self.clients[user];
        if std::mem::replace(&mut client.asks, true) {
            return;
        }
        client.questions += 1;
        let question = client.questions;
        self.send(Class::ToServer, || NetworkEvent::Ask(user, question));
        self.wait_for(user, self.queue.now() + AGAIN, Class::ClientDue, Timer::Unanswered(question));
    }

    /// A client whose server is gone looks for others soon.
    pub(super) fn look_soon(&mut self, user: usize) {
        self.look_by(user, self.queue.now() + LOOK_SOON, false);
    }

    fn look_by(&mut self, user: usize, at: TimeMs, anew: bool) {
        let client = &mut self.clients[user];
        if anew || at < client.look {
            client.look = at;
            self.wait_for(user, at, Class::ClientDue, Timer::Look);
        }
    }

    /// A client may have come to the time to look for other servers.
    pub(super) fn look(&mut self, user: usize) {
        let client = &self.clients[user];
        if client.look <= self.queue.now() && !client.node.machine.is_over() {
            self.ask_agent(user);
        }
    }

    /// The agent answers, if it is there, with the servers that it knows of.
    pub(super) fn asked(&mut self, user: usize, question: u32) {
        if !self.agent_up {
            return self.excuse(user);
        }
        let known = (0..self.servers.len()).filter(|_| !self.strikes(self.faults.unnamed)).collect();
        let answer = ToClient::Found(question, known);
        self.send_to_client(user, answer);
    }

    /// The answer to a question: of another one, nobody wants to know it any more.
    pub(super) fn told_servers(&mut self, user: usize, question: u32, servers: &[usize]) {
        let client = &mut self.clients[user];
        if client.questions != question || !std::mem::take(&mut client.asks) {
            return;
        }
        let cores = self.scenario.cores;
        let offer = |server: &usize| ServerOffer {
            server: self.servers[*server].name.clone(),
            cores,
            per_core: None,
        };
        let offers = servers.iter().map(offer).collect();
        self.tell_client(user, explore::Event::Found(offers));
    }

    /// A question was not answered: as if there were no server.
    pub(super) fn unanswered(&mut self, user: usize, question: u32) {
        let client = &mut self.clients[user];
        if client.questions != question || !client.asks || self.bug == Some(Bug::WaitsForAgent) {
            return;
        }
        client.asks = false;
        self.seen.unanswered += 1;
        self.tell_client(user, explore::Event::Found(Vec::new()));
    }
}
