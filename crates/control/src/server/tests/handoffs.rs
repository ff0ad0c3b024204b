//! Jobs that another server hands over.

use super::*;
use crate::handoff::MoveProposal;
use crate::job::Hop;
use crate::replay::Machine;

/// A job of paris with that number, handed over by that attempt.
pub(super) fn handoff_from_paris(number: u32, attempt: u32) -> Handoff {
    let paris: crate::names::Name = "paris".parse().unwrap();
    Handoff {
        id: HandoffId { job: Handle { server: paris.clone(), number }, attempt },
        from: Peer { name: paris, address: "paris:1".to_owned() },
        key: Key([7; 16]),
        owner: user("alice"),
        name: "test".to_owned(),
        work: Work::new(Procs(1), Span(100), Speedup::Rigid),
        submitted: Time(90),
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        requeues: 0,
        hops: Vec::new(),
        estimates: Vec::new(),
        before: Time(100_000_000),
        latest: Time(100_000_000),
        sibling: false,
        reason: pliant_model::MoveReason::EarlierCompletion,
        claim: None,
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
fn a_commit_of_an_attempt_that_never_was_cancels_nothing() {
    let (mut bench, id) = with_job_of_paris(true);
    let job = |bench: &Bench| bench.server.job(bench.server.number_of(&id.job).unwrap()).unwrap().state;
    let (before, false_id) = (job(&bench), HandoffId { attempt: 0, ..id.clone() });
    assert_eq!(bench.server.source_of(&false_id), None);
    bench.deliver(Event::Commit { reply: Token(54), id: false_id, cancelled: true, attempts: 1 });
    assert_eq!(job(&bench), before);
    bench.deliver(Event::Commit { reply: Token(55), id: id.clone(), cancelled: true, attempts: 1 });
    assert_eq!(job(&bench), JobState::Canceled, "a commit of its source does");
}

#[test]
fn only_the_server_that_has_a_job_hands_it_over() {
    let (mut bench, id) = with_job_of_paris(false);
    for attempt in [0, 1, 99] {
        let id = HandoffId { attempt, ..id.clone() };
        assert_eq!(bench.server.source_of(&id).map(|name| name.as_str()), Some("paris"));
    }
    let from = Peer { name: "nancy".parse().unwrap(), address: "nancy:1".to_owned() };
    let other = Box::new(Handoff { from, ..handoff_from_paris(5, 2) });
    let refused = bench.deliver(Event::Prepare { reply: Token(55), handoff: other });
    assert!(matches!(refused, Some(Answer::NotPrepared(_))), "{refused:?}");
    assert_eq!(bench.server.prepared().count(), 1, "the job of paris stays prepared");
}

fn handoff_hop(from: &str, to: &str, attempt: u32) -> Hop {
    Hop {
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        attempt,
        at: Time(100),
        before: Time(1_000),
        expected: Estimate { procs: Procs(1), walltime: Span(100), start: Time(200) },
        reason: pliant_model::MoveReason::EarlierCompletion,
        signed: None,
    }
}

/// A job that is or has ended at a server does not come there once more, and an earlier server of a job does not hand it over
/// again: otherwise the job would run twice.
#[test]
fn a_job_comes_back_only_after_it_has_left() {
    let refused = |bench: &mut Bench, handoff: Handoff, why: &str| {
        let reply = bench.deliver(Event::Prepare { reply: Token(55), handoff: Box::new(handoff) });
        let Some(Answer::NotPrepared(found)) = &reply else { panic!("{why}: {reply:?}") };
        assert!(found.contains(why), "{found}");
    };
    let (mut bench, id) = with_job_of_paris(true);
    let own: crate::names::Name = bench.server.config().name.clone();
    refused(&mut bench, handoff_from_paris(5, 2), "another path");
    let nancy = Peer { name: "nancy".parse().unwrap(), address: "nancy:1".to_owned() };
    let came = handoff_hop("paris", own.as_str(), 1);
    let by_way_of_nancy = handoff_hop("paris", "nancy", 3);
    let other_way = Handoff { from: nancy.clone(), hops: vec![by_way_of_nancy], ..handoff_from_paris(5, 4) };
    refused(&mut bench, other_way.clone(), "another path");
    let as_it_came = Handoff { from: nancy.clone(), hops: vec![came.clone()], ..handoff_from_paris(5, 4) };
    refused(&mut bench, as_it_came, "only server that can hand it over");

    // It goes to nancy and comes back from there, not from paris.
    let proposal = MoveProposal {
        job: id.job.clone(),
        to: nancy.name.clone(),
        address: nancy.address.clone(),
        expected: Estimate { procs: Procs(1), walltime: Span(100), start: Time(200) },
        gain: None,
        reason: pliant_model::MoveReason::EarlierCompletion,
        timeout: Span(60),
        sibling: false,
    };
    bench.deliver(Event::ProposeMove { reply: Token(60), proposal: Box::new(proposal) });
    let away = HandoffId { job: id.job.clone(), attempt: 2 };
    let estimate = Estimate { procs: Procs(1), walltime: Span(100), start: Time(200) };
    bench.deliver(Event::Answered { id: away.clone(), reply: Reply::Prepared(estimate) });
    bench.deliver(Event::Answered { id: away, reply: Reply::Done });
    refused(&mut bench, handoff_from_paris(5, 9), "another path");
    refused(&mut bench, other_way, "another path");
    let left = handoff_hop(own.as_str(), "nancy", 2);
    let back = Handoff { from: nancy, hops: vec![came, left], ..handoff_from_paris(5, 3) };
    let reply = bench.deliver(Event::Prepare { reply: Token(56), handoff: Box::new(back) });
    assert!(matches!(reply, Some(Answer::Handoff(Reply::Prepared(_)))), "{reply:?}");
    // Paris does not take the place of nancy.
    refused(&mut bench, handoff_from_paris(5, 9), "another path");
}

/// A server that keeps what a user signed cannot make it several jobs.
#[test]
fn a_key_is_prepared_and_taken_once() {
    let (mut bench, id) = with_job_of_paris(false);
    let again = Box::new(handoff_from_paris(6, 1));
    let refused = bench.deliver(Event::Prepare { reply: Token(52), handoff: again });
    assert_eq!(refused, Some(Answer::NotPrepared(AdmissionRefusal::KeyTaken.to_string())));
    // Nor can a submission take the key until the source has decided.
    let submit = |key| Submit { key: Key([key; 16]), ..rigid(key, 1, 10) };
    assert_eq!(bench.submit(submit(7)), Answer::Refused(AdmissionRefusal::KeyTaken));
    let commit = Event::Commit { reply: Token(53), id: id.clone(), cancelled: false, attempts: 1 };
    assert_eq!(bench.deliver(commit), Some(Answer::Handoff(Reply::Done)));
    let known = bench.server.job_of_key(&Key([7; 16])).map(|record| record.handle.clone());
    assert_eq!(known, Some(id.job));
    let (mut bench, id) = with_job_of_paris(false);
    bench.deliver(Event::Abort { reply: Token(53), id });
    assert!(matches!(bench.submit(submit(7)), Answer::Accepted(_)));
}

#[test]
fn what_is_refused_or_prepared_already_need_not_be_journaled() {
    let (mut bench, id) = with_job_of_paris(false);
    assert!(bench.server.prepared_estimate(&id).is_some());
    assert_eq!(bench.server.prepared_estimate(&HandoffId { attempt: 2, ..id }), None);
    bench.deliver(Event::Prepare { reply: Token(52), handoff: Box::new(handoff_from_paris(6, 1)) });
    assert!(Server::is_without_effect(&bench.commands), "{:?}", bench.commands);
    bench.deliver(Event::Prepare { reply: Token(52), handoff: Box::new(handoff_from_paris(5, 2)) });
    assert!(!Server::is_without_effect(&bench.commands), "{:?}", bench.commands);
}
