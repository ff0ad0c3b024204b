//! What an agent's commands mean outside.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pliant_control::agent::{Agent, Asker, Command, Found};
use pliant_control::job::JobRecord;
use pliant_control::names::Name;
use pliant_model::Time;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use crate::daemon::{Driver, Kept};
use crate::journal::{JobRow, JournalError, Notice};
use crate::uplink::Upward;
use crate::wire::{FromParent, proto};

/// The way down to a child.
pub(super) type DownSender = mpsc::Sender<Result<proto::Down, Status>>;

/// The lines to the children that are there.
#[derive(Clone, Default, Debug)]
pub(super) struct Lines(Arc<Mutex<BTreeMap<Name, (u64, DownSender)>>>);

impl Lines {
    /// Takes a line in; an earlier one of the same child is forgotten. Returns its number.
    pub(super) fn open(&self, child: Name, sender: DownSender) -> u64 {
        let mut lines = locked(&self.0);
        let number = lines.get(&child).map_or(1, |(number, _)| number + 1);
        lines.insert(child, (number, sender));
        number
    }

    /// Forgets a line, if it is still the child's.
    pub(super) fn close(&self, child: &Name, number: u64) -> bool {
        let mut lines = locked(&self.0);
        let own = lines.get(child).is_some_and(|(present, _)| *present == number);
        if own {
            lines.remove(child);
        }
        own
    }

    fn send(&self, child: &Name, message: &FromParent) {
        let sender = locked(&self.0).get(child).map(|(_, sender)| sender.clone());
        let Some(sender) = sender else { return };
        // A child that takes nothing in is as good as silent; questions to it run out of patience, and what it
        // is not told to be kept it tells again.
        if sender.try_send(Ok(message.into())).is_err() {
            tracing::debug!(%child, "a child takes no more messages");
        }
    }
}

/// Clients that wait for the answer to a discovery.
#[derive(Clone, Default, Debug)]
pub(super) struct Askers(Arc<Mutex<HashMap<u64, oneshot::Sender<Found>>>>);

impl Askers {
    /// A client begins to wait.
    pub(super) fn wait(&self, token: u64) -> oneshot::Receiver<Found> {
        let (sender, receiver) = oneshot::channel();
        locked(&self.0).insert(token, sender);
        receiver
    }

    /// A client waits no more.
    pub(super) fn forget(&self, token: u64) {
        locked(&self.0).remove(&token);
    }

    fn answer(&self, token: u64, found: Found) {
        if let Some(sender) = locked(&self.0).remove(&token) {
            // Whoever asked may have gone.
            let _ = sender.send(found);
        }
    }
}

/// Carries out what an agent wants done.
pub(super) struct AgentDriver {
    pub(super) lines: Lines,
    pub(super) askers: Askers,
    pub(super) upward: Option<mpsc::UnboundedSender<Upward>>,
    pub(super) healthy: Arc<Mutex<Option<String>>>,
}

impl Driver<Agent> for AgentDriver {
    fn keeps(&mut self, command: &Command) -> Kept {
        match command {
            Command::Tell(record) => Kept::Notice(json(record)),
            Command::Archive(record) => Kept::Ended(Box::new(row(record))),
            _ => Kept::Nothing,
        }
    }

    fn is_early(&self, command: &Command) -> bool {
        matches!(command, Command::Ask { .. } | Command::Answer { .. })
    }

    fn carry_out(&mut self, _machine: &Agent, _now: Time, command: Command, notice: Option<u64>) {
        match command {
            Command::Ask { child, discovery, ask } => {
                self.lines.send(&child, &FromParent::Question { discovery, ask });
            }
            Command::Answer { to: Asker::Client(token), found } => self.askers.answer(token.0, found),
            Command::Answer { to: Asker::Parent(discovery), found } => {
                self.up(Upward::Answer { discovery, found });
            }
            Command::Acknowledge { child, sequence } => {
                self.lines.send(&child, &FromParent::Acknowledge { sequence });
            }
            Command::Tell(record) => {
                if let Some(seq) = notice {
                    self.up(Upward::News(Notice { seq, body: json(&record) }));
                }
            }
            Command::Announce => self.up(Upward::Announce),
            Command::Archive(record) => observe_accuracy(&record),
        }
    }

    fn committed(&mut self, _machine: &Agent, outcome: Result<(), &JournalError>) {
        *locked(&self.healthy) = outcome.err().map(ToString::to_string);
    }
}

impl AgentDriver {
    fn up(&self, message: Upward) {
        if let Some(upward) = &self.upward {
            // The line ends only with the daemon.
            let _ = upward.send(message);
        }
    }
}

/// The metrics of estimates that have been checked by what happened.
pub(crate) fn observe_accuracy(record: &JobRecord) {
    use crate::telemetry::names::{ESTIMATE_COMPLETION_ERROR_SECONDS, ESTIMATE_START_ERROR_SECONDS};
    if let Some(error) = record.start_error() {
        metrics::histogram!(ESTIMATE_START_ERROR_SECONDS).record(error.0 as f64);
    }
    if let Some(error) = record.completion_error() {
        metrics::histogram!(ESTIMATE_COMPLETION_ERROR_SECONDS).record(error.0 as f64);
    }
}

/// A record as the journal keeps it.
pub(crate) fn json(record: &JobRecord) -> String {
    serde_json::to_string(record).expect("records are plain data with text keys")
}

/// The row of a job that has ended.
pub(crate) fn row(record: &JobRecord) -> JobRow {
    JobRow {
        server: record.handle.server.to_string(),
        number: record.handle.number,
        key: Some(record.key.0),
        owner: record.owner.to_string(),
        name: record.name.clone(),
        state: record.state.word().to_owned(),
        submitted: record.submitted.0,
        started: record.started.map(|at| at.0),
        ended: record.ended.unwrap_or(record.submitted).0,
        expected_start: record.started.map(|_| record.expected.start.0),
        expected_completion: record.started.map(|_| record.expected.completion().0),
        record: json(record),
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The maps behind these are whole after each operation.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
