//! Limits of single users, which operators set: what a user may have waiting and running at the server.
//!
//! A submission over a limit of what waits is refused. Jobs of a user with a limit of what runs enter the queue of the batch system only
//! while all of the user's jobs there, running and queued, are within it: by priority and submission, each as soon as the first one of
//! those kept back fits. The others are in no plan, like held jobs, so that the jobs of other users pass them and the estimates of these
//! stay true. The estimate for a job that would be kept back starts when, by the present plan, enough of the user's own jobs have ended.
//!
//! Cost: after an event, one pass over the jobs for each user with such a limit and waiting jobs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

use pliant_model::{Estimate, JobId, Procs, Span, Time};
use serde::{Deserialize, Serialize};

use super::banning::audit;
use super::source::OutgoingJob;
use super::{AdmissionRefusal, Answer, Command, Server, ServerJob};
use crate::audit::AuditAct;
use crate::job::JobState;
use crate::names::User;
use crate::reason::Cause;

/// The most users with limits at a server, so that all of them are in one answer.
pub const LIMITED_USERS_MAX: usize = 1000;

/// What a limit of a user bounds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKey {
    /// The user's running jobs.
    RunningJobs,
    /// The processors of the user's running jobs.
    Processors,
    /// The user's waiting jobs.
    WaitingJobs,
    /// The bytes of the user's waiting jobs.
    WaitingBytes,
}

impl LimitKey {
    /// Every key.
    pub const ALL: [LimitKey; 4] =
        [Self::RunningJobs, Self::Processors, Self::WaitingJobs, Self::WaitingBytes];

    /// The stable word for commands and scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::RunningJobs => "running-jobs",
            Self::Processors => "processors",
            Self::WaitingJobs => "waiting-jobs",
            Self::WaitingBytes => "waiting-bytes",
        }
    }

    /// The key of that word.
    pub fn from_word(word: &str) -> Option<LimitKey> {
        Self::ALL.into_iter().find(|key| key.word() == word)
    }

    /// What is counted, for people.
    fn counted(self) -> &'static str {
        match self {
            Self::RunningJobs => "running jobs",
            Self::Processors => "processors",
            Self::WaitingJobs => "waiting jobs",
            Self::WaitingBytes => "bytes of waiting jobs",
        }
    }

    fn is_of_running(self) -> bool {
        matches!(self, Self::RunningJobs | Self::Processors)
    }
}

/// A change of one limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LimitChange {
    /// What is bounded.
    pub key: LimitKey,
    /// The most of it; none removes the limit.
    pub value: Option<u64>,
}

impl fmt::Display for LimitChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{}={value}", self.key.word()),
            None => write!(f, "{}=none", self.key.word()),
        }
    }
}

/// The limits of a user at a server, with the last act of an operator about them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UserLimits {
    /// The limits.
    pub values: BTreeMap<LimitKey, u64>,
    /// When they were last changed.
    pub at: Time,
    /// The operator.
    pub by: User,
    /// The operator's reason.
    pub why: String,
}

impl UserLimits {
    fn of(&self, key: LimitKey) -> Option<u64> {
        self.values.get(&key).copied()
    }

    /// True if what runs is limited.
    fn is_of_running(&self) -> bool {
        self.values.keys().any(|key| key.is_of_running())
    }

    /// True if so many jobs on so many processors may run together.
    fn allows(&self, used: Used) -> bool {
        let within = |key, count| self.of(key).is_none_or(|most| count <= most);
        within(LimitKey::RunningJobs, used.jobs) && within(LimitKey::Processors, used.procs)
    }
}

impl fmt::Display for UserLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UserLimits { values, at, by, why } = self;
        let limits: Vec<String> =
            values.iter().map(|(key, most)| format!("{most} {}", key.counted())).collect();
        write!(f, "{by} has limited the user since {} to {}: {why}", at.utc(), limits.join(", "))
    }
}

/// Jobs and their processors.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Used {
    jobs: u64,
    procs: u64,
}

impl Used {
    fn with(self, procs: Procs) -> Used {
        Used { jobs: self.jobs + 1, procs: self.procs + u64::from(procs.0) }
    }

    fn without(self, procs: Procs) -> Used {
        Used { jobs: self.jobs - 1, procs: self.procs - u64::from(procs.0) }
    }
}

/// A waiting job in the order in which a user's jobs enter the queue: by priority, then by submission.
type Waiting = (Reverse<i64>, Time, u32, Procs);

/// The jobs of a user at the server that no operator holds.
struct UserJobs {
    /// Those that run or are queued, and subjobs.
    used: Used,
    /// Those that are queued, in order.
    queued: Vec<Waiting>,
    /// Those that are kept back, in order.
    kept: Vec<Waiting>,
}

impl Server {
    /// The users with limits.
    pub fn user_limits(&self) -> &BTreeMap<User, UserLimits> {
        &self.limits
    }

    /// Changes limits of a user. The same act again changes nothing.
    pub(super) fn limit_user(
        &mut self,
        at: Time,
        user: User,
        changes: &[LimitChange],
        (by, why): (User, String),
        commands: &mut Vec<Command>,
    ) -> Answer {
        let sets = |change: &LimitChange| change.value.is_some() && change.key.is_of_running();
        if self.is_external() && changes.iter().any(sets) {
            let how =
                "limit what runs in the batch system of the cluster, for example with `sacctmgr modify user`";
            return Answer::Unsuited(how.to_owned());
        }
        let known = self.limits.get(&user);
        if known.is_none() && self.limits.len() >= LIMITED_USERS_MAX {
            return Answer::Unsuited(format!("{LIMITED_USERS_MAX} users have limits, which is the most"));
        }
        let words: Vec<String> = changes.iter().map(ToString::to_string).collect();
        audit(at, by.clone(), AuditAct::Limit, &user, format!("{}: {why}", words.join(", ")), commands);
        let mut values = known.map(|limits| limits.values.clone()).unwrap_or_default();
        for LimitChange { key, value } in changes {
            match value {
                Some(value) => values.insert(*key, *value),
                None => values.remove(key),
            };
        }
        let is_same = |limits: &UserLimits| limits.values == values && limits.by == by && limits.why == why;
        if values.is_empty() {
            self.limits.remove(&user);
        } else if !known.is_some_and(is_same) {
            self.limits.insert(user.clone(), UserLimits { values, at, by, why });
        }
        self.release_kept(at, &user, commands);
        Answer::Limited(self.limits.get(&user).cloned())
    }

    /// The limits of a user's running jobs; none if there are none.
    pub(super) fn running_limits(&self, user: &User) -> Option<&UserLimits> {
        self.limits.get(user).filter(|limits| limits.is_of_running())
    }

    /// The most processors that a job of the user may have; none if that is not limited.
    pub(super) fn procs_limit(&self, user: &User) -> Option<(Procs, &UserLimits)> {
        let limits = self.limits.get(user)?;
        let most = limits.of(LimitKey::Processors)?;
        Some((Procs(most.try_into().unwrap_or(u32::MAX)), limits))
    }

    /// Checks that a user who has so much waiting, a new job included, is within the user's own limits.
    pub(super) fn check_user_limits(
        &self,
        user: &User,
        jobs: u32,
        bytes: u64,
    ) -> Result<(), AdmissionRefusal> {
        let Some(limits) = self.limits.get(user) else { return Ok(()) };
        let within = |key, count| limits.of(key).is_none_or(|most| count <= most);
        if within(LimitKey::WaitingJobs, u64::from(jobs)) && within(LimitKey::WaitingBytes, bytes) {
            return Ok(());
        }
        Err(AdmissionRefusal::Other(Cause::TooMany.because(limits.to_string())))
    }

    /// Checks that a job from elsewhere could enter the queue at once.
    pub(super) fn check_room(&self, user: &User, procs: Procs) -> Result<(), String> {
        let Some(limits) = self.running_limits(user) else { return Ok(()) };
        let UserJobs { used, kept, .. } = self.jobs_of(user);
        if kept.is_empty() && limits.allows(used.with(procs)) { Ok(()) } else { Err(limits.to_string()) }
    }

    /// Why a job is kept back by the limits of its owner; none if it is not.
    pub(super) fn limited(&self, number: u32) -> Option<String> {
        let limits = self.running_limits(&self.jobs.get(&number)?.record.owner)?;
        self.batch.held_jobs().contains(&JobId(number)).then(|| limits.to_string())
    }

    /// Has the waiting jobs of users with limits of what runs enter the queue, or leave it. A second call changes nothing.
    pub(super) fn keep_within_limits(&mut self, now: Time, commands: &mut Vec<Command>) {
        let concerns = |(user, limits): &(&User, &UserLimits)| {
            limits.is_of_running() && self.banned(user).is_none() && self.waiting.jobs_of(user) > 0
        };
        let limited = self.limits.iter().filter(concerns);
        for (user, limits) in limited.map(|(user, limits)| (user.clone(), limits.clone())).collect::<Vec<_>>()
        {
            self.keep_user_within(now, &user, &limits, commands);
        }
    }

    fn keep_user_within(&mut self, now: Time, user: &User, limits: &UserLimits, commands: &mut Vec<Command>) {
        let UserJobs { mut used, queued, mut kept } = self.jobs_of(user);
        let may_ever = |job: &Waiting| limits.allows(Used::default().with(job.3));
        // First those that never fit, then the last ones.
        let (mut queued, mut leaving): (Vec<Waiting>, Vec<Waiting>) = queued.into_iter().partition(may_ever);
        used = leaving.iter().fold(used, |used, job| used.without(job.3));
        while !limits.allows(used)
            && let Some(job) = queued.pop()
        {
            used = used.without(job.3);
            leaving.push(job);
        }
        for (.., number, _) in &leaving {
            self.keep_back(now, *number, commands);
        }
        kept.append(&mut leaving);
        kept.sort_unstable();
        for (.., number, procs) in kept.into_iter().filter(may_ever) {
            used = used.with(procs);
            if !limits.allows(used) {
                break;
            }
            self.with_batch(now, commands, |batch, effects| batch.release(now, JobId(number), effects));
        }
    }

    fn jobs_of(&self, user: &User) -> UserJobs {
        let held = self.batch.held_jobs();
        let mut jobs = UserJobs { used: self.subjobs_of(user), queued: Vec::new(), kept: Vec::new() };
        for entry in self.jobs.values().filter(|entry| entry.record.owner == *user) {
            let ServerJob { number, record, .. } = entry;
            let priority = Reverse(self.batch.job_priority(JobId(*number)));
            let job = (priority, record.submitted, *number, record.procs);
            let is_leaving = || self.outgoing.get(number).is_some_and(OutgoingJob::is_withdrawn);
            match record.state {
                JobState::Active => jobs.used = jobs.used.with(record.procs),
                JobState::Queued if *record.server() != self.config.name => {}
                JobState::Queued if entry.held.is_some() || entry.recalled || is_leaving() => {}
                JobState::Queued if held.contains(&JobId(*number)) => jobs.kept.push(job),
                // It waits for a larger cluster.
                JobState::Queued if self.batch.unplanned(JobId(*number)).is_some() => {}
                JobState::Queued => {
                    jobs.used = jobs.used.with(record.procs);
                    jobs.queued.push(job);
                }
                _ => {}
            }
        }
        jobs.queued.sort_unstable();
        jobs.kept.sort_unstable();
        jobs
    }

    /// The same estimate, but not before the user's jobs leave room for it within the limits: by the present plan of those that run and
    /// are queued, and as if those kept back started when they enter the queue. Subjobs, whose ends are not planned, do not end.
    pub(super) fn within_limits(&mut self, now: Time, user: &User, estimate: Estimate) -> Estimate {
        if self.running_limits(user).is_none() {
            return estimate;
        }
        let mut ends = self.planned_ends(now, user);
        let Some(limits) = self.running_limits(user) else { return estimate };
        let UserJobs { mut used, kept, .. } = self.jobs_of(user);
        let walltime = |number: u32| self.jobs.get(&number).map_or(Span(0), |entry| entry.record.walltime);
        let before = kept.into_iter().filter(|(Reverse(priority), .., procs)| {
            *priority >= 0 && limits.allows(Used::default().with(*procs))
        });
        let before = before.map(|(.., number, procs)| (procs, walltime(number)));
        let mut at = now;
        for (procs, walltime) in before.chain([(estimate.procs, estimate.walltime)]) {
            while !limits.allows(used.with(procs)) {
                let Some(Reverse((end, freed))) = ends.pop() else { return estimate };
                (at, used) = (at.max(end), used.without(freed));
            }
            used = used.with(procs);
            ends.push(Reverse((at + walltime, procs)));
        }
        Estimate { start: estimate.start.max(at), ..estimate }
    }

    /// When the jobs of a user that run or are queued end by the present plan, and their processors.
    fn planned_ends(&mut self, now: Time, user: &User) -> BinaryHeap<Reverse<(Time, Procs)>> {
        let waiting = self.batch.waiting(now).into_iter();
        let plans: BTreeMap<JobId, Estimate> = waiting.map(|one| (one.job, one.plan)).collect();
        let own = self.jobs.values().filter(|entry| entry.record.owner == *user);
        let end = |entry: &ServerJob| {
            let ServerJob { number, record, .. } = entry;
            let planned = plans.get(&JobId(*number)).map(Estimate::completion);
            let running = || (record.state == JobState::Active).then_some(record.started? + record.walltime);
            Some(Reverse((planned.or_else(running)?, record.procs)))
        };
        own.filter_map(end).collect()
    }

    fn subjobs_of(&self, user: &User) -> Used {
        let own = self.subjobs().filter(|(subjob, ..)| subjob.owner == *user);
        own.fold(Used::default(), |used, (subjob, ..)| used.with(subjob.procs))
    }
}
