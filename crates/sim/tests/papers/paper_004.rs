//! The direct simulation of the scenarios of paper 004, against its measurements and against values computed from its text.

use pliant_control::optional::explore::Dispatch;
use pliant_model::SpanMs;
use pliant_policy::optional::Fairness::{Cumulative, Satisfaction, VirtualTime};
use pliant_report::{ExplorationSummary, summarize_exploration};
use pliant_sim::optional::{Arrivals, Overheads, Scenario, System, simulate, simulate_with};
use pliant_testing::claims::figure;

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
fn c004_1_no_user_is_unhappy_in_any_scenario_under_any_sense_of_rule_4() {
    for arrivals in Arrivals::ALL {
        for fairness in [VirtualTime, Cumulative, Satisfaction] {
            let runs = runs(&Scenario::paper(arrivals), System::ethic(fairness));
            let unhappy: u64 = runs.iter().map(|run| run.unhappy_users).sum();
            let what = format!("unhappy users in ten runs, {}, {fairness}", arrivals.name());
            figure("C004-1", &what, unhappy as f64, 0.0..=0.0);
        }
    }
}

#[test]
fn g004_5_by_day_190_guessed_requests_complete_the_most_requests() {
    let scenario = Scenario::paper(Arrivals::Regular);
    let guess = |guess| runs(&scenario, System::legacy(guess));
    let best = guess(190);
    figure("C004-8", "completed with 190 guessed", completed(&best), 1_890.0..=1_890.0);
    figure("C004-8", "unhappy users with 190 guessed", unhappy(&best), 0.0..=0.0);
    figure("C004-12", "unfairness with 190 guessed", unfairness(&best), 0.70..=0.74);
    for other in [3, 100, 180, 200, 300, 1_000] {
        assert!(completed(&guess(other)) < 1_890.0, "{other}");
    }
    let fewer: Vec<f64> = [190, 200, 300, 1_000].map(|many| completed(&guess(many))).to_vec();
    assert!(fewer.is_sorted_by(|a, b| a > b), "the more are guessed the fewer are completed: {fewer:?}");
    figure("C004-11", "completed with 1,000 guessed", fewer[3], 1_790.0..=1_810.0);
    figure("C004-12", "unfairness with 1,000 guessed", unfairness(&guess(1_000)), 3.02..=3.12);
}

#[test]
fn g004_6_by_day_the_papers_system_completes_the_published_count_within_one_percent() {
    let scenario = Scenario::paper(Arrivals::Regular);
    let found = runs(&scenario, ETHIC);
    figure("C004-10", "completed, the paper has 1,842", completed(&found), 1_823.6..=1_860.4);
    figure("C004-9", "unfairness by day, virtual-time", unfairness(&found), 0.05..=0.09);
    assert_eq!(unhappy(&found), 0.0);
    assert!(found.iter().all(|run| run.killed_requests > 0), "some optional requests are killed");
    figure(
        "C004-15",
        "killed requests by day",
        median(&found, |run| run.killed_requests as f64),
        15.0..=27.0,
    );
    figure(
        "C004-15",
        "% of resource time wasted by day",
        median(&found, |run| run.wasted_percent),
        1.5..=2.7,
    );
    // The paper: 1,842 over 1,890, 2.54 % less than the best guess; fewer here, as fewer are killed.
    let against_best = completed(&found) / completed(&runs(&scenario, System::legacy(190))) - 1.0;
    figure("C004-10", "% against the best guess, the paper has -2.54", 100.0 * against_best, -3.54..=-1e-9);
}

/// Rule 4 as printed contradicts the paper's own result. The contradiction shows if the next request of a new user
/// is queued when a core becomes free; with a window of one it never is, if sending takes any time.
#[test]
fn c004_9_by_day_the_rule_as_printed_is_unfair() {
    let check = |pace: i64, window, fairness, expected: f64| {
        let scenario = Scenario { pace: SpanMs(pace), ..Scenario::paper(Arrivals::Regular) };
        let system = System { dispatch: Dispatch::Window(window), ..System::ethic(fairness) };
        let what = format!("unfairness by day, {fairness}, messages take {pace} ms, window of {window}");
        let found = unfairness(&runs(&scenario, system));
        figure("C004-9", &what, found, expected - 0.03..=expected + 0.03);
    };
    check(0, 1, Cumulative, 1.06);
    check(0, 1, VirtualTime, 0.08);
    check(1, 1, Cumulative, 0.86);
    check(1, 2, Cumulative, 1.03);
    check(1, 1, VirtualTime, 0.06);
    check(1, 1, Satisfaction, 0.07);
}

#[test]
fn c004_5_to_7_by_night_the_first_users_are_served_first_unless_requests_are_optional() {
    let night = Scenario::paper(Arrivals::Consecutive);
    let at_once = Scenario { pace: SpanMs::ZERO, ..night.clone() };
    let ethic = [&night, &at_once].map(|scenario| runs(scenario, ETHIC));
    for (ethic, least) in ethic.iter().zip([985.0, 990.0]) {
        assert_eq!(unhappy(ethic), 0.0);
        near(unfairness(ethic), 0.036, 0.01, "unfairness");
        assert!(completed(ethic) >= least, "{}", completed(ethic));
    }
    figure("C004-7", "completed by night", completed(&ethic[0]), 988.0..=1_000.0);
    figure("C004-7", "unfairness by night", unfairness(&ethic[0]), 0.026..=0.046);
    // Guesses, unhappy users and unfairness.
    for (guess, late, unfair) in
        [(100, 0.0, 0.015), (110, 0.0, 0.91), (150, 3.0, 1.40), (300, 6.0, 2.88), (1_000, 9.0, 9.71)]
    {
        let found = runs(&at_once, System::legacy(guess));
        assert_eq!(unhappy(&found), late, "{guess}");
        near(unfairness(&found), unfair, 0.01, &format!("unfairness at {guess}"));
        if guess == 1_000 {
            let times = unfairness(&found) / unfairness(&ethic[1]);
            figure("C004-6", "times fairer, if messages take no time", times, 250.0..=290.0);
        }
    }
    for (guess, late) in [(100, 0.0), (110, 0.0), (120, 1.0), (150, 3.0), (1_000, 6.0)] {
        let found = runs(&night, System::legacy(guess));
        let what = format!("unhappy users with {guess} guessed");
        figure("C004-5", &what, unhappy(&found), late..=late);
        if guess == 100 {
            figure("C004-7", "completed with 100 guessed", completed(&found), 990.0..=1_000.0);
        }
        if guess == 1_000 {
            let times = unfairness(&found) / unfairness(&ethic[0]);
            figure("C004-6", "times fairer, messages take 1 ms", times, 105.0..=125.0);
        }
    }
    let few = runs(&night, System::legacy(90));
    figure("C004-5", "completed with 90 guessed", completed(&few), 900.0..=900.0);
}

#[test]
fn c004_2_to_4_at_once_both_systems_share_the_platform_if_guesses_are_large_enough() {
    let scenario = Scenario::paper(Arrivals::Simultaneous);
    let systems = [
        ("C004-2", "the paper's system", ETHIC),
        ("C004-4", "100 guessed", System::legacy(100)),
        ("C004-4", "1,000 guessed", System::legacy(1_000)),
    ];
    for (claim, name, system) in systems {
        let found = runs(&scenario, system);
        assert_eq!(unhappy(&found), 0.0, "{system:?}");
        figure(claim, &format!("completed, {name}"), completed(&found), 990.0..=990.0);
        figure(claim, &format!("unfairness, {name}"), unfairness(&found), 0.0..=0.005);
    }
    for guess in [3, 30, 90] {
        let found = completed(&runs(&scenario, System::legacy(guess)));
        let ten_times = f64::from(guess * 10);
        figure("C004-3", &format!("completed with {guess} guessed"), found, ten_times..=ten_times);
    }
    // G004-6, n_ideal: the least guess of ten users that fills ten servers for 100 s if messages take no time.
    let at_once = Scenario { pace: SpanMs::ZERO, ..scenario };
    for (guess, expected) in [(99, 990.0), (100, 1_000.0), (101, 1_000.0)] {
        let found = runs(&at_once, System::legacy(guess));
        assert_eq!((completed(&found), unhappy(&found)), (expected, 0.0), "{guess}");
    }
}

#[test]
fn c004_13_to_15_over_a_working_day_most_guesses_are_worse() {
    // For each guess: % more completed requests than the paper's system, unfairness over its unfairness, and unhappy users.
    let irregular = [(30, -32.8, 1.84, 0.0), (50, 1.3, 4.03, 2.0), (100, -5.2, 7.15, 10.0)];
    let random = [(30, -12.1, 2.26, 0.0), (50, -2.9, 4.08, 7.0), (100, -6.1, 6.24, 13.0)];
    for (claim, arrivals, guesses) in
        [("C004-13", Arrivals::Diurnal, irregular), ("C004-14", Arrivals::DiurnalRandom, random)]
    {
        let scenario = Scenario::paper(arrivals);
        let ethic = runs(&scenario, ETHIC);
        let wasted = median(&ethic, |run| run.wasted_percent);
        let what = format!("% of resource time wasted, {}", arrivals.name());
        figure("C004-15", &what, wasted, 4.0..=6.0);
        for (guess, more, unfair, late) in guesses {
            let found = runs(&scenario, System::legacy(guess));
            let note = |what: &str, found: f64, expected: f64, within: f64| {
                let what = format!("{what} with {guess} guessed");
                figure(claim, &what, found, expected - within..=expected + within);
            };
            let completed_more = 100.0 * (completed(&found) / completed(&ethic) - 1.0);
            note("% more completed", completed_more, more, 0.5);
            note("times as unfair", unfairness(&found) / unfairness(&ethic), unfair, 0.2);
            note("unhappy users", unhappy(&found), late, 0.5);
        }
        for guess in [10, 200, 1_000] {
            let found = runs(&scenario, System::legacy(guess));
            let worse =
                unfairness(&found) > unfairness(&ethic) || completed(&found) < 0.5 * completed(&ethic);
            assert!(worse, "{arrivals:?} {guess}");
        }
    }
}

#[test]
fn g004_7_on_138_servers_100_users_complete_the_published_count_within_one_percent() {
    let summary = summarize_exploration(&simulate(&Scenario::scalability(SpanMs(13_000)), &ETHIC, 1));
    figure("C004-16", "unhappy users in simulation", summary.unhappy_users as f64, 0.0..=0.0);
    let completed = summary.completed_requests as f64;
    figure("C004-16", "completed in simulation, the paper has 13,605", completed, 13_469.0..=13_741.0);
    // The policy alone gives less than 0.01; the rest comes from the 13 s that cancellations take as well. The paper has 0.70.
    figure("C004-17", "unfairness in simulation", summary.unfairness, 0.0..=0.15);
    let stored = summary.stored_requests as f64;
    figure("C004-19", "stored requests of 100 users on 138 servers", stored, 13_800.0..=13_800.0);
    // In setup 300 mandatory requests are sent and one optional one for each user and server; later one for each that completes.
    let in_setup = (300.0 + stored) / 13.0;
    let later = (summary.submissions as f64 - 300.0 - stored) / 100.0;
    figure(
        "C004-18",
        "messages a second in setup, over those while requests run",
        in_setup / later,
        5.0..=12.0,
    );
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
