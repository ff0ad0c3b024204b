//! The journal of a server's requests: events of every kind, and the states that they lead to.

use std::collections::BTreeMap;

use pliant_control::names::{Key, Token, User};
use pliant_control::optional::server::{
    Command, Config, Event, Exit, Journaled, RequestKey, Requests, Submit, TimedEvent,
};
use pliant_control::payload::Payload;
use pliant_control::replay::Machine;
use pliant_model::rng::Draws;
use pliant_model::{SpanMs, Time, TimeMs};
use pliant_policy::optional::{Fairness, Kind, Order, RequestId};
use serde_json::json;

use crate::kind_of;

/// The first event, in milliseconds since the Unix epoch.
const BEGIN: TimeMs = TimeMs(1_700_000_000_000);

/// Events by their kind, and states by what they have.
pub(crate) struct RecordedRequests {
    pub(crate) events: BTreeMap<String, String>,
    pub(crate) states: Vec<(&'static str, String)>,
}

struct Recorder {
    machine: Journaled,
    at: TimeMs,
    /// The cores of the requests that run.
    running: BTreeMap<RequestId, u32>,
    events: BTreeMap<String, String>,
}

/// Records two explorations at a server with two cores.
pub(crate) fn record() -> RecordedRequests {
    let config = Config {
        order: Order::Fair { fairness: Fairness::VirtualTime, grace: SpanMs(2_000) },
        cores: 2,
        optional_per_core: Some(4),
        mandatory_per_user: Some(8),
        bytes_per_user: Some(1 << 20),
        bytes: Some(1 << 24),
        draws: Draws::new(77, "ties"),
    };
    let new = Journaled::new(Requests::new(config));
    let mut recorder =
        Recorder { machine: new, at: BEGIN, running: BTreeMap::new(), events: BTreeMap::new() };
    let mut states = vec![("new", recorder.state())];
    let (alice, bob) = (("alice", 1), ("bob", 2));
    // Optional requests fill the cores and the queue.
    for number in 0..4 {
        recorder.submit(alice, number, Kind::Optional, 0);
        recorder.submit(bob, number, Kind::Optional, 0);
    }
    recorder.pass(5_000);
    recorder.end_first(Exit::Completed);
    recorder.pass(4_000);
    recorder.end_first(Exit::Failed);
    // Requests that leave: one that waits, one that never came, and one that is given to another server.
    recorder.take_back(alice, 3, 0, false);
    recorder.take_back(alice, 70, 2, false);
    recorder.take_back(bob, 3, 0, true);
    recorder.submit(bob, 3, Kind::Optional, 1);
    // A mandatory request waits for an optional one that is about to end, and another one has an optional one ended.
    recorder.pass(4_000);
    recorder.submit(alice, 40, Kind::Mandatory, 0);
    states.push(("grace", recorder.state()));
    recorder.submit(bob, 41, Kind::Mandatory, 0);
    recorder.pass(1_000);
    recorder.handle(Event::Due);
    states.push(("ending", recorder.state()));
    recorder.end_first(Exit::Killed);
    recorder.submit(alice, 42, Kind::Mandatory, 1);
    states.push(("waiting", recorder.state()));
    // One that runs is cancelled, and another exploration ends as a whole.
    recorder.take_back(alice, 40, 0, false);
    let (exploration, user) = (key(bob, 0).exploration, user(bob));
    recorder.handle(Event::CancelAll { reply: Token(9), exploration, user });
    states.push(("cancelled", recorder.state()));
    recorder.handle(Event::Due);
    RecordedRequests { events: recorder.events, states }
}

impl Recorder {
    fn handle(&mut self, event: Event) {
        let (now, timed) = (Time(self.at.0 / 1_000), TimedEvent { at: self.at, event });
        let kind = kind_of(&serde_json::to_value(&timed.event).expect("events are plain data"));
        let text = serde_json::to_string(&timed).expect("events are plain data");
        // The longest one has the most fields.
        let known = self.events.entry(kind).or_default();
        if text.len() > known.len() {
            *known = text;
        }
        let mut commands = Vec::new();
        self.machine.on(now, timed, &mut commands);
        for command in commands {
            if let Command::Run { request, core } = command {
                self.running.insert(request, core);
            }
        }
    }

    fn pass(&mut self, ms: i64) {
        self.at += SpanMs(ms);
    }

    fn submit(&mut self, owner: (&str, u32), number: u32, kind: Kind, attempt: u32) {
        let payload = Payload::of(&json!({ "service": "pivoting", "arguments": [number] }));
        let deadline = Some(BEGIN + SpanMs(60_000));
        let (key, user, weight) = (key(owner, number), user(owner), owner.1);
        let submit = Submit { key, user, weight, kind, attempt, deadline, payload };
        self.handle(Event::Submit { reply: Token(7), submit: Box::new(submit) });
    }

    fn take_back(&mut self, owner: (&str, u32), number: u32, attempt: u32, moves: bool) {
        let (reply, key, user) = (Token(8), key(owner, number), user(owner));
        self.handle(match moves {
            true => Event::Withdraw { reply, key, attempt, user },
            false => Event::Cancel { reply, key, attempt, user },
        });
    }

    /// The process on the first busy core ends.
    fn end_first(&mut self, exit: Exit) {
        let Some((request, _)) = self.running.iter().min_by_key(|(_, core)| **core) else { return };
        let request = *request;
        self.running.remove(&request);
        self.handle(Event::Ended { request, exit, at: Some(self.at) });
    }

    fn state(&mut self) -> String {
        let now = Time(self.at.0 / 1_000);
        serde_json::to_string(&self.machine.dump(now)).expect("states are plain data")
    }
}

fn user(owner: (&str, u32)) -> User {
    owner.0.parse().expect("letters are a user's name")
}

fn key(owner: (&str, u32), number: u32) -> RequestKey {
    RequestKey { exploration: Key([owner.1 as u8; 16]), number }
}
