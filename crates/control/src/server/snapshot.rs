//! The state of a server as data.

use std::collections::VecDeque;

use pliant_model::Time;
use pliant_policy::history::Recent;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Event, Kept, Server, ServerConfig, learning};
use crate::embedded::{Dump, Embedded, RestoreError};
use crate::job::JobState;
use crate::names::{Key, User};
use crate::replay::Machine;

/// All that a server knows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerState {
    next: u32,
    /// Without it the server is one of an earlier version, whose numbers begin at 1.
    #[serde(default = "yes")]
    numbered: bool,
    jobs: Vec<Kept>,
    ended: VecDeque<(Time, u32)>,
    keys: Vec<(Key, u32)>,
    ended_keys: VecDeque<(Time, Key)>,
    batch: Dump,
    #[serde(default)]
    history: Vec<Recent>,
}

impl Server {
    /// The server that had this state. Its cluster must have the same size and policy.
    pub fn from_state(config: ServerConfig, state: ServerState) -> Result<Server, RestoreError> {
        let ServerState { next, numbered, jobs, ended, keys, ended_keys, batch, history } = state;
        let batch = Embedded::restore(&config.policy, config.procs, batch)?;
        let mut waiting: FxHashMap<User, u32> = FxHashMap::default();
        for kept in jobs.iter().filter(|kept| kept.record.state == JobState::Queued) {
            *waiting.entry(kept.record.owner.clone()).or_default() += 1;
        }
        let jobs = jobs.into_iter().map(|kept| (kept.record.handle.number, kept)).collect();
        let keys = keys.into_iter().collect();
        Ok(Server {
            config,
            batch: Box::new(batch),
            jobs,
            ended,
            keys,
            ended_keys,
            waiting,
            history: learning::restore(&history),
            next,
            numbered,
        })
    }
}

fn yes() -> bool {
    true
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

    /// A refusal, or a repetition: estimates change nothing, and the key of a refused submission is not kept. When it
    /// is sent again it is decided anew, as it would be if the journal had the refusal.
    fn is_without_effect(commands: &[Command]) -> bool {
        match commands {
            [Command::Reply { answer, .. }] => match answer {
                Answer::Accepted(_) | Answer::Refused(_) | Answer::Known(_) | Answer::NoSuchJob => true,
                // The first one of a running job is noted.
                Answer::Cancelling(_) => false,
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
            jobs: self.jobs.values().cloned().collect(),
            ended: self.ended.clone(),
            keys,
            ended_keys: self.ended_keys.clone(),
            batch: self.batch.dump(now),
            history: self.history.dump(),
        }
    }
}
