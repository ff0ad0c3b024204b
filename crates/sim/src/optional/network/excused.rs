//! What faults excuse of unfairness.
//!
//! In start-time fair queueing, an optional request starts before another user's waiting request only if its user has had no
//! more for the weight. So while both users have requests waiting at a server, their services there differ by two requests at
//! most (Goyal, Vin and Cheng 1997). They differ by more only by what starts while the other user has none waiting. Faults
//! excuse that: the client is down, or a message from or to it was lost and is not yet repeated.
//!
//! What runs after the deadline of its user, whose client is down and cannot leave, takes nothing from the others: they have
//! left.

use pliant_control::optional::server::Event;
use pliant_model::SpanMs;
use pliant_policy::optional::Kind;

use super::{AGAIN, LOOK_SOON, NetworkEvent, World};

impl World<'_> {
    /// A message is lost: its client may be without requests until it has repeated the message, perhaps after a pause, and new
    /// requests have arrived.
    pub(super) fn excuse_for(&mut self, lost: &NetworkEvent) {
        let user = match lost {
            NetworkEvent::ToClient(user, _) | NetworkEvent::Expect(user, _) | NetworkEvent::Ask(user, _) => {
                *user
            }
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

    /// A client has missed something, or begins again.
    pub(super) fn excuse(&mut self, user: usize) {
        let round_trip = SpanMs(2 * (self.faults.latency.0 + self.faults.spread.0));
        self.clients[user].excused = self.queue.now() + AGAIN + LOOK_SOON + round_trip + round_trip;
    }

    /// An optional request starts at a server: counts what it takes for each other user who has none waiting there because of a
    /// fault.
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

    /// A run has ended whose client has not left: counts what it took after the deadline.
    pub(super) fn count_late(&mut self, user: usize, took: SpanMs, speed: f64) {
        let client = &mut self.clients[user];
        let late = (self.queue.now() - client.node.machine.plan().deadline).max(SpanMs::ZERO).min(took);
        client.late = client.late + SpanMs((late.0 as f64 * speed).round() as i64);
    }

    /// Of each user: what faults excuse that its requests have taken.
    pub(super) fn most_excused(&self) -> Vec<SpanMs> {
        let mut excused = vec![SpanMs::ZERO; self.clients.len()];
        for ((user, _), took) in &self.excused {
            excused[*user] = excused[*user].max(*took);
        }
        self.clients.iter().zip(excused).map(|(client, took)| took + client.late).collect()
    }
}
