//! Prints a record of what machines write into their journals, as the lines of `crates/control/tests/fixtures/journal-v1.txt`: an event of
//! each kind and a state of each machine, from fault schedules; of the requests of a server, some states, and of the client of an
//! exploration, its plan. `cargo run -q -p pliant-sim --example journals 40`

mod exploration;
mod requests;

use std::collections::BTreeMap;

use pliant_control::access::Caller;
use pliant_control::agent;
use pliant_control::audit::{Actor, AuditAct};
use pliant_control::coallocation::{LaunchId, SubjobId};
use pliant_control::handoff::HandoffId;
use pliant_control::names::{Handle, Key, Name, Token, User};
use pliant_control::server::{Event, LimitChange, LimitKey, SubjobEvent, WaitingLimits};
use pliant_control::signed::{Digest, HandoffSignature, Signature};
use pliant_model::{Owner, Procs, Time};
use pliant_policy::batch::order::{PrioritySettings, UserPriority};
use pliant_sim::faults::{FederationKind, RecordedJournal, journals};
use serde_json::{Value, json};

/// Where the schedules of each kind begin: with all that schedules of later seeds have.
const FROM: u64 = 250_000_000;

#[allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "a command for developers")]
fn main() {
    let seeds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let mut events: BTreeMap<(&str, String), String> = BTreeMap::new();
    let mut states: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for seed in FROM..FROM + seeds {
        for kind in [FederationKind::Embedded, FederationKind::Mixed, FederationKind::Launching] {
            for RecordedJournal { machine, events: new, state } in journals(seed, kind) {
                for event in new {
                    let value: Value = serde_json::from_str(&event).expect("events are written as JSON");
                    // No agent loses its journal there.
                    if let Some(update) = value.get("status-update") {
                        let again = json!({ "status-again": { "child": update["child"], "record": update["record"] } });
                        events.entry((machine, kind_of(&again))).or_insert_with(|| again.to_string());
                    }
                    let known = events.entry((machine, kind_of(&value))).or_insert_with(|| event.clone());
                    if event.len() < known.len() {
                        *known = event;
                    }
                }
                let fields = filled(&serde_json::from_str(&state).expect("states are written as JSON"));
                let known = states.entry(machine).or_insert_with(|| (fields, state.clone()));
                if (fields, known.1.len()) > (known.0, state.len()) {
                    *known = (fields, state);
                }
            }
        }
    }
    for (machine, event) in further() {
        let value: Value = serde_json::from_str(&event).expect("events are written as JSON");
        events.entry((machine, kind_of(&value))).or_insert(event);
    }
    for ((machine, kind), event) in events {
        println!("{machine} event {kind} {event}");
    }
    for (machine, (_, state)) in states {
        println!("{machine} state - {state}");
    }
    for event in exploration::events() {
        let text = serde_json::to_string(&event).expect("events are plain data");
        let value = serde_json::from_str(&text).expect("events are written as JSON");
        println!("exploration event {} {text}", kind_of(&value));
    }
    println!(
        "exploration plan - {}",
        serde_json::to_string(&exploration::plan()).expect("plans are plain data")
    );
    let requests = requests::record();
    for (kind, event) in requests.events {
        println!("requests event {kind} {event}");
    }
    for (what, state) in requests.states {
        println!("requests state {what} {state}");
    }
}

/// Events that no schedule has.
fn further() -> Vec<(&'static str, String)> {
    let (reply, number, by): (Token, u32, User) = (Token(7), 3, "root".parse().expect("a name"));
    let job: Handle = "lyon.3".parse().expect("a job ID");
    let caller = Caller { user: "alice".parse().expect("a name"), operator: false };
    let launch = LaunchId { agent: "master".parse().expect("a name"), key: Key([1; 16]) };
    let signature = Signature { bytes: vec![1, 2, 3], certificate: vec![4, 5, 6] };
    let signed = HandoffSignature { claim: Digest([9; 32]), at: Time(1_000_000), signature };
    let ended = SubjobEvent::EndedByOperator { reply, id: SubjobId { launch, number: 0 }, by: by.clone() };
    let changes = vec![
        LimitChange { key: LimitKey::RunningJobs, value: Some(2) },
        LimitChange { key: LimitKey::WaitingBytes, value: None },
    ];
    let user: User = "alice".parse().expect("a name");
    let server_name: Name = "lyon".parse().expect("a name");
    let server = [
        Event::Withdraw { reply, number, caller },
        Event::Configured { procs: Procs(8), policy: "easy/f1".to_owned(), host: None },
        Event::PrioritySettings(Box::new(PrioritySettings {
            users: vec![UserPriority { owner: Owner(7), shares: 2, group: Some(0), bonus: 500 }],
            groups: vec![3],
            ..PrioritySettings::default()
        })),
        Event::WaitingLimits(WaitingLimits { jobs_per_user: 10, bytes_per_user: 1 << 20, bytes: 1 << 24 }),
        Event::Limit { reply, user: by.clone(), changes, by: by.clone(), why: "exams".to_owned() },
        Event::Prioritise { reply, number, priority: -5, by: by.clone(), why: "deadline".to_owned() },
        Event::Forget { reply, server: server_name.clone(), by: by.clone(), why: "broken".to_owned() },
        Event::Denied { by: by.clone(), act: "drain".to_owned() },
        Event::Numbered { highest: 41 },
        Event::RestoredLater(Vec::new()),
        Event::Restored { journal: 77, highest: 41, known: Vec::new() },
        Event::LongestInstance { number, ms: 1_500 },
        Event::HandoffSigned { id: HandoffId { job, attempt: 2 }, signed: Box::new(signed) },
        Event::Subjob(ended),
    ];
    let refused = agent::Event::StatusRefused { child: "lyon".parse().expect("a name"), sequence: 12 };
    let text = |event: &Event| ("server", serde_json::to_string(event).expect("events are plain data"));
    let why = "see the jobs of other users".to_owned();
    let audited = agent::Event::Audited { by: Actor::User(user), act: AuditAct::Deny, why };
    let forget = agent::Event::Forget { reply, server: server_name, by, why: "broken".to_owned() };
    let of_agent =
        [refused, audited, forget].map(|event| serde_json::to_string(&event).expect("events are plain data"));
    server.iter().map(text).chain(of_agent.map(|event| ("agent", event))).collect()
}

/// The names of the variants of an event, from the outermost on.
fn kind_of(value: &Value) -> String {
    match value {
        Value::String(name) => name.clone(),
        Value::Object(fields) if fields.len() == 1 => {
            fields.iter().fold(String::new(), |_, (name, inner)| {
                let is_nested = ["batch", "subjob", "external", "commitment"].contains(&name.as_str());
                if is_nested { format!("{name}.{}", kind_of(inner)) } else { name.clone() }
            })
        }
        _ => "?".to_owned(),
    }
}

/// How many fields of a state hold something.
fn filled(state: &Value) -> usize {
    let is_filled = |value: &&Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    state.as_object().map_or(0, |fields| fields.values().filter(is_filled).count())
}
