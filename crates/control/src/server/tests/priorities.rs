//! Weights, shares and classes of an embedded batch system.

use pliant_policy::batch::order::{Factor, PriorityParts, PrioritySettings, UserPriority, Weights};

use super::*;

fn of(owner: &str, key: u8, procs: u32, walltime: i64) -> Submit {
    Submit { owner: user(owner), ..rigid(key, procs, walltime) }
}

fn parts(bench: &mut Bench, number: u32) -> PriorityParts {
    let caller = Caller { user: user("root"), operator: true };
    bench.server.explain(bench.now, number, &caller).unwrap().waits.unwrap().priority.unwrap()
}

fn set(bench: &mut Bench, priority: PrioritySettings) {
    bench.deliver(Event::PrioritySettings(Box::new(priority)));
    assert!(bench.commands.is_empty(), "no job starts or ends by that: {:?}", bench.commands);
}

/// Alice has used 80 processor seconds when Bob, who has used none, comes behind her.
fn loaded(priority: PrioritySettings) -> Bench {
    let mut bench = Bench::new("fcfs/multifactor", 4);
    set(&mut bench, priority);
    bench.accepted(of("alice", 1, 4, 20));
    assert_eq!(bench.at(100).len(), 1);
    bench.now = Time(105);
    bench.accepted(of("alice", 2, 4, 50));
    bench.now = Time(110);
    bench.accepted(of("bob", 3, 2, 50));
    bench
}

/// The job that starts when the first one ends.
fn next(bench: &mut Bench) -> u32 {
    bench.now = Time(120);
    bench.ended(1, Exit::Code(0));
    bench.at(120)[0].job.0
}

const FAIR: Weights = Weights { age: 1, size: 1, fair_share: 1_000 };

#[test]
fn a_waiting_job_of_a_heavy_user_is_overtaken_by_a_light_user() {
    let size_first =
        PrioritySettings { weights: Weights { size: 2_000, ..FAIR }, ..PrioritySettings::default() };
    assert_eq!(next(&mut loaded(size_first)), 2, "the larger job first");
    let fair = PrioritySettings { weights: FAIR, ..PrioritySettings::default() };
    let mut bench = loaded(fair.clone());
    let factor = |value, weight| Factor { value, weight };
    assert_eq!(
        parts(&mut bench, 3),
        PriorityParts { age: factor(0.0, 1), size: factor(0.5, 1), fair_share: factor(1.0, 1_000), class: 0 }
    );
    let age = 5.0 / 604_800.0;
    assert_eq!(
        parts(&mut bench, 2),
        PriorityParts { age: factor(age, 1), size: factor(1.0, 1), fair_share: factor(0.5, 1_000), class: 0 }
    );
    assert_eq!(next(&mut bench), 3, "Bob has used nothing");
    // A class that outweighs it.
    let alice = UserPriority { bonus: 600, ..UserPriority::usual(user("alice").owner()) };
    let mut bench = loaded(PrioritySettings { users: vec![alice], ..fair });
    assert_eq!(parts(&mut bench, 2).class, 600);
    assert_eq!(next(&mut bench), 2);
}

#[test]
fn settings_are_part_of_the_state_and_of_the_snapshot_for_agents() {
    let alice = UserPriority { shares: 3, ..UserPriority::usual(user("alice").owner()) };
    let half_life = Some(Span(3_600));
    let priority =
        PrioritySettings { weights: FAIR, users: vec![alice], half_life, ..PrioritySettings::default() };
    let mut bench = loaded(priority.clone());
    let before = [2, 3].map(|number| parts(&mut bench, number));
    changes::restored(&mut bench);
    assert_eq!(bench.server.priority(), Some(&priority));
    assert_eq!([2, 3].map(|number| parts(&mut bench, number)), before);
    // An agent that plans the queue has the same order.
    let snapshot = bench.server.snapshot(bench.now, &orders::info("fcfs/multifactor"));
    assert_eq!(snapshot.queue.shares.unwrap().priority, Some(priority.clone()));
    // The usage stays through other policies and settings.
    bench.deliver(Event::Configured { procs: Procs(4), policy: "fcfs/fair-share".to_owned(), host: None });
    assert_eq!(bench.server.priority(), Some(&priority));
    set(&mut bench, PrioritySettings::default());
    assert_eq!(bench.server.priority(), Some(&PrioritySettings::default()));
    assert_eq!(next(&mut bench), 3, "Alice has used more, for one share as for three");
}
