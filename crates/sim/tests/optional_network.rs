//! The machines of optional computations over a network: without faults the run is the direct one, and with them no
//! promise is broken.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_model::{ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::{Fairness, Order, Reallocation};
use pliant_report::summarize_exploration;
use pliant_sim::optional::{
    Arrivals, Bug, NetworkFaults, Scenario, Schedule, System, Tried, simulate, simulate_network,
};

const GRACE: System = System {
    order: Order::Fair { fairness: Fairness::VirtualTime, grace: SpanMs(1_000) },
    ..System::ethic(Fairness::VirtualTime)
};

/// Mandatory requests are moved, often.
const MOVING: System = System {
    reallocation: Some(Reallocation { every: SpanMs(250), least_gain: SpanMs(50) }),
    ..System::ethic(Fairness::VirtualTime)
};

#[test]
fn over_a_perfect_network_every_run_is_the_direct_one() {
    let several_cores = Scenario { cores: 2, ..Scenario::paper(Arrivals::Regular) };
    let speeds = Scenario { speeds: vec![0.5, 1.0, 2.0, 4.0], ..Scenario::paper(Arrivals::Diurnal) };
    let weights = Scenario { weights: vec![1, 2, 4], ..Scenario::paper(Arrivals::Consecutive) };
    let scenarios = Arrivals::ALL.map(Scenario::paper).into_iter().chain([several_cores, speeds, weights]);
    for scenario in scenarios {
        for system in [
            System::ethic(Fairness::Cumulative),
            System::ethic(Fairness::VirtualTime),
            GRACE,
            MOVING,
            System::legacy(60),
        ] {
            let found = simulate_network(&scenario, &system, NetworkFaults::default(), 7);
            assert_eq!(found.violations, Vec::<String>::new(), "{scenario:?} {system:?}");
            let mut direct = simulate(&scenario, &system, 7);
            // Who asks how a long wait goes sends more; nothing else follows from it.
            direct.submissions = found.run.submissions;
            let users = found.run.explorations.iter().zip(&direct.explorations).enumerate();
            for (number, (networked, direct)) in users {
                assert_eq!(networked, direct, "user {number} of {scenario:?} under {system:?}");
            }
            assert_eq!(found.run, direct, "{scenario:?} {system:?}");
        }
    }
}

/// Fault rates of a seed: each kind of fault in some of them.
fn fault_rates(seed: u64) -> NetworkFaults {
    NetworkFaults {
        latency: SpanMs(1 + (seed % 3) as i64 * 20),
        spread: SpanMs((seed % 4) as i64 * 100),
        lost: (seed % 5) as u32 * 30,
        doubled: (seed % 7) as u32 * 20,
        crash_every: SpanMs((seed % 6) as i64 * 3_000),
        away: SpanMs(3_000),
        until: TimeMs(150_000),
        ..NetworkFaults::default()
    }
}

#[test]
fn no_promise_is_broken_under_faults() {
    let mut crashes = 0;
    for seed in 1..=40 {
        let arrivals = Arrivals::ALL[seed as usize % 5];
        let scenario = Scenario { most: 60 + seed as u32 * 20, ..Scenario::paper(arrivals) };
        let system = [GRACE, System::ethic(Fairness::VirtualTime), MOVING][seed as usize % 3];
        let found = simulate_network(&scenario, &system, fault_rates(seed), seed);
        assert_eq!(found.violations, Vec::<String>::new(), "seed {seed}, {:?}", fault_rates(seed));
        assert_eq!(summarize_exploration(&found.run).unhappy_users, 0, "seed {seed}");
        crashes += found.seen.crashes;
    }
    assert!(crashes > 500, "expected more than 500 crashes, found {crashes}");
}

#[test]
fn users_who_arrive_together_get_equal_shares_under_faults() {
    for seed in 1..=12 {
        let system = System::ethic(Fairness::VirtualTime);
        let found =
            simulate_network(&Scenario::paper(Arrivals::Simultaneous), &system, fault_rates(seed), seed);
        let summary = summarize_exploration(&found.run);
        assert!(summary.unfairness < 0.25, "seed {seed}, {:?}: {summary:?}", fault_rates(seed));
    }
}

fn unfairness(run: &ExplorationRun) -> f64 {
    summarize_exploration(run).unfairness
}

#[test]
fn schedules_end_well() {
    let check = |seed: u64| {
        let schedule = Schedule::draw(seed);
        let (tried, violations) = schedule.run(None, unfairness);
        assert_eq!(violations, Vec::<String>::new(), "seed {seed}: {schedule:?}");
        tried
    };
    let total = (0..400).map(check).fold(Tried::default(), |total, one| total + one);
    // Seeds that do nothing would prove nothing.
    let seen = total.seen;
    assert!(seen.crashes > 4_000 && seen.cut_short > 500 && seen.crashed_looking > 100, "{total}");
    assert!(seen.given_up > 1_000 && seen.refused > 5_000 && seen.cancelled > 2_000, "{total}");
    assert!(seen.unanswered > 1_000 && seen.in_time > 200 && total.fair > 100, "{total}");
    let is_rough = |schedule: &Schedule| {
        schedule.unfairness_most.is_some() && schedule.faults.crash_every > SpanMs::ZERO
    };
    assert!((0..400).map(Schedule::draw).filter(is_rough).count() > 50, "too few crash and are to be fair");
}

/// Seeds that failed once, and what was wrong.
#[test]
fn what_failed_once_ends_well() {
    for (seed, what) in [
        (7_000_059, "clients gave servers up before an answer could arrive"),
        (7_000_482, "clients gave servers up before an answer could arrive"),
        (7_000_548, "clients gave servers up before an answer could arrive"),
        (7_005_808, "a late answer to a submission was taken for that to a cancellation"),
        (7_000_861, "what ran after its user's deadline counted as the user's share"),
        (7_002_543, "mandatory requests that take more than their user's share were held to be unfair"),
        (50_001_414, "the answer to the cancellation of one attempt was taken for that of the next attempt"),
        (50_006_572, "the answer to the cancellation of one attempt was taken for that of the next attempt"),
        (
            50_007_826,
            "a client carried out what its dispatcher wanted before it gave a server up, after that",
        ),
        (
            50_007_394,
            "users were charged for the time in which a server was down after their requests had ended",
        ),
        (
            50_000_165,
            "users were charged for the time in which a server was down after their requests had ended",
        ),
        (63_000_017, "what ran after a user's deadline while its client was down was held to be unfair"),
        (20_001_249, "mandatory requests that take more than their user's share were held to be unfair"),
    ] {
        let schedule = Schedule::draw(seed);
        assert_eq!(schedule.run(None, unfairness).1, Vec::<String>::new(), "{seed}: {what}: {schedule:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    for seed in 0..5 {
        let run = || Schedule::draw(seed).run(None, unfairness);
        assert_eq!(run(), run(), "seed {seed}");
    }
}

#[test]
fn the_checkers_find_bugs() {
    for (bug, least) in [
        (Bug::ForgetsJournal, 20),
        (Bug::SendsOnce, 15),
        (Bug::ForgetsSent, 1),
        (Bug::WaitsForAgent, 10),
        (Bug::LosesWithServer, 2),
        (Bug::TakesAnyNumber, 50),
        (Bug::ForgetsWeights, 8),
        (Bug::EndsAnybody, 50),
    ] {
        let finds = |seed: &u64| !Schedule::draw(*seed).run(Some(bug), unfairness).1.is_empty();
        let found = (0..100).filter(finds).count();
        assert!(found >= least, "{bug:?} was found in {found} of 100 schedules");
    }
}

#[test]
fn a_slow_network_keeps_the_platform_fair_and_busy() {
    for seed in 1..=5 {
        let faults = NetworkFaults { latency: SpanMs(5), spread: SpanMs(20), ..NetworkFaults::default() };
        let system = System::ethic(Fairness::VirtualTime);
        let found = simulate_network(&Scenario::paper(Arrivals::Simultaneous), &system, faults, seed);
        let summary = summarize_exploration(&found.run);
        assert_eq!(summary.unhappy_users, 0);
        assert!(summary.unfairness < 0.1 && summary.completed_requests >= 980, "{summary:?}");
    }
}
