//! Handoffs between servers: who waits for which answer, and what was moved.

use pliant_control::agent::{self, DiscoveryResult};
use pliant_control::handoff::{Call, HandoffDecision, HandoffId, MoveOutcome, MoveProposal, Reply};
use pliant_control::job::Hop;
use pliant_control::names::Token;
use pliant_control::names::{Handle, Name};
use pliant_control::server::{self};
use pliant_model::{ClusterId, Estimate, MoveRecord, Time};
use rustc_hash::FxHashMap;

use super::driver::Driver;
use super::network::{Link, NetworkMessage};
use crate::kernel::Peer;

/// Tokens of calls between daemons; those of clients are smaller.
const FIRST: u64 = 1 << 63;

/// Who waits for an answer of a server.
enum Waiting {
    /// The agent above it, by its number of the question.
    Agent(u64),
    /// The server of that number, about that job.
    Server(usize, HandoffId),
}

/// The calls under way, and the moves that were made.
#[derive(Default)]
pub(super) struct Handoffs {
    waiting: FxHashMap<u64, Waiting>,
    next: u64,
    pub(super) moves: Vec<MoveRecord>,
    pub(super) count: u64,
}

impl Handoffs {
    fn wait(&mut self, waiting: Waiting) -> Token {
        let token = FIRST + self.next;
        self.next += 1;
        self.waiting.insert(token, waiting);
        Token(token)
    }
}

impl Driver<'_> {
    /// An agent proposes that a server hand a job over.
    pub(super) fn ordered(&mut self, now: Time, index: usize, discovery: u64, order: Box<MoveProposal>) {
        let reply = self.handoffs.wait(Waiting::Agent(discovery));
        self.tell_server(now, index, server::Event::Order { reply, order });
    }

    /// A server says what came of a proposal.
    pub(super) fn order_ended(&mut self, now: Time, index: usize, to: Token, outcome: MoveOutcome) {
        let Some(Waiting::Agent(discovery)) = self.handoffs.waiting.remove(&to.0) else { return };
        let child = self.servers[index].node.machine.config().name.clone();
        let found = DiscoveryResult { outcome: Some(outcome), ..DiscoveryResult::default() };
        self.send_up(now, Peer::Server(index), agent::Event::Answered { child, discovery, found });
    }

    /// A job has gone to another server.
    pub(super) fn moved(&mut self, source: usize, job: &Handle, hop: &Hop) {
        self.handoffs.count += 1;
        let server = |name: &Name| match self.peers.get(name) {
            Some(Peer::Server(index)) => Some(ClusterId(*index as u32)),
            _ => None,
        };
        let (Some(from), Some(to)) = (server(&hop.from), server(&hop.to)) else { return };
        let machine = &self.servers[source].node.machine;
        let payload = machine.number_of(job).and_then(|number| machine.payload(number));
        let Some(number) = payload.and_then(|payload| payload.read::<u32>().ok()) else { return };
        // It may have started there before that is known here.
        let started = self.outcomes[number as usize].as_ref().map(|ran| ran.log_id);
        let log_id = started.or_else(|| Some(self.submitted.get(&number)?.job.log_id));
        let Some(log_id) = log_id else { return };
        let at = hop.at;
        let Estimate { procs, .. } = hop.expected;
        let after = hop.expected.completion();
        if self.policies.keep_moves {
            self.handoffs.moves.push(MoveRecord { at, log_id, from, to, before: hop.before, after, procs });
        }
    }

    /// A server asks something of another one.
    pub(super) fn call(&mut self, now: Time, index: usize, to: &Name, id: HandoffId, call: Call) {
        let Some(Peer::Server(other)) = self.peers.get(to).copied() else {
            return debug_assert!(false, "{to} is no server");
        };
        let event = match call {
            Call::Inquire => {
                let inquiry = NetworkMessage::Inquiry { source: other, target: index, id };
                return self.send(now, Link::Servers, inquiry);
            }
            Call::Prepare(handoff) => {
                let reply = self.handoffs.wait(Waiting::Server(index, id));
                server::Event::Prepare { reply, handoff }
            }
            Call::Commit { cancelled, attempts } => {
                let reply = self.handoffs.wait(Waiting::Server(index, id.clone()));
                server::Event::Commit { reply, id, cancelled, attempts }
            }
            Call::Ready => {
                let reply = self.handoffs.wait(Waiting::Server(index, id.clone()));
                server::Event::Ready { reply, id }
            }
            Call::Abort => {
                let reply = self.handoffs.wait(Waiting::Server(index, id.clone()));
                server::Event::Abort { reply, id }
            }
        };
        self.send(now, Link::Servers, NetworkMessage::Server(other, event));
    }

    /// A server answers another one.
    pub(super) fn reply_to_server(&mut self, now: Time, to: Token, reply: Reply) {
        let Some(Waiting::Server(source, id)) = self.handoffs.waiting.remove(&to.0) else { return };
        self.send(now, Link::Servers, NetworkMessage::Server(source, server::Event::Answered { id, reply }));
    }

    /// A server says whether a copy may start.
    pub(super) fn consent(&mut self, now: Time, to: Token, decision: HandoffDecision) {
        let Some(Waiting::Server(target, id)) = self.handoffs.waiting.remove(&to.0) else { return };
        self.send(
            now,
            Link::Servers,
            NetworkMessage::Server(target, server::Event::Decided { id, decision }),
        );
    }

    /// A server asks the one that a held job came from.
    pub(super) fn inquired(&mut self, now: Time, source: usize, target: usize, id: HandoffId) {
        let decision = self.servers[source].node.machine.decision(&id);
        self.send(
            now,
            Link::Servers,
            NetworkMessage::Server(target, server::Event::Decided { id, decision }),
        );
    }
}
