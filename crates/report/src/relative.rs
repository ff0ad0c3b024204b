//! Ratios of means of a metric between policies of a campaign, log by log, with intervals.
//!
//! A policy is divided by another one on the same workload: the mean over the seeds by the mean over the seeds. Workloads that
//! are calendar months of one log (`NAME-1996-10`) are taken together: their ratio is the geometric mean, its 95 % interval
//! a bootstrap of the months.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bootstrap::mean_of_independent;
use crate::campaign_table::{CampaignRow, CampaignTable};

/// With fewer workloads a ratio has no interval.
pub const WORKLOADS_MIN: usize = 5;

/// A policy relative to another one, on the workloads of one log.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Relative {
    /// The log, or the name of the workload if it is no month of one.
    pub log: String,
    /// The policy.
    pub policy: String,
    /// The policy that it is divided by.
    pub base: String,
    /// Of how many workloads the ratio is the geometric mean.
    pub workloads: usize,
    /// The ratio: below 1 the metric of the policy is smaller.
    pub ratio: f64,
    /// Its 95 % interval; none with fewer than [`WORKLOADS_MIN`] workloads.
    pub interval: Option<(f64, f64)>,
    /// The greatest ratio of a single workload.
    pub worst: f64,
    /// The mean of the metric over the workloads.
    pub mean: f64,
    /// The same of the policy that it is divided by.
    pub base_mean: f64,
}

/// Every policy relative to those that it is compared with, by the policy that they are divided by, the policy, and the log
/// in the order of the table. Workloads on which one of the two has no positive value are left out.
pub fn relative(
    table: &CampaignTable,
    compare_with: &BTreeMap<String, Vec<String>>,
    metric: &str,
) -> Vec<Relative> {
    let means = SeedMeans::of(table, metric);
    let policies = in_order(table.rows.iter().map(|row| &row.policy));
    let mut found = Vec::new();
    for base in &policies {
        for policy in &policies {
            if compare_with.get(*policy).is_some_and(|others| others.contains(*base)) {
                found.extend(means.logs.iter().filter_map(|log| means.relative(log, policy, base)));
            }
        }
    }
    found
}

/// Means over the seeds of one metric.
struct SeedMeans<'a> {
    /// Sum and number by workload and policy.
    sums: BTreeMap<(&'a str, &'a str), (f64, u32)>,
    /// The logs in order, each with its workloads.
    logs: Vec<(String, Vec<&'a str>)>,
}

impl<'a> SeedMeans<'a> {
    fn of(table: &'a CampaignTable, metric: &str) -> SeedMeans<'a> {
        let mut sums: BTreeMap<(&str, &str), (f64, u32)> = BTreeMap::new();
        let mut logs: Vec<(String, Vec<&str>)> = Vec::new();
        for row in &table.rows {
            let Some(value) = row.metrics.get(metric) else { continue };
            let sum = sums.entry((&row.workload, &row.policy)).or_default();
            *sum = (sum.0 + value, sum.1 + 1);
            let log = log_of(row);
            let at = logs.iter().position(|(name, _)| *name == log).unwrap_or_else(|| {
                logs.push((log, Vec::new()));
                logs.len() - 1
            });
            if !logs[at].1.contains(&row.workload.as_str()) {
                logs[at].1.push(&row.workload);
            }
        }
        SeedMeans { sums, logs }
    }

    fn mean(&self, workload: &str, policy: &str) -> Option<f64> {
        let (sum, count) = self.sums.get(&(workload, policy))?;
        Some(sum / f64::from(*count)).filter(|mean| *mean > 0.0)
    }

    fn relative(&self, log: &(String, Vec<&str>), policy: &str, base: &str) -> Option<Relative> {
        let (name, workloads) = log;
        let pair = |workload: &&str| Some((self.mean(workload, policy)?, self.mean(workload, base)?));
        let pairs: Vec<(f64, f64)> = workloads.iter().filter_map(pair).collect();
        if pairs.is_empty() {
            return None;
        }
        let logarithms: Vec<f64> = pairs.iter().map(|(one, other)| (one / other).ln()).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let interval = (pairs.len() >= WORKLOADS_MIN).then(|| mean_of_independent(&logarithms, 1)).flatten();
        let (ones, others): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        Some(Relative {
            log: name.clone(),
            policy: policy.to_owned(),
            base: base.to_owned(),
            workloads: pairs.len(),
            ratio: mean(&logarithms).exp(),
            interval: interval.map(|interval| (interval.low.exp(), interval.high.exp())),
            worst: logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max).exp(),
            mean: mean(&ones),
            base_mean: mean(&others),
        })
    }
}

/// The log that a workload is of: its name without the calendar month.
fn log_of(row: &CampaignRow) -> String {
    let name = format!("-{}", row.workload);
    let log = match name.match_indices('-').find(|(at, _)| is_month(&name[*at..])) {
        Some((0, _)) => format!("months{}", &name["-1996-10".len()..]),
        Some((at, _)) => format!("{}{}", &name[1..at], &name[at + "-1996-10".len()..]),
        None => row.workload.clone(),
    };
    if row.dedicated { log } else { format!("{log}, with local jobs") }
}

/// Whether a text begins with a month such as `-1996-10`.
fn is_month(text: &str) -> bool {
    let pattern = "-0000-00";
    let mut bytes = text.bytes();
    let fits = pattern.bytes().all(|wanted| {
        bytes.next().is_some_and(|found| found == wanted || (wanted == b'0' && found.is_ascii_digit()))
    });
    fits && bytes.next().is_none_or(|next| !next.is_ascii_alphanumeric())
}

/// Values in the order of their first appearance.
fn in_order<'a>(values: impl Iterator<Item = &'a String>) -> Vec<&'a String> {
    let mut found: Vec<&String> = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &str, policy: &str, seed: u64, value: f64) -> CampaignRow {
        let metrics = BTreeMap::from([("m".to_owned(), value)]);
        let (workload, policy) = (workload.to_owned(), policy.to_owned());
        CampaignRow { workload, dedicated: true, policy, seed, metrics }
    }

    fn with(policy: &str, others: &[&str]) -> BTreeMap<String, Vec<String>> {
        BTreeMap::from([(policy.to_owned(), others.iter().map(|one| (*one).to_owned()).collect())])
    }

    #[test]
    fn months_of_a_log_are_taken_together_and_seeds_are_averaged_first() {
        let rows = vec![
            row("kth-1996-10", "base", 1, 10.0),
            row("kth-1996-10", "base", 2, 30.0),
            row("kth-1996-10", "new", 1, 4.0),
            row("kth-1996-10", "new", 2, 6.0),
            row("kth-1996-11", "base", 1, 7.0),
            row("kth-1996-11", "new", 1, 7.0),
            row("other", "base", 1, 2.0),
            row("other", "new", 1, 3.0),
            row("zero", "base", 1, 0.0),
            row("zero", "new", 1, 3.0),
        ];
        let found = relative(&CampaignTable { rows }, &with("new", &["base", "absent"]), "m");
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.log.as_str(), one.workloads, (one.ratio * 1e6).round() / 1e6, one.worst))
            .collect();
        assert_eq!(shown, [("kth", 2, 0.5, 1.0), ("other", 1, 1.5, 1.5)]);
        assert_eq!((found[0].mean, found[0].base_mean, found[0].interval), (6.0, 13.5, None));
    }

    #[test]
    fn the_interval_of_months_holds_their_geometric_mean() {
        let month = |at: u32| format!("log-1996-{at:02}-load-0.7");
        let values = [0.5, 0.25, 1.0, 0.5, 0.125, 2.0];
        let rows = values.iter().zip(1..).flat_map(|(value, at)| {
            [row(&month(at), "base", 1, 8.0), row(&month(at), "new", 1, 8.0 * value)]
        });
        let found = relative(&CampaignTable { rows: rows.collect() }, &with("new", &["base"]), "m");
        let [one] = found.as_slice() else { panic!("expected one ratio, found {found:?}") };
        let (low, high) = one.interval.unwrap();
        assert_eq!((one.log.as_str(), one.workloads, one.worst), ("log-load-0.7", 6, 2.0));
        assert!((one.ratio - 0.5).abs() < 1e-12 && (0.125..0.5).contains(&low), "{one:?}");
        assert!(0.5 < high && high <= 2.0, "{one:?}");
    }

    #[test]
    fn only_months_are_left_out_of_names() {
        let check = |name: &str, expected: &str| assert_eq!(log_of(&row(name, "p", 1, 1.0)), expected);
        check("kth-1996-10", "kth");
        check("kth-1996-10-load-0.7", "kth-load-0.7");
        check("kth-1996-10, moldable paper-third", "kth, moldable paper-third");
        check("1996-10 on cbf", "months on cbf");
        check("kth-1996-101", "kth-1996-101");
        check("grid5000-june", "grid5000-june");
    }
}
