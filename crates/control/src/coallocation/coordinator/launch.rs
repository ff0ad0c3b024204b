//! A launch as data: its groups, its subjobs, and what follows from how they stand.

use std::collections::BTreeMap;

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use super::{LaunchSpec, SURVEY, SubjobDecision, SubjobState};
use crate::coallocation::{
    Addresses, Application, Call, End, LaunchId, LaunchRecord, LaunchState, Mapping, Subjob, TaskEdge,
    TaskRecord,
};
use crate::handoff::Peer;
use crate::job::Exit;
use crate::names::{Key, Name, User};

/// The pause before a call is made again, at first and at most: doubled each time.
const AGAIN: (Span, Span) = (Span(4), Span(64));
/// After so many pauses without a word from the server of a subjob that is to run, the subjob is lost. Counted, not timed: a
/// clock that jumps ends nothing.
const UNHEARD_MOST: u32 = 10;

/// A launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Launch {
    pub(super) owner: User,
    pub(super) name: String,
    pub(super) application: Application,
    pub(super) walltime: Span,
    pub(super) timeout: Span,
    pub(super) user_lan: Option<Name>,
    pub(super) threshold: f64,
    pub(super) mapping: Mapping,
    pub(super) dry_run: bool,
    submitted: Time,
    /// What is decided about together: first the application, then what was spawned at a time.
    pub(super) groups: Vec<Group>,
    /// Where each task of the application is, once it is mapped.
    pub(super) places: BTreeMap<u32, TaskPlace>,
    pub(super) subjobs: Vec<SubjobRecord>,
    /// How it ends, once that is decided.
    pub(super) end: Option<End>,
    /// Since when nothing of it is left.
    pub(super) over: Option<Time>,
}

/// What is held together or not at all.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) stage: Stage,
    /// Its tasks, by their positions.
    pub(super) tasks: Vec<u32>,
    /// Under which key it was spawned, if it was.
    pub(super) spawn: Option<Key>,
    /// Since when it runs, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decided: Option<Time>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// Servers are asked what machines they have.
    Mapping { until: Time, again: Time },
    /// Its subjobs are to be held by then.
    Reserving { until: Time },
    /// It runs.
    Decided,
    /// It does not, and why.
    GivenUp(String),
}

/// Where a task is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct TaskPlace {
    pub(super) server: Name,
    pub(super) machine: String,
    pub(super) affinity: f64,
}

/// A subjob, as far as it is known here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SubjobRecord {
    pub(super) subjob: Subjob,
    pub(super) server: Peer,
    pub(super) group: usize,
    pub(super) state: SubjobState,
    pub(super) addresses: Addresses,
    /// When the server is called next, or is found to be silent.
    next: Time,
    pause: Span,
    /// How often it was.
    unheard: u32,
}

impl Group {
    pub(super) fn new(now: Time, tasks: Vec<u32>, spawn: Option<Key>) -> Group {
        let stage = Stage::Mapping { until: now + SURVEY.0, again: now + SURVEY.1 };
        Group { stage, tasks, spawn, decided: None }
    }
}

impl SubjobRecord {
    pub(super) fn new(now: Time, subjob: Subjob, server: Peer, group: usize) -> SubjobRecord {
        SubjobRecord {
            subjob,
            server,
            group,
            state: SubjobState::Unknown,
            addresses: Addresses::new(),
            next: now,
            pause: AGAIN.0,
            unheard: 0,
        }
    }

    pub(super) fn is_of(&self, group: usize) -> bool {
        self.group == group
    }

    /// What has gone wrong with it, if something has.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = |exit: &Exit| *exit != Exit::Code(0);
        let server = &self.server.name;
        if let SubjobState::Runs { ended } | SubjobState::Over { ended, .. } = &self.state
            && let Some((task, exit)) = ended.iter().find(|(_, exit)| failed(exit))
        {
            return Some(format!("task `{task}` at {server}: {exit}"));
        }
        match &self.state {
            SubjobState::Over { exit, .. } if failed(exit) => Some(format!("the subjob at {server}: {exit}")),
            SubjobState::Over { .. } => None,
            _ if self.unheard >= UNHEARD_MOST => {
                Some(format!("the subjob at {server}: nothing is heard of it"))
            }
            _ => None,
        }
    }

    /// It has something new to hear: at once.
    pub(super) fn call_at(&mut self, now: Time) {
        (self.next, self.pause) = (now, AGAIN.0);
    }

    /// The call that is due, or a pause without a word.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        if self.state.is_over() || self.next > now {
            return false;
        }
        self.next = now + self.pause;
        self.pause = Span((self.pause.0 * 2).min(AGAIN.1.0));
        self.unheard += 1;
        true
    }
}

impl Launch {
    pub(super) fn new(now: Time, wanted: LaunchSpec) -> Launch {
        let tasks = (0..wanted.application.tasks.len() as u32).collect();
        let LaunchSpec {
            owner,
            name,
            application,
            walltime,
            timeout,
            user_lan,
            threshold,
            mapping,
            dry_run,
            ..
        } = wanted;
        Launch {
            owner,
            name,
            application,
            walltime,
            timeout,
            user_lan,
            threshold,
            mapping,
            dry_run,
            submitted: now,
            groups: vec![Group::new(now, tasks, None)],
            places: BTreeMap::new(),
            subjobs: Vec::new(),
            end: None,
            over: None,
        }
    }

    /// Whether that is the application that was launched, whatever was spawned into it since.
    pub(super) fn is_of(&self, application: &Application) -> bool {
        let Application { mcr_mflops, bandwidth_mbps, tasks, edges } = &self.application;
        let launched = self.groups[0].tasks.len();
        let is_launched = |talk: &&TaskEdge| talk.between.iter().all(|end| (*end as usize) < launched);
        (*mcr_mflops, *bandwidth_mbps) == (application.mcr_mflops, application.bandwidth_mbps)
            && tasks[..launched] == application.tasks
            && edges.iter().filter(is_launched).eq(&application.edges)
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        if self.over.is_some() {
            return None;
        }
        let groups = self.groups.iter().filter_map(|group| match group.stage {
            Stage::Mapping { until, again } => Some(until.min(again)),
            Stage::Reserving { until } => Some(until),
            Stage::Decided | Stage::GivenUp(_) => None,
        });
        let subjobs = self.subjobs.iter().filter(|subjob| !subjob.state.is_over());
        subjobs.map(|subjob| subjob.next).chain(groups).min()
    }

    /// It ends so, unless that was decided before. Every server has to hear of that.
    pub(super) fn finish(&mut self, now: Time, end: End) {
        if self.end.is_none() {
            self.end = Some(end);
            self.subjobs.iter_mut().for_each(|subjob| subjob.call_at(now));
        }
    }

    /// The group of a task; none if it is none of the launch.
    fn group_of(&self, task: u32) -> Option<usize> {
        self.groups.iter().position(|group| group.tasks.binary_search(&task).is_ok())
    }

    /// Whether a task is one of a group that found no place.
    pub(super) fn is_given_up(&self, task: u32) -> bool {
        let group = self.group_of(task);
        group.is_some_and(|group| matches!(self.groups[group].stage, Stage::GivenUp(_)))
    }

    /// Whether it is decided that a task runs.
    pub(super) fn runs(&self, task: u32) -> bool {
        self.group_of(task).is_some_and(|group| self.groups[group].stage == Stage::Decided)
    }

    /// What is to become of a subjob.
    pub(super) fn decision(&self, subjob: &SubjobRecord) -> SubjobDecision {
        match &self.groups[subjob.group].stage {
            _ if self.end.is_some() => SubjobDecision::End,
            Stage::GivenUp(_) => SubjobDecision::End,
            Stage::Decided => SubjobDecision::Commit { peers: self.peers(subjob) },
            Stage::Mapping { .. } | Stage::Reserving { .. } => SubjobDecision::Undecided,
        }
    }

    /// Where those listen that the tasks of a subjob talk to.
    fn peers(&self, subjob: &SubjobRecord) -> Addresses {
        let wanted = subjob.subjob.tasks.iter().flat_map(|task| &task.neighbours);
        // A task that found no place may have been held elsewhere under that name.
        let there = |other: &&SubjobRecord| !matches!(self.groups[other.group].stage, Stage::GivenUp(_));
        let known = |name: &String| {
            let mut subjobs = self.subjobs.iter().filter(there);
            let address = subjobs.find_map(|other| other.addresses.get(name))?;
            Some((name.clone(), address.clone()))
        };
        wanted.filter_map(known).collect()
    }

    /// What its server has to be asked, if something.
    pub(super) fn call(&self, subjob: &SubjobRecord) -> Option<Call> {
        match self.decision(subjob) {
            SubjobDecision::End if !subjob.state.is_over() => Some(Call::Decide(SubjobDecision::End)),
            decision @ SubjobDecision::Commit { .. }
                if subjob.state.rank() < SubjobState::Committed.rank() =>
            {
                Some(Call::Decide(decision))
            }
            SubjobDecision::Undecided if subjob.state == SubjobState::Unknown => {
                Some(Call::Prepare(Box::new(subjob.subjob.clone())))
            }
            _ => None,
        }
    }

    /// Takes in how a subjob stands; false if that is old or somebody else's.
    pub(super) fn hear(&mut self, now: Time, from: &Name, number: u32, state: SubjobState) -> bool {
        let Some(subjob) = self.subjobs.get_mut(number as usize).filter(|subjob| subjob.server.name == *from)
        else {
            return false;
        };
        subjob.unheard = 0;
        // A server forgets no subjob that is not over, unless it has lost its journal.
        let state = match (&subjob.state, state) {
            (SubjobState::Unknown, SubjobState::Unknown) => return false,
            (SubjobState::Over { .. }, _) => return false,
            (_, SubjobState::Unknown) => {
                let exit = Exit::Lost("its server does not know it any more".to_owned());
                SubjobState::Over { ended: BTreeMap::new(), exit }
            }
            (_, state) => state,
        };
        if state.rank() <= subjob.state.rank() {
            return false;
        }
        if let SubjobState::Prepared { addresses } = &state {
            subjob.addresses.clone_from(addresses);
        }
        subjob.state = state;
        subjob.call_at(now + AGAIN.1);
        true
    }

    pub(super) fn record(&self, id: LaunchId) -> LaunchRecord {
        let state = match (&self.end, &self.groups[0].stage) {
            _ if self.over.is_some() => LaunchState::Over,
            (Some(_), _) | (None, Stage::GivenUp(_)) => LaunchState::Ending,
            (None, Stage::Mapping { .. }) => LaunchState::Mapping,
            (None, Stage::Reserving { .. }) => LaunchState::Reserving,
            (None, Stage::Decided) => LaunchState::Running,
        };
        let waits_for = |subjob: &&SubjobRecord| !subjob.state.is_over() && self.call(subjob).is_some();
        LaunchRecord {
            id,
            owner: self.owner.clone(),
            name: self.name.clone(),
            submitted: self.submitted,
            state,
            end: self.end.clone(),
            tasks: self.named().map(|task| self.task(task)).collect(),
            unacknowledged: self
                .subjobs
                .iter()
                .filter(waits_for)
                .map(|subjob| subjob.server.name.clone())
                .collect(),
        }
    }

    /// The tasks, but for those that found no place and whose names others have taken since.
    fn named(&self) -> impl Iterator<Item = u32> {
        let all = &self.application.tasks;
        let is_taken = |task: u32| {
            let (name, later) = (&all[task as usize].name, &all[task as usize + 1..]);
            later.iter().any(|later| later.name == *name)
        };
        (0..all.len() as u32).filter(move |task| !self.is_given_up(*task) || !is_taken(*task))
    }

    fn task(&self, task: u32) -> TaskRecord {
        let name = &self.application.tasks[task as usize].name;
        let group = self.group_of(task);
        let mut of_group = self.subjobs.iter().filter(|subjob| Some(subjob.group) == group);
        let subjob = of_group.find(|subjob| subjob.subjob.tasks.iter().any(|one| one.name == *name));
        let exit = subjob.and_then(|subjob| match &subjob.state {
            SubjobState::Runs { ended } => ended.get(name).cloned(),
            SubjobState::Over { ended, exit } => Some(ended.get(name).unwrap_or(exit).clone()),
            _ => None,
        });
        let spawned = group.map(|group| &self.groups[group]).filter(|group| group.spawn.is_some());
        let not_spawned = spawned.and_then(|group| match &group.stage {
            Stage::GivenUp(why) => Some(why.clone()),
            _ => None,
        });
        let place = self.places.get(&task);
        TaskRecord {
            name: name.clone(),
            place: place.map(|place| (place.server.clone(), place.machine.clone())),
            affinity: place.map(|place| place.affinity),
            address: subjob.and_then(|subjob| subjob.addresses.get(name).cloned()),
            exit,
            not_spawned,
        }
    }
}
