//! The dispatcher of an exploration, told what happens in words.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_control::names::Name;
use pliant_control::optional::explore::{Command, Dispatch, Event, ExplorationClient, Plan, ServerOffer};
use pliant_control::optional::server::Prospects;
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::{Prospect, Reallocation};

const DEADLINE: TimeMs = TimeMs(100_000);

fn plan(mandatory: u32, most: u32, dispatch: Dispatch) -> Plan {
    Plan { mandatory, most, deadline: DEADLINE, weight: 1, dispatch, reallocation: None, seed: 1 }
}

fn name(server: &str) -> Name {
    server.parse().unwrap()
}

fn offer(server: &str, cores: u32, per_core: Option<u32>) -> ServerOffer {
    ServerOffer { server: name(server), cores, per_core }
}

fn offers(servers: &[(&str, u32)]) -> Event {
    Event::Found(servers.iter().map(|(server, cores)| offer(server, *cores, None)).collect())
}

fn ended(number: u32, server: &str) -> Event {
    Event::Ended { number, server: name(server), completed: true }
}

/// Tells an event at a time and says what is done about it: `submit 3 a`, `cancel a`, `cancel 3 a`, `wake`, `done 3+5`.
fn tell_at(machine: &mut ExplorationClient, now: TimeMs, event: Event) -> Vec<String> {
    let mut commands = Vec::new();
    machine.on(now, event, &mut commands);
    let word = |command: Command| match command {
        Command::Discover { most } => format!("discover {most}"),
        Command::Submit(submission) => format!("submit {} {}", submission.number, submission.server),
        Command::Cancel { server } => format!("cancel {server}"),
        Command::CancelOne { server, number, .. } => format!("cancel {number} {server}"),
        Command::Recall(submission) => format!("recall {} {}", submission.number, submission.server),
        Command::Expect { server } => format!("expect {server}"),
        Command::Withdraw { server, number, attempt } => format!("withdraw {number}.{attempt} {server}"),
        Command::WakeAt(at) => format!("wake {}", at.0),
        Command::Done(outcome) => format!(
            "done {}+{}{}",
            outcome.progress.mandatory,
            outcome.progress.optional,
            if outcome.interrupted { " interrupted" } else { "" }
        ),
    };
    commands.into_iter().map(word).collect()
}

fn tell(machine: &mut ExplorationClient, event: Event) -> Vec<String> {
    tell_at(machine, TimeMs(5), event)
}

/// An exploration on one server with one core and on one with two, after setup.
fn begun(mandatory: u32, most: u32) -> ExplorationClient {
    let mut machine = ExplorationClient::new(plan(mandatory, most, Dispatch::Window(1)));
    tell(&mut machine, Event::Begin);
    tell(&mut machine, offers(&[("a", 1), ("b", 2)]));
    machine
}

#[test]
fn setup_gives_out_mandatory_requests_in_turn_and_one_optional_request_to_each_core() {
    let mut machine = ExplorationClient::new(plan(3, 100, Dispatch::Window(1)));
    assert_eq!(tell(&mut machine, Event::Begin), ["discover 100", "wake 100000"]);
    let found = tell(&mut machine, offers(&[("a", 1), ("b", 2)]));
    let (first, second) = if found[0].ends_with('a') { ("a", "b") } else { ("b", "a") };
    let mandatory = [format!("submit 0 {first}"), format!("submit 1 {second}"), format!("submit 2 {first}")];
    assert_eq!(found[..3], mandatory);
    let at = |server| found[3..].iter().filter(|word| word.ends_with(server)).count();
    assert_eq!((found.len(), at("a"), at("b")), (6, 1, 2));
}

#[test]
fn clients_bring_servers_into_orders_of_their_own() {
    let first = |seed| {
        let mut machine = ExplorationClient::new(Plan { seed, ..plan(1, 1, Dispatch::Window(1)) });
        tell(&mut machine, Event::Begin);
        tell(&mut machine, offers(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]))[0].clone()
    };
    let firsts: std::collections::BTreeSet<String> = (0..50).map(first).collect();
    assert_eq!(firsts.len(), 4);
}

#[test]
fn where_an_optional_request_ends_the_next_one_goes_until_there_are_enough() {
    let mut machine = begun(0, 5);
    let on_a = (0..3).find(|number| tell(&mut machine.clone(), ended(*number, "a")) != Vec::<String>::new());
    let on_a = on_a.unwrap();
    assert_eq!(tell(&mut machine, ended(on_a, "a")), ["submit 3 a"]);
    assert_eq!(tell(&mut machine, ended(on_a, "a")), [""; 0], "twice");
    assert_eq!(tell(&mut machine, ended(3, "a")), ["submit 4 a"]);
    assert_eq!(tell(&mut machine, ended(4, "a")), [""; 0], "five are enough");
    let left: Vec<u32> = (0..3).filter(|number| *number != on_a).collect();
    assert_eq!(tell(&mut machine, ended(left[0], "b")), [""; 0]);
    assert_eq!(tell(&mut machine, ended(left[1], "b")), ["done 0+5"], "nothing is left to wait for");
}

#[test]
fn as_many_optional_requests_are_kept_at_a_core_as_its_server_takes() {
    let mut machine = ExplorationClient::new(plan(0, 100, Dispatch::Window(1)));
    tell(&mut machine, Event::Begin);
    let found = tell(&mut machine, Event::Found(vec![offer("a", 2, Some(3)), offer("b", 2, None)]));
    let at = |server| found.iter().filter(|word| word.ends_with(server)).count();
    assert_eq!((at("a"), at("b")), (6, 2));
}

#[test]
fn the_deadline_ends_it_when_the_mandatory_requests_are_completed() {
    let mut machine = begun(1, 100);
    assert_eq!(
        tell_at(&mut machine.clone(), DEADLINE, Event::Due),
        [""; 0],
        "it waits for the mandatory one"
    );
    let has = |machine: &ExplorationClient, server: &str| {
        let mut copy = machine.clone();
        tell(&mut copy, ended(0, server));
        copy.progress().mandatory == 1
    };
    let home = if has(&machine, "a") { "a" } else { "b" };
    let mut late = machine.clone();
    tell_at(&mut late, DEADLINE, Event::Due);
    let done = tell_at(&mut late, TimeMs(100_001), ended(0, home));
    assert_eq!(done, ["cancel a", "cancel b", "done 1+0"]);
    // What ends at the very deadline counts: only the word that it has passed ends the stay.
    tell(&mut machine, ended(0, home));
    assert_eq!(tell_at(&mut machine, DEADLINE, Event::Due), ["cancel a", "cancel b", "done 1+0"]);
    assert_eq!(tell_at(&mut machine, DEADLINE, ended(1, "a")), [""; 0]);
    assert!(machine.is_over());
}

#[test]
fn an_interruption_cancels_what_is_left_and_keeps_what_is_done() {
    let mut machine = begun(1, 100);
    assert_eq!(tell(&mut machine, Event::Interrupted), ["cancel a", "cancel b", "done 0+0 interrupted"]);
}

#[test]
fn what_a_lost_server_had_goes_elsewhere_and_counts_once() {
    let mut machine = ExplorationClient::new(plan(1, 100, Dispatch::Window(1)));
    tell(&mut machine, Event::Begin);
    assert_eq!(tell(&mut machine, offers(&[("a", 1)])), ["submit 0 a", "submit 1 a"]);
    assert_eq!(tell(&mut machine, Event::Lost(name("a"))), ["wake 1005"], "there is no other");
    assert_eq!(tell(&mut machine, Event::Due), ["discover 100", "wake 100000"]);
    assert_eq!(tell(&mut machine, offers(&[("b", 1)])), ["submit 0 b", "submit 1 b"]);
    // The lost server has run the mandatory request after all: the other one need not.
    assert_eq!(tell(&mut machine.clone(), ended(0, "a")), ["cancel 0 b"]);
    // It is there again: what others have is cancelled there, and it is supplied.
    assert_eq!(tell(&mut machine, offers(&[("a", 1)])), ["cancel 0 a", "cancel 1 a", "submit 2 a"]);
    tell(&mut machine, ended(0, "b"));
    assert_eq!(tell(&mut machine, ended(0, "a")), [""; 0]);
    assert_eq!(machine.progress().mandatory, 1);
}

#[test]
fn a_refusal_sends_a_request_elsewhere() {
    let mut machine = ExplorationClient::new(plan(2, 2, Dispatch::Window(1)));
    tell(&mut machine, Event::Begin);
    let sent = tell(&mut machine, offers(&[("a", 1), ("b", 1)]));
    let (refuser, other) = if sent[0] == "submit 0 a" { ("a", "b") } else { ("b", "a") };
    let refused = Event::Refused { number: 0, server: name(refuser) };
    assert_eq!(tell(&mut machine, refused), [format!("submit 0 {other}")]);
}

#[test]
fn who_begins_again_sends_again_what_was_not_answered() {
    let mut machine = begun(1, 100);
    let text = serde_json::to_string(&machine).unwrap();
    let mut again: ExplorationClient = serde_json::from_str(&text).unwrap();
    assert_eq!(again, machine);
    let sent = tell(&mut again, Event::Resumed);
    assert_eq!(sent.iter().filter(|word| word.starts_with("submit")).count(), 4);
    assert!(sent.ends_with(&["discover 100".to_owned(), "wake 100000".to_owned()]), "{sent:?}");
    assert_eq!(tell(&mut machine, offers(&[("a", 1), ("b", 2)])), [""; 0], "they are known, and supplied");
}

/// Whoever waits to ask the agent again, since a server had no room, has requests elsewhere all the same.
#[test]
fn who_begins_again_while_it_waits_for_servers_sends_again_what_was_not_answered() {
    let mut machine = ExplorationClient::new(plan(2, 2, Dispatch::Window(1)));
    tell(&mut machine, Event::Begin);
    assert_eq!(tell(&mut machine, offers(&[("a", 1)])), ["submit 0 a", "submit 1 a"]);
    assert_eq!(tell(&mut machine, Event::Refused { number: 1, server: name("a") }), ["wake 1005"]);
    let check = |machine: &ExplorationClient| {
        let mut again = machine.clone();
        let all = ["submit 0 a", "discover 2", "wake 100000"];
        assert_eq!(tell(&mut again, Event::Resumed), all);
        assert_eq!(tell(&mut again, offers(&[("a", 1)])), ["submit 1 a"]);
        assert_eq!(tell(&mut again, ended(0, "a")), [""; 0]);
        assert_eq!(tell(&mut again, ended(1, "a")), ["done 2+0"]);
    };
    check(&machine);
    tell_at(&mut machine, TimeMs(1_005), Event::Due);
    check(&machine);
}

/// What had ended while the client was away is counted, though its time is over.
#[test]
fn who_begins_again_after_the_deadline_asks_what_became_of_each_request_before_it_leaves() {
    let mut machine = ExplorationClient::new(plan(1, 100, Dispatch::Window(1)));
    tell(&mut machine, Event::Begin);
    tell(&mut machine, offers(&[("a", 4)]));
    tell(&mut machine, ended(0, "a"));
    let late = TimeMs(DEADLINE.0 + 5);
    let recalled = ["discover 100", "wake 100000", "recall 1 a", "recall 2 a", "recall 3 a", "recall 4 a"];
    assert_eq!(tell_at(&mut machine, late, Event::Resumed), recalled);
    assert!(machine.wants_no_servers() && !machine.is_over());
    assert_eq!(tell_at(&mut machine, late, offers(&[("a", 4), ("b", 1)])), [""; 0], "nothing more is begun");
    assert_eq!(tell_at(&mut machine, late, ended(1, "a")), [""; 0]);
    // Killed once more: what has not been answered is asked again.
    let text = serde_json::to_string(&machine).unwrap();
    let mut machine: ExplorationClient = serde_json::from_str(&text).unwrap();
    let again = ["discover 100", "wake 100000", "recall 2 a", "recall 3 a", "recall 4 a"];
    assert_eq!(tell_at(&mut machine, late, Event::Resumed), again);
    let withdrawn = |number| Event::Withdrawn { number, attempt: 0, server: name("a") };
    assert_eq!(tell_at(&mut machine, late, withdrawn(3)), [""; 0]);
    let stopped = tell_at(&mut machine.clone(), late, Event::Interrupted);
    assert_eq!(stopped, ["cancel a", "done 1+1 interrupted"], "its user does not want to know");
    let mut lost = machine.clone();
    let left = tell_at(&mut lost, late, Event::Lost(name("a")));
    assert_eq!(left, ["cancel a", "done 1+1"], "its server does not answer any more");
    let failed = Event::Ended { number: 2, server: name("a"), completed: false };
    assert_eq!(tell_at(&mut machine, late, failed), [""; 0]);
    assert_eq!(tell_at(&mut machine, late, ended(4, "a")), ["done 1+2"]);
    assert_eq!(machine.progress().failed, 1);
}

/// The same if a mandatory request is the last to be heard of, or the deadline comes before a server has answered.
#[test]
fn who_began_again_leaves_when_all_that_was_sent_before_is_known() {
    let mut machine = ExplorationClient::new(plan(1, 100, Dispatch::Window(1)));
    tell(&mut machine, Event::Begin);
    tell(&mut machine, offers(&[("a", 2)]));
    let late = TimeMs(DEADLINE.0 + 5);
    let again = ["submit 0 a", "submit 1 a", "submit 2 a", "discover 100", "wake 100000"];
    let mut away = machine.clone();
    assert_eq!(tell_at(&mut away, late, Event::Resumed), again, "a mandatory one is wanted still");
    assert_eq!(tell_at(&mut away, late, ended(0, "a")), ["recall 1 a", "recall 2 a"]);
    assert_eq!(tell_at(&mut away, late, ended(1, "a")), [""; 0]);
    assert_eq!(tell_at(&mut away, late, ended(2, "a")), ["done 1+2"]);
    tell(&mut machine, ended(0, "a"));
    assert_eq!(tell(&mut machine, Event::Resumed)[..2], again[1..3]);
    assert_eq!(tell(&mut machine, ended(1, "a")), ["submit 3 a"]);
    assert_eq!(
        tell_at(&mut machine, DEADLINE, Event::Due),
        ["recall 2 a"],
        "request 3 was sent by this client"
    );
    assert_eq!(tell_at(&mut machine, DEADLINE, ended(2, "a")), ["cancel a", "done 1+2"]);
}

#[test]
fn who_begins_again_after_the_end_is_told_how_it_ended() {
    let mut machine = begun(1, 100);
    let left = tell(&mut machine, Event::Interrupted);
    assert_eq!(left, ["cancel a", "cancel b", "done 0+0 interrupted"]);
    assert_eq!(tell(&mut machine, Event::Resumed), left, "whoever has not heard of it does now");
}

#[test]
fn the_time_at_which_the_mandatory_requests_were_completed_is_kept() {
    let mut machine = ExplorationClient::new(plan(2, 9, Dispatch::Window(1)));
    tell(&mut machine, Event::Begin);
    tell(&mut machine, offers(&[("a", 1)]));
    tell_at(&mut machine, TimeMs(40), ended(0, "a"));
    assert_eq!(machine.mandatory_done(), None);
    tell_at(&mut machine, TimeMs(70), ended(1, "a"));
    tell_at(&mut machine, TimeMs(90), ended(2, "a"));
    assert_eq!(machine.mandatory_done(), Some(TimeMs(70)));
}

#[test]
fn the_legacy_client_submits_what_its_user_guessed_and_no_more() {
    let mut machine = ExplorationClient::new(plan(3, 1_000, Dispatch::Guess(7)));
    tell(&mut machine, Event::Begin);
    let sent = tell(&mut machine, offers(&[("a", 1), ("b", 1)]));
    let numbers: Vec<&str> = sent.iter().map(|word| word.split(' ').nth(1).unwrap()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4", "5", "6"]);
    let on_a = sent.iter().filter(|word| word.ends_with('a')).count();
    assert!((3..=4).contains(&on_a), "in turn: {sent:?}");
}

fn expected(server: &str, wait: i64, waiting: &[(u32, i64)]) -> Event {
    let more = Prospect { wait: Some(SpanMs(wait)), run: Some(SpanMs(1_000)) };
    let waiting = waiting.iter().map(|(number, wait)| (*number, Some(SpanMs(*wait)))).collect();
    Event::Expected { server: name(server), prospects: Prospects { more, waiting } }
}

/// Two mandatory requests on two servers, with reallocation; which server has request 0, and the other one.
fn moving() -> (ExplorationClient, &'static str, &'static str) {
    let reallocation = Some(Reallocation { every: SpanMs(500), least_gain: SpanMs(100) });
    let mut machine = ExplorationClient::new(Plan { reallocation, ..plan(2, 2, Dispatch::Window(1)) });
    tell(&mut machine, Event::Begin);
    let found = tell(&mut machine, offers(&[("a", 1), ("b", 1)]));
    assert_eq!(found.last().map(String::as_str), Some("wake 505"));
    if found[0] == "submit 0 a" { (machine, "a", "b") } else { (machine, "b", "a") }
}

#[test]
fn a_mandatory_request_that_waits_moves_when_its_server_has_given_it_back() {
    let (mut machine, slow, free) = moving();
    assert_eq!(tell_at(&mut machine, TimeMs(504), Event::Due), [""; 0], "too early");
    assert_eq!(tell_at(&mut machine, TimeMs(505), Event::Due), ["expect a", "expect b", "wake 1005"]);
    assert_eq!(tell(&mut machine, expected(slow, 3_000, &[(0, 2_000)])), [""; 0], "one has not answered");
    assert_eq!(tell(&mut machine, expected(free, 500, &[])), [format!("withdraw 0.0 {slow}")]);
    let withdrawn = |attempt| Event::Withdrawn { number: 0, attempt, server: name(slow) };
    assert_eq!(tell(&mut machine, withdrawn(1)), [""; 0], "of another attempt");
    assert_eq!(tell(&mut machine.clone(), withdrawn(0)), [format!("submit 0 {free}")]);
    // It has begun to run there meanwhile.
    assert_eq!(tell(&mut machine, ended(0, slow)), [""; 0]);
    assert_eq!(tell(&mut machine, withdrawn(0)), [""; 0]);
    assert_eq!(tell(&mut machine, ended(1, free)), ["done 2+0"]);
}

#[test]
fn a_server_that_does_not_answer_is_left_out() {
    let (mut machine, slow, free) = moving();
    tell_at(&mut machine, TimeMs(505), Event::Due);
    tell(&mut machine, expected(free, 0, &[]));
    let next = tell_at(&mut machine, TimeMs(1_005), Event::Due);
    assert_eq!(next, ["expect a", "expect b", "wake 1505"], "where request 0 waits is not known");
    tell(&mut machine, expected(slow, 3_000, &[(0, 2_000)]));
    let lost = tell(&mut machine, Event::Lost(name(free)));
    assert_eq!(lost, [format!("submit 1 {slow}")], "its requests go elsewhere, and nobody goes there");
}

#[test]
fn one_that_was_given_back_to_nobody_goes_to_the_next_server() {
    let (mut machine, slow, free) = moving();
    let told = tell(&mut machine, Event::Withdrawn { number: 0, attempt: 0, server: name(slow) });
    assert!(told.len() == 1 && told[0].starts_with("submit 0"), "{told:?}");
    // Whoever begins again says that it is another attempt.
    let mut commands = Vec::new();
    machine.on(TimeMs(5), Event::Resumed, &mut commands);
    let attempts: Vec<_> = commands
        .iter()
        .filter_map(|command| match command {
            Command::Submit(submission) => Some((submission.number, submission.attempt)),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [(0, 1), (1, 0)], "{free}");
}
