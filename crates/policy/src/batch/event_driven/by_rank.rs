//! Estimates in a queue order: a request is expected to start at the place in line that its rank has now.
//!
//! The rank depends on the size. Neighbouring sizes that stand behind the same jobs are placed together, on what these
//! jobs leave. Jobs that come later, and ranks that change,
//! may make it start later: as without an order, an estimate is no promise.

use pliant_model::{Estimate, JobId, Procs, Span, Time, Walltimes};

use super::{Horizon, Occupied, Plan, Rule};
use crate::batch::Submission;
use crate::tuning::{self, Present, SizePlan, Tuner};

/// The sizes from `least` to `most`, which are served after `ahead` jobs.
struct Place {
    ahead: usize,
    least: Procs,
    most: Procs,
}

/// The size of a request; the line is arranged. O(jobs in line) searches and those of the tuner, for each thing that the
/// tuner asks.
pub(super) fn estimate<R: Rule>(
    rule: &R,
    cluster: &Occupied,
    walltimes: &Walltimes<'_>,
    tuner: Tuner,
    present: &Present<'_>,
) -> Option<Estimate> {
    let places = places(present.now, cluster, walltimes);
    tuning::choose(tuner, &mut RankedPlan { now: present.now, rule, cluster, walltimes, places }, present)
}

/// A request whose sizes have places of their own in line.
struct RankedPlan<'a, 'b, R> {
    now: Time,
    rule: &'a R,
    cluster: &'a Occupied,
    walltimes: &'a Walltimes<'b>,
    places: Vec<Place>,
}

impl<R: Rule> RankedPlan<'_, '_, R> {
    /// Calls a function with each range of sizes among those from `least` to `most` that stand behind the same jobs, and with
    /// what these jobs leave.
    fn walk(&self, least: Procs, most: Procs, mut each: impl FnMut(&Horizon, Procs, Procs)) {
        let mut plan = Plan::without_jobs(self.now, self.rule, self.cluster);
        let mut line = self.cluster.line.iter();
        let mut pushed = 0;
        for place in &self.places {
            let (least, most) = (place.least.max(least), place.most.min(most));
            if least > most {
                continue;
            }
            for job in line.by_ref().take(place.ahead - pushed) {
                plan.push(self.rule, job);
            }
            pushed = place.ahead;
            each(&plan.horizon, least, most);
        }
    }

    fn on(&self, horizon: &Horizon, procs: Procs) -> Option<Estimate> {
        horizon.earliest(procs, self.walltimes.at(procs))
    }
}

impl<R: Rule> SizePlan for RankedPlan<'_, '_, R> {
    fn capacity(&self) -> Procs {
        self.cluster.processors.capacity()
    }

    fn least(&self) -> Procs {
        self.walltimes.least()
    }

    fn most(&self) -> Procs {
        self.walltimes.most().min(self.capacity())
    }

    fn walltime(&self, procs: Procs) -> Span {
        self.walltimes.at(procs)
    }

    fn place(&mut self, procs: Procs) -> Option<Estimate> {
        let mut found = None;
        self.walk(procs, procs, |horizon, _, _| found = self.on(horizon, procs));
        found
    }

    fn earliest(&mut self, most: Procs) -> Option<Estimate> {
        let mut best: Option<Estimate> = None;
        self.walk(self.least(), most.max(self.least()), |horizon, least, most| {
            let sizes = self.walltimes.between(least, most);
            let found = self.rule.tune(horizon, Tuner::Exact, &Present::alone(self.now), &sizes);
            let is_better = |found: &Estimate| {
                best.is_none_or(|best| (found.completion(), found.procs) < (best.completion(), best.procs))
            };
            best = found.filter(is_better).or(best);
        });
        best
    }

    fn fewest(&mut self, least: Procs, known: Estimate, latest: Time) -> Estimate {
        let mut best = known;
        self.walk(least, known.procs, |horizon, least, most| {
            let sizes = (least.0..=most.0.min(best.procs.0.saturating_sub(1))).map(Procs);
            let in_time = |procs| self.on(horizon, procs).filter(|one| one.completion() <= latest);
            if let Some(found) = sizes.filter_map(in_time).next() {
                best = found;
            }
        });
        best
    }
}

/// The places in line that the sizes would have, from the first on.
fn places(now: Time, cluster: &Occupied, walltimes: &Walltimes<'_>) -> Vec<Place> {
    let Some(line) = cluster.line.ranked() else { return Vec::new() };
    let mut places: Vec<Place> = Vec::new();
    for procs in (walltimes.least().0..=walltimes.most().0).map(Procs) {
        let (walltime, submit, owner) = (walltimes.at(procs), walltimes.submit(), walltimes.owner());
        let submission = Submission { job: JobId(u32::MAX), procs, walltime, submit, owner };
        let ahead = line.place_of(now, &submission);
        match places.last_mut() {
            Some(last) if last.ahead == ahead => last.most = procs,
            _ => places.push(Place { ahead, least: procs, most: procs }),
        }
    }
    places.sort_by_key(|place| place.ahead);
    places
}
