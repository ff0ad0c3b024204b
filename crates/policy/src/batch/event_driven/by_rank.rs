//! Estimates in a queue order: the expected start at the present position of the request's rank.
//!
//! The rank depends on the size. Neighbouring sizes behind the same jobs are planned together, on the profile that these jobs
//! leave. Later jobs and changing ranks may delay the start: the estimate is not a promise.

use pliant_model::{Estimate, JobId, Procs, Time, Walltimes};

use super::{EventDrivenCluster, Horizon, Plan, Rule};
use crate::batch::Submission;
use crate::tuning::{Present, Tuner, slack};

/// The sizes from `least` to `most`, which are served after `ahead` jobs.
struct RankedSizes {
    ahead: usize,
    least: Procs,
    most: Procs,
}

/// The estimate of a request; the queue must be arranged. O(jobs in the queue) searches, and those of the tuner.
///
/// Tuners for the earliest completion compare each size at its own position in the queue. The others choose the size
/// behind all jobs, as if it had no rank: a gain by rank is a loss of other jobs (docs/development/sizing-rules.md has the
/// figures). The estimate is that of the chosen size at its own position.
///
/// Bounded slack holds for that estimate too: if the chosen size would complete too late at its own position, the request
/// takes the smallest size that does not.
pub(super) fn estimate<R: Rule>(
    rule: &R,
    cluster: &EventDrivenCluster,
    walltimes: &Walltimes<'_>,
    tuner: Tuner,
    present: &Present<'_>,
) -> Option<Estimate> {
    let (least, most) = (walltimes.least(), walltimes.most());
    let ranked = Ranked { now: present.now, rule, cluster };
    if tuner.is_greedy() || least == most {
        return ranked.earliest(walltimes, tuner);
    }
    let plan = Plan::new(present.now, rule, cluster);
    let size = rule.tune(&plan.horizon, tuner, present, walltimes)?.procs;
    let chosen = ranked.earliest(&walltimes.between(size, size), tuner)?;
    let Tuner::Slack { slack, share } = tuner else { return Some(chosen) };
    let first = ranked.earliest(walltimes, Tuner::Exact)?;
    let latest = slack::latest(slack, present.now, first.completion());
    if chosen.completion() <= latest {
        return Some(chosen);
    }
    let floor = slack::least_procs(share, plan.horizon.capacity(), present.others.count);
    let floor = least.max(floor.min(first.procs));
    Some(ranked.fewest(&walltimes.between(floor, first.procs), first, latest))
}

/// A cluster with an arranged queue at one moment.
struct Ranked<'a, R> {
    now: Time,
    rule: &'a R,
    cluster: &'a EventDrivenCluster,
}

impl<R: Rule> Ranked<'_, R> {
    /// The size that completes first at its own position.
    fn earliest(&self, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        let mut best: Option<Estimate> = None;
        self.at_each_rank(walltimes, |horizon, sizes| {
            let found = self.tune(horizon, tuner, sizes);
            let is_better = |found: &Estimate| {
                best.is_none_or(|best| (found.completion(), found.procs) < (best.completion(), best.procs))
            };
            best = found.filter(is_better).or(best);
        });
        best
    }

    /// The smallest size that completes by `latest` at its own position; `known` is one that does.
    fn fewest(&self, walltimes: &Walltimes<'_>, known: Estimate, latest: Time) -> Estimate {
        let mut best = known;
        self.at_each_rank(walltimes, |horizon, sizes| {
            let smaller = (sizes.least().0..=sizes.most().0).map(Procs).take_while(|size| *size < best.procs);
            let mut placed =
                smaller.filter_map(|size| self.tune(horizon, Tuner::Exact, &sizes.between(size, size)));
            best = placed.find(|estimate| estimate.completion() <= latest).unwrap_or(best);
        });
        best
    }

    fn tune(&self, horizon: &Horizon, tuner: Tuner, sizes: &Walltimes<'_>) -> Option<Estimate> {
        self.rule.tune(horizon, tuner, &Present::alone(self.now), sizes)
    }

    /// Calls `at` for each position in the queue with its sizes and the profile left by the jobs ahead.
    fn at_each_rank(&self, walltimes: &Walltimes<'_>, mut at: impl FnMut(&Horizon, &Walltimes<'_>)) {
        let mut plan = Plan::without_jobs(self.now, self.rule, self.cluster);
        let mut queue = self.cluster.queue.iter();
        let mut pushed = 0;
        for RankedSizes { ahead, least, most } in ranked_sizes(self.now, self.cluster, walltimes) {
            for job in queue.by_ref().take(ahead - pushed) {
                plan.push(self.rule, &job);
            }
            pushed = ahead;
            at(&plan.horizon, &walltimes.between(least, most));
        }
    }
}

/// The positions in the queue of all sizes, from the first on.
fn ranked_sizes(now: Time, cluster: &EventDrivenCluster, walltimes: &Walltimes<'_>) -> Vec<RankedSizes> {
    let Some(queue) = cluster.queue.ranked() else { return Vec::new() };
    let mut sizes: Vec<RankedSizes> = Vec::new();
    for procs in (walltimes.least().0..=walltimes.most().0).map(Procs) {
        let (walltime, submit, owner) = (walltimes.at(procs), walltimes.submit(), walltimes.owner());
        let submission = Submission { submit, owner, ..Submission::new(JobId(u32::MAX), procs, walltime) };
        let ahead = queue.position_of(now, &submission);
        match sizes.last_mut() {
            Some(last) if last.ahead == ahead => last.most = procs,
            _ => sizes.push(RankedSizes { ahead, least: procs, most: procs }),
        }
    }
    sizes.sort_by_key(|estimate| estimate.ahead);
    sizes
}
