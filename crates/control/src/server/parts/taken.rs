//! A server's parts as data.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Procs, Span, Time};
use serde::{Deserialize, Serialize};

use super::{BEYOND_TIMEOUT, KEPT_AFTER_END, TELL_AGAIN};
use crate::batch::Run;
use crate::coallocation::{Addresses, Part, PartId, Standing};
use crate::job::Exit;
use crate::names::User;

/// What a part has of a server, for people.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldPart {
    /// The part, with the launch that it is of and the agent that decides about it.
    pub id: PartId,
    /// Whose it is.
    pub owner: User,
    /// What its launch is called.
    pub name: String,
    /// How many tasks it has.
    pub tasks: u32,
    /// Its processors.
    pub procs: Procs,
    /// How it stands.
    pub standing: Standing,
    /// It is about to end.
    pub ending: bool,
    /// Since when it stands so.
    pub since: Time,
    /// When its agent has last said something of it.
    pub heard: Time,
}

/// The parts of a server.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub(in crate::server) struct Parts {
    /// Those that are not over, or whose coordinator has not heard that they are.
    pub(super) here: Vec<Taken>,
    /// Those that are over, by when.
    pub(super) past: VecDeque<(Time, PartId, Standing)>,
}

/// A part that was taken in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    pub(super) part: Part,
    /// Its number in the batch system.
    pub(super) number: u32,
    pub(super) standing: Standing,
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

impl Parts {
    pub(in crate::server) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.past.is_empty()
    }

    pub(in crate::server) fn next_due(&self) -> Option<Time> {
        let forget = self.past.front().map(|(at, ..)| *at + KEPT_AFTER_END);
        let late = self.here.iter().filter_map(Taken::held_by);
        self.here.iter().map(|taken| taken.tell_at).chain(late).chain(forget).min()
    }

    /// The job of that number runs so.
    pub(in crate::server) fn runs(&mut self, run: &Run) {
        if let Some(taken) = self.here.iter_mut().find(|taken| taken.number == run.job.0) {
            taken.run = Some(run.clone());
        }
    }

    pub(super) fn of(&mut self, id: &PartId) -> Option<&mut Taken> {
        self.here.iter_mut().find(|taken| taken.part.id == *id)
    }

    pub(super) fn standing(&self, id: &PartId) -> Standing {
        let here = self.here.iter().find(|taken| taken.part.id == *id).map(|taken| &taken.standing);
        let past = || self.past.iter().find(|(_, past, _)| past == id).map(|(.., standing)| standing);
        here.or_else(past).cloned().unwrap_or(Standing::Unknown)
    }

    pub(super) fn remember(&mut self, now: Time, id: PartId, standing: Standing) {
        self.past.push_back((now, id, standing));
    }

    /// Those that were to be held by now and are not.
    pub(super) fn late(&self, now: Time) -> impl Iterator<Item = &Taken> {
        self.here.iter().filter(move |taken| taken.held_by().is_some_and(|by| by <= now))
    }

    /// Goes on without those that are over and whose coordinators have not heard of that for long: they hold nothing.
    pub(super) fn forget_unheard(&mut self, now: Time) {
        let is_old = |taken: &mut Taken| taken.standing.is_over() && taken.since + KEPT_AFTER_END <= now;
        let old: Vec<Taken> = self.here.extract_if(.., is_old).collect();
        for taken in old {
            self.remember(now, taken.part.id, taken.standing);
        }
    }
}

impl Taken {
    /// One that was just taken in.
    pub(super) fn new(now: Time, part: Part, number: u32) -> Taken {
        Taken {
            part,
            number,
            standing: Standing::Queued,
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
        let waits = self.standing == Standing::Queued && !self.ending;
        waits.then(|| self.since + self.part.timeout + BEYOND_TIMEOUT)
    }

    /// The same for people.
    pub(super) fn described(&self) -> HeldPart {
        let Part { id, owner, name, tasks, procs, .. } = &self.part;
        HeldPart {
            id: id.clone(),
            owner: owner.clone(),
            name: name.clone(),
            tasks: tasks.len() as u32,
            procs: *procs,
            standing: self.standing.clone(),
            ending: self.ending,
            since: self.since,
            heard: self.heard,
        }
    }

    /// It is further than it was: its coordinator is told at once, which is when that is due.
    pub(super) fn is_now(&mut self, now: Time, standing: Standing) {
        if self.standing.word() != standing.word() {
            self.since = now;
        }
        self.standing = standing;
        (self.tell_at, self.pause) = (now, TELL_AGAIN.0);
    }

    /// A task of it has ended: so it runs, even if its batch system has not said so yet.
    pub(super) fn task_ended(&mut self, now: Time, task: String, exit: Exit) {
        let mut ended = match &self.standing {
            Standing::Runs { ended } if !ended.contains_key(&task) => ended.clone(),
            Standing::Committed => BTreeMap::new(),
            _ => return,
        };
        ended.insert(task, exit);
        self.is_now(now, Standing::Runs { ended });
    }

    pub(super) fn is_over(&mut self, now: Time, exit: Exit) {
        let ended = match &self.standing {
            Standing::Runs { ended } => ended.clone(),
            _ => BTreeMap::new(),
        };
        let exit = self.why.take().unwrap_or(exit);
        self.is_now(now, Standing::Over { ended, exit });
    }
}
