//! How long servers were occupied with requests, by their journals: a replay says when each
//! request was there, when it was started, when it was gone, and when its client's next one was there.

use std::collections::BTreeMap;
use std::path::Path;

use pliant_control::names::User;
use pliant_control::optional::server::{Command, Config, Event, Exit, Journaled, Requests, TimedEvent};
use pliant_control::replay::Machine;
use pliant_journal::open_sqlite;
use pliant_model::rng::Draws;
use pliant_model::{SpanMs, Time, TimeMs};
use pliant_policy::optional::{Kind, Order};
use pliant_sim::optional::Overheads;
use serde_json::Value;

/// When mandatory requests of each user came to their servers.
type Came = BTreeMap<User, Vec<TimeMs>>;

/// What the servers with these folders, which have been killed, have added to their requests, all of which were pauses; in
/// the time of a scenario that is so many times as long. `arrivals` are those of the users, since the Unix epoch.
pub(super) fn overheads<'a>(
    folders: impl Iterator<Item = &'a Path>,
    (order, per_core): (Order, Option<u32>),
    arrivals: &BTreeMap<User, TimeMs>,
    slower: i64,
) -> Overheads {
    let mut overheads = Overheads::default();
    let mut came = Came::new();
    for folder in folders {
        of_server(&folder.join("state/optional"), (order, per_core), &mut overheads, &mut came);
    }
    for (user, mut came) in came {
        came.sort();
        overheads.submission.push(SpanMs((came[came.len() / 2] - arrivals[&user]).0.max(0)));
    }
    let Overheads { submission, execution, next_request } = &mut overheads;
    for sample in submission.iter_mut().chain(execution).chain(next_request) {
        *sample = SpanMs(sample.0 * slower);
    }
    overheads
}

fn of_server(
    journal: &Path,
    (order, optional_per_core): (Order, Option<u32>),
    overheads: &mut Overheads,
    came: &mut Came,
) {
    let mut journal = open_sqlite(journal).unwrap();
    let draws = Draws::new(journal.id(), "ties");
    let config = Config {
        order,
        cores: 1,
        optional_per_core,
        mandatory_per_user: Some(1_000),
        bytes_per_user: None,
        bytes: None,
        draws,
    };
    let mut machine = Journaled::new(Requests::new(config));
    let loaded = journal.load().unwrap();
    assert_eq!(loaded.snapshot, None, "the journal is to be whole");
    let mut started: BTreeMap<_, (TimeMs, SpanMs)> = BTreeMap::new();
    // When a request of each exploration was gone, until its next one comes.
    let mut gone = BTreeMap::new();
    for entry in journal.entries(0, u32::MAX).unwrap() {
        let timed: TimedEvent = serde_json::from_str(&entry.event).unwrap();
        let at = machine.at().max(timed.at);
        match &timed.event {
            Event::Ended { request, exit: Exit::Completed, .. } => {
                let (since, asked) = started.remove(request).expect("what ends was started");
                overheads.execution.push(SpanMs((at - since - asked).0.max(0)));
                let key = machine.requests().key(*request).expect("what ends is there");
                gone.insert(key.exploration, at);
            }
            Event::Submit { submit, .. } if submit.kind == Kind::Mandatory => {
                came.entry(submit.user.clone()).or_default().push(at);
            }
            Event::Submit { submit, .. } => {
                if let Some(gone) = gone.remove(&submit.key.exploration) {
                    overheads.next_request.push(at - gone);
                }
            }
            _ => {}
        }
        let mut commands = Vec::new();
        machine.on(Time(entry.at), timed, &mut commands);
        for command in commands {
            if let Command::Run { request, .. } = command {
                let process = machine.requests().processes().find(|process| process.request == request);
                let described: Value = process.expect("it runs").payload.read().unwrap();
                let asked = described["pause"].as_i64().expect("requests are pauses");
                started.insert(request, (at, SpanMs(asked)));
            }
        }
    }
}

/// The middle one of some samples, and the one that nine of ten do not exceed.
pub(super) fn median_and_most(samples: &[SpanMs]) -> (SpanMs, SpanMs) {
    let mut sorted = samples.to_vec();
    sorted.sort();
    let at = |tenths: usize| sorted.get(sorted.len() * tenths / 10).copied().unwrap_or_default();
    (at(5), at(9))
}
