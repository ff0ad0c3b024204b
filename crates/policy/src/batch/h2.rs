//! H2, non-integer folding (paper 001, "Heuristic H2"): the job at the head of the queue gets the
//! number of processors `n <= p` that minimises `start(n) + walltime * ceil(p / n)`, the smallest if several do.
//!
//! The smallest is what the paper's NASA figures need. It also means that only the smallest `n` of each
//! `ceil(p / n)` can win, which leaves about `2 sqrt(p)` of them; each costs one look at the releases.

use pliant_model::{Procs, Span, Time};

use super::BatchScheduler;
use super::folding::{self, folded};

pub(super) fn new(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    folding::in_order(procs, earliest_completion)
}

fn earliest_completion(from: Time, start: &dyn Fn(Procs, Span) -> Time, p: Procs, walltime: Span) -> Procs {
    let mut best = (start(p, walltime) + walltime, p);
    let mut n = p.0;
    while n > 1 {
        n = p.0.div_ceil(p.0.div_ceil(n - 1));
        let longer = folded(p, walltime, Procs(n));
        if from + longer > best.0 {
            break;
        }
        best = best.min((start(Procs(n), longer) + longer, Procs(n)));
    }
    best.1
}
