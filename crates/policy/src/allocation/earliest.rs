//! The earliest expected finish: equal jobs on clusters of several processors and of different speeds, the
//! generalisation of Algorithm 1 for scenario 4 of paper 002 (Table 2).
//!
//! A processor that is free at `f` on a cluster with runtime `d` finishes instances at `f + d`, `f + 2d`, ...; the `k`
//! earliest of these moments are an optimal allocation, because every allocation of `k` instances ends at the `k`-th
//! earliest or later. The last moment is found by bisection, starting from a fluid bound. O(s log d) for `s` different
//! moments at which processors become free, independent of `k`.

use pliant_model::Span;

use super::Free;

/// The capacity that a cluster offers to a multi-job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// When its processors become free, from now.
    pub free: Vec<Free>,
    /// The runtime of an instance, at least 1.
    pub job: Span,
}

impl Offer {
    /// Number of processors.
    pub fn processors(&self) -> u64 {
        self.free.iter().map(|free| u64::from(free.processors)).sum()
    }

    /// Number of instances that can end by `moment`.
    fn ended_by(&self, moment: i64) -> u64 {
        let job = self.job.0.max(1);
        let ended = |free: &Free| u64::from(free.processors) * ((moment - free.at.0).max(0) / job) as u64;
        self.free.iter().map(ended).fold(0, u64::saturating_add)
    }

    /// Number of instances that end at `moment`.
    fn ending_at(&self, moment: i64) -> u64 {
        let job = self.job.0.max(1);
        let ends = |free: &&Free| moment - free.at.0 >= job && (moment - free.at.0) % job == 0;
        self.free.iter().filter(ends).map(|free| u64::from(free.processors)).sum()
    }

    /// When the last of so many instances ends, from now; 0 for none.
    pub fn finish(&self, instances: u64) -> Span {
        if instances == 0 { Span::ZERO } else { Span(last(&[self], instances)) }
    }
}

/// The number of instances of each cluster. Ties go to the first. All 0 without processors.
pub fn allocate(offers: &[&Offer], instances: u64) -> Vec<u64> {
    if instances == 0 || offers.iter().all(|offer| offer.processors() == 0) {
        return vec![0; offers.len()];
    }
    let moment = last(offers, instances);
    let mut counts: Vec<u64> = offers.iter().map(|offer| offer.ended_by(moment)).collect();
    let mut excess = counts.iter().copied().fold(0, u64::saturating_add).saturating_sub(instances);
    // Only instances that end at this very moment can be in excess.
    for (count, offer) in counts.iter_mut().zip(offers).rev() {
        let dropped = offer.ending_at(moment).min(excess);
        *count -= dropped;
        excess -= dropped;
        if excess == 0 {
            break;
        }
    }
    counts
}

/// The first moment by which so many instances can end.
fn last(offers: &[&Offer], instances: u64) -> i64 {
    let enough = |moment: i64| {
        let mut ended: u64 = 0;
        offers.iter().any(|offer| {
            ended = ended.saturating_add(offer.ended_by(moment));
            ended >= instances
        })
    };
    let (mut early, mut step) = fluid(offers, instances);
    let mut late = early + step;
    while late < Span::MAX.0 && !enough(late) {
        step = step.saturating_mul(2);
        (early, late) = (late, late.saturating_add(step).min(Span::MAX.0));
    }
    while late - early > 1 {
        let middle = early + (late - early) / 2;
        if enough(middle) {
            late = middle;
        } else {
            early = middle;
        }
    }
    late
}

/// A lower bound on that moment and an estimate of the distance: with divisible work, the processors end `k` instances where
/// the sum of their lines reaches `k`. The sum is convex, so Newton's method from its last slope converges in a few steps.
fn fluid(offers: &[&Offer], instances: u64) -> (i64, i64) {
    let mut moment = f64::INFINITY;
    loop {
        let (mut rate, mut missing, mut processors) = (0.0, instances as f64, 0.0);
        for offer in offers {
            let each = 1.0 / offer.job.0.max(1) as f64;
            for free in offer.free.iter().filter(|free| (free.at.0 as f64) < moment) {
                let of_step = f64::from(free.processors);
                processors += of_step;
                rate += of_step * each;
                missing += of_step * each * free.at.0 as f64;
            }
        }
        let next = missing / rate;
        // Not below the rounding error.
        if next >= moment * (1.0 - 1e-12) || !next.is_finite() {
            let early = (moment * (1.0 - 1e-9)) as i64 - 1;
            return (early.clamp(0, Span::MAX.0 - 1), ((processors / rate) as i64).clamp(1, Span::MAX.0));
        }
        moment = next;
    }
}
