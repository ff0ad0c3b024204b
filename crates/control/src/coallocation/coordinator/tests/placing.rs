//! The mapping of tasks.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::super::placing::connected;
use super::*;
use crate::payload::Payload;

fn servers(record: &LaunchRecord) -> Vec<String> {
    record.tasks.iter().filter_map(|task| Some(task.allocation.as_ref()?.0.to_string())).collect()
}

#[test]
fn a_dry_run_maps_and_reserves_nothing() {
    let mut federation = Federation::of(&[2, 4]);
    federation.launch(LaunchSpec { dry_run: true, ..launch_spec(row(&[1.0; 5])) });
    federation.is_over(&LaunchEnd::Mapped);
    let record = federation.record();
    assert_eq!(servers(&record).len(), 5);
    assert!(record.tasks.iter().all(|task| task.affinity.is_some_and(|affinity| affinity >= 1.0)));
}

#[test]
fn the_search_begins_at_the_users_lan_and_goes_on_by_bandwidth() {
    for (user, fast, expected) in [(0, 2, ["s0", "s0", "s2"]), (1, 0, ["s1", "s1", "s0"])] {
        let mut federation = Federation::of(&[2, 2, 2]);
        let between = [name(fast), name(user)];
        federation.handle(Event::Measured { between, mbps: 100.0, round_trip_us: 9 });
        federation.launch(LaunchSpec {
            user_lan: Some(name(user)),
            dry_run: true,
            ..launch_spec(row(&[1.0; 3]))
        });
        let mut found = servers(&federation.record());
        found.sort_by_key(|server| *server != format!("s{user}"));
        assert_eq!(found, expected);
    }
}

/// Measures the links between these servers.
fn measured(federation: &mut Federation, links: &[(usize, usize, f64)]) {
    for (one, other, mbps) in links {
        federation.handle(Event::Measured {
            between: [name(*one), name(*other)],
            mbps: *mbps,
            round_trip_us: 9,
        });
    }
}

#[test]
fn links_carry_the_traffic_that_an_application_declares() {
    // Each task communicates with both others and fills a processor, and no two are in one cluster.
    let triangle = |bandwidth_mbps| {
        let edges = [[0, 1], [0, 2], [1, 2]].map(|between| TaskEdge { between, rqoc: 2.0 }).into();
        let application = Application { bandwidth_mbps, edges, ..row(&[1.0; 3]) };
        LaunchSpec { threshold: 1e-4, user_lan: Some(name(0)), dry_run: true, ..launch_spec(application) }
    };
    let links = [(0, 2, 30.0), (0, 1, 25.0)];
    for (bandwidth, known, expected) in [
        (None, &links[..], ["s0", "s2", "s2"]),
        (Some(5.0), &links, ["s0", "s2", "s2"]),
        // Two edges are too much for one link.
        (Some(10.0), &links, ["s0", "s2", "s1"]),
        (Some(10.0), &[], ["s0", "s1", "s2"]),
    ] {
        let mut federation = Federation::of(&[1, 1, 2]);
        measured(&mut federation, known);
        federation.launch(triangle(bandwidth));
        let record = federation.record();
        assert_eq!(servers(&record), expected, "{bandwidth:?}: {record:?}");
    }
    for mapping in [Mapping::Wase, Mapping::Refined] {
        let mut federation = Federation::of(&[1, 1, 2]);
        measured(&mut federation, &links);
        federation.launch(LaunchSpec { mapping, ..triangle(Some(100.0)) });
        let Some(LaunchEnd::NotMapped(why)) = federation.record().end else {
            panic!("{:?}", federation.record())
        };
        assert!(why.contains("no link to it has enough bandwidth left"), "{why}");
    }
}

#[test]
fn links_carry_traffic_next_to_that_of_other_launches() {
    // Two tasks with so many processors and so much traffic.
    let pair = |key, procs: f64, mbps: f64| {
        let application = Application { bandwidth_mbps: Some(mbps / 2.0), ..row(&[procs; 2]) };
        LaunchSpec { key: Key([key; 16]), ..launch_spec(application) }
    };
    // Whether two tasks that do not fit on one server can be mapped.
    let fits = |federation: &mut Federation, procs, mbps| {
        let key = 8 + federation.archived.len() as u8;
        federation.launch(LaunchSpec { dry_run: true, ..pair(key, procs, mbps) });
        match &federation.archived.last().unwrap().end {
            Some(LaunchEnd::Mapped) => true,
            Some(LaunchEnd::NotMapped(why)) if why.contains("no link to it has enough bandwidth left") => {
                false
            }
            other => panic!("{other:?}"),
        }
    };
    let left = |federation: &mut Federation, procs, mbps, when: &str| {
        let found = [mbps + 1.0, mbps].map(|mbps| fits(federation, procs, mbps));
        assert_eq!(found, [false, true], "{when}: expected {mbps} Mb/s to be free");
    };
    let measure =
        |federation: &mut Federation, mbps| (0..5).for_each(|_| measured(federation, &[(0, 1, mbps)]));
    let mut federation = Federation::of(&[7, 7]);
    measure(&mut federation, 30.0);
    federation.silent = vec![1];
    federation.launch(pair(7, 4.0, 20.0));
    federation.pass(1);
    assert_eq!(federation.record().state, LaunchState::Reserving);
    left(&mut federation, 2.0, 10.0, "it is about to run");
    federation.silent.clear();
    federation.pass(10);
    assert_eq!(federation.record().state, LaunchState::Running);
    left(&mut federation, 2.0, 10.0, "it runs");
    let new = |name: &str, neighbours| SpawnedTask {
        task: TaskSpec { name: name.to_owned(), rcr: 2.0, payload: Payload::default() },
        neighbours,
    };
    // Almost no traffic goes to the running tasks.
    let neighbours = vec![("y".to_owned(), 0.5), ("t0".to_owned(), 1e-3)];
    let tasks = vec![new("x", neighbours), new("y", vec![])];
    let spawn = Box::new(SpawnSpec { key: Key([1; 16]), tasks, signed: Payload::default() });
    federation.handle(Event::Spawn { reply: Token(1), launch: id(), caller: caller("alice"), spawn });
    federation.pass(1);
    assert_eq!(servers(&federation.record()).len(), 4, "{:?}", federation.record());
    left(&mut federation, 1.0, 4.9, "tasks were spawned that communicate");
    measure(&mut federation, 12.0);
    left(&mut federation, 1.0, 12.0, "the measurement shows the remaining bandwidth");
    federation.all_end(0);
    federation.pass(10);
    assert_eq!(federation.record().end, Some(LaunchEnd::Completed));
    measure(&mut federation, 30.0);
    left(&mut federation, 7.0, 30.0, "it is over");
}

/// The film of `examples/render-encode` on its three LANs: a source, an emitter, five rendering workers, a collector, the
/// groups of pictures, an emitter, two encoding workers, a collector, the sink.
fn film() -> Application {
    let rcrs = [1.0, 1.0, 4.5, 4.5, 4.5, 4.5, 4.5, 1.0, 1.0, 1.0, 3.0, 3.0, 1.0, 1.0];
    let mut edges = vec![(0, 1, 1.0), (7, 8, 300.0), (8, 9, 300.0), (12, 13, 30.0)];
    edges.extend((2..7).flat_map(|worker| [(1, worker, 1.0), (worker, 7, 60.0)]));
    edges.extend([10, 11].into_iter().flat_map(|worker| [(9, worker, 150.0), (worker, 12, 15.0)]));
    let edge = |(one, other, rqoc)| TaskEdge { between: [one, other], rqoc };
    Application { mcr_mflops: POWER / 2.0, edges: edges.into_iter().map(edge).collect(), ..row(&rcrs) }
}

#[test]
fn the_search_after_wase_keeps_heavy_traffic_off_slow_links() {
    // The traffic to and from the third LAN, whose links are slow, in RQoC.
    let over_slow = |mapping| {
        let mut federation = Federation::of(&[7, 7, 7]);
        measured(&mut federation, &[(0, 1, 16.0), (0, 2, 4.0), (1, 2, 4.0)]);
        federation.launch(LaunchSpec {
            mapping,
            user_lan: Some(name(0)),
            dry_run: true,
            ..launch_spec(film())
        });
        let servers = servers(&federation.record());
        let is_over = |edge: &&TaskEdge| {
            let [one, other] = edge.between.map(|task| servers[task as usize] == "s2");
            one != other
        };
        film().edges.iter().filter(is_over).map(|edge| edge.rqoc).sum::<f64>()
    };
    let (wase, refined) = (over_slow(Mapping::Wase), over_slow(Mapping::Refined));
    // WASE maps each cluster as close to the user as it fits, regardless of traffic: all raw frames go to the encoders over
    // a slow link.
    assert!(wase >= 300.0 && refined <= 0.6 * wase, "{wase} and {refined}");
}

#[test]
fn baselines_are_blind_to_traffic() {
    let found = |mapping, key| {
        let mut federation = Federation::of(&[4, 2, 3]);
        let spec = LaunchSpec { mapping, key: Key([key; 16]), dry_run: true, ..launch_spec(row(&[1.0; 2])) };
        federation.launch(spec);
        federation.archived[0]
            .tasks
            .iter()
            .map(|task| task.allocation.clone().unwrap().0.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(found(Mapping::Wase, 7), ["s0", "s0"], "on the user's LAN");
    assert_eq!(found(Mapping::BestFit, 7), ["s1", "s1"], "where the least is left");
    let drawn: BTreeSet<Vec<String>> = (1..30).map(|key| found(Mapping::Random, key)).collect();
    assert!(drawn.len() > 3, "{drawn:?}");
}

#[test]
fn a_task_too_large_for_every_machine_is_not_mapped() {
    let mut federation = Federation::of(&[2, 2]);
    federation.launch(launch_spec(row(&[3.0])));
    let Some(LaunchEnd::NotMapped(why)) = federation.record().end else {
        panic!("{:?}", federation.record())
    };
    assert_eq!(why, "task `t0`: expected a machine with 300.0 MFlop/s left, found 200.0 at most");
    federation.launch(LaunchSpec { key: Key([8; 16]), user_lan: Some(name(5)), ..launch_spec(row(&[1.0])) });
    let Some(LaunchEnd::NotMapped(why)) = &federation.archived[1].end else {
        panic!("{:?}", federation.archived)
    };
    assert!(why.contains("s5") && why.contains("s0"), "{why}");
}

#[test]
fn tasks_of_one_machine_share_processors() {
    let mut federation = Federation::of(&[4]);
    federation.launch(launch_spec(row(&[0.5, 0.5, 0.25, 1.0])));
    federation.pass(5);
    assert_eq!(federation.started[0].2.procs, Procs(3), "2.25 processors");
}

fn spawned(name: &str, neighbours: &[(&str, f64)]) -> SpawnedTask {
    SpawnedTask {
        task: TaskSpec { name: name.to_owned(), rcr: 1.0, payload: Payload::default() },
        neighbours: neighbours.iter().map(|(task, rqoc)| ((*task).to_owned(), *rqoc)).collect(),
    }
}

#[test]
fn spawned_tasks_are_all_placed_or_none() {
    let mut federation = Federation::of(&[3, 3]);
    federation.launch(launch_spec(row(&[1.0; 4])));
    federation.pass(5);
    let started = federation.started.len();
    let spawn = |key: u8, tasks: Vec<SpawnedTask>| Event::Spawn {
        reply: Token(1),
        launch: id(),
        caller: caller("alice"),
        spawn: Box::new(SpawnSpec { key: Key([key; 16]), tasks, signed: Payload::default() }),
    };
    // Two tasks that communicate with running tasks and not with each other, and then more than fit.
    federation.handle(spawn(1, vec![spawned("x", &[("t0", 2.0)]), spawned("y", &[("t3", 2.0)])]));
    let many = |name: &str| spawned(name, &[("t1", 1.0)]);
    federation.handle(spawn(2, vec![spawned("u", &[("t1", 1.0), ("v", 3.0)]), many("v"), many("w")]));
    federation.pass(5);
    let record = federation.record();
    let [x, y, u, v, w] = &record.tasks[4..] else { panic!("{record:?}") };
    assert!(x.allocation.is_some() && y.allocation.is_some(), "{record:?}");
    let peers: Vec<_> = federation.started[started..].iter().map(|(.., peers)| peers.clone()).collect();
    assert!(
        peers.iter().any(|peers| peers.contains_key("t0"))
            && peers.iter().any(|peers| peers.contains_key("t3"))
    );
    for lost in [u, v, w] {
        assert!(lost.not_spawned.is_some() && lost.allocation.is_none(), "none of them: {record:?}");
    }
    assert_eq!(record.state, LaunchState::Running);
    for wrong in [
        vec![],
        vec![spawned("z", &[("missing", 1.0)])],
        vec![spawned("a", &[("b", 1.0)]), spawned("b", &[])],
    ] {
        federation.handle(spawn(9, wrong));
        assert!(
            matches!(federation.answers.last(), Some(Answer::Refused(_))),
            "{:?}",
            federation.answers.last()
        );
    }
    federation.all_end(0);
    federation.is_over(&LaunchEnd::Completed);
}

#[test]
fn a_spawned_task_is_placed_near_the_neighbour_with_most_traffic() {
    let mut federation = Federation::of(&[2, 3]);
    federation.launch(LaunchSpec { user_lan: Some(name(1)), ..launch_spec(row(&[1.0, 1.0])) });
    federation.pass(5);
    assert_eq!(servers(&federation.record()), ["s1", "s1"]);
    let spawn = |key: u8, name: &str, neighbours: &[(&str, f64)]| Event::Spawn {
        reply: Token(1),
        launch: id(),
        caller: caller("alice"),
        spawn: Box::new(SpawnSpec {
            key: Key([key; 16]),
            tasks: vec![spawned(name, neighbours)],
            signed: Payload::default(),
        }),
    };
    federation.handle(spawn(1, "new", &[("t1", 3.0)]));
    federation.handle(spawn(1, "new", &[("t1", 3.0)]));
    assert_eq!(federation.started.len(), 2, "one of the same key");
    let (server, _, subjob, peers) = &federation.started[1];
    assert_eq!((*server, subjob.tasks[0].name.as_str()), (1, "new"));
    assert_eq!(peers.get("t1").map(String::as_str), Some("s1:t1"));
    // The user's LAN is full, so the next one goes to the other server, and the last one fits on none.
    for (key, task) in [(2, "b"), (3, "c"), (4, "d")] {
        federation.handle(spawn(key, task, &[("new", 3.0)]));
    }
    let record = federation.record();
    assert_eq!(servers(&record), ["s1", "s1", "s1", "s0", "s0"]);
    assert!(record.tasks[5].not_spawned.is_some() && record.state == LaunchState::Running);
    for wrong in [spawn(5, "e", &[("missing", 1.0)]), spawn(6, "t0", &[("t1", 1.0)]), spawn(7, "f", &[])] {
        federation.handle(wrong);
        assert!(
            matches!(federation.answers.last(), Some(Answer::Refused(_))),
            "{:?}",
            federation.answers.last()
        );
    }
    federation.all_end(0);
    federation.is_over(&LaunchEnd::Completed);
    federation.handle(spawn(8, "g", &[("t1", 1.0)]));
    assert!(matches!(federation.answers.last(), Some(Answer::Refused(_))), "it has ended");
}

#[test]
fn each_machine_of_a_server_has_its_own_subjob() {
    let own = Peer { name: "agent".parse().unwrap(), address: String::new() };
    let mut coordinator = Coordinator::new(CoordinatorConfig { own });
    let mut calls = Vec::new();
    let node = |name: &str| Host { name: name.to_owned(), power_mflops: 2.0 * POWER, procs: 2, load: 0.0 };
    let sites = vec![Site {
        server: Peer { name: name(0), address: String::new() },
        local_agent: None,
        machines: vec![node("n1"), node("n2")],
    }];
    let spec = Box::new(launch_spec(row(&[1.0; 4])));
    for event in [
        Event::Launch { reply: Token(0), spec },
        Event::MachinesListed { launch: id(), group: 0, sites },
        Event::Due,
    ] {
        coordinator.on(Time(0), event, &mut calls);
    }
    let subjobs = calls.iter().filter_map(|command| match command {
        Command::Call { id, call: Call::Prepare(subjob), .. } => {
            let machines = subjob.tasks.iter().map(|task| task.machine.as_str());
            Some((id.number, subjob.procs, machines.collect::<Vec<_>>()))
        }
        _ => None,
    });
    let expected = [(0, Procs(2), vec!["n1", "n1"]), (1, Procs(2), vec!["n2", "n2"])];
    assert_eq!(subjobs.collect::<Vec<_>>(), expected);
}

/// Against the labels that tasks get when each edge gives both its ends the lower one, until nothing changes.
#[test]
fn components_are_those_of_the_edges() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..300 {
        let count = rng.random_range(1..40_u32);
        let tasks: Vec<u32> = (0..count).filter(|_| rng.random_bool(0.8)).collect();
        let edge =
            |_| TaskEdge { between: [rng.random_range(0..count), rng.random_range(0..count)], rqoc: 1.0 };
        let edges: Vec<TaskEdge> = (0..count).map(edge).collect();
        let mut labels: BTreeMap<u32, u32> = tasks.iter().map(|task| (*task, *task)).collect();
        for _ in &tasks {
            for TaskEdge { between: [one, other], .. } in &edges {
                if let (Some(first), Some(second)) = (labels.get(one), labels.get(other)) {
                    let least = *first.min(second);
                    labels.extend([(*one, least), (*other, least)]);
                }
            }
        }
        let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        labels.iter().for_each(|(task, label)| expected.entry(*label).or_default().push(*task));
        assert_eq!(
            connected(&tasks, &edges),
            expected.into_values().collect::<Vec<_>>(),
            "{tasks:?} {edges:?}"
        );
    }
}

/// In steps that grow with the square of the tasks and with the edges this would take minutes.
#[test]
fn an_application_of_many_tasks_is_divided() {
    const TASKS: u32 = 100_000;
    let edges: Vec<TaskEdge> = (1..TASKS).map(|at| TaskEdge { between: [at - 1, at], rqoc: 1.0 }).collect();
    let tasks: Vec<u32> = (0..TASKS).collect();
    assert_eq!(connected(&tasks, &edges), [tasks]);
}
