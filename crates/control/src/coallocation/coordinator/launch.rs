//! The data of a launch: its groups, its subjobs, and what follows from their states.

use std::collections::BTreeMap;

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use super::{LIST_MACHINES, LaunchSpec, SubjobDecision, SubjobState};
use crate::coallocation::{
    Addresses, Application, Call, LaunchEnd, LaunchId, LaunchRecord, LaunchState, Mapping, OpenSubjob,
    Subjob, TaskEdge, TaskRecord,
};
use crate::handoff::Peer;
use crate::job::Exit;
use crate::names::{Key, Name, User};
use crate::payload::Payload;

/// The pause before a call is repeated, at first and at most; it doubles each time.
const RETRY_PAUSE: (Span, Span) = (Span(4), Span(64));
/// After so many pauses without an answer about a committed subjob, the subjob is lost. The limit counts pauses, because a
/// clock that jumps must end nothing.
const MISSED_ANSWERS_MAX: u32 = 10;

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
    /// The groups: first the application, then each spawn.
    pub(super) groups: Vec<Group>,
    /// The server and machine of each mapped task.
    pub(super) allocations: BTreeMap<u32, TaskAllocation>,
    pub(super) subjobs: Vec<SubjobRecord>,
    /// The end, once decided.
    pub(super) end: Option<LaunchEnd>,
    /// When the launch ended.
    pub(super) over: Option<Time>,
}

/// Tasks whose subjobs are committed together or not at all.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) state: GroupState,
    /// The positions of its tasks.
    pub(super) tasks: Vec<u32>,
    /// The key of the spawn, if the group was spawned.
    pub(super) spawn: Option<Key>,
    /// The user's signature for the tasks.
    #[serde(default)]
    pub(super) signed: Payload,
    /// When it was committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) decided: Option<Time>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum GroupState {
    /// The servers are asked for their machines.
    Mapping { until: Time, again: Time },
    /// The subjobs have to be prepared until then.
    Reserving { until: Time },
    /// The group was committed.
    Decided,
    /// The group does not run; the reason.
    GivenUp(String),
}

/// The server and machine of a task.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct TaskAllocation {
    pub(super) server: Name,
    pub(super) machine: String,
    pub(super) affinity: f64,
}

/// A subjob, as the coordinator knows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct SubjobRecord {
    pub(super) subjob: Subjob,
    pub(super) server: Peer,
    pub(super) group: usize,
    pub(super) state: SubjobState,
    pub(super) addresses: Addresses,
    /// When the server is called next, or counted as silent.
    next: Time,
    pause: Span,
    /// The number of pauses without an answer.
    missed_answers: u32,
}

impl Group {
    pub(super) fn new(now: Time, tasks: Vec<u32>, spawn: Option<Key>, signed: Payload) -> Group {
        let state = GroupState::Mapping { until: now + LIST_MACHINES.0, again: now + LIST_MACHINES.1 };
        Group { state, tasks, spawn, signed, decided: None }
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
            pause: RETRY_PAUSE.0,
            missed_answers: 0,
        }
    }

    pub(super) fn is_of(&self, group: usize) -> bool {
        self.group == group
    }

    /// The failure of the subjob, if it failed.
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
            _ if self.missed_answers >= MISSED_ANSWERS_MAX => {
                Some(format!("the subjob at {server}: its server does not answer"))
            }
            _ => None,
        }
    }

    /// Makes the next call due now.
    pub(super) fn call_at(&mut self, now: Time) {
        (self.next, self.pause) = (now, RETRY_PAUSE.0);
    }

    /// True if a call is due; counts a pause without an answer.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        if self.state.is_over() || self.next > now {
            return false;
        }
        self.next = now + self.pause;
        self.pause = Span((self.pause.0 * 2).min(RETRY_PAUSE.1.0));
        self.missed_answers += 1;
        true
    }
}

impl Launch {
    /// True if tasks were spawned with this key.
    pub(super) fn has_spawned(&self, key: Key) -> bool {
        self.groups.iter().any(|group| group.spawn == Some(key))
    }

    pub(super) fn new(now: Time, spec: LaunchSpec) -> Launch {
        let tasks = (0..spec.application.tasks.len() as u32).collect();
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
            signed,
            ..
        } = spec;
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
            groups: vec![Group::new(now, tasks, None, signed)],
            allocations: BTreeMap::new(),
            subjobs: Vec::new(),
            end: None,
            over: None,
        }
    }

    /// True if this is the launched application, without tasks that were spawned since.
    pub(super) fn is_of(&self, application: &Application) -> bool {
        let Application { mcr_mflops, bandwidth_mbps, tasks, edges } = &self.application;
        let launched = self.groups[0].tasks.len();
        let is_launched = |edge: &&TaskEdge| edge.between.iter().all(|end| (*end as usize) < launched);
        (*mcr_mflops, *bandwidth_mbps) == (application.mcr_mflops, application.bandwidth_mbps)
            && tasks[..launched] == application.tasks
            && edges.iter().filter(is_launched).eq(&application.edges)
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        if self.over.is_some() {
            return None;
        }
        let groups = self.groups.iter().filter_map(|group| match group.state {
            GroupState::Mapping { until, again } => Some(until.min(again)),
            GroupState::Reserving { until } => Some(until),
            GroupState::Decided | GroupState::GivenUp(_) => None,
        });
        let subjobs = self.subjobs.iter().filter(|subjob| !subjob.state.is_over());
        subjobs.map(|subjob| subjob.next).chain(groups).min()
    }

    /// Ends the launch, unless its end was decided before. Every server is notified.
    pub(super) fn finish(&mut self, now: Time, end: LaunchEnd) {
        if self.end.is_none() {
            self.end = Some(end);
            self.subjobs.iter_mut().for_each(|subjob| subjob.call_at(now));
        }
    }

    /// The group of a task; none if the launch has no such task.
    fn group_of(&self, task: u32) -> Option<usize> {
        self.groups.iter().position(|group| group.tasks.binary_search(&task).is_ok())
    }

    /// True if a task's group was given up.
    pub(super) fn is_given_up(&self, task: u32) -> bool {
        let group = self.group_of(task);
        group.is_some_and(|group| matches!(self.groups[group].state, GroupState::GivenUp(_)))
    }

    /// True if a task's group was committed.
    pub(super) fn runs(&self, task: u32) -> bool {
        self.group_of(task).is_some_and(|group| self.groups[group].state == GroupState::Decided)
    }

    /// The decision about a subjob.
    pub(super) fn decision(&self, subjob: &SubjobRecord) -> SubjobDecision {
        match &self.groups[subjob.group].state {
            _ if self.end.is_some() => SubjobDecision::End,
            GroupState::GivenUp(_) => SubjobDecision::End,
            GroupState::Decided => SubjobDecision::Commit { peers: self.peers(subjob) },
            GroupState::Mapping { .. } | GroupState::Reserving { .. } => SubjobDecision::Undecided,
        }
    }

    /// The addresses of the neighbours of a subjob's tasks.
    fn peers(&self, subjob: &SubjobRecord) -> Addresses {
        let neighbours = subjob.subjob.tasks.iter().flat_map(|task| &task.neighbours);
        // A group that was given up may have had a task of the same name.
        let is_kept =
            |other: &&SubjobRecord| !matches!(self.groups[other.group].state, GroupState::GivenUp(_));
        let known = |name: &String| {
            let mut subjobs = self.subjobs.iter().filter(is_kept);
            let address = subjobs.find_map(|other| other.addresses.get(name))?;
            Some((name.clone(), address.clone()))
        };
        neighbours.filter_map(known).collect()
    }

    /// The next call to the subjob's server, if one is needed.
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

    /// Records the state of a subjob; false if it is outdated or from another server.
    pub(super) fn record_state(&mut self, now: Time, from: &Name, number: u32, state: SubjobState) -> bool {
        let Some(subjob) = self.subjobs.get_mut(number as usize).filter(|subjob| subjob.server.name == *from)
        else {
            return false;
        };
        subjob.missed_answers = 0;
        // A server forgets a subjob that has not ended only if it has lost its journal.
        let state = match (&subjob.state, state) {
            (SubjobState::Unknown, SubjobState::Unknown) => return false,
            (SubjobState::Over { .. }, _) => return false,
            (_, SubjobState::Unknown) => {
                let exit = Exit::Lost("its server no longer knows it".to_owned());
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
        subjob.call_at(now + RETRY_PAUSE.1);
        true
    }

    pub(super) fn record(&self, id: LaunchId) -> LaunchRecord {
        let state = match (&self.end, &self.groups[0].state) {
            _ if self.over.is_some() => LaunchState::Over,
            (Some(_), _) | (None, GroupState::GivenUp(_)) => LaunchState::Ending,
            (None, GroupState::Mapping { .. }) => LaunchState::Mapping,
            (None, GroupState::Reserving { .. }) => LaunchState::Reserving,
            (None, GroupState::Decided) => LaunchState::Running,
        };
        let waits_for = |subjob: &&SubjobRecord| !subjob.state.is_over() && self.call(subjob).is_some();
        LaunchRecord {
            id,
            owner: self.owner.clone(),
            name: self.name.clone(),
            submitted: self.submitted,
            state,
            end: self.end.clone(),
            tasks: self.listed_tasks().map(|task| self.task(task)).collect(),
            unacknowledged: self
                .subjobs
                .iter()
                .filter(waits_for)
                .map(|subjob| subjob.server.name.clone())
                .collect(),
            open_subjobs: self.open_subjobs().collect(),
        }
    }

    /// The subjobs that have not ended. Those of a group that was given up or of a launch that ends are being ended.
    fn open_subjobs(&self) -> impl Iterator<Item = OpenSubjob> {
        let is_open = move |subjob: &&SubjobRecord| {
            let is_given_up = matches!(self.groups[subjob.group].state, GroupState::GivenUp(_));
            !subjob.state.is_over() && (!is_given_up || subjob.state != SubjobState::Unknown)
        };
        self.subjobs.iter().filter(is_open).map(move |subjob| {
            let group = &self.groups[subjob.group];
            // A journal of an earlier version has no time of the commit.
            let committed =
                (group.state == GroupState::Decided).then(|| group.decided.unwrap_or(self.submitted));
            let Subjob { procs, walltime, .. } = subjob.subjob;
            OpenSubjob { server: subjob.server.name.clone(), procs, walltime, committed }
        })
    }

    /// The tasks, without tasks that were not mapped and whose names are used again.
    fn listed_tasks(&self) -> impl Iterator<Item = u32> {
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
        let not_spawned = spawned.and_then(|group| match &group.state {
            GroupState::GivenUp(why) => Some(why.clone()),
            _ => None,
        });
        let allocation = self.allocations.get(&task);
        TaskRecord {
            name: name.clone(),
            allocation: allocation.map(|allocation| (allocation.server.clone(), allocation.machine.clone())),
            affinity: allocation.map(|allocation| allocation.affinity),
            address: subjob.and_then(|subjob| subjob.addresses.get(name).cloned()),
            exit,
            not_spawned,
        }
    }
}
