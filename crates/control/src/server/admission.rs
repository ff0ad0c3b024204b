//! Admission: checks decisions of others against the present state (invariant 4).

use crate::payload::Payload;
use std::fmt;

use pliant_model::{Estimate, JobId, Procs, Span, Speed, Time};
use pliant_policy::batch::Submission;
use pliant_policy::completion::is_late;
use serde::{Deserialize, Serialize};

use super::waiting::bytes_of;
use super::{Answer, Command, Server, ServerJob, audit, report};
use crate::audit::{Actor, AuditAct};
use crate::job::{ComparedEstimate, JobRecord, JobState, Work};
use crate::names::{Key, User};
use crate::reason::{Cause, DiscoverySummary, Reason};
use crate::runtime_sample::RuntimeSample;
use crate::signed::SignedClaim;

/// The longest walltime of any job, 100 years: sums of many such walltimes do not overflow.
pub(super) const WALLTIME_MAX: Span = Span(100 * 365 * 86_400);

/// A submission.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Submit {
    /// The key that makes it unique.
    pub key: Key,
    /// The owner, as proven by a certificate.
    pub owner: User,
    /// The service, or the script's name.
    pub name: String,
    /// The requested work.
    pub work: Work,
    /// The walltime holds on this cluster whatever its speed: for jobs that were not sized for the federation.
    pub own_time: bool,
    /// The user chose this server: the job is not moved.
    pub pinned: bool,
    /// The latest completion that the client accepts; none accepts any.
    pub latest: Option<Time>,
    /// The estimates that the client compared.
    pub compared: Vec<ComparedEstimate>,
    /// The answers of the other servers.
    #[serde(default, skip_serializing_if = "DiscoverySummary::is_empty")]
    pub discovery: DiscoverySummary,
    /// What the job runs, as the driver describes it.
    pub payload: Payload,
    /// How the runtime is learned from, if its service learns runtimes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<RuntimeSample>,
    /// The user's signature, which the driver has verified; none in simulations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Box<SignedClaim>>,
}

/// Why a submission is refused. A normal result, not an error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdmissionRefusal {
    /// It would complete later than the client accepts: the client's estimate is stale.
    Stale {
        /// The present estimate.
        now: Estimate,
    },
    /// It needs more processors than there are.
    TooLarge {
        /// The fewest processors that it needs.
        needed: Procs,
        /// The processors that there are.
        available: Procs,
    },
    /// Its walltime would be longer than the longest allowed.
    TooLong {
        /// Its walltime here.
        walltime: Span,
        /// The longest walltime.
        most: Span,
    },
    /// Too many jobs of this user wait already.
    TooMany {
        /// The most that may wait.
        limit: u32,
    },
    /// The waiting jobs of this user would have too many bytes.
    TooManyBytes {
        /// The bytes that they would have.
        needed: u64,
        /// The most bytes that they may have.
        limit: u64,
    },
    /// The waiting jobs of all users would have too many bytes.
    QueueFull {
        /// The bytes that they would have.
        needed: u64,
        /// The most bytes that they may have.
        limit: u64,
    },
    /// Another user's submission has this key.
    KeyTaken,
    /// The server has no job numbers left.
    NoNumbersLeft,
    /// Another reason, in the server's own words.
    Other(Reason),
}

impl AdmissionRefusal {
    /// The cause of the refusal.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Stale { .. } => Cause::Stale,
            Self::TooLarge { .. } => Cause::TooLarge,
            Self::TooLong { .. } => Cause::TooLong,
            Self::TooMany { .. } | Self::TooManyBytes { .. } => Cause::TooMany,
            Self::QueueFull { .. } => Cause::Busy,
            Self::KeyTaken => Cause::KeyTaken,
            Self::NoNumbersLeft => Cause::NoNumbersLeft,
            Self::Other(reason) => reason.cause,
        }
    }

    /// The cause with a text for people.
    pub fn reason(&self) -> Reason {
        self.cause().because(self.to_string())
    }

    /// The stable word for scripts and metrics.
    pub fn word(&self) -> &'static str {
        self.cause().word()
    }
}

impl fmt::Display for AdmissionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { now } => {
                write!(f, "would complete at {} now, later than asked for", now.completion().utc())
            }
            Self::TooLarge { needed, available } => {
                write!(f, "needs {needed} processors, the cluster has {available}")
            }
            Self::TooLong { walltime, most } => {
                write!(f, "would have a walltime of {} s here, the longest is {} s", walltime.0, most.0)
            }
            Self::TooMany { limit } => write!(f, "this user has reached the limit of waiting jobs ({limit})"),
            Self::TooManyBytes { needed, limit } => {
                write!(f, "the waiting jobs of this user would have {needed} bytes, at most {limit} may wait")
            }
            Self::QueueFull { needed, limit } => {
                write!(f, "the waiting jobs of all users would have {needed} bytes, at most {limit} may wait")
            }
            Self::KeyTaken => write!(f, "the key of this submission belongs to another job"),
            Self::NoNumbersLeft => write!(f, "the server has given all its job numbers"),
            Self::Other(reason) => reason.fmt(f),
        }
    }
}

impl Server {
    pub(super) fn admit(&mut self, now: Time, submit: Submit, commands: &mut Vec<Command>) -> Answer {
        if let Some(number) = self.keys.get(&submit.key) {
            return self.answer_repeated(*number, &submit);
        }
        if self.prepared.values().any(|prepared| prepared.handoff.key == submit.key) {
            return Answer::Refused(AdmissionRefusal::KeyTaken);
        }
        let Submit { owner, work, own_time, latest, .. } = &submit;
        let bytes = bytes_of(&submit.name, &submit.payload);
        let may_wait = self.check_waiting(owner, bytes);
        match may_wait.and_then(|()| self.shape_for(now, owner, now, work, *own_time, *latest)) {
            Ok(estimate) => self.accept(now, submit, estimate, commands),
            Err(refused) => Answer::Refused(refused),
        }
    }

    /// Answers a repeated submission as at the first time.
    fn answer_repeated(&self, number: u32, submit: &Submit) -> Answer {
        match self.jobs.get(&number) {
            Some(entry) if entry.record.owner == submit.owner => {
                Answer::Accepted(Box::new(entry.record.clone()))
            }
            Some(_) => Answer::Refused(AdmissionRefusal::KeyTaken),
            None => Answer::Known(self.handle(number)),
        }
    }

    /// The shape in which the job would be queued.
    pub(super) fn shape_for(
        &mut self,
        now: Time,
        owner: &User,
        submitted: Time,
        work: &Work,
        own_time: bool,
        latest: Option<Time>,
    ) -> Result<Estimate, AdmissionRefusal> {
        if self.next == u32::MAX {
            return Err(AdmissionRefusal::NoNumbersLeft);
        }
        let request = work.request(JobId(self.next), work.eligible(submitted).min(now));
        let request = request.owned_by(owner.owner());
        let estimate = self.estimate_work(now, owner, work, (&request, self.speed_for(own_time)))?;
        if latest.is_some_and(|latest| is_late(&estimate, latest)) {
            return Err(AdmissionRefusal::Stale { now: estimate });
        }
        Ok(estimate)
    }

    /// The speed for which work is sized.
    fn speed_for(&self, own_time: bool) -> Speed {
        if own_time { Speed::REFERENCE } else { self.config.speed }
    }

    fn accept(
        &mut self,
        now: Time,
        submit: Submit,
        expected: Estimate,
        commands: &mut Vec<Command>,
    ) -> Answer {
        let request = submit.work.request(JobId(self.next), now).owned_by(submit.owner.owner());
        let deferred = submit.work.begin.filter(|begin| *begin > now);
        // What a size costs at a later start is not known.
        let size_choice = match deferred {
            Some(_) => None,
            None => {
                self.size_choice(now, &submit.owner, (&request, self.speed_for(submit.own_time)), &expected)
            }
        };
        let number = self.next;
        self.next += 1;
        self.numbered = true;
        let Submit {
            key,
            owner,
            name,
            work,
            own_time,
            pinned,
            compared,
            discovery,
            payload,
            sample,
            claim,
            ..
        } = submit;
        let record = JobRecord {
            handle: self.handle(number),
            key,
            owner,
            name,
            work: work.clone(),
            state: JobState::Queued,
            submitted: now,
            expected,
            procs: expected.procs,
            walltime: expected.walltime,
            started: None,
            ended: None,
            exit: None,
            requeues: 0,
            compared,
            discovery,
            // A walltime that was not sized for the federation does not hold elsewhere.
            pinned: pinned || own_time,
            hops: Vec::new(),
            unit_runtime: None,
            runtime: None,
            size_choice,
            gpus: work.gpus_in(expected.procs, expected.walltime, self.speed_for(own_time)),
            estimates: Vec::new(),
            claim,
        };
        let Estimate { procs, walltime, .. } = expected;
        self.keys.insert(key, number);
        let by = Actor::User(record.owner.clone());
        audit(now, by, AuditAct::Accept, Some(&record.handle), String::new(), commands);
        report(&record, commands);
        let answer = Answer::Accepted(Box::new(record.clone()));
        let is_kept = deferred.is_some() || self.keeps_back(&record.owner);
        let (submit, owner) = (work.eligible(now), record.owner.owner());
        let entry = ServerJob { deferred, own_time, ..ServerJob::new(record, payload, sample) };
        self.waiting.add_job(&entry);
        self.jobs.insert(entry);
        self.watch(number);
        let speed = self.speed_for(own_time);
        let resources = work.request(JobId(number), now).resources_at(speed, procs, walltime);
        let submission = Submission::new(JobId(number), procs, walltime);
        let submission = Submission { submit, owner, resources, ..submission };
        self.with_sizes(now, &work, speed, commands, |batch, sizes, effects| match sizes {
            // It enters the queue as soon as the limits of its owner allow, and from the instant on at which it may start.
            Some(sizes) if is_kept => batch.hold_moldable(now, submission, sizes, effects),
            None if is_kept => batch.hold(now, submission, effects),
            Some(sizes) => batch.submit_moldable(now, submission, sizes, effects),
            None => batch.submit(now, submission, effects),
        });
        answer
    }
}
