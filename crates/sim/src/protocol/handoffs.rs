//! Handoffs between servers: pending calls and completed moves.

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

/// The first token of calls between daemons; those of clients are smaller.
const FIRST: u64 = 1 << 63;

/// The caller that waits for an answer of a server.
enum PendingCall {
    /// The server's agent, by the number of its query.
    Agent(u64),
    /// The server of that number, for that handoff.
    Server(usize, HandoffId),
}

/// The pending calls and the completed moves.
#[derive(Default)]
pub(super) struct Handoffs {
    waiting: FxHashMap<u64, PendingCall>,
    next: u64,
    pub(super) moves: Vec<MoveRecord>,
    pub(super) count: u64,
}

impl Handoffs {
    fn wait(&mut self, waiting: PendingCall) -> Token {
        let token = FIRST + self.next;
        self.next += 1;
        self.waiting.insert(token, waiting);
        Token(token)
    }
}

impl Driver<'_> {
    /// Delivers an agent's move proposal to a server.
    pub(super) fn deliver_move_proposal(
        &mut self,
        now: Time,
        index: usize,
        discovery: u64,
        proposal: Box<MoveProposal>,
    ) {
        let reply = self.handoffs.wait(PendingCall::Agent(discovery));
        self.deliver_to_server(now, index, server::Event::ProposeMove { reply, proposal });
    }

    /// Sends the outcome of a proposal to the agent.
    pub(super) fn send_move_outcome(&mut self, now: Time, index: usize, to: Token, outcome: MoveOutcome) {
        let Some(PendingCall::Agent(discovery)) = self.handoffs.waiting.remove(&to.0) else { return };
        let child = self.servers[index].node.machine.config().name.clone();
        let found = DiscoveryResult { outcome: Some(outcome), ..DiscoveryResult::default() };
        self.send_up(now, Peer::Server(index), agent::Event::Answered { child, discovery, found });
    }

    /// Records a completed move.
    pub(super) fn record_move(&mut self, source: usize, job: &Handle, hop: &Hop) {
        self.handoffs.count += 1;
        let server = |name: &Name| match self.peers.get(name) {
            Some(Peer::Server(index)) => Some(ClusterId(*index as u32)),
            _ => None,
        };
        let (Some(from), Some(to)) = (server(&hop.from), server(&hop.to)) else { return };
        let machine = &self.servers[source].node.machine;
        let payload = machine.number_of(job).and_then(|number| machine.payload(number));
        let Some(number) = payload.and_then(|payload| payload.read::<u32>().ok()) else { return };
        // The job may have started at the target before the source archives the move.
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

    /// Calls another server for a server.
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
                let reply = self.handoffs.wait(PendingCall::Server(index, id));
                server::Event::Prepare { reply, handoff }
            }
            Call::Commit { cancelled, attempts } => {
                let reply = self.handoffs.wait(PendingCall::Server(index, id.clone()));
                server::Event::Commit { reply, id, cancelled, attempts }
            }
            Call::Ready => {
                let reply = self.handoffs.wait(PendingCall::Server(index, id.clone()));
                server::Event::Ready { reply, id }
            }
            Call::Abort => {
                let reply = self.handoffs.wait(PendingCall::Server(index, id.clone()));
                server::Event::Abort { reply, id }
            }
        };
        self.send(now, Link::Servers, NetworkMessage::Server(other, event));
    }

    /// Answers a call of another server.
    pub(super) fn reply_to_server(&mut self, now: Time, to: Token, reply: Reply) {
        let Some(PendingCall::Server(source, id)) = self.handoffs.waiting.remove(&to.0) else { return };
        self.send(now, Link::Servers, NetworkMessage::Server(source, server::Event::Answered { id, reply }));
    }

    /// Sends the decision whether a sibling may start.
    pub(super) fn send_start_decision(&mut self, now: Time, to: Token, decision: HandoffDecision) {
        let Some(PendingCall::Server(target, id)) = self.handoffs.waiting.remove(&to.0) else { return };
        self.send(
            now,
            Link::Servers,
            NetworkMessage::Server(target, server::Event::Decided { id, decision }),
        );
    }

    /// Answers a target's inquiry with the decision of the source.
    pub(super) fn answer_inquiry(&mut self, now: Time, source: usize, target: usize, id: HandoffId) {
        let decision = self.servers[source].node.machine.decision(&id);
        self.send(
            now,
            Link::Servers,
            NetworkMessage::Server(target, server::Event::Decided { id, decision }),
        );
    }
}
