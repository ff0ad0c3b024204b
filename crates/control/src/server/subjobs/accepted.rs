//! The state of a server's subjobs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pliant_model::{Procs, Span, Time};
use serde::{Deserialize, Serialize};

use super::{KEPT_AFTER_END, PREPARE_GRACE, REPORT_RETRY};
use crate::batch::Run;
use crate::coallocation::{Addresses, Subjob, SubjobId, SubjobState};
use crate::job::Exit;
use crate::names::User;

/// The bytes of a host's name in DNS, and of a port.
const ADDRESS_BYTES_MAX: usize = 253 + 6;

/// A subjob as listed for users.
#[derive(Clone, PartialEq, Debug)]
pub struct ListedSubjob {
    /// The subjob's ID, with its launch and its coordinator.
    pub id: SubjobId,
    /// Its owner.
    pub owner: User,
    /// The name of its launch.
    pub name: String,
    /// Number of its tasks.
    pub tasks: u32,
    /// Its processors.
    pub procs: Procs,
    /// Its state.
    pub state: SubjobState,
    /// It is being ended.
    pub ending: bool,
    /// When it entered this state.
    pub since: Time,
    /// When its coordinator sent the last message about it.
    pub last_contact: Time,
}

/// The subjobs of a server.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub(in crate::server) struct Subjobs {
    /// Subjobs that have not ended, or whose end was not acknowledged.
    pub(super) current: Vec<AcceptedSubjob>,
    /// Ended subjobs in the order of their ends.
    pub(super) ended: VecDeque<(Time, SubjobId, SubjobState)>,
}

/// A subjob that the server has accepted.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct AcceptedSubjob {
    pub(super) subjob: Subjob,
    /// Its number in the batch system.
    pub(super) number: u32,
    pub(super) state: SubjobState,
    /// It has its processors.
    pub(super) has_processors: bool,
    /// The addresses of its tasks, once located.
    pub(super) task_addresses: Addresses,
    /// The addresses of the tasks that its tasks communicate with.
    pub(super) peers: Addresses,
    /// How it runs, once it does.
    pub(super) run: Option<Run>,
    /// It ran in the copy of the journal that was put back: it is looked for, and never started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) started_before: bool,
    /// Its end was decided.
    pub(super) ending: bool,
    /// Why it ends, if this server ended it.
    pub(super) end_reason: Option<Exit>,
    pub(super) report_at: Time,
    pub(super) pause: Span,
    /// When it entered this state.
    pub(super) since: Time,
    /// When its coordinator sent the last message about it.
    pub(super) last_contact: Time,
}

impl Subjobs {
    /// Marks what runs: an older copy of the journal was put back.
    pub(in crate::server) fn mark_started_before(&mut self) {
        for accepted in self.current.iter_mut().filter(|accepted| accepted.run.is_some()) {
            accepted.started_before = true;
        }
    }

    /// True if a subjob ran in the copy that was put back.
    pub(in crate::server) fn had_started(&self, number: u32) -> bool {
        self.current.iter().any(|accepted| accepted.number == number && accepted.started_before)
    }

    pub(in crate::server) fn is_empty(&self) -> bool {
        self.current.is_empty() && self.ended.is_empty()
    }

    pub(in crate::server) fn next_due(&self) -> Option<Time> {
        let forget = self.ended.front().map(|(at, ..)| *at + KEPT_AFTER_END);
        let late = self.current.iter().filter_map(AcceptedSubjob::prepare_deadline);
        self.current.iter().map(|accepted| accepted.report_at).chain(late).chain(forget).min()
    }

    /// Records how the job of that number runs.
    pub(in crate::server) fn runs(&mut self, run: &Run) {
        if let Some(accepted) = self.current.iter_mut().find(|accepted| accepted.number == run.job.0) {
            accepted.run = Some(run.clone());
        }
    }

    pub(super) fn of(&mut self, id: &SubjobId) -> Option<&mut AcceptedSubjob> {
        self.current.iter_mut().find(|accepted| accepted.subjob.id == *id)
    }

    pub(super) fn state(&self, id: &SubjobId) -> SubjobState {
        let current =
            self.current.iter().find(|accepted| accepted.subjob.id == *id).map(|accepted| &accepted.state);
        let ended = || self.ended.iter().find(|(_, ended, _)| ended == id).map(|(.., state)| state);
        current.or_else(ended).cloned().unwrap_or(SubjobState::Unknown)
    }

    pub(super) fn remember(&mut self, now: Time, id: SubjobId, state: SubjobState) {
        self.ended.push_back((now, id, state));
    }

    /// Subjobs that should be prepared by now and are not.
    pub(super) fn late(&self, now: Time) -> impl Iterator<Item = &AcceptedSubjob> {
        self.current.iter().filter(move |accepted| accepted.prepare_deadline().is_some_and(|by| by <= now))
    }

    /// Drops subjobs that ended long ago without an acknowledgement: they hold no resources.
    pub(super) fn forget_unacknowledged(&mut self, now: Time) {
        let is_old = |accepted: &mut AcceptedSubjob| {
            accepted.state.is_over() && accepted.since + KEPT_AFTER_END <= now
        };
        let old: Vec<AcceptedSubjob> = self.current.extract_if(.., is_old).collect();
        for accepted in old {
            self.remember(now, accepted.subjob.id, accepted.state);
        }
    }
}

impl AcceptedSubjob {
    /// A subjob that was just accepted.
    pub(super) fn new(now: Time, subjob: Subjob, number: u32) -> AcceptedSubjob {
        AcceptedSubjob {
            subjob,
            number,
            state: SubjobState::Queued,
            has_processors: false,
            task_addresses: Addresses::new(),
            peers: Addresses::new(),
            run: None,
            started_before: false,
            ending: false,
            end_reason: None,
            report_at: now + REPORT_RETRY.0,
            pause: REPORT_RETRY.0,
            since: now,
            last_contact: now,
        }
    }

    /// When the subjob must be prepared; none if it is. Until it is prepared, its server has promised nothing.
    fn prepare_deadline(&self) -> Option<Time> {
        let waits = self.state == SubjobState::Queued && !self.ending;
        waits.then(|| self.since + self.subjob.timeout + PREPARE_GRACE)
    }

    /// The subjob as listed for users.
    pub(super) fn listed(&self) -> ListedSubjob {
        let Subjob { id, owner, name, tasks, procs, .. } = &self.subjob;
        ListedSubjob {
            id: id.clone(),
            owner: owner.clone(),
            name: name.clone(),
            tasks: tasks.len() as u32,
            procs: *procs,
            state: self.state.clone(),
            ending: self.ending,
            since: self.since,
            last_contact: self.last_contact,
        }
    }

    /// Enters a state, which is reported to the coordinator at once.
    pub(super) fn enter(&mut self, now: Time, state: SubjobState) {
        if self.state.word() != state.word() {
            self.since = now;
        }
        self.state = state;
        (self.report_at, self.pause) = (now, REPORT_RETRY.0);
    }

    /// Whether these are addresses of its tasks, and of no others.
    pub(super) fn is_located_by(&self, addresses: &Addresses) -> bool {
        let own: BTreeSet<&String> = self.subjob.tasks.iter().map(|task| &task.name).collect();
        addresses.keys().collect::<BTreeSet<&String>>() == own
            && addresses.values().all(|address| address.len() <= ADDRESS_BYTES_MAX)
    }

    /// The tasks whose end is not known; none if the subjob does not run.
    pub(super) fn running_tasks(&self) -> Option<BTreeSet<String>> {
        let is_left = |task: &str| match &self.state {
            SubjobState::Runs { ended } => !ended.contains_key(task),
            _ => true,
        };
        let runs = matches!(self.state, SubjobState::Committed | SubjobState::Runs { .. });
        let names = self.subjob.tasks.iter().map(|task| &task.name);
        runs.then(|| names.filter(|name| is_left(name)).cloned().collect())
    }

    /// Records the end of a task. So the subjob runs, even if its batch system has not said so. A task that is not its own was
    /// reported by the job, which can write reports.
    pub(super) fn task_ended(&mut self, now: Time, task: String, exit: Exit) {
        if self.subjob.tasks.iter().all(|own| own.name != task) {
            return;
        }
        let mut ended = match &mut self.state {
            SubjobState::Runs { ended } if !ended.contains_key(&task) => std::mem::take(ended),
            SubjobState::Committed => BTreeMap::new(),
            _ => return,
        };
        ended.insert(task, exit);
        self.enter(now, SubjobState::Runs { ended });
    }

    pub(super) fn end(&mut self, now: Time, exit: Exit) {
        let ended = match &self.state {
            SubjobState::Runs { ended } => ended.clone(),
            _ => BTreeMap::new(),
        };
        let exit = self.end_reason.take().unwrap_or(exit);
        self.enter(now, SubjobState::Over { ended, exit });
    }
}
