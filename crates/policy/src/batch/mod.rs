//! Local batch policies: what starts when on one cluster.
//!
//! A [`BatchScheduler`] is the scheduling half of a batch system, without the processes: the simulator
//! drives one per cluster, a server keeps one as its picture of a foreign queue, and the embedded batch
//! system runs one for real. From outside it can be asked what a real batch system can be asked: submit,
//! cancel while waiting, list, estimate (ARCHITECTURE.md, invariant 6).
//!
//! To add a policy: one file here, one queue in [`REGISTRY`]. In which order waiting jobs are served is a matter of its
//! own ([`order`]); [`LocalPolicy`] is the two together.

mod aggressive;
mod backfill;
mod cbf;
mod dump;
mod easy;
mod event_driven;
mod fcfs;
mod folding;
mod h1;
mod h2;
mod h3;
mod h3_head;
mod occupancy;
pub mod order;
mod queue;
mod reservation_queue;
mod running;
#[cfg(test)]
mod tests;

use pliant_model::{Estimate, JobId, Owner, Procs, Span, Time, Walltimes};

pub use dump::{Dump, RestoreError, RunningJob};
pub use order::LocalPolicy;

use crate::UnknownName;
use crate::profile::StartBounds;
use crate::tuning::Tuner;

/// A job as a batch system sees it: a fixed shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Submission {
    /// The job.
    pub job: JobId,
    /// Processors asked for; at least 1 and at most the cluster's.
    pub procs: Procs,
    /// Walltime asked for; at least 1 s.
    pub walltime: Span,
    /// When it was submitted to the federation, which a move does not change.
    pub submit: Time,
    /// The user who owns it.
    pub owner: Owner,
}

impl Submission {
    /// A job of an unknown user, submitted at time 0.
    pub fn new(job: JobId, procs: Procs, walltime: Span) -> Submission {
        Submission { job, procs, walltime, submit: Time::ZERO, owner: Owner::UNKNOWN }
    }
}

/// A job that starts now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Start {
    /// The job.
    pub job: JobId,
    /// The processors it gets: fewer than it asked for if it is folded.
    pub procs: Procs,
    /// The walltime it gets: longer than it asked for if it is folded.
    pub walltime: Span,
}

/// A job that waits, with the plan for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waiting {
    /// The job.
    pub job: JobId,
    /// Planned shape and start.
    pub plan: Estimate,
}

/// The scheduling half of a batch system.
///
/// Time never goes back between calls. A driver calls [`BatchScheduler::start_due`] after the other events
/// of an instant, and again whenever the clock reaches [`BatchScheduler::next_start`].
pub trait BatchScheduler: Send {
    /// Queues a job.
    fn submit(&mut self, now: Time, submission: Submission);

    /// Withdraws those of `jobs` that still wait and have not come due; returns how many. Running jobs are
    /// left alone.
    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize;

    /// A started job has ended, at its walltime or before.
    fn finish(&mut self, now: Time, job: JobId);

    /// Running jobs have not ended when they were planned to, and are planned to end at these later times. Only where
    /// plans are made by predictions ([`crate::runtimes::predicted`]); told before whatever else happens at `now`. What was
    /// planned behind them is planned anew, and may start later than it was told.
    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]);

    /// Appends the jobs that start at `now`, in starting order; they are running from now on.
    fn start_due(&mut self, now: Time, started: &mut Vec<Start>);

    /// When the next job will start if nothing else happens, as far as the policy plans ahead.
    fn next_start(&self) -> Option<Time>;

    /// What a request would get if it were submitted now; none if it never fits.
    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate>;

    /// Bounds on the earliest start of any estimate, if the policy keeps them; used to leave clusters out.
    fn start_bounds(&self) -> Option<&StartBounds> {
        None
    }

    /// Appends the waiting jobs in queue order, each with its plan.
    fn list(&mut self, now: Time, waiting: &mut Vec<Waiting>);

    /// The plan of one waiting job; none if it does not wait here (any more).
    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate>;

    /// How many jobs wait.
    fn queue_length(&self) -> usize;

    /// The state, as data: for the driver that owns the scheduler to survive a restart. No policy may look
    /// at it, since no real batch system would show it.
    fn dump(&self) -> Dump;

    /// Takes over the state of a dump that was made at `now`, whatever the present one is. A dump that
    /// cannot be is refused and leaves everything as it is.
    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError>;

    /// A copy, for plans that may be thrown away.
    fn boxed_clone(&self) -> Box<dyn BatchScheduler>;
}

/// Makes a scheduler for a cluster of that many processors, empty at that time.
pub type Constructor = fn(Procs, Time) -> Box<dyn BatchScheduler>;

/// The same in a queue order.
pub type OrderedConstructor = fn(Procs, Time, order::Ordering) -> Box<dyn BatchScheduler>;

/// A registered policy.
pub struct Registered {
    /// Its name in options and files.
    pub name: &'static str,
    /// What it does, in a queue.
    pub summary: &'static str,
    /// Whether it runs jobs in other shapes than they asked for.
    pub folds: bool,
    /// Makes one.
    pub new: Constructor,
    /// Makes one that serves its queue in another order than that of submission, if it can.
    pub ordered: Option<OrderedConstructor>,
}

/// Every local batch policy, in the order in which they are listed to users.
pub const REGISTRY: &[Registered] = &[
    Registered {
        name: "fcfs",
        summary: "first come, first served: strict order of submission",
        folds: false,
        new: fcfs::new,
        ordered: Some(fcfs::ordered),
    },
    Registered {
        name: "cbf",
        summary: "conservative backfilling: a reservation for every job",
        folds: false,
        new: cbf::new,
        ordered: None,
    },
    Registered {
        name: "easy",
        summary: "aggressive backfilling: a reservation for the job at the head only",
        folds: false,
        new: easy::new,
        ordered: Some(easy::ordered),
    },
    Registered {
        name: "backfill",
        summary: "paper 001's backfilling: EASY's rule, when processors are released",
        folds: false,
        new: backfill::new,
        ordered: Some(backfill::ordered),
    },
    Registered {
        name: "h1",
        summary: "strict order with integer folding: a folded job ends before it could have started unfolded",
        folds: true,
        new: h1::new,
        ordered: None,
    },
    Registered {
        name: "h1-completion",
        summary: "H1 with folded jobs that end no later than unfolded ones",
        folds: true,
        new: h1::by_completion,
        ordered: None,
    },
    Registered {
        name: "h2",
        summary: "strict order with non-integer folding: the earliest completion",
        folds: true,
        new: h2::new,
        ordered: None,
    },
    Registered {
        name: "h3",
        summary: "H1 with backfilling: jobs are folded into a table of reservations",
        folds: true,
        new: h3::new,
        ordered: None,
    },
    Registered {
        name: "h3-head",
        summary: "H1 with backfilling, without a table: only the job at the head is folded",
        folds: true,
        new: h3_head::new,
        ordered: None,
    },
];

/// Names of every local policy: of each batch policy, and of it in each queue order that it can serve.
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

/// The policy of that name.
pub fn by_name(name: &str) -> Result<&'static Registered, UnknownName> {
    REGISTRY.iter().find(|one| one.name == name).ok_or_else(|| UnknownName {
        what: "batch policy",
        found: name.to_owned(),
        expected: names(),
    })
}
