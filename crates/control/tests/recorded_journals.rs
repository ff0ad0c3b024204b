//! What earlier builds wrote into their journals is still read, with every field: `fixtures/journal-v1.txt` has an event of each kind and a
//! state of each machine, or some states. `cargo run -q -p pliant-sim --example journals 40` prints it. Lines of earlier builds are kept.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::collections::BTreeSet;

use pliant_control::agent::{self, Agent, AgentConfig, AgentState};
use pliant_control::coallocation::Coordinator;
use pliant_control::optional::explore::{self, ExplorationClient, Plan};
use pliant_control::optional::server::{self as optional, Journaled, TimedEvent};
use pliant_control::replay::Machine;
use pliant_control::server::{self, Server};
use pliant_model::{Span, SpanMs, Time, TimeMs};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

const RECORDED: &str = include_str!("fixtures/journal-v1.txt");

/// Events that are no part of a journal: questions and summaries.
const QUESTIONS: [&str; 4] = ["queried", "answered", "summarised", "reallocate"];

/// The lines about a machine: its events or its states, each with the kind of the event.
fn recorded(machine: &str, what: &str) -> Vec<(&'static str, &'static str)> {
    let begin = format!("{machine} {what} ");
    let lines = RECORDED.lines().filter_map(|line| line.strip_prefix(&begin));
    lines.map(|line| line.split_once(' ').unwrap()).collect()
}

/// Fails unless all that one value has is in the other one, which may have more.
fn check_kept(was: &Value, is: &Value, at: &str) {
    match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            for (name, value) in was {
                let kept = is.get(name).unwrap_or_else(|| panic!("{at}.{name} is lost"));
                check_kept(value, kept, &format!("{at}.{name}"));
            }
        }
        (Value::Array(was), Value::Array(is)) => {
            assert_eq!(was.len(), is.len(), "{at}");
            was.iter().zip(is).for_each(|(was, is)| check_kept(was, is, at));
        }
        _ => assert_eq!(was, is, "{at}"),
    }
}

/// Reads a recorded value and writes it again.
fn read<T: Serialize + DeserializeOwned>(text: &str, what: &str) -> T {
    let value: T = serde_json::from_str(text).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
    let (was, is) = (serde_json::from_str(text).unwrap(), serde_json::to_value(&value).unwrap());
    check_kept(&was, &is, what);
    value
}

/// The names of the variants of an enumeration, as the error about a wrong one lists them.
fn variants<T: DeserializeOwned>() -> BTreeSet<String> {
    let Err(error) = serde_json::from_str::<T>("\"no such variant\"") else { panic!("it was read") };
    let error = error.to_string();
    let (_, list) = error.split_once("expected one of ").expect(&error);
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Reads the events `E` of a machine, and checks that there is one of each variant of `V` that is not left out.
fn check_events<E: Serialize + DeserializeOwned, V: DeserializeOwned>(machine: &str, left_out: &[&str]) {
    let mut kinds = BTreeSet::new();
    for (kind, text) in recorded(machine, "event") {
        read::<E>(text, &format!("{machine} {kind}"));
        kinds.insert(kind.split('.').next().unwrap().to_owned());
    }
    kinds.extend(left_out.iter().map(|name| (*name).to_owned()));
    assert_eq!(kinds, variants::<V>(), "an event of each kind of a {machine}");
}

#[test]
fn events_of_earlier_journals_are_read() {
    type OfCoordinator = <Coordinator as Machine>::Event;
    check_events::<server::Event, server::Event>("server", &[]);
    check_events::<agent::Event, agent::Event>("agent", &QUESTIONS);
    check_events::<OfCoordinator, OfCoordinator>("coordinator", &[]);
    check_events::<TimedEvent, optional::Event>("requests", &[]);
    check_events::<explore::Event, explore::Event>("exploration", &[]);
}

#[test]
fn snapshots_of_earlier_journals_are_read_and_go_on() {
    for (_, text) in recorded("server", "state") {
        read::<<Server as Machine>::State>(text, "the state of a server");
    }
    for (_, text) in recorded("coordinator", "state") {
        read::<<Coordinator as Machine>::State>(text, "the state of a coordinator");
    }
    let states = recorded("agent", "state");
    assert!(!states.is_empty());
    for (_, text) in states {
        let state: AgentState = read(text, "the state of an agent");
        let name = "a0".parse().unwrap();
        let config = AgentConfig { name, root: true, timeout: Span(3), reallocation: None };
        let mut agent = Agent::from_state(config, state);
        agent.on(Time(2_000_000), agent::Event::Due, &mut Vec::new());
    }
}

/// A snapshot of a server's requests is the machine itself.
#[test]
fn snapshots_of_earlier_requests_are_read_and_go_on() {
    let states = recorded("requests", "state");
    assert!(!states.is_empty());
    for (what, text) in states {
        let mut requests: Journaled = read(text, what);
        let at = requests.at() + SpanMs(7_200_000);
        requests.on(Time(at.0 / 1_000), TimedEvent { at, event: optional::Event::Due }, &mut Vec::new());
        for (_, event) in recorded("requests", "event") {
            let TimedEvent { event, .. } = serde_json::from_str(event).unwrap();
            requests.on(Time(at.0 / 1_000), TimedEvent { at, event }, &mut Vec::new());
        }
        let again: Journaled = read(&serde_json::to_string(&requests).unwrap(), what);
        assert_eq!(again, requests, "{what}");
    }
}

/// The folder of an exploration has its plan and its events. A client that resumes the work replays them.
#[test]
fn plans_of_earlier_explorations_are_read_and_go_on() {
    let plans = recorded("exploration", "plan");
    assert!(!plans.is_empty());
    for (_, text) in plans {
        let mut client = ExplorationClient::new(read::<Plan>(text, "the plan of an exploration"));
        for kind in ["begin", "found", "refused", "ended", "resumed", "interrupted"] {
            let events = recorded("exploration", "event").into_iter().filter(|(other, _)| *other == kind);
            for (_, event) in events {
                client.on(TimeMs(1_700_000_000_000), serde_json::from_str(event).unwrap(), &mut Vec::new());
            }
        }
        assert!(client.has_begun());
    }
}
