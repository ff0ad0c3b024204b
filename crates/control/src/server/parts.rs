//! Parts of launches: the server's half of a co-allocation (see [`crate::coallocation`]).
//!
//! A part is one tentative job of the batch system. Its turn gives it its processors, the driver finds out where its tasks
//! are to listen, and from then on it is held until its coordinator has decided, or an operator of the server ends it. That
//! a part is held is its server's vote, which only then binds it: one that has not come so far when its launch has lost
//! timeout is ended here, whether its coordinator is there or not.

mod taken;

use std::collections::BTreeMap;

use pliant_model::{JobId, Span, Speed, Speedup, Time};
use pliant_policy::batch::Submission;
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Server};
use crate::batch::{News, Run};
use crate::coallocation::{Addresses, Part, PartId, Standing, Verdict};
use crate::handoff::Peer;
use crate::job::{Exit, Work};
use crate::names::Token;
use crate::names::{Key, User};

pub use taken::HeldPart;
pub(super) use taken::Parts;
use taken::Taken;

/// The pause before a coordinator is told again how a part stands, at first and at most: doubled each time.
const TELL_AGAIN: (Span, Span) = (Span(4), Span(64));
/// How long a part that is over is remembered, so that a preparation that comes late does not take it in again: longer
/// than a message may be on its way, or a coordinator that repeats itself may be away.
const KEPT_AFTER_END: Span = Span(7 * 86_400);
/// How much longer than its launch's timeout a subjob may be on its way to being held. Its coordinator has given it up by
/// then, however long the preparation was on its way.
const BEYOND_TIMEOUT: Span = Span(64);

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
    /// An operator of the server ends a part.
    GivenUp {
        /// Whom to answer.
        reply: Token,
        /// The part.
        id: PartId,
        /// Who.
        by: User,
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

impl Server {
    /// Something about a part.
    pub(super) fn on_part(&mut self, now: Time, event: PartEvent, commands: &mut Vec<Command>) {
        match event {
            PartEvent::Prepare { reply, part } => {
                let id = part.id.clone();
                self.take_in(now, *part, commands);
                self.answer_part(reply, &id, commands);
            }
            PartEvent::GivenUp { reply, id, by } => {
                let why = format!("operator {by} of its server ended it");
                self.end_part(now, &id, Some(why), commands);
                self.answer_part(reply, &id, commands);
            }
            PartEvent::Decided { reply, id, verdict, heard } => {
                if let Some(taken) = self.parts.of(&id) {
                    taken.heard = now;
                }
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
        let walltime = Span(part.walltime.0.saturating_add(part.timeout.0));
        let submission = Submission {
            job: JobId(number),
            procs: part.procs,
            walltime,
            submit: now,
            owner: part.owner.owner(),
        };
        self.parts.here.push(Taken::new(now, part, number));
        self.with_batch(now, commands, |batch, effects| batch.submit_tentatively(now, submission, effects));
    }

    /// Whether a part would be held in time, by what is known now.
    fn may_take_in(&mut self, now: Time, part: &Part) -> Result<(), String> {
        if let Some(why) = self.closed_to_others() {
            return Err(why);
        }
        let walltime = Span(part.walltime.0.saturating_add(part.timeout.0));
        let work = Work { procs: part.procs, walltime, speedup: Speedup::Rigid };
        let request = work.request(JobId(self.next), now).owned_by(part.owner.owner());
        // The walltime of tasks is for all clusters the same.
        let estimate =
            self.estimate_at(now, &request, Speed::REFERENCE).map_err(|refused| refused.to_string())?;
        match estimate.start {
            start if start > now + part.timeout => Err(format!(
                "its {} processors are free in {} s, and all parts are to be held within {} s",
                part.procs,
                start.0 - now.0,
                part.timeout.0
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
        match verdict {
            Verdict::Commit { peers } if matches!(taken.standing, Standing::Held { .. }) && !taken.ending => {
                let job = JobId(taken.number);
                taken.peers = peers;
                taken.is_now(now, Standing::Committed);
                self.with_batch(now, commands, |batch, effects| batch.release(now, job, effects));
            }
            Verdict::End => self.end_part(now, id, None, commands),
            Verdict::Commit { .. } | Verdict::Undecided => {}
        }
    }

    /// Ends a part, unless that is done. What is told of one that has not begun is why, if that was found here.
    fn end_part(&mut self, now: Time, id: &PartId, why: Option<String>, commands: &mut Vec<Command>) {
        let is_left = |taken: &&mut Taken| !taken.standing.is_over() && !taken.ending;
        let Some(taken) = self.parts.of(id).filter(is_left) else { return };
        taken.ending = true;
        if matches!(taken.standing, Standing::Queued | Standing::Held { .. }) {
            taken.why = why.map(Exit::NotStarted);
        }
        let job = JobId(taken.number);
        self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
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
            Err(why) => self.end_part(now, id, Some(why), commands),
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

    /// Tells coordinators again how parts stand, and ends those that were not held in time.
    pub(super) fn tell_of_parts(&mut self, now: Time, commands: &mut Vec<Command>) {
        let late: Vec<PartId> = self.parts.late(now).map(|taken| taken.part.id.clone()).collect();
        for id in late {
            let why = "it was not held for its launch's timeout".to_owned();
            self.end_part(now, &id, Some(why), commands);
        }
        self.parts.forget_unheard(now);
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

    /// The parts here that are not over, for people.
    pub fn held_parts(&self) -> impl Iterator<Item = HeldPart> {
        let left = self.parts.here.iter().filter(|taken| !taken.standing.is_over());
        left.map(Taken::described)
    }

    /// How many parts the server has whose coordinators are to hear of them.
    pub fn untold_parts(&self) -> usize {
        self.parts.here.len()
    }
}
