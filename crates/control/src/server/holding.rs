//! Held jobs: an operator keeps a waiting job from starting, here or elsewhere, until an operator releases it. A held job is in no plan,
//! so that the estimates of others stay true.

use std::fmt;

use pliant_model::{JobId, Time};
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Server, ServerJob, audit};
use crate::audit::{Actor, AuditAct};
use crate::batch::external;
use crate::job::JobState;
use crate::names::User;

/// The act of an operator that holds a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hold {
    /// When the job was held.
    pub at: Time,
    /// The operator.
    pub by: User,
    /// The operator's reason.
    pub why: String,
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has held the job since {}: {}", self.by, self.at.utc(), self.why)
    }
}

impl Server {
    /// The act that holds a job; none if no operator holds it.
    pub(super) fn held(&self, number: u32) -> Option<&Hold> {
        self.jobs.get(&number)?.held.as_ref()
    }

    /// Holds a waiting job. A job that is held already stays held by the first act.
    pub(super) fn hold_job(
        &mut self,
        now: Time,
        number: u32,
        by: User,
        why: String,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let entry = match self.waiting_here(number) {
            Ok(entry) => entry,
            Err(answer) => return answer,
        };
        let record = entry.record.clone();
        if entry.held.is_some() {
            return Answer::Job(Box::new(record));
        }
        if entry.recalled || self.outgoing.contains_key(&number) {
            return Answer::Unsuited("it is being withdrawn or moved; try again".to_owned());
        }
        if entry.started_before.is_some() {
            return Answer::Unsuited("it has started: its process is looked for".to_owned());
        }
        if self.is_external() {
            let how = "hold it in the batch system of the cluster, for example with `scontrol hold`";
            return Answer::Unsuited(how.to_owned());
        }
        // It may be kept back already, for a ban or a limit.
        let is_kept = self.batch.held_jobs().contains(&JobId(number));
        if !is_kept && !self.batch.keep_back(now, entry.submission(self.config.speed)) {
            return Answer::Unsuited("it does not wait any more".to_owned());
        }
        if let Some(entry) = self.jobs.get_mut(&number) {
            entry.held = Some(Hold { at: now, by: by.clone(), why: why.clone() });
        }
        audit(now, Actor::Operator(by), AuditAct::Hold, Some(&record.handle), why, commands);
        Answer::Job(Box::new(record))
    }

    /// Lets a held job start again, in the queue by the time of its submission.
    pub(super) fn release_job(
        &mut self,
        now: Time,
        number: u32,
        by: User,
        why: String,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let entry = match self.waiting_here(number) {
            Ok(entry) => entry,
            Err(answer) => return answer,
        };
        let record = entry.record.clone();
        // A repetition, whose first answer was lost.
        if entry.held.is_none() {
            return Answer::Job(Box::new(record));
        }
        if let Some(entry) = self.jobs.get_mut(&number) {
            entry.held = None;
        }
        let is_kept = self.is_deferred(number) || self.is_behind_own(number);
        if !is_kept && !self.keeps_back(&record.owner) {
            self.with_batch(now, commands, |batch, effects| batch.release(now, JobId(number), effects));
        }
        audit(now, Actor::Operator(by), AuditAct::Release, Some(&record.handle), why, commands);
        Answer::Job(Box::new(record))
    }

    /// Gives a waiting job a priority in the queue: the highest is served first, before all others in their order. Each act is recorded,
    /// also if the job has that priority already.
    pub(super) fn prioritise(
        &mut self,
        now: Time,
        number: u32,
        priority: i64,
        (by, why): (User, String),
        commands: &mut Vec<Command>,
    ) -> Answer {
        let entry = match self.waiting_here(number) {
            Ok(entry) => entry,
            Err(answer) => return answer,
        };
        let record = entry.record.clone();
        if entry.recalled || self.outgoing.contains_key(&number) {
            return Answer::Unsuited("it is being withdrawn or moved; try again".to_owned());
        }
        if self.is_external() {
            let how = "set it in the batch system of the cluster, for example with `scontrol update`";
            return Answer::Unsuited(how.to_owned());
        }
        let is_new = self.batch.job_priority(JobId(number)) != priority;
        if is_new && !self.batch.set_job_priority(now, JobId(number), priority) {
            return Answer::Unsuited("it does not wait any more".to_owned());
        }
        let why = format!("{priority}: {why}");
        audit(now, Actor::Operator(by), AuditAct::Priority, Some(&record.handle), why, commands);
        Answer::Job(Box::new(record))
    }

    /// True if the batch system has holds of its own, so that the server keeps no job back.
    pub(super) fn is_external(&self) -> bool {
        matches!(self.config.policy.as_str(), external::SLURM | external::OAR)
    }

    /// A job that waits at this server, or the answer about one that does not.
    fn waiting_here(&self, number: u32) -> Result<&ServerJob, Answer> {
        let entry = self.jobs.get(&number).ok_or(Answer::NoSuchJob)?;
        if *entry.record.server() != self.config.name {
            return Err(Answer::Elsewhere(Box::new(entry.record.clone())));
        }
        match entry.record.state {
            JobState::Queued => Ok(entry),
            state => Err(Answer::Unsuited(format!("expected a waiting job, found one that is {state}"))),
        }
    }
}
