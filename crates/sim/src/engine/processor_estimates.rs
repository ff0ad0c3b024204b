//! A batch system that counts memory, behind a planner that counts processors only ([`Estimates::Processors`]).
//!
//! Jobs wait, start and end as the batch system decides. Estimates and plans are those of a cluster without nodes under the
//! same policy, with the same running and waiting jobs: a job that waits for memory while processors are free is planned to
//! start at once. The planner is made anew from the listing of the batch system when this has changed, so it never keeps an
//! error of an earlier plan. Costs one plan of all waiting jobs for each such change.
//!
//! [`Estimates::Processors`]: crate::Estimates::Processors

use std::sync::Arc;

use pliant_model::{Estimate, JobId, Platform, Procs, Time, Walltimes};
use pliant_policy::UnknownName;
use pliant_policy::batch::order::PriorityParts;
use pliant_policy::batch::{
    BatchScheduler, Dump, LocalPolicy, PresentJobs, RestoreError, Start, Submission, Waiting,
};
use pliant_policy::federation::Federation;
use pliant_policy::tuning::Tuner;

/// A cluster of nodes whose estimates and plans count processors only.
pub(super) struct ProcessorEstimates {
    batch_system: Box<dyn BatchScheduler>,
    /// The same cluster without jobs. It says whether the batch system could ever run a job.
    empty: Box<dyn BatchScheduler>,
    procs: Procs,
    policy: LocalPolicy,
    /// The pool of processors with the jobs of the batch system; none if these have changed since.
    planner: Option<Box<dyn BatchScheduler>>,
}

impl ProcessorEstimates {
    /// Puts a planner in front of each cluster with nodes of a federation that has no jobs yet.
    pub(super) fn put_before(
        federation: &mut Federation,
        platform: &Platform,
        now: Time,
    ) -> Result<(), UnknownName> {
        for (id, cluster) in federation.ids().zip(platform.clusters()) {
            let Some(nodes) = &cluster.nodes else { continue };
            let policy: LocalPolicy = cluster.batch.parse()?;
            let (batch_system, empty) = (policy.scheduler_on(nodes, now)?, policy.scheduler_on(nodes, now)?);
            let procs = cluster.procs;
            federation.replace(
                id,
                Box::new(ProcessorEstimates { batch_system, empty, procs, policy, planner: None }),
            );
        }
        Ok(())
    }

    /// The planner, with the present jobs of the batch system.
    fn planner(&mut self, now: Time) -> &mut dyn BatchScheduler {
        let Self { batch_system, procs, policy, planner, .. } = self;
        // A job that was to start by now waits for memory.
        let present = planner.take().filter(|planner| planner.next_start().is_none_or(|next| next >= now));
        let planner = planner.insert(match present {
            Some(present) => present,
            None => {
                let mut waiting = Vec::new();
                batch_system.list(now, &mut waiting);
                let submission =
                    |Waiting { job, plan }: Waiting| Submission::new(job, plan.procs, plan.walltime);
                let waiting = waiting.into_iter().map(submission).collect();
                let jobs =
                    PresentJobs { running: batch_system.dump().running, waiting, ..PresentJobs::default() };
                policy.scheduler_with(*procs, now, jobs)
            }
        });
        planner.as_mut()
    }

    /// Whether the batch system could ever run a request in the shape of an estimate.
    fn fits(&self, walltimes: &Walltimes<'_>, Estimate { procs, walltime, start }: Estimate) -> bool {
        let job = JobId(0);
        let resources = match walltimes.gpu_sizes() {
            Some(_) => Some(walltimes.resources_with(walltimes.gpus_at(procs, walltime))),
            None => walltimes.resources().cloned(),
        };
        let resources = resources.map(Arc::new);
        let mut empty = self.empty.boxed_clone();
        empty.submit(start, Submission { resources, ..Submission::new(job, procs, walltime) });
        empty.plan(start, job).is_some()
    }
}

impl BatchScheduler for ProcessorEstimates {
    fn submit(&mut self, now: Time, submission: Submission) {
        self.batch_system.submit(now, submission.clone());
        // A job that it could never run has no place in a plan.
        if let Some(planner) = &mut self.planner
            && self.batch_system.plan(now, submission.job).is_some()
        {
            planner.submit(now, submission);
        }
    }

    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize {
        self.planner = None;
        self.batch_system.cancel(now, jobs)
    }

    fn counts_resources(&self) -> bool {
        true
    }

    fn finish(&mut self, now: Time, job: JobId) {
        self.planner = None;
        self.batch_system.finish(now, job);
    }

    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]) {
        self.planner = None;
        self.batch_system.extend_running(now, jobs);
    }

    fn start_due(&mut self, now: Time, started: &mut Vec<Start>) {
        let before = started.len();
        self.batch_system.start_due(now, started);
        if started.len() > before {
            self.planner = None;
        }
    }

    fn next_start(&self) -> Option<Time> {
        self.batch_system.next_start()
    }

    /// A batch system refuses at once what it could never run. Then the estimate is its own, which may be of another size.
    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        let estimate = self.planner(now).estimate(now, walltimes, tuner)?;
        if self.fits(walltimes, estimate) {
            return Some(estimate);
        }
        self.batch_system.estimate(now, walltimes, tuner)
    }

    fn list(&mut self, now: Time, waiting: &mut Vec<Waiting>) {
        self.planner(now).list(now, waiting);
    }

    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        self.planner(now).plan(now, job)
    }

    fn priority(&mut self, now: Time, job: JobId) -> Option<PriorityParts> {
        self.batch_system.priority(now, job)
    }

    fn queue_length(&self) -> usize {
        self.batch_system.queue_length()
    }

    fn dump(&self) -> Dump {
        self.batch_system.dump()
    }

    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError> {
        self.batch_system.restore(now, dump)?;
        self.planner = None;
        Ok(())
    }

    fn boxed_clone(&self) -> Box<dyn BatchScheduler> {
        let Self { batch_system, empty, procs, policy, planner } = self;
        Box::new(ProcessorEstimates {
            batch_system: batch_system.boxed_clone(),
            empty: empty.boxed_clone(),
            procs: *procs,
            policy: *policy,
            planner: planner.as_ref().map(|planner| planner.boxed_clone()),
        })
    }
}
