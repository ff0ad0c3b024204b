//! Submissions through discovery and admission.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use pliant_control::agent::DiscoveryResult;
use pliant_control::client::{Command, Event, Submission, SubmissionOutcome};
use pliant_control::estimation_vector::EstimationVector;
use pliant_control::job::{JobRecord, JobState, Work};
use pliant_control::names::{Key, Name};
use pliant_control::reason::{Cause, DiscoverySummary, Reason};
use pliant_control::server::AdmissionRefusal;
use pliant_model::{Estimate, Procs, Span, Speed, Speedup, Time};

fn vector(server: &str, start: i64) -> EstimationVector {
    EstimationVector {
        server: server.parse().unwrap(),
        address: String::new(),
        rank: 0,
        estimate: Estimate { procs: Procs(1), walltime: Span(100), start: Time(start) },
        speed: Speed::REFERENCE,
        procs: Procs(4),
        free: Procs(4),
        queue_length: 0,
        partition: None,
    }
}

fn found(servers: &[&str]) -> Event {
    let vectors = servers.iter().map(|server| vector(server, 0)).collect();
    Event::Found(DiscoveryResult { vectors, ..DiscoveryResult::default() })
}

fn stale() -> Event {
    Event::Refused(AdmissionRefusal::Stale { now: vector("x", 900).estimate })
}

fn accepted() -> Event {
    let estimate = vector("a", 0).estimate;
    Event::Accepted(Box::new(JobRecord {
        handle: "a.1".parse().unwrap(),
        key: Key([0; 16]),
        owner: "alice".parse().unwrap(),
        name: "test".to_owned(),
        work: Work::new(estimate.procs, estimate.walltime, Speedup::Rigid),
        state: JobState::Queued,
        submitted: Time(0),
        expected: estimate,
        procs: estimate.procs,
        walltime: estimate.walltime,
        started: None,
        ended: None,
        exit: None,
        requeues: 0,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    }))
}

/// Gives a submission timed events and compares its commands in short form.
fn check(until: i64, events: Vec<(i64, Event)>, expected: &[&str]) {
    check_of(Submission::new(Time(until)), events, expected);
}

/// The same for a submission that an earlier client sent to `a`.
fn check_resumed(until: i64, events: Vec<(i64, Event)>, expected: &[&str]) {
    check_of(Submission::resumed(Time(until), "a".parse().unwrap()), events, expected);
}

fn check_of(mut submission: Submission, events: Vec<(i64, Event)>, expected: &[&str]) {
    let mut done = Vec::new();
    for (at, event) in events {
        let command = submission.on(Time(at), event);
        let Some(command) = command else {
            done.push("nothing".to_owned());
            continue;
        };
        done.push(match command {
            Command::Discover => "ask".to_owned(),
            Command::Submit { to, latest, .. } => match latest {
                Some(latest) => format!("{} by {latest}", to.server),
                None => to.server.to_string(),
            },
            Command::Repeat { server } => format!("{server} again"),
            Command::WakeAt(at) => format!("wake {at}"),
            Command::Done(outcome) => match *outcome {
                SubmissionOutcome::Accepted(_) => "accepted".to_owned(),
                SubmissionOutcome::Refused(reasons) => {
                    let reason = |(server, why): &(Option<Name>, Reason)| match server {
                        Some(server) => format!("{server}: {why}"),
                        None => why.to_string(),
                    };
                    format!("refused ({})", reasons.iter().map(reason).collect::<Vec<_>>().join("; "))
                }
                SubmissionOutcome::Unknown { server, why } => format!("unknown at {server} ({why})"),
            },
        });
    }
    assert_eq!(done, expected);
}

#[test]
fn a_stale_or_unreachable_server_is_skipped() {
    check(
        60,
        vec![
            (0, Event::Begin),
            (0, found(&["a", "b", "c"])),
            (0, stale()),
            (0, Event::Unreachable("down".to_owned())),
        ],
        &["ask", "a by 160", "b by 160", "c by 160"],
    );
}

#[test]
fn once_sent_only_the_same_server_is_tried_again() {
    check(
        10,
        vec![
            (0, Event::Begin),
            (0, found(&["a", "b"])),
            (1, Event::Interrupted("connection lost".to_owned())),
            (2, Event::Due),
            // Nothing was sent this time, but the earlier attempt was.
            (2, Event::Unreachable("down".to_owned())),
            (4, Event::Due),
            (4, stale()),
        ],
        &[
            "ask",
            "a by 160",
            "wake 2",
            "a",
            "wake 4",
            "a",
            "unknown at a (would complete at 1970-01-01 00:16:40Z now, later than asked for)",
        ],
    );
}

#[test]
fn a_submission_in_doubt_ends_as_unknown() {
    let broke = || Event::Interrupted("connection lost".to_owned());
    check(
        3,
        vec![(0, Event::Begin), (0, found(&["a", "b"])), (0, broke()), (1, Event::Due), (3, broke())],
        &["ask", "a by 160", "wake 1", "a", "unknown at a (connection lost)"],
    );
}

#[test]
fn a_submission_lists_the_servers_that_refused_it() {
    let refusals = vec![("c".parse().unwrap(), Cause::TooLarge.because("needs 9 processors"))];
    let (down, silent) = (vec!["d".parse().unwrap()], vec!["e".parse().unwrap()]);
    let vectors = vec![vector("a", 0), vector("b", 0)];
    let found = DiscoveryResult {
        vectors,
        refusals,
        down,
        silent,
        servers: 7,
        answered: 3,
        ..DiscoveryResult::default()
    };
    let mut submission = Submission::new(Time(60));
    let mut discovery = |event| match submission.on(Time(0), event) {
        Some(Command::Submit { discovery, .. }) => {
            let passed = discovery.passed.iter().map(|(server, cause)| format!("{server} {}", cause.word()));
            Some((discovery.servers, discovery.answered, passed.collect::<Vec<_>>().join(", ")))
        }
        _ => None,
    };
    assert_eq!(discovery(Event::Begin), None);
    let first = "d not-connected, c too-large, e no-answer";
    assert_eq!(discovery(Event::Found(found)), Some((7, 3, first.to_owned())));
    assert_eq!(discovery(stale()), Some((7, 3, format!("{first}, a stale"))));
}

#[test]
fn the_last_discovery_takes_any_completion() {
    check(
        60,
        vec![
            (0, Event::Begin),
            (0, found(&["a"])),
            (0, stale()),
            (1, Event::Due),
            (1, found(&["a"])),
            (1, stale()),
            (3, Event::Due),
            (3, found(&["a"])),
            (3, Event::Refused(AdmissionRefusal::TooMany { limit: 5 })),
        ],
        &[
            "ask",
            "a by 160",
            "wake 1",
            "ask",
            "a by 160",
            "wake 3",
            "ask",
            "a",
            "refused (a: this user has reached the limit of waiting jobs (5))",
        ],
    );
}

#[test]
fn a_discovery_that_others_made_untrue_does_not_count() {
    let mut events = vec![(0, Event::Begin)];
    let mut expected = vec!["ask"];
    for _ in 0..5 {
        events.extend([(0, found(&["a"])), (0, stale()), (0, Event::OthersAccepted)]);
        expected.extend(["a by 160", "wake 1", "ask"]);
    }
    events.extend([(0, found(&["a"])), (0, stale()), (1, Event::Due)]);
    expected.extend(["a by 160", "wake 1", "ask"]);
    check(60, events, &expected);
    // Others change nothing about a server that cannot be reached.
    let unreachable = Event::Unreachable("down".to_owned());
    check(
        60,
        vec![(0, Event::Begin), (0, found(&["a"])), (0, unreachable), (0, Event::OthersAccepted)],
        &["ask", "a by 160", "wake 1", "nothing"],
    );
}

#[test]
fn a_submission_that_every_server_refuses_ends() {
    let refusals = vec![("a".parse().unwrap(), Cause::TooLarge.because("needs 9 processors"))];
    let refused = Event::Found(DiscoveryResult { refusals, ..DiscoveryResult::default() });
    check(60, vec![(0, Event::Begin), (0, refused)], &["ask", "refused (a: needs 9 processors)"]);
}

#[test]
fn servers_that_are_down_may_have_resources_that_others_lack() {
    let check = |cause: Cause, expected: &str| {
        let refusals = vec![("a".parse().unwrap(), cause.because("not here"))];
        let found =
            DiscoveryResult { refusals, down: vec!["b".parse().unwrap()], ..DiscoveryResult::default() };
        check(60, vec![(0, Event::Begin), (0, Event::Found(found))], &["ask", expected]);
    };
    check(Cause::Resources, "refused (a: not here; b: down, and may have what the job needs)");
    check(Cause::TooLarge, "refused (a: not here)");
}

#[test]
fn without_an_agent_a_submission_is_tried_until_its_time_is_up() {
    let down = || Event::AgentUnreachable("master: down".to_owned());
    check(
        2,
        vec![(0, Event::Begin), (0, down()), (1, Event::Due), (2, down())],
        &["ask", "wake 1", "ask", "refused (master: down)"],
    );
}

#[test]
fn a_refusal_that_holds_for_every_server_ends_the_submission() {
    check(
        60,
        vec![
            (0, Event::Begin),
            (0, found(&["a", "b"])),
            (0, Event::Rejected(Cause::Invalid.because("samples: too many"))),
        ],
        &["ask", "a by 160", "refused (a: samples: too many)"],
    );
}

#[test]
fn late_or_duplicate_events_change_nothing() {
    let late = Event::Unreachable("down".to_owned());
    check(
        60,
        vec![(0, Event::Begin), (0, found(&["a"])), (0, found(&["b"])), (0, Event::Begin), (0, late)],
        &["ask", "a by 160", "nothing", "nothing", "wake 1"],
    );
}

#[test]
fn a_resumed_submission_goes_to_its_server_only() {
    let unreachable = || Event::Unreachable("down".to_owned());
    let interrupted = || Event::Interrupted("reset".to_owned());
    check_resumed(
        60,
        vec![
            (0, Event::Begin),
            (0, unreachable()),
            (1, Event::Due),
            (1, interrupted()),
            (3, Event::Due),
            (3, stale()),
        ],
        &[
            "a again",
            "wake 1",
            "a again",
            "wake 3",
            "a again",
            "unknown at a (would complete at 1970-01-01 00:16:40Z now, later than asked for)",
        ],
    );
    let rejected = Event::Rejected(Cause::NotOffered.because("no such service"));
    check_resumed(60, vec![(0, Event::Begin), (0, rejected)], &["a again", "unknown at a (no such service)"]);
    let first = || vec![(0, Event::Begin), (0, unreachable()), (1, Event::Due)];
    let given_up = [first(), vec![(2, unreachable())]].concat();
    check_resumed(2, given_up, &["a again", "wake 1", "a again", "unknown at a (down)"]);
    check_resumed(
        60,
        [first(), vec![(1, accepted())]].concat(),
        &["a again", "wake 1", "a again", "accepted"],
    );
}

#[test]
fn a_chosen_server_gets_the_submission_without_a_discovery() {
    let chosen = |events: Vec<(i64, Event)>, expected: &[&str]| {
        let events = [vec![(0, Event::Begin)], events].concat();
        check_of(Submission::chosen(Time(60), "a".parse().unwrap()), events, expected);
    };
    let unreachable = || Event::Unreachable("down".to_owned());
    let interrupted = || Event::Interrupted("reset".to_owned());
    let rejected = || Event::Rejected(Cause::NoData.because("no data"));
    chosen(vec![(0, accepted())], &["a again", "accepted"]);
    chosen(vec![(0, rejected())], &["a again", "refused (a: no data)"]);
    // Nothing was accepted: a discovery shows what there is.
    for event in [unreachable(), stale()] {
        chosen(
            vec![(0, event), (0, found(&["a"])), (0, accepted())],
            &["a again", "ask", "a by 160", "accepted"],
        );
    }
    // It may have been accepted there, and nowhere else.
    chosen(
        vec![(0, interrupted()), (1, Event::Due), (1, unreachable()), (3, Event::Due), (3, accepted())],
        &["a again", "wake 1", "a again", "wake 3", "a again", "accepted"],
    );
    chosen(
        vec![(0, interrupted()), (1, Event::Due), (1, rejected())],
        &["a again", "wake 1", "a again", "unknown at a (no data)"],
    );
}

#[test]
fn an_unreachable_server_is_tried_again_until_time_is_up() {
    let down = || Event::Unreachable("down".to_owned());
    let retry = |at: i64| vec![(at, Event::Due), (at, found(&["a", "b"])), (at, stale()), (at, down())];
    let begin = vec![(0, Event::Begin), (0, found(&["a", "b"])), (0, stale()), (0, down())];
    let events =
        [begin, retry(1), retry(3), retry(7), vec![(15, Event::Due), (15, found(&["b"])), (15, accepted())]];
    check(
        60,
        events.concat(),
        &[
            "ask", "a by 160", "b by 160", "wake 1", "ask", "a by 160", "b by 160", "wake 3", "ask", "a",
            "b", "wake 7", "ask", "a", "b", "wake 15", "ask", "b", "accepted",
        ],
    );
}

#[test]
fn without_servers_a_submission_is_tried_until_its_time_is_up() {
    let retry = |at: i64| vec![(at, Event::Due), (at, found(&[]))];
    let events = [vec![(0, Event::Begin), (0, found(&[]))], retry(1), retry(3), retry(7)];
    check(
        5,
        events.concat(),
        &["ask", "wake 1", "ask", "wake 3", "ask", "wake 5", "ask", "refused (no server is up)"],
    );
}
