//! The agent's half of a co-allocation: it maps, reserves all or nothing, decides, and sees to it that everybody hears.
//!
//! What it is told and does is in this file, what is decided about a launch in `deciding`, which task goes where in
//! `placing` (and by which way to map in `mapping`), and a launch as data in `launch`.

mod deciding;
mod event;
mod launch;
mod mapping;
mod placing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use super::links::{LinkQuality, Links, LinksState};
use super::{End, LaunchId, LaunchRecord, Site, SubjobDecision, SubjobId, SubjobState, TaskEdge};
use crate::access::Caller;
use crate::handoff::Peer;
use crate::names::Token;
use crate::names::{Key, Name};
use crate::replay::Machine;

pub use event::{Answer, Command, Event, LaunchSpec, Spawn, Spawned};
use launch::{Group, Launch, Stage};

/// How long servers may take to say what machines they have, and after which time they are asked again.
const SURVEY: (Span, Span) = (Span(60), Span(10));
/// How long a launch that is over stays in memory. A server that asks later is told to end its subjob.
const KEPT_AFTER_END: Span = Span(3600);
/// The longest that subjobs may be held: a day.
pub(super) const TIMEOUT_MAX: Span = Span(86_400);
/// The longest that tasks may run: a year, as of any job.
const WALLTIME_MAX: Span = Span(366 * 86_400);
/// The most tasks of a launch: clustering takes more than linear time.
pub(super) const TASKS_MAX: usize = 1024;
/// Tasks that a launch has ever had, with those that found no place: its record keeps them.
pub(super) const TASKS_EVER_MAX: usize = 4 * TASKS_MAX;

/// What a coordinator is.
#[derive(Clone, PartialEq, Debug)]
pub struct CoordinatorConfig {
    /// The agent's name, and where servers reach it.
    pub own: Peer,
}

/// The launches that an agent coordinates.
pub struct Coordinator {
    config: CoordinatorConfig,
    launches: BTreeMap<Key, Launch>,
    /// Those that are over, by when: forgotten in that order.
    over: VecDeque<(Time, Key)>,
    /// What was measured between servers.
    links: Links,
}

impl Coordinator {
    /// A coordinator without launches.
    pub fn new(config: CoordinatorConfig) -> Coordinator {
        Coordinator { config, launches: BTreeMap::new(), over: VecDeque::new(), links: Links::default() }
    }

    /// The coordinator that had this state.
    pub fn from_state(config: CoordinatorConfig, state: CoordinatorState) -> Coordinator {
        let CoordinatorState { launches, over, links } = state;
        let links = Links::from_state(links);
        Coordinator { config, launches: launches.into_iter().collect(), over, links }
    }

    /// Takes in an event and appends what is to be done.
    pub fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        match event {
            Event::Launch { reply, wanted } => {
                let answer = self.launch(now, *wanted, commands);
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
            Event::Surveyed { launch, group, sites } => {
                self.links.forget(now);
                self.surveyed(now, &launch, group, &sites, commands);
            }
            Event::Measured { between: [one, other], mbps, round_trip_us } => {
                self.links.measured(&one, &other, LinkQuality { at: now, mbps, round_trip_us });
            }
            Event::Stands { from, id, state, reply } => {
                self.stands(now, &from, &id, state, commands);
                if let Some(to) = reply {
                    let (decision, heard) = self.decision(&from, &id);
                    commands.push(Command::SubjobDecision { to, decision, heard });
                }
            }
            Event::Due => {
                let keys: Vec<Key> = self.launches.keys().copied().collect();
                for key in keys {
                    self.go_on(now, &key, commands);
                }
                self.forget(now);
            }
        }
    }

    /// When [`Event::Due`] is wanted next.
    pub fn next_due(&self) -> Option<Time> {
        let forget = self.over.front().map(|(at, _)| *at + KEPT_AFTER_END);
        self.launches.values().filter_map(Launch::next_due).chain(forget).min()
    }

    fn launch(&mut self, now: Time, wanted: LaunchSpec, commands: &mut Vec<Command>) -> Answer {
        let key = wanted.key;
        if let Some(known) = self.launches.get(&key) {
            let other = match known.owner == wanted.owner {
                true if known.is_of(&wanted.application) => return self.answer(&key),
                true => "expected the application that was launched with this key, found another one",
                false => "another user's launch has this key",
            };
            return Answer::Refused(format!("{other}; draw another key"));
        }
        if let Err(why) = wanted.check() {
            return Answer::Refused(why);
        }
        self.launches.insert(key, Launch::new(now, wanted));
        self.survey(&key, 0, commands);
        self.answer(&key)
    }

    fn spawn(
        &mut self,
        now: Time,
        id: &LaunchId,
        caller: &Caller,
        spawn: Spawn,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let Some(key) = self.known(id, caller) else { return Answer::NoSuchLaunch };
        let Some(launch) = self.launches.get_mut(&key) else { return Answer::NoSuchLaunch };
        if launch.groups.iter().any(|group| group.spawn == Some(spawn.key)) {
            return self.answer(&key);
        }
        if launch.end.is_some() || launch.groups[0].stage != Stage::Decided {
            return Answer::Refused(
                "expected a launch that runs; tasks are spawned into nothing else".to_owned(),
            );
        }
        let extended = match spawn.extend(launch) {
            Ok(extended) => extended,
            Err(why) => return Answer::Refused(why),
        };
        let first = launch.application.tasks.len() as u32;
        let tasks = (first..extended.tasks.len() as u32).collect();
        launch.application = extended;
        launch.groups.push(Group::new(now, tasks, Some(spawn.key)));
        let group = launch.groups.len() as u32 - 1;
        self.survey(&key, group, commands);
        self.answer(&key)
    }

    fn cancel(&mut self, now: Time, id: &LaunchId, caller: &Caller, commands: &mut Vec<Command>) -> Answer {
        let Some(key) = self.known(id, caller) else { return Answer::NoSuchLaunch };
        if let Some(launch) = self.launches.get_mut(&key) {
            launch.finish(now, End::Cancelled);
        }
        self.settle(now, &key, commands);
        self.answer(&key)
    }

    fn survey(&self, key: &Key, group: u32, commands: &mut Vec<Command>) {
        commands.push(Command::Survey { launch: self.id(key), group });
    }

    fn id(&self, key: &Key) -> LaunchId {
        LaunchId { agent: self.config.own.name.clone(), key: *key }
    }

    /// The key of a launch that the caller may know of.
    fn known(&self, id: &LaunchId, caller: &Caller) -> Option<Key> {
        let launch = self.launches.get(&id.key).filter(|_| id.agent == self.config.own.name)?;
        caller.may_access(&launch.owner).then_some(id.key)
    }

    fn answer(&self, key: &Key) -> Answer {
        let record = self.launches.get(key).map(|launch| launch.record(self.id(key)));
        record.map_or(Answer::NoSuchLaunch, |record| Answer::Launch(Box::new(record)))
    }

    /// A server has said how its subjob stands.
    fn stands(
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
        if launch.hear(now, from, id.number, state) {
            self.settle(now, &id.launch.key, commands);
        }
    }

    /// What is to become of a subjob, and whether it is known that it is over. Of what is not known here the decision is the
    /// end, and nobody waits for word of it.
    fn decision(&self, from: &Name, id: &SubjobId) -> (SubjobDecision, bool) {
        let launch = self.launches.get(&id.launch.key).filter(|_| id.launch.agent == self.config.own.name);
        let subjob = launch.and_then(|launch| Some((launch, launch.subjobs.get(id.number as usize)?)));
        match subjob.filter(|(_, subjob)| subjob.server.name == *from) {
            Some((launch, subjob)) => (launch.decision(subjob), subjob.state.is_over()),
            None => (SubjobDecision::End, true),
        }
    }

    fn forget(&mut self, now: Time) {
        while let Some((at, key)) = self.over.front()
            && *at + KEPT_AFTER_END <= now
        {
            self.launches.remove(key);
            self.over.pop_front();
        }
    }

    /// What it is.
    pub fn config(&self) -> &CoordinatorConfig {
        &self.config
    }

    /// A launch in memory; none if there is none that the caller may know of.
    pub fn record(&self, id: &LaunchId, caller: &Caller) -> Option<LaunchRecord> {
        let key = self.known(id, caller)?;
        Some(self.launches.get(&key)?.record(id.clone()))
    }

    /// Every launch in memory.
    pub fn records(&self) -> impl Iterator<Item = LaunchRecord> {
        self.launches.iter().map(|(key, launch)| launch.record(self.id(key)))
    }

    /// What was measured between servers.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// Every subjob of the launches in memory, with the group that it is decided about with, and whether that is to run: for
    /// those who check.
    pub fn subjobs(&self) -> impl Iterator<Item = (&SubjobId, &Name, usize, bool)> {
        self.launches.values().flat_map(|launch| {
            launch.subjobs.iter().map(|subjob| {
                let runs = launch.groups[subjob.group].stage == Stage::Decided;
                (&subjob.subjob.id, &subjob.server.name, subjob.group, runs)
            })
        })
    }
}

/// All that a coordinator knows.
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

    /// A refusal: what is refused is not kept.
    fn is_without_effect(commands: &[Command]) -> bool {
        let refused = |answer: &Answer| matches!(answer, Answer::Refused(_) | Answer::NoSuchLaunch);
        matches!(commands, [Command::Answer { answer, .. }] if refused(answer))
    }

    fn dump(&mut self, _now: Time) -> CoordinatorState {
        CoordinatorState {
            launches: self.launches.iter().map(|(key, launch)| (*key, launch.clone())).collect(),
            over: self.over.clone(),
            links: self.links.state(),
        }
    }
}
