//! Cancelled multi-jobs, and the time that is left of a running one.

use super::*;

#[test]
fn cancelling_ends_open_batches_and_submits_no_more() {
    let source = RuntimeSource::Statistics { jobs: 9 };
    let servers =
        vec![(name("lyon"), prospects(2, 1_000, source)), (name("nancy"), prospects(2, 1_000, source))];
    let mut bench = Bench::new(plan(1_000, 2), 1);
    bench.handle(found_all(servers.clone()));
    let batches = bench.open.len() as u32;
    bench.step(None, |instance| instance == 3, 1_000);
    let before = bench.machine.progress();
    assert_eq!((before.failed, before.retried, before.cancelled), (0, 1, 0));
    let open: Vec<u32> = bench.open.iter().map(|(batch, ..)| *batch).collect();
    bench.handle(Event::Cancel);
    assert_eq!((&bench.cancelled, bench.done), (&open, false));
    // One has run an instance meanwhile, one was refused, and a restarted client cancels the others again.
    let (batch, _, instances) = bench.open[0].clone();
    bench.step(Some(1), |_| false, 1_000);
    assert!(bench.machine.is_done(instances[0]) && !bench.cancelled[1..].contains(&batch));
    let (refused, ..) = bench.open.pop_front().unwrap();
    bench.handle(Event::Refused { batch: refused, cause: Cause::TooMany });
    bench.restart();
    bench.cancelled.clear();
    bench.handle(Event::Begin);
    assert_eq!(bench.cancelled, open[2..]);
    bench.handle(found_all(servers));
    while !bench.open.is_empty() {
        assert!(!bench.done);
        bench.step(Some(0), |_| false, 1_000);
    }
    let end = bench.machine.progress();
    assert_eq!((end.batches, end.done, end.failed), (batches + 1, before.done + 1, 0), "{end:?}");
    assert_eq!((end.open, end.cancelled, end.retried), (0, 1_000 - end.done, 1));
    let left = bench.machine.left(SpanMs::ZERO, &BTreeMap::new());
    assert!(bench.done && left.is_none_or(|left| left == SpanMs::ZERO));
    // Again no instance ran.
    bench.restart();
    bench.done = false;
    bench.handle(Event::Begin);
    assert!(bench.done && bench.open.is_empty());
}

#[test]
fn the_time_left_includes_the_wait_for_slots_of_other_jobs() {
    let left = |free: &[(i64, u32)], instances, since: i64, source: &dyn Fn(&mut MultiJob)| {
        let mut machine = MultiJob::new(plan(instances, 0));
        let free = free.iter().map(|(at, slots)| FreeSlots { at: SpanMs(*at), slots: *slots }).collect();
        let servers = vec![(name("lyon"), InstanceProspects { free, ..free_at(0, 1, 1_000) })];
        source(&mut machine);
        commands_after(
            &mut machine,
            Event::Found { servers, waiting: BTreeSet::new(), late: BTreeSet::new() },
        );
        machine.left(SpanMs(since), &BTreeMap::new()).unwrap().0
    };
    let nothing = |_: &mut MultiJob| {};
    assert_eq!(left(&[(0, 9)], 18, 0, &nothing), 2_000);
    // Other jobs have all slots for 12 s, of which 5 s have passed.
    assert_eq!(left(&[(12_000, 9)], 18, 0, &nothing), 14_000);
    assert_eq!(left(&[(12_000, 9)], 18, 5_000, &nothing), 9_000);
    assert_eq!(left(&[(12_000, 9)], 18, 20_000, &nothing), 2_000);
    // Three of them belong to its own batches, whose instances are not done yet.
    let own = |machine: &mut MultiJob| {
        for batch in 0..3 {
            let (server, instances) = (name("lyon"), vec![2 * batch, 2 * batch + 1]);
            commands_after(machine, Event::BatchRestored { batch, server, instances });
        }
    };
    assert_eq!(left(&[(1_000, 3), (12_000, 6)], 9, 0, &own), 3_000);

    // One runs longer than expected, and is expected to take as long again as its excess.
    let mut machine = MultiJob::new(plan(2, 0));
    let servers = vec![(name("lyon"), free_at(0, 2, 1_000))];
    commands_after(&mut machine, Event::Found { servers, waiting: BTreeSet::new(), late: BTreeSet::new() });
    let after = |elapsed| machine.left(SpanMs::ZERO, &[(0, SpanMs(elapsed))].into()).unwrap().0;
    assert_eq!([0, 1_500, 7_000].map(after), [1_000, 1_000, 6_000]);
}
