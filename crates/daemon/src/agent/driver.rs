//! What an agent's commands mean outside.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pliant_control::agent::{Agent, Asker, Command, Event, Found, Report};
use pliant_journal::JournalError;
use pliant_model::Time;
use pliant_telemetry::RequestId;
use pliant_wire::FromParent;
use tokio::sync::oneshot;

use super::lines::Lines;
use super::runtimes;
use super::waiting::Waiting;
use crate::host::{Driver, Kept, json, observe_accuracy, row};
use crate::uplink::Upward;

/// Who waits for the answer to a discovery, and as part of which request.
#[derive(Clone, Default, Debug)]
pub(super) struct Askers(Arc<Mutex<Open>>);

#[derive(Default, Debug)]
struct Open {
    clients: HashMap<u64, (oneshot::Sender<Found>, RequestId)>,
    /// The parent's questions that the machine is still to be told.
    parents: HashMap<u64, RequestId>,
}

impl Askers {
    /// A client begins to wait.
    pub(super) fn wait(&self, token: u64, request: RequestId) -> oneshot::Receiver<Found> {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().clients.insert(token, (sender, request));
        receiver
    }

    /// A client waits no more.
    pub(super) fn forget(&self, token: u64) {
        self.0.lock().clients.remove(&token);
    }

    /// The parent's question is part of that request.
    pub(super) fn note(&self, discovery: u64, request: RequestId) {
        self.0.lock().parents.insert(discovery, request);
    }

    /// The request that a question is part of, when the machine is told.
    fn request(&self, by: &Asker) -> Option<RequestId> {
        let mut open = self.0.lock();
        match by {
            Asker::Client(token) => open.clients.get(&token.0).map(|(_, request)| *request),
            Asker::Parent(discovery) => open.parents.remove(discovery),
            Asker::Round => None,
        }
    }

    fn answer(&self, token: u64, found: Found) {
        if let Some((sender, _)) = self.0.lock().clients.remove(&token) {
            // Whoever asked may have gone.
            let _ = sender.send(found);
        }
    }
}

/// Carries out what an agent wants done.
pub(super) struct AgentDriver {
    pub(super) lines: Lines,
    pub(super) askers: Askers,
    /// Operators who wait for what they asked of the agent itself.
    pub(super) reports: Waiting<Report>,
    pub(super) upward: Option<Upward>,
    pub(super) healthy: Arc<Mutex<Option<String>>>,
    /// The request that the machine is told of at the moment.
    pub(super) request: Option<RequestId>,
}

impl Driver<Agent> for AgentDriver {
    fn telling(&mut self, event: &Event) {
        self.request = match event {
            Event::Asked { by, .. } => self.askers.request(by),
            _ => None,
        };
    }

    fn keeps(&mut self, command: &Command) -> Kept {
        match command {
            Command::Tell(record) => Kept::Notice(json(record)),
            Command::Archive(record) => Kept::Ended(Box::new(row(record))),
            _ => Kept::Nothing,
        }
    }

    fn carry_out(&mut self, machine: &Agent, _now: Time, command: Command, notice: Option<u64>) {
        match command {
            Command::Ask { child, discovery, ask } => {
                let request = self.request;
                self.lines.send(&child, &FromParent::Question { discovery, ask, request, pieces: true });
            }
            Command::Answer { to: Asker::Client(token), found } => self.askers.answer(token.0, found),
            Command::Answer { to: Asker::Parent(discovery), found } => {
                if let Some(upward) = &self.upward {
                    upward.answer(discovery, found);
                }
            }
            // The machine answers itself.
            Command::Answer { to: Asker::Round, .. } => {}
            Command::Report { to, report } => self.reports.answer(to.0, *report),
            Command::Configured { to } => self.reports.answer(to.0, Report::default()),
            Command::Acknowledge { child, sequence } => {
                self.lines.send(&child, &FromParent::Acknowledge { sequence, numbers: true });
            }
            Command::Tell(_) => {
                if let (Some(upward), Some(sequence)) = (&self.upward, notice) {
                    upward.news(sequence);
                }
            }
            Command::Announce => {
                if let Some(upward) = &self.upward {
                    upward.announce();
                }
            }
            Command::Freed => {
                if let Some(upward) = &self.upward {
                    upward.freed();
                }
            }
            Command::Archive(record) => {
                observe_accuracy(&record);
                runtimes::observe(machine);
            }
        }
    }

    fn committed(&mut self, _machine: &Agent, outcome: Result<(), &JournalError>) {
        *self.healthy.lock() = outcome.err().map(ToString::to_string);
    }
}
