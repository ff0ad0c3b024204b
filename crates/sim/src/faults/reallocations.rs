//! Operators change how agents reallocate waiting jobs. The changes of a plan are repeated until they are confirmed.

use pliant_control::agent::{Agent, Event, ReallocationChange, ReallocationConfig};
use pliant_control::names::Token;
use pliant_policy::reallocation::Algorithm;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::drains::REPEAT_AFTER;
use super::plan::draw_moving;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// The change of an agent's reallocation, and when it is made, in milliseconds.
pub(super) struct PlannedReallocation {
    /// The agent, modulo the number of agents.
    agent: usize,
    at: u64,
    /// None returns to the configuration.
    change: Option<ReallocationChange>,
}

impl PlannedReallocation {
    /// Draws some changes before the last fault.
    pub(super) fn draw(rng: &mut ChaCha8Rng, siblings: bool, until: u64) -> Vec<PlannedReallocation> {
        let count = rng.random_range(0..=12);
        (0..count).map(|_| PlannedReallocation::draw_one(rng, siblings, until)).collect()
    }

    fn draw_one(rng: &mut ChaCha8Rng, siblings: bool, until: u64) -> PlannedReallocation {
        // Most of them at the master agent.
        let agent = if rng.random_bool(0.6) { 0 } else { rng.random_range(0..100) };
        let at = rng.random_range(0..until);
        let mut config = draw_moving(rng);
        if siblings && rng.random_bool(0.5) {
            config.policy.algorithm = Algorithm::Siblings;
        }
        let change = match rng.random_range(0..10) {
            0 => None,
            1 => Some(ReallocationChange::Off),
            _ => Some(ReallocationChange::Set(config)),
        };
        PlannedReallocation { agent, at, change }
    }
}

/// A change that was sent to an agent and is not confirmed.
struct SentChange {
    reply: Token,
    /// The reallocation that is in force after it.
    reallocation: Option<ReallocationConfig>,
    /// The number of the planned change, if it is one.
    number: Option<usize>,
}

/// The changes of the reallocation that operators have sent to an agent.
pub(super) struct SentChanges {
    /// The reallocation of the agent's configuration.
    configured: Option<ReallocationConfig>,
    /// The last reallocation of which an operator knows that it was in force.
    known: Option<ReallocationConfig>,
    /// The changes that followed, in order.
    later: Vec<SentChange>,
    /// The last planned change, while it is not confirmed.
    open: Option<usize>,
}

impl SentChanges {
    pub(super) fn new(agent: &Agent) -> SentChanges {
        let configured = agent.reallocation();
        SentChanges { configured, known: configured, later: Vec::new(), open: None }
    }
}

impl World {
    pub(super) fn start_reallocations(&mut self) {
        for number in 0..self.plan.reallocations.len() {
            self.after(self.plan.reallocations[number].at, WorldEvent::Reallocation(number));
        }
    }

    /// An operator makes a planned change.
    pub(super) fn change_reallocation(&mut self, number: usize) {
        let agent = self.agent_of(number);
        self.reallocations[agent].open = Some(number);
        self.repeat_change(number);
    }

    fn agent_of(&self, number: usize) -> usize {
        self.plan.reallocations[number].agent % self.agents.len()
    }

    /// An operator sends a planned change, unless it was confirmed or another one has followed.
    pub(super) fn repeat_change(&mut self, number: usize) {
        let agent = self.agent_of(number);
        if self.reallocations[agent].open != Some(number) {
            return;
        }
        let reply = Token(self.next_number());
        self.send_change(agent, reply, self.plan.reallocations[number].change, Some(number));
        self.after(REPEAT_AFTER, WorldEvent::RepeatReallocation(number));
    }

    /// Sends an agent a change, which is the planned one with this number, if it is planned.
    pub(super) fn send_change(
        &mut self,
        agent: usize,
        reply: Token,
        change: Option<ReallocationChange>,
        number: Option<usize>,
    ) {
        if !self.is_up(Peer::Agent(agent)) {
            return;
        }
        let sent = &mut self.reallocations[agent];
        let reallocation = match change {
            Some(ReallocationChange::Set(reallocation)) => Some(reallocation),
            Some(ReallocationChange::Off) => None,
            None => sent.configured,
        };
        sent.later.push(SentChange { reply, reallocation, number });
        let by = Some("operator".parse().expect("letters are a user's name"));
        self.deliver_to_agent(agent, Event::Configure { reply, change, by });
    }

    /// An operator gets the confirmation of a change.
    pub(super) fn change_confirmed(&mut self, agent: usize, to: Token) {
        let sent = &mut self.reallocations[agent];
        let Some(at) = sent.later.iter().position(|change| change.reply == to) else { return };
        if let Some(SentChange { reallocation, number, .. }) = sent.later.drain(..=at).next_back() {
            sent.known = reallocation;
            sent.open = sent.open.filter(|open| number != Some(*open));
        }
    }

    /// Checks that an agent reallocates by the last change of which an operator knows, or by one that followed it.
    pub(super) fn check_reallocation(&mut self, agent: usize) {
        let found = self.agents[agent].daemon.node.machine.reallocation();
        let SentChanges { known, later, .. } = &self.reallocations[agent];
        if found != *known && later.iter().all(|change| change.reallocation != found) {
            let what = format!("a{agent} reallocates by {found:?}, an operator knows of {known:?}");
            self.report_violation("configured", what);
        }
    }

    /// Checks the reallocation that is in the journal of an agent that has crashed. Changes that are not in the journal never come
    /// into force.
    pub(super) fn lose_unjournaled_changes(&mut self, agent: usize) {
        self.check_reallocation(agent);
        let sent = &mut self.reallocations[agent];
        sent.known = self.agents[agent].daemon.node.machine.reallocation();
        sent.later.clear();
    }

    /// A restarted agent has lost an operator's change ([`super::Bug::ForgetsReallocation`]).
    pub(super) fn lose_reallocation(&mut self, agent: usize) {
        if let Err(why) = self.agents[agent].daemon.forget(self.queue.now(), ("", "operator_change")) {
            self.report_violation("journal", why);
        }
        self.check_reallocation(agent);
    }
}
