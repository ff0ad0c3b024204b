//! The machines of optional computations over a network: without faults the run equals the direct one, and with faults all
//! invariants hold.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_model::{ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::{Fairness, Order, Reallocation};
use pliant_report::summarize_exploration;
use pliant_sim::optional::{
    Arrivals, Bug, NetworkFaults, Scenario, Schedule, ScheduleCounts, System, simulate, simulate_network,
};

const GRACE: System = System {
    order: Order::Fair { fairness: Fairness::VirtualTime, grace: SpanMs(1_000) },
    ..System::ethic(Fairness::VirtualTime)
};

/// Mandatory requests move often.
const MOVING: System = System {
    reallocation: Some(Reallocation { every: SpanMs(250), least_gain: SpanMs(50) }),
    ..System::ethic(Fairness::VirtualTime)
};

#[test]
fn over_a_perfect_network_every_run_equals_the_direct_one() {
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
            // Clients that query the state of a waiting request send more; nothing else differs.
            direct.submissions = found.run.submissions;
            let users = found.run.explorations.iter().zip(&direct.explorations).enumerate();
            for (number, (networked, direct)) in users {
                assert_eq!(networked, direct, "user {number} of {scenario:?} under {system:?}");
            }
            assert_eq!(found.run, direct, "{scenario:?} {system:?}");
        }
    }
}

/// The fault rates of a seed: each kind of fault occurs for some seeds.
fn fault_rates(seed: u64) -> NetworkFaults {
    NetworkFaults {
        latency: SpanMs(1 + (seed % 3) as i64 * 20),
        spread: SpanMs((seed % 4) as i64 * 100),
        lost: (seed % 5) as u32 * 30,
        duplicated: (seed % 7) as u32 * 20,
        crash_every: SpanMs((seed % 6) as i64 * 3_000),
        downtime: SpanMs(3_000),
        until: TimeMs(150_000),
        ..NetworkFaults::default()
    }
}

#[test]
fn invariants_hold_under_faults() {
    let mut crashes = 0;
    for seed in 1..=40 {
        let arrivals = Arrivals::ALL[seed as usize % 5];
        let scenario = Scenario { most: 60 + seed as u32 * 20, ..Scenario::paper(arrivals) };
        let system = [GRACE, System::ethic(Fairness::VirtualTime), MOVING][seed as usize % 3];
        let found = simulate_network(&scenario, &system, fault_rates(seed), seed);
        assert_eq!(found.violations, Vec::<String>::new(), "seed {seed}, {:?}", fault_rates(seed));
        assert_eq!(summarize_exploration(&found.run).unhappy_users, 0, "seed {seed}");
        crashes += found.counts.crashes;
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
fn schedules_have_no_violations() {
    let check = |seed: u64| {
        let schedule = Schedule::draw(seed);
        let (counts, violations) = schedule.run(None, unfairness);
        assert_eq!(violations, Vec::<String>::new(), "seed {seed}: {schedule:?}");
        counts
    };
    let total = (0..400).map(check).fold(ScheduleCounts::default(), |total, one| total + one);
    // The seeds must contain enough events to test anything.
    let counts = total.counts;
    assert!(
        counts.crashes > 4_000 && counts.after_commit > 500 && counts.crashed_without_servers > 100,
        "{total}"
    );
    assert!(counts.given_up > 1_000 && counts.refused > 5_000 && counts.cancelled > 2_000, "{total}");
    assert!(counts.unanswered > 1_000 && counts.in_time > 200 && total.fair > 100, "{total}");
    let has_crashes = |schedule: &Schedule| {
        schedule.unfairness_most.is_some() && schedule.faults.crash_every > SpanMs::ZERO
    };
    assert!(
        (0..400).map(Schedule::draw).filter(has_crashes).count() > 50,
        "too few crash and are to be fair"
    );
}

/// Seeds that failed once, each with the bug that it found.
#[test]
fn seeds_that_failed_once_have_no_violations() {
    for (seed, what) in [
        (7_000_059, "clients gave servers up before an answer could arrive"),
        (7_000_482, "clients gave servers up before an answer could arrive"),
        (7_000_548, "clients gave servers up before an answer could arrive"),
        (7_005_808, "a late answer to a submission was taken for the answer to a cancellation"),
        (7_000_861, "a run after its user's deadline counted as the user's share"),
        (7_002_543, "mandatory requests above their user's share were reported as unfair"),
        (451_000_114, "an unfairness of exactly the bound was over it by the rounding of its sums"),
        (50_001_414, "the answer to the cancellation of one attempt was taken for that of the next attempt"),
        (50_006_572, "the answer to the cancellation of one attempt was taken for that of the next attempt"),
        (50_007_826, "a client gave a server up and then executed earlier commands of its dispatcher"),
        (
            50_007_394,
            "users were charged for the time in which a server was down after their requests had ended",
        ),
        (
            50_000_165,
            "users were charged for the time in which a server was down after their requests had ended",
        ),
        (63_000_017, "a run after a user's deadline while its client was down was reported as unfair"),
        (20_001_249, "mandatory requests above their user's share were reported as unfair"),
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
fn the_checkers_find_injected_bugs() {
    for (bug, least) in [
        (Bug::ForgetsJournal, 20),
        (Bug::SendsOnce, 15),
        (Bug::ForgetsSent, 1),
        (Bug::WaitsForAgent, 10),
        (Bug::HidesLostServer, 2),
        (Bug::AcceptsAnyNumber, 50),
        (Bug::ForgetsWeights, 8),
        (Bug::EndsAnyRequest, 50),
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
