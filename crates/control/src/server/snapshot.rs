//! The state of a server as data.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pliant_model::Time;
use pliant_policy::runtimes::CategoryDump;
use pliant_policy::runtimes::history::Recent;
use serde::{Deserialize, Serialize};

use super::source::OutgoingJob;
use super::subjobs::Subjobs;
use super::target::PreparedJob;
use super::waiting::{Waiting, WaitingLimits};
use super::{
    Answer, Ban, Command, Drain, Event, Server, ServerConfig, ServerJob, UserLimits, learning, prospects,
};
use crate::batch::embedded::{Embedded, RestoreError};
use crate::batch::external::{self, External};
use crate::batch::{BatchSystem, Dump};
use crate::handoff::HandoffDecision;
use crate::names::{Handle, Key, User};
use crate::replay::Machine;

/// The whole state of a server.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerState {
    next: u32,
    numbered: bool,
    jobs: Vec<Arc<ServerJob>>,
    ended: VecDeque<(Time, u32)>,
    keys: Vec<(Key, u32)>,
    ended_keys: VecDeque<(Time, Key)>,
    batch: Dump,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outgoing: Vec<(u32, OutgoingJob)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    siblings: Vec<(u32, Vec<OutgoingJob>)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    prepared: Vec<(Handle, PreparedJob)>,
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    taken_over: VecDeque<(Time, Handle, u32)>,
    #[serde(default, skip_serializing_if = "Subjobs::is_empty")]
    subjobs: Subjobs,
    history: Vec<Recent>,
    runtimes: Vec<CategoryDump<String>>,
    failures: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drained: Option<Drain>,
    /// None in snapshots of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waiting_limits: Option<WaitingLimits>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    banned: BTreeMap<User, Ban>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    limits: BTreeMap<User, UserLimits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    estimates_noted: Option<Time>,
}

impl Server {
    /// Restores a server from its state. An embedded batch system has the size and the policy of the state, whatever
    /// `config` says: [`Event::Configured`] changes them. So are the bounds of what waits, which [`Event::WaitingLimits`] changes.
    pub fn from_state(config: ServerConfig, state: ServerState) -> Result<Server, RestoreError> {
        let ServerState {
            next,
            numbered,
            jobs,
            ended,
            keys,
            ended_keys,
            batch,
            outgoing,
            siblings,
            prepared,
            taken_over,
            subjobs,
            history,
            runtimes,
            failures,
            drained,
            waiting_limits,
            banned,
            journal,
            limits,
            estimates_noted,
        } = state;
        let batch: Box<dyn BatchSystem> = match (config.policy.as_str(), batch) {
            (policy, Dump::External(dump)) if dump.is_of(policy) => Box::new(External::restore(*dump)),
            (external::SLURM | external::OAR, Dump::Embedded(_)) | (_, Dump::External(_)) => {
                return Err(RestoreError::Kind);
            }
            (_, Dump::Embedded(dump)) => Box::new(Embedded::restore(*dump)?),
        };
        let config = ServerConfig { waiting: waiting_limits.unwrap_or(config.waiting), ..config };
        let entries = || jobs.iter().map(Arc::as_ref);
        let waiting =
            Waiting::of(&config.name, entries(), prepared.iter().map(|(_, prepared)| &prepared.handoff));
        let instants = Server::instants_of(&config.name, entries()).collect();
        let is_nice = |entry: &&ServerJob| entry.record.work.nice > 0;
        let nice = entries().filter(is_nice).map(|entry| entry.number).collect();
        let is_from_elsewhere = |entry: &&ServerJob| {
            entry.record.handle != Handle { server: config.name.clone(), number: entry.number }
        };
        let from_elsewhere = entries().filter(is_from_elsewhere);
        let numbers = from_elsewhere.map(|entry| (entry.record.handle.clone(), entry.number)).collect();
        let jobs = jobs.into_iter().collect();
        let taken_over_order = taken_over.iter().map(|(at, job, _)| (*at, job.clone())).collect();
        let taken_over = taken_over.into_iter().map(|(at, job, attempt)| (job, (attempt, at))).collect();
        let keys = keys.into_iter().collect();
        Ok(Server {
            config,
            batch,
            jobs,
            ended,
            keys,
            ended_keys,
            waiting,
            numbers,
            outgoing: outgoing.into_iter().collect(),
            siblings: siblings.into_iter().collect(),
            prepared: prepared.into_iter().collect(),
            taken_over,
            taken_over_order,
            subjobs,
            history: learning::restore(&history),
            runtimes: prospects::restore(&runtimes),
            failures,
            drained,
            banned,
            limits,
            instants,
            nice,
            next,
            numbered,
            journal,
            estimates_noted,
        })
    }
}

impl Machine for Server {
    type Event = Event;
    type Command = Command;
    type State = ServerState;

    fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        Server::on(self, now, event, commands);
    }

    fn next_due(&self) -> Option<Time> {
        Server::next_due(self)
    }

    fn due() -> Event {
        Event::Due
    }

    /// True for refusals and repetitions: estimates change nothing, and a refused submission's key is not kept.
    fn is_without_effect(commands: &[Command]) -> bool {
        match commands {
            [Command::Reply { answer, .. }] => match answer {
                Answer::Accepted(_)
                | Answer::Refused(_)
                | Answer::Known(_)
                | Answer::Elsewhere(_)
                | Answer::Job(_)
                | Answer::Unsuited(_)
                | Answer::NotPrepared(_)
                // What a cancellation or withdrawal changes first has a record of the audit trail, so the answer is not alone.
                | Answer::Cancelling(_)
                | Answer::Decision(HandoffDecision::Abort | HandoffDecision::Commit { .. })
                | Answer::NoSuchJob => true,
                // These are recorded: each step of a handoff and each act of an operator.
                Answer::MoveOutcome(_)
                | Answer::Handoff(_)
                | Answer::Subjob(_)
                | Answer::Drained(_)
                | Answer::Banned(_)
                | Answer::Limited(_)
                | Answer::Forgotten(_)
                | Answer::Decision(HandoffDecision::Undecided) => false,
            },
            _ => false,
        }
    }

    fn dump(&mut self, now: Time) -> ServerState {
        let mut keys: Vec<(Key, u32)> = self.keys.iter().map(|(key, number)| (*key, *number)).collect();
        keys.sort_unstable();
        ServerState {
            next: self.next,
            numbered: self.numbered,
            jobs: self.jobs.shared(),
            ended: self.ended.clone(),
            keys,
            ended_keys: self.ended_keys.clone(),
            batch: self.batch.dump(now),
            outgoing: self.outgoing.iter().map(|(number, outgoing)| (*number, outgoing.clone())).collect(),
            siblings: self.siblings.iter().map(|(number, siblings)| (*number, siblings.clone())).collect(),
            prepared: self.prepared.iter().map(|(job, prepared)| (job.clone(), prepared.clone())).collect(),
            taken_over: self.taken_over_in_order().collect(),
            subjobs: self.subjobs.clone(),
            history: self.history.dump(),
            runtimes: self.runtimes.dump(),
            failures: self.failures,
            drained: self.drained.clone(),
            waiting_limits: Some(self.config.waiting),
            banned: self.banned.clone(),
            journal: self.journal,
            limits: self.limits.clone(),
            estimates_noted: self.estimates_noted,
        }
    }
}
