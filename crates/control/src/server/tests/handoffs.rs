//! Jobs that another server hands over.

use super::*;

/// A job of paris with that number, handed over by that attempt.
pub(super) fn handoff_from_paris(number: u32, attempt: u32) -> Handoff {
    let paris: crate::names::Name = "paris".parse().unwrap();
    Handoff {
        id: HandoffId { job: Handle { server: paris.clone(), number }, attempt },
        from: Peer { name: paris, address: "paris:1".to_owned() },
        key: Key([7; 16]),
        owner: user("alice"),
        name: "test".to_owned(),
        work: Work { procs: Procs(1), walltime: Span(100), speedup: Speedup::Rigid },
        submitted: Time(90),
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        hops: Vec::new(),
        before: Time(100_000_000),
        latest: Time(100_000_000),
        sibling: false,
        reason: pliant_model::MoveReason::EarlierCompletion,
        payload: Payload::default(),
        sample: None,
    }
}

/// A job of paris behind another job: prepared, and committed if `committed`.
fn with_job_of_paris(committed: bool) -> (Bench, HandoffId) {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(rigid(1, 1, 10_000_000));
    let handoff = Box::new(handoff_from_paris(5, 1));
    let id = handoff.id.clone();
    let reply = bench.deliver(Event::Prepare { reply: Token(51), handoff });
    assert!(matches!(reply, Some(Answer::Handoff(Reply::Prepared(_)))), "{reply:?}");
    if committed {
        bench.deliver(Event::Commit { reply: Token(52), id: id.clone(), cancelled: false, attempts: 1 });
    }
    (bench, id)
}

#[test]
fn a_job_from_another_server_has_only_its_own_handle() {
    let (bench, id) = with_job_of_paris(true);
    let number = bench.server.number_of(&id.job).unwrap();
    assert_eq!(bench.server.job(number).unwrap().handle, id.job);
    let unknown = Handle { server: "lyon".parse().unwrap(), number };
    assert_eq!(bench.server.number_of(&unknown), None, "no job with that handle was accepted");
}

#[test]
fn the_files_of_a_prepared_job_are_needed() {
    let (mut bench, id) = with_job_of_paris(false);
    assert!(bench.server.needs_files_of(&Key([7; 16])) && !bench.server.needs_files_of(&Key([8; 16])));
    bench.deliver(Event::Abort { reply: Token(53), id });
    assert!(!bench.server.needs_files_of(&Key([7; 16])), "the handoff was aborted");
}

#[test]
fn a_commit_that_is_repeated_after_days_is_acknowledged() {
    let (mut bench, id) = with_job_of_paris(true);
    bench.now = Time(8 * 86_400);
    bench.deliver(Event::Due);
    let again = bench.deliver(Event::Commit { reply: Token(54), id, cancelled: false, attempts: 1 });
    assert_eq!(
        again,
        Some(Answer::Handoff(Reply::Done)),
        "otherwise the source would record the job as lost"
    );
}

#[test]
fn only_the_server_that_has_a_job_hands_it_over() {
    let (mut bench, id) = with_job_of_paris(false);
    assert_eq!(bench.server.source_of(&id).map(|name| name.as_str()), Some("paris"));
    let from = Peer { name: "nancy".parse().unwrap(), address: "nancy:1".to_owned() };
    let other = Box::new(Handoff { from, ..handoff_from_paris(5, 2) });
    let refused = bench.deliver(Event::Prepare { reply: Token(55), handoff: other });
    assert!(matches!(refused, Some(Answer::Handoff(Reply::Refused(_)))), "{refused:?}");
    assert_eq!(bench.server.prepared().count(), 1, "the job of paris stays prepared");
}
