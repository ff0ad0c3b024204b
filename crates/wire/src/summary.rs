//! Summaries of children: bounds on when work could complete on their servers.

use pliant_policy::discovery::{ClusterBounds, GROUPS_MAX, SERVICES_MAX, ServiceSet, Summary};
use pliant_policy::profile::{FreePlan, FreeStep};
use pliant_policy::tuning::SlackSizing;
#[cfg(test)]
use proptest::prelude::*;

use super::field::*;
use super::table::{conversions, message};
use super::{Malformed, proto};

message! {
    proto::Summary <=> Summary {
        groups: list(nested(), GROUPS_MAX),
        services: optional(nested()),
    }

    proto::ClusterBounds <=> ClusterBounds {
        speed: SPEED,
        slowest: SPEED,
        procs: ANY_PROCS,
        counts_resources,
        plan: optional(nested()),
        sizing: optional(nested()),
    }

    proto::SlackSizing <=> SlackSizing {
        slack_thousandths,
        floor_least: ANY_PROCS,
        floor_most: ANY_PROCS,
    }
}

/// The differences of a line's steps, from which it begins.
fn differences(line: &[FreeStep]) -> (Vec<u32>, Vec<i64>) {
    let (mut after_s, mut procs) = (0, 0);
    let difference = |step: &FreeStep| {
        let later = step.after_s.saturating_sub(std::mem::replace(&mut after_s, step.after_s));
        let more = i64::from(step.procs) - i64::from(std::mem::replace(&mut procs, step.procs));
        (later, more)
    };
    line.iter().map(difference).unzip()
}

/// The line of these differences; they are those of the fields `later` and `more`.
fn line(
    later: Vec<u32>,
    more: Vec<i64>,
    [later_key, more_key]: [&'static str; 2],
) -> Result<Vec<FreeStep>, Malformed> {
    if later.len() != more.len() || later.len() > FreePlan::STEPS_MAX {
        let expected = format!("as many entries as {later_key}, at most {}", FreePlan::STEPS_MAX);
        return Err(Malformed::new(more_key, expected, more.len()));
    }
    let (mut after_s, mut procs) = (0_u32, 0_i64);
    let mut steps = Vec::with_capacity(later.len());
    for (index, (later, more)) in later.into_iter().zip(more).enumerate() {
        let wrong = |key, found| {
            Malformed::new("", format!("a number that makes the sum at most {}", u32::MAX), found)
                .at(key, index)
        };
        after_s = after_s.checked_add(later).ok_or_else(|| wrong(later_key, later.into()))?;
        procs = procs.saturating_add(more);
        let free = u32::try_from(procs).map_err(|_| wrong(more_key, more))?;
        steps.push(FreeStep { after_s, procs: free });
    }
    Ok(steps)
}

/// By hand: differences take few bytes.
impl HasMessage for FreePlan {
    type Message = proto::FreePlan;

    fn to_message(&self) -> proto::FreePlan {
        let (later_s, more) = differences(self.most());
        let (least_later_s, least_more) = self.least().map(differences).unwrap_or_default();
        proto::FreePlan { at: TIME.encode(&self.at()), later_s, more, least_later_s, least_more }
    }

    fn from_message(message: proto::FreePlan) -> Result<FreePlan, Malformed> {
        let proto::FreePlan { at, later_s, more, least_later_s, least_more } = message;
        let (at, steps) = (TIME.decode("at", at)?, later_s.len());
        let most = line(later_s, more, ["later_s", "more"])?;
        let least = line(least_later_s, least_more, ["least_later_s", "least_more"])?;
        let plan = FreePlan::from_lines(at, most, Some(least).filter(|least| !least.is_empty()));
        plan.ok_or_else(|| Malformed::new("later_s", "0, then numbers above 0".to_owned(), steps))
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<FreePlan> {
        let step = (1..100_000_u32, prop_oneof![4 => 0..1_000_u32, 1 => any::<u32>()]);
        let line = proptest::collection::vec(step, 1..FreePlan::STEPS_MAX).prop_map(|drawn| {
            let mut after_s = 0;
            let step = |(index, (later, procs))| {
                after_s += if index == 0 { 0 } else { later };
                FreeStep { after_s, procs }
            };
            drawn.into_iter().enumerate().map(step).collect::<Vec<FreeStep>>()
        });
        let lines = (TIME.strategy(), line.clone(), proptest::option::of(line));
        let plan = |(at, most, least)| FreePlan::from_lines(at, most, least).expect("the steps are in order");
        lines.prop_map(plan).boxed()
    }
}

conversions! { proto::FreePlan <=> FreePlan; }

/// By hand: a set is checked as a whole.
impl HasMessage for ServiceSet {
    type Message = proto::ServiceSet;

    fn to_message(&self) -> proto::ServiceSet {
        proto::ServiceSet { hashes: self.hashes().collect() }
    }

    fn from_message(message: proto::ServiceSet) -> Result<ServiceSet, Malformed> {
        let found = message.hashes.len();
        let set = (found <= SERVICES_MAX).then(|| ServiceSet::from_hashes(message.hashes)).flatten();
        set.ok_or_else(|| Malformed::new("hashes", format!("at most {SERVICES_MAX} services"), found))
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<ServiceSet> {
        let hashes = proptest::collection::vec(any::<u64>(), 0..SERVICES_MAX);
        hashes.prop_map(|hashes| ServiceSet::from_hashes(hashes).expect("they are few enough")).boxed()
    }
}

conversions! { proto::ServiceSet <=> ServiceSet; }
