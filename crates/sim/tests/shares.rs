//! Shares of users in simulations: who gets how much of a cluster that is always full.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use common::{job, platform};
use pliant_model::{Owner, Span, Time};
use pliant_policy::batch::order::{PrioritySettings, UserPriority, Weights};
use pliant_sim::{NoObserver, Policies, SimJob, simulate};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const HOUR: i64 = 3_600;

/// Until when usage is compared: all users have jobs that wait until then.
const UNTIL: i64 = 50 * HOUR;

/// Jobs of each user, all submitted at 0 and in a drawn order: 1 to 4 processors for 10 minutes to 2 hours.
fn backlog(users: i32) -> Vec<SimJob> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let drawn = (0..500 * users as u64).map(|number| {
        let runtime = rng.random_range(600..2 * HOUR);
        let mut one = job(number, 0, rng.random_range(1..=4), runtime, runtime);
        one.job.user = rng.random_range(0..users);
        one
    });
    drawn.collect()
}

/// The part of the processor time until [`UNTIL`] that each user gets on 16 processors.
fn parts(policy: &str, priority: &PrioritySettings, users: i32) -> Vec<f64> {
    let jobs = backlog(users);
    let policies = Policies { priority: priority.clone(), ..Policies::default() };
    let run = simulate(&platform([(16, 1.0, policy)]), &jobs, &policies, &mut NoObserver).unwrap();
    let mut used = vec![0.0; users as usize];
    for outcome in &run.jobs {
        let user = jobs.iter().find(|one| one.job.log_id == outcome.log_id).unwrap().job.user as usize;
        let end = outcome.end.min(Time(UNTIL));
        used[user] += f64::from(outcome.procs.0) * (end - outcome.start.min(end)).0 as f64;
    }
    let all: f64 = used.iter().sum();
    assert!(all > 0.85 * 16.0 * UNTIL as f64, "the cluster is full: {all}");
    used.iter().map(|used| used / all).collect()
}

fn check(name: &str, found: &[f64], expected: &[f64]) {
    let near = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() <= 0.02);
    assert!(near, "{name}: {found:?} instead of {expected:?}");
}

fn user(owner: u64, shares: u32, group: Option<u32>) -> UserPriority {
    UserPriority { owner: Owner(owner), shares, group, bonus: 0 }
}

/// Within two hundredths of the cluster.
#[test]
fn processor_time_of_a_full_cluster_is_divided_by_shares() {
    let weights = Weights { age: 0, size: 0, fair_share: 1 };
    let settings = |users: Vec<UserPriority>, groups: Vec<u32>, half_life: Option<i64>| PrioritySettings {
        weights,
        users,
        groups,
        half_life: half_life.map(Span),
        ..PrioritySettings::default()
    };
    for policy in ["fcfs/fair-share/none", "easy/fair-share/none", "easy/multifactor/none"] {
        for half_life in [None, Some(7 * 24 * HOUR), Some(24 * HOUR)] {
            let name = format!("{policy}, {half_life:?}");
            let equal = settings(Vec::new(), Vec::new(), half_life);
            check(&name, &parts(policy, &equal, 2), &[0.5, 0.5]);
            let double = settings(vec![user(0, 2, None)], Vec::new(), half_life);
            check(&name, &parts(policy, &double, 2), &[2.0 / 3.0, 1.0 / 3.0]);
            // A group of two users has as much as the third user alone.
            let group = settings(vec![user(0, 1, Some(0)), user(1, 1, Some(0))], vec![1], half_life);
            check(&name, &parts(policy, &group, 3), &[0.25, 0.25, 0.5]);
            // So has one user of a group whose other users have no jobs, and two users of such a group.
            let idle = (10..20).map(|number| user(number, 3, Some(0)));
            let alone =
                settings([user(0, 1, Some(0))].into_iter().chain(idle.clone()).collect(), vec![1], half_life);
            check(&name, &parts(policy, &alone, 2), &[0.5, 0.5]);
            let pair = [user(0, 1, Some(0)), user(1, 1, Some(0))].into_iter().chain(idle).collect();
            check(&name, &parts(policy, &settings(pair, vec![1], half_life), 3), &[0.25, 0.25, 0.5]);
        }
    }
}

/// Users of a class go first, as long as the bonus exceeds all factors.
#[test]
fn jobs_of_a_class_go_first() {
    let urgent = UserPriority { bonus: 10, ..UserPriority::usual(Owner(1)) };
    let priority = PrioritySettings { users: vec![urgent], ..PrioritySettings::default() };
    let found = parts("fcfs/multifactor/none", &priority, 2);
    // The first jobs of the other user start before any of the class is there.
    assert!(found[1] > 0.95, "{found:?}");
}
