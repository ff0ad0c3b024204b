//! How launches end: all subjobs or none.

use super::*;

#[test]
fn all_subjobs_are_held_before_any_runs_and_tasks_know_their_neighbours() {
    let mut there = Federation::of(&[2, 2, 2]);
    there.unlocated = vec![1];
    there.launch(wanted(row(&[1.0; 6])));
    there.pass(20);
    assert_eq!((there.record().state, there.begun.len()), (LaunchState::Reserving, 0));
    let free: Vec<u32> = there.servers.iter().map(|server| server.usage().free.0).collect();
    assert_eq!(free, [0, 0, 0], "all of them keep processors");
    there.unlocated.clear();
    there.pass(60);
    assert_eq!((there.record().state, there.begun.len()), (LaunchState::Running, 3));
    for (server, _, subjob, peers) in &there.begun {
        for neighbour in subjob.tasks.iter().flat_map(|task| &task.neighbours) {
            let place = there.record().tasks.into_iter().find(|task| task.name == *neighbour).unwrap();
            let at = place.place.unwrap().0;
            assert_eq!(peers.get(neighbour), Some(&format!("{at}:{neighbour}")), "at server {server}");
        }
    }
    there.all_end(0);
    there.is_over(&End::Completed);
    assert!(there.record().tasks.iter().all(|task| task.exit == Some(Exit::Code(0))));
}

#[test]
fn what_is_not_held_in_time_is_withdrawn_everywhere() {
    let mut there = Federation::of(&[2, 2]);
    there.unlocated = vec![1];
    there.launch(wanted(row(&[1.0; 4])));
    there.pass(310);
    assert!(there.begun.is_empty());
    there.is_over(&End::NotReserved("the subjob at s1 was not held within a timeout of 300 s".to_owned()));
}

#[test]
fn a_subjob_that_would_come_too_late_is_refused_at_once() {
    let mut there = Federation::of(&[2, 2]);
    // Another launch has the processors for longer than the timeout of this one.
    there.launch(LaunchSpec { walltime: Span(5000), ..wanted(row(&[1.0; 4])) });
    there.pass(10);
    assert_eq!(there.begun.len(), 2);
    let mut other = wanted(row(&[1.0; 4]));
    other.key = Key([8; 16]);
    there.launch(other.clone());
    let Some(Answer::Launch(record)) = there.answers.last() else { panic!("{:?}", there.answers) };
    assert_eq!(record.state, LaunchState::Mapping);
    assert!(matches!(there.archived[0].end, Some(End::NotMapped(_))), "{:?}", there.archived);
    // The coordinator takes their word for it, whatever that is.
    there.unseen = vec![0, 1];
    other.key = Key([9; 16]);
    there.launch(other);
    let Some(End::NotReserved(why)) = &there.archived[1].end else { panic!("{:?}", there.archived) };
    assert!(why.contains("processors are free in") && why.contains("within 300 s"), "{why}");
    assert_eq!(there.begun.len(), 2);
}

#[test]
fn a_task_that_fails_ends_all() {
    let mut there = Federation::of(&[2, 2]);
    there.launch(wanted(row(&[1.0; 4])));
    there.pass(5);
    let (server, number, subjob, _) = there.begun[0].clone();
    let (id, task) = (subjob.id, subjob.tasks[0].name.clone());
    let failed = SubjobEvent::TaskEnded { id, task: task.clone(), exit: Exit::Code(3) };
    there.tell_server(server, server::Event::Subjob(failed));
    there.is_over(&End::Failed(format!("task `{task}` at s{server}: exit code 3")));
    assert!(there.terminated.contains(&(server, number)) && there.terminated.len() == 2);
}

#[test]
fn a_server_that_is_not_heard_of_any_more_is_lost_and_ends_its_subjob_when_it_is_there_again() {
    let mut there = Federation::of(&[2, 2]);
    there.launch(wanted(row(&[1.0; 4])));
    there.pass(5);
    there.silent = vec![1];
    there.pass(900);
    let record = there.record();
    let lost = End::Failed("the subjob at s1: nothing is heard of it".to_owned());
    assert_eq!((record.state, record.end.as_ref()), (LaunchState::Ending, Some(&lost)));
    assert_eq!(record.unacknowledged, [name(1)]);
    assert_eq!(there.terminated.len(), 1, "the other one is ended at once");
    there.silent.clear();
    there.pass(70);
    there.is_over(&lost);
    assert_eq!(there.terminated.len(), 2);
}

#[test]
fn cancelling_ends_what_waits_and_what_runs() {
    for unlocated in [vec![], vec![0]] {
        let mut there = Federation::of(&[2, 2]);
        there.unlocated = unlocated;
        there.launch(wanted(row(&[1.0; 4])));
        there.pass(5);
        there.tell(Event::Cancel { reply: Token(1), launch: id(), caller: caller("bob") });
        assert_eq!(there.answers.last(), Some(&Answer::NoSuchLaunch), "it is not theirs");
        there.tell(Event::Cancel { reply: Token(1), launch: id(), caller: caller("alice") });
        there.is_over(&End::Cancelled);
    }
}

#[test]
fn of_a_launch_that_nobody_knows_the_verdict_is_the_end() {
    let mut there = Federation::of(&[2]);
    there.launch(wanted(row(&[1.0])));
    there.unlocated = vec![0];
    there.pass(5);
    // The agent comes back without its journal.
    let config = there.coordinator.config().clone();
    there.coordinator = Coordinator::new(config);
    there.pass(70);
    assert_eq!(there.servers[0].unacknowledged_subjobs(), 0);
    assert_eq!(there.servers[0].usage().free, Procs(2));
}

#[test]
fn a_preparation_that_comes_after_the_end_takes_nothing() {
    let mut there = Federation::of(&[2]);
    there.silent = vec![0];
    there.launch(wanted(row(&[1.0])));
    let subjob = there.coordinator.launches[&Key([7; 16])].subjobs[0].subjob.clone();
    there.tell(Event::Cancel { reply: Token(1), launch: id(), caller: caller("alice") });
    there.silent.clear();
    there.pass(10);
    there.is_over(&End::Cancelled);
    let late = SubjobEvent::Prepare { reply: Token(0), subjob: Box::new(subjob) };
    there.tell_server(0, server::Event::Subjob(late));
    there.is_over(&End::Cancelled);
}

#[test]
fn a_server_that_has_lost_its_journal_has_lost_its_subjob() {
    let mut there = Federation::of(&[2, 2]);
    there.launch(wanted(row(&[1.0; 4])));
    there.pass(5);
    let (from, number) = (name(1), there.begun.iter().find(|(server, ..)| *server == 1).unwrap().2.id.number);
    let id = SubjobId { launch: id(), number };
    there.tell(Event::Stands { from, id, state: SubjobState::Unknown, reply: None });
    let record = there.record();
    let what = "the subjob at s1: lost: its server does not know it any more";
    assert_eq!(record.end, Some(End::Failed(what.to_owned())));
}

#[test]
fn the_same_key_is_the_same_launch_and_nobody_elses() {
    let mut there = Federation::of(&[2]);
    there.launch(wanted(row(&[1.0])));
    there.launch(wanted(row(&[1.0])));
    assert_eq!(there.begun.len(), 1);
    for (wanted, word) in [
        (wanted(row(&[0.5])), "another one"),
        (wanted(Application { bandwidth_mbps: Some(1.0), ..row(&[1.0]) }), "another one"),
        (LaunchSpec { owner: "bob".parse().unwrap(), ..wanted(row(&[1.0])) }, "another user"),
    ] {
        there.launch(wanted);
        let Some(Answer::Refused(why)) = there.answers.last() else { panic!("{:?}", there.answers) };
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn what_cannot_be_launched_is_refused_with_a_reason() {
    let mut apart = row(&[1.0, 1.0]);
    apart.edges.clear();
    for (wanted, word) in [
        (LaunchSpec { walltime: Span(0), ..wanted(row(&[1.0])) }, "walltime"),
        (LaunchSpec { timeout: Span(1 << 40), ..wanted(row(&[1.0])) }, "timeout"),
        (LaunchSpec { threshold: f64::NAN, ..wanted(row(&[1.0])) }, "threshold"),
        (wanted(row(&[-1.0])), "RCR"),
        (wanted(apart), "connected"),
        (wanted(row(&[1.0; TASKS_MAX + 1])), "tasks"),
    ] {
        let mut there = Federation::of(&[2]);
        there.launch(wanted);
        let Some(Answer::Refused(why)) = there.answers.last() else { panic!("{:?}", there.answers) };
        assert!(why.contains(word), "{why}");
        assert_eq!(there.coordinator.records().count(), 0);
    }
}
