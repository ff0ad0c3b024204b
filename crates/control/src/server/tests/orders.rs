//! Queue orders of an embedded batch system: starts and estimates depend on owners and submission times.

use super::*;
use crate::replay::Machine;
use crate::server_info::ServerInfo;

fn of(owner: &str, key: u8, procs: u32, walltime: i64) -> Submit {
    Submit { owner: user(owner), ..rigid(key, procs, walltime) }
}

/// A server of four processors.
pub(super) fn info(policy: &str) -> ServerInfo {
    ServerInfo {
        name: "lyon".parse().unwrap(),
        address: String::new(),
        rank: 0,
        procs: Procs(4),
        speed: Speed::REFERENCE,
        policy: policy.to_owned(),
        services: Vec::new(),
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    }
}

/// The jobs that start next when the first one ends.
fn starts_after_the_first(policy: &str, submits: &[Submit]) -> Vec<u32> {
    let mut bench = Bench::new(policy, 4);
    bench.accepted(of("alice", 200, 4, 20));
    bench.at(100);
    bench.now = Time(101);
    submits.iter().for_each(|submit| {
        bench.accepted(submit.clone());
    });
    bench.now = Time(110);
    bench.ended(1, Exit::Code(0));
    bench.at(110).iter().map(|run| run.job.0).collect()
}

#[test]
fn the_queue_order_decides_the_next_start() {
    let check = |policy: &str, submits: &[Submit], expected: &[u32]| {
        assert_eq!(starts_after_the_first(policy, submits), expected, "{policy}");
    };
    let submits = [of("alice", 1, 4, 20), of("bob", 2, 2, 9), of("alice", 3, 2, 30)];
    check("fcfs", &submits, &[2]);
    check("fcfs/shortest", &submits, &[3]);
    check("easy/smallest-area/none", &submits, &[3, 4]);
    // Alice has used 40 processor seconds, Bob none.
    check("fcfs/fair-share", &submits, &[3]);
    check("fcfs/fair-share", &[of("alice", 1, 4, 20), of("alice", 2, 2, 9)], &[2]);
    // All have waited longer than 5 s: first come, first served.
    check("fcfs/shortest/5s", &submits, &[2]);
}

#[test]
fn estimates_under_fair_share_depend_on_the_usage_of_the_user() {
    let mut bench = Bench::new("fcfs/fair-share", 4);
    bench.accepted(of("alice", 1, 4, 20));
    bench.at(100);
    bench.now = Time(110);
    bench.accepted(of("alice", 2, 4, 50));
    let info = info("fcfs/fair-share");
    let work = Work::new(Procs(4), Span(7), Speedup::Rigid);
    let start = |bench: &mut Bench, who: &str| {
        bench.server.answer(bench.now, &info, &user(who), &work).vectors[0].estimate.start
    };
    assert_eq!(start(&mut bench, "bob"), Time(120), "before Alice's second job");
    assert_eq!(start(&mut bench, "alice"), Time(170), "behind it");
    let accepted = bench.accepted(of("bob", 3, 4, 7));
    assert_eq!(accepted.expected.start, Time(120));
    // The usage of users is part of the server's state.
    let text = serde_json::to_string(&bench.server.dump(bench.now)).unwrap();
    let state: ServerState = serde_json::from_str(&text).unwrap();
    bench.server = Server::from_state(bench.server.config().clone(), state).unwrap();
    assert_eq!(start(&mut bench, "carol"), Time(127), "as little as Bob has, who came first");
    bench.now = Time(120);
    bench.ended(1, Exit::Code(0));
    assert_eq!(bench.at(120).iter().map(|run| run.job.0).collect::<Vec<_>>(), [3]);
}
