//! The batch system behind a server: what queues and starts jobs on its cluster.
//!
//! A server asks of it only what a real batch system can be asked from outside (invariant 6): submit, cancel,
//! list, estimate. [`embedded`] is Pliant's own; [`external`] keeps a snapshot of another's queue behind
//! the same trait.

pub mod embedded;
pub mod external;

use std::collections::BTreeSet;

use pliant_model::{Estimate, JobId, Procs, Span, Time, Walltimes};
use pliant_policy::batch::{Submission, Waiting};
use pliant_policy::nodes;
use pliant_policy::tuning::Tuner;
use serde::{Deserialize, Serialize};

use crate::job::Exit;
use crate::listing::Listing;
use crate::local::LocalJob;

/// What the outside tells a batch system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The process of a job is gone.
    Ended {
        /// The job.
        job: JobId,
        /// How it ended.
        exit: Exit,
        /// How long it ran, in milliseconds, if that was measured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        elapsed_ms: Option<u64>,
    },
    /// Something about a batch system that is not Pliant's.
    External(external::Event),
}

/// What a batch system wants done outside.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Run a job now.
    Run(Run),
    /// End a running job: a polite signal, then an impolite one.
    Terminate {
        /// The job.
        job: JobId,
    },
    /// Something to be done in a batch system that is not Pliant's.
    External(external::Command),
}

/// A job to be run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// The job.
    pub job: JobId,
    /// The processes or threads it was sized for.
    pub procs: Procs,
    /// The processors it gets, by number: fewer than `procs` if it is folded.
    pub cores: Vec<u32>,
    /// Its limit.
    pub walltime: Span,
}

/// What became of a job.
#[derive(Clone, PartialEq, Debug)]
pub enum StatusUpdate {
    /// It runs, on that many processors.
    Started {
        /// The job.
        job: JobId,
        /// Processors.
        procs: Procs,
        /// Its walltime on them.
        walltime: Span,
        /// Since when.
        at: Time,
    },
    /// It is in the queue, held: it does not start before it is released.
    Held {
        /// The job.
        job: JobId,
    },
    /// The turn of a tentative job has come: it has its processors, and does not start before it is released.
    Ready {
        /// The job.
        job: JobId,
    },
    /// A tentative job was released when it had lost its turn: it did not start, and never will under this number.
    ReleasedTooLate {
        /// The job.
        job: JobId,
    },
    /// It was withdrawn while it waited, and will not run here.
    Withdrawn {
        /// The job.
        job: JobId,
    },
    /// It could not be withdrawn: it waits no more.
    NotWithdrawn {
        /// The job.
        job: JobId,
    },
    /// It has ended.
    Ended {
        /// The job.
        job: JobId,
        /// How.
        exit: Exit,
        /// How long it ran, in milliseconds, if that was measured.
        elapsed_ms: Option<u64>,
    },
    /// A run of a local user's job, which is nobody's business here, is over.
    LocalEnded(LocalJob),
}

/// What a call leads to: commands for the outside, news for the server.
#[derive(Default, Debug)]
pub struct Effects {
    /// To be done, in order.
    pub commands: Vec<Command>,
    /// To be known, in order.
    pub updates: Vec<StatusUpdate>,
}

/// How busy a cluster is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Processors without a job.
    pub free: Procs,
    /// Jobs that run.
    pub running: u32,
    /// Jobs that wait.
    pub waiting: u32,
}

/// The largest job that a batch system takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Bounds {
    /// Its processors, where that is not all there are.
    pub procs: Option<Procs>,
    /// Its walltime, where there is a longest.
    pub walltime: Option<Span>,
}

/// A batch system. Time never goes back between calls.
pub trait BatchSystem: Send {
    /// What a request would get if it were submitted now; none if it never fits.
    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate>;

    /// Queues a job.
    fn submit(&mut self, now: Time, submission: Submission, effects: &mut Effects);

    /// Queues a job of which other sizes would do as well: a batch system that chooses among sizes itself is offered
    /// them, others get the one.
    fn submit_moldable(
        &mut self,
        now: Time,
        submission: Submission,
        _walltimes: &Walltimes<'_>,
        effects: &mut Effects,
    ) {
        self.submit(now, submission, effects);
    }

    /// Queues a job that is not to start before it is released. That it is held is told as news, now or later.
    fn hold(&mut self, now: Time, submission: Submission, effects: &mut Effects);

    /// The same of a job of which other sizes would do as well.
    fn hold_moldable(
        &mut self,
        now: Time,
        submission: Submission,
        _walltimes: &Walltimes<'_>,
        effects: &mut Effects,
    ) {
        self.hold(now, submission, effects);
    }

    /// Queues a job tentatively: it keeps its place like any other job, but when its turn comes it
    /// takes its processors and nothing is started before it is released. That it is in the queue is told as
    /// [`StatusUpdate::Held`], its turn as [`StatusUpdate::Ready`], that it was released too late as [`StatusUpdate::ReleasedTooLate`].
    fn submit_tentatively(&mut self, now: Time, submission: Submission, effects: &mut Effects);

    /// Lets a job start that is held or tentative.
    fn release(&mut self, now: Time, job: JobId, effects: &mut Effects);

    /// Withdraws a job if it still waits, and leaves it alone if it does not. Which of the two is told as news, now or
    /// later.
    fn withdraw(&mut self, now: Time, job: JobId, effects: &mut Effects);

    /// Withdraws a job that waits, or ends one that runs. Its end is told as news, now or later.
    fn cancel(&mut self, now: Time, job: JobId, effects: &mut Effects);

    /// Something happened outside.
    fn on(&mut self, now: Time, event: Event, effects: &mut Effects);

    /// The other events of this instant are in: starts what is due.
    fn due(&mut self, now: Time, effects: &mut Effects);

    /// When [`BatchSystem::due`] is to be called next if nothing else happens.
    fn next_due(&self) -> Option<Time>;

    /// The plan of a waiting job.
    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate>;

    /// The waiting jobs in queue order, each with its plan.
    fn waiting(&mut self, now: Time) -> Vec<Waiting>;

    /// How busy the cluster is.
    fn usage(&self) -> Usage;

    /// What is running and waiting, for plans that others make (invariant 6: what a listing shows).
    fn snapshot(&mut self, now: Time) -> pliant_policy::batch::Dump;

    /// The same of a cluster that is planned by its nodes; none if it is not.
    fn nodes(&mut self, _now: Time) -> Option<nodes::ClusterSnapshot> {
        None
    }

    /// The processors that there are; none if that is configured.
    fn capacity(&self) -> Option<Procs> {
        None
    }

    /// The largest job that it takes.
    fn bounds(&self) -> Bounds {
        Bounds::default()
    }

    /// Why it takes no jobs at the moment, for people; none if it does.
    fn closed(&self) -> Option<String> {
        None
    }

    /// Why a waiting job has no plan, for people, as far as that is known.
    fn unplanned(&self, _job: JobId) -> Option<String> {
        None
    }

    /// Whether a waiting job has had no plan for so long that it is not the matter of a moment.
    fn is_stuck(&self, _now: Time, _job: JobId) -> bool {
        false
    }

    /// Why it starts none of our waiting jobs for now although it would start others, for people: a limit that we have
    /// reached. What comes from elsewhere would only wait with them.
    fn limited(&self) -> Option<String> {
        None
    }

    /// The waiting jobs that somebody else holds back: it is theirs to say when these may start.
    fn held_jobs(&self) -> BTreeSet<JobId> {
        BTreeSet::new()
    }

    /// What was listed last, if there are listings.
    fn mirror(&self) -> Option<&Listing> {
        None
    }

    /// The jobs of local users that run or wait.
    fn local_jobs(&self) -> Vec<LocalJob> {
        Vec::new()
    }

    /// Commands that nobody has answered: a restarted driver carries them out again.
    fn unanswered(&self) -> Vec<Command> {
        Vec::new()
    }

    /// All of its state, as data.
    fn dump(&mut self, now: Time) -> Dump;
}

/// The state of a batch system, as data.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dump {
    /// Of Pliant's own.
    Embedded(Box<embedded::Dump>),
    /// Of the snapshot of another.
    External(Box<external::Dump>),
}
