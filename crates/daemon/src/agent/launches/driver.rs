//! What the commands of a coordinator mean outside: answers, calls of servers, and records that are kept.

use pliant_control::agent::{self, Agent};
use pliant_control::audit::AuditRecord;
use pliant_control::coallocation::{Answer, Command, Coordinator, LaunchRecord, SubjobDecision};
use pliant_model::Time;
use pliant_telemetry::names;
use pliant_transport::Clock;

use super::archive::row;
use super::calls::Calls;
use crate::host::{Driver, DurableRecord, Mailbox, Replies};

/// What a server that reports how its subjob stands is answered: the decision, and whether it is known that the subjob is over.
pub(super) type Judged = (SubjobDecision, bool);

/// Carries out what a coordinator wants done.
pub(super) struct LaunchesDriver {
    pub(super) answers: Replies<Answer>,
    pub(super) verdicts: Replies<Judged>,
    pub(super) calls: Calls,
    /// The agent, which has the audit trail.
    pub(super) agent: Mailbox<Agent>,
    pub(super) clock: Clock,
}

impl Driver<Coordinator> for LaunchesDriver {
    fn keeps(&mut self, command: &Command) -> DurableRecord {
        match command {
            Command::Archive(record) => DurableRecord::Ended(Box::new(row(record, self.clock.now()))),
            _ => DurableRecord::Nothing,
        }
    }

    fn carry_out(&mut self, _machine: &Coordinator, _now: Time, command: Command, _notice: Option<u64>) {
        match command {
            Command::Answer { to, answer } => self.answers.answer(to, answer),
            Command::SubjobDecision { to, decision, end_acknowledged } => {
                self.verdicts.answer(to, (decision, end_acknowledged))
            }
            Command::ListMachines { launch, group } => self.calls.list_machines(launch, group),
            Command::Call { to, id, call } => self.calls.call(to, id, call),
            Command::Archive(record) => observe(&record),
            Command::Audit(record) => {
                let AuditRecord { by, act, why, .. } = *record;
                // An agent that has stopped has no trail to add to.
                let _ = self.agent.send(agent::Event::Audited { by, act, why });
            }
        }
    }
}

/// A launch is over.
fn observe(record: &LaunchRecord) {
    let LaunchRecord { id, owner, end, .. } = record;
    let Some(end) = end else { return };
    metrics::counter!(names::LAUNCHES_ENDED, "outcome" => end.word()).increment(1);
    tracing::info!(launch = %id, %owner, %end, "a launch is over");
}
