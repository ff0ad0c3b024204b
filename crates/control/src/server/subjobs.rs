//! Subjobs of launches: the server's side of a co-allocation (see [`crate::coallocation`]).
//!
//! A subjob is one tentative job of the batch system. Once it has its processors, the driver locates its tasks, and the
//! subjob is prepared until its coordinator decides or an operator ends it. Being prepared is the server's vote, which
//! binds it. A subjob that is not prepared within its launch's timeout ends, whether its coordinator is up or not.

mod accepted;

use std::collections::{BTreeMap, BTreeSet};

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

/// The first and the longest pause before a subjob's state is reported again; doubled each time.
const REPORT_RETRY: (Span, Span) = (Span(4), Span(64));
/// How long an ended subjob is remembered, so that a late preparation does not accept it again: longer than a message may
/// travel or a coordinator may be down.
const KEPT_AFTER_END: Span = Span(7 * 86_400);
/// How much longer than its launch's timeout a subjob may take until it is prepared. The coordinator has given it up by
/// then.
const PREPARE_GRACE: Span = Span(64);

/// An event of a subjob.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjobEvent {
    /// A coordinator asks to prepare a subjob.
    Prepare {
        /// The caller to answer.
        reply: Token,
        /// The subjob.
        subjob: Box<Subjob>,
    },
    /// A coordinator has decided about a subjob.
    Decided {
        /// The caller to answer; none if the decision is a reply.
        reply: Option<Token>,
        /// The subjob.
        id: SubjobId,
        /// The decision.
        decision: SubjobDecision,
        /// The coordinator knows that the subjob has ended.
        end_acknowledged: bool,
    },
    /// An operator of the server ends a subjob.
    EndedByOperator {
        /// The caller to answer.
        reply: Token,
        /// The subjob.
        id: SubjobId,
        /// The operator.
        by: User,
    },
    /// The driver has located the tasks of a subjob that has its processors, or has failed to.
    Located {
        /// The subjob.
        id: SubjobId,
        /// The address of each task, or the error.
        addresses: Result<Addresses, String>,
    },
    /// A task of a running subjob has ended.
    TaskEnded {
        /// The subjob.
        id: SubjobId,
        /// The task.
        task: String,
        /// How it ended.
        exit: Exit,
    },
}

/// An action for a subjob.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjobCommand {
    /// Locate the tasks of a subjob that has its processors. Repeated until [`SubjobEvent::Located`].
    Locate {
        /// The subjob.
        id: SubjobId,
    },
    /// Report a subjob's state to its coordinator, which answers with a decision. Repeated until it answers.
    Report {
        /// The coordinator.
        to: Peer,
        /// The subjob.
        id: SubjobId,
        /// The state.
        state: SubjobState,
    },
}

impl Server {
    /// Applies an event of a subjob.
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
            SubjobEvent::Decided { reply, id, decision, end_acknowledged } => {
                if let Some(accepted) = self.subjobs.of(&id) {
                    accepted.last_contact = now;
                }
                self.subjob_decided(now, &id, decision, commands);
                if end_acknowledged {
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

    /// Queues a subjob, unless it is known. One that cannot be prepared in time ends at once.
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
        // To the batch system the time in which the subjob is prepared is part of its walltime.
        let walltime = Span(subjob.walltime.0.saturating_add(subjob.timeout.0));
        let (procs, owner) = (subjob.procs, subjob.owner.owner());
        let submission = Submission { submit: now, owner, ..Submission::new(JobId(number), procs, walltime) };
        self.subjobs.current.push(AcceptedSubjob::new(now, subjob, number));
        self.with_batch(now, commands, |batch, effects| batch.submit_tentatively(now, submission, effects));
    }

    /// Checks that a subjob would be prepared in time by the present plan.
    fn check_subjob(&mut self, now: Time, subjob: &Subjob) -> Result<(), String> {
        if let Some(reason) = self.refuses(&subjob.owner) {
            return Err(reason.why);
        }
        if let Some(why) = self.closed_to_others() {
            return Err(why);
        }
        let walltime = Span(subjob.walltime.0.saturating_add(subjob.timeout.0));
        let work = Work::new(subjob.procs, walltime, Speedup::Rigid);
        let request = work.request(JobId(self.next), now).owned_by(subjob.owner.owner());
        // The walltime of tasks is the same on all clusters.
        let estimate = self
            .estimate_at(now, &subjob.owner, &request, Speed::REFERENCE)
            .map_err(|refused| refused.to_string())?;
        self.check_room(&subjob.owner, subjob.procs)?;
        match estimate.start {
            start if start > now + subjob.timeout => Err(format!(
                "its {} processors are free in {} s, but all subjobs must be prepared within {} s",
                subjob.procs,
                start.0 - now.0,
                subjob.timeout.0
            )),
            _ => Ok(()),
        }
    }

    /// Ends the subjobs of a user that are not prepared yet. Those that are prepared are bound by that.
    pub(super) fn end_queued_subjobs(
        &mut self,
        now: Time,
        of: &User,
        why: &str,
        commands: &mut Vec<Command>,
    ) {
        let is_queued = |accepted: &&AcceptedSubjob| {
            accepted.subjob.owner == *of && accepted.state == SubjobState::Queued
        };
        let queued = self.subjobs.current.iter().filter(is_queued);
        for id in queued.map(|accepted| accepted.subjob.id.clone()).collect::<Vec<_>>() {
            self.end_subjob(now, &id, Some(why.to_owned()), commands);
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
            // A preparation that arrives later must find that the subjob has ended.
            if decision == SubjobDecision::End && self.subjobs.state(id) == SubjobState::Unknown {
                let over = SubjobState::Over { ended: BTreeMap::new(), exit: Exit::Cancelled };
                self.subjobs.remember(now, id.clone(), over);
            }
            return;
        };
        match decision {
            SubjobDecision::Commit { peers }
                if matches!(accepted.state, SubjobState::Prepared { .. }) && !accepted.ending =>
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

    /// Ends a subjob, unless it has ended. `why` is reported if the subjob has not started.
    fn end_subjob(&mut self, now: Time, id: &SubjobId, why: Option<String>, commands: &mut Vec<Command>) {
        let is_left = |accepted: &&mut AcceptedSubjob| !accepted.state.is_over() && !accepted.ending;
        let Some(accepted) = self.subjobs.of(id).filter(is_left) else { return };
        accepted.ending = true;
        if matches!(accepted.state, SubjobState::Queued | SubjobState::Prepared { .. }) {
            accepted.end_reason = why.map(Exit::NotStarted);
        }
        let job = JobId(accepted.number);
        self.with_batch(now, commands, |batch, effects| batch.cancel(now, job, effects));
    }

    /// The coordinator has acknowledged the end of a subjob.
    fn acknowledge_end(&mut self, now: Time, id: &SubjobId) {
        let is_it = |accepted: &AcceptedSubjob| accepted.subjob.id == *id && accepted.state.is_over();
        if let Some(index) = self.subjobs.current.iter().position(is_it) {
            let accepted = self.subjobs.current.remove(index);
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
            Ok(addresses) if !accepted.is_located_by(&addresses) => {
                let why = "its supervisor has not said where each of its tasks listens".to_owned();
                self.end_subjob(now, id, Some(why), commands);
            }
            Ok(addresses) => {
                accepted.task_addresses.clone_from(&addresses);
                accepted.enter(now, SubjobState::Prepared { addresses });
            }
            Err(why) => self.end_subjob(now, id, Some(why), commands),
        }
    }

    /// Applies a status update of the batch system; false if it is not about a subjob.
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
        | StatusUpdate::NodeFailed { job, .. }
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
                accepted.end(now, Exit::Lost("it lost its processors before it was started".to_owned()));
            }
            StatusUpdate::NodeFailed { exit, .. } | StatusUpdate::Ended { exit, .. }
                if !accepted.state.is_over() =>
            {
                accepted.end(now, exit.clone())
            }
            _ => {}
        }
        true
    }

    /// Repeats reports to coordinators, and ends subjobs that were not prepared in time.
    pub(super) fn report_subjobs(&mut self, now: Time, commands: &mut Vec<Command>) {
        let late: Vec<SubjobId> = self.subjobs.late(now).map(|accepted| accepted.subjob.id.clone()).collect();
        for id in late {
            let why = "it was not prepared within its launch's timeout".to_owned();
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

    /// The subjob with this number in the batch system, and the addresses of the tasks that its tasks communicate with.
    pub fn subjob(&self, number: u32) -> Option<(&Subjob, &Addresses)> {
        let accepted = self.subjobs.current.iter().find(|accepted| accepted.number == number)?;
        Some((&accepted.subjob, &accepted.peers))
    }

    /// The addresses of a subjob's tasks, once it has its processors.
    pub fn subjob_task_addresses(&self, number: u32) -> Option<&Addresses> {
        let accepted = self.subjobs.current.iter().find(|accepted| accepted.number == number)?;
        Some(&accepted.task_addresses)
    }

    /// The subjobs that have not ended, with their numbers in the batch system and their states.
    pub fn subjobs(&self) -> impl Iterator<Item = (&Subjob, u32, &SubjobState)> {
        let left = self.subjobs.current.iter().filter(|accepted| !accepted.state.is_over());
        left.map(|accepted| (&accepted.subjob, accepted.number, &accepted.state))
    }

    /// The subjobs in memory: not those that have ended and whose coordinator has acknowledged that.
    pub fn known_subjobs(&self) -> impl Iterator<Item = &SubjobId> {
        self.subjobs.current.iter().map(|accepted| &accepted.subjob.id)
    }

    /// Whether a subjob that has not ended belongs to the launch with that key.
    pub(super) fn has_subjob_of(&self, key: &Key) -> bool {
        let mut left = self.subjobs.current.iter().filter(|accepted| !accepted.state.is_over());
        left.any(|accepted| accepted.subjob.id.launch.key == *key)
    }

    /// The state of a subjob.
    pub fn subjob_state(&self, id: &SubjobId) -> SubjobState {
        self.subjobs.state(id)
    }

    /// The tasks of a subjob whose end is not known; none if it does not run.
    pub fn running_tasks(&self, id: &SubjobId) -> Option<BTreeSet<String>> {
        self.subjobs.current.iter().find(|accepted| accepted.subjob.id == *id)?.running_tasks()
    }

    /// The running subjobs, how they run, and whether they are being cancelled: a restarted driver looks for these.
    pub fn running_subjobs(&self) -> impl Iterator<Item = (&Subjob, &Run, bool)> {
        let left = self.subjobs.current.iter().filter(|accepted| !accepted.state.is_over());
        left.filter_map(|accepted| Some((&accepted.subjob, accepted.run.as_ref()?, accepted.ending)))
    }

    /// The subjobs that have not ended, as listed for users.
    pub fn list_subjobs(&self) -> impl Iterator<Item = ListedSubjob> {
        let left = self.subjobs.current.iter().filter(|accepted| !accepted.state.is_over());
        left.map(AcceptedSubjob::listed)
    }

    /// Number of subjobs whose end was not acknowledged by their coordinators.
    pub fn unacknowledged_subjobs(&self) -> usize {
        self.subjobs.current.len()
    }
}
