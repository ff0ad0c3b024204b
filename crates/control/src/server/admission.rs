//! Admission: every decision made elsewhere is checked against the present state (invariant 4).

use crate::payload::Payload;
use std::fmt;

use pliant_model::{Estimate, JobId, Procs, Span, Speed, Time};
use pliant_policy::batch::Submission;
use pliant_policy::completion::is_late;
use serde::{Deserialize, Serialize};

use super::{Answer, Command, Server, ServerJob, tell};
use crate::job::{ComparedEstimate, JobRecord, JobState, Work};
use crate::names::{Key, User};
use crate::reason::{Cause, DiscoverySummary, Reason};
use crate::runtime_sample::RuntimeSample;

/// The longest walltime of a job, whatever its speedup model makes of what was asked for: 100 years. Any number of
/// them one after another is far from the end of time.
pub(super) const WALLTIME_MAX: Span = Span(100 * 365 * 86_400);

/// A submission.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Submit {
    /// What makes it unique.
    pub key: Key,
    /// Whose it is, as proven by a certificate.
    pub owner: User,
    /// The service, or the script's name.
    pub name: String,
    /// What is asked for.
    pub work: Work,
    /// The walltime is one on this cluster, whatever its speed: for jobs that were not sized for the federation.
    pub own_time: bool,
    /// Its user chose this server: it is not moved to another one.
    pub pinned: bool,
    /// The latest completion that the client takes here; none takes any.
    pub latest: Option<Time>,
    /// The estimates that were compared.
    pub compared: Vec<ComparedEstimate>,
    /// What came of asking the others.
    #[serde(default, skip_serializing_if = "DiscoverySummary::is_empty")]
    pub survey: DiscoverySummary,
    /// What to run: as its driver describes it.
    pub payload: Payload,
    /// What its run teaches, if runtimes of its kind are learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<RuntimeSample>,
}

/// Why a submission is not accepted. Normal results, not errors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// It would complete later than the client takes: the estimate it relied on is stale.
    Stale {
        /// What it would get now.
        now: Estimate,
    },
    /// It needs more processors than there are.
    TooLarge {
        /// What it needs at least.
        needed: Procs,
        /// What there is.
        available: Procs,
    },
    /// On the processors that there are it would take longer than any job may.
    TooLong {
        /// What it would be given.
        walltime: Span,
        /// The longest walltime.
        most: Span,
    },
    /// Too many jobs of this user wait already.
    TooMany {
        /// How many may.
        limit: u32,
    },
    /// Another user's submission has this key.
    KeyTaken,
    /// The server has given all the numbers it has.
    NoNumbersLeft,
    /// What a server said in its own words.
    Other(Reason),
}

impl Refused {
    /// What stands in the way.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Stale { .. } => Cause::Stale,
            Self::TooLarge { .. } => Cause::TooLarge,
            Self::TooLong { .. } => Cause::TooLong,
            Self::TooMany { .. } => Cause::TooMany,
            Self::KeyTaken => Cause::KeyTaken,
            Self::NoNumbersLeft => Cause::NoNumbersLeft,
            Self::Other(reason) => reason.cause,
        }
    }

    /// The same with a text for people.
    pub fn reason(&self) -> Reason {
        self.cause().because(self.to_string())
    }

    /// The stable word for scripts and metrics.
    pub fn word(&self) -> &'static str {
        self.cause().word()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { now } => {
                write!(f, "would complete at {} now, later than asked for", now.completion())
            }
            Self::TooLarge { needed, available } => {
                write!(f, "needs {needed} processors, the cluster has {available}")
            }
            Self::TooLong { walltime, most } => {
                write!(f, "would have a walltime of {} s here, the longest is {} s", walltime.0, most.0)
            }
            Self::TooMany { limit } => write!(f, "{limit} jobs of this user wait already, the most allowed"),
            Self::KeyTaken => write!(f, "the key of this submission belongs to another user's"),
            Self::NoNumbersLeft => write!(f, "the server has given all its job numbers"),
            Self::Other(reason) => reason.fmt(f),
        }
    }
}

impl Server {
    pub(super) fn admit(&mut self, now: Time, submit: Submit, commands: &mut Vec<Command>) -> Answer {
        if let Some(number) = self.keys.get(&submit.key) {
            return self.known(*number, &submit);
        }
        let Submit { owner, work, own_time, latest, .. } = &submit;
        match self.shape_for(now, owner, now, work, *own_time, *latest) {
            Ok(estimate) => self.accept(now, submit, estimate, commands),
            Err(refused) => Answer::Refused(refused),
        }
    }

    /// A submission that was accepted before: the same answer again.
    fn known(&self, number: u32, submit: &Submit) -> Answer {
        match self.jobs.get(&number) {
            Some(kept) if kept.record.owner == submit.owner => {
                Answer::Accepted(Box::new(kept.record.clone()))
            }
            Some(_) => Answer::Refused(Refused::KeyTaken),
            None => Answer::Known(self.handle(number)),
        }
    }

    /// The shape it would be queued in.
    pub(super) fn shape_for(
        &mut self,
        now: Time,
        owner: &User,
        submitted: Time,
        work: &Work,
        own_time: bool,
        latest: Option<Time>,
    ) -> Result<Estimate, Refused> {
        if self.next == u32::MAX {
            return Err(Refused::NoNumbersLeft);
        }
        let limit = self.config.waiting_per_user;
        if self.waiting_of(owner) >= limit as usize {
            return Err(Refused::TooMany { limit });
        }
        let request = work.request(JobId(self.next), submitted).owned_by(owner.owner());
        let estimate = self.estimate_at(now, &request, self.speed_for(own_time))?;
        if latest.is_some_and(|latest| is_late(&estimate, latest)) {
            return Err(Refused::Stale { now: estimate });
        }
        Ok(estimate)
    }

    /// What work is sized for.
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
        let size_choice = self.size_choice(now, &request, self.speed_for(submit.own_time), &expected);
        let number = self.next;
        self.next += 1;
        self.numbered = true;
        let Submit { key, owner, name, work, own_time, pinned, compared, survey, payload, sample, .. } =
            submit;
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
            compared,
            survey,
            // What was not sized for the federation means nothing elsewhere.
            pinned: pinned || own_time,
            hops: Vec::new(),
            unit_runtime: None,
            runtime: None,
            size_choice,
        };
        let Estimate { procs, walltime, .. } = expected;
        self.keys.insert(key, number);
        *self.waiting.entry(record.owner.clone()).or_default() += 1;
        tell(&record, commands);
        let answer = Answer::Accepted(Box::new(record.clone()));
        let (submit, owner) = (record.submitted, record.owner.owner());
        self.jobs.insert(number, ServerJob::new(record, payload, sample));
        let submission = Submission { job: JobId(number), procs, walltime, submit, owner };
        let speed = self.speed_for(own_time);
        self.with_sizes(now, &work, speed, commands, |batch, sizes, effects| match sizes {
            Some(sizes) => batch.submit_moldable(now, submission, sizes, effects),
            None => batch.submit(now, submission, effects),
        });
        answer
    }
}
