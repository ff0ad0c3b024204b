//! The state of an agent as data.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pliant_model::Time;
use pliant_policy::runtimes::CalibratedDump;
use serde::{Deserialize, Serialize};

use super::below::ChildrenOfServers;
use super::departed::DepartedJobs;
use super::promise_days::PromiseDays;
use super::runtimes;
use super::{Agent, AgentConfig, Child, Command, Event, ReallocationChange, ReportedMove};
use crate::job::JobRecord;
use crate::names::{Handle, Name};
use crate::replay::Machine;

/// The state of an agent, without open discoveries and the current reallocation cycle, whose requesters ask again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AgentState {
    children: BTreeMap<Name, Child>,
    jobs: Vec<Arc<JobRecord>>,
    ended: VecDeque<(Time, Handle)>,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    ended_moved: VecDeque<(Time, Handle)>,
    #[serde(default, skip_serializing_if = "DepartedJobs::is_empty")]
    departed: DepartedJobs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator_change: Option<ReallocationChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_cycle: Option<Time>,
    waits_since: Option<Time>,
    freed: bool,
    arrived: bool,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    moves: VecDeque<ReportedMove>,
    #[serde(default, skip_serializing_if = "CalibratedDump::is_nothing")]
    learned: CalibratedDump,
    #[serde(default, skip_serializing_if = "PromiseDays::is_empty")]
    promise_days: PromiseDays,
}

impl Agent {
    /// Restores an agent from its state.
    pub fn from_state(config: AgentConfig, state: AgentState) -> Agent {
        let AgentState {
            children,
            jobs,
            ended,
            ended_moved,
            departed,
            operator_change,
            last_cycle,
            waits_since,
            freed,
            arrived,
            moves,
            learned,
            promise_days,
        } = state;
        let waits_since = waits_since.unwrap_or(Time(i64::MIN));
        let mut below = ChildrenOfServers::default();
        children.iter().for_each(|(name, child)| below.add(name, &child.servers));
        Agent {
            children,
            below,
            jobs: jobs.into_iter().collect(),
            ended,
            ended_moved,
            departed,
            waits_since,
            operator_change,
            last_cycle,
            freed,
            arrived,
            moves,
            learned: runtimes::restore(learned),
            promise_days,
            ..Agent::new(config)
        }
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
            jobs: self.jobs.shared(),
            ended: self.ended.clone(),
            ended_moved: self.ended_moved.clone(),
            departed: self.departed.clone(),
            operator_change: self.operator_change,
            last_cycle: self.last_cycle,
            waits_since: Some(self.waits_since),
            freed: self.freed,
            arrived: self.arrived,
            moves: self.moves.clone(),
            learned: self.learned.dump(),
            promise_days: self.promise_days.clone(),
        }
    }

    fn is_question(event: &Event) -> bool {
        matches!(
            event,
            Event::Queried { .. }
                | Event::Answered { .. }
                | Event::Reallocate { .. }
                | Event::Summarised { .. }
        )
    }

    fn is_of_question(command: &Command) -> bool {
        matches!(
            command,
            Command::Query { .. }
                | Command::Answer { .. }
                | Command::ReportReallocation { .. }
                | Command::Summarise
        )
    }
}
