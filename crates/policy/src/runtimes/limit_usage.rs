//! How much of its limit a job uses, judging by those that have ended: what planning by limits lacks.
//!
//! Users ask for more than their jobs need, each in a way of their own, and go on doing so (Mu'alem and Feitelson, IEEE
//! TPDS 12(6), 2001; Tsafrir, Etsion and Feitelson, IEEE TPDS 18(6), 2007). So what counts is the *share* of its limit
//! that a job had used when it ended: among the last ones of its owner, else of its partition, else of all. What is
//! expected of a job is the median; of one that runs, the median of those that had used more than it has by now.
//!
//! Only jobs that have ended are told, in the order in which they did. Telling one costs O(window), asking O(log window).

use pliant_model::Span;

use super::window::{Window, Windows};

/// How many of the last jobs of an owner, of a partition and of all count.
const WINDOW: usize = 100;
/// With fewer that used as much, nothing is concluded from them.
const FEW: usize = 5;
/// GroupShares are counted in parts of a limit.
const PARTS: i64 = 1000;

crate::named_enum! {
    /// How long jobs of other users are taken to run.
    Expect, "expectation", {
        /// As long as they may.
        Limits = "limits",
        /// As long as those that ended make likely.
        History = "history",
    }
}

/// Whose jobs are alike.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum JobGroup {
    /// Those of one user.
    Owner(String),
    /// Those of one partition.
    Partition(String),
    /// All.
    All,
}

/// The shares of the last jobs of a group, in thousandths and in the order of their ends, as data.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GroupShares {
    /// Whose.
    pub group: JobGroup,
    /// The shares.
    pub shares: Vec<u16>,
}

/// What jobs that ended have taught.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LimitUsage {
    groups: Windows<JobGroup, u16>,
}

impl LimitUsage {
    /// A job has ended that ran for so long.
    pub fn record(&mut self, owner: &str, partition: &str, limit: Span, runtime: Span) {
        let share = part(runtime, limit).clamp(0, PARTS) as u16;
        for group in groups(owner, partition) {
            self.groups.push(&group, share, WINDOW);
        }
    }

    /// How long a job of that limit is expected to run that has run for `elapsed`; none if too little is known. Longer
    /// than `elapsed`, and at most the limit.
    pub fn expected(&self, owner: &str, partition: &str, limit: Span, elapsed: Span) -> Option<Span> {
        let so_far = (elapsed > Span::ZERO).then(|| part(elapsed, limit));
        let median = |group| median_above(self.groups.get(&group)?, so_far);
        let share = groups(owner, partition).into_iter().find_map(median)?;
        let runtime = (i128::from(limit.0) * i128::from(share)).div_euclid(i128::from(PARTS)) as i64;
        Some(Span(runtime.max(elapsed.0 + 1).min(limit.0.max(1))))
    }

    /// All of it, as data.
    pub fn dump(&self) -> Vec<GroupShares> {
        self.groups.dump().map(|(group, shares)| GroupShares { group, shares }).collect()
    }

    /// What goes on like the dumped one.
    pub fn restore(dump: &[GroupShares]) -> LimitUsage {
        let told = dump.iter().map(|one| (&one.group, one.shares.as_slice()));
        LimitUsage { groups: Windows::restore(told, WINDOW) }
    }
}

/// The median of those above `share`, of all if there is none; none if they are few.
fn median_above(window: &Window<u16>, share: Option<i64>) -> Option<u16> {
    let above = match share.map(u16::try_from) {
        None => window.sorted(),
        Some(Ok(share)) => window.above(share),
        // No share is that large.
        Some(Err(_)) => &[],
    };
    (above.len() >= FEW).then(|| above[(above.len() - 1) / 2])
}

/// The nearest group first.
fn groups(owner: &str, partition: &str) -> [JobGroup; 3] {
    [JobGroup::Owner(owner.to_owned()), JobGroup::Partition(partition.to_owned()), JobGroup::All]
}

/// In thousandths.
fn part(time: Span, limit: Span) -> i64 {
    let part = i128::from(time.0.max(0)) * i128::from(PARTS) / i128::from(limit.0.max(1));
    part.min(i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn taught(jobs: &[(&str, &str, i64)]) -> LimitUsage {
        let mut used = LimitUsage::default();
        for (owner, partition, runtime) in jobs {
            used.record(owner, partition, Span(1000), Span(*runtime));
        }
        used
    }

    #[test]
    fn the_nearest_group_with_enough_jobs_counts() {
        let mut jobs = vec![("ann", "main", 200); 5];
        jobs.extend(vec![("bob", "main", 800); 7]);
        jobs.extend(vec![("bob", "other", 400); 20]);
        let used = taught(&jobs);
        let check = |owner, partition, elapsed, expected: Option<i64>| {
            let found = used.expected(owner, partition, Span(1000), Span(elapsed));
            assert_eq!(found, expected.map(Span), "{owner} in {partition} after {elapsed} s");
        };
        check("ann", "main", 0, Some(200));
        check("ann", "main", 199, Some(200));
        // No job of hers took longer; in the partition some did.
        check("ann", "main", 200, Some(800));
        check("ann", "other", 200, Some(400));
        check("cid", "other", 0, Some(400));
        check("cid", "none", 0, Some(400));
        check("cid", "main", 0, Some(800));
        check("ann", "main", 800, None);
        assert_eq!(LimitUsage::default().expected("ann", "main", Span(1000), Span(0)), None);
        assert_eq!(taught(&[("ann", "main", 200); 4]).expected("ann", "main", Span(9), Span(0)), None);
    }

    #[test]
    fn only_the_last_jobs_count() {
        let mut jobs = vec![("ann", "main", 100); WINDOW];
        jobs.extend(vec![("ann", "main", 900); WINDOW / 2 + 1]);
        assert_eq!(taught(&jobs).expected("ann", "main", Span(60), Span(0)), Some(Span(54)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Against sorting what counts anew for every question, and in the bounds whatever is asked.
        #[test]
        fn equals_the_slow_version(
            told in prop::collection::vec((0..3_usize, 1..100_000_i64, 0..120_000_i64), 0..260),
            limit in 1..1_000_000_i64,
            elapsed in 0..1_200_000_i64,
        ) {
            let names = ["a", "b", "c"];
            let mut used = LimitUsage::default();
            for (owner, limit, runtime) in &told {
                used.record(names[*owner], "main", Span(*limit), Span(*runtime));
            }
            let restored = LimitUsage::restore(&used.dump());
            prop_assert_eq!(&restored, &used);
            for (owner, name) in names.into_iter().enumerate() {
                let slow = |is_in: &dyn Fn(usize) -> bool| {
                    let of = told.iter().rev().filter(|(other, ..)| is_in(*other)).take(WINDOW);
                    let mut above: Vec<i64> = of
                        .map(|(_, limit, runtime)| (runtime * 1000 / limit).min(1000))
                        .filter(|share| elapsed == 0 || *share > elapsed * 1000 / limit)
                        .collect();
                    above.sort_unstable();
                    (above.len() >= FEW).then(|| above[(above.len() - 1) / 2])
                };
                let share = slow(&|other| other == owner).or_else(|| slow(&|_| true));
                let expected = share.map(|share| Span((limit * share / 1000).max(elapsed + 1).min(limit)));
                let found = used.expected(name, "main", Span(limit), Span(elapsed));
                prop_assert_eq!(found, expected);
            }
        }
    }
}
