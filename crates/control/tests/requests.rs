//! The requests of a server: duplicate, early, late and unauthorized messages.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_control::names::Token;
use pliant_control::names::{Key, User};
use pliant_control::optional::server::{
    Answer, Command, Config, Event, Exit, RequestKey, RequestState, Requests, Submit,
};
use pliant_control::payload::Payload;
use pliant_control::reason::Cause;
use pliant_model::rng::Draws;
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Fairness, Kind, Order, RequestId};

fn server() -> Requests {
    let order = Order::Fair { fairness: Fairness::VirtualTime, grace: SpanMs::ZERO };
    let (optional_per_core, mandatory_per_user, draws) = (Some(1), Some(2), Draws::new(1, "ties"));
    let (bytes_per_user, bytes) = (None, None);
    Requests::new(Config {
        order,
        cores: 1,
        optional_per_core,
        mandatory_per_user,
        bytes_per_user,
        bytes,
        draws,
    })
}

fn user(name: &str) -> User {
    name.parse().unwrap()
}

fn key(number: u32) -> RequestKey {
    RequestKey { exploration: Key([1; 16]), number }
}

fn submit(owner: &str, number: u32, kind: Kind) -> Event {
    let submit = Submit {
        key: key(number),
        user: user(owner),
        weight: 1,
        kind,
        attempt: 0,
        deadline: None,
        payload: Payload::of(&format!("run {number}")),
    };
    Event::Submit { reply: Token(9), submit: Box::new(submit) }
}

fn handle(server: &mut Requests, now: i64, event: Event) -> Vec<Command> {
    let mut commands = Vec::new();
    server.on(TimeMs(now), event, &mut commands);
    commands
}

fn state_reply(state: RequestState) -> Vec<Command> {
    vec![Command::Reply { to: Token(9), answer: Answer::State(state) }]
}

fn ended(request: u32, exit: Exit) -> Event {
    Event::Ended { request: RequestId(request), exit, at: None }
}

#[test]
fn a_request_submitted_twice_runs_once_and_reports_its_state() {
    let mut server = server();
    let again = || submit("ann", 1, Kind::Mandatory);
    assert_eq!(handle(&mut server, 0, again()), state_reply(RequestState::Waiting));
    assert_eq!(server.next_due(TimeMs(0)), Some(TimeMs(0)));
    let run = Command::Run { request: RequestId(0), core: 0 };
    assert_eq!(handle(&mut server, 0, Event::Due), [run]);
    assert_eq!(server.next_due(TimeMs(0)), None);
    assert_eq!(handle(&mut server, 1, again()), state_reply(RequestState::Running));
    let report = Command::ReportState { key: key(1), state: RequestState::Completed };
    assert_eq!(handle(&mut server, 9, ended(0, Exit::Completed)), [report]);
    assert_eq!(handle(&mut server, 10, again()), state_reply(RequestState::Completed));
    assert_eq!(handle(&mut server, 10, Event::Due), []);
}

#[test]
fn a_request_cancelled_before_it_arrives_does_not_run() {
    for all in [true, false] {
        let mut server = server();
        let (reply, user) = (Token(9), user("ann"));
        let cancel = match all {
            true => Event::CancelAll { reply, exploration: Key([1; 16]), user },
            false => Event::Cancel { reply, key: key(1), attempt: 0, user },
        };
        handle(&mut server, 0, cancel);
        assert_eq!(
            handle(&mut server, 1, submit("ann", 1, Kind::Mandatory)),
            state_reply(RequestState::Cancelled)
        );
        assert_eq!(handle(&mut server, 1, Event::Due), []);
    }
}

#[test]
fn a_cancelled_run_is_ended_and_may_have_completed_before() {
    for (exit, expected) in
        [(Exit::Killed, RequestState::Cancelled), (Exit::Completed, RequestState::Completed)]
    {
        let mut server = server();
        handle(&mut server, 0, submit("ann", 1, Kind::Optional));
        handle(&mut server, 0, Event::Due);
        let cancel = || Event::CancelAll { reply: Token(9), exploration: Key([1; 16]), user: user("ann") };
        let answer = Command::Reply { to: Token(9), answer: Answer::AllCancelled };
        assert_eq!(
            handle(&mut server, 1, cancel()),
            [Command::End { request: RequestId(0) }, answer.clone()]
        );
        assert_eq!(handle(&mut server, 2, cancel()), [answer], "one end command");
        assert_eq!(
            handle(&mut server, 3, ended(0, exit)),
            [Command::ReportState { key: key(1), state: expected }]
        );
        assert_eq!(server.queue().counts(), (0, 0));
    }
}

#[test]
fn explorations_belong_to_their_users_and_requests_are_limited() {
    let mut server = server();
    let refused = |commands: Vec<Command>| match &commands[0] {
        Command::Reply { answer: Answer::Refused(reason), .. } => reason.cause,
        other => panic!("{other:?}"),
    };
    handle(&mut server, 0, submit("ann", 1, Kind::Optional));
    assert_eq!(refused(handle(&mut server, 0, submit("bob", 2, Kind::Optional))), Cause::KeyTaken);
    let cancel = Event::CancelAll { reply: Token(9), exploration: Key([1; 16]), user: user("bob") };
    assert_eq!(refused(handle(&mut server, 0, cancel)), Cause::KeyTaken);
    assert_eq!(refused(handle(&mut server, 0, submit("ann", 2, Kind::Optional))), Cause::TooMany);
    for number in [3, 4] {
        assert_eq!(
            handle(&mut server, 0, submit("ann", number, Kind::Mandatory)),
            state_reply(RequestState::Waiting)
        );
    }
    assert_eq!(refused(handle(&mut server, 0, submit("ann", 5, Kind::Mandatory))), Cause::TooMany);
    // Present requests still report their state, and an ended one lets another in.
    assert_eq!(handle(&mut server, 0, submit("ann", 3, Kind::Mandatory)), state_reply(RequestState::Waiting));
    assert_eq!(server.queue().counts(), (3, 0));
    handle(&mut server, 0, Event::Cancel { reply: Token(9), key: key(4), attempt: 0, user: user("ann") });
    assert_eq!(handle(&mut server, 0, submit("ann", 5, Kind::Mandatory)), state_reply(RequestState::Waiting));
}

fn refusal(commands: &[Command]) -> Option<(Cause, &str)> {
    match commands {
        [Command::Reply { answer: Answer::Refused(reason), .. }] => Some((reason.cause, &reason.why)),
        _ => None,
    }
}

/// A cancellation makes the server remember an unknown exploration, up to a limit for each user.
#[test]
fn the_remembered_explorations_of_a_user_are_limited() {
    let hour = 3_600_000;
    let nth = |number: u32| {
        let mut key = [0; 16];
        key[..4].copy_from_slice(&number.to_be_bytes());
        Key(key)
    };
    let events = |owner: &str, number: u32| {
        let (reply, user, exploration) = (Token(9), user(owner), nth(number));
        let key = RequestKey { exploration, number: 1 };
        let Event::Submit { mut submit, .. } = submit(owner, 1, Kind::Mandatory) else { unreachable!() };
        submit.key = key;
        [
            Event::Cancel { reply, key, attempt: 0, user: user.clone() },
            Event::Withdraw { reply, key, attempt: 0, user: user.clone() },
            Event::CancelAll { reply, exploration, user },
            Event::Submit { reply, submit },
        ]
    };
    let mut server = server();
    let first = |owner: &str, number: u32| events(owner, number)[number as usize % 3].clone();
    for number in 0..10_000 {
        let commands = handle(&mut server, i64::from(number), first("ann", number));
        assert_eq!(refusal(&commands), None, "{number}");
    }
    let full = server.clone();
    for event in events("ann", 10_000) {
        let commands = handle(&mut server, 20_000, event);
        let (cause, why) = refusal(&commands).unwrap();
        assert_eq!(cause, Cause::TooMany);
        assert!(why.starts_with("expected at most 10000 explorations of a user"), "{why}");
    }
    assert_eq!(server, full, "a refusal changes no state");
    // Known explorations still work, other users have limits of their own, and the oldest is forgotten first.
    for event in events("ann", 0) {
        assert_eq!(refusal(&handle(&mut server, 20_000, event)), None);
    }
    assert_eq!(refusal(&handle(&mut server, 20_000, first("bob", 10_001))), None);
    handle(&mut server, hour, Event::Due);
    assert_eq!(server.explorations().count(), 10_001, "number 0 has a later message");
    handle(&mut server, hour + 1, Event::Due);
    assert_eq!((server.owner(nth(0)), server.owner(nth(1))), (Some(&user("ann")), None));
    assert_eq!(refusal(&handle(&mut server, hour + 1, first("ann", 10_000))), None);
}

/// Requests that are cancelled before they arrive, or one after the other as they arrive.
#[test]
fn the_remembered_cancelled_requests_of_a_user_are_limited() {
    let cancel = |number| Event::Cancel { reply: Token(9), key: key(number), attempt: 0, user: user("ann") };
    for comes in [false, true] {
        let mut server = server();
        for number in 0..10_000 {
            if comes {
                assert_eq!(
                    handle(&mut server, 0, submit("ann", number, Kind::Optional)),
                    state_reply(RequestState::Waiting)
                );
            }
            assert_eq!(handle(&mut server, 0, cancel(number)), state_reply(RequestState::Cancelled));
        }
        let full = server.clone();
        for event in [cancel(10_000), withdraw(10_000, 0), submit("ann", 10_000, Kind::Mandatory)] {
            let commands = handle(&mut server, 1, event);
            let (cause, why) = refusal(&commands).unwrap();
            assert_eq!(cause, Cause::TooMany);
            assert!(why.starts_with("expected at most 10000 cancelled requests of a user"), "{why}");
        }
        assert_eq!(server, full, "a refusal changes no state");
        // Known requests stay known, and an exploration cancelled as a whole needs no entries.
        assert_eq!(
            handle(&mut server, 2, submit("ann", 7, Kind::Mandatory)),
            state_reply(RequestState::Cancelled)
        );
        let all = Event::CancelAll { reply: Token(9), exploration: key(0).exploration, user: user("ann") };
        handle(&mut server, 3, all);
        assert_eq!(handle(&mut server, 4, cancel(10_000)), state_reply(RequestState::Cancelled));
        assert_eq!(
            handle(&mut server, 5, submit("ann", 7, Kind::Mandatory)),
            state_reply(RequestState::Cancelled)
        );
        let again: Requests = serde_json::from_str(&serde_json::to_string(&server).unwrap()).unwrap();
        assert_eq!(again, server);
    }
}

/// The hour starts at the end of the last request, even after a long run.
#[test]
fn the_outcome_of_a_long_request_is_kept_for_a_client_that_is_down() {
    let mut server = server();
    handle(&mut server, 0, submit("ann", 1, Kind::Mandatory));
    handle(&mut server, 0, Event::Due);
    handle(&mut server, 7_200_000, ended(0, Exit::Completed));
    handle(&mut server, 7_200_000, Event::Due);
    let asked = handle(&mut server, 7_300_000, submit("ann", 1, Kind::Mandatory));
    assert_eq!(asked, state_reply(RequestState::Completed));
}

#[test]
fn the_optional_requests_of_a_user_are_counted_over_all_explorations() {
    let mut server = server();
    let other = |number| {
        let Event::Submit { reply, mut submit } = submit("ann", number, Kind::Optional) else {
            unreachable!()
        };
        submit.key.exploration = Key([2; 16]);
        Event::Submit { reply, submit }
    };
    assert_eq!(handle(&mut server, 0, submit("ann", 1, Kind::Optional)), state_reply(RequestState::Waiting));
    let refused = handle(&mut server, 0, other(1));
    let why = "expected at most 1 optional requests of a user here, found one more";
    let answer = Answer::Refused(Cause::TooMany.because(why));
    assert_eq!(refused, [Command::Reply { to: Token(9), answer }]);
    // Another user has the same limit, and an ended request lets any other of the same user in.
    let Event::Submit { reply, mut submit } = other(1) else { unreachable!() };
    (submit.user, submit.key.exploration) = (user("bob"), Key([3; 16]));
    assert_eq!(handle(&mut server, 0, Event::Submit { reply, submit }), state_reply(RequestState::Waiting));
    handle(&mut server, 1, Event::Cancel { reply: Token(9), key: key(1), attempt: 0, user: user("ann") });
    assert_eq!(handle(&mut server, 2, other(1)), state_reply(RequestState::Waiting));
    assert_eq!((server.optional_of(&user("ann")), server.optional_of(&user("bob"))), (1, 1));
}

#[test]
fn the_state_is_data_and_old_explorations_are_forgotten() {
    let mut server = server();
    handle(&mut server, 0, submit("ann", 1, Kind::Mandatory));
    handle(&mut server, 0, submit("ann", 2, Kind::Optional));
    handle(&mut server, 0, Event::Due);
    let text = serde_json::to_string(&server).unwrap();
    let mut again: Requests = serde_json::from_str(&text).unwrap();
    assert_eq!(again, server);
    for machine in [&mut server, &mut again] {
        handle(machine, 5, ended(0, Exit::Completed));
        handle(machine, 5, Event::Due);
        handle(machine, 9, ended(1, Exit::Failed));
        assert_eq!(handle(machine, 10, submit("ann", 2, Kind::Optional)), state_reply(RequestState::Failed));
        handle(machine, 4_000_000, Event::Due);
        assert_eq!(
            handle(machine, 4_000_000, submit("bob", 2, Kind::Optional)),
            state_reply(RequestState::Waiting),
            "a new one"
        );
    }
    assert_eq!(again, server);
}

/// Submits an attempt of a request.
fn attempt(number: u32, attempt: u32) -> Event {
    let Event::Submit { reply, mut submit } = submit("ann", number, Kind::Mandatory) else { unreachable!() };
    submit.attempt = attempt;
    Event::Submit { reply, submit }
}

fn withdraw(number: u32, attempt: u32) -> Event {
    Event::Withdraw { reply: Token(9), key: key(number), attempt, user: user("ann") }
}

#[test]
fn a_withdrawn_request_is_accepted_again_only_as_a_later_attempt() {
    let mut server = server();
    handle(&mut server, 0, attempt(1, 0));
    handle(&mut server, 0, Event::Due);
    handle(&mut server, 0, attempt(2, 0));
    assert_eq!(
        handle(&mut server, 1, withdraw(1, 0)),
        state_reply(RequestState::Running),
        "a running request stays"
    );
    assert_eq!(handle(&mut server, 1, withdraw(2, 0)), state_reply(RequestState::Cancelled));
    assert_eq!(handle(&mut server, 1, withdraw(2, 0)), state_reply(RequestState::Cancelled), "a duplicate");
    assert_eq!(handle(&mut server, 2, attempt(2, 0)), state_reply(RequestState::Cancelled), "overtaken");
    assert_eq!(handle(&mut server, 3, attempt(2, 2)), state_reply(RequestState::Waiting));
    // Late messages do not change a later attempt.
    assert_eq!(handle(&mut server, 4, withdraw(2, 0)), state_reply(RequestState::Waiting));
    let late = Event::Cancel { reply: Token(9), key: key(2), attempt: 1, user: user("ann") };
    assert_eq!(handle(&mut server, 4, late), state_reply(RequestState::Waiting));
    assert_eq!(handle(&mut server, 5, withdraw(2, 2)), state_reply(RequestState::Cancelled));
    assert_eq!(handle(&mut server, 6, attempt(2, 1)), state_reply(RequestState::Cancelled));
    // A request that never arrived is not accepted later.
    assert_eq!(handle(&mut server, 7, withdraw(3, 1)), state_reply(RequestState::Cancelled));
    assert_eq!(handle(&mut server, 8, attempt(3, 1)), state_reply(RequestState::Cancelled));
}

#[test]
fn a_request_that_is_being_ended_is_accepted_again_after_its_end() {
    let mut server = server();
    handle(&mut server, 0, attempt(1, 0));
    handle(&mut server, 0, Event::Due);
    let cancel = Event::Cancel { reply: Token(9), key: key(1), attempt: 0, user: user("ann") };
    handle(&mut server, 1, cancel);
    let refused = handle(&mut server, 2, attempt(1, 1));
    assert!(
        matches!(&refused[..], [Command::Reply { answer: Answer::Refused(why), .. }] if why.cause == Cause::Busy),
        "{refused:?}"
    );
    handle(&mut server, 3, ended(0, Exit::Killed));
    assert_eq!(handle(&mut server, 4, attempt(1, 1)), state_reply(RequestState::Waiting));
}

#[test]
fn a_server_reports_its_prospects() {
    let mut server = server();
    let ann = user("ann");
    let prospects = |server: &Requests, now| server.prospects(TimeMs(now), key(0).exploration, &ann);
    let expect =
        |server: &Requests, now, wait: Option<i64>, run: Option<i64>, waiting: &[(u32, Option<i64>)]| {
            let found = prospects(server, now);
            let ms = |span: Option<SpanMs>| span.map(|span| span.0);
            let own: Vec<_> = found.waiting.iter().map(|(number, wait)| (*number, ms(*wait))).collect();
            assert_eq!(
                (ms(found.more.wait), ms(found.more.run), own.as_slice()),
                (wait, run, waiting),
                "at {now}"
            );
        };
    expect(&server, 0, Some(0), None, &[]);
    handle(&mut server, 0, attempt(1, 0));
    handle(&mut server, 0, Event::Due);
    expect(&server, 10, None, None, &[]);
    handle(&mut server, 1_000, ended(0, Exit::Completed));
    expect(&server, 1_000, Some(0), Some(1_000), &[]);
    // An optional request is ended for a mandatory one, which therefore does not wait.
    handle(&mut server, 1_000, submit("ann", 5, Kind::Optional));
    handle(&mut server, 1_000, Event::Due);
    expect(&server, 1_100, Some(0), Some(1_000), &[]);
    handle(&mut server, 1_100, attempt(2, 0));
    handle(&mut server, 1_100, attempt(3, 0));
    expect(&server, 1_100, Some(2_000), Some(1_000), &[(2, Some(0)), (3, Some(1_000))]);
}
