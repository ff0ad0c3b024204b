//! Instances that run a few at a time, and tasks of arrays, which run again only if they were lost.

use super::*;

#[test]
fn a_limit_of_instances_at_a_time_is_in_the_expected_time() {
    let found = || vec![(name("lyon"), free_at(0, 8, 1_000))];
    let preview = |at_once| {
        let mut machine = MultiJob::new(Plan { at_once, ..plan(40, 0) });
        machine.preview(found(), &mut ChaCha8Rng::seed_from_u64(1)).1
    };
    assert_eq!([None, Some(20), Some(2)].map(preview), [SpanMs(5_000), SpanMs(5_000), SpanMs(20_000)]);
    let mut machine = MultiJob::new(Plan { at_once: Some(1), ..plan(40, 0) });
    commands_after(
        &mut machine,
        Event::Found { servers: found(), waiting: BTreeSet::new(), late: BTreeSet::new() },
    );
    assert_eq!(machine.left(SpanMs::ZERO, &BTreeMap::new()), Some(SpanMs(40_000)));
}

#[test]
fn of_an_array_only_lost_tasks_run_again() {
    let mut bench = Bench::new(Plan { lost_only: true, ..plan(20, 2) }, 1);
    bench.handle(Event::Begin);
    bench.handle(found_all(vec![(name("lyon"), prospects(2, 1_000, RuntimeSource::Walltime))]));
    bench.step(Some(0), |_| false, 10);
    let lost = bench.machine.progress().retried;
    assert!(lost > 0, "they are waiting again");
    while !bench.done {
        bench.step(None, |instance| instance == 7, 10);
    }
    let progress = bench.machine.progress();
    assert_eq!((progress.done, progress.failed, progress.retried), (19, 1, lost));

    // The one that was running when its batch was killed has failed; those behind it have not begun.
    let mut machine = MultiJob::new(Plan { lost_only: true, ..plan(3, 2) });
    let found = Event::Found {
        servers: vec![(name("lyon"), free_at(0, 1, 10))],
        waiting: BTreeSet::new(),
        late: BTreeSet::new(),
    };
    let (batch, _, instances) = submitted(&commands_after(&mut machine, found)).remove(0);
    assert!(instances > 1, "one behind the first");
    commands_after(&mut machine, Event::BatchEnded { batch, unbegun: false, lost: false });
    let Progress { failed, retried, .. } = machine.progress();
    assert_eq!((failed, retried, machine.waiting()), (1, 0, 0));
}
