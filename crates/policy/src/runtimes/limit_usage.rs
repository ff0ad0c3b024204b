//! Predicts runtimes from the share of the time limit that ended jobs used.
//!
//! Users request more time than their jobs need, each by a factor of their own that changes little (Mu'alem and Feitelson,
//! IEEE TPDS 12(6), 2001; Tsafrir, Etsion and Feitelson, IEEE TPDS 18(6), 2007). The statistics are over the *share* of
//! the limit used by the last jobs of the owner, else of the partition, else of all. The prediction for a waiting job is
//! the median; for a running job, the median of the shares above the share used so far.
//!
//! Recording an ended job costs O(window), a prediction O(log window).

use pliant_model::Span;

use super::window::{Window, Windows};

/// Number of recent jobs per owner, per partition and over all.
const WINDOW: usize = 100;
/// A group with fewer jobs above the used share is skipped.
const FEW: usize = 5;
/// Shares are counted in thousandths of a limit.
const PARTS: i64 = 1000;

crate::named_enum! {
    /// The source of the expected runtimes of other users' jobs.
    Expect, "expectation", {
        /// Their time limits.
        Limits = "limits",
        /// Statistics of ended jobs.
        History = "history",
    }
}

/// A group of similar jobs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum JobGroup {
    /// The jobs of one user.
    Owner(String),
    /// The jobs of one partition.
    Partition(String),
    /// All jobs.
    All,
}

/// The shares of a group's recent jobs as data, in thousandths, in the order of their ends.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GroupShares {
    /// The group.
    pub group: JobGroup,
    /// The shares.
    pub shares: Vec<u16>,
}

/// The shares of time limits used by ended jobs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LimitUsage {
    groups: Windows<JobGroup, u16>,
}

impl LimitUsage {
    /// Records an ended job.
    pub fn record(&mut self, owner: &str, partition: &str, limit: Span, runtime: Span) {
        let share = part(runtime, limit).clamp(0, PARTS) as u16;
        for group in groups(owner, partition) {
            self.groups.push(&group, share, WINDOW);
        }
    }

    /// The expected total runtime of a job with this limit that has run for `elapsed`; none if too few jobs are known. Longer
    /// than `elapsed` and at most the limit.
    pub fn expected(&self, owner: &str, partition: &str, limit: Span, elapsed: Span) -> Option<Span> {
        let so_far = (elapsed > Span::ZERO).then(|| part(elapsed, limit));
        let median = |group| median_above(self.groups.get(&group)?, so_far);
        let share = groups(owner, partition).into_iter().find_map(median)?;
        let runtime = (i128::from(limit.0) * i128::from(share)).div_euclid(i128::from(PARTS)) as i64;
        Some(Span(runtime.max(elapsed.0 + 1).min(limit.0.max(1))))
    }

    /// The state as data.
    pub fn dump(&self) -> Vec<GroupShares> {
        self.groups.dump().map(|(group, shares)| GroupShares { group, shares }).collect()
    }

    /// Restores dumped statistics.
    pub fn restore(dump: &[GroupShares]) -> LimitUsage {
        let samples = dump.iter().map(|one| (&one.group, one.shares.as_slice()));
        LimitUsage { groups: Windows::restore(samples, WINDOW) }
    }
}

/// The median of the shares above `share`, or of all shares without it; none if there are too few.
fn median_above(window: &Window<u16>, share: Option<i64>) -> Option<u16> {
    let above = match share.map(u16::try_from) {
        None => window.sorted(),
        Some(Ok(share)) => window.above(share),
        // Larger than any share.
        Some(Err(_)) => &[],
    };
    (above.len() >= FEW).then(|| above[(above.len() - 1) / 2])
}

/// The groups of a job, the narrowest first.
fn groups(owner: &str, partition: &str) -> [JobGroup; 3] {
    [JobGroup::Owner(owner.to_owned()), JobGroup::Partition(partition.to_owned()), JobGroup::All]
}

/// A time in thousandths of a limit.
fn part(time: Span, limit: Span) -> i64 {
    let part = i128::from(time.0.max(0)) * i128::from(PARTS) / i128::from(limit.0.max(1));
    part.min(i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn recorded(jobs: &[(&str, &str, i64)]) -> LimitUsage {
        let mut used = LimitUsage::default();
        for (owner, partition, runtime) in jobs {
            used.record(owner, partition, Span(1000), Span(*runtime));
        }
        used
    }

    #[test]
    fn the_narrowest_group_with_enough_jobs_counts() {
        let mut jobs = vec![("ann", "main", 200); 5];
        jobs.extend(vec![("bob", "main", 800); 7]);
        jobs.extend(vec![("bob", "other", 400); 20]);
        let used = recorded(&jobs);
        let check = |owner, partition, elapsed, expected: Option<i64>| {
            let found = used.expected(owner, partition, Span(1000), Span(elapsed));
            assert_eq!(found, expected.map(Span), "{owner} in {partition} after {elapsed} s");
        };
        check("ann", "main", 0, Some(200));
        check("ann", "main", 199, Some(200));
        // None of her jobs took longer; some of the partition did.
        check("ann", "main", 200, Some(800));
        check("ann", "other", 200, Some(400));
        check("cid", "other", 0, Some(400));
        check("cid", "none", 0, Some(400));
        check("cid", "main", 0, Some(800));
        check("ann", "main", 800, None);
        assert_eq!(LimitUsage::default().expected("ann", "main", Span(1000), Span(0)), None);
        assert_eq!(recorded(&[("ann", "main", 200); 4]).expected("ann", "main", Span(9), Span(0)), None);
    }

    #[test]
    fn only_recent_jobs_count() {
        let mut jobs = vec![("ann", "main", 100); WINDOW];
        jobs.extend(vec![("ann", "main", 900); WINDOW / 2 + 1]);
        assert_eq!(recorded(&jobs).expected("ann", "main", Span(60), Span(0)), Some(Span(54)));
    }

    proptest! {
            #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

            /// Compares with sorting for every prediction, and checks the bounds.
            #[test]
    fn equals_the_reference_implementation(
                samples in prop::collection::vec((0..3_usize, 1..100_000_i64, 0..120_000_i64), 0..260),
                limit in 1..1_000_000_i64,
                elapsed in 0..1_200_000_i64,
            ) {
                let names = ["a", "b", "c"];
                let mut used = LimitUsage::default();
                for (owner, limit, runtime) in &samples {
                    used.record(names[*owner], "main", Span(*limit), Span(*runtime));
                }
                let restored = LimitUsage::restore(&used.dump());
                prop_assert_eq!(&restored, &used);
                for (owner, name) in names.into_iter().enumerate() {
                    let slow = |is_in: &dyn Fn(usize) -> bool| {
                        let of = samples.iter().rev().filter(|(other, ..)| is_in(*other)).take(WINDOW);
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
