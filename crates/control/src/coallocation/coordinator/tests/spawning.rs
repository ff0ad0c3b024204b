//! Tasks that are spawned after others could not be mapped.

use super::*;
use crate::payload::Payload;

/// Spawns one task with this RCR.
fn spawn(federation: &mut Federation, key: u8, (name, rcr): (&str, f64), neighbours: &[&str]) {
    let task = TaskSpec { name: name.to_owned(), rcr, payload: Payload::default() };
    let neighbours = neighbours.iter().map(|other| ((*other).to_owned(), 2.0)).collect();
    let spawn = Box::new(SpawnSpec {
        key: Key([key; 16]),
        tasks: vec![SpawnedTask { task, neighbours }],
        signed: Payload::default(),
    });
    federation.handle(Event::Spawn { reply: Token(1), launch: id(), caller: caller("alice"), spawn });
}

fn refusal(federation: &Federation) -> &str {
    match federation.answers.last() {
        Some(Answer::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unmapped_task_frees_its_name_and_has_no_neighbours() {
    let mut federation = Federation::of(&[4]);
    federation.launch(launch_spec(row(&[1.0])));
    federation.pass(5);
    spawn(&mut federation, 1, ("big", 9.0), &["t0"]);
    let record = federation.record();
    assert!(record.tasks[1].not_spawned.is_some(), "{record:?}");
    spawn(&mut federation, 2, ("small", 1.0), &["t0", "big"]);
    assert_eq!(refusal(&federation), "expected neighbours of `small` in the launch, found `big`");
    spawn(&mut federation, 3, ("big", 1.0), &["t0"]);
    spawn(&mut federation, 4, ("small", 1.0), &["t0", "big"]);
    federation.pass(5);
    let record = federation.record();
    let names: Vec<&str> = record.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["t0", "big", "small"], "the name is of the running task");
    assert!(
        record.tasks.iter().all(|task| task.not_spawned.is_none() && task.address.is_some()),
        "{record:?}"
    );
    let (.., peers) = federation.started.last().unwrap();
    assert_eq!(peers.keys().collect::<Vec<_>>(), ["big", "t0"]);
    spawn(&mut federation, 5, ("big", 1.0), &["t0"]);
    assert!(refusal(&federation).contains("unique names"), "{}", refusal(&federation));
    federation.all_end(0);
    federation.is_over(&LaunchEnd::Completed);
}

#[test]
fn a_spawn_is_known_by_its_key_to_those_who_see_the_launch() {
    let mut federation = Federation::of(&[4]);
    federation.launch(launch_spec(row(&[1.0])));
    federation.pass(5);
    spawn(&mut federation, 1, ("more", 1.0), &["t0"]);
    let knows = |user, key: u8| federation.coordinator.has_spawned(&id(), &caller(user), Key([key; 16]));
    assert!(knows("alice", 1) && !knows("alice", 2) && !knows("bob", 1));
    let other = LaunchId { key: Key([8; 16]), ..id() };
    assert!(!federation.coordinator.has_spawned(&other, &caller("alice"), Key([1; 16])));
}

#[test]
fn unmapped_tasks_count_towards_the_limit() {
    let mut federation = Federation::of(&[4]);
    federation.launch(launch_spec(row(&[1.0])));
    federation.pass(5);
    let spawn = |federation: &mut Federation, key: u8, count: usize| {
        let task = |number| TaskSpec { name: format!("big{number}"), rcr: 9.0, payload: Payload::default() };
        let neighbours = |number: usize| match number {
            0 => vec![("t0".to_owned(), 2.0)],
            _ => vec![(format!("big{}", number - 1), 2.0)],
        };
        let tasks = (0..count)
            .map(|number| SpawnedTask { task: task(number), neighbours: neighbours(number) })
            .collect();
        let spawn = Box::new(SpawnSpec { key: Key([key; 16]), tasks, signed: Payload::default() });
        federation.handle(Event::Spawn { reply: Token(1), launch: id(), caller: caller("alice"), spawn });
        federation.pass(5);
    };
    for key in 1..=4 {
        spawn(&mut federation, key, TASKS_MAX - 1);
    }
    assert!(
        !matches!(federation.answers.last(), Some(Answer::Refused(_))),
        "{:?}",
        federation.answers.last()
    );
    spawn(&mut federation, 5, 4);
    assert!(refusal(&federation).contains("unmapped ones included, found 4097"), "{}", refusal(&federation));
    spawn(&mut federation, 6, 3);
    assert!(
        !matches!(federation.answers.last(), Some(Answer::Refused(_))),
        "{:?}",
        federation.answers.last()
    );
}

#[test]
fn a_task_without_a_machine_cannot_be_a_neighbour() {
    let mut federation = Federation::of(&[4]);
    federation.launch(launch_spec(row(&[1.0])));
    federation.pass(5);
    federation.unlocated = vec![0];
    spawn(&mut federation, 1, ("first", 1.0), &["t0"]);
    spawn(&mut federation, 2, ("second", 1.0), &["first"]);
    assert!(
        refusal(&federation).contains("`first`, which waits for its machine"),
        "{}",
        refusal(&federation)
    );
    federation.unlocated.clear();
    federation.pass(10);
    spawn(&mut federation, 2, ("second", 1.0), &["first"]);
    let (.., peers) = federation.started.last().unwrap();
    assert_eq!(peers.keys().collect::<Vec<_>>(), ["first"]);
    federation.all_end(0);
    federation.is_over(&LaunchEnd::Completed);
}

#[test]
fn links_carry_the_traffic_of_spawned_tasks_to_running_ones() {
    let mut federation = Federation::of(&[1, 4, 4]);
    for between in [(0, 1, 30.0), (0, 2, 25.0), (1, 2, 25.0)] {
        let (one, other, mbps) = between;
        federation.handle(Event::Measured { between: [name(one), name(other)], mbps, round_trip_us: 100 });
    }
    federation.launch(launch_spec(Application { bandwidth_mbps: Some(10.0), ..row(&[1.0]) }));
    federation.pass(5);
    // Each task sends 20 Mb/s to the task at s0, whose links carry one such task each; s1 has processors for all.
    for (key, task) in [(1, "x"), (2, "y"), (3, "z")] {
        spawn(&mut federation, key, (task, 1.0), &["t0"]);
        federation.pass(5);
    }
    let record = federation.record();
    let server = |task: usize| record.tasks[task].allocation.as_ref().map(|(server, _)| server.as_str());
    assert_eq!([0, 1, 2, 3].map(server), [Some("s0"), Some("s1"), Some("s2"), None], "{record:?}");
    let why = record.tasks[3].not_spawned.as_ref().unwrap();
    assert!(why.contains("links with capacity for its traffic to running tasks"), "{why}");
    federation.all_end(0);
    federation.is_over(&LaunchEnd::Completed);
}
