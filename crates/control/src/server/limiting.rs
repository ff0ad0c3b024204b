//! Limits of single users, which operators set: what a user may have waiting and running at the server.
//!
//! A submission over a limit of what waits is refused. Jobs of a user with a limit of what runs enter the queue of the batch system only
//! while all of the user's jobs there, running and queued, are within it: by priority and submission, each as soon as the first one of
//! those kept back fits. The others are in no plan, like held jobs, so that the jobs of other users pass them and the estimates of these
//! stay true. The estimate for a job that would be kept back starts when, by the present plan, enough of the user's own jobs have ended.
//!
//! Cost: one pass over the jobs after an event that has changed something, while users with such limits have waiting jobs.

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

    /// So much of it, for people.
    fn counted(self, count: u64) -> String {
        let (one, many) = match self {
            Self::RunningJobs => ("running job", "running jobs"),
            Self::Processors => ("processor", "processors"),
            Self::WaitingJobs => ("waiting job", "waiting jobs"),
            Self::WaitingBytes => ("byte of waiting jobs", "bytes of waiting jobs"),
        };
        format!("{count} {}", if count == 1 { one } else { many })
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
    pub(super) fn of(&self, key: LimitKey) -> Option<u64> {
        self.values.get(&key).copied()
    }

    /// True if what runs is limited.
    fn is_of_running(&self) -> bool {
        self.values.keys().any(|key| key.is_of_running())
    }

    /// True if so many jobs on so many processors may run together.
    fn allows(&self, used: Used) -> bool {
        self.exceeded(&used.counts()).is_empty()
    }

    /// True if a job on so many processors may run at all.
    fn may_ever_run(&self, procs: Procs) -> bool {
        self.allows(Used::default().with(procs))
    }

    /// Those of these counts that are over their limits.
    fn exceeded(&self, counts: &[(LimitKey, u64)]) -> Vec<(LimitKey, u64)> {
        let is_over = |(key, count): &&(LimitKey, u64)| self.of(*key).is_some_and(|most| *count > most);
        counts.iter().filter(is_over).copied().collect()
    }

    /// Why a user may not have so much, with what is over a limit and these limits; none if the user may. `verb` is what leads to it.
    fn refusal(&self, verb: &str, counts: &[(LimitKey, u64)]) -> Option<String> {
        let exceeded = self.exceeded(counts);
        let found: Vec<String> = exceeded.iter().map(|(key, count)| key.counted(*count)).collect();
        let act = || self.act(|key| exceeded.iter().any(|(other, _)| *other == key));
        (!found.is_empty()).then(|| format!("{verb} {}, but {}", found.join(" and "), act()))
    }

    /// Why a job on so many processors can never run; none if it can.
    pub(super) fn never_runs(&self, procs: Procs) -> Option<String> {
        self.refusal("needs", &Used::default().with(procs).counts())
    }

    /// The act of the operator, with the limits of what runs.
    pub(super) fn act_about_running(&self) -> String {
        self.act(LimitKey::is_of_running)
    }

    /// The act of the operator, with some of the limits.
    fn act(&self, is_shown: impl Fn(LimitKey) -> bool) -> String {
        let UserLimits { values, at, by, why } = self;
        let shown = values.iter().filter(|(key, _)| is_shown(**key));
        let limits: Vec<String> = shown.map(|(key, most)| key.counted(*most)).collect();
        format!("{by} has limited the user since {} to {} here: {why}", at.utc(), limits.join(" and "))
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

    fn counts(self) -> [(LimitKey, u64); 2] {
        [(LimitKey::RunningJobs, self.jobs), (LimitKey::Processors, self.procs)]
    }
}

/// A waiting job in the order in which a user's jobs enter the queue: by priority, then by how far they stand back, then by submission.
type Waiting = (Reverse<i64>, u32, Time, u32, Procs);

/// The jobs of a user at the server that no operator holds.
#[derive(Default)]
struct UserJobs {
    /// Those that run or are queued, and subjobs.
    used: Used,
    /// The same, each with its processors.
    counted: Vec<(JobId, Procs)>,
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
            return Answer::Unsuited(format!(
                "{LIMITED_USERS_MAX} users have limits, which is the most; remove limits that are not needed, with `none`"
            ));
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
        let counts = [(LimitKey::WaitingJobs, u64::from(jobs)), (LimitKey::WaitingBytes, bytes)];
        let refused = |why| Err(AdmissionRefusal::Other(Cause::TooMany.because(why)));
        limits.refusal("the user would have", &counts).map_or(Ok(()), refused)
    }

    /// Checks that a job from elsewhere could enter the queue at once.
    pub(super) fn check_room(&self, user: &User, procs: Procs) -> Result<(), String> {
        let Some(limits) = self.running_limits(user) else { return Ok(()) };
        let UserJobs { used, kept, .. } = self.jobs_of(user);
        if let Some(why) = limits.refusal("the user would have", &used.with(procs).counts()) {
            return Err(why);
        }
        match kept.iter().any(|job| self.may_enter(job, limits)) {
            true => Err(format!("other jobs of the user are before it: {}", limits.act_about_running())),
            false => Ok(()),
        }
    }

    /// The jobs of a user that are kept back by the user's limits and may run one day, in order.
    pub(super) fn kept_by_limits(&self, user: &User) -> Vec<u32> {
        let Some(limits) = self.running_limits(user) else { return Vec::new() };
        let kept = self.jobs_of(user).kept.into_iter().filter(|job| self.may_enter(job, limits));
        kept.map(|(.., number, _)| number).collect()
    }

    /// True if a job that is kept back by these limits may be in the queue one day, with the present size of the cluster.
    fn may_enter(&self, (.., procs): &Waiting, limits: &UserLimits) -> bool {
        limits.may_ever_run(*procs) && *procs <= self.procs()
    }

    /// Why a job is kept back by the limits of its owner; none if it is not.
    pub(super) fn limited(&self, number: u32) -> Option<String> {
        let limits = self.running_limits(&self.jobs.get(&number)?.record.owner)?;
        self.batch.held_jobs().contains(&JobId(number)).then(|| limits.act_about_running())
    }

    /// Has the waiting jobs of users with limits of what runs enter the queue, or leave it. A second call changes nothing.
    pub(super) fn keep_within_limits(&mut self, now: Time, commands: &mut Vec<Command>) {
        let concerns = |(user, limits): &(&User, &UserLimits)| {
            limits.is_of_running() && self.banned(user).is_none() && self.waiting.jobs_of(user) > 0
        };
        let concerned = self.limits.iter().filter(concerns);
        let limited: BTreeMap<User, UserLimits> =
            concerned.map(|(user, limits)| (user.clone(), limits.clone())).collect();
        if limited.is_empty() {
            return;
        }
        let mut jobs = self.jobs_of_users(|user| limited.contains_key(user));
        for (user, limits) in &limited {
            self.keep_user_within(now, jobs.remove(user).unwrap_or_default(), limits, commands);
        }
    }

    fn keep_user_within(
        &mut self,
        now: Time,
        jobs: UserJobs,
        limits: &UserLimits,
        commands: &mut Vec<Command>,
    ) {
        let UserJobs { mut used, queued, mut kept, .. } = jobs;
        let may_ever = |job: &Waiting| limits.may_ever_run(job.4);
        // First those that never fit, then the last ones.
        let (mut queued, mut leaving): (Vec<Waiting>, Vec<Waiting>) = queued.into_iter().partition(may_ever);
        used = leaving.iter().fold(used, |used, job| used.without(job.4));
        while !limits.allows(used)
            && let Some(job) = queued.pop()
        {
            used = used.without(job.4);
            leaving.push(job);
        }
        for (.., number, _) in &leaving {
            self.keep_back(now, *number, commands);
        }
        kept.append(&mut leaving);
        kept.sort_unstable();
        for (.., number, procs) in kept.into_iter().filter(may_ever) {
            // One that waits for a larger cluster counts once it is in the queue.
            if procs <= self.procs() {
                used = used.with(procs);
            }
            if !limits.allows(used) {
                break;
            }
            self.with_batch(now, commands, |batch, effects| batch.release(now, JobId(number), effects));
        }
    }

    fn jobs_of(&self, user: &User) -> UserJobs {
        self.jobs_of_users(|other| other == user).remove(user).unwrap_or_default()
    }

    /// The jobs of some users, of those who have any.
    fn jobs_of_users(&self, is_one: impl Fn(&User) -> bool) -> BTreeMap<User, UserJobs> {
        let held = self.batch.held_jobs();
        let mut users: BTreeMap<User, UserJobs> = BTreeMap::new();
        for (subjob, number, _) in self.subjobs().filter(|(subjob, ..)| is_one(&subjob.owner)) {
            users.entry(subjob.owner.clone()).or_default().count(JobId(number), subjob.procs);
        }
        for entry in self.jobs.values().filter(|entry| is_one(&entry.record.owner)) {
            let ServerJob { number, record, .. } = entry;
            if record.state.is_final() || *record.server() != self.config.name {
                continue;
            }
            let jobs = users.entry(record.owner.clone()).or_default();
            let id = JobId(*number);
            let priority = Reverse(self.batch.job_priority(id));
            let submitted = record.work.eligible(record.submitted);
            let job = (priority, record.work.nice, submitted, *number, record.procs);
            let is_leaving = || self.outgoing.get(number).is_some_and(OutgoingJob::is_withdrawn);
            match record.state {
                // It runs, or its process is looked for.
                JobState::Active => jobs.count(id, record.procs),
                JobState::Queued if entry.started_before.is_some() => jobs.count(id, record.procs),
                JobState::Queued
                    if entry.held.is_some() || entry.deferred.is_some() || entry.is_behind_own => {}
                JobState::Queued if entry.recalled || is_leaving() => {}
                JobState::Queued if held.contains(&id) => jobs.kept.push(job),
                // It waits for a larger cluster.
                JobState::Queued if self.batch.unplanned(id).is_some() => {}
                JobState::Queued => {
                    jobs.count(id, record.procs);
                    jobs.queued.push(job);
                }
                _ => {}
            }
        }
        for UserJobs { queued, kept, .. } in users.values_mut() {
            queued.sort_unstable();
            kept.sort_unstable();
        }
        users
    }

    /// The same estimate, but not before the user's jobs leave room for it within the limits: by the present plan of those that run and
    /// are queued, and as if those kept back started when they enter the queue. An error if the limits never leave room.
    pub(super) fn within_limits(
        &mut self,
        now: Time,
        user: &User,
        estimate: Estimate,
    ) -> Result<Estimate, AdmissionRefusal> {
        if self.running_limits(user).is_none() {
            return Ok(estimate);
        }
        let planned = self.planned_ends(now);
        let Some(limits) = self.running_limits(user) else { return Ok(estimate) };
        if let Some(why) = limits.never_runs(estimate.procs) {
            return Err(AdmissionRefusal::Other(Cause::TooMany.because(why)));
        }
        let UserJobs { mut used, counted, kept, .. } = self.jobs_of(user);
        // What outlives its walltime has no planned end, and is expected to end at once.
        let end = |(job, procs): (JobId, Procs)| Reverse((planned.get(&job).copied().unwrap_or(now), procs));
        let mut ends: BinaryHeap<Reverse<(Time, Procs)>> = counted.into_iter().map(end).collect();
        let walltime = |number: u32| self.jobs.get(&number).map_or(Span(0), |entry| entry.record.walltime);
        let before = kept.into_iter().filter(|job| job.0.0 >= 0 && self.may_enter(job, limits));
        let before = before.map(|(.., number, procs)| (procs, walltime(number)));
        let mut at = now;
        for (procs, walltime) in before.chain([(estimate.procs, estimate.walltime)]) {
            while !limits.allows(used.with(procs))
                && let Some(Reverse((end, freed))) = ends.pop()
            {
                (at, used) = (at.max(end), used.without(freed));
            }
            used = used.with(procs);
            ends.push(Reverse((at + walltime, procs)));
        }
        Ok(Estimate { start: estimate.start.max(at), ..estimate })
    }

    /// When the jobs of the batch system end by the present plan.
    fn planned_ends(&mut self, now: Time) -> BTreeMap<JobId, Time> {
        let running = self.batch.snapshot(now).running.into_iter().map(|one| (one.job, one.end));
        let mut ends: BTreeMap<JobId, Time> = running.collect();
        ends.extend(self.batch.waiting(now).into_iter().map(|one| (one.job, one.plan.completion())));
        ends
    }
}

impl UserJobs {
    fn count(&mut self, job: JobId, procs: Procs) {
        self.used = self.used.with(procs);
        self.counted.push((job, procs));
    }
}
