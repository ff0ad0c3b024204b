//! Starts of jobs: what the policy starts waits for its processors, and gets what it needs besides.

use std::collections::BTreeSet;

use pliant_model::{JobId, Procs, Time};
use pliant_policy::batch::{Start, Submission};

use super::host::{Given, Taken};
use super::{Embedded, Started};
use crate::batch::{Effects, StatusUpdate};

impl Embedded {
    /// Collects the jobs that the policy starts now.
    pub(super) fn collect_starts(&mut self, now: Time) {
        let mut starts = std::mem::take(&mut self.start_buffer);
        self.scheduler.start_due(now, &mut starts);
        for Start { job, procs, walltime } in starts.drain(..) {
            let queued = self.queued.get(&job);
            let asked = queued.map_or(procs, |one| one.procs);
            let resources = queued.and_then(|one| one.resources.clone());
            let started = Started { resources, ..Started::new(asked, procs, walltime, now) };
            // Now, since the policy forgets a job that outlives its plan. Where any nodes will do it has planned none.
            let has_plan = self.host.is_some() && self.scheduler.allocation(job).is_some();
            let taken = if has_plan { self.taken(job, &started) } else { None };
            self.started.insert(job, Started { taken, ..started });
            self.pending.push_back(job);
        }
        self.start_buffer = starts;
    }

    /// Starts pending jobs on free processors, strictly in order.
    pub(super) fn run_pending(&mut self, now: Time, effects: &mut Effects) {
        while let Some(job) = self.pending.front().copied() {
            let Some(started) = self.started.get(&job) else {
                self.pending.pop_front();
                continue;
            };
            if self.free.len() < started.procs.0 as usize {
                break;
            }
            let taken = started.taken.clone().or_else(|| self.taken(job, started));
            let given = match (&self.host, &taken) {
                (Some(host), Some(taken)) => host.give(started.procs, taken, &self.free, self.running()),
                _ => {
                    let cores = self.free.iter().copied().take(started.procs.0 as usize).collect();
                    Some(Given { cores, gpus: Vec::new() })
                }
            };
            let (Some(Given { cores, gpus }), Some(started)) = (given, self.started.get_mut(&job)) else {
                break;
            };
            self.pending.pop_front();
            self.queued.remove(&job);
            (started.taken, started.gpus, started.cores) = (taken, gpus, cores);
            for core in &started.cores {
                self.free.remove(core);
            }
            self.priorities.remove(&job);
            match self.tentative.contains(&job) {
                true => effects.updates.push(StatusUpdate::Ready { job }),
                false => started.run(now, job, effects),
            }
        }
    }

    /// What a job is to have besides processors, if that is counted.
    fn taken(&self, job: JobId, started: &Started) -> Option<Taken> {
        let (host, resources) = (self.host.as_ref()?, started.resources.as_deref());
        Some(host.taken(started.procs, resources, self.scheduler.allocation(job), self.running()))
    }

    /// The jobs that have processors.
    fn running(&self) -> impl Iterator<Item = &Started> {
        self.started.values().filter(|started| !started.cores.is_empty())
    }

    /// Whether a job could run here if there were no others.
    pub(super) fn could_run(&self, job: &Submission) -> bool {
        let resources = job.resources.as_deref();
        job.procs <= self.procs
            && match &self.host {
                Some(host) => host.could_run(job.procs, resources),
                None => resources.is_none_or(|resources| resources.is_one_node_of(job.procs)),
            }
    }

    /// Gives a waiting job processors that are free, and beyond these ones that the cluster does not have: those that other jobs hold.
    pub(super) fn start_anyway(&mut self, now: Time, job: JobId) {
        let waits = self.held.remove(&job).or_else(|| self.too_large.remove(&job));
        let Some(submission) = waits.or_else(|| self.queued.remove(&job)) else { return };
        let Submission { procs, walltime, resources, .. } = submission;
        self.tentative.remove(&job);
        self.pending.retain(|other| *other != job);
        let started = Started { resources, ..Started::new(procs, procs, walltime, now) };
        let taken = self.taken(job, &started);
        let given = self.host.as_ref().zip(taken.as_ref());
        let given = given.and_then(|(host, taken)| host.give(procs, taken, &self.free, self.running()));
        let cores = given.map_or_else(|| self.cores_anyway(procs), |given| given.cores);
        let gpus = match (&self.host, &taken) {
            (Some(host), Some(taken)) => host.gpus_of_running(taken, self.running()),
            _ => Vec::new(),
        };
        self.started.insert(job, Started { taken, gpus, cores, ..started });
        self.plan_again(now);
    }

    /// Free processors, and others that the cluster does not have.
    fn cores_anyway(&self, procs: Procs) -> Vec<u32> {
        let in_use: BTreeSet<u32> =
            self.started.values().flat_map(|started| &started.cores).copied().collect();
        let beyond = (self.procs.0..).filter(|core| !in_use.contains(core));
        self.free.iter().copied().chain(beyond).take(procs.0 as usize).collect()
    }
}
