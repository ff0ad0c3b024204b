//! The state of an agent as data.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::{Agent, AgentConfig, Child, Command, Event, discovery};
use crate::job::JobRecord;
use crate::names::{Handle, Name};
use crate::replay::Machine;

/// All that an agent knows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentState {
    children: BTreeMap<Name, Child>,
    discoveries: BTreeMap<u64, discovery::Open>,
    next_discovery: u64,
    jobs: Vec<JobRecord>,
    ended: VecDeque<(Time, Handle)>,
}

impl Agent {
    /// The agent that had this state.
    pub fn from_state(config: AgentConfig, state: AgentState) -> Agent {
        let AgentState { children, discoveries, next_discovery, jobs, ended } = state;
        let jobs = jobs.into_iter().map(|record| (record.handle.clone(), record)).collect();
        Agent { config, children, discoveries, next_discovery, jobs, ended }
    }
}

impl Machine for Agent {
    type Event = Event;
    type Command = Command;
    type State = AgentState;

    fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        Agent::on(self, now, event, commands);
    }

    fn next_due(&self) -> Option<Time> {
        Agent::next_due(self)
    }

    fn due() -> Event {
        Event::Due
    }

    fn dump(&mut self, _now: Time) -> AgentState {
        AgentState {
            children: self.children.clone(),
            discoveries: self.discoveries.clone(),
            next_discovery: self.next_discovery,
            jobs: self.jobs.values().cloned().collect(),
            ended: self.ended.clone(),
        }
    }
}
