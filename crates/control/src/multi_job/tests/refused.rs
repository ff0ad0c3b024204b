//! What servers do not take: it goes elsewhere, or has failed; and when a whole sweep is refused.

use super::*;

#[test]
fn an_instance_that_a_server_does_not_take_is_found_by_halves_and_goes_elsewhere() {
    let mut machine = MultiJob::new(plan(64, 0));
    let servers = vec![(name("busy"), free_at(0, 1, 10)), (name("idle"), free_at(0, 1, 10))];
    let mut open: VecDeque<Command> =
        wanted(&mut machine, Event::Found { servers: servers.clone(), waiting: BTreeSet::new() }).into();
    let (mut refusals, mut done, mut unplaced, mut is_over) = (0, BTreeMap::new(), Vec::new(), false);
    while let Some(command) = open.pop_front() {
        match command {
            Command::Submit { batch, server, instances } => {
                // 7 does not run on either, 9 on one of them.
                let is_refused =
                    instances.contains(&7) || (server.as_str() == "busy" && instances.contains(&9));
                if is_refused {
                    refusals += 1;
                    assert!(refusals < 30, "no end");
                    open.extend(wanted(&mut machine, Event::Refused { batch, cause: Cause::Invalid }));
                    continue;
                }
                for instance in instances {
                    *done.entry(instance).or_insert(0) += 1;
                    let ended =
                        Event::Ended { batch, instance, completed: true, took: SpanMs(10), scale: 1.0 };
                    open.extend(wanted(&mut machine, ended));
                }
                open.extend(wanted(&mut machine, Event::Over { batch, unbegun: false }));
            }
            Command::Unplaced { instance } => {
                assert_eq!(machine.progress().done, 63, "the others are waited for");
                // Until it is told to have failed, that is said again.
                if !unplaced.contains(&instance) {
                    unplaced.push(instance);
                    open.extend(wanted(&mut machine, Event::Unplaced { instance }));
                }
            }
            Command::Look if unplaced.is_empty() => {
                let found = Event::Found { servers: servers.clone(), waiting: BTreeSet::new() };
                open.extend(wanted(&mut machine, found));
            }
            Command::Done => is_over = true,
            Command::Look | Command::Keep { .. } | Command::Withdraw { .. } | Command::Cancel { .. } => {}
        }
    }
    assert_eq!((unplaced, is_over), (vec![7], true));
    assert_eq!(machine.given_up().collect::<Vec<u32>>(), [7]);
    assert_eq!(done, (0..64).filter(|instance| *instance != 7).map(|instance| (instance, 1)).collect());
    assert_eq!(machine.progress().retried, 0);
}

#[test]
fn servers_are_asked_about_other_instances_where_nobody_takes_the_next_one() {
    let samples = |machine: &MultiJob| -> Vec<u32> { (0..).map_while(|at| machine.sample(at)).collect() };
    let mut machine = MultiJob::new(plan(200, 0));
    let fresh = samples(&machine);
    assert_eq!((fresh[0], fresh.len()), (0, 65));
    // From all over the range.
    assert!(fresh.windows(2).skip(1).all(|pair| (3..=4).contains(&(pair[1] - pair[0]))), "{fresh:?}");
    assert_eq!(*fresh.last().unwrap(), 196);
    // All of a few.
    assert_eq!(samples(&MultiJob::new(plan(3, 0))), [0, 0, 1, 2]);
    wanted(&mut machine, Event::Recalled { batch: 0, server: name("lyon"), instances: vec![0, 1, 2] });
    wanted(
        &mut machine,
        Event::Ended { batch: 0, instance: 1, completed: true, took: SpanMs(9), scale: 1.0 },
    );
    wanted(&mut machine, Event::Refused { batch: 0, cause: Cause::Invalid });
    // What comes next may be what nobody takes, what has ended well was taken.
    assert_eq!(samples(&machine)[..2], [0, 1]);
}

#[test]
fn an_instance_that_nobody_takes_has_failed_for_whoever_goes_on() {
    let mut world = World::new(plan(3, 0), 1);
    let servers = || vec![(name("lyon"), free_at(0, 1, 10)), (name("nancy"), free_at(0, 1, 10))];
    world.tell(Event::Begin);
    world.tell(found_all(servers()));
    assert!(!world.machine.is_refused());
    while world.unplaced.is_empty() {
        match world.open.pop_front() {
            Some((batch, _, instances)) if instances.contains(&0) => {
                world.tell(Event::Refused { batch, cause: Cause::TooLong });
            }
            Some(batch) => {
                world.open.push_front(batch);
                world.step(None, |_| false, 10);
            }
            None => panic!("neither a batch nor an end: {:?}", world.machine.progress()),
        }
    }
    assert_eq!((world.unplaced.as_slice(), world.done), (&[0][..], false));
    // One that was away may take it, as long as it is not told to have failed.
    let other = |world: &mut World| {
        let mut all = servers();
        all.push((name("rennes"), free_at(0, 1, 10)));
        world.tell(found_all(all));
    };
    other(&mut world);
    let (batch, server, instances) = world.open.pop_front().unwrap();
    assert_eq!((server.as_str(), instances.as_slice()), ("rennes", &[0][..]));
    world.tell(Event::Refused { batch, cause: Cause::Invalid });
    assert_eq!(world.unplaced, [0, 0]);
    world.tell(Event::Unplaced { instance: 0 });
    assert!(world.done);
    world.restart();
    let Progress { done, failed, .. } = world.machine.progress();
    assert_eq!((done, failed), (2, 1));
    other(&mut world);
    assert!(world.open.is_empty(), "that was for good");
}

#[test]
fn a_sweep_is_refused_when_so_many_of_its_instances_are() {
    for (instances, expected) in [(3, 3), (10_000, 64)] {
        let mut world = World::new(plan(instances, 0), 1);
        world.tell(found_all(vec![(name("lyon"), free_at(0, 1, 10)), (name("nancy"), free_at(0, 1, 10))]));
        while !world.machine.is_refused() {
            let (batch, ..) =
                world.open.pop_front().expect("it is refused before there is nothing to hand out");
            world.tell(Event::Refused { batch, cause: Cause::Invalid });
        }
        assert_eq!(world.machine.takers_none().count(), expected);
    }
}
