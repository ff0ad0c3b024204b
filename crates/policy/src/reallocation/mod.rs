//! Reallocation: moving waiting jobs between clusters, at regular intervals (paper 000, section 3.2.2;
//! spec A.0.5).
//!
//! One event is one call of [`reallocate`]. It works on the agent's [`Federation`] and returns the moves it
//! made. The algorithm says how a job is taken up (`regular`, `all_cancellation`, `no_worse`), the
//! heuristic in which order (`order`). [`siblings`] moves nothing by itself: it is the baseline that moves are
//! compared with. To add a heuristic: one line in [`Heuristic`] and its key in
//! `order`; to add an algorithm: one file here and one line in [`Algorithm`].

mod all_cancellation;
mod no_worse;
mod order;
mod regular;
pub mod siblings;
#[cfg(test)]
mod tests;

use pliant_model::{ClusterId, Estimate, JobId, MoveReason, Reason, Span, Time};

use crate::federation::Federation;

crate::named_enum! {
    /// How waiting jobs are taken up at a reallocation event (paper 000, section 3.2.2).
    Algorithm, "reallocation algorithm", {
        /// A job moves when another cluster completes it earlier by at least the threshold.
        Regular = "regular",
        /// Every waiting job is cancelled and submitted again.
        AllCancellation = "all-cancellation",
        /// All-cancellation in which no job is ever given a later ECT than it had.
        NoWorse = "no-worse",
        /// Every waiting job has a copy on every other cluster; the first to start runs it.
        Siblings = "siblings",
    }
}

crate::named_enum! {
    /// In which order jobs are taken up at a reallocation event.
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
    /// How jobs are taken up.
    pub algorithm: Algorithm,
    /// In which order.
    pub heuristic: Heuristic,
    /// Time between two events.
    pub period: Span,
    /// The least gain for which `regular` moves a job.
    pub threshold: Span,
    /// How many of the oldest jobs the heuristics other than MCT consider per event.
    pub window: usize,
}

impl Reallocation {
    /// The paper's parameters: every hour, at least a minute, the 20 oldest.
    pub fn new(algorithm: Algorithm, heuristic: Heuristic) -> Reallocation {
        Reallocation { algorithm, heuristic, period: Span(3600), threshold: Span(60), window: 20 }
    }
}

/// One move of a waiting job, as decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The job.
    pub job: JobId,
    /// From where.
    pub from: ClusterId,
    /// To where.
    pub to: ClusterId,
    /// The completion expected before the event; [`Time::MAX`] of a job that was not planned.
    pub before: Time,
    /// Its new shape and start.
    pub estimate: Estimate,
    /// Why.
    pub reason: MoveReason,
}

/// One reallocation event at `now`. Returns the moves between clusters, in the order in which they were made; of
/// [`Algorithm::Siblings`] the copies that were queued, each of which may become a move.
pub fn reallocate(policy: &Reallocation, federation: &mut Federation, now: Time) -> Vec<Move> {
    match policy.algorithm {
        Algorithm::Regular => regular::reallocate(policy, federation, now),
        Algorithm::AllCancellation => all_cancellation::reallocate(policy, federation, now),
        Algorithm::NoWorse => no_worse::reallocate(policy, federation, now),
        Algorithm::Siblings => siblings::reallocate(federation, now),
    }
}

/// Submits a cancelled request where it completes first, and notes the move if that is elsewhere.
fn place(
    federation: &mut Federation,
    now: Time,
    mut tracked: crate::federation::Tracked,
    before: Time,
    (cluster, estimate): (ClusterId, Estimate),
    reason: MoveReason,
    moves: &mut Vec<Move>,
) {
    let from = tracked.cluster;
    if cluster != from {
        tracked.cluster = cluster;
        tracked.moves += 1;
        tracked.reason = Reason::Moved(reason);
        moves.push(Move { job: tracked.request.id, from, to: cluster, before, estimate, reason });
    }
    federation.submit(now, tracked, estimate);
}
