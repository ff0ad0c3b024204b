//! One of our jobs in an external batch system: its state, and the events and commands that concern it.

use pliant_model::{JobId, Procs, Span, Time};
use pliant_policy::alternatives::Alternative;
use pliant_policy::batch::Submission;
use pliant_policy::nodes::Rules;
use pliant_policy::runtimes::limit_usage::Expect;
use serde::{Deserialize, Serialize};

use crate::batch::{self, Effects, StatusUpdate};
use crate::job::{Exit, is_false};
use crate::listing::{Changes, ListedJob, Phase, State};

/// An event of an external batch system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// How it plans, and where jobs are submitted to.
    Configured {
        /// Between two of its passes.
        interval: Span,
        /// The partition; none for the default one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        partition: Option<String>,
        /// How long others' jobs are taken to run.
        expect: Expect,
    },
    /// How it plans, in full.
    PlanningRules {
        /// Its rules.
        rules: Rules,
    },
    /// What it lists, as the difference to the listing before.
    Listed(Changes),
    /// A job is in its queue.
    Queued {
        /// The job.
        job: JobId,
        /// What it is called there. More than one if it was submitted more than once.
        ids: Vec<String>,
    },
    /// A job is not taken, and never will be.
    Refused {
        /// The job.
        job: JobId,
        /// Why, for its owner.
        why: String,
    },
    /// A job may start.
    Released {
        /// The job.
        job: JobId,
    },
    /// A tentative job was to be released, and whoever was to start it has given up waiting: nothing of it ever runs.
    ReleasedTooLate {
        /// The job.
        job: JobId,
    },
    /// What came of withdrawing a job.
    Withdrawal {
        /// The job.
        job: JobId,
        /// What came of it.
        outcome: WithdrawalOutcome,
    },
    /// It was asked to end a job.
    Terminated {
        /// The job.
        job: JobId,
    },
    /// A job that is over for us waits no more.
    Removed {
        /// The job.
        job: JobId,
    },
    /// It does not know a job, and nobody has begun it.
    Unclaimed {
        /// The job.
        job: JobId,
    },
    /// A job has ended.
    Ended {
        /// The job.
        job: JobId,
        /// How.
        exit: Exit,
        /// When it started, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<Time>,
        /// How long it ran, in milliseconds, if that was measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        elapsed_ms: Option<u64>,
    },
}

/// What came of withdrawing a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithdrawalOutcome {
    /// It will not run.
    Withdrawn,
    /// It has started.
    Started,
}

/// What is to be done in an external batch system. Each is the same however often it is done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Queue a job.
    Queue(Queue),
    /// Let a held job start.
    Release {
        /// The job.
        job: JobId,
        /// What it is called there.
        ids: Vec<String>,
        /// The sizes among which the batch system chooses: see [`Queue::alternatives`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        alternatives: Vec<Alternative>,
        /// It is tentative: whoever was started for it waits to be told.
        #[serde(default, skip_serializing_if = "is_false")]
        tentative: bool,
    },
    /// Withdraw a job if it waits, and leave it alone otherwise.
    Withdraw {
        /// The job.
        job: JobId,
        /// What it is called there.
        ids: Vec<String>,
        /// It is tentative, and begins in no folder of its own yet.
        #[serde(default, skip_serializing_if = "is_false")]
        tentative: bool,
    },
    /// Take out of the queue what is left of a job that is over for us: withdrawn, or run already.
    Remove {
        /// The job.
        job: JobId,
        /// What it is called there.
        ids: Vec<String>,
    },
    /// End a job, whether it waits or runs.
    Terminate {
        /// The job.
        job: JobId,
        /// What it is called there.
        ids: Vec<String>,
    },
    /// Find out what became of a job that is over, or that is listed no more.
    Inspect {
        /// The job.
        job: JobId,
        /// What it was called there.
        ids: Vec<String>,
        /// It as it was listed, if it still is.
        listed: Option<Box<ListedJob>>,
    },
}

/// A job to be queued.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Queue {
    /// The job.
    pub job: JobId,
    /// Its processors.
    pub procs: Procs,
    /// Its limit, with what a tentative job may wait for its release added.
    pub walltime: Span,
    /// Whether it must not start before it is released.
    pub held: bool,
    /// Whether it is to start like any other, but begin nothing before it is released.
    #[serde(default, skip_serializing_if = "is_false")]
    pub tentative: bool,
    /// It may be there already.
    pub resubmitted: bool,
    /// The sizes among which the batch system is to choose, the smallest first; empty if there is only the one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alternatives: Vec<Alternative>,
}

/// How long a tentative job may wait for its release once it has its processors. Whoever waits for that gives up sooner.
pub const RELEASE_TIMEOUT: Span = Span(30);

/// How far back a controller that was killed may go on: seconds in truth.
const FORGETS_WITHIN: Span = Span(300);

/// How often a batch system that answers is listed at least. A longer time between two listings is an outage, or the clock has
/// jumped.
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

/// One of our jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) submission: Submission,
    /// The sizes among which the batch system chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) alternatives: Vec<Alternative>,
    pub(super) ids: Vec<String>,
    /// It was submitted, and nobody has said that it is queued.
    pub(super) queueing: bool,
    /// It was submitted more than once.
    pub(super) resubmitted: bool,
    /// When it was said to be queued.
    pub(super) queued_at: Time,
    /// When it was said to be released, if it was held.
    #[serde(default = "long_ago", skip_serializing_if = "is_long_ago")]
    pub(super) released_at: Time,
    /// It waits, and has no plan: since which listing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unplanned: Option<Time>,
    /// The last listing since it was released that has shown that it waits and is not held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_seen_free: Option<Time>,
    /// For how long listings have shown that, without outages and jumps of the clock.
    #[serde(default, skip_serializing_if = "is_no_time")]
    pub(super) free_for: Span,
    /// The last listing had it.
    pub(super) is_listed: bool,
    /// It has started, and that was told.
    pub(super) started: bool,
    /// It is held, or is to be submitted so.
    pub(super) held: bool,
    /// It was held by us once: submitted so, or to be withdrawn.
    pub(super) was_held: bool,
    /// It was submitted tentatively: until it is released it counts as held here, while the batch system knows nothing of that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) tentative: bool,
    /// Its turn came while it was tentative, and that was told.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) ready_reported: bool,
    // What was asked for and is not answered.
    pub(super) releasing: bool,
    pub(super) withdrawing: bool,
    pub(super) terminating: bool,
    pub(super) inspecting: bool,
    /// Its end was asked for.
    pub(super) cancelled: bool,
}

/// True if a job is held, and not by somebody else: what an administrator holds is left so.
pub(super) fn is_held_by_us(listed: &ListedJob) -> bool {
    listed.state == State::Held && listed.waits_for.is_none()
}

impl Job {
    pub(super) fn new(submission: Submission, held: bool) -> Job {
        Job {
            submission,
            alternatives: Vec::new(),
            ids: Vec::new(),
            queueing: true,
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

    /// One that begins nothing before it is released, and whose turn comes like that of any other.
    pub(super) fn tentative(submission: Submission) -> Job {
        Job { tentative: true, held: true, ..Job::new(submission, false) }
    }

    /// True if it is tentative: nobody begins it, wherever it is in the queue.
    pub(super) fn is_tentative(&self) -> bool {
        self.tentative && self.held
    }

    /// The batch system has given a tentative job its processors, which is told once.
    pub(super) fn report_ready(&mut self, effects: &mut Effects) {
        if !self.ready_reported {
            self.ready_reported = true;
            effects.updates.push(StatusUpdate::Ready { job: self.submission.job });
        }
    }

    /// True if it waits for its turn, as far as is known, or will once it is released.
    pub(super) fn is_waiting(&self) -> bool {
        !self.started && !self.inspecting
    }

    /// It was forgotten: as if it had never been submitted, but for what may still come of that.
    pub(super) fn resubmit(&mut self) {
        (self.queueing, self.resubmitted, self.is_listed) = (true, true, false);
        self.ids.clear();
    }

    /// It runs, or ran, in the size that the batch system has chosen, if that was left to it.
    pub(super) fn adopt_size(&mut self, begun: &ListedJob) {
        if !self.started && !self.alternatives.is_empty() && begun.shape.cores > 0 {
            self.submission.procs = Procs(begun.shape.cores);
            self.submission.walltime = begun.walltime.unwrap_or(self.submission.walltime);
        }
    }

    /// True if it is over as far as a listing shows, or not listed. What waits may be a copy that waits for ever to begin
    /// what another one has ended, or what a killed controller has forgotten to have started.
    pub(super) fn may_have_ended(&self, listed: &[&ListedJob]) -> bool {
        let any = |phase| listed.iter().any(|one| one.phase() == phase);
        let has_run = || listed.iter().any(|one| one.phase() == Phase::Over && one.ever_started());
        !any(Phase::Runs) && (!any(Phase::Waits) || self.started || has_run())
    }

    /// Asks again for what was done and is not done any more: a controller that was killed has forgotten it.
    pub(super) fn reissue_commands(&mut self, listed: &[&ListedJob], at: Time, effects: &mut Effects) {
        let waits = listed.iter().any(|one| one.phase() == Phase::Waits);
        if self.cancelled && !self.terminating && waits {
            self.terminating = true;
            effects.commands.push(batch::Command::External(self.terminate()));
        }
        // A listing that is older than the release says nothing of it.
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

    /// It was released at that time, or may be held again from then on.
    pub(super) fn set_released(&mut self, at: Time) {
        (self.released_at, self.last_seen_free, self.free_for) = (at, None, Span(0));
    }

    /// A listing says whether a job that waits has a plan.
    pub(super) fn set_planned(&mut self, planned: bool, at: Time) {
        self.unplanned = (!planned).then(|| self.unplanned.unwrap_or(at));
    }

    /// It was released, and a listing shows it as held.
    pub(super) fn release_again(&mut self, is_held: bool, effects: &mut Effects) {
        let is_to_start = self.was_held && !self.held && !self.withdrawing && !self.cancelled;
        if is_held && is_to_start && !self.releasing {
            self.releasing = true;
            effects.commands.push(batch::Command::External(self.release()));
        }
    }

    /// It has started, which is told once.
    pub(super) fn report_start(&mut self, at: Time, effects: &mut Effects) {
        if !self.started {
            self.started = true;
            let Submission { job, procs, walltime, .. } = self.submission;
            effects.updates.push(StatusUpdate::Started { job, procs, walltime, at });
        }
    }

    pub(super) fn queue(&self) -> Command {
        let Submission { job, procs, walltime, .. } = self.submission;
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

    /// What was asked for and is not answered, but for inspecting.
    pub(super) fn unanswered(&self) -> Vec<Command> {
        if self.queueing {
            let Command::Queue(queue) = self.queue() else { return Vec::new() };
            let end = self.terminating.then(|| self.terminate());
            return end.into_iter().chain([Command::Queue(Queue { resubmitted: true, ..queue })]).collect();
        }
        let steps = [
            (self.releasing, Job::release as fn(&Job) -> Command),
            // A withdrawal follows the release that was asked for before it.
            (self.withdrawing && !self.releasing, Job::withdraw),
            (self.terminating, Job::terminate),
        ];
        steps.iter().filter(|(asked, _)| *asked).map(|(_, step)| step(self)).collect()
    }
}
