//! Subjobs of launches: the server's half of a co-allocation (see [`crate::coallocation`]).
//!
//! A subjob is one tentative job of the batch system. Its turn gives it its processors, the driver finds out where its tasks
//! are to listen, and from then on it is held until its coordinator has decided, or an operator of the server ends it. That
//! a subjob is held is its server's vote, which only then binds it: one that has not come so far when its launch has lost
//! timeout is ended current, whether its coordinator is there or not.

mod accepted;

use std::collections::BTreeMap;

use pliant_model::{JobId, Span, Speed, Speedup, Time};
use pliant_policy::batch::Submission;
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Server};
use crate::batch::{Run, StatusUpdate};
use crate::coallocation::{Addresses, Subjob, SubjobDecision, SubjobId, SubjobState};
use crate::handoff::Peer;
use crate::job::{Exit, Work};
use crate::names::Token;
use crate::names::{Key, User};

use accepted::AcceptedSubjob;
pub use accepted::ListedSubjob;
pub(super) use accepted::Subjobs;

/// The pause before a coordinator is told again how a subjob stands, at first and at most: doubled each time.
const REPORT_RETRY: (Span, Span) = (Span(4), Span(64));
/// How long a subjob that is over is remembered, so that a preparation that comes late does not take it in again: longer
/// than a message may be on its way, or a coordinator that repeats itself may be away.
const KEPT_AFTER_END: Span = Span(7 * 86_400);
/// How much longer than its launch's timeout a subjob may be on its way to being held. Its coordinator has given it up by
/// then, however long the preparation was on its way.
const PREPARE_GRACE: Span = Span(64);

/// What changes subjobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjobEvent {
    /// A coordinator asks that a subjob be accepted in.
    Prepare {
        /// Whom to answer.
        reply: Token,
        /// The subjob.
        subjob: Box<Subjob>,
    },
    /// A coordinator says what is to become of a subjob.
    Decided {
        /// Whom to answer; none if this is an answer itself.
        reply: Option<Token>,
        /// The subjob.
        id: SubjobId,
        /// What it said.
        decision: SubjobDecision,
        /// It knows that nothing of the subjob is left.
        heard: bool,
    },
    /// An operator of the server ends a subjob.
    EndedByOperator {
        /// Whom to answer.
        reply: Token,
        /// The subjob.
        id: SubjobId,
        /// Who.
        by: User,
    },
    /// The subjob has its processors, and that is where its tasks will listen; or why they cannot.
    Located {
        /// The subjob.
        id: SubjobId,
        /// Where each does.
        addresses: Result<Addresses, String>,
    },
    /// A task of a subjob that runs has ended.
    TaskEnded {
        /// The subjob.
        id: SubjobId,
        /// The task.
        task: String,
        /// How.
        exit: Exit,
    },
}

/// What is to be done for subjobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjobCommand {
    /// Find out where the tasks of a subjob, which has its processors now, are to listen. Asked again if nothing is told.
    Locate {
        /// The subjob.
        id: SubjobId,
    },
    /// Tell a coordinator how a subjob stands, and be told what is to become of it. Told again if it does not answer.
    Report {
        /// The coordinator.
        to: Peer,
        /// The subjob.
        id: SubjobId,
        /// How it stands.
        state: SubjobState,
    },
}

impl Server {
    /// Something about a subjob.
    pub(super) fn on_subjob(&mut self, now: Time, event: SubjobEvent, commands: &mut Vec<Command>) {
        match event {
            SubjobEvent::Prepare { reply, subjob } => {
                let id = subjob.id.clone();
                self.accept_subjob(now, *subjob, commands);
                self.answer_subjob(reply, &id, commands);
            }
            SubjobEvent::EndedByOperator { reply, id, by } => {
                let why = format!("operator {by} of its server ended it");
                self.end_subjob(now, &id, Some(why), commands);
                self.answer_subjob(reply, &id, commands);
            }
            SubjobEvent::Decided { reply, id, decision, heard } => {
                if let Some(accepted) = self.subjobs.of(&id) {
                    accepted.heard = now;
                }
                self.subjob_decided(now, &id, decision, commands);
                if heard {
                    self.acknowledge_end(now, &id);
                }
                if let Some(reply) = reply {
                    self.answer_subjob(reply, &id, commands);
                }
            }
            SubjobEvent::Located { id, addresses } => self.located(now, &id, addresses, commands),
            SubjobEvent::TaskEnded { id, task, exit } => {
                if let Some(accepted) = self.subjobs.of(&id) {
                    accepted.task_ended(now, task, exit);
                }
            }
        }
    }

    fn answer_subjob(&self, to: Token, id: &SubjobId, commands: &mut Vec<Command>) {
        commands.push(Command::Reply { to, answer: Answer::Subjob(self.subjobs.state(id)) });
    }

    /// Queues a subjob, unless it was before. One that cannot be held in time is over at once.
    fn accept_subjob(&mut self, now: Time, subjob: Subjob, commands: &mut Vec<Command>) {
        if self.subjobs.state(&subjob.id) != SubjobState::Unknown {
            return;
        }
        if let Err(why) = self.check_subjob(now, &subjob) {
            let exit = Exit::NotStarted(why);
            return self.subjobs.remember(now, subjob.id, SubjobState::Over { ended: BTreeMap::new(), exit });
        }
        let number = self.next;
        self.next += 1;
        // What it is held counts for its batch system.
        let walltime = Span(subjob.walltime.0.saturating_add(subjob.timeout.0));
        let submission = Submission {
            job: JobId(number),
            procs: subjob.procs,
            walltime,
            submit: now,
            owner: subjob.owner.owner(),
        };
        self.subjobs.current.push(AcceptedSubjob::new(now, subjob, number));
        self.with_batch(now, commands, |batch, effects| batch.submit_tentatively(now, submission, effects));
    }

    /// Whether a subjob would be held in time, by what is known now.
    fn check_subjob(&mut self, now: Time, subjob: &Subjob) -> Result<(), String> {
        if let Some(why) = self.closed_to_others() {
            return Err(why);
        }
        let walltime = Span(subjob.walltime.0.saturating_add(subjob.timeout.0));
        let work = Work { procs: subjob.procs, walltime, speedup: Speedup::Rigid };
        let request = work.request(JobId(self.next), now).owned_by(subjob.owner.owner());
        // The walltime of tasks is for all clusters the same.
        let estimate =
            self.estimate_at(now, &request, Speed::REFERENCE).map_err(|refused| refused.to_string())?;
        match estimate.start {
            start if start > now + subjob.timeout => Err(format!(
                "its {} processors are free in {} s, and all subjobs are to be held within {} s",
                subjob.procs,
                start.0 - now.0,
                subjob.timeout.0
            )),
            _ => Ok(()),
        }
    }

    fn subjob_decided(
        &mut self,
        now: Time,
        id: &SubjobId,
        decision: SubjobDecision,
        commands: &mut Vec<Command>,
    ) {
        let Some(accepted) = self.subjobs.of(id) else {
            // A preparation that is still on its way is to find that it is over.
            if decision == SubjobDecision::End && self.subjobs.state(id) == SubjobState::Unknown {
                let over = SubjobState::Over { ended: BTreeMap::new(), exit: Exit::Cancelled };
                self.subjobs.remember(now, id.clone(), over);
            }
            return;
        };
        match decision {
            SubjobDecision::Commit { peers }
                if matches!(accepted.state, SubjobState::Held { .. }) && !accepted.ending =>
            {
                let job = JobId(accepted.number);
                accepted.peers = peers;
                accepted.enter(now, SubjobState::Committed);
                self.with_batch(now, commands, |batch, effects| batch.release(now, job, effects));
            }
            SubjobDecision::End => self.end_subjob(now, id, None, commands),
            SubjobDecision::Commit { .. } | SubjobDecision::Undecided => {}
        }
    }

    /// Ends a subjob, unless that is done. What is told of one that has not begun is why, if that was found current.
    fn end_subjob(&mut self, now: Time, id: &SubjobId, why: Option<String>, commands: &mut Vec<Command>) {
        let is_left = |accepted: &&mut AcceptedSubjob| !accepted.state.is_over() && !accepted.ending;
        let Some(accepted) = self.subjobs.of(id).filter(is_left) else { return };
        accepted.ending = true;
        if matches!(accepted.state, SubjobState::Queued | SubjobState::Held { .. }) {
            accepted.end_reason = why.map(Exit::NotStarted);
        }
        let job = JobId(accepted.number);
        self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
    }

    /// The coordinator of a subjob that is over knows that.
    fn acknowledge_end(&mut self, now: Time, id: &SubjobId) {
        let is_it = |accepted: &AcceptedSubjob| accepted.subjob.id == *id && accepted.state.is_over();
        if let Some(place) = self.subjobs.current.iter().position(is_it) {
            let accepted = self.subjobs.current.remove(place);
            self.subjobs.remember(now, accepted.subjob.id, accepted.state);
        }
    }

    fn located(
        &mut self,
        now: Time,
        id: &SubjobId,
        addresses: Result<Addresses, String>,
        commands: &mut Vec<Command>,
    ) {
        let waits = |accepted: &&mut AcceptedSubjob| {
            accepted.has_processors && !accepted.ending && accepted.state == SubjobState::Queued
        };
        let Some(accepted) = self.subjobs.of(id).filter(waits) else { return };
        match addresses {
            Ok(addresses) => {
                accepted.task_addresses.clone_from(&addresses);
                accepted.enter(now, SubjobState::Held { addresses });
            }
            Err(why) => self.end_subjob(now, id, Some(why), commands),
        }
    }

    /// News of the batch system about a subjob; false if they are about something else.
    pub(super) fn apply_subjob_update(
        &mut self,
        now: Time,
        update: &StatusUpdate,
        commands: &mut Vec<Command>,
    ) -> bool {
        let (StatusUpdate::Started { job, .. }
        | StatusUpdate::Held { job }
        | StatusUpdate::Ready { job }
        | StatusUpdate::ReleasedTooLate { job }
        | StatusUpdate::Withdrawn { job }
        | StatusUpdate::NotWithdrawn { job }
        | StatusUpdate::Ended { job, .. }) = update
        else {
            return false;
        };
        let Some(accepted) = self.subjobs.current.iter_mut().find(|accepted| accepted.number == job.0) else {
            return false;
        };
        match update {
            StatusUpdate::Ready { .. } if !accepted.ending => {
                accepted.has_processors = true;
                (accepted.report_at, accepted.pause) = (now + REPORT_RETRY.0, REPORT_RETRY.0);
                commands.push(Command::Subjob(SubjobCommand::Locate { id: accepted.subjob.id.clone() }));
            }
            StatusUpdate::Started { .. }
                if !matches!(accepted.state, SubjobState::Runs { .. } | SubjobState::Over { .. }) =>
            {
                accepted.enter(now, SubjobState::Runs { ended: BTreeMap::new() });
            }
            StatusUpdate::ReleasedTooLate { .. } if !accepted.state.is_over() => {
                accepted.end(now, Exit::Lost("it had lost its processors before it was to run".to_owned()));
            }
            StatusUpdate::Ended { exit, .. } if !accepted.state.is_over() => accepted.end(now, exit.clone()),
            _ => {}
        }
        true
    }

    /// Tells coordinators again how subjobs stand, and ends those that were not held in time.
    pub(super) fn report_subjobs(&mut self, now: Time, commands: &mut Vec<Command>) {
        let late: Vec<SubjobId> = self.subjobs.late(now).map(|accepted| accepted.subjob.id.clone()).collect();
        for id in late {
            let why = "it was not held for its launch's timeout".to_owned();
            self.end_subjob(now, &id, Some(why), commands);
        }
        self.subjobs.forget_unacknowledged(now);
        for accepted in self.subjobs.current.iter_mut().filter(|accepted| accepted.report_at <= now) {
            accepted.report_at = now + accepted.pause;
            accepted.pause = Span((accepted.pause.0 * 2).min(REPORT_RETRY.1.0));
            let AcceptedSubjob { subjob: Subjob { id, coordinator: to, .. }, state, .. } = accepted;
            if accepted.has_processors && !accepted.ending && *state == SubjobState::Queued {
                commands.push(Command::Subjob(SubjobCommand::Locate { id: id.clone() }));
            }
            let (to, id, state) = (to.clone(), id.clone(), state.clone());
            commands.push(Command::Subjob(SubjobCommand::Report { to, id, state }));
        }
        while let Some((at, ..)) = self.subjobs.ended.front()
            && *at + KEPT_AFTER_END <= now
        {
            self.subjobs.ended.pop_front();
        }
    }

    /// The subjob that has this number in the batch system, and where those listen that its tasks talk to.
    pub fn subjob(&self, number: u32) -> Option<(&Subjob, &Addresses)> {
        let accepted = self.subjobs.current.iter().find(|accepted| accepted.number == number)?;
        Some((&accepted.subjob, &accepted.peers))
    }

    /// Where the tasks of a subjob listen, once it has its processors.
    pub fn subjob_task_addresses(&self, number: u32) -> Option<&Addresses> {
        let accepted = self.subjobs.current.iter().find(|accepted| accepted.number == number)?;
        Some(&accepted.task_addresses)
    }

    /// The subjobs current that are not over, with their numbers in the batch system and how they stand.
    pub fn subjobs(&self) -> impl Iterator<Item = (&Subjob, u32, &SubjobState)> {
        let left = self.subjobs.current.iter().filter(|accepted| !accepted.state.is_over());
        left.map(|accepted| (&accepted.subjob, accepted.number, &accepted.state))
    }

    /// Whether a subjob is current: one that is over, and whose coordinator knows, is not any more.
    pub fn has_subjob(&self, id: &SubjobId) -> bool {
        self.subjobs.current.iter().any(|accepted| accepted.subjob.id == *id)
    }

    /// Whether a subjob that may run yet belongs to the launch of that key.
    pub(super) fn has_subjob_of(&self, key: &Key) -> bool {
        let mut left = self.subjobs.current.iter().filter(|accepted| !accepted.state.is_over());
        left.any(|accepted| accepted.subjob.id.launch.key == *key)
    }

    /// How a subjob stands current.
    pub fn subjob_state(&self, id: &SubjobId) -> SubjobState {
        self.subjobs.state(id)
    }

    /// The subjobs that run, how, and whether they were asked to end: what a restarted driver looks for outside.
    pub fn running_subjobs(&self) -> impl Iterator<Item = (&Subjob, &Run, bool)> {
        let left = self.subjobs.current.iter().filter(|accepted| !accepted.state.is_over());
        left.filter_map(|accepted| Some((&accepted.subjob, accepted.run.as_ref()?, accepted.ending)))
    }

    /// The subjobs current that are not over, for people.
    pub fn list_subjobs(&self) -> impl Iterator<Item = ListedSubjob> {
        let left = self.subjobs.current.iter().filter(|accepted| !accepted.state.is_over());
        left.map(AcceptedSubjob::listed)
    }

    /// How many subjobs the server has whose coordinators are to hear of them.
    pub fn unacknowledged_subjobs(&self) -> usize {
        self.subjobs.current.len()
    }
}
