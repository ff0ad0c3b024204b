//! Plans by predictions in a direct simulation: what jobs are planned for when they are submitted, and what happens to
//! plans that are outlived (`policy::runtimes::predicted`).
//!
//! A job whose speedup is misjudged ([`SimJob::true_speedup`]) outlives or undercuts its plan in the same way: the believed
//! speedup plans, the true one gives limit and end, and nobody is ended for a wrong belief.
//!
//! Only jobs that have ended are told to the predictor; that of the bound ([`Basis::Runtimes`]) is not asked.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::{ClusterId, Job, JobId, Request, Span, Time};
use pliant_policy::federation::Tracked;
use pliant_policy::runtimes::Categories;
use pliant_policy::runtimes::predicted::{Basis, Predictor, categories, corrected};
use rustc_hash::FxHashMap;

use super::{Engine, Submitted};
use crate::{PlanBy, SimJob};

/// A job that will outlive its plan: when that ends (`0`), and what is known of the job.
type Outliving = Reverse<(Time, JobId, ClusterId, Limits)>;

/// How long a running job has been planned for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Limits {
    start: Time,
    /// When it ends by itself: only asked whether that is later than what is planned.
    end: Time,
    planned: Span,
    limit: Span,
    /// How often it was planned longer.
    times: usize,
}

/// What plans are made by, and the plans that will be outlived.
pub(super) struct Planning {
    by: PlanBy,
    predictor: Option<Predictor>,
    /// Running jobs: what their ends will teach.
    running: FxHashMap<JobId, (Categories<i32>, Span)>,
    outliving: BinaryHeap<Outliving>,
}

impl Planning {
    pub(super) fn new(by: PlanBy) -> Planning {
        let predictor = match by {
            PlanBy::Predictions(prediction) => Some(Predictor::new(prediction)),
            PlanBy::Walltimes | PlanBy::Runtimes => None,
        };
        Planning { by, predictor, running: FxHashMap::default(), outliving: BinaryHeap::new() }
    }

    /// How long a job is planned for, in the size that was asked for on a cluster of speed 1.
    pub(super) fn planned(&self, job: &Job) -> Span {
        match (&self.predictor, self.by.basis()) {
            (Some(predictor), _) => predictor.planned(&categories(job), job.walltime),
            (None, Basis::Runtimes) => job.runtime,
            (None, _) => job.walltime,
        }
    }

    /// A job has ended.
    pub(super) fn ended(&mut self, job: JobId) {
        if let (Some(predictor), Some((of, runtime))) = (&mut self.predictor, self.running.remove(&job)) {
            predictor.ended(&of, runtime);
        }
    }

    /// When the next plan is outlived.
    pub(super) fn next(&self) -> Time {
        self.outliving.peek().map_or(Time::MAX, |Reverse((at, ..))| *at)
    }
}

impl<I> Engine<'_, I>
where
    I: Iterator,
    I::Item: Borrow<SimJob>,
{
    /// The walltime at which a job would be ended that starts in a shape which is planned for less or more: what its user
    /// asked for, in that shape, as the job really scales.
    pub(super) fn limit(
        &self,
        submitted: &Submitted,
        tracked: Option<&Tracked>,
        cluster: ClusterId,
        start: pliant_policy::batch::Start,
    ) -> Span {
        let Submitted { job, true_speedup, .. } = submitted;
        if self.planning.by == PlanBy::Walltimes && true_speedup.is_none() {
            return start.walltime;
        }
        let Some(tracked) = tracked else { return job.walltime };
        let mut asked = Request { walltime: job.walltime, ..tracked.request.clone() };
        if let Some(speedup) = true_speedup {
            asked.speedup = speedup.clone();
        }
        let there = &self.run.platform.clusters()[cluster.index()];
        asked.on(there.procs, there.speed).map_or(start.walltime, |walltimes| walltimes.at(start.procs))
    }

    /// A job runs from now to `end`.
    pub(super) fn watch(&mut self, now: Time, id: JobId, cluster: ClusterId, job: &Job, ran: Ran) {
        if self.planning.predictor.is_some() {
            self.planning.running.insert(id, (categories(job), job.runtime));
        }
        let Ran { planned, limit, end } = ran;
        if now + planned < end {
            let limits = Limits { start: now, end, planned, limit, times: 0 };
            self.planning.outliving.push(Reverse((now + planned, id, cluster, limits)));
        }
    }

    /// Jobs whose plan ends now and who go on are planned longer, before anything else happens: nobody gets what they
    /// still hold. All of a cluster are told at once, since each makes what was planned behind it move.
    pub(super) fn outlive_due(&mut self, now: Time) {
        let mut by_cluster: Vec<(ClusterId, JobId, Time)> = Vec::new();
        while self.planning.next() <= now {
            let Some(Reverse((_, job, cluster, limits))) = self.planning.outliving.pop() else { break };
            let Limits { start, end, planned, limit, times } = limits;
            let longer = match self.planning.by {
                PlanBy::Runtimes => end - start,
                PlanBy::Walltimes | PlanBy::Predictions(_) => corrected(planned, limit, times),
            };
            by_cluster.push((cluster, job, start + longer));
            if start + longer < end {
                let limits = Limits { planned: longer, times: times + 1, ..limits };
                self.planning.outliving.push(Reverse((start + longer, job, cluster, limits)));
            }
        }
        by_cluster.sort_unstable();
        for same in by_cluster.chunk_by(|one, other| one.0 == other.0) {
            let jobs: Vec<(JobId, Time)> = same.iter().map(|(_, job, end)| (*job, *end)).collect();
            let cluster = same[0].0;
            self.federation.scheduler(cluster).extend_running(now, &jobs);
            self.changed(now, cluster);
        }
    }
}

/// How long a job is planned for, may run, and until when it runs.
pub(super) struct Ran {
    pub(super) planned: Span,
    pub(super) limit: Span,
    pub(super) end: Time,
}
