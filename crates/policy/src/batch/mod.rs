//! Local batch policies: when each job of one cluster starts.
//!
//! A [`BatchScheduler`] is the scheduling half of a batch system, without processes: the simulator drives one per
//! cluster, a server keeps one as its model of an external queue, and the embedded batch system runs one. Its operations
//! are those of a real batch system: submit, cancel while waiting, list, estimate (ARCHITECTURE.md, invariant 6).
//!
//! To add a policy: one file here, one line in [`REGISTRY`]. The order of the waiting jobs is separate ([`order`]);
//! [`LocalPolicy`] combines both.

mod aggressive;
mod backfill;
mod cbf;
mod cbf_replan;
mod change;
mod custom;
mod dump;
mod easy;
mod event_driven;
mod fcfs;
mod folding;
mod h1;
mod h2;
mod h3;
mod h3_head;
pub mod nodes;
mod occupancy;
pub mod order;
mod picked;
mod queue;
mod reservation_queue;
mod running;
mod sized;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use pliant_model::{ClusterNodes, Estimate, JobId, Owner, Procs, Resources, Span, Time, Walltimes};

pub(crate) use cbf::Gaps;
pub use change::PresentJobs;
pub(crate) use custom::custom;
pub use custom::{BatchPolicy, BatchView};
pub use dump::{Dump, JobOnNodes, RestoreError, RunningJob};
pub use order::LocalPolicy;
pub use picked::{Picks, picked};
pub use sized::SizingRule;
pub(crate) use sized::sized;

use crate::UnknownName;
use crate::profile::{FreePlan, StartBounds};
use crate::tuning::Tuner;

/// A job of fixed shape, as submitted to a batch system.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Submission {
    /// The job.
    pub job: JobId,
    /// Processors requested, from 1 to those of the cluster.
    pub procs: Procs,
    /// Walltime requested; at least 1 s.
    pub walltime: Span,
    /// When it was submitted to the federation; a move does not change it.
    pub submit: Time,
    /// The user who owns it.
    pub owner: Owner,
    /// What it needs besides processors.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub resources: Option<Arc<Resources>>,
}

impl Submission {
    /// A job of an unknown user, submitted at time 0.
    pub fn new(job: JobId, procs: Procs, walltime: Span) -> Submission {
        let (submit, owner, resources) = (Time::ZERO, Owner::UNKNOWN, None);
        Submission { job, procs, walltime, submit, owner, resources }
    }
}

/// A job that starts now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// Its processors: fewer than requested if it is folded.
    pub procs: Procs,
    /// Its walltime: longer than requested if it is folded.
    pub walltime: Span,
}

/// A waiting job with its plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waiting {
    /// The job.
    pub job: JobId,
    /// The planned shape and start.
    pub plan: Estimate,
}

/// What is free by the plan of a cluster, and what a tuner needs to know besides.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanBounds {
    /// The free processors over time.
    pub free: FreePlan,
    /// The jobs that run or wait, if sizes are chosen by the free processors alone.
    pub jobs: Option<usize>,
}

/// The scheduling half of a batch system.
///
/// Time never goes back between calls. A driver calls [`BatchScheduler::start_due`] after the other events
/// of an instant, and again whenever the clock reaches [`BatchScheduler::next_start`].
pub trait BatchScheduler: Send {
    /// Queues a job.
    fn submit(&mut self, now: Time, submission: Submission);

    /// Cancels those of `jobs` that still wait and are not due; returns their number. Running jobs are not affected.
    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize;

    /// Whether jobs need what they ask for besides processors: [`Submission::resources`]. Else only processors count.
    fn counts_resources(&self) -> bool {
        false
    }

    /// Removes a job that has ended, at its walltime or before.
    fn finish(&mut self, now: Time, job: JobId);

    /// Extends running jobs that did not end when planned to these later ends. Only for plans by predictions
    /// ([`crate::runtimes::predicted`]); called before any other event of `now`. Jobs planned behind them are planned again and
    /// may start later than before.
    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]);

    /// Appends the jobs that start at `now`, in starting order; they count as running from now on.
    fn start_due(&mut self, now: Time, started: &mut Vec<Start>);

    /// The next start if no other event occurs, as far as the policy plans ahead.
    fn next_start(&self) -> Option<Time>;

    /// The estimate for a request submitted now; none if it never fits.
    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate>;

    /// As [`BatchScheduler::estimate`], for a caller that has no use for completions after `latest`: the estimate may then be none,
    /// which costs less.
    fn estimate_by(
        &mut self,
        now: Time,
        walltimes: &Walltimes<'_>,
        tuner: Tuner,
        _latest: Time,
    ) -> Option<Estimate> {
        self.estimate(now, walltimes, tuner)
    }

    /// Lower bounds on the start of any estimate, if the policy keeps them; they allow skipping clusters.
    fn start_bounds(&self) -> Option<&StartBounds> {
        None
    }

    /// A number that changes whenever a start may have become earlier than by [`BatchScheduler::free_steps`] before; none if that is not
    /// known.
    fn releases(&self) -> Option<u64> {
        None
    }

    /// Replaces `steps` by what is free from `now` on by the plan, of which the first `count` steps are of use; false if the policy
    /// does not plan every job by what is free. No estimate starts where too little is free by these steps, as long as no event occurs.
    fn free_steps(&mut self, _now: Time, _count: usize, _steps: &mut Vec<(Time, Procs)>) -> bool {
        false
    }

    /// What is free by the plan: no estimate made from now on starts earlier than by it while no processors become free earlier than
    /// planned. None if the plan has no such bounds.
    fn plan_bounds(&mut self, _now: Time) -> Option<PlanBounds> {
        None
    }

    /// Appends the waiting jobs in queue order, each with its plan.
    fn list(&mut self, now: Time, waiting: &mut Vec<Waiting>);

    /// The plan of a waiting job; none if the job does not wait here.
    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate>;

    /// The parts of the priority of a waiting job; none if the queue order has no such parts, or the job does not wait here.
    fn priority(&mut self, _now: Time, _job: JobId) -> Option<order::PriorityParts> {
        None
    }

    /// What a running job has of the nodes, then of the licences, where nodes are distinguished; none if any nodes will do.
    fn allocation(&self, _job: JobId) -> Option<&[nodes::Part]> {
        None
    }

    /// Number of waiting jobs.
    fn queue_length(&self) -> usize;

    /// The state as data, for the driver that owns the scheduler. Policies must not use it, since real batch systems do not
    /// show theirs.
    fn dump(&self) -> Dump;

    /// Replaces the state by that of a dump made at `now`. An invalid dump is refused without any change.
    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError>;

    /// A clone, for plans that may be discarded.
    fn boxed_clone(&self) -> Box<dyn BatchScheduler>;
}

/// Creates a scheduler for an empty cluster of that many processors at that time.
pub type Constructor = fn(Procs, Time) -> Box<dyn BatchScheduler>;

/// Creates a scheduler that serves jobs in a queue order.
pub type OrderedConstructor = fn(Procs, order::Ranking) -> Box<dyn BatchScheduler>;

/// Creates a scheduler for an empty cluster of these nodes at that time.
pub type NodesConstructor = fn(&ClusterNodes, Time) -> Box<dyn BatchScheduler>;

/// A registered policy.
pub struct Registered {
    /// The name in options and files.
    pub name: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// True if jobs may run in other shapes than requested.
    pub folds: bool,
    /// Creates a scheduler.
    pub new: Constructor,
    /// Creates a scheduler that serves jobs in a queue order, if the policy supports it.
    pub ordered: Option<OrderedConstructor>,
    /// Creates a scheduler that distinguishes the nodes of the cluster, if the policy supports it.
    pub on_nodes: Option<NodesConstructor>,
}

/// All local batch policies, in the order of listings.
pub const REGISTRY: &[Registered] = &[
    Registered {
        name: "fcfs",
        summary: "first come, first served: strict order of submission",
        folds: false,
        new: fcfs::new,
        ordered: Some(fcfs::ordered),
        on_nodes: None,
    },
    Registered {
        name: "cbf",
        summary: "conservative backfilling: a reservation for every job",
        folds: false,
        new: cbf::new,
        ordered: None,
        on_nodes: Some(cbf::on_nodes),
    },
    Registered {
        name: "cbf-replan",
        summary: "conservative backfilling that plans all waiting jobs anew at every early end and cancellation",
        folds: false,
        new: cbf_replan::new,
        ordered: None,
        on_nodes: Some(cbf_replan::on_nodes),
    },
    Registered {
        name: "easy",
        summary: "aggressive backfilling: a reservation for the job at the head only",
        folds: false,
        new: easy::new,
        ordered: Some(easy::ordered),
        on_nodes: None,
    },
    Registered {
        name: "easy-sjbf",
        summary: "easy, but the shortest of the jobs that do not delay the head is backfilled first",
        folds: false,
        new: easy::shortest_first,
        ordered: Some(easy::ordered_shortest_first),
        on_nodes: None,
    },
    Registered {
        name: "backfill",
        summary: "paper 001's backfilling: EASY's rule, when processors are released",
        folds: false,
        new: backfill::new,
        ordered: Some(backfill::ordered),
        on_nodes: None,
    },
    Registered {
        name: "h1",
        summary: "strict order with integer folding: a folded job ends before it could have started unfolded",
        folds: true,
        new: h1::new,
        ordered: None,
        on_nodes: None,
    },
    Registered {
        name: "h1-completion",
        summary: "H1 with folded jobs that end no later than unfolded ones",
        folds: true,
        new: h1::by_completion,
        ordered: None,
        on_nodes: None,
    },
    Registered {
        name: "h2",
        summary: "strict order with non-integer folding: the earliest completion",
        folds: true,
        new: h2::new,
        ordered: None,
        on_nodes: None,
    },
    Registered {
        name: "h3",
        summary: "H1 with backfilling: jobs are folded into a table of reservations",
        folds: true,
        new: h3::new,
        ordered: None,
        on_nodes: None,
    },
    Registered {
        name: "h3-head",
        summary: "H1 with backfilling, without a table: only the job at the head is folded",
        folds: true,
        new: h3_head::new,
        ordered: None,
        on_nodes: None,
    },
];

/// Names of all local policies: each batch policy, alone and with each queue order that it supports.
pub fn local_names() -> Vec<String> {
    let in_order = |batch: &'static Registered| {
        let orders = order::ORDERS.iter().filter(|order| batch.ordered.is_some() && !order.is_first_come());
        orders.map(|order| format!("{}/{}", batch.name, order.name))
    };
    REGISTRY.iter().flat_map(|one| std::iter::once(one.name.to_owned()).chain(in_order(one))).collect()
}

/// Names of the registered policies.
pub fn names() -> Vec<&'static str> {
    REGISTRY.iter().map(|one| one.name).collect()
}

/// The batch policy with that name.
pub fn by_name(name: &str) -> Result<&'static Registered, UnknownName> {
    REGISTRY.iter().find(|one| one.name == name).ok_or_else(|| UnknownName {
        what: "batch policy",
        found: name.to_owned(),
        expected: names(),
    })
}
