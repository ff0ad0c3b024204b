//! Tuning: how a server chooses the number of processors, and with it the walltime, of a moldable request.
//!
//! The tuners of paper 000 (section 3.2.1) minimise the request's own ECT, `earliest start(n, w(n)) + w(n)`, and
//! prefer fewer processors when completions are equal. `exhaustive` and `exact` give the same answer; `binary` is the
//! paper's and may miss it (docs/research/paper-000.md, C000-4). On a busy cluster they waste processor time, because the
//! last processors of a job save little of its time and keep other jobs waiting.
//!
//! [`Tuner::Slack`], the default, takes fewer processors where others wait and the request loses little by it ([`slack`]).
//! The tuners of [`rules`] are published alternatives, kept for comparison.

mod chosen_bound;
mod class_times;
mod plan;
pub mod rules;
mod search;
mod size_times;
pub mod slack;
#[cfg(test)]
mod tests;
mod tuner;

use pliant_model::{Estimate, Procs, Time, Walltimes};

pub use chosen_bound::SlackSizing;
pub(crate) use chosen_bound::{BoundedClusters, chosen_bound};
pub use class_times::ClassTimes;
pub(crate) use plan::EverySize;
pub use plan::{EachShape, OtherJobs, Present, SizePlan};
pub(crate) use search::fewest_with;
pub use search::{binary, exhaustive};
pub(crate) use size_times::{SizeTimes, WALLTIME_CLASSES, shortest_s};
pub use tuner::{Thousandths, Tuner, TunerError};

use self::plan::ProfilePlan;
use crate::profile::{Profile, StartBounds};

/// The estimate of a request on a cluster whose plan is `profile`, starting not before `from`; none if it never fits.
///
/// `bounds`, if given, must be true for `profile`; it makes the searches sub-linear.
pub fn tune(
    tuner: Tuner,
    profile: &Profile,
    bounds: Option<&mut StartBounds>,
    from: Time,
    present: &Present<'_>,
    walltimes: &Walltimes<'_>,
) -> Option<Estimate> {
    choose(tuner, &mut ProfilePlan::new(profile, bounds, from, walltimes), present)
}

/// As [`tune`], for a caller that has no use for completions after `latest`: the estimate may then be none.
pub(crate) fn tune_by(
    latest: Time,
    tuner: Tuner,
    (profile, bounds): (&Profile, Option<&mut StartBounds>),
    from: Time,
    present: &Present<'_>,
    walltimes: &Walltimes<'_>,
) -> Option<Estimate> {
    choose(tuner, &mut ProfilePlan::new(profile, bounds, from, walltimes).until(latest), present)
}

/// The estimate of a request on any plan of its sizes; none if it never fits.
pub fn choose(tuner: Tuner, plan: &mut impl SizePlan, present: &Present<'_>) -> Option<Estimate> {
    let (least, most) = (plan.least(), plan.most());
    if least > most {
        return None;
    }
    if least == most {
        return plan.estimate_at(least);
    }
    // What a rule allows may be more than the request can use, or less than it needs.
    let allowed = |procs: Procs| procs.clamp(least, most);
    match tuner {
        Tuner::Exhaustive => exhaustive(least, most, |n| plan.estimate_at(n)),
        Tuner::Binary => binary(least, most, |n| plan.estimate_at(n)),
        Tuner::Exact => plan.earliest(most),
        Tuner::Slack { slack, share } => slack::choose(slack, share, plan, present),
        Tuner::EqualShare => plan.earliest(allowed(rules::equal_share(plan, present))),
        Tuner::HeSrpt => plan.earliest(allowed(rules::he_srpt(plan, present))),
        Tuner::FairShare => plan.earliest(allowed(rules::fair_share(plan, present))),
        Tuner::Knee => plan.earliest(allowed(rules::knee(plan))),
        Tuner::Efficiency { least: efficiency } => plan.earliest(allowed(rules::efficient(efficiency, plan))),
        Tuner::Lpa => {
            let procs = allowed(rules::local_allocation(plan));
            // On nodes it can fall between sizes that fit.
            plan.estimate_at(procs).or_else(|| plan.earliest(procs))
        }
        Tuner::Price { weight } => rules::cheapest(weight, plan, present),
    }
}
