//! H1, integer folding (paper 001, "Heuristic H1"): the job at the head of the queue gets the largest
//! divisor `n` of its processors with `start(n) + walltime * p / n` within a limit, or, if there is none, all
//! that it asked for.
//!
//! The paper's limit, read literally, is the start without folding: a folded job ends before it could have
//! begun, and delays no other job. The other reading is the completion without folding, over proper divisors (the
//! job itself always meets it). Cost: one look at the releases per divisor that could still meet the limit.

use pliant_model::{Procs, Span, Time};

use super::BatchScheduler;
use super::folding::{self, folded};

/// The literal reading.
pub(super) fn new(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    folding::in_order(procs, literal)
}

/// The reading with the completion as limit.
pub(super) fn by_completion(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    folding::in_order(procs, completion)
}

pub(super) fn literal(from: Time, start: &dyn Fn(Procs, Span) -> Time, p: Procs, walltime: Span) -> Procs {
    let unfolded = start(p, walltime);
    largest_divisor_within(unfolded, from, start, p, walltime)
}

fn completion(from: Time, start: &dyn Fn(Procs, Span) -> Time, p: Procs, walltime: Span) -> Procs {
    let unfolded = start(p, walltime);
    largest_divisor_within(unfolded + walltime, from, start, p, walltime)
}

fn largest_divisor_within(
    limit: Time,
    from: Time,
    start: &dyn Fn(Procs, Span) -> Time,
    p: Procs,
    walltime: Span,
) -> Procs {
    let proper = (1..=p.0 / 2).rev().filter(|n| p.0.is_multiple_of(*n)).map(Procs);
    for n in proper {
        let longer = folded(p, walltime, n);
        if from + longer > limit {
            break;
        }
        if start(n, longer) + longer <= limit {
            return n;
        }
    }
    p
}
