//! The direct simulation of the scenarios of paper 004, against its measurements and against values computed from its text.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_control::optional::explore::Dispatch;
use pliant_model::SpanMs;
use pliant_policy::optional::Fairness::{Cumulative, Satisfaction, VirtualTime};
use pliant_report::{ExplorationSummary, summarize_exploration};
use pliant_sim::optional::{Arrivals, Overheads, Scenario, System, simulate, simulate_with};

fn runs(scenario: &Scenario, system: System) -> Vec<ExplorationSummary> {
    (1..=10).map(|seed| summarize_exploration(&simulate(scenario, &system, seed))).collect()
}

/// The median over ten seeds, as the paper takes it.
fn median(runs: &[ExplorationSummary], metric: fn(&ExplorationSummary) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(metric).collect();
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

fn completed(runs: &[ExplorationSummary]) -> f64 {
    median(runs, |run| run.completed_requests as f64)
}

fn unfairness(runs: &[ExplorationSummary]) -> f64 {
    median(runs, |run| run.unfairness)
}

fn unhappy(runs: &[ExplorationSummary]) -> f64 {
    median(runs, |run| run.unhappy_users as f64)
}

fn near(found: f64, expected: f64, within: f64, what: &str) {
    assert!((found - expected).abs() <= within, "{what}: expected {expected} within {within}, found {found}");
}

const ETHIC: System = System::ethic(VirtualTime);

#[test]
fn g004_5_by_day_190_guessed_requests_complete_the_most_requests() {
    let scenario = Scenario::paper(Arrivals::Regular);
    let guess = |guess| runs(&scenario, System::legacy(guess));
    let best = guess(190);
    assert_eq!((completed(&best), unhappy(&best)), (1_890.0, 0.0));
    near(unfairness(&best), 0.72, 0.02, "unfairness at 190");
    for other in [3, 100, 180, 200, 300, 1_000] {
        assert!(completed(&guess(other)) < 1_890.0, "{other}");
    }
    let fewer: Vec<f64> = [190, 200, 300, 1_000].map(|many| completed(&guess(many))).to_vec();
    assert!(fewer.is_sorted_by(|a, b| a > b), "the more are guessed the fewer are completed: {fewer:?}");
    near(unfairness(&guess(1_000)), 3.07, 0.05, "unfairness at 1,000");
}

#[test]
fn g004_6_by_day_the_papers_system_completes_the_published_count_within_one_percent() {
    let scenario = Scenario::paper(Arrivals::Regular);
    let found = runs(&scenario, ETHIC);
    near(completed(&found), 1_842.0, 18.42, "completed requests");
    near(unfairness(&found), 0.07, 0.02, "unfairness");
    assert_eq!(unhappy(&found), 0.0);
    assert!(found.iter().all(|run| run.killed_requests > 0), "some optional requests are killed");
    // The paper: 1,842 over 1,890, 2.54 % less than the best guess; fewer here, as fewer are killed.
    let against_best = completed(&found) / completed(&runs(&scenario, System::legacy(190))) - 1.0;
    near(against_best, -0.0254, 0.01, "completed requests against the best guess");
    assert!(against_best < 0.0, "{against_best}");
}

/// Rule 4 as printed contradicts the paper's own result. The contradiction shows if the next request of a new user
/// is queued when a core becomes free; with a window of one it never is, if sending takes any time.
#[test]
fn by_day_the_rule_as_printed_is_unfair() {
    let check = |pace: i64, window, fairness, expected: f64| {
        let scenario = Scenario { pace: SpanMs(pace), ..Scenario::paper(Arrivals::Regular) };
        let system = System { dispatch: Dispatch::Window(window), ..System::ethic(fairness) };
        near(
            unfairness(&runs(&scenario, system)),
            expected,
            0.03,
            &format!("{fairness}, {pace} ms, {window}"),
        );
    };
    check(0, 1, Cumulative, 1.06);
    check(0, 1, VirtualTime, 0.08);
    check(1, 1, Cumulative, 0.86);
    check(1, 2, Cumulative, 1.03);
    check(1, 1, VirtualTime, 0.06);
    check(1, 1, Satisfaction, 0.07);
}

#[test]
fn by_night_the_first_users_are_served_first_unless_requests_are_optional() {
    let scenario = Scenario { pace: SpanMs::ZERO, ..Scenario::paper(Arrivals::Consecutive) };
    let ethic = runs(&scenario, ETHIC);
    assert_eq!(unhappy(&ethic), 0.0);
    near(unfairness(&ethic), 0.036, 0.01, "unfairness");
    assert!(completed(&ethic) >= 990.0);
    // Guesses, unhappy users and unfairness.
    for (guess, late, unfair) in
        [(100, 0.0, 0.015), (110, 0.0, 0.91), (150, 3.0, 1.40), (300, 6.0, 2.88), (1_000, 9.0, 9.71)]
    {
        let found = runs(&scenario, System::legacy(guess));
        assert_eq!(unhappy(&found), late, "{guess}");
        near(unfairness(&found), unfair, 0.01, &format!("unfairness at {guess}"));
    }
}

#[test]
fn at_once_both_systems_share_the_platform_if_guesses_are_large_enough() {
    let scenario = Scenario::paper(Arrivals::Simultaneous);
    for system in [ETHIC, System::legacy(100), System::legacy(1_000)] {
        let found = runs(&scenario, system);
        assert_eq!((completed(&found), unhappy(&found)), (990.0, 0.0), "{system:?}");
        near(unfairness(&found), 0.0, 0.005, "unfairness");
    }
    for guess in [3, 30, 90] {
        let found = runs(&scenario, System::legacy(guess));
        assert_eq!(completed(&found), f64::from(guess * 10), "too few fill a part of the platform");
    }
    // G004-6, n_ideal: the least guess of ten users that fills ten servers for 100 s if messages take no time.
    let at_once = Scenario { pace: SpanMs::ZERO, ..scenario };
    for (guess, expected) in [(99, 990.0), (100, 1_000.0), (101, 1_000.0)] {
        let found = runs(&at_once, System::legacy(guess));
        assert_eq!((completed(&found), unhappy(&found)), (expected, 0.0), "{guess}");
    }
}

#[test]
fn over_a_working_day_no_user_is_unhappy_and_most_guesses_are_worse() {
    for arrivals in [Arrivals::Diurnal, Arrivals::DiurnalRandom] {
        let scenario = Scenario::paper(arrivals);
        let ethic = runs(&scenario, ETHIC);
        assert!(ethic.iter().all(|run| run.unhappy_users == 0), "{arrivals:?}");
        for guess in [10, 200, 1_000] {
            let found = runs(&scenario, System::legacy(guess));
            let worse =
                unfairness(&found) > unfairness(&ethic) || completed(&found) < 0.5 * completed(&ethic);
            assert!(worse, "{arrivals:?} {guess}");
        }
        let found = runs(&scenario, System::legacy(50));
        assert!(
            completed(&found) > 0.95 * completed(&ethic),
            "{arrivals:?}: a guess that fills the platform"
        );
    }
    let random = runs(&Scenario::paper(Arrivals::DiurnalRandom), System::legacy(100));
    assert!(unhappy(&random) > 5.0, "with longer requests guesses make users unhappy");
}

#[test]
fn g004_7_on_138_servers_100_users_complete_the_published_count_within_one_percent() {
    let summary = summarize_exploration(&simulate(&Scenario::scalability(SpanMs(13_000)), &ETHIC, 1));
    assert_eq!(summary.unhappy_users, 0);
    near(summary.completed_requests as f64, 13_605.0, 136.0, "completed requests");
    // The policy alone gives less than 0.01; the rest comes from the 13 s that cancellations take as well. The paper has 0.70.
    assert!(summary.unfairness < 0.15, "{}", summary.unfairness);
    assert_eq!(summary.stored_requests, 13_800, "one for each user and server");
}

/// An execution overhead has the effect of a longer runtime.
#[test]
fn overheads_prolong_requests_and_delay_users() {
    let system = System::ethic(VirtualTime);
    let scenario = Scenario::paper(Arrivals::Diurnal);
    let moment = Overheads { execution: vec![SpanMs(1)], ..Overheads::default() };
    let longer = Scenario { runtime: SpanMs(1_001), ..scenario.clone() };
    assert_eq!(simulate_with(&scenario, &system, &moment, 1), simulate(&longer, &system, 1));
    assert_eq!(simulate_with(&scenario, &system, &Overheads::default(), 1), simulate(&scenario, &system, 1));
    // Overheads of half a second leave a user less time until the deadline.
    let alone = Scenario { users: 1, ..Scenario::paper(Arrivals::Simultaneous) };
    let completed = |overheads: &Overheads| {
        summarize_exploration(&simulate_with(&alone, &system, overheads, 1)).completed_requests
    };
    let at_once = completed(&Overheads::default());
    let half = vec![SpanMs(500)];
    assert_eq!(completed(&Overheads { submission: half.clone(), ..Overheads::default() }), at_once);
    assert!(completed(&Overheads { next_request: half, ..Overheads::default() }) < at_once * 7 / 10);
}
