//! The coordinator of co-allocations: it maps applications, reserves all of their machines or none, decides, and repeats
//! each decision until every server has acknowledged it.
//!
//! This file has the state machine, `decision` the decisions about a launch, `placing` the mapping of tasks (`mapping` the
//! algorithms), `launch` the data of a launch, and `usage` what launches may take up.

mod decision;
mod event;
mod launch;
mod mapping;
mod placing;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use super::links::{LinkQuality, Links, LinksState};
use super::{LaunchEnd, LaunchId, LaunchRecord, Site, SubjobDecision, SubjobId, SubjobState, TaskEdge};
use crate::access::Caller;
use crate::audit::{Actor, AuditAct, AuditRecord};
use crate::handoff::Peer;
use crate::names::Token;
use crate::names::{Key, Name};
use crate::replay::Machine;

pub use event::{Answer, Command, Event, LaunchSpec, SpawnSpec, SpawnedTask};
use launch::{Group, GroupState, Launch};
use usage::{Usage, UsageByUser};

/// How long the servers may take to report their machines, and the pause before the next query.
const LIST_MACHINES: (Span, Span) = (Span(60), Span(10));
/// How long an ended launch stays in memory. A later question about it is answered with the end.
const KEPT_AFTER_END: Span = Span(3600);
/// The longest timeout of a launch: a day.
pub(super) const TIMEOUT_MAX: Span = Span(86_400);
/// The longest walltime of tasks: a year, as for any job.
const WALLTIME_MAX: Span = Span(366 * 86_400);
/// The most tasks of a launch: clustering takes more than linear time.
pub(super) const TASKS_MAX: usize = 1024;
/// The most tasks that a launch may ever have, those that were not mapped included: its record keeps them.
pub(super) const TASKS_EVER_MAX: usize = 4 * TASKS_MAX;

/// The configuration of a coordinator.
#[derive(Clone, PartialEq, Debug)]
pub struct CoordinatorConfig {
    /// The agent's name and address.
    pub own: Peer,
}

/// The launches that an agent coordinates.
pub struct Coordinator {
    config: CoordinatorConfig,
    launches: BTreeMap<Key, Launch>,
    /// What these take up.
    usage: UsageByUser,
    /// Ended launches, by when they ended; forgotten in that order.
    over: VecDeque<(Time, Key)>,
    /// The measured links between servers.
    links: Links,
}

impl Coordinator {
    /// Makes a coordinator without launches.
    pub fn new(config: CoordinatorConfig) -> Coordinator {
        Coordinator {
            config,
            launches: BTreeMap::new(),
            usage: UsageByUser::default(),
            over: VecDeque::new(),
            links: Links::default(),
        }
    }

    /// Restores a coordinator from its state.
    pub fn from_state(config: CoordinatorConfig, state: CoordinatorState) -> Coordinator {
        let CoordinatorState { launches, over, links } = state;
        let (launches, links) = (BTreeMap::from_iter(launches), Links::from_state(links));
        let usage = UsageByUser::of(launches.values());
        Coordinator { config, launches, usage, over, links }
    }

    /// Handles an event and appends the commands that follow.
    pub fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        match event {
            Event::Launch { reply, spec } => {
                let answer = self.launch(now, *spec, commands);
                commands.push(Command::Answer { to: reply, answer });
            }
            Event::Spawn { reply, launch, caller, spawn } => {
                let answer = self.spawn(now, &launch, &caller, *spawn, commands);
                commands.push(Command::Answer { to: reply, answer });
            }
            Event::Cancel { reply, launch, caller } => {
                let answer = self.cancel(now, &launch, &caller, commands);
                commands.push(Command::Answer { to: reply, answer });
            }
            Event::MachinesListed { launch, group, sites } => {
                self.links.forget(now);
                self.machines_listed(now, &launch, group, &sites, commands);
            }
            Event::Measured { between: [one, other], mbps, round_trip_us } => {
                self.links.measured(&one, &other, LinkQuality { at: now, mbps, round_trip_us });
            }
            Event::SubjobStatus { from, id, state, reply } => {
                self.record_status(now, &from, &id, state, commands);
                if let Some(to) = reply {
                    let (decision, end_acknowledged) = self.decision(&from, &id);
                    commands.push(Command::SubjobDecision { to, decision, end_acknowledged });
                }
            }
            Event::Due => {
                let keys: Vec<Key> = self.launches.keys().copied().collect();
                for key in keys {
                    self.handle_due(now, &key, commands);
                }
                self.forget(now);
            }
        }
    }

    /// When the coordinator needs the next [`Event::Due`].
    pub fn next_due(&self) -> Option<Time> {
        let forget = self.over.front().map(|(at, _)| *at + KEPT_AFTER_END);
        self.launches.values().filter_map(Launch::next_due).chain(forget).min()
    }

    fn launch(&mut self, now: Time, spec: LaunchSpec, commands: &mut Vec<Command>) -> Answer {
        let key = spec.key;
        if let Some(known) = self.launches.get(&key) {
            let other = match known.owner == spec.owner {
                true if known.is_of(&spec.application) => return self.answer(&key),
                true => "expected the application that was launched with this key, found another one",
                false => "another user's launch has this key",
            };
            return Answer::Refused(format!("{other}; draw another key"));
        }
        if let Err(why) = spec.check() {
            return Answer::Refused(why);
        }
        let more = Usage::of(&spec.application);
        if let Err(why) = self.usage.check(&spec.owner, more) {
            return Answer::Refused(why);
        }
        self.usage.add(&spec.owner, more);
        let (by, tasks) = (Actor::User(spec.owner.clone()), spec.application.tasks.len());
        self.audit(now, by, AuditAct::Launch, &key, Some(tasks), commands);
        self.launches.insert(key, Launch::new(now, spec));
        self.list_machines(&key, 0, commands);
        self.answer(&key)
    }

    fn spawn(
        &mut self,
        now: Time,
        id: &LaunchId,
        caller: &Caller,
        spawn: SpawnSpec,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let Some(key) = self.visible_key(id, caller) else { return Answer::NoSuchLaunch };
        let Some(launch) = self.launches.get_mut(&key) else { return Answer::NoSuchLaunch };
        if launch.has_spawned(spawn.key) {
            return self.answer(&key);
        }
        if launch.end.is_some() || launch.groups[0].state != GroupState::Decided {
            return Answer::Refused("expected a running launch to spawn tasks into".to_owned());
        }
        let extended = match spawn.extend(launch) {
            Ok(extended) => extended,
            Err(why) => return Answer::Refused(why),
        };
        let more = Usage::added(&extended, &launch.application);
        if let Err(why) = self.usage.check(&launch.owner, more) {
            return Answer::Refused(why);
        }
        self.usage.add(&launch.owner, more);
        let first = launch.application.tasks.len() as u32;
        let tasks = (first..extended.tasks.len() as u32).collect();
        launch.application = extended;
        launch.groups.push(Group::new(now, tasks, Some(spawn.key), spawn.signed));
        let group = launch.groups.len() as u32 - 1;
        self.audit(now, caller.into(), AuditAct::Spawn, &key, Some(spawn.tasks.len()), commands);
        self.list_machines(&key, group, commands);
        self.answer(&key)
    }

    fn cancel(&mut self, now: Time, id: &LaunchId, caller: &Caller, commands: &mut Vec<Command>) -> Answer {
        let Some(key) = self.visible_key(id, caller) else { return Answer::NoSuchLaunch };
        if let Some(launch) = self.launches.get_mut(&key).filter(|launch| launch.end.is_none()) {
            launch.finish(now, LaunchEnd::Cancelled);
            self.audit(now, caller.into(), AuditAct::CancelLaunch, &key, None, commands);
            self.settle(now, &key, commands);
        }
        self.answer(&key)
    }

    /// Adds an act about a launch to the audit trail, with the number of tasks if it adds some.
    fn audit(
        &self,
        at: Time,
        by: Actor,
        act: AuditAct,
        key: &Key,
        tasks: Option<usize>,
        commands: &mut Vec<Command>,
    ) {
        let launch = self.id(key);
        let why = tasks.map_or_else(|| launch.to_string(), |tasks| format!("{launch}: {tasks} tasks"));
        let record = AuditRecord { at, by, act, job: None, user: None, why };
        commands.push(Command::Audit(Box::new(record)));
    }

    fn list_machines(&self, key: &Key, group: u32, commands: &mut Vec<Command>) {
        commands.push(Command::ListMachines { launch: self.id(key), group });
    }

    fn id(&self, key: &Key) -> LaunchId {
        LaunchId { agent: self.config.own.name.clone(), key: *key }
    }

    /// The key of a launch that the caller may see.
    fn visible_key(&self, id: &LaunchId, caller: &Caller) -> Option<Key> {
        let launch = self.launches.get(&id.key).filter(|_| id.agent == self.config.own.name)?;
        caller.may_access(&launch.owner).then_some(id.key)
    }

    fn answer(&self, key: &Key) -> Answer {
        let record = self.launches.get(key).map(|launch| launch.record(self.id(key)));
        record.map_or(Answer::NoSuchLaunch, |record| Answer::Launch(Box::new(record)))
    }

    /// Records a subjob's state that a server has reported.
    fn record_status(
        &mut self,
        now: Time,
        from: &Name,
        id: &SubjobId,
        state: SubjobState,
        commands: &mut Vec<Command>,
    ) {
        if id.launch.agent != self.config.own.name {
            return;
        }
        let Some(launch) = self.launches.get_mut(&id.launch.key) else { return };
        if launch.record_state(now, from, id.number, state) {
            self.settle(now, &id.launch.key, commands);
        }
    }

    /// The decision about a subjob, and whether the coordinator knows that the subjob has ended. For an unknown subjob that
    /// is the end, and no report is expected.
    fn decision(&self, from: &Name, id: &SubjobId) -> (SubjobDecision, bool) {
        let launch = self.launches.get(&id.launch.key).filter(|_| id.launch.agent == self.config.own.name);
        let subjob = launch.and_then(|launch| Some((launch, launch.subjobs.get(id.number as usize)?)));
        match subjob.filter(|(_, subjob)| subjob.server.name == *from) {
            Some((launch, subjob)) => (launch.decision(subjob), subjob.state.is_over()),
            None => (SubjobDecision::End, true),
        }
    }

    /// The answer to a server's report of a subjob that is not known as its own; none if it is known. Such a report changes nothing.
    pub fn answer_about_unknown(&self, from: &Name, id: &SubjobId) -> Option<(SubjobDecision, bool)> {
        let launch = self.launches.get(&id.launch.key).filter(|_| id.launch.agent == self.config.own.name);
        let subjob = launch.and_then(|launch| launch.subjobs.get(id.number as usize));
        let is_known = subjob.is_some_and(|subjob| subjob.server.name == *from);
        (!is_known).then(|| self.decision(from, id))
    }

    fn forget(&mut self, now: Time) {
        while let Some((at, key)) = self.over.front()
            && *at + KEPT_AFTER_END <= now
        {
            if let Some(launch) = self.launches.remove(key) {
                self.usage.remove(&launch);
            }
            self.over.pop_front();
        }
    }

    /// The coordinator's configuration.
    pub fn config(&self) -> &CoordinatorConfig {
        &self.config
    }

    /// A launch in memory, if the caller may see it.
    pub fn record(&self, id: &LaunchId, caller: &Caller) -> Option<LaunchRecord> {
        let key = self.visible_key(id, caller)?;
        Some(self.launches.get(&key)?.record(id.clone()))
    }

    /// True if tasks were spawned into a launch in memory with this key, and the caller may see that launch.
    pub fn has_spawned(&self, id: &LaunchId, caller: &Caller, spawn: Key) -> bool {
        let launch = self.visible_key(id, caller).and_then(|key| self.launches.get(&key));
        launch.is_some_and(|launch| launch.has_spawned(spawn))
    }

    /// Every launch in memory.
    pub fn records(&self) -> impl Iterator<Item = LaunchRecord> {
        self.launches.iter().map(|(key, launch)| launch.record(self.id(key)))
    }

    /// The measured links between servers.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Every subjob in memory with its server, its group and whether the group runs; for tests.
    pub fn subjobs(&self) -> impl Iterator<Item = (&SubjobId, &Name, usize, bool)> {
        self.launches.values().flat_map(|launch| {
            launch.subjobs.iter().map(|subjob| {
                let runs = launch.groups[subjob.group].state == GroupState::Decided;
                (&subjob.subjob.id, &subjob.server.name, subjob.group, runs)
            })
        })
    }
}

/// The state of a coordinator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CoordinatorState {
    launches: Vec<(Key, Launch)>,
    over: VecDeque<(Time, Key)>,
    links: LinksState,
}

impl Machine for Coordinator {
    type Event = Event;
    type Command = Command;
    type State = CoordinatorState;

    fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        Coordinator::on(self, now, event, commands);
    }

    fn next_due(&self) -> Option<Time> {
        Coordinator::next_due(self)
    }

    fn due() -> Event {
        Event::Due
    }

    /// A refusal changes no state.
    fn is_without_effect(commands: &[Command]) -> bool {
        matches!(commands, [Command::Answer { .. }])
    }

    fn dump(&mut self, _now: Time) -> CoordinatorState {
        CoordinatorState {
            launches: self.launches.iter().map(|(key, launch)| (*key, launch.clone())).collect(),
            over: self.over.clone(),
            links: self.links.state(),
        }
    }
}
