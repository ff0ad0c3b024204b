//! Tasks that are spawned after others were that found no place.

use super::*;
use crate::payload::Payload;

/// Spawns one task of that RCR.
fn spawn(there: &mut Federation, key: u8, (name, rcr): (&str, f64), talks: &[&str]) {
    let task = TaskSpec { name: name.to_owned(), rcr, payload: Payload::default() };
    let talks = talks.iter().map(|other| ((*other).to_owned(), 2.0)).collect();
    let spawn = Box::new(Spawn { key: Key([key; 16]), tasks: vec![Spawned { task, talks }] });
    there.tell(Event::Spawn { reply: Token(1), launch: id(), caller: caller("alice"), spawn });
}

fn refusal(there: &Federation) -> &str {
    match there.answers.last() {
        Some(Answer::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_task_that_found_no_place_leaves_its_name_and_nobody_talks_to_it() {
    let mut there = Federation::of(&[4]);
    there.launch(wanted(row(&[1.0])));
    there.pass(5);
    spawn(&mut there, 1, ("big", 9.0), &["t0"]);
    let record = there.record();
    assert!(record.tasks[1].not_spawned.is_some(), "{record:?}");
    spawn(&mut there, 2, ("small", 1.0), &["t0", "big"]);
    assert_eq!(refusal(&there), "expected tasks of the launch that `small` talks to, found `big`");
    spawn(&mut there, 3, ("big", 1.0), &["t0"]);
    spawn(&mut there, 4, ("small", 1.0), &["t0", "big"]);
    there.pass(5);
    let record = there.record();
    let names: Vec<&str> = record.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["t0", "big", "small"], "the name stands for the one that runs");
    assert!(
        record.tasks.iter().all(|task| task.not_spawned.is_none() && task.address.is_some()),
        "{record:?}"
    );
    let (.., peers) = there.begun.last().unwrap();
    assert_eq!(peers.keys().collect::<Vec<_>>(), ["big", "t0"]);
    spawn(&mut there, 5, ("big", 1.0), &["t0"]);
    assert!(refusal(&there).contains("unique names"), "{}", refusal(&there));
    there.all_end(0);
    there.is_over(&End::Completed);
}

#[test]
fn tasks_that_found_no_place_are_bounded_too() {
    let mut there = Federation::of(&[4]);
    there.launch(wanted(row(&[1.0])));
    there.pass(5);
    let spawn = |there: &mut Federation, key: u8, count: usize| {
        let task = |number| TaskSpec { name: format!("big{number}"), rcr: 9.0, payload: Payload::default() };
        let talks = |number: usize| match number {
            0 => vec![("t0".to_owned(), 2.0)],
            _ => vec![(format!("big{}", number - 1), 2.0)],
        };
        let tasks = (0..count).map(|number| Spawned { task: task(number), talks: talks(number) }).collect();
        let spawn = Box::new(Spawn { key: Key([key; 16]), tasks });
        there.tell(Event::Spawn { reply: Token(1), launch: id(), caller: caller("alice"), spawn });
        there.pass(5);
    };
    for key in 1..=4 {
        spawn(&mut there, key, TASKS_MAX - 1);
    }
    assert!(!matches!(there.answers.last(), Some(Answer::Refused(_))), "{:?}", there.answers.last());
    spawn(&mut there, 5, 4);
    assert!(
        refusal(&there).contains("those that found no machine among them, found 4097"),
        "{}",
        refusal(&there)
    );
    spawn(&mut there, 6, 3);
    assert!(!matches!(there.answers.last(), Some(Answer::Refused(_))), "{:?}", there.answers.last());
}

#[test]
fn nobody_talks_to_a_task_that_waits_for_its_machine() {
    let mut there = Federation::of(&[4]);
    there.launch(wanted(row(&[1.0])));
    there.pass(5);
    there.unlocated = vec![0];
    spawn(&mut there, 1, ("first", 1.0), &["t0"]);
    spawn(&mut there, 2, ("second", 1.0), &["first"]);
    assert!(refusal(&there).contains("`first`, which waits for its machine"), "{}", refusal(&there));
    there.unlocated.clear();
    there.pass(10);
    spawn(&mut there, 2, ("second", 1.0), &["first"]);
    let (.., peers) = there.begun.last().unwrap();
    assert_eq!(peers.keys().collect::<Vec<_>>(), ["first"]);
    there.all_end(0);
    there.is_over(&End::Completed);
}

#[test]
fn links_have_room_for_what_a_spawned_task_sends_to_those_that_run() {
    let mut there = Federation::of(&[1, 4, 4]);
    for between in [(0, 1, 30.0), (0, 2, 25.0), (1, 2, 25.0)] {
        let (one, other, mbps) = between;
        there.tell(Event::Measured { between: [name(one), name(other)], mbps, round_trip_us: 100 });
    }
    there.launch(wanted(Application { bandwidth_mbps: Some(10.0), ..row(&[1.0]) }));
    there.pass(5);
    // Each sends 20 Mb/s to the task at s0, whose links carry one of these each; s1 has processors for all.
    for (key, task) in [(1, "x"), (2, "y"), (3, "z")] {
        spawn(&mut there, key, (task, 1.0), &["t0"]);
        there.pass(5);
    }
    let record = there.record();
    let server = |task: usize| record.tasks[task].place.as_ref().map(|(server, _)| server.as_str());
    assert_eq!([0, 1, 2, 3].map(server), [Some("s0"), Some("s1"), Some("s2"), None], "{record:?}");
    let why = record.tasks[3].not_spawned.as_ref().unwrap();
    assert!(why.contains("links with room for what it sends to tasks that run"), "{why}");
    there.all_end(0);
    there.is_over(&End::Completed);
}
