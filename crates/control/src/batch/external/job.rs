//! A job of this server in an external batch system: its state, events and commands.

use std::sync::Arc;

use pliant_model::{JobId, Procs, Resources, Span, Time};
use pliant_policy::alternatives::Alternative;
use pliant_policy::batch::Submission;
use pliant_policy::nodes::Rules;
use pliant_policy::runtimes::limit_usage::Expect;
use serde::{Deserialize, Serialize};

use super::AllowedOptions;
use crate::batch::{self, Effects, StatusUpdate};
use crate::job::{Exit, is_false};
use crate::listing::{Changes, ListedJob, Phase, State};

/// An event of an external batch system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The planning interval and the partitions were read.
    Configured {
        /// The time between two planning passes.
        interval: Span,
        /// The partition of jobs that name none; none for the default one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<String>,
        /// Others that are compared for jobs that name none.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        more_partitions: Vec<String>,
        /// What jobs may name.
        #[serde(default, skip_serializing_if = "AllowedOptions::is_empty")]
        allowed: AllowedOptions,
        /// How long other users' jobs are expected to run.
        expect: Expect,
    },
    /// The planning rules were read in full.
    PlanningRules {
        /// The rules.
        rules: Rules,
    },
    /// A listing, as the difference to the one before.
    Listed(Changes),
    /// A job was submitted.
    Queued {
        /// The job.
        job: JobId,
        /// Its IDs in the batch system: several if it was submitted more than once.
        ids: Vec<String>,
    },
    /// A job was refused for good.
    Refused {
        /// The job.
        job: JobId,
        /// The reason, for its owner.
        why: String,
    },
    /// The batch system takes no more jobs of the user at the moment: the job waits at the server, which submits it again and again.
    Limited {
        /// The job.
        job: JobId,
        /// The limit, as the batch system names it.
        why: String,
    },
    /// A job was released.
    Released {
        /// The job.
        job: JobId,
    },
    /// A tentative job was released after its start gate gave up: it never runs.
    ReleasedTooLate {
        /// The job.
        job: JobId,
    },
    /// A withdrawal was carried out.
    Withdrawal {
        /// The job.
        job: JobId,
        /// Its outcome.
        outcome: WithdrawalOutcome,
    },
    /// The batch system was asked to end a job.
    Terminated {
        /// The job.
        job: JobId,
    },
    /// The entries of an ended job were removed from the queue.
    Removed {
        /// The job.
        job: JobId,
    },
    /// The batch system does not know the job, and the job has not started.
    Unclaimed {
        /// The job.
        job: JobId,
    },
    /// A job has ended.
    Ended {
        /// The job.
        job: JobId,
        /// How it ended.
        exit: Exit,
        /// When it started, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<Time>,
        /// Its runtime in milliseconds, if measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        elapsed_ms: Option<u64>,
    },
    /// A node failed under a job, of which nothing is left.
    NodeFailed {
        /// The job.
        job: JobId,
        /// How it has ended if it is not run again.
        exit: Exit,
        /// When it started, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<Time>,
    },
}

impl Event {
    /// The settings of a server that submits to one partition, the default one if none is named.
    pub fn configured(interval: Span, partition: Option<String>, expect: Expect) -> Event {
        let (more_partitions, allowed) = (Vec::new(), AllowedOptions::default());
        Event::Configured { interval, partition, more_partitions, allowed, expect }
    }
}

/// The outcome of a withdrawal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithdrawalOutcome {
    /// The job will not run.
    Withdrawn,
    /// The job has started.
    Started,
}

/// A command for an external batch system. Each is idempotent.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Submit a job.
    Queue(Queue),
    /// Release a held or tentative job.
    Release {
        /// The job.
        job: JobId,
        /// Its IDs in the batch system.
        ids: Vec<String>,
        /// The sizes among which the batch system chooses ([`Queue::alternatives`]).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        alternatives: Vec<Alternative>,
        /// It is tentative: its start gate waits for the release.
        #[serde(default, skip_serializing_if = "is_false")]
        tentative: bool,
    },
    /// Withdraw a job if it waits.
    Withdraw {
        /// The job.
        job: JobId,
        /// Its IDs in the batch system.
        ids: Vec<String>,
        /// It is tentative, and does not start in a folder of its own yet.
        #[serde(default, skip_serializing_if = "is_false")]
        tentative: bool,
    },
    /// Remove the waiting entries of a job that has ended or was withdrawn.
    Remove {
        /// The job.
        job: JobId,
        /// Its IDs in the batch system.
        ids: Vec<String>,
    },
    /// Cancel a waiting job or end a running one.
    Terminate {
        /// The job.
        job: JobId,
        /// Its IDs in the batch system.
        ids: Vec<String>,
    },
    /// Inspect the folder of a job that has ended or is no longer listed.
    Inspect {
        /// The job.
        job: JobId,
        /// Its IDs in the batch system.
        ids: Vec<String>,
        /// Its last listed entry, if any.
        listed: Option<Box<ListedJob>>,
    },
}

/// A job to submit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Queue {
    /// The job.
    pub job: JobId,
    /// Its processors.
    pub procs: Procs,
    /// Its walltime; for a tentative job with [`RELEASE_TIMEOUT`] added.
    pub walltime: Span,
    /// It does not start before it is released.
    pub held: bool,
    /// It starts like any other job, but its start gate waits for the release.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tentative: bool,
    /// It may have been submitted before.
    pub resubmitted: bool,
    /// The sizes among which the batch system chooses, the smallest first; empty if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
    /// What it needs besides processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Arc<Resources>>,
    /// Its partition; none for the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
}

/// How long a tentative job waits for its release once it has its processors. The start gate gives up sooner.
pub const RELEASE_TIMEOUT: Span = Span(30);

/// How far back the state of a killed controller may be: in practice seconds.
const FORGETS_WITHIN: Span = Span(300);

/// The longest time between two listings that counts as uninterrupted. A longer one is an outage or a clock jump.
const LISTED_WITHIN: Span = Span(60);

const LONG_AGO: Time = Time(i64::MIN);

fn long_ago() -> Time {
    LONG_AGO
}

fn is_no_time(span: &Span) -> bool {
    *span == Span(0)
}

fn is_long_ago(time: &Time) -> bool {
    *time == LONG_AGO
}

/// The state of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) submission: Submission,
    /// The sizes among which the batch system chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) alternatives: Vec<Alternative>,
    /// Its partition, if it is not the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) partition: Option<String>,
    pub(super) ids: Vec<String>,
    /// Its submission is unanswered.
    pub(super) queueing: bool,
    /// The limit for which the batch system does not take it at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) limited: Option<String>,
    /// It was submitted more than once.
    pub(super) resubmitted: bool,
    /// When its submission was answered.
    pub(super) queued_at: Time,
    /// When its release was answered, if it was held.
    #[serde(default = "long_ago", skip_serializing_if = "is_long_ago")]
    pub(super) released_at: Time,
    /// The first listing in which it waited without a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unplanned: Option<Time>,
    /// The last listing since its release in which it waited and was not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_seen_free: Option<Time>,
    /// For how long listings have shown that, without outages and clock jumps.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub(super) free_for: Span,
    /// The last listing shows it.
    pub(super) is_listed: bool,
    /// Its start was reported.
    pub(super) started: bool,
    /// It is held, or is submitted as held.
    pub(super) held: bool,
    /// This server has held it before: at its submission or for a withdrawal.
    pub(super) was_held: bool,
    /// It was submitted tentatively: until its release it counts as held here, although the batch system does not hold it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) tentative: bool,
    /// It was reported as ready.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) ready_reported: bool,
    // Commands that are unanswered.
    pub(super) releasing: bool,
    pub(super) withdrawing: bool,
    pub(super) terminating: bool,
    pub(super) inspecting: bool,
    /// It was cancelled.
    pub(super) cancelled: bool,
}

/// True if this server holds the job. A job that a user or an administrator holds is left alone.
pub(super) fn is_held_by_us(listed: &ListedJob) -> bool {
    listed.state == State::Held && listed.wait_reason.is_none()
}

impl Job {
    pub(super) fn new(submission: Submission, held: bool) -> Job {
        Job {
            submission,
            alternatives: Vec::new(),
            partition: None,
            ids: Vec::new(),
            queueing: true,
            limited: None,
            resubmitted: false,
            queued_at: LONG_AGO,
            released_at: LONG_AGO,
            unplanned: None,
            last_seen_free: None,
            free_for: Span(0),
            is_listed: false,
            started: false,
            held,
            was_held: held,
            tentative: false,
            ready_reported: false,
            releasing: false,
            withdrawing: false,
            terminating: false,
            inspecting: false,
            cancelled: false,
        }
    }

    /// A tentative job: scheduled like any other, but not started before it is released.
    pub(super) fn tentative(submission: Submission) -> Job {
        Job { tentative: true, held: true, ..Job::new(submission, false) }
    }

    /// True if it is tentative and was not released.
    pub(super) fn is_tentative(&self) -> bool {
        self.tentative && self.held
    }

    /// Reports once that a tentative job has its processors.
    pub(super) fn report_ready(&mut self, effects: &mut Effects) {
        if !self.ready_reported {
            self.ready_reported = true;
            effects.updates.push(StatusUpdate::Ready { job: self.submission.job });
        }
    }

    /// True if it waits, as far as is known.
    pub(super) fn is_waiting(&self) -> bool {
        !self.started && !self.inspecting
    }

    /// Records that it is submitted again after the batch system has forgotten it.
    pub(super) fn resubmit(&mut self) {
        (self.queueing, self.resubmitted, self.is_listed) = (true, true, false);
        self.ids.clear();
    }

    /// Adopts the size that the batch system has chosen.
    pub(super) fn adopt_size(&mut self, started: &ListedJob) {
        if !self.started && !self.alternatives.is_empty() && started.shape.cores > 0 {
            self.submission.procs = Procs(started.shape.cores);
            self.submission.walltime = started.walltime.unwrap_or(self.submission.walltime);
        }
    }

    /// True if the job may have ended, by a listing. A waiting entry may be a duplicate of an ended one, or one whose start a
    /// killed controller has forgotten.
    pub(super) fn may_have_ended(&self, listed: &[&ListedJob]) -> bool {
        let any = |phase| listed.iter().any(|one| one.phase() == phase);
        let has_run = || listed.iter().any(|one| one.phase() == Phase::Ended && one.ever_started());
        !any(Phase::Running) && (!any(Phase::Waiting) || self.started || has_run())
    }

    /// Repeats commands whose effects a killed controller has forgotten.
    pub(super) fn reissue_commands(&mut self, listed: &[&ListedJob], at: Time, effects: &mut Effects) {
        let waits = listed.iter().any(|one| one.phase() == Phase::Waiting);
        if self.cancelled && !self.terminating && waits {
            self.terminating = true;
            effects.commands.push(batch::Command::External(self.terminate()));
        }
        // A listing from before the release does not show it.
        if !self.started && at > self.released_at {
            let is_held = listed.iter().any(|one| is_held_by_us(one));
            if waits && !is_held {
                let before = self.last_seen_free.replace(at).unwrap_or(at);
                self.free_for = self.free_for + Span((at - before).0.min(LISTED_WITHIN.0));
            }
            // A job that was free for long is held by a user or an administrator.
            if self.free_for <= FORGETS_WITHIN {
                self.release_again(is_held, effects);
            }
        }
    }

    /// Records a release, or that the job may be held again from now on.
    pub(super) fn set_released(&mut self, at: Time) {
        (self.released_at, self.last_seen_free, self.free_for) = (at, None, Span(0));
    }

    /// Records whether a waiting job has a plan, by a listing.
    pub(super) fn set_planned(&mut self, planned: bool, at: Time) {
        self.unplanned = (!planned).then(|| self.unplanned.unwrap_or(at));
    }

    /// Repeats a release if a listing shows the job as held.
    pub(super) fn release_again(&mut self, is_held: bool, effects: &mut Effects) {
        let is_to_start = self.was_held && !self.held && !self.withdrawing && !self.cancelled;
        if is_held && is_to_start && !self.releasing {
            self.releasing = true;
            effects.commands.push(batch::Command::External(self.release()));
        }
    }

    /// Reports its start once.
    pub(super) fn report_start(&mut self, at: Time, effects: &mut Effects) {
        if !self.started {
            self.started = true;
            let Submission { job, procs, walltime, .. } = self.submission;
            effects.updates.push(StatusUpdate::Started { job, procs, walltime, at });
        }
    }

    pub(super) fn queue(&self) -> Command {
        let Submission { job, procs, walltime, ref resources, .. } = self.submission;
        let (alternatives, tentative) = (self.alternatives.clone(), self.is_tentative());
        let walltime = if tentative { walltime + RELEASE_TIMEOUT } else { walltime };
        let held = self.held && !tentative;
        Command::Queue(Queue {
            job,
            procs,
            walltime,
            held,
            tentative,
            resubmitted: self.resubmitted,
            alternatives,
            resources: resources.clone(),
            partition: self.partition.clone(),
        })
    }

    pub(super) fn release(&self) -> Command {
        let (ids, alternatives) = (self.ids.clone(), self.alternatives.clone());
        Command::Release { job: self.submission.job, ids, alternatives, tentative: self.tentative }
    }

    pub(super) fn withdraw(&self) -> Command {
        let tentative = self.is_tentative();
        Command::Withdraw { job: self.submission.job, ids: self.ids.clone(), tentative }
    }

    pub(super) fn terminate(&self) -> Command {
        Command::Terminate { job: self.submission.job, ids: self.ids.clone() }
    }

    pub(super) fn inspect(&self, listed: Option<ListedJob>) -> Command {
        Command::Inspect { job: self.submission.job, ids: self.ids.clone(), listed: listed.map(Box::new) }
    }

    /// The unanswered commands, except inspections.
    pub(super) fn unanswered(&self) -> Vec<Command> {
        if self.queueing {
            let Command::Queue(queue) = self.queue() else { return Vec::new() };
            let end = self.terminating.then(|| self.terminate());
            return end.into_iter().chain([Command::Queue(Queue { resubmitted: true, ..queue })]).collect();
        }
        let steps = [
            (self.releasing, Job::release as fn(&Job) -> Command),
            // A withdrawal follows an earlier release.
            (self.withdrawing && !self.releasing, Job::withdraw),
            (self.terminating, Job::terminate),
        ];
        steps.iter().filter(|(asked, _)| *asked).map(|(_, step)| step(self)).collect()
    }
}
