//! The metrics of optional computations (paper 004, section 3.3): unhappy users, satisfaction, unfairness
//! and completed requests.

use pliant_model::{Exploration, ExplorationRun, TimeMs};
use serde::{Deserialize, Serialize};

/// The metrics of a run of optional computations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ExplorationSummary {
    /// Users.
    pub users: u64,
    /// Users with a mandatory request that was not completed by the deadline (inclusive).
    pub unhappy_users: u64,
    /// Users of whom some mandatory request was never completed.
    pub users_without_mandatory: u64,
    /// The largest satisfaction minus the smallest, by usage including killed and cancelled runs.
    pub unfairness: f64,
    /// The same by the usage of completed requests only.
    pub useful_unfairness: f64,
    /// The smallest satisfaction: usage over fair share.
    pub min_satisfaction: f64,
    /// The mean satisfaction.
    pub mean_satisfaction: f64,
    /// The greatest satisfaction.
    pub max_satisfaction: f64,
    /// Completed requests, mandatory and optional.
    pub completed_requests: u64,
    /// Runs of optional requests that were ended for a mandatory one.
    pub killed_requests: u64,
    /// Resource time that went into runs that were killed or cancelled, over all that was used, in percent.
    pub wasted_percent: f64,
    /// The mean time from a user's arrival until the last mandatory request was completed.
    pub mean_mandatory_s: f64,
    /// The longest.
    pub max_mandatory_s: f64,
    /// The most optional requests that were on the platform at a time.
    pub stored_requests: u64,
    /// Submissions that clients sent.
    pub submissions: u64,
}

/// The summary of a run. O(users x changes), a change being an arrival or departure of a user or server.
pub fn summarize_exploration(run: &ExplorationRun) -> ExplorationSummary {
    let users = &run.explorations;
    let fair_share = fair_shares(run);
    let satisfactions = |usage: fn(&Exploration) -> f64| -> Vec<f64> {
        let users = users.iter().zip(&fair_share).filter(|(_, fair_share)| **fair_share > 0.0);
        users.map(|(user, fair_share)| usage(user) / fair_share).collect()
    };
    let satisfaction = satisfactions(|user| user.usage.seconds());
    let useful = satisfactions(|user| user.useful.seconds());
    let unhappy = |user: &&Exploration| user.mandatory_done.is_none_or(|done| done > user.deadline);
    let waits: Vec<f64> =
        users.iter().filter_map(|user| Some((user.mandatory_done? - user.arrival).seconds())).collect();
    let usage: f64 = users.iter().map(|user| user.usage.seconds()).sum();
    let kept: f64 = users.iter().map(|user| user.useful.seconds()).sum();
    ExplorationSummary {
        users: users.len() as u64,
        unhappy_users: users.iter().filter(unhappy).count() as u64,
        users_without_mandatory: users.iter().filter(|user| user.mandatory_done.is_none()).count() as u64,
        unfairness: greatest(&satisfaction) - least(&satisfaction),
        useful_unfairness: greatest(&useful) - least(&useful),
        min_satisfaction: least(&satisfaction),
        mean_satisfaction: mean(&satisfaction),
        max_satisfaction: greatest(&satisfaction),
        completed_requests: users.iter().map(|user| u64::from(user.completed)).sum(),
        killed_requests: users.iter().map(|user| u64::from(user.killed)).sum(),
        wasted_percent: if usage > 0.0 { 100.0 * (usage - kept) / usage } else { 0.0 },
        mean_mandatory_s: mean(&waits),
        max_mandatory_s: greatest(&waits),
        stored_requests: u64::from(run.stored_most),
        submissions: run.submissions,
    }
}

/// The fair share of each user in resource seconds: between two changes, all resources are shared by those who are there
/// from beginning to end, by their weights.
pub fn fair_shares(run: &ExplorationRun) -> Vec<f64> {
    let users = &run.explorations;
    let mut changes: Vec<TimeMs> = users.iter().flat_map(|user| [user.arrival, user.deadline]).collect();
    changes.extend(run.capacity.iter().map(|step| step.since));
    changes.sort();
    changes.dedup();
    let mut fair_share = vec![0.0; users.len()];
    for slot in changes.windows(2) {
        let (from, until) = (slot[0], slot[1]);
        let there = |user: &Exploration| user.arrival <= from && until <= user.deadline;
        let weights: f64 = users.iter().filter(|user| there(user)).map(|user| f64::from(user.weight)).sum();
        let resources =
            run.capacity.iter().rev().find(|step| step.since <= from).map_or(0.0, |step| step.resources);
        for (user, fair_share) in users.iter().zip(&mut fair_share).filter(|(user, _)| there(user)) {
            *fair_share += resources * (until - from).seconds() * f64::from(user.weight) / weights;
        }
    }
    fair_share
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::min).unwrap_or(0.0)
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().reduce(f64::max).unwrap_or(0.0)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

#[cfg(test)]
mod tests {
    use pliant_model::{Capacity, SpanMs};

    use super::*;

    fn user(arrival: i64, deadline: i64, weight: u32, usage: i64) -> Exploration {
        Exploration {
            arrival: TimeMs(arrival * 1_000),
            deadline: TimeMs(deadline * 1_000),
            weight,
            mandatory: 1,
            mandatory_done: Some(TimeMs(deadline * 1_000)),
            completed: 3,
            usage: SpanMs(usage),
            useful: SpanMs(usage),
            killed: 0,
            left: TimeMs(deadline * 1_000),
        }
    }

    fn run(steps: &[(i64, f64)], explorations: Vec<Exploration>) -> ExplorationRun {
        let step = |(since, resources): &(i64, f64)| Capacity {
            since: TimeMs(since * 1_000),
            resources: *resources,
        };
        ExplorationRun {
            capacity: steps.iter().map(step).collect(),
            explorations,
            stored_most: 1,
            submissions: 1,
        }
    }

    #[test]
    fn g004_3_overlapping_users_share_what_is_there_while_both_are() {
        let check = |steps: &[(i64, f64)], users: Vec<Exploration>, expected: &[f64]| {
            assert_eq!(fair_shares(&run(steps, users)), expected);
        };
        check(&[(0, 1.0)], vec![user(0, 10, 1, 0), user(5, 15, 1, 0)], &[7.5, 7.5]);
        check(&[(0, 1.0)], vec![user(0, 10, 3, 0), user(5, 15, 1, 0)], &[8.75, 6.25]);
        check(&[(0, 1.0), (2, 0.0), (5, 2.0)], vec![user(0, 10, 1, 0), user(5, 15, 1, 0)], &[7.0, 15.0]);
        check(&[(0, 1.0)], vec![user(3, 3, 1, 0)], &[0.0]);
    }

    #[test]
    fn g004_6_the_papers_own_arithmetic() {
        let mut scalability = run(&[(0, 138.0)], (0..100).map(|_| user(0, 100, 1, 138_000)).collect());
        let ideal = fair_shares(&scalability);
        assert!(ideal.iter().all(|fair_share| (fair_share - 138.0).abs() < 1e-9), "13,800 s over 100 users");
        assert!(((100.0 * 13_605.0 / ideal.iter().sum::<f64>()) - 98.59_f64).abs() < 0.01);
        assert_eq!(summarize_exploration(&scalability).unfairness, 0.0);
        scalability.explorations[0].usage = SpanMs(69_000);
        assert_eq!(summarize_exploration(&scalability).unfairness, 0.5);
    }

    #[test]
    fn users_with_late_or_unfinished_requests_are_unhappy() {
        let mut users = vec![user(0, 10, 1, 0), user(0, 10, 1, 0), user(0, 10, 1, 0)];
        users[1].mandatory_done = Some(TimeMs(10_001));
        users[2].mandatory_done = None;
        let found = summarize_exploration(&run(&[(0, 1.0)], users));
        assert_eq!((found.unhappy_users, found.users_without_mandatory), (2, 1));
        assert_eq!((found.completed_requests, found.max_mandatory_s), (9, 10.001));
    }
}
