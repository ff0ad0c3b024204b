//! Drained servers: an operator has a server accept no new jobs, for example before maintenance, and later accept them
//! again. Jobs that are at the server run and end as before; those that wait move to other servers if the agent reallocates jobs.

use std::fmt;

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Server, audit};
use crate::audit::{Actor, AuditAct};
use crate::names::User;
use crate::reason::{Cause, Reason};

/// The act of an operator that drained a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Drain {
    /// When the server was drained.
    pub at: Time,
    /// The operator.
    pub by: User,
    /// The operator's reason.
    pub why: String,
}

impl fmt::Display for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has drained the server since {}: {}", self.by, self.at.utc(), self.why)
    }
}

impl Server {
    /// The act that drained the server; none if it accepts jobs.
    pub fn drained(&self) -> Option<&Drain> {
        self.drained.as_ref()
    }

    /// Drains the server. The same act again changes nothing; another operator or reason replaces the present one.
    pub(super) fn drain(&mut self, at: Time, by: User, why: String, commands: &mut Vec<Command>) -> Answer {
        audit(at, Actor::Operator(by.clone()), AuditAct::Drain, None, why.clone(), commands);
        if !self.drained.as_ref().is_some_and(|known| known.by == by && known.why == why) {
            self.drained = Some(Drain { at, by, why });
            commands.push(Command::Freed);
        }
        Answer::Drained(self.drained.clone())
    }

    /// Has the server accept jobs again.
    pub(super) fn resume(&mut self, at: Time, by: User, why: String, commands: &mut Vec<Command>) -> Answer {
        audit(at, Actor::Operator(by), AuditAct::Resume, None, why, commands);
        if self.drained.take().is_some() {
            commands.push(Command::Freed);
        }
        Answer::Drained(None)
    }

    /// Why the server accepts no new jobs at the moment.
    pub(super) fn closed(&self) -> Option<Reason> {
        match &self.drained {
            Some(drain) => Some(Cause::Drained.because(drain.to_string())),
            None => self.batch.closed().map(|why| Cause::BatchSystem.because(why)),
        }
    }
}
