//! The commands of a server to an external batch system, in the steps of the live adapter. A request without an answer is
//! sent again.

use std::collections::VecDeque;

use pliant_control::batch::external::{Event, Queue, WithdrawalOutcome};
use pliant_control::job::Exit;
use pliant_control::listing::{ListedJob, Phase, State};
use pliant_model::JobId;

use super::super::requeues::NODE_FAILED;
use super::controller::{ControllerAnswer, ControllerRequest, JobStatus, Submission};
use super::folders::{FolderState, Folders, RunFolder};
use super::start_gates::StartGates;

/// How long a supervisor may take to end its job before the batch system does, in milliseconds.
const SUPERVISOR_ENDS_WITHIN: u64 = 4_000;
/// How often a task checks a folder, in milliseconds.
const CHECK_EVERY: u64 = 500;
/// How long a node's last writes may take to become visible, in milliseconds.
const WRITES_VISIBLE_WITHIN: u64 = 5_000;

/// A command in execution.
pub(super) struct Task {
    pub(super) number: u32,
    /// The job's folder; none if the server has no record of the job any more.
    pub(super) folder: Option<RunFolder>,
    /// The job is this server's, not prepared for another one.
    pub(super) is_ours: bool,
    pub(super) command: TaskCommand,
    /// The number of its steps so far: only an answer to the latest one counts.
    pub(super) step_number: u64,
    pub(super) started_at: u64,
}

/// A command, and its progress.
pub(super) enum TaskCommand {
    Queue {
        queue: Queue,
        queried: bool,
    },
    Release {
        ids: VecDeque<String>,
        queried: bool,
    },
    /// Permits a tentative job to start.
    Permit,
    Withdraw {
        ids: VecDeque<String>,
        step: WithdrawalStep,
        stays: bool,
        removes: bool,
        /// The job has no folder yet.
        tentative: bool,
    },
    Terminate {
        ids: VecDeque<String>,
        queried: bool,
    },
    Inspect {
        listed: Option<Box<ListedJob>>,
    },
}

/// The steps that withdraw one job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WithdrawalStep {
    /// Queries whether the job exists.
    Query,
    /// Holds it.
    Hold,
    /// Queries whether it waits.
    QueryWaiting,
    Cancel,
    /// Queries whether it has ended.
    QueryEnded,
}

/// What a task does next.
pub(super) enum NextAction {
    Request(ControllerRequest),
    /// Repeats the step after a random pause.
    Retry,
    /// Repeats the step after so many milliseconds.
    After(u64),
    Report(Event),
}

impl Task {
    /// Continues with an answer; none at the start and after a pause.
    pub(super) fn advance(
        &mut self,
        now: u64,
        answer: Option<ControllerAnswer>,
        folders: &mut Folders,
        start_gates: &mut StartGates,
    ) -> NextAction {
        match self.command {
            TaskCommand::Queue { .. } => self.queue(answer, folders),
            TaskCommand::Release { .. } => self.release(answer, folders),
            TaskCommand::Permit => self.decide(folders, start_gates),
            TaskCommand::Withdraw { .. } => self.withdraw(answer, folders, start_gates),
            TaskCommand::Terminate { .. } => self.terminate(now, answer, folders, start_gates),
            TaskCommand::Inspect { .. } => self.inspect(now, folders),
        }
    }

    fn job(&self) -> JobId {
        JobId(self.number)
    }

    fn queue(&mut self, answer: Option<ControllerAnswer>, folders: &mut Folders) -> NextAction {
        let job = self.job();
        let TaskCommand::Queue { queue, queried } = &mut self.command else { return NextAction::Retry };
        let Some(folder) = self.folder.clone() else {
            return NextAction::Report(Event::Refused {
                job,
                why: "the server has no record of it any more".to_owned(),
            });
        };
        // A held or tentative job gets its folder when it is released.
        if !queue.held && !queue.tentative {
            folders.prepare(&folder);
        }
        let submission = Submission {
            number: Some(self.number),
            folder: Some(folder),
            cores: queue.procs.0,
            resources: queue.resources.clone(),
            walltime: queue.walltime.0.max(0) as u64 * 1000,
            held: queue.held,
            tentative: queue.tentative,
        };
        match answer {
            None if queue.resubmitted => {
                *queried = true;
                NextAction::Request(ControllerRequest::Find(self.number))
            }
            Some(ControllerAnswer::Ids(ids)) if *queried && ids.is_empty() => {
                *queried = false;
                NextAction::Request(ControllerRequest::Submit(submission))
            }
            Some(ControllerAnswer::Ids(ids)) => NextAction::Report(Event::Queued { job, ids }),
            None => NextAction::Request(ControllerRequest::Submit(submission)),
            // The submission may have succeeded without an answer.
            Some(_) => {
                queue.resubmitted = true;
                NextAction::Retry
            }
        }
    }

    fn release(&mut self, answer: Option<ControllerAnswer>, folders: &mut Folders) -> NextAction {
        let job = self.job();
        let TaskCommand::Release { ids, queried } = &mut self.command else { return NextAction::Retry };
        if let Some(folder) = &self.folder {
            folders.prepare(folder);
        }
        match answer {
            None => {}
            Some(ControllerAnswer::Nothing) => return NextAction::Retry,
            Some(ControllerAnswer::Job(Some(_))) if *queried => {
                *queried = false;
                return NextAction::Request(ControllerRequest::Release(ids[0].clone()));
            }
            // It is released, or a listing will show its state.
            Some(_) => drop(ids.pop_front()),
        }
        *queried = true;
        match ids.front() {
            Some(id) => NextAction::Request(ControllerRequest::Status(self.number, id.clone())),
            None => NextAction::Report(Event::Released { job }),
        }
    }

    fn decide(&self, folders: &mut Folders, start_gates: &mut StartGates) -> NextAction {
        if let Some(folder) = &self.folder {
            folders.prepare(folder);
        }
        let job = self.job();
        NextAction::Report(if start_gates.decide(self.number, true) {
            Event::Released { job }
        } else {
            Event::ReleasedTooLate { job }
        })
    }

    fn terminate(
        &mut self,
        now: u64,
        answer: Option<ControllerAnswer>,
        folders: &mut Folders,
        start_gates: &mut StartGates,
    ) -> NextAction {
        let job = self.job();
        let TaskCommand::Terminate { ids, queried } = &mut self.command else { return NextAction::Retry };
        start_gates.decide(self.number, false);
        if let Some(folder) = &self.folder {
            if self.is_ours {
                // A supervisor that starts later has to find the folder with the end request.
                folders.prepare(folder);
            }
            folders.request_end(folder, now);
            if folders.runs(folder) && now < self.started_at + SUPERVISOR_ENDS_WITHIN {
                return NextAction::After(CHECK_EVERY);
            }
        }
        match answer {
            None => {}
            Some(ControllerAnswer::Nothing) => return NextAction::Retry,
            Some(ControllerAnswer::Job(Some(_))) if *queried => {
                *queried = false;
                return NextAction::Request(ControllerRequest::Cancel(ids[0].clone()));
            }
            Some(_) => drop(ids.pop_front()),
        }
        *queried = true;
        match ids.front() {
            Some(id) => NextAction::Request(ControllerRequest::Status(self.number, id.clone())),
            None => NextAction::Report(Event::Terminated { job }),
        }
    }

    fn withdraw(
        &mut self,
        answer: Option<ControllerAnswer>,
        folders: &mut Folders,
        start_gates: &mut StartGates,
    ) -> NextAction {
        let TaskCommand::Withdraw { ids, step, stays, removes, .. } = &mut self.command else {
            return NextAction::Retry;
        };
        let Some(id) = ids.front().cloned() else { return self.withdrawn(folders, start_gates) };
        let status_query = NextAction::Request(ControllerRequest::Status(self.number, id.clone()));
        let over: bool = match (*step, answer) {
            (_, None) => {
                *step = WithdrawalStep::Query;
                return status_query;
            }
            (_, Some(ControllerAnswer::Nothing)) => {
                *step = WithdrawalStep::Query;
                return NextAction::Retry;
            }
            // A job that an administrator holds must not run elsewhere either.
            (
                WithdrawalStep::Query,
                Some(ControllerAnswer::Job(Some(JobStatus { admin_held: true, .. }))),
            ) if !*removes => true,
            (WithdrawalStep::Query, Some(ControllerAnswer::Job(Some(_)))) => {
                *step = WithdrawalStep::Hold;
                return NextAction::Request(ControllerRequest::Hold(id));
            }
            (WithdrawalStep::Hold, Some(ControllerAnswer::Done | ControllerAnswer::NotWaiting)) => {
                *step = WithdrawalStep::QueryWaiting;
                return status_query;
            }
            (
                WithdrawalStep::QueryWaiting,
                Some(ControllerAnswer::Job(Some(JobStatus { phase: Phase::Waiting, .. }))),
            ) => {
                *step = WithdrawalStep::Cancel;
                return NextAction::Request(ControllerRequest::CancelWaiting(id));
            }
            (WithdrawalStep::Cancel, Some(_)) => {
                *step = WithdrawalStep::QueryEnded;
                return status_query;
            }
            (
                WithdrawalStep::QueryEnded,
                Some(ControllerAnswer::Job(Some(JobStatus { phase: Phase::Waiting, .. }))),
            ) => {
                *step = WithdrawalStep::Query;
                return NextAction::Retry;
            }
            (
                WithdrawalStep::QueryWaiting | WithdrawalStep::QueryEnded,
                Some(ControllerAnswer::Job(Some(status))),
            ) => status.ever_started,
            // The controller does not know it.
            _ => false,
        };
        *stays |= over;
        ids.pop_front();
        *step = WithdrawalStep::Query;
        match ids.front() {
            Some(id) => NextAction::Request(ControllerRequest::Status(self.number, id.clone())),
            None if *removes => self.withdrawn(folders, start_gates),
            None => self.withdrawn(folders, start_gates),
        }
    }

    fn withdrawn(&self, folders: &mut Folders, start_gates: &mut StartGates) -> NextAction {
        let job = self.job();
        let TaskCommand::Withdraw { stays, removes, tentative, .. } = self.command else {
            return NextAction::Retry;
        };
        if removes {
            start_gates.remove(self.number);
            return NextAction::Report(Event::Removed { job });
        }
        // An earlier attempt has removed the folder: a supervisor that has started since found nothing to run.
        let was_removed = !tentative && self.folder.as_ref().is_some_and(|folder| !folders.has(folder));
        let may_move = was_removed || !stays;
        let is_removed =
            may_move && self.folder.as_ref().is_none_or(|folder| folders.remove_unclaimed(folder));
        if is_removed {
            start_gates.remove(self.number);
        }
        let outcome = if is_removed { WithdrawalOutcome::Withdrawn } else { WithdrawalOutcome::Started };
        NextAction::Report(Event::Withdrawal { job, outcome })
    }

    fn inspect(&mut self, now: u64, folders: &mut Folders) -> NextAction {
        let job = self.job();
        let TaskCommand::Inspect { listed } = &self.command else { return NextAction::Retry };
        let state = self.folder.as_ref().map_or(FolderState::Unclaimed, |folder| folders.state(folder));
        let may_have_started = listed.as_ref().is_some_and(|listed| listed.ever_started());
        let is_of_node = listed.as_ref().is_some_and(|listed| listed.state == State::NodeFailed);
        let exit = match &state {
            FolderState::Ended { exit, started, elapsed_ms } => {
                let (exit, started, elapsed_ms) = (exit.clone(), *started, *elapsed_ms);
                return NextAction::Report(Event::Ended { job, exit, started, elapsed_ms });
            }
            FolderState::Runs => return NextAction::After(CHECK_EVERY),
            FolderState::Lost | FolderState::Unclaimed
                if may_have_started && now < self.started_at + WRITES_VISIBLE_WITHIN =>
            {
                return NextAction::After(CHECK_EVERY);
            }
            FolderState::Lost if is_of_node => Exit::Lost(NODE_FAILED.to_owned()),
            FolderState::Lost => Exit::Lost("its supervisor died".to_owned()),
            FolderState::Unclaimed => match listed.as_deref().and_then(ListedJob::exit) {
                None => return NextAction::Report(Event::Unclaimed { job }),
                Some(Exit::Cancelled) => Exit::Cancelled,
                Some(exit) => Exit::NotStarted(format!("its batch script ended before it began: {exit}")),
            },
        };
        if let (FolderState::Unclaimed, Some(folder)) = (state, &self.folder) {
            // A duplicate in the queue that starts later finds the end request and runs nothing.
            folders.prepare(folder);
            folders.request_end(folder, now);
        }
        NextAction::Report(match (is_of_node, exit) {
            (true, exit @ (Exit::Lost(_) | Exit::NotStarted(_))) => {
                Event::NodeFailed { job, exit, started: None }
            }
            (_, exit) => Event::Ended { job, exit, started: None, elapsed_ms: None },
        })
    }
}
