//! A server's subjobs as data.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Procs, Span, Time};
use serde::{Deserialize, Serialize};

use super::{BEYOND_TIMEOUT, KEPT_AFTER_END, TELL_AGAIN};
use crate::batch::Run;
use crate::coallocation::{Addresses, Subjob, SubjobId, SubjobState};
use crate::job::Exit;
use crate::names::User;

/// What a subjob has of a server, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct ListedSubjob {
    /// The subjob, with the launch that it is of and the agent that decides about it.
    pub id: SubjobId,
    /// Whose it is.
    pub owner: User,
    /// What its launch is called.
    pub name: String,
    /// How many tasks it has.
    pub tasks: u32,
    /// Its processors.
    pub procs: Procs,
    /// How it stands.
    pub state: SubjobState,
    /// It is about to end.
    pub ending: bool,
    /// Since when it stands so.
    pub since: Time,
    /// When its agent has last said something of it.
    pub heard: Time,
}

/// The subjobs of a server.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub(in crate::server) struct Subjobs {
    /// Those that are not over, or whose coordinator has not heard that they are.
    pub(super) here: Vec<AcceptedSubjob>,
    /// Those that are over, by when.
    pub(super) past: VecDeque<(Time, SubjobId, SubjobState)>,
}

/// A subjob that was taken in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct AcceptedSubjob {
    pub(super) subjob: Subjob,
    /// Its number in the batch system.
    pub(super) number: u32,
    pub(super) state: SubjobState,
    /// It has its processors.
    pub(super) has_turn: bool,
    /// Where its tasks listen, once that is known.
    pub(super) listens: Addresses,
    /// Where those listen that its tasks talk to.
    pub(super) peers: Addresses,
    /// How it runs, once it does.
    pub(super) run: Option<Run>,
    /// It was decided that it ends.
    pub(super) ending: bool,
    /// Why it ends, if that was found here.
    pub(super) why: Option<Exit>,
    pub(super) tell_at: Time,
    pub(super) pause: Span,
    /// Since when it stands so.
    pub(super) since: Time,
    /// When its coordinator has last said something of it.
    pub(super) heard: Time,
}

impl Subjobs {
    pub(in crate::server) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.past.is_empty()
    }

    pub(in crate::server) fn next_due(&self) -> Option<Time> {
        let forget = self.past.front().map(|(at, ..)| *at + KEPT_AFTER_END);
        let late = self.here.iter().filter_map(AcceptedSubjob::held_by);
        self.here.iter().map(|taken| taken.tell_at).chain(late).chain(forget).min()
    }

    /// The job of that number runs so.
    pub(in crate::server) fn runs(&mut self, run: &Run) {
        if let Some(taken) = self.here.iter_mut().find(|taken| taken.number == run.job.0) {
            taken.run = Some(run.clone());
        }
    }

    pub(super) fn of(&mut self, id: &SubjobId) -> Option<&mut AcceptedSubjob> {
        self.here.iter_mut().find(|taken| taken.subjob.id == *id)
    }

    pub(super) fn state(&self, id: &SubjobId) -> SubjobState {
        let here = self.here.iter().find(|taken| taken.subjob.id == *id).map(|taken| &taken.state);
        let past = || self.past.iter().find(|(_, past, _)| past == id).map(|(.., state)| state);
        here.or_else(past).cloned().unwrap_or(SubjobState::Unknown)
    }

    pub(super) fn remember(&mut self, now: Time, id: SubjobId, state: SubjobState) {
        self.past.push_back((now, id, state));
    }

    /// Those that were to be held by now and are not.
    pub(super) fn late(&self, now: Time) -> impl Iterator<Item = &AcceptedSubjob> {
        self.here.iter().filter(move |taken| taken.held_by().is_some_and(|by| by <= now))
    }

    /// Goes on without those that are over and whose coordinators have not heard of that for long: they hold nothing.
    pub(super) fn forget_unheard(&mut self, now: Time) {
        let is_old =
            |taken: &mut AcceptedSubjob| taken.state.is_over() && taken.since + KEPT_AFTER_END <= now;
        let old: Vec<AcceptedSubjob> = self.here.extract_if(.., is_old).collect();
        for taken in old {
            self.remember(now, taken.subjob.id, taken.state);
        }
    }
}

impl AcceptedSubjob {
    /// One that was just taken in.
    pub(super) fn new(now: Time, subjob: Subjob, number: u32) -> AcceptedSubjob {
        AcceptedSubjob {
            subjob,
            number,
            state: SubjobState::Queued,
            has_turn: false,
            listens: Addresses::new(),
            peers: Addresses::new(),
            run: None,
            ending: false,
            why: None,
            tell_at: now + TELL_AGAIN.0,
            pause: TELL_AGAIN.0,
            since: now,
            heard: now,
        }
    }

    /// By when it is to be held, if it is not: until then its server has promised nothing.
    fn held_by(&self) -> Option<Time> {
        let waits = self.state == SubjobState::Queued && !self.ending;
        waits.then(|| self.since + self.subjob.timeout + BEYOND_TIMEOUT)
    }

    /// The same for people.
    pub(super) fn described(&self) -> ListedSubjob {
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
            heard: self.heard,
        }
    }

    /// It is further than it was: its coordinator is told at once, which is when that is due.
    pub(super) fn is_now(&mut self, now: Time, state: SubjobState) {
        if self.state.word() != state.word() {
            self.since = now;
        }
        self.state = state;
        (self.tell_at, self.pause) = (now, TELL_AGAIN.0);
    }

    /// A task of it has ended: so it runs, even if its batch system has not said so yet.
    pub(super) fn task_ended(&mut self, now: Time, task: String, exit: Exit) {
        let mut ended = match &self.state {
            SubjobState::Runs { ended } if !ended.contains_key(&task) => ended.clone(),
            SubjobState::Committed => BTreeMap::new(),
            _ => return,
        };
        ended.insert(task, exit);
        self.is_now(now, SubjobState::Runs { ended });
    }

    pub(super) fn is_over(&mut self, now: Time, exit: Exit) {
        let ended = match &self.state {
            SubjobState::Runs { ended } => ended.clone(),
            _ => BTreeMap::new(),
        };
        let exit = self.why.take().unwrap_or(exit);
        self.is_now(now, SubjobState::Over { ended, exit });
    }
}
