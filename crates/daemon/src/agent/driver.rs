//! What an agent's commands mean outside.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pliant_control::agent::{Agent, Command, DiscoveryResult, Event, ReallocationReport, Requester};
use pliant_model::Time;
use pliant_telemetry::RequestId;
use pliant_wire::FromParent;

use super::child_connections::ChildConnections;
use super::{reports, runtimes};
use crate::audit;
use crate::host::{Driver, DurableRecord, Replies, json, observe_accuracy, row};
use crate::uplink::Upward;

/// The requests that questions of the parent are part of, until the machine has the questions.
#[derive(Clone, Default, Debug)]
pub(super) struct ParentRequests(Arc<Mutex<HashMap<u64, RequestId>>>);

impl ParentRequests {
    /// The parent's question `discovery` is part of that request.
    pub(super) fn note(&self, discovery: u64, request: RequestId) {
        self.0.lock().insert(discovery, request);
    }

    fn take(&self, discovery: u64) -> Option<RequestId> {
        self.0.lock().remove(&discovery)
    }
}

/// Carries out what an agent wants done.
pub(super) struct AgentDriver {
    pub(super) connections: ChildConnections,
    /// Clients that wait for the answer to a discovery, each with its request.
    pub(super) discoveries: Replies<DiscoveryResult, RequestId>,
    pub(super) parent_requests: ParentRequests,
    /// Operators who wait for what they asked of the agent itself.
    pub(super) reports: Replies<ReallocationReport>,
    /// Operators who wait for a server to be forgotten.
    pub(super) forgotten: Replies<Result<u32, String>>,
    pub(super) upward: Option<Upward>,
    /// The request that the machine is notified of at the moment.
    pub(super) request: Option<RequestId>,
}

impl Driver<Agent> for AgentDriver {
    fn before_event(&mut self, event: &Event) {
        self.request = match event {
            Event::Queried { requester: Requester::Client(token), .. } => self.discoveries.context(*token),
            Event::Queried { requester: Requester::Parent(discovery), .. } => {
                self.parent_requests.take(*discovery)
            }
            _ => None,
        };
    }

    fn keeps(&mut self, command: &Command) -> DurableRecord {
        match command {
            Command::ReportStatus(record) => DurableRecord::StatusUpdate(json(record)),
            Command::Archive(record) => DurableRecord::Ended(Box::new(row(record))),
            Command::Audit(record) => DurableRecord::Audit(audit::row(record)),
            _ => DurableRecord::Nothing,
        }
    }

    fn carry_out(&mut self, machine: &Agent, _now: Time, command: Command, notice: Option<u64>) {
        match command {
            Command::Query { child, discovery, query } => {
                let request = self.request;
                self.connections.send(&child, &FromParent::Question { discovery, ask: query, request });
            }
            Command::Answer { to: Requester::Client(token), found } => self.discoveries.answer(token, found),
            Command::Answer { to: Requester::Parent(discovery), found } => {
                if let Some(upward) = &self.upward {
                    upward.answer(discovery, found);
                }
            }
            // The machine answers itself.
            Command::Answer { to: Requester::ReallocationCycle, .. } => {}
            Command::ReportReallocation { to, report } => self.reports.answer(to, *report),
            Command::Configured { to } => self.reports.answer(to, ReallocationReport::default()),
            Command::Forgotten { to, ended } => self.forgotten.answer(to, ended),
            Command::Acknowledge { child, sequence } => {
                self.connections.send(&child, &FromParent::Acknowledge { sequence });
            }
            Command::ReportStatus(_) => {
                if let (Some(upward), Some(sequence)) = (&self.upward, notice) {
                    upward.status_update(sequence);
                }
            }
            Command::RefuseStatus { child, job, why } => reports::note_contradiction(&child, &job, why),
            Command::Announce => {
                if let Some(upward) = &self.upward {
                    upward.announce();
                    upward.summary_changed();
                }
            }
            Command::Summarise => {
                if let Some(upward) = &self.upward {
                    upward.summary_changed();
                }
            }
            Command::Freed => {
                if let Some(upward) = &self.upward {
                    upward.freed();
                }
            }
            // It is in the journal.
            Command::Audit(_) => {}
            Command::Archive(record) => {
                observe_accuracy(&record);
                runtimes::observe(machine);
            }
        }
    }
}
