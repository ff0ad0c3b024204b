//! Refused instances: they go to other servers or fail; and refused sweeps.

use super::*;

#[test]
fn bisection_finds_a_refused_instance_which_goes_to_another_server() {
    let mut machine = MultiJob::new(plan(64, 0));
    let servers = vec![(name("busy"), free_at(0, 1, 10)), (name("idle"), free_at(0, 1, 10))];
    let mut open: VecDeque<Command> = commands_after(
        &mut machine,
        Event::Found { servers: servers.clone(), waiting: BTreeSet::new(), late: BTreeSet::new() },
    )
    .into();
    let (mut refusals, mut done, mut unplaced, mut is_over) = (0, BTreeMap::new(), Vec::new(), false);
    while let Some(command) = open.pop_front() {
        match command {
            Command::Submit { batch, server, instances } => {
                // No server runs 7, and one refuses 9.
                let is_refused =
                    instances.contains(&7) || (server.as_str() == "busy" && instances.contains(&9));
                if is_refused {
                    refusals += 1;
                    assert!(refusals < 30, "no end");
                    open.extend(commands_after(
                        &mut machine,
                        Event::Refused { batch, cause: Cause::Invalid },
                    ));
                    continue;
                }
                for instance in instances {
                    *done.entry(instance).or_insert(0) += 1;
                    let ended = Event::InstanceEnded {
                        batch,
                        instance,
                        completed: true,
                        took: SpanMs(10),
                        scale: 1.0,
                    };
                    open.extend(commands_after(&mut machine, ended));
                }
                open.extend(commands_after(
                    &mut machine,
                    Event::BatchEnded { batch, unbegun: false, lost: true },
                ));
            }
            Command::Unplaced { instance } => {
                assert_eq!(machine.progress().done, 63, "the others are waited for");
                // The command is repeated until the instance has failed.
                if !unplaced.contains(&instance) {
                    unplaced.push(instance);
                    open.extend(commands_after(&mut machine, Event::Unplaced { instance }));
                }
            }
            Command::QueryServers if unplaced.is_empty() => {
                let found = Event::Found {
                    servers: servers.clone(),
                    waiting: BTreeSet::new(),
                    late: BTreeSet::new(),
                };
                open.extend(commands_after(&mut machine, found));
            }
            Command::Done => is_over = true,
            Command::QueryServers
            | Command::TooLate
            | Command::RecordShares { .. }
            | Command::Withdraw { .. }
            | Command::Cancel { .. } => {}
        }
    }
    assert_eq!((unplaced, is_over), (vec![7], true));
    assert_eq!(machine.given_up().collect::<Vec<u32>>(), [7]);
    assert_eq!(done, (0..64).filter(|instance| *instance != 7).map(|instance| (instance, 1)).collect());
    assert_eq!(machine.progress().retried, 0);
}

#[test]
fn servers_are_asked_about_other_instances_if_none_takes_the_next_one() {
    let samples = |machine: &MultiJob| -> Vec<u32> { (0..).map_while(|at| machine.sample(at)).collect() };
    let mut machine = MultiJob::new(plan(200, 0));
    let fresh = samples(&machine);
    assert_eq!((fresh[0], fresh.len()), (0, 65));
    // From the whole range.
    assert!(fresh.windows(2).skip(1).all(|pair| (3..=4).contains(&(pair[1] - pair[0]))), "{fresh:?}");
    assert_eq!(*fresh.last().unwrap(), 196);
    // All instances of a small multi-job.
    assert_eq!(samples(&MultiJob::new(plan(3, 0))), [0, 0, 1, 2]);
    commands_after(
        &mut machine,
        Event::BatchRestored { batch: 0, server: name("lyon"), instances: vec![0, 1, 2] },
    );
    commands_after(
        &mut machine,
        Event::InstanceEnded { batch: 0, instance: 1, completed: true, took: SpanMs(9), scale: 1.0 },
    );
    commands_after(&mut machine, Event::Refused { batch: 0, cause: Cause::Invalid });
    // The next instance may be refused by all; a completed one was accepted.
    assert_eq!(samples(&machine)[..2], [0, 1]);
}

#[test]
fn an_unplaced_instance_stays_failed_after_a_restart() {
    let mut bench = Bench::new(plan(3, 0), 1);
    let servers = || vec![(name("lyon"), free_at(0, 1, 10)), (name("nancy"), free_at(0, 1, 10))];
    bench.handle(Event::Begin);
    bench.handle(found_all(servers()));
    assert!(!bench.machine.is_refused());
    while bench.unplaced.is_empty() {
        match bench.open.pop_front() {
            Some((batch, _, instances)) if instances.contains(&0) => {
                bench.handle(Event::Refused { batch, cause: Cause::TooLong });
            }
            Some(batch) => {
                bench.open.push_front(batch);
                bench.step(None, |_| false, 10);
            }
            None => panic!("neither a batch nor an end: {:?}", bench.machine.progress()),
        }
    }
    assert_eq!((bench.unplaced.as_slice(), bench.done), (&[0][..], false));
    // A server that was down may take it, as long as it has not failed.
    let other = |bench: &mut Bench| {
        let mut all = servers();
        all.push((name("rennes"), free_at(0, 1, 10)));
        bench.handle(found_all(all));
    };
    other(&mut bench);
    let (batch, server, instances) = bench.open.pop_front().unwrap();
    assert_eq!((server.as_str(), instances.as_slice()), ("rennes", &[0][..]));
    bench.handle(Event::Refused { batch, cause: Cause::Invalid });
    assert_eq!(bench.unplaced, [0, 0]);
    bench.handle(Event::Unplaced { instance: 0 });
    assert!(bench.done);
    bench.restart();
    let Progress { done, failed, .. } = bench.machine.progress();
    assert_eq!((done, failed), (2, 1));
    other(&mut bench);
    assert!(bench.open.is_empty(), "it has failed for good");
}

#[test]
fn a_sweep_is_refused_when_enough_of_its_instances_are() {
    for (instances, expected) in [(3, 3), (10_000, 64)] {
        let mut bench = Bench::new(plan(instances, 0), 1);
        bench.handle(found_all(vec![(name("lyon"), free_at(0, 1, 10)), (name("nancy"), free_at(0, 1, 10))]));
        while !bench.machine.is_refused() {
            let (batch, ..) = bench.open.pop_front().expect("the sweep is refused while batches are open");
            bench.handle(Event::Refused { batch, cause: Cause::Invalid });
        }
        assert_eq!(bench.machine.refused_everywhere().count(), expected);
    }
}
