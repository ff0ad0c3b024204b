//! Reallocation: moving waiting jobs between clusters, at regular intervals (paper 000, section 3.2.2).
//!
//! [`reallocate`] runs one reallocation cycle on the agent's [`Federation`] and returns its moves. The algorithm says how
//! jobs are considered (`regular`, `all_cancellation`, `no_worse`), the heuristic in which order (`order`). [`siblings`]
//! does not move jobs: it is a baseline. To add a heuristic: one line in [`Heuristic`] and its key in `order`; to add
//! an algorithm: one file here and one line in [`Algorithm`].

mod all_cancellation;
mod no_worse;
mod order;
mod regular;
pub mod siblings;
#[cfg(test)]
mod tests;

use pliant_model::{ClusterId, Estimate, JobId, MoveReason, Procs, Reason, Span, Time};

use crate::failure::{Failure, PolicyError};
use crate::federation::Federation;

crate::named_enum! {
    /// How a reallocation cycle considers waiting jobs (paper 000, section 3.2.2).
    Algorithm, "reallocation algorithm", {
        /// A job moves when another cluster completes it earlier by at least the threshold.
        Regular = "regular",
        /// Every waiting job is cancelled and submitted again.
        AllCancellation = "all-cancellation",
        /// All-cancellation in which no job gets a later ECT than before.
        NoWorse = "no-worse",
        /// Every waiting job has a sibling job on every other cluster; the first to start runs.
        Siblings = "siblings",
    }
}

crate::named_enum! {
    /// The order in which a reallocation cycle considers jobs.
    Heuristic, "heuristic", {
        /// Order of submission.
        Mct = "mct",
        /// Smallest minimum ECT first.
        MinMin = "minmin",
        /// Largest minimum ECT first.
        MaxMin = "maxmin",
        /// Largest difference between the best and the second-best ECT first.
        Sufferage = "sufferage",
        /// Largest gain over the present ECT first.
        MaxGain = "maxgain",
        /// Largest gain per processor first.
        MaxRelGain = "maxrelgain",
    }
}

/// A reallocation policy with its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reallocation {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The order.
    pub heuristic: Heuristic,
    /// Time between two cycles.
    pub period: Span,
    /// The smallest gain for which `regular` moves a job.
    pub threshold: Span,
    /// Number of the oldest jobs that heuristics other than MCT consider per cycle.
    pub window: usize,
}

impl Reallocation {
    /// The paper's parameters: a cycle per hour, a threshold of one minute, the 20 oldest jobs.
    pub fn new(algorithm: Algorithm, heuristic: Heuristic) -> Reallocation {
        Reallocation { algorithm, heuristic, period: Span(3600), threshold: Span(60), window: 20 }
    }
}

/// A move of a waiting job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The job.
    pub job: JobId,
    /// The source.
    pub from: ClusterId,
    /// The target.
    pub to: ClusterId,
    /// The completion expected before the cycle; [`Time::MAX`] for a job without a plan.
    pub before: Time,
    /// Its new shape and start.
    pub estimate: Estimate,
    /// The reason.
    pub reason: MoveReason,
}

/// A heuristic of reallocation: which waiting job a cycle considers next.
pub trait HeuristicRule: Send + Sync {
    /// The urgency of each of these jobs, of which the highest is considered next. Ties go to the oldest job.
    ///
    /// # Errors
    ///
    /// The heuristic failed.
    fn urgencies(&self, now: Time, jobs: &[JobOptions]) -> Result<Vec<f64>, PolicyError>;
}

/// A waiting job, as a heuristic of reallocation sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobOptions {
    /// The job.
    pub job: JobId,
    /// Its requested processors.
    pub procs: Procs,
    /// The cluster where it waits, or waited before it was cancelled.
    pub home: ClusterId,
    /// Its completion there; [`Time::MAX`] without a plan.
    pub current: Time,
    /// The best other cluster with its estimate, or the best cluster if the job was cancelled; none if no cluster accepts it.
    pub best: Option<(ClusterId, Estimate)>,
    /// The earliest completion of all, the present one included if the job may stay; [`Time::MAX`] if there is none.
    pub first: Time,
    /// The second-earliest; [`Time::MAX`] if there is none.
    pub second: Time,
}

/// Runs one reallocation cycle at `now`. Returns the moves in the order in which they were made; for
/// [`Algorithm::Siblings`] the submitted sibling jobs, each of which may become a move.
pub fn reallocate(policy: &Reallocation, federation: &mut Federation, now: Time) -> Vec<Move> {
    run_cycle(policy, Urgency::Named(policy.heuristic), federation, now)
}

/// The same by a custom heuristic instead of that of the policy.
pub fn reallocate_by(
    policy: &Reallocation,
    rule: &dyn HeuristicRule,
    failure: &Failure,
    federation: &mut Federation,
    now: Time,
) -> Vec<Move> {
    run_cycle(policy, Urgency::Custom(rule, failure), federation, now)
}

/// By what the next job is chosen.
#[derive(Clone, Copy)]
enum Urgency<'a> {
    Named(Heuristic),
    Custom(&'a dyn HeuristicRule, &'a Failure),
}

impl Urgency<'_> {
    /// True if jobs are considered in order of submission, without a window.
    fn is_by_submission(self) -> bool {
        matches!(self, Urgency::Named(Heuristic::Mct))
    }
}

fn run_cycle(policy: &Reallocation, by: Urgency<'_>, federation: &mut Federation, now: Time) -> Vec<Move> {
    match policy.algorithm {
        Algorithm::Regular => regular::reallocate(policy, by, federation, now),
        Algorithm::AllCancellation => all_cancellation::reallocate(policy, by, federation, now),
        Algorithm::NoWorse => no_worse::reallocate(policy, by, federation, now),
        Algorithm::Siblings => siblings::reallocate(federation, now),
    }
}

/// Submits a cancelled request where it completes first, and records a move if that is another cluster.
fn move_job(
    federation: &mut Federation,
    now: Time,
    mut tracked: crate::federation::Tracked,
    before: Time,
    (cluster, estimate): (ClusterId, Estimate),
    reason: MoveReason,
    moves: &mut Vec<Move>,
) {
    let from = tracked.cluster;
    let reason = if federation.is_drained(from) { MoveReason::Drained } else { reason };
    if cluster != from {
        tracked.cluster = cluster;
        tracked.moves += 1;
        tracked.reason = Reason::Moved(reason);
        moves.push(Move { job: tracked.request.id, from, to: cluster, before, estimate, reason });
    }
    federation.submit(now, tracked, estimate.shape());
}
