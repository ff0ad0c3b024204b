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

#[test]
fn a_job_that_comes_brings_its_estimates() {
    let mut bench = Bench::new("cbf", 1);
    bench.now = Time(200);
    bench.accepted(rigid(1, 1, 10_000));
    bench.accepted(rigid(2, 1, 10_000));
    bench.at(200);
    let plan = |start| Estimate { procs: Procs(1), walltime: Span(100), start: Time(start) };
    let changes = [(90, plan(150)), (140, plan(300)), (999, plan(400))];
    let estimates = changes.map(|(at, plan)| crate::job::EstimateChange { at: Time(at), plan }).to_vec();
    let handoff = Box::new(Handoff { estimates, ..super::handoffs::handoff_from_paris(5, 1) });
    let id = handoff.id.clone();
    bench.deliver(Event::Prepare { reply: Token(51), handoff });
    bench.deliver(Event::Commit { reply: Token(52), id: id.clone(), cancelled: false, attempts: 1 });
    let number = bench.server.number_of(&id.job).unwrap();
    let noted = |bench: &Bench| {
        let changes = &bench.server.job(number).unwrap().estimates;
        changes.iter().map(|change| (change.at.0, change.plan.start.0)).collect::<Vec<_>>()
    };
    let promised = bench.server.job(number).unwrap().expected.start;
    assert_eq!(promised, Time(20_200));
    // The clock of paris is ahead.
    assert_eq!(noted(&bench), [(90, 150), (140, 300), (200, 400)]);
    bench.now = Time(300);
    bench.accepted(rigid(3, 1, 10));
    assert_eq!(noted(&bench).len(), 3, "its plan here is the promise still");
    bench.now = Time(500);
    bench.ended(1, Exit::Code(0));
    bench.at(500);
    assert_eq!(noted(&bench)[3..], [(500, 10_500)]);
    bench.now = Time(600);
    bench.accepted(rigid(4, 1, 10));
    assert_eq!(noted(&bench).len(), 4, "and is compared with what was noted here");
}
