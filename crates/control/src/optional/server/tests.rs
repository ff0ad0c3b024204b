//! The requests of a server as a journaled machine.

use crate::payload::Payload;
use pliant_model::rng::Draws;
use pliant_model::{SpanMs, Time};
use pliant_policy::optional::{Fairness, Order};

use super::*;
use crate::names::Key;
use crate::names::Token;
use crate::replay::{JournalEvent, Machine, replay};

const ALICE: Key = Key([1; 16]);
const BOB: Key = Key([2; 16]);

fn requests(cores: u32) -> Requests {
    let order = Order::Fair { fairness: Fairness::VirtualTime, grace: SpanMs::ZERO };
    let (optional_per_core, mandatory_per_user, draws) = (Some(1), None, Draws::new(1, "ties"));
    let (bytes_per_user, bytes) = (None, None);
    Requests::new(Config {
        order,
        cores,
        optional_per_core,
        mandatory_per_user,
        bytes_per_user,
        bytes,
        draws,
    })
}

fn submit(exploration: Key, number: u32, kind: Kind) -> Event {
    submit_of(exploration, number, kind, "note")
}

/// The same of a request that runs a given text.
fn submit_of(exploration: Key, number: u32, kind: Kind, text: &str) -> Event {
    let user = if exploration == ALICE { "alice" } else { "bob" };
    let submit = Submit {
        key: RequestKey { exploration, number },
        user: user.parse().unwrap(),
        weight: 1,
        kind,
        attempt: 0,
        deadline: None,
        payload: Payload::of(&text),
    };
    Event::Submit { reply: Token(u64::from(number)), submit: Box::new(submit) }
}

/// Commands in short form: started, ended, reported and answered requests.
fn short(commands: &[Command]) -> String {
    let words = commands.iter().map(|command| match command {
        Command::Reply { answer: Answer::State(state), .. } => format!("{state:?}"),
        Command::Reply { answer, .. } => format!("{answer:?}").split('(').next().unwrap().to_owned(),
        Command::Run { request, core, .. } => format!("run {} on {core}", request.0),
        Command::End { request } => format!("end {}", request.0),
        Command::ReportState { key, state } => format!("report {} {state:?}", key.number),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn handle(machine: &mut Journaled, at: i64, event: Event) -> String {
    let mut commands = Vec::new();
    machine.on(Time(0), TimedEvent { at: TimeMs(at), event }, &mut commands);
    short(&commands)
}

fn ended(request: u32, exit: Exit) -> Event {
    Event::Ended { request: RequestId(request), exit, at: None }
}

#[test]
fn decisions_follow_an_event_at_once() {
    let mut machine = Journaled::new(requests(1));
    let optional = Kind::Optional;
    assert_eq!(handle(&mut machine, 0, submit(ALICE, 7, optional)), "Waiting, run 0 on 0");
    assert_eq!(handle(&mut machine, 1, submit(ALICE, 7, optional)), "Running");
    assert_eq!(handle(&mut machine, 2, submit(ALICE, 8, optional)), "Refused");
    assert_eq!(handle(&mut machine, 3, submit(BOB, 0, Kind::Mandatory)), "Waiting, end 0");
    let process = machine.requests().processes().next().unwrap();
    assert_eq!((process.key.number, process.since, process.ending), (7, TimeMs(0), true));
    assert_eq!(handle(&mut machine, 4, ended(0, Exit::Killed)), "run 1 on 0");
    // A late event counts as of the last event.
    assert_eq!(handle(&mut machine, 2, ended(1, Exit::Completed)), "report 0 Completed, run 0 on 0");
    assert_eq!(machine.at(), TimeMs(4));
    assert_eq!(handle(&mut machine, 9, ended(0, Exit::Completed)), "report 7 Completed");
    let alice = machine.requests().share(TimeMs(9), &"alice".parse().unwrap()).unwrap();
    // Requests that were ended early count, and the core was shared while both were present.
    assert_eq!((alice.usage, alice.fair_share, alice.requests), (SpanMs(4 + 5), SpanMs(8), 0));
    assert_eq!(machine.requests().owner(BOB).map(User::to_string), Some("bob".to_owned()));
}

#[test]
fn a_replayed_journal_gives_the_same() {
    let entry = |at, event| JournalEvent { at: Time(0), event: TimedEvent { at: TimeMs(at), event } };
    let mut events = Vec::new();
    for number in 0..6 {
        events.push(entry(i64::from(number), submit(ALICE, number, Kind::Mandatory)));
        events.push(entry(i64::from(number), submit(BOB, number, Kind::Optional)));
    }
    events.extend((0..4).map(|request| entry(10 + i64::from(request), ended(request, Exit::Completed))));
    let mut first = Journaled::new(requests(2));
    let commands = replay(&mut first, events.iter().cloned());
    // A snapshot at any point, followed by the later events.
    for cut in 0..events.len() {
        let mut machine = Journaled::new(requests(2));
        let mut again = replay(&mut machine, events[..cut].iter().cloned());
        let text = serde_json::to_string(&machine.dump(Time(0))).unwrap();
        let mut machine: Journaled = serde_json::from_str(&text).unwrap();
        let later: Vec<_> = serde_json::from_str::<Vec<JournalEvent<TimedEvent>>>(
            &serde_json::to_string(&events[cut..]).unwrap(),
        )
        .unwrap();
        again.extend(replay(&mut machine, later));
        assert_eq!((&again, &machine), (&commands, &first), "cut at {cut}");
    }
}

#[test]
fn another_configuration_needs_an_empty_server() {
    let mut machine = Journaled::new(requests(1));
    assert_eq!(machine.clone().reconfigured(requests(1)), Ok(machine.clone()));
    assert!(machine.clone().reconfigured(requests(2)).is_ok());
    handle(&mut machine, 0, submit(ALICE, 0, Kind::Mandatory));
    assert_eq!(machine.clone().reconfigured(requests(1)), Ok(machine.clone()));
    assert!(machine.clone().reconfigured(requests(2)).is_err());
    // The limits may change at any time.
    let mut stricter = requests(1);
    (stricter.config.mandatory_per_user, stricter.config.bytes) = (Some(1), Some(1_000));
    let mut machine = machine.reconfigured(stricter).unwrap();
    assert_eq!(handle(&mut machine, 1, submit(ALICE, 1, Kind::Mandatory)), "Refused");
}

/// The bytes of requests are those of their payloads: a text and its two quotes.
#[test]
fn large_requests_are_refused_beyond_the_bytes_of_a_user_and_of_all() {
    let mut limited = requests(1);
    (limited.config.bytes_per_user, limited.config.bytes) = (Some(1_000), Some(1_500));
    let mut machine = Journaled::new(limited);
    let large = "x".repeat(700);
    let submit = |machine: &mut Journaled, exploration, number, text: &str| {
        let mut commands = Vec::new();
        let event = submit_of(exploration, number, Kind::Mandatory, text);
        machine.on(Time(0), TimedEvent { at: TimeMs(i64::from(number)), event }, &mut commands);
        match commands.swap_remove(0) {
            Command::Reply { answer: Answer::Refused(reason), .. } => {
                format!("{}: {reason}", reason.cause.word())
            }
            Command::Reply { answer, .. } => format!("{answer:?}"),
            other => panic!("{other:?}"),
        }
    };
    let of_user = "too-many: the requests of this user would have 1404 bytes here, at most 1000 are accepted";
    let of_all = "busy: the requests of all users would have 1504 bytes here, at most 1500 are accepted";
    assert_eq!(submit(&mut machine, ALICE, 0, &large), "State(Waiting)");
    assert_eq!(submit(&mut machine, ALICE, 1, &large), of_user);
    assert_eq!(submit(&mut machine, BOB, 1, &large), "State(Waiting)");
    assert_eq!(submit(&mut machine, BOB, 1, &large), "State(Waiting)", "counted once");
    assert_eq!(submit(&mut machine, ALICE, 2, &"y".repeat(98)), of_all);
    // The counts are in the snapshot.
    let text = serde_json::to_string(&machine.dump(Time(0))).unwrap();
    assert_eq!(serde_json::from_str::<Journaled>(&text).unwrap(), machine);
    // What has ended, in whatever way, does not count any more.
    assert_eq!(handle(&mut machine, 3, ended(0, Exit::Completed)), "report 0 Completed, run 1 on 0");
    assert_eq!(submit(&mut machine, ALICE, 3, &large), "State(Waiting)");
    let (key, user) = (RequestKey { exploration: ALICE, number: 3 }, "alice".parse().unwrap());
    handle(&mut machine, 4, Event::Cancel { reply: Token(1), key, attempt: 0, user });
    assert_eq!(submit(&mut machine, ALICE, 4, &large), "State(Waiting)");
}

#[test]
fn a_repeated_submission_needs_no_event_for_a_while() {
    let mut machine = requests(1);
    let mut commands = Vec::new();
    machine.on(TimeMs(1_000), submit(ALICE, 1, Kind::Mandatory), &mut commands);
    machine.on(TimeMs(1_000), submit(ALICE, 2, Kind::Mandatory), &mut commands);
    let repeated = |machine: &Requests, at, number, user: &str, attempt| {
        let key = RequestKey { exploration: ALICE, number };
        machine.repeated(TimeMs(at), key, &user.parse().unwrap(), attempt)
    };
    assert_eq!(repeated(&machine, 2_000, 2, "alice", 0), Some(RequestState::Waiting));
    assert_eq!(repeated(&machine, 2_000, 2, "bob", 0), None, "only its user learns of it");
    assert_eq!(repeated(&machine, 2_000, 3, "alice", 0), None, "a new one");
    // The exploration is to be remembered longer.
    assert_eq!(repeated(&machine, 61_000, 2, "alice", 0), None);
    machine.on(TimeMs(61_000), submit(ALICE, 2, Kind::Mandatory), &mut commands);
    assert_eq!(repeated(&machine, 62_000, 2, "alice", 0), Some(RequestState::Waiting));
    // A cancelled one is taken again with a later attempt.
    let cancel = |number| {
        let key = RequestKey { exploration: ALICE, number };
        Event::Cancel { reply: Token(9), key, attempt: 0, user: "alice".parse().unwrap() }
    };
    machine.on(TimeMs(62_000), cancel(2), &mut commands);
    assert_eq!(repeated(&machine, 62_000, 2, "alice", 0), Some(RequestState::Cancelled));
    assert_eq!(repeated(&machine, 62_000, 2, "alice", 1), None);
}
