//! Estimates of waiting jobs as they change.

use super::*;
use crate::replay::Machine;

#[test]
fn a_plan_that_changes_is_noted_in_the_record() {
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(rigid(1, 4, 1_000));
    bench.at(100);
    let promised = bench.accepted(rigid(2, 4, 1_000)).expected;
    assert_eq!(promised.start, Time(1_100));
    // The running job ends early, and the second one starts at once; the third one is planned earlier.
    let third = bench.accepted(rigid(3, 4, 1_000)).expected;
    assert_eq!(third.start, Time(2_100));
    bench.now = Time(500);
    bench.ended(1, Exit::Code(0));
    bench.at(500);
    let changes = |bench: &Bench, number| bench.server.job(number).unwrap().estimates.clone();
    let noted = changes(&bench, 3);
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!((noted[0].at, noted[0].plan.start), (Time(500), Time(1_500)));
    assert_eq!(bench.server.job(3).unwrap().expected, third, "the promise stays");
    // Less than a tenth of the wait: not noted.
    bench.now = Time(600);
    bench.accepted(rigid(4, 1, 10));
    assert_eq!(changes(&bench, 3).len(), 1);
    // Agents get the promise alone, and the archive has the changes.
    bench.now = Time(700);
    bench.cancel(3, "alice");
    let reported = bench.commands.iter().find_map(|command| match command {
        Command::Report(record) => Some(record.estimates.len()),
        _ => None,
    });
    let archived = bench.commands.iter().find_map(|command| match command {
        Command::Archive(record) => Some(record.estimates.clone()),
        _ => None,
    });
    assert_eq!((reported, archived), (Some(0), Some(noted)));
}

#[test]
fn a_restored_server_notes_the_same_changes() {
    let mut bench = Bench::new("cbf", 4);
    bench.accepted(rigid(1, 4, 1_000));
    bench.at(100);
    bench.accepted(rigid(2, 4, 1_000));
    bench.accepted(rigid(3, 4, 1_000));
    let state = serde_json::to_string(&bench.server.dump(Time(100))).unwrap();
    let restored =
        Server::from_state(bench.server.config().clone(), serde_json::from_str(&state).unwrap()).unwrap();
    let mut again = Bench { server: restored, now: bench.now, commands: Vec::new(), calls: 0 };
    for bench in [&mut bench, &mut again] {
        bench.now = Time(130);
        bench.ended(1, Exit::Code(0));
        bench.at(400);
        bench.ended(2, Exit::Code(0));
    }
    let of = |bench: &Bench| bench.server.job(3).unwrap().estimates.clone();
    assert_eq!(of(&bench), of(&again));
}
