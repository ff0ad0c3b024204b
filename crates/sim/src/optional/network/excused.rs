//! Computes how much unfairness faults excuse.
//!
//! In start-time fair queueing, an optional request starts before another user's waiting request only if its user has no
//! more service for its weight. While both users have waiting requests at a server, their services there differ by at most
//! two requests (Goyal, Vin and Cheng 1997). A larger difference comes only from starts while the other user has no waiting
//! request. Faults excuse these: the other client is down, or a message from or to it was lost and is not yet repeated.
//!
//! Runs after the deadline of a user whose client is down take nothing from other users, who have left.

use pliant_control::optional::server::Event;
use pliant_model::SpanMs;
use pliant_policy::optional::Kind;

use super::{NetworkEvent, QUERY_SOON, REPEAT_AFTER, World};

impl World<'_> {
    /// Excuses the client of a lost message until it has repeated the message and new requests have arrived.
    pub(super) fn excuse_client_of(&mut self, lost: &NetworkEvent) {
        let user = match lost {
            NetworkEvent::ToClient(user, _)
            | NetworkEvent::QueryProspects(user, _)
            | NetworkEvent::QueryAgent(user, _) => *user,
            NetworkEvent::ToServer(
                _,
                Event::Submit { reply, .. }
                | Event::Cancel { reply, .. }
                | Event::Withdraw { reply, .. }
                | Event::CancelAll { reply, .. },
            ) => reply.0 as usize,
            _ => return,
        };
        self.excuse(user);
    }

    /// Excuses a client that has missed a message or restarts.
    pub(super) fn excuse(&mut self, user: usize) {
        let round_trip = SpanMs(2 * (self.faults.latency.0 + self.faults.spread.0));
        self.clients[user].excused = self.queue.now() + REPEAT_AFTER + QUERY_SOON + round_trip + round_trip;
    }

    /// Counts an optional request that starts while other users have no waiting request at the server because of a fault.
    pub(super) fn count_excused(&mut self, at: usize, user: usize, number: u32, took: SpanMs) {
        if self.kind(user, number) == Kind::Mandatory {
            return;
        }
        let machine = &self.servers[at].node.machine;
        for (other, client) in self.clients.iter().enumerate() {
            let is_excused = !client.node.up || self.queue.now() < client.excused;
            if other == user || !is_excused {
                continue;
            }
            let here =
                machine.share(self.queue.now(), &client.user).map_or(0, |share| share.requests as usize);
            let running = machine.processes().filter(|run| run.key.exploration == client.key).count();
            if here <= running {
                let sum = self.excused.entry((user, other)).or_default();
                *sum = *sum + took;
            }
        }
    }

    /// Counts the time of a run after the deadline of a user who has not left.
    pub(super) fn count_late(&mut self, user: usize, took: SpanMs, speed: f64) {
        let client = &mut self.clients[user];
        let late = (self.queue.now() - client.node.machine.plan().deadline).max(SpanMs::ZERO).min(took);
        client.late = client.late + SpanMs((late.0 as f64 * speed).round() as i64);
    }

    /// The time of each user's requests that faults excuse.
    pub(super) fn excused_times(&self) -> Vec<SpanMs> {
        let mut excused = vec![SpanMs::ZERO; self.clients.len()];
        for ((user, _), took) in &self.excused {
            excused[*user] = excused[*user].max(*took);
        }
        self.clients.iter().zip(excused).map(|(client, took)| took + client.late).collect()
    }
}
