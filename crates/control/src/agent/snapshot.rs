//! The state of an agent as data.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::{Agent, AgentConfig, Child, Command, Event};
use crate::job::JobRecord;
use crate::names::{Handle, Name};
use crate::replay::Machine;

/// All that an agent knows, but for the discoveries under way: whoever asked asks again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentState {
    children: BTreeMap<Name, Child>,
    jobs: Vec<JobRecord>,
    ended: VecDeque<(Time, Handle)>,
}

impl Agent {
    /// The agent that had this state.
    pub fn from_state(config: AgentConfig, state: AgentState) -> Agent {
        let AgentState { children, jobs, ended } = state;
        let jobs = jobs.into_iter().map(|record| (record.handle.clone(), record)).collect();
        Agent { children, jobs, ended, ..Agent::new(config) }
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
            jobs: self.jobs.values().cloned().collect(),
            ended: self.ended.clone(),
        }
    }

    fn is_question(event: &Event) -> bool {
        matches!(event, Event::Asked { .. } | Event::Answered { .. })
    }

    fn is_of_question(command: &Command) -> bool {
        matches!(command, Command::Ask { .. } | Command::Answer { .. })
    }
}
