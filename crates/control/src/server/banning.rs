//! Banned users: an operator has the server accept nothing of a user, and later accept it again. Waiting jobs of a banned user stay
//! and do not start: like held jobs they are in no plan. Running jobs go on.
//!
//! External batch systems start the jobs that they have queued already.

use std::collections::BTreeMap;
use std::fmt;

use pliant_model::{JobId, Time};
use serde::{Deserialize, Serialize};

use super::source::Phase;
use super::{Answer, Command, Server, ServerJob};
use crate::audit::{Actor, AuditAct, AuditRecord};
use crate::handoff::StayReason;
use crate::job::JobState;
use crate::names::User;
use crate::reason::{Cause, Reason};

/// The act of an operator that banned a user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ban {
    /// When the user was banned.
    pub at: Time,
    /// The operator.
    pub by: User,
    /// The operator's reason.
    pub why: String,
}

impl fmt::Display for Ban {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has banned the user since {}: {}", self.by, self.at.utc(), self.why)
    }
}

impl Server {
    /// The act that banned a user; none if the user is not banned.
    pub fn banned(&self, user: &User) -> Option<&Ban> {
        self.banned.get(user)
    }

    /// The banned users.
    pub fn bans(&self) -> &BTreeMap<User, Ban> {
        &self.banned
    }

    /// Why the server accepts nothing of a user at the moment, whatever the user asks for.
    pub(super) fn refuses(&self, user: &User) -> Option<Reason> {
        self.banned(user).map(|ban| Cause::Banned.because(ban.to_string()))
    }

    /// True if waiting jobs of a user do not enter the queue by themselves: the user is banned, or what the user runs is limited.
    pub(super) fn keeps_back(&self, user: &User) -> bool {
        self.keeps_siblings_back(user) && !self.is_external()
    }

    /// The same for siblings, which their sources would start.
    pub(super) fn keeps_siblings_back(&self, user: &User) -> bool {
        self.banned.contains_key(user) || self.running_limits(user).is_some()
    }

    /// Bans a user. The same act again changes nothing; another operator or reason replaces the present one.
    pub(super) fn ban(
        &mut self,
        at: Time,
        user: User,
        by: User,
        why: String,
        commands: &mut Vec<Command>,
    ) -> Answer {
        audit(at, by.clone(), AuditAct::Ban, &user, why.clone(), commands);
        if !self.banned(&user).is_some_and(|known| known.by == by && known.why == why) {
            let ban = Ban { at, by, why };
            self.end_queued_subjobs(at, &user, &ban.to_string(), commands);
            self.banned.insert(user.clone(), ban);
            for number in self.waiting_jobs_of(&user).map(|entry| entry.number).collect::<Vec<_>>() {
                self.keep_back(at, number, commands);
            }
        }
        Answer::Banned(self.banned(&user).cloned())
    }

    /// Ends the ban of a user: waiting jobs may start again, in the queue by the time of their submission.
    pub(super) fn unban(
        &mut self,
        at: Time,
        user: User,
        by: User,
        why: String,
        commands: &mut Vec<Command>,
    ) -> Answer {
        audit(at, by, AuditAct::Unban, &user, why, commands);
        self.banned.remove(&user);
        self.release_kept(at, &user, commands);
        Answer::Banned(None)
    }

    /// Has the waiting jobs of a user enter the queue if nothing keeps them back any more.
    pub(super) fn release_kept(&mut self, now: Time, user: &User, commands: &mut Vec<Command>) {
        if self.keeps_back(user) || self.is_external() {
            return;
        }
        let kept = self.batch.held_jobs();
        let is_freed = |entry: &&ServerJob| {
            let is_kept = entry.held.is_some() || entry.deferred.is_some() || entry.is_behind_own;
            !is_kept && kept.contains(&JobId(entry.number))
        };
        let freed = self.waiting_jobs_of(user).filter(is_freed);
        for job in freed.map(|entry| JobId(entry.number)).collect::<Vec<_>>() {
            self.with_batch(now, commands, |batch, effects| batch.release(now, job, effects));
        }
    }

    /// Gives up the handoff and the siblings of a waiting job, and takes it out of the queue, unless that is one of an external batch
    /// system, or the job had started before an older copy of the journal was put back.
    pub(super) fn keep_back(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let waiting = self.jobs.get(&number).filter(|entry| entry.started_before.is_none());
        let speed = self.config.speed;
        let Some(submission) = waiting.map(|entry| entry.submission(speed)) else { return };
        if self.outgoing.get(&number).is_some_and(|one| matches!(one.phase, Phase::Preparing))
            && let Some(outgoing) = self.outgoing.remove(&number)
        {
            outgoing.abort(StayReason::Held, commands);
        }
        self.abort_siblings(number, commands);
        if !self.is_external() {
            // False for jobs that are held already, or that were withdrawn for another server.
            self.batch.keep_back(now, submission);
        }
    }

    fn waiting_jobs_of(&self, user: &User) -> impl Iterator<Item = &ServerJob> {
        let waits_here = move |entry: &&ServerJob| {
            let record = &entry.record;
            record.state == JobState::Queued && record.owner == *user && *record.server() == self.config.name
        };
        self.jobs.values().filter(waits_here)
    }
}

/// Adds a record about a user to the audit trail.
pub(super) fn audit(
    at: Time,
    by: User,
    act: AuditAct,
    user: &User,
    why: String,
    commands: &mut Vec<Command>,
) {
    let (by, user) = (Actor::Operator(by), Some(user.clone()));
    commands.push(Command::Audit(Box::new(AuditRecord { at, by, act, job: None, user, why })));
}
