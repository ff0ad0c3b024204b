//! Plans by predictions in a direct simulation: the planned runtimes of submitted jobs, and the extension of plans that jobs
//! exceed (`policy::runtimes::predicted`).
//!
//! A job with a wrong speedup ([`SimJob::true_speedup`]) exceeds or undercuts its plan in the same way: the assumed speedup
//! plans, the true one gives time limit and end, and no job is killed because of the assumption.
//!
//! The predictor learns from ended jobs only. Under [`Basis::Runtimes`] there is no predictor.

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::{ClusterId, Job, JobId, Request, Span, Time};
use pliant_policy::federation::Tracked;
use pliant_policy::runtimes::Categories;
use pliant_policy::runtimes::predicted::{Basis, Correction, Predictor, categories};
use rustc_hash::FxHashMap;

use super::{Engine, Submitted};
use crate::{PlanBy, SimJob};

/// A running job that will exceed its plan: the end of the plan, and the job.
type ExceededPlan = Reverse<(Time, JobId, ClusterId, Limits)>;

/// The plan and the time limit of a running job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Limits {
    start: Time,
    /// When it really ends: only compared with the plan.
    end: Time,
    planned: Span,
    limit: Span,
    /// How often its plan was extended.
    extensions: usize,
}

/// The basis of plans, and the plans that jobs will exceed.
pub(super) struct Planning {
    by: PlanBy,
    predictor: Option<Predictor>,
    /// The samples that running jobs give when they end.
    running: FxHashMap<JobId, (Categories<i32>, Span)>,
    exceeded: BinaryHeap<ExceededPlan>,
}

impl Planning {
    pub(super) fn new(by: PlanBy) -> Planning {
        let predictor = match by {
            PlanBy::Predictions(prediction) => Some(Predictor::new(prediction)),
            PlanBy::Walltimes | PlanBy::Runtimes => None,
        };
        Planning { by, predictor, running: FxHashMap::default(), exceeded: BinaryHeap::new() }
    }

    /// The planned runtime of a job in its requested size on a cluster of speed 1.
    pub(super) fn planned(&self, job: &Job) -> Span {
        match (&self.predictor, self.by.basis()) {
            (Some(predictor), _) => predictor.planned(&categories(job), job.walltime),
            (None, Basis::Runtimes) => job.runtime,
            (None, _) => job.walltime,
        }
    }

    /// Records the runtime of an ended job.
    pub(super) fn ended(&mut self, job: JobId) {
        if let (Some(predictor), Some((of, runtime))) = (&mut self.predictor, self.running.remove(&job)) {
            predictor.ended(&of, runtime);
        }
    }

    /// When the next plan is exceeded.
    pub(super) fn next(&self) -> Time {
        self.exceeded.peek().map_or(Time::MAX, |Reverse((at, ..))| *at)
    }
}

impl<I> Engine<'_, I>
where
    I: Iterator,
    I::Item: Borrow<SimJob>,
{
    /// The time limit of a starting job: the requested walltime in the shape of the start, by the job's real speedup.
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
        let target = &self.run.platform.clusters()[cluster.index()];
        let gpus = tracked.request.gpus_at(target.speed, start.procs, start.walltime);
        let walltimes = asked.on(target.procs, target.speed);
        walltimes.map_or(start.walltime, |walltimes| walltimes.at_with(start.procs, gpus))
    }

    /// Tracks a job that runs from now to `end`.
    pub(super) fn track_plan(
        &mut self,
        now: Time,
        id: JobId,
        cluster: ClusterId,
        job: &Job,
        ran: StartedRun,
    ) {
        if self.planning.predictor.is_some() {
            self.planning.running.insert(id, (categories(job), job.runtime));
        }
        let StartedRun { planned, limit, end } = ran;
        if now + planned < end {
            let limits = Limits { start: now, end, planned, limit, extensions: 0 };
            self.planning.exceeded.push(Reverse((now + planned, id, cluster, limits)));
        }
    }

    /// Extends the plans of jobs that exceed them now, before all other events, so that no other job gets their processors. A
    /// cluster extends all its jobs at once because each extension moves the plans behind it.
    pub(super) fn extend_due_plans(&mut self, now: Time) {
        let mut by_cluster: Vec<(ClusterId, JobId, Time)> = Vec::new();
        while self.planning.next() <= now {
            let Some(Reverse((_, job, cluster, limits))) = self.planning.exceeded.pop() else { break };
            let Limits { start, end, planned, limit, extensions } = limits;
            let longer = match self.planning.by {
                PlanBy::Runtimes => end - start,
                PlanBy::Predictions(prediction) => {
                    prediction.correction.corrected(planned, limit, extensions)
                }
                PlanBy::Walltimes => Correction::Steps.corrected(planned, limit, extensions),
            };
            by_cluster.push((cluster, job, start + longer));
            if start + longer < end {
                let limits = Limits { planned: longer, extensions: extensions + 1, ..limits };
                self.planning.exceeded.push(Reverse((start + longer, job, cluster, limits)));
            }
        }
        by_cluster.sort_unstable();
        for same in by_cluster.chunk_by(|one, other| one.0 == other.0) {
            let jobs: Vec<(JobId, Time)> = same.iter().map(|(_, job, end)| (*job, *end)).collect();
            let cluster = same[0].0;
            self.federation.scheduler(cluster).extend_running(now, &jobs);
            self.update_next_start(now, cluster);
        }
    }
}

/// The planned runtime, the time limit and the end of a starting job.
pub(super) struct StartedRun {
    pub(super) planned: Span,
    pub(super) limit: Span,
    pub(super) end: Time,
}
