//! Parts of launches: the server's half of a co-allocation (see [`crate::coallocation`]).
//!
//! A part is one tentative job of the batch system. Its turn gives it its processors, the driver finds out where its tasks
//! are to listen, and from then on it is held until its coordinator has decided.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{JobId, Span, Speed, Speedup, Time};
use pliant_policy::batch::Submission;
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Server, Token};
use crate::batch::{News, Run};
use crate::coallocation::{Addresses, Part, PartId, Standing, Verdict};
use crate::handoff::Peer;
use crate::job::{Exit, Work};
use crate::names::Key;

/// The pause before a coordinator is told again how a part stands, at first and at most: doubled each time.
const TELL_AGAIN: (Span, Span) = (Span(4), Span(64));
/// How long a part that is over is remembered, so that a preparation that comes late does not take it in again: longer
/// than a message may be on its way, or a coordinator that repeats itself may be away.
const KEPT_AFTER_END: Span = Span(7 * 86_400);

/// What changes parts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartEvent {
    /// A coordinator asks that a part be taken in.
    Prepare {
        /// Whom to answer.
        reply: Token,
        /// The part.
        part: Box<Part>,
    },
    /// A coordinator says what is to become of a part.
    Decided {
        /// Whom to answer; none if this is an answer itself.
        reply: Option<Token>,
        /// The part.
        id: PartId,
        /// What it said.
        verdict: Verdict,
        /// It knows that nothing of the part is left.
        heard: bool,
    },
    /// The part has its processors, and that is where its tasks will listen; or why they cannot.
    Located {
        /// The part.
        id: PartId,
        /// Where each does.
        addresses: Result<Addresses, String>,
    },
    /// A task of a part that runs has ended.
    TaskEnded {
        /// The part.
        id: PartId,
        /// The task.
        task: String,
        /// How.
        exit: Exit,
    },
}

/// What is to be done for parts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartCommand {
    /// Find out where the tasks of a part, which has its processors now, are to listen. Asked again if nothing is told.
    Locate {
        /// The part.
        id: PartId,
    },
    /// Tell a coordinator how a part stands, and be told what is to become of it. Told again if it does not answer.
    Tell {
        /// The coordinator.
        to: Peer,
        /// The part.
        id: PartId,
        /// How it stands.
        standing: Standing,
    },
}

/// The parts of a server.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Parts {
    /// Those that are not over, or whose coordinator has not heard that they are.
    here: Vec<Taken>,
    /// Those that are over, by when.
    past: VecDeque<(Time, PartId, Standing)>,
}

/// A part that was taken in.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Taken {
    part: Part,
    /// Its number in the batch system.
    number: u32,
    standing: Standing,
    /// It has its processors.
    has_turn: bool,
    /// Where its tasks listen, once that is known.
    #[serde(default)]
    listens: Addresses,
    /// Where those listen that its tasks talk to.
    peers: Addresses,
    /// How it runs, once it does.
    run: Option<Run>,
    /// It was decided that it ends.
    ending: bool,
    /// Why it ends, if that was found here.
    why: Option<Exit>,
    tell_at: Time,
    pause: Span,
}

impl Parts {
    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.past.is_empty()
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        let forget = self.past.front().map(|(at, ..)| *at + KEPT_AFTER_END);
        self.here.iter().map(|taken| taken.tell_at).chain(forget).min()
    }

    /// The job of that number runs so.
    pub(super) fn runs(&mut self, run: &Run) {
        if let Some(taken) = self.here.iter_mut().find(|taken| taken.number == run.job.0) {
            taken.run = Some(run.clone());
        }
    }

    fn of(&mut self, id: &PartId) -> Option<&mut Taken> {
        self.here.iter_mut().find(|taken| taken.part.id == *id)
    }

    fn standing(&self, id: &PartId) -> Standing {
        let here = self.here.iter().find(|taken| taken.part.id == *id).map(|taken| &taken.standing);
        let past = || self.past.iter().find(|(_, past, _)| past == id).map(|(.., standing)| standing);
        here.or_else(past).cloned().unwrap_or(Standing::Unknown)
    }

    fn remember(&mut self, now: Time, id: PartId, standing: Standing) {
        self.past.push_back((now, id, standing));
    }
}

impl Taken {
    /// It is further than it was: its coordinator is told at once, which is when that is due.
    fn is_now(&mut self, now: Time, standing: Standing) {
        self.standing = standing;
        (self.tell_at, self.pause) = (now, TELL_AGAIN.0);
    }

    /// A task of it has ended: so it runs, even if its batch system has not said so yet.
    fn task_ended(&mut self, now: Time, task: String, exit: Exit) {
        let mut ended = match &self.standing {
            Standing::Runs { ended } if !ended.contains_key(&task) => ended.clone(),
            Standing::Committed => BTreeMap::new(),
            _ => return,
        };
        ended.insert(task, exit);
        self.is_now(now, Standing::Runs { ended });
    }

    fn is_over(&mut self, now: Time, exit: Exit) {
        let ended = match &self.standing {
            Standing::Runs { ended } => ended.clone(),
            _ => BTreeMap::new(),
        };
        let exit = self.why.take().unwrap_or(exit);
        self.is_now(now, Standing::Over { ended, exit });
    }
}

impl Server {
    /// Something about a part.
    pub(super) fn on_part(&mut self, now: Time, event: PartEvent, commands: &mut Vec<Command>) {
        match event {
            PartEvent::Prepare { reply, part } => {
                let id = part.id.clone();
                self.take_in(now, *part, commands);
                self.answer_part(reply, &id, commands);
            }
            PartEvent::Decided { reply, id, verdict, heard } => {
                self.part_decided(now, &id, verdict, commands);
                if heard {
                    self.part_heard(now, &id);
                }
                if let Some(reply) = reply {
                    self.answer_part(reply, &id, commands);
                }
            }
            PartEvent::Located { id, addresses } => self.located(now, &id, addresses, commands),
            PartEvent::TaskEnded { id, task, exit } => {
                if let Some(taken) = self.parts.of(&id) {
                    taken.task_ended(now, task, exit);
                }
            }
        }
    }

    fn answer_part(&self, to: Token, id: &PartId, commands: &mut Vec<Command>) {
        commands.push(Command::Reply { to, answer: Answer::Part(self.parts.standing(id)) });
    }

    /// Queues a part, unless it was before. One that cannot be held in time is over at once.
    fn take_in(&mut self, now: Time, part: Part, commands: &mut Vec<Command>) {
        if self.parts.standing(&part.id) != Standing::Unknown {
            return;
        }
        if let Err(why) = self.may_take_in(now, &part) {
            let exit = Exit::NotStarted(why);
            return self.parts.remember(now, part.id, Standing::Over { ended: BTreeMap::new(), exit });
        }
        let number = self.next;
        self.next += 1;
        // What it is held counts for its batch system.
        let walltime = Span(part.walltime.0.saturating_add(part.patience.0));
        let submission = Submission { job: JobId(number), procs: part.procs, walltime };
        self.parts.here.push(Taken {
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
        });
        self.with_batch(now, commands, |batch, effects| batch.submit_tentatively(now, submission, effects));
    }

    /// Whether a part would be held in time, by what is known now.
    fn may_take_in(&mut self, now: Time, part: &Part) -> Result<(), String> {
        if let Some(why) = self.closed_to_others() {
            return Err(why);
        }
        let walltime = Span(part.walltime.0.saturating_add(part.patience.0));
        let work = Work { procs: part.procs, walltime, speedup: Speedup::Rigid };
        // The walltime of tasks is for all clusters the same.
        let estimate =
            self.estimate_at(now, &work, Speed::REFERENCE).map_err(|refused| refused.to_string())?;
        match estimate.start {
            start if start > now + part.patience => Err(format!(
                "its {} processors are free in {} s, and all parts are to be held within {} s",
                part.procs,
                start.0 - now.0,
                part.patience.0
            )),
            _ => Ok(()),
        }
    }

    fn part_decided(&mut self, now: Time, id: &PartId, verdict: Verdict, commands: &mut Vec<Command>) {
        let Some(taken) = self.parts.of(id) else {
            // A preparation that is still on its way is to find that it is over.
            if verdict == Verdict::End && self.parts.standing(id) == Standing::Unknown {
                let over = Standing::Over { ended: BTreeMap::new(), exit: Exit::Cancelled };
                self.parts.remember(now, id.clone(), over);
            }
            return;
        };
        let job = JobId(taken.number);
        match (verdict, &taken.standing) {
            (Verdict::Commit { peers }, Standing::Held { .. }) if !taken.ending => {
                taken.peers = peers;
                taken.is_now(now, Standing::Committed);
                self.with_batch(now, commands, |batch, effects| batch.release(now, job, effects));
            }
            (Verdict::End, standing) if !standing.is_over() && !taken.ending => {
                taken.ending = true;
                self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
            }
            _ => {}
        }
    }

    /// The coordinator of a part that is over knows that.
    fn part_heard(&mut self, now: Time, id: &PartId) {
        let is_it = |taken: &Taken| taken.part.id == *id && taken.standing.is_over();
        if let Some(place) = self.parts.here.iter().position(is_it) {
            let taken = self.parts.here.remove(place);
            self.parts.remember(now, taken.part.id, taken.standing);
        }
    }

    fn located(
        &mut self,
        now: Time,
        id: &PartId,
        addresses: Result<Addresses, String>,
        commands: &mut Vec<Command>,
    ) {
        let waits =
            |taken: &&mut Taken| taken.has_turn && !taken.ending && taken.standing == Standing::Queued;
        let Some(taken) = self.parts.of(id).filter(waits) else { return };
        match addresses {
            Ok(addresses) => {
                taken.listens.clone_from(&addresses);
                taken.is_now(now, Standing::Held { addresses });
            }
            Err(why) => {
                taken.ending = true;
                taken.why = Some(Exit::NotStarted(why));
                let job = JobId(taken.number);
                self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
            }
        }
    }

    /// News of the batch system about a part; false if they are about something else.
    pub(super) fn part_news(&mut self, now: Time, news: &News, commands: &mut Vec<Command>) -> bool {
        let (News::Started { job, .. }
        | News::Held { job }
        | News::Turn { job }
        | News::Missed { job }
        | News::Withdrawn { job }
        | News::Stays { job }
        | News::Ended { job, .. }) = news
        else {
            return false;
        };
        let Some(taken) = self.parts.here.iter_mut().find(|taken| taken.number == job.0) else {
            return false;
        };
        match news {
            News::Turn { .. } if !taken.ending => {
                taken.has_turn = true;
                (taken.tell_at, taken.pause) = (now + TELL_AGAIN.0, TELL_AGAIN.0);
                commands.push(Command::Part(PartCommand::Locate { id: taken.part.id.clone() }));
            }
            News::Started { .. }
                if !matches!(taken.standing, Standing::Runs { .. } | Standing::Over { .. }) =>
            {
                taken.is_now(now, Standing::Runs { ended: BTreeMap::new() });
            }
            News::Missed { .. } if !taken.standing.is_over() => {
                taken.is_over(now, Exit::Lost("it had lost its processors before it was to run".to_owned()));
            }
            News::Ended { exit, .. } if !taken.standing.is_over() => taken.is_over(now, exit.clone()),
            _ => {}
        }
        true
    }

    /// Tells coordinators again how parts stand.
    pub(super) fn tell_of_parts(&mut self, now: Time, commands: &mut Vec<Command>) {
        for taken in self.parts.here.iter_mut().filter(|taken| taken.tell_at <= now) {
            taken.tell_at = now + taken.pause;
            taken.pause = Span((taken.pause.0 * 2).min(TELL_AGAIN.1.0));
            let Taken { part: Part { id, coordinator: to, .. }, standing, .. } = taken;
            if taken.has_turn && !taken.ending && *standing == Standing::Queued {
                commands.push(Command::Part(PartCommand::Locate { id: id.clone() }));
            }
            let (to, id, standing) = (to.clone(), id.clone(), standing.clone());
            commands.push(Command::Part(PartCommand::Tell { to, id, standing }));
        }
        while let Some((at, ..)) = self.parts.past.front()
            && *at + KEPT_AFTER_END <= now
        {
            self.parts.past.pop_front();
        }
    }

    /// The part that has this number in the batch system, and where those listen that its tasks talk to.
    pub fn part(&self, number: u32) -> Option<(&Part, &Addresses)> {
        let taken = self.parts.here.iter().find(|taken| taken.number == number)?;
        Some((&taken.part, &taken.peers))
    }

    /// Where the tasks of a part listen, once it has its processors.
    pub fn part_listens(&self, number: u32) -> Option<&Addresses> {
        let taken = self.parts.here.iter().find(|taken| taken.number == number)?;
        Some(&taken.listens)
    }

    /// The parts here that are not over, with their numbers in the batch system and how they stand.
    pub fn parts(&self) -> impl Iterator<Item = (&Part, u32, &Standing)> {
        let left = self.parts.here.iter().filter(|taken| !taken.standing.is_over());
        left.map(|taken| (&taken.part, taken.number, &taken.standing))
    }

    /// Whether a part is here: one that is over, and whose coordinator knows, is not any more.
    pub fn has_part(&self, id: &PartId) -> bool {
        self.parts.here.iter().any(|taken| taken.part.id == *id)
    }

    /// Whether a part that may run yet belongs to the launch of that key.
    pub(super) fn has_part_of(&self, key: &Key) -> bool {
        let mut left = self.parts.here.iter().filter(|taken| !taken.standing.is_over());
        left.any(|taken| taken.part.id.launch.key == *key)
    }

    /// How a part stands here.
    pub fn part_standing(&self, id: &PartId) -> Standing {
        self.parts.standing(id)
    }

    /// The parts that run, how, and whether they were asked to end: what a restarted driver looks for outside.
    pub fn running_parts(&self) -> impl Iterator<Item = (&Part, &Run, bool)> {
        let left = self.parts.here.iter().filter(|taken| !taken.standing.is_over());
        left.filter_map(|taken| Some((&taken.part, taken.run.as_ref()?, taken.ending)))
    }

    /// How many parts the server has whose coordinators are to hear of them.
    pub fn untold_parts(&self) -> usize {
        self.parts.here.len()
    }
}
