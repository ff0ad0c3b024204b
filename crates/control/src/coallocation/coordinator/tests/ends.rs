//! The ends of launches: all subjobs run or none.

use super::*;

#[test]
fn all_subjobs_are_prepared_before_any_runs_and_tasks_know_their_neighbours() {
    let mut federation = Federation::of(&[2, 2, 2]);
    federation.unlocated = vec![1];
    federation.launch(launch_spec(row(&[1.0; 6])));
    federation.pass(20);
    assert_eq!((federation.record().state, federation.started.len()), (LaunchState::Reserving, 0));
    let free: Vec<u32> = federation.servers.iter().map(|server| server.usage().free.0).collect();
    assert_eq!(free, [0, 0, 0], "all of them keep processors");
    federation.unlocated.clear();
    federation.pass(60);
    assert_eq!((federation.record().state, federation.started.len()), (LaunchState::Running, 3));
    for (server, _, subjob, peers) in &federation.started {
        for neighbour in subjob.tasks.iter().flat_map(|task| &task.neighbours) {
            let allocation =
                federation.record().tasks.into_iter().find(|task| task.name == *neighbour).unwrap();
            let at = allocation.allocation.unwrap().0;
            assert_eq!(peers.get(neighbour), Some(&format!("{at}:{neighbour}")), "at server {server}");
        }
    }
    federation.all_end(0);
    federation.is_over(&LaunchEnd::Completed);
    assert!(federation.record().tasks.iter().all(|task| task.exit == Some(Exit::Code(0))));
}

#[test]
fn a_launch_that_is_not_prepared_in_time_is_withdrawn_everywhere() {
    let mut federation = Federation::of(&[2, 2]);
    federation.unlocated = vec![1];
    federation.launch(launch_spec(row(&[1.0; 4])));
    federation.pass(310);
    assert!(federation.started.is_empty());
    federation.is_over(&LaunchEnd::NotReserved(
        "the subjob at s1 was not prepared within a timeout of 300 s".to_owned(),
    ));
}

#[test]
fn a_subjob_that_would_start_too_late_is_refused_at_once() {
    let mut federation = Federation::of(&[2, 2]);
    // Another launch has the processors for longer than the timeout of this one.
    federation.launch(LaunchSpec { walltime: Span(5000), ..launch_spec(row(&[1.0; 4])) });
    federation.pass(10);
    assert_eq!(federation.started.len(), 2);
    let mut other = launch_spec(row(&[1.0; 4]));
    other.key = Key([8; 16]);
    federation.launch(other.clone());
    let Some(Answer::Launch(record)) = federation.answers.last() else { panic!("{:?}", federation.answers) };
    assert_eq!(record.state, LaunchState::Mapping);
    assert!(matches!(federation.archived[0].end, Some(LaunchEnd::NotMapped(_))), "{:?}", federation.archived);
    // The servers report no load: the coordinator maps the launch, and they refuse it.
    federation.without_load = vec![0, 1];
    other.key = Key([9; 16]);
    federation.launch(other);
    let Some(LaunchEnd::NotReserved(why)) = &federation.archived[1].end else {
        panic!("{:?}", federation.archived)
    };
    assert!(why.contains("processors are free in") && why.contains("within 300 s"), "{why}");
    assert_eq!(federation.started.len(), 2);
}

#[test]
fn a_task_that_fails_ends_all() {
    let mut federation = Federation::of(&[2, 2]);
    federation.launch(launch_spec(row(&[1.0; 4])));
    federation.pass(5);
    let (server, number, subjob, _) = federation.started[0].clone();
    let (id, task) = (subjob.id, subjob.tasks[0].name.clone());
    let failed = SubjobEvent::TaskEnded { id, task: task.clone(), exit: Exit::Code(3) };
    federation.handle_at_server(server, server::Event::Subjob(failed));
    federation.is_over(&LaunchEnd::Failed(format!("task `{task}` at s{server}: exit code 3")));
    assert!(federation.terminated.contains(&(server, number)) && federation.terminated.len() == 2);
}

#[test]
fn a_subjob_of_a_lost_server_ends_when_the_server_is_back() {
    let mut federation = Federation::of(&[2, 2]);
    federation.launch(launch_spec(row(&[1.0; 4])));
    federation.pass(5);
    federation.silent = vec![1];
    federation.pass(900);
    let record = federation.record();
    let lost = LaunchEnd::Failed("the subjob at s1: its server does not answer".to_owned());
    assert_eq!((record.state, record.end.as_ref()), (LaunchState::Ending, Some(&lost)));
    assert_eq!(record.unacknowledged, [name(1)]);
    assert_eq!(federation.terminated.len(), 1, "the other one is ended at once");
    federation.silent.clear();
    federation.pass(70);
    federation.is_over(&lost);
    assert_eq!(federation.terminated.len(), 2);
}

#[test]
fn cancelling_ends_waiting_and_running_subjobs() {
    for unlocated in [vec![], vec![0]] {
        let mut federation = Federation::of(&[2, 2]);
        federation.unlocated = unlocated;
        federation.launch(launch_spec(row(&[1.0; 4])));
        federation.pass(5);
        federation.handle(Event::Cancel { reply: Token(1), launch: id(), caller: caller("bob") });
        assert_eq!(federation.answers.last(), Some(&Answer::NoSuchLaunch), "it is not theirs");
        federation.handle(Event::Cancel { reply: Token(1), launch: id(), caller: caller("alice") });
        federation.is_over(&LaunchEnd::Cancelled);
        // Neither is done a second time.
        let spec = Box::new(launch_spec(row(&[1.0; 4])));
        let again = [
            Event::Cancel { reply: Token(1), launch: id(), caller: caller("alice") },
            Event::Launch { reply: Token(1), spec },
        ];
        for event in again {
            let mut commands = Vec::new();
            federation.coordinator.on(Time(1_000), event, &mut commands);
            assert!(Coordinator::is_without_effect(&commands), "nothing is journaled: {commands:?}");
        }
        assert_eq!(federation.audited, [AuditAct::Launch, AuditAct::CancelLaunch]);
    }
}

#[test]
fn the_decision_about_an_unknown_launch_is_the_end() {
    let mut federation = Federation::of(&[2]);
    federation.launch(launch_spec(row(&[1.0])));
    federation.unlocated = vec![0];
    federation.pass(5);
    // The agent restarts without its journal.
    let config = federation.coordinator.config().clone();
    federation.coordinator = Coordinator::new(config);
    federation.pass(70);
    assert_eq!(federation.servers[0].unacknowledged_subjobs(), 0);
    assert_eq!(federation.servers[0].usage().free, Procs(2));
}

#[test]
fn a_preparation_after_the_end_does_nothing() {
    let mut federation = Federation::of(&[2]);
    federation.silent = vec![0];
    federation.launch(launch_spec(row(&[1.0])));
    let subjob = federation.coordinator.launches[&Key([7; 16])].subjobs[0].subjob.clone();
    federation.handle(Event::Cancel { reply: Token(1), launch: id(), caller: caller("alice") });
    federation.silent.clear();
    federation.pass(10);
    federation.is_over(&LaunchEnd::Cancelled);
    let late = SubjobEvent::Prepare { reply: Token(0), subjob: Box::new(subjob) };
    federation.handle_at_server(0, server::Event::Subjob(late));
    federation.is_over(&LaunchEnd::Cancelled);
}

#[test]
fn a_server_that_has_lost_its_journal_has_lost_its_subjob() {
    let mut federation = Federation::of(&[2, 2]);
    federation.launch(launch_spec(row(&[1.0; 4])));
    federation.pass(5);
    let (from, number) =
        (name(1), federation.started.iter().find(|(server, ..)| *server == 1).unwrap().2.id.number);
    let id = SubjobId { launch: id(), number };
    federation.handle(Event::SubjobStatus { from, id, state: SubjobState::Unknown, reply: None });
    let record = federation.record();
    let what = "the subjob at s1: lost: its server no longer knows it";
    assert_eq!(record.end, Some(LaunchEnd::Failed(what.to_owned())));
}

#[test]
fn the_same_key_is_the_same_launch_of_one_user() {
    let mut federation = Federation::of(&[2]);
    federation.launch(launch_spec(row(&[1.0])));
    federation.launch(launch_spec(row(&[1.0])));
    assert_eq!(federation.started.len(), 1);
    for (spec, word) in [
        (launch_spec(row(&[0.5])), "another one"),
        (launch_spec(Application { bandwidth_mbps: Some(1.0), ..row(&[1.0]) }), "another one"),
        (LaunchSpec { owner: "bob".parse().unwrap(), ..launch_spec(row(&[1.0])) }, "another user"),
    ] {
        federation.launch(spec);
        let Some(Answer::Refused(why)) = federation.answers.last() else {
            panic!("{:?}", federation.answers)
        };
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn an_invalid_launch_is_refused_with_a_reason() {
    let mut apart = row(&[1.0, 1.0]);
    apart.edges.clear();
    for (spec, word) in [
        (LaunchSpec { walltime: Span(0), ..launch_spec(row(&[1.0])) }, "walltime"),
        (LaunchSpec { timeout: Span(1 << 40), ..launch_spec(row(&[1.0])) }, "timeout"),
        (LaunchSpec { threshold: f64::NAN, ..launch_spec(row(&[1.0])) }, "threshold"),
        (launch_spec(row(&[-1.0])), "RCR"),
        (launch_spec(apart), "connected"),
        (launch_spec(row(&[1.0; TASKS_MAX + 1])), "tasks"),
    ] {
        let mut federation = Federation::of(&[2]);
        federation.launch(spec);
        let Some(Answer::Refused(why)) = federation.answers.last() else {
            panic!("{:?}", federation.answers)
        };
        assert!(why.contains(word), "{why}");
        assert_eq!(federation.coordinator.records().count(), 0);
    }
}
