//! Bounded-slack sizing: as few processors as others need, as long as the request itself loses little.
//!
//! A request on a cluster of `C` processors, on which `N` jobs run or wait (the request itself not), takes walltime
//! `w(n)` on `n` processors. With slack `s` and share `p`:
//!
//! 1. `g` is the estimate that completes first (the exact tuner's).
//! 2. `latest = now + floor((1 + s) (g.completion - now))`: the request is promised at most `1 + s` times the
//!    earliest response that the cluster could give it.
//! 3. `floor = max(least size, min(g.procs, floor(C / (1 + N / p))))`: not less than about the share `p` of an equal
//!    part of the cluster. An idle cluster gives all of it.
//! 4. The size is the fewest processors in `floor ..= g.procs` that complete by `latest`, at their earliest start.
//!
//! The last processors of a job on a busy cluster cost the others more than they save the job, and the slack bounds
//! what the job gives up. docs/research/sizing.md has the measurements. Cost: one exact tuning and, as a rule, about one search for
//! a reservation.

use pliant_model::{Estimate, Procs, Span, Time};

use super::{Present, SizePlan, Thousandths};

/// The latest completion that is promised, if `earliest` is the first that is possible.
pub fn latest(slack: Thousandths, now: Time, earliest: Time) -> Time {
    Time(earliest.0.saturating_add(slack.of((earliest - now).0.max(0))))
}

/// The fewest processors of a job on a cluster of `capacity` with `jobs` other jobs, if it can use them.
pub fn least_procs(share: Thousandths, capacity: Procs, jobs: usize) -> Procs {
    let share = u64::from(share.0.max(1));
    let parts = share.saturating_add(1000_u64.saturating_mul(jobs as u64));
    Procs((u64::from(capacity.0) * share / parts) as u32)
}

/// The estimate of a request.
pub(super) fn choose(
    slack: Thousandths,
    share: Thousandths,
    plan: &mut impl SizePlan,
    present: &Present<'_>,
) -> Option<Estimate> {
    let first = plan.earliest(plan.most())?;
    let floor = least_procs(share, plan.capacity(), present.others.count);
    let floor = plan.least().max(floor.min(first.procs));
    let latest = latest(slack, present.now, first.completion());
    Some(plan.fewest(floor, first, latest))
}

impl Thousandths {
    /// The product with a number of seconds, rounded down.
    fn of(self, seconds: i64) -> i64 {
        (i128::from(seconds) * i128::from(self.0) / 1000) as i64
    }
}

/// By how much a request waits longer than it would in the size that completes first, and what that size would cost
/// others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Saving {
    /// How much later it completes.
    pub later: Span,
    /// Processor-seconds that the others can use instead.
    pub processor_s: i64,
}

/// The loss of a chosen estimate against the one that completes first, and the gain of other jobs.
pub fn saving(chosen: &Estimate, first: &Estimate) -> Saving {
    let area = |one: &Estimate| i64::from(one.procs.0).saturating_mul(one.walltime.0);
    Saving {
        later: chosen.completion() - first.completion(),
        processor_s: area(first).saturating_sub(area(chosen)),
    }
}
