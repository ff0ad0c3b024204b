//! The client of an exploration: events, and its commands in short form.
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

/// Handles an event at a time and returns the commands: `submit 3 a`, `cancel a`, `cancel 3 a`, `wake`, `done 3+5`.
fn handle_at(machine: &mut ExplorationClient, now: TimeMs, event: Event) -> Vec<String> {
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

fn handle(machine: &mut ExplorationClient, event: Event) -> Vec<String> {
    handle_at(machine, TimeMs(5), event)
}

/// An exploration on one server with one core and on one with two, after setup.
fn started(mandatory: u32, most: u32) -> ExplorationClient {
    let mut machine = ExplorationClient::new(plan(mandatory, most, Dispatch::Window(1)));
    handle(&mut machine, Event::Begin);
    handle(&mut machine, offers(&[("a", 1), ("b", 2)]));
    machine
}

#[test]
fn setup_gives_out_mandatory_requests_in_turn_and_one_optional_request_to_each_core() {
    let mut machine = ExplorationClient::new(plan(3, 100, Dispatch::Window(1)));
    assert_eq!(handle(&mut machine, Event::Begin), ["discover 100", "wake 100000"]);
    let found = handle(&mut machine, offers(&[("a", 1), ("b", 2)]));
    let (first, second) = if found[0].ends_with('a') { ("a", "b") } else { ("b", "a") };
    let mandatory = [format!("submit 0 {first}"), format!("submit 1 {second}"), format!("submit 2 {first}")];
    assert_eq!(found[..3], mandatory);
    let at = |server| found[3..].iter().filter(|word| word.ends_with(server)).count();
    assert_eq!((found.len(), at("a"), at("b")), (6, 1, 2));
}

#[test]
fn each_client_has_its_own_order_of_servers() {
    let first = |seed| {
        let mut machine = ExplorationClient::new(Plan { seed, ..plan(1, 1, Dispatch::Window(1)) });
        handle(&mut machine, Event::Begin);
        handle(&mut machine, offers(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]))[0].clone()
    };
    let firsts: std::collections::BTreeSet<String> = (0..50).map(first).collect();
    assert_eq!(firsts.len(), 4);
}

#[test]
fn each_ended_optional_request_is_replaced_up_to_the_limit() {
    let mut machine = started(0, 5);
    let on_a =
        (0..3).find(|number| handle(&mut machine.clone(), ended(*number, "a")) != Vec::<String>::new());
    let on_a = on_a.unwrap();
    assert_eq!(handle(&mut machine, ended(on_a, "a")), ["submit 3 a"]);
    assert_eq!(handle(&mut machine, ended(on_a, "a")), [""; 0], "a duplicate");
    assert_eq!(handle(&mut machine, ended(3, "a")), ["submit 4 a"]);
    assert_eq!(handle(&mut machine, ended(4, "a")), [""; 0], "five are enough");
    let left: Vec<u32> = (0..3).filter(|number| *number != on_a).collect();
    assert_eq!(handle(&mut machine, ended(left[0], "b")), [""; 0]);
    assert_eq!(handle(&mut machine, ended(left[1], "b")), ["done 0+5"], "nothing is left to wait for");
}

#[test]
fn each_core_gets_as_many_optional_requests_as_its_server_takes() {
    let mut machine = ExplorationClient::new(plan(0, 100, Dispatch::Window(1)));
    handle(&mut machine, Event::Begin);
    let found = handle(&mut machine, Event::Found(vec![offer("a", 2, Some(3)), offer("b", 2, None)]));
    let at = |server| found.iter().filter(|word| word.ends_with(server)).count();
    assert_eq!((at("a"), at("b")), (6, 2));
}

#[test]
fn the_deadline_ends_an_exploration_with_completed_mandatory_requests() {
    let mut machine = started(1, 100);
    assert_eq!(
        handle_at(&mut machine.clone(), DEADLINE, Event::Due),
        [""; 0],
        "it waits for the mandatory request"
    );
    let has = |machine: &ExplorationClient, server: &str| {
        let mut copy = machine.clone();
        handle(&mut copy, ended(0, server));
        copy.progress().mandatory == 1
    };
    let home = if has(&machine, "a") { "a" } else { "b" };
    let mut late = machine.clone();
    handle_at(&mut late, DEADLINE, Event::Due);
    let done = handle_at(&mut late, TimeMs(100_001), ended(0, home));
    assert_eq!(done, ["cancel a", "cancel b", "done 1+0"]);
    // A request that ends exactly at the deadline counts: only `Due` ends the exploration.
    handle(&mut machine, ended(0, home));
    assert_eq!(handle_at(&mut machine, DEADLINE, Event::Due), ["cancel a", "cancel b", "done 1+0"]);
    assert_eq!(handle_at(&mut machine, DEADLINE, ended(1, "a")), [""; 0]);
    assert!(machine.is_over());
}

#[test]
fn an_interruption_cancels_open_requests_and_keeps_results() {
    let mut machine = started(1, 100);
    assert_eq!(handle(&mut machine, Event::Interrupted), ["cancel a", "cancel b", "done 0+0 interrupted"]);
}

#[test]
fn requests_of_a_lost_server_go_to_another_one_and_count_once() {
    let mut machine = ExplorationClient::new(plan(1, 100, Dispatch::Window(1)));
    handle(&mut machine, Event::Begin);
    assert_eq!(handle(&mut machine, offers(&[("a", 1)])), ["submit 0 a", "submit 1 a"]);
    assert_eq!(handle(&mut machine, Event::Lost(name("a"))), ["wake 1005"], "there is no other server");
    assert_eq!(handle(&mut machine, Event::Due), ["discover 100", "wake 100000"]);
    assert_eq!(handle(&mut machine, offers(&[("b", 1)])), ["submit 0 b", "submit 1 b"]);
    // The lost server has run the mandatory request: the other one need not.
    assert_eq!(handle(&mut machine.clone(), ended(0, "a")), ["cancel 0 b"]);
    // It is up again: requests that moved restarted are cancelled there, and it is supplied.
    assert_eq!(handle(&mut machine, offers(&[("a", 1)])), ["cancel 0 a", "cancel 1 a", "submit 2 a"]);
    handle(&mut machine, ended(0, "b"));
    assert_eq!(handle(&mut machine, ended(0, "a")), [""; 0]);
    assert_eq!(machine.progress().mandatory, 1);
}

#[test]
fn a_refused_request_goes_to_another_server() {
    let mut machine = ExplorationClient::new(plan(2, 2, Dispatch::Window(1)));
    handle(&mut machine, Event::Begin);
    let sent = handle(&mut machine, offers(&[("a", 1), ("b", 1)]));
    let (refuser, other) = if sent[0] == "submit 0 a" { ("a", "b") } else { ("b", "a") };
    let refused = Event::Refused { number: 0, server: name(refuser) };
    assert_eq!(handle(&mut machine, refused), [format!("submit 0 {other}")]);
}

#[test]
fn a_restarted_client_submits_open_requests_again() {
    let mut machine = started(1, 100);
    let text = serde_json::to_string(&machine).unwrap();
    let mut again: ExplorationClient = serde_json::from_str(&text).unwrap();
    assert_eq!(again, machine);
    let sent = handle(&mut again, Event::Resumed);
    assert_eq!(sent.iter().filter(|word| word.starts_with("submit")).count(), 4);
    assert!(sent.ends_with(&["discover 100".to_owned(), "wake 100000".to_owned()]), "{sent:?}");
    assert_eq!(handle(&mut machine, offers(&[("a", 1), ("b", 2)])), [""; 0], "they are known, and supplied");
}

/// A client that waits for the next discovery, after a refusal, still has requests on servers.
#[test]
fn a_client_restarted_before_its_discovery_submits_open_requests_again() {
    let mut machine = ExplorationClient::new(plan(2, 2, Dispatch::Window(1)));
    handle(&mut machine, Event::Begin);
    assert_eq!(handle(&mut machine, offers(&[("a", 1)])), ["submit 0 a", "submit 1 a"]);
    assert_eq!(handle(&mut machine, Event::Refused { number: 1, server: name("a") }), ["wake 1005"]);
    let check = |machine: &ExplorationClient| {
        let mut again = machine.clone();
        let all = ["submit 0 a", "discover 2", "wake 100000"];
        assert_eq!(handle(&mut again, Event::Resumed), all);
        assert_eq!(handle(&mut again, offers(&[("a", 1)])), ["submit 1 a"]);
        assert_eq!(handle(&mut again, ended(0, "a")), [""; 0]);
        assert_eq!(handle(&mut again, ended(1, "a")), ["done 2+0"]);
    };
    check(&machine);
    handle_at(&mut machine, TimeMs(1_005), Event::Due);
    check(&machine);
}

/// Requests that ended while the client was down count, although the deadline has passed.
#[test]
fn a_client_restarted_after_the_deadline_asks_for_all_outcomes_before_it_leaves() {
    let mut machine = ExplorationClient::new(plan(1, 100, Dispatch::Window(1)));
    handle(&mut machine, Event::Begin);
    handle(&mut machine, offers(&[("a", 4)]));
    handle(&mut machine, ended(0, "a"));
    let late = TimeMs(DEADLINE.0 + 5);
    let recalled = ["discover 100", "wake 100000", "recall 1 a", "recall 2 a", "recall 3 a", "recall 4 a"];
    assert_eq!(handle_at(&mut machine, late, Event::Resumed), recalled);
    assert!(machine.needs_no_servers() && !machine.is_over());
    assert_eq!(
        handle_at(&mut machine, late, offers(&[("a", 4), ("b", 1)])),
        [""; 0],
        "no request is submitted"
    );
    assert_eq!(handle_at(&mut machine, late, ended(1, "a")), [""; 0]);
    // After another crash, unanswered requests are recalled again.
    let text = serde_json::to_string(&machine).unwrap();
    let mut machine: ExplorationClient = serde_json::from_str(&text).unwrap();
    let again = ["discover 100", "wake 100000", "recall 2 a", "recall 3 a", "recall 4 a"];
    assert_eq!(handle_at(&mut machine, late, Event::Resumed), again);
    let withdrawn = |number| Event::Withdrawn { number, attempt: 0, server: name("a") };
    assert_eq!(handle_at(&mut machine, late, withdrawn(3)), [""; 0]);
    let stopped = handle_at(&mut machine.clone(), late, Event::Interrupted);
    assert_eq!(stopped, ["cancel a", "done 1+1 interrupted"], "its user has stopped it");
    let mut lost = machine.clone();
    let left = handle_at(&mut lost, late, Event::Lost(name("a")));
    assert_eq!(left, ["cancel a", "done 1+1"], "its server does not answer");
    let failed = Event::Ended { number: 2, server: name("a"), completed: false };
    assert_eq!(handle_at(&mut machine, late, failed), [""; 0]);
    assert_eq!(handle_at(&mut machine, late, ended(4, "a")), ["done 1+2"]);
    assert_eq!(machine.progress().failed, 1);
}

/// The same if a mandatory request is the last to be answered, or the deadline comes before an answer.
#[test]
fn a_restarted_client_leaves_when_all_earlier_outcomes_are_known() {
    let mut machine = ExplorationClient::new(plan(1, 100, Dispatch::Window(1)));
    handle(&mut machine, Event::Begin);
    handle(&mut machine, offers(&[("a", 2)]));
    let late = TimeMs(DEADLINE.0 + 5);
    let again = ["submit 0 a", "submit 1 a", "submit 2 a", "discover 100", "wake 100000"];
    let mut restarted = machine.clone();
    assert_eq!(handle_at(&mut restarted, late, Event::Resumed), again, "a mandatory request is still open");
    assert_eq!(handle_at(&mut restarted, late, ended(0, "a")), ["recall 1 a", "recall 2 a"]);
    assert_eq!(handle_at(&mut restarted, late, ended(1, "a")), [""; 0]);
    assert_eq!(handle_at(&mut restarted, late, ended(2, "a")), ["done 1+2"]);
    handle(&mut machine, ended(0, "a"));
    assert_eq!(handle(&mut machine, Event::Resumed)[..2], again[1..3]);
    assert_eq!(handle(&mut machine, ended(1, "a")), ["submit 3 a"]);
    assert_eq!(
        handle_at(&mut machine, DEADLINE, Event::Due),
        ["recall 2 a"],
        "request 3 was sent by this client"
    );
    assert_eq!(handle_at(&mut machine, DEADLINE, ended(2, "a")), ["cancel a", "done 1+2"]);
}

#[test]
fn a_client_restarted_after_the_end_repeats_its_outcome() {
    let mut machine = started(1, 100);
    let left = handle(&mut machine, Event::Interrupted);
    assert_eq!(left, ["cancel a", "cancel b", "done 0+0 interrupted"]);
    assert_eq!(handle(&mut machine, Event::Resumed), left, "the outcome is repeated");
}

#[test]
fn the_completion_time_of_the_mandatory_requests_is_recorded() {
    let mut machine = ExplorationClient::new(plan(2, 9, Dispatch::Window(1)));
    handle(&mut machine, Event::Begin);
    handle(&mut machine, offers(&[("a", 1)]));
    handle_at(&mut machine, TimeMs(40), ended(0, "a"));
    assert_eq!(machine.mandatory_done(), None);
    handle_at(&mut machine, TimeMs(70), ended(1, "a"));
    handle_at(&mut machine, TimeMs(90), ended(2, "a"));
    assert_eq!(machine.mandatory_done(), Some(TimeMs(70)));
}

#[test]
fn the_legacy_client_submits_the_guessed_number_of_requests() {
    let mut machine = ExplorationClient::new(plan(3, 1_000, Dispatch::Guess(7)));
    handle(&mut machine, Event::Begin);
    let sent = handle(&mut machine, offers(&[("a", 1), ("b", 1)]));
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
    handle(&mut machine, Event::Begin);
    let found = handle(&mut machine, offers(&[("a", 1), ("b", 1)]));
    assert_eq!(found.last().map(String::as_str), Some("wake 505"));
    if found[0] == "submit 0 a" { (machine, "a", "b") } else { (machine, "b", "a") }
}

#[test]
fn a_waiting_mandatory_request_moves_once_its_server_has_withdrawn_it() {
    let (mut machine, slow, free) = moving();
    assert_eq!(handle_at(&mut machine, TimeMs(504), Event::Due), [""; 0], "too early");
    assert_eq!(handle_at(&mut machine, TimeMs(505), Event::Due), ["expect a", "expect b", "wake 1005"]);
    assert_eq!(handle(&mut machine, expected(slow, 3_000, &[(0, 2_000)])), [""; 0], "one has not answered");
    assert_eq!(handle(&mut machine, expected(free, 500, &[])), [format!("withdraw 0.0 {slow}")]);
    let withdrawn = |attempt| Event::Withdrawn { number: 0, attempt, server: name(slow) };
    assert_eq!(handle(&mut machine, withdrawn(1)), [""; 0], "of another attempt");
    assert_eq!(handle(&mut machine.clone(), withdrawn(0)), [format!("submit 0 {free}")]);
    // It has started there in the meantime.
    assert_eq!(handle(&mut machine, ended(0, slow)), [""; 0]);
    assert_eq!(handle(&mut machine, withdrawn(0)), [""; 0]);
    assert_eq!(handle(&mut machine, ended(1, free)), ["done 2+0"]);
}

#[test]
fn a_silent_server_is_left_out() {
    let (mut machine, slow, free) = moving();
    handle_at(&mut machine, TimeMs(505), Event::Due);
    handle(&mut machine, expected(free, 0, &[]));
    let next = handle_at(&mut machine, TimeMs(1_005), Event::Due);
    assert_eq!(next, ["expect a", "expect b", "wake 1505"], "the server of request 0 is not known");
    handle(&mut machine, expected(slow, 3_000, &[(0, 2_000)]));
    let lost = handle(&mut machine, Event::Lost(name(free)));
    assert_eq!(lost, [format!("submit 1 {slow}")], "its requests go to the other server");
}

#[test]
fn a_withdrawn_request_without_a_target_goes_to_the_next_server() {
    let (mut machine, slow, free) = moving();
    let commands = handle(&mut machine, Event::Withdrawn { number: 0, attempt: 0, server: name(slow) });
    assert!(commands.len() == 1 && commands[0].starts_with("submit 0"), "{commands:?}");
    // A restarted client submits it as another attempt.
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
