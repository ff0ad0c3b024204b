//! The agent, which offers servers, and the queries of clients, as `pliant_client` sends them.

use pliant_control::optional::explore::{self, ServerOffer};
use pliant_model::TimeMs;

use super::{Bug, Class, ClientMessage, NetworkEvent, QUERY_EVERY, QUERY_SOON, REPEAT_AFTER, Timer, World};

impl World<'_> {
    /// Sends a client's query for servers, unless one is pending.
    pub(super) fn query_agent(&mut self, user: usize) {
        self.query_agent_by(user, self.queue.now() + QUERY_EVERY, true);
        let client = &mut self.clients[user];
        if std::mem::replace(&mut client.query_pending, true) {
            return;
        }
        client.queries += 1;
        let query = client.queries;
        self.send(Class::ToServer, || NetworkEvent::QueryAgent(user, query));
        self.set_timer(user, self.queue.now() + REPEAT_AFTER, Class::ClientDue, Timer::Unanswered(query));
    }

    /// Makes a client query for further servers soon, after it has lost one.
    pub(super) fn query_agent_soon(&mut self, user: usize) {
        self.query_agent_by(user, self.queue.now() + QUERY_SOON, false);
    }

    fn query_agent_by(&mut self, user: usize, at: TimeMs, anew: bool) {
        let client = &mut self.clients[user];
        if anew || at < client.query_due {
            client.query_due = at;
            self.set_timer(user, at, Class::ClientDue, Timer::Query);
        }
    }

    /// Queries for further servers when a client is due to.
    pub(super) fn query_if_due(&mut self, user: usize) {
        let client = &self.clients[user];
        if client.query_due <= self.queue.now() && !client.node.machine.is_over() {
            self.query_agent(user);
        }
    }

    /// Answers a query at the agent, if it is up, with the servers that it knows.
    pub(super) fn answer_query(&mut self, user: usize, query: u32) {
        if !self.agent_up {
            return self.excuse(user);
        }
        let known = (0..self.servers.len()).filter(|_| !self.draw_fault(self.faults.omitted)).collect();
        let answer = ClientMessage::Found(query, known);
        self.send_to_client(user, answer);
    }

    /// Delivers the answer to a client's latest query; answers to earlier ones are dropped.
    pub(super) fn deliver_offers(&mut self, user: usize, query: u32, servers: &[usize]) {
        let client = &mut self.clients[user];
        if client.queries != query || !std::mem::take(&mut client.query_pending) {
            return;
        }
        let cores = self.scenario.cores;
        let offer = |server: &usize| ServerOffer {
            server: self.servers[*server].name.clone(),
            cores,
            per_core: None,
        };
        let offers = servers.iter().map(offer).collect();
        self.deliver_to_client(user, explore::Event::Found(offers));
    }

    /// Treats an unanswered query as an answer without servers.
    pub(super) fn query_unanswered(&mut self, user: usize, query: u32) {
        let client = &mut self.clients[user];
        if client.queries != query || !client.query_pending || self.bug == Some(Bug::WaitsForAgent) {
            return;
        }
        client.query_pending = false;
        self.counts.unanswered += 1;
        self.deliver_to_client(user, explore::Event::Found(Vec::new()));
    }
}
