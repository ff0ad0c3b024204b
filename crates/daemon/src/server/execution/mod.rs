//! What a server runs: jobs, batches of instances, subjobs of launches and requests of explorations.
//!
//! A machine's command becomes an [`Execution`] (`translate`): what, with which processors, in which folder, until when, behind
//! which start gate. Its folder is made ready (`prepare`). Then the [`Runner`] starts it, finds it again after a restart, follows
//! it, ends it, and notifies the machine ([`observer`]). On a cluster with an external batch system, that system starts it from
//! the same folder (`cluster`).

mod end;
mod failure;
mod folder_names;
mod host;
pub(super) mod observer;
mod prepare;
mod program;
mod retry;
mod runner;
mod submitted_file;
mod timers;
mod translate;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pliant_control::batch::HeldResources;
use pliant_control::job::JobRecord;
use pliant_control::names::User;
use pliant_control::optional::server::RequestKey;
use pliant_control::payload::Payload;
use pliant_model::{JobId, Procs, Span};
use pliant_policy::optional::RequestId;
use pliant_site::processes::Reservation;

pub(super) use end::{End, bounded, complaint, end_of};
pub(super) use failure::Failure;
pub(super) use folder_names::{FolderKey, SubjobFolder};
pub(super) use host::Host;
pub(super) use prepare::{Ready, located, of_account};
pub(super) use program::{Program, RequestWork};
pub(super) use retry::{Retry, blocking, find, find_in};
pub(super) use runner::Runner;
pub(super) use submitted_file::{keep_submitted, kept_submitted};
pub(super) use timers::Timers;

use super::subjobs::SubjobRun;

/// Why an execution is lost that had started, and of which nothing is left.
pub(super) const MISSING: &str =
    "its folder is missing, and it had started before the journal of its server was put back";

/// A run of something by this server.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    pub(super) id: ExecutionId,
    /// What is run.
    pub(super) work: Work,
    /// The folder in which it is prepared, run and recorded.
    pub(super) dir: PathBuf,
    /// Its processors, and how long it may run.
    pub(super) allocation: Allocation,
    /// It had started before the journal was put back: it is looked for, and never started.
    pub(super) had_started: bool,
}

/// What identifies an execution to the machine that wants it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum ExecutionId {
    /// The number of a job or of a subjob in its batch system.
    Job(JobId),
    /// A request of an exploration.
    Request(RequestId),
}

/// What an execution runs.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// A job: a service, a script or a batch of instances, with its [`Program`] as it was journaled.
    Job(Box<JobRecord>, Payload),
    /// All tasks of a launch that this server runs.
    Subjob(Box<SubjobRun>),
    /// A request of an exploration.
    Request(Box<Request>),
    /// A request that keeps a core until that time of the clock, without a process.
    Pause(Duration),
}

/// A request of an exploration.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) key: RequestKey,
    pub(super) owner: User,
    pub(super) program: Program,
}

/// The processors of an execution, and how long it may run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Allocation {
    /// The processes or threads that it was sized for.
    pub(super) procs: Procs,
    /// The number of cores that it gets: fewer than `procs` if it is folded.
    pub(super) cores: u32,
    /// The cores of this host that it is pinned to; none if it may run on all.
    pub(super) pinned: Option<Vec<u32>>,
    /// After how long it is ended.
    pub(super) walltime: Span,
    /// What it has besides processors, where that is counted.
    pub(super) held: Option<HeldResources>,
}

impl Execution {
    /// The subjob, if it is one.
    pub(super) fn subjob(&self) -> Option<&SubjobRun> {
        match &self.work {
            Work::Subjob(subjob) => Some(subjob),
            Work::Job(..) | Work::Request(_) | Work::Pause(_) => None,
        }
    }

    /// The name of the account as which it runs; none if that is the server's own user.
    ///
    /// # Errors
    ///
    /// What was journaled of it makes no sense.
    pub(super) fn account(&self) -> Result<Option<String>, Failure> {
        Ok(match &self.work {
            Work::Job(_, program) => program.read::<Program>()?.account,
            Work::Subjob(subjob) => subjob.account()?,
            Work::Request(request) => request.program.account.clone(),
            Work::Pause(_) => None,
        })
    }

    /// What its supervisor reserves while it waits at its start gate, where an external batch system starts it.
    pub(super) fn reservation(&self) -> Option<Reservation> {
        self.subjob().map(SubjobRun::reservation)
    }

    /// Whether it is run again when the outcome of a run is unknown: its client submits it again in any case. A job is never
    /// started twice.
    fn is_repeatable(&self) -> bool {
        matches!(self.work, Work::Request(_))
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.work {
            Work::Job(record, _) => record.handle.fmt(f),
            Work::Subjob(subjob) => subjob.subjob.id.fmt(f),
            Work::Request(request) => write!(f, "{}/{}", request.key.exploration, request.key.number),
            Work::Pause(_) => write!(f, "{:?}", self.id),
        }
    }
}
