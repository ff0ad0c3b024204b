//! The batch system of a server's cluster, which queues and starts jobs.
//!
//! A server uses only what a real batch system offers (invariant 6): submit, cancel, list, estimate. [`embedded`] is
//! Pliant's own batch system; [`external`] mirrors the queue of another one behind the same trait.

pub mod embedded;
pub mod external;

use std::collections::BTreeSet;
use std::sync::Arc;

use pliant_model::{Estimate, JobId, Mebibytes, Procs, Resources, Span, Time, Walltimes};
use pliant_policy::batch::PlanBounds;
use pliant_policy::batch::order::{PriorityParts, PrioritySettings};
use pliant_policy::batch::{LocalPolicy, Submission, Waiting};
use pliant_policy::nodes;
use pliant_policy::tuning::Tuner;
use serde::{Deserialize, Serialize};

use self::embedded::HostResources;
use crate::explain::Shortage;
use crate::job::Exit;
use crate::listing::Listing;
use crate::local::LocalJob;

/// An event that the driver delivers to a batch system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The process of a job has ended.
    Ended {
        /// The job.
        job: JobId,
        /// How it ended.
        exit: Exit,
        /// Its runtime in milliseconds, if measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        elapsed_ms: Option<u64>,
    },
    /// The node failed on which a job ran: nothing of the job is left.
    NodeFailed {
        /// The job.
        job: JobId,
        /// How it has ended if it is not run again.
        exit: Exit,
    },
    /// An event of an external batch system.
    External(external::Event),
}

/// An action that a batch system asks its driver to carry out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Start a job now.
    Run(Run),
    /// End a running job: a termination signal, then a kill signal.
    Terminate {
        /// The job.
        job: JobId,
    },
    /// An action in an external batch system.
    External(external::Command),
}

/// A job to start.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The job.
    pub job: JobId,
    /// The number of processes or threads that it was sized for.
    pub procs: Procs,
    /// The numbers of its processors: fewer than `procs` if the job is folded.
    pub cores: Vec<u32>,
    /// Its walltime.
    pub walltime: Span,
    /// What it has besides processors, where that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldResources>,
}

/// What a running job of the embedded batch system has besides processors.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct HeldResources {
    /// Its memory.
    pub memory: Mebibytes,
    /// The names of its GPUs.
    pub gpus: Vec<String>,
}

/// A status update about a job.
#[derive(Clone, PartialEq, Debug)]
pub enum StatusUpdate {
    /// It has started.
    Started {
        /// The job.
        job: JobId,
        /// Its processors.
        procs: Procs,
        /// Its walltime on them.
        walltime: Span,
        /// Its start.
        at: Time,
    },
    /// It is in the queue and does not start before it is released.
    Held {
        /// The job.
        job: JobId,
    },
    /// A tentative job is ready: it has its processors, and does not start before it is released.
    Ready {
        /// The job.
        job: JobId,
    },
    /// A tentative job was released after it had lost its processors: it never runs under this number.
    ReleasedTooLate {
        /// The job.
        job: JobId,
    },
    /// It was withdrawn while it waited, and will not run.
    Withdrawn {
        /// The job.
        job: JobId,
    },
    /// It could not be withdrawn: it has started or ended.
    NotWithdrawn {
        /// The job.
        job: JobId,
    },
    /// It has ended.
    Ended {
        /// The job.
        job: JobId,
        /// How it ended.
        exit: Exit,
        /// Its runtime in milliseconds, if measured.
        elapsed_ms: Option<u64>,
    },
    /// A node failed under it: it does not run under this number any more.
    NodeFailed {
        /// The job.
        job: JobId,
        /// How it has ended if it is not run again.
        exit: Exit,
    },
    /// A run of a local user's job has ended.
    LocalEnded(LocalJob),
}

/// The effects of a call: commands for the driver, status updates for the server.
#[derive(Default, Debug)]
pub struct Effects {
    /// Commands, in order.
    pub commands: Vec<Command>,
    /// Status updates, in order.
    pub updates: Vec<StatusUpdate>,
}

/// How busy a cluster is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Idle processors.
    pub free: Procs,
    /// Running jobs.
    pub running: u32,
    /// Waiting jobs.
    pub waiting: u32,
}

/// The largest job that a batch system takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bounds {
    /// Its processors, if fewer than the cluster has.
    pub procs: Option<Procs>,
    /// Its walltime, if limited.
    pub walltime: Option<Span>,
}

/// A batch system. Time never decreases between calls.
pub trait BatchSystem: Send {
    /// The partitions in which a request may run, each with an estimate of its own; none stands for the server's own, which alone there is
    /// if the batch system has no partitions. An error says why it may run in none.
    fn partitions_for(&self, resources: Option<&Resources>) -> Result<Vec<Option<String>>, String> {
        let named = resources.map(|resources| &resources.batch).filter(|options| !options.is_empty());
        match named {
            Some(options) => Err(format!(
                "expected work that names no partition, account or quality of service, since this cluster has none; found {options}"
            )),
            None => Ok(vec![None]),
        }
    }

    /// The estimate for a request if it were submitted now to a partition, the server's own if none is named; none if it never fits.
    fn estimate(
        &mut self,
        now: Time,
        partition: Option<&str>,
        walltimes: &Walltimes<'_>,
        tuner: Tuner,
    ) -> Option<Estimate>;

    /// What is free by its plan ([`BatchScheduler::plan_bounds`]); none if it has no such bounds.
    ///
    /// [`BatchScheduler::plan_bounds`]: pliant_policy::batch::BatchScheduler::plan_bounds
    fn plan_bounds(&mut self, _now: Time) -> Option<PlanBounds> {
        None
    }

    /// Whether it counts what jobs need besides processors.
    fn counts_resources(&self) -> bool {
        false
    }

    /// Queues a job.
    fn submit(&mut self, now: Time, submission: Submission, effects: &mut Effects);

    /// Queues a moldable job. A batch system that chooses among sizes itself is offered these; others get the one of the
    /// submission.
    fn submit_moldable(
        &mut self,
        now: Time,
        submission: Submission,
        _walltimes: &Walltimes<'_>,
        effects: &mut Effects,
    ) {
        self.submit(now, submission, effects);
    }

    /// Queues a job that does not start before it is released. [`StatusUpdate::Held`] confirms it, now or later.
    fn hold(&mut self, now: Time, submission: Submission, effects: &mut Effects);

    /// Like [`Self::hold`], for a moldable job.
    fn hold_moldable(
        &mut self,
        now: Time,
        submission: Submission,
        _walltimes: &Walltimes<'_>,
        effects: &mut Effects,
    ) {
        self.hold(now, submission, effects);
    }

    /// Queues a job tentatively: it waits in the queue like any other job, but once it has its processors it does not start
    /// before it is released. [`StatusUpdate::Held`] confirms it, [`StatusUpdate::Ready`] reports its processors, and
    /// [`StatusUpdate::ReleasedTooLate`] a late release.
    fn submit_tentatively(&mut self, now: Time, submission: Submission, effects: &mut Effects);

    /// Takes a waiting job, described as at its submission, out of the queue until it is released. False if it does not wait, or
    /// if the batch system has commands of its own for that.
    fn keep_back(&mut self, _now: Time, _submission: Submission) -> bool {
        false
    }

    /// A waiting job has started already, before an older state was put back: it runs from now on, whatever the policy says. Only in the
    /// embedded batch system; others know what runs.
    fn started_before(&mut self, _now: Time, _job: JobId, _effects: &mut Effects) {}

    /// The priority that an operator has given to a job in the queue: the highest is served first. 0 if there is none.
    fn job_priority(&self, _job: JobId) -> i64 {
        0
    }

    /// Gives a waiting job a priority, and makes the plan again. False if the job does not wait, or if the batch system has commands
    /// of its own for that.
    fn set_job_priority(&mut self, _now: Time, _job: JobId, _priority: i64) -> bool {
        false
    }

    /// Lets a held or tentative job start.
    fn release(&mut self, now: Time, job: JobId, effects: &mut Effects);

    /// Withdraws a job if it still waits. [`StatusUpdate::Withdrawn`] or [`StatusUpdate::NotWithdrawn`] follows, now or later.
    fn withdraw(&mut self, now: Time, job: JobId, effects: &mut Effects);

    /// Cancels a waiting job, or ends a running one. [`StatusUpdate::Ended`] follows, now or later.
    fn cancel(&mut self, now: Time, job: JobId, effects: &mut Effects);

    /// Applies an event.
    fn on(&mut self, now: Time, event: Event, effects: &mut Effects);

    /// Starts what is due, after all other events of this instant.
    fn due(&mut self, now: Time, effects: &mut Effects);

    /// When [`BatchSystem::due`] is due if nothing else happens.
    fn next_due(&self) -> Option<Time>;

    /// The plan of a waiting job.
    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate>;

    /// The waiting jobs in queue order, each with its plan.
    fn waiting(&mut self, now: Time) -> Vec<Waiting>;

    /// The name of the partition in which a job would wait, if it names partitions or several are compared.
    fn named_partition(&mut self, _now: Time, _submission: &Submission) -> Option<String> {
        None
    }

    /// The waiting jobs among which a job waits: those of its partition.
    fn waiting_with(&mut self, now: Time, _job: JobId) -> Vec<Waiting> {
        self.waiting(now)
    }

    /// How busy the cluster is.
    fn usage(&self) -> Usage;

    /// The running and waiting jobs, for plans of others (invariant 6: what a listing shows).
    fn snapshot(&mut self, now: Time) -> pliant_policy::batch::Dump;

    /// The snapshot of a cluster that is planned by its nodes; none otherwise.
    fn nodes(&mut self, _now: Time) -> Option<nodes::ClusterSnapshot> {
        None
    }

    /// The same with all that its plan goes by: also waiting jobs of other partitions with some of its nodes.
    fn planned_nodes(&mut self, now: Time) -> Option<nodes::ClusterSnapshot> {
        self.nodes(now)
    }

    /// Changes the size, the policy and the host of the embedded batch system. Its jobs stay: running jobs keep their processors,
    /// and waiting jobs are planned again.
    fn configure(
        &mut self,
        _now: Time,
        _procs: Procs,
        _policy: LocalPolicy,
        _host: Option<Arc<HostResources>>,
    ) {
    }

    /// The size, the policy and the host of the embedded batch system; none for an external one.
    fn configuration(&self) -> Option<(Procs, String, Option<Arc<HostResources>>)> {
        None
    }

    /// Sets what orders by usage depend on, in the embedded batch system. Waiting jobs are planned again.
    fn set_priority(&mut self, _now: Time, _priority: &PrioritySettings) {}

    /// What orders by usage depend on; none for an external batch system.
    fn priority_settings(&self) -> Option<&PrioritySettings> {
        None
    }

    /// The parts of the priority of a waiting job, if its order has such parts.
    fn priority(&mut self, _now: Time, _job: JobId) -> Option<PriorityParts> {
        None
    }

    /// The processors of the cluster; none if they are not known.
    fn capacity(&self) -> Option<Procs> {
        None
    }

    /// The largest job that a partition accepts, the server's own if none is named.
    fn bounds(&self, _partition: Option<&str>) -> Bounds {
        Bounds::default()
    }

    /// Why a partition starts no new jobs at the moment, for people; none if it does.
    fn closed_partition(&self, _partition: Option<&str>) -> Option<String> {
        None
    }

    /// Why no jobs are accepted at the moment, for people; none if they are.
    fn closed(&self) -> Option<String> {
        None
    }

    /// Why a waiting job has no plan, for people, if that is known.
    fn unplanned(&self, _job: JobId) -> Option<String> {
        None
    }

    /// What running jobs leave too little of for a waiting job to start now on so many processors; empty if only the jobs ahead of it
    /// keep it from starting, or if that is not known.
    fn shortages(&self, _job: JobId, procs: Procs) -> Vec<Shortage> {
        Shortage::of("processors", procs.0, self.usage().free.0).into_iter().collect()
    }

    /// True if a job was cancelled that its batch system still has.
    fn is_cancelling(&self, _job: JobId) -> bool {
        false
    }

    /// True if a waiting job is without a plan for a while.
    fn is_stuck(&self, _now: Time, _job: JobId) -> bool {
        false
    }

    /// True if a job whose submission is unanswered is to leave the queue: it need not be submitted any more.
    fn is_unwanted(&self, _job: JobId) -> bool {
        false
    }

    /// True if a job of an external batch system was cancelled, or is not known.
    fn is_cancelled(&self, _job: JobId) -> bool {
        false
    }

    /// Why none of this server's waiting jobs start at the moment, for people: it has reached a limit. Jobs from other
    /// servers would wait as well.
    fn limited(&self) -> Option<String> {
        None
    }

    /// The waiting jobs that a user or an administrator holds.
    fn held_jobs(&self) -> BTreeSet<JobId> {
        BTreeSet::new()
    }

    /// The last listing, if there are listings.
    fn mirror(&self) -> Option<&Listing> {
        None
    }

    /// The local users' running and waiting jobs.
    fn local_jobs(&self) -> Vec<LocalJob> {
        Vec::new()
    }

    /// Unanswered commands: a restarted driver carries them out again.
    fn unanswered(&self) -> Vec<Command> {
        Vec::new()
    }

    /// The whole state, as data.
    fn dump(&mut self, now: Time) -> Dump;
}

/// The state of a batch system, as data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dump {
    /// State of the embedded batch system.
    Embedded(Box<embedded::Dump>),
    /// State of an external batch system's mirror.
    External(Box<external::Dump>),
}
