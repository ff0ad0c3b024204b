//! A completion that no cluster of a group can choose to beat, by the lines between which their plans lie.
//!
//! No size completes earlier than by the most that is free, at the fastest speed. The rule of [`super::slack`] may choose a size that
//! completes later. With `s` the least slack, `E` the earliest completion by the most that is free, and floors of the clusters from `f` to `F`:
//!
//! 1. Each cluster promises to complete by `now + (1 + s) (E - now)` at the earliest.
//! 2. A size `m >= F` that completes by then on each cluster, by the least that is free and at the slowest speed, is on none smaller than
//!    the chosen size: that is the smallest one from the floor on which completes in time, or one that is no larger than the floor.
//! 3. So the chosen completion is no earlier than the first of the sizes up to `m`, by the most that is free.
//! 4. A size below `f` is chosen only if it completes first of all. If none of them completes before `m` does on each cluster, the first of
//!    the sizes from `f` to `m` counts.
//!
//! For one cluster whose plan is known exactly, the bound is the chosen completion, unless a size below its floor completes between the
//! earliest one and the chosen one.

use pliant_model::{Estimate, Procs, Request, Speed, Time};

use super::plan::ProfilePlan;
use super::slack::latest;
use super::{SizePlan, Thousandths};
use crate::profile::FreePlan;

/// How clusters choose among the sizes of a request, if they do so by [`super::slack`] on their free processors alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SlackSizing {
    /// The least slack of any of them, in thousandths.
    pub slack_thousandths: u32,
    /// The lowest floor of the rule on any of them.
    pub floor_least: Procs,
    /// The highest one.
    pub floor_most: Procs,
}

impl SlackSizing {
    /// That of several clusters together.
    pub(crate) fn join(&mut self, other: &SlackSizing) {
        self.slack_thousandths = self.slack_thousandths.min(other.slack_thousandths);
        self.floor_least = self.floor_least.min(other.floor_least);
        self.floor_most = self.floor_most.max(other.floor_most);
    }
}

/// A group of clusters.
pub(crate) struct BoundedClusters<'a> {
    /// Processors of the largest.
    pub(crate) procs: Procs,
    /// The fastest and the slowest speed.
    pub(crate) speeds: (Speed, Speed),
    pub(crate) plan: &'a FreePlan,
    /// None if they choose otherwise: then no size is expected to be chosen.
    pub(crate) sizing: Option<SlackSizing>,
}

/// The completion that a request cannot beat on any of the clusters when it comes at `now`; [`Time::MAX`] if it never starts. Bounds later
/// than `until` may be any other time after it.
pub(crate) fn chosen_bound(
    clusters: &BoundedClusters<'_>,
    now: Time,
    until: Time,
    request: &Request,
) -> Time {
    let (fastest, slowest) = clusters.speeds;
    let Some(walltimes) = request.on(clusters.procs, fastest) else { return Time::MAX };
    let profile = clusters.plan.profile_of_most(now);
    let mut most = ProfilePlan::new(&profile, None, now, &walltimes).until(until);
    let (least, largest) = (most.least(), most.most());
    let completion = |estimate: Option<Estimate>| estimate.map_or(Time::MAX, |one| one.completion());
    if least >= largest {
        return completion(most.estimate_at(least));
    }
    let first = completion(most.earliest(largest));
    let Some(sizing) = clusters.sizing.filter(|_| first < Time::MAX) else { return first };
    let Some(slow) = request.on(clusters.procs, slowest) else { return first };
    let floor = sizing.floor_most.max(least);
    if floor >= largest {
        return first;
    }
    let latest = latest(Thousandths(sizing.slack_thousandths), now, first);
    let of_least;
    let on_each = if clusters.plan.is_exact() {
        &profile
    } else {
        of_least = clusters.plan.profile_of_least(now);
        &of_least
    };
    let mut on_each = ProfilePlan::new(on_each, None, now, &slow);
    let walltime = slow.at(largest);
    let unknown = Estimate { procs: largest, walltime, start: latest - walltime };
    let surely = on_each.fewest(floor, unknown, latest);
    let lowest = sizing.floor_least.clamp(least, surely.procs);
    let from_floor = |most: &mut ProfilePlan<'_, '_>| completion(most.earliest_from(lowest, surely.procs));
    if lowest > least {
        let below = completion(most.earliest(Procs(lowest.0 - 1)));
        if below <= surely.completion() || surely == unknown {
            return below.min(from_floor(&mut most)).max(first);
        }
    }
    from_floor(&mut most).max(first)
}
