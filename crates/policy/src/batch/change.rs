//! A cluster that changes its size or its policy while it has jobs: the plan is made again for the same jobs.

use std::collections::BTreeMap;

use pliant_model::{ClusterNodes, JobId, Procs, Time};

use super::nodes::Part;
use super::order::{PrioritySettings, Shares};
use super::{BatchScheduler, Dump, JobOnNodes, LocalPolicy, RunningJob, Submission};
use crate::UnknownName;

/// The jobs of a cluster that goes on with another size or under another policy.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PresentJobs {
    /// The running jobs. They may have more processors than the cluster has now.
    pub running: Vec<RunningJob>,
    /// The waiting jobs in order of submission. Each fits on the cluster.
    pub waiting: Vec<Submission>,
    /// The state of the queue order before, with the usage of users.
    pub shares: Option<Shares>,
    /// What running jobs have of the nodes, where nodes are distinguished.
    pub on_nodes: Vec<JobOnNodes>,
}

impl LocalPolicy {
    /// A cluster of that many processors under the policy, empty at that time, whose queue order is set by `priority` if it
    /// depends on usage.
    pub fn scheduler_under(
        &self,
        procs: Procs,
        now: Time,
        priority: &PrioritySettings,
    ) -> Box<dyn BatchScheduler> {
        if !self.ordering().order.by_usage() {
            return self.scheduler(procs, now);
        }
        let shares = Some(Shares { since: now, ..Shares::default() }.under(now, priority));
        self.scheduler_with(procs, now, PresentJobs { shares, ..PresentJobs::default() })
    }

    /// A cluster of that many processors under the policy, with these jobs. Where running jobs have more processors than the
    /// cluster, no job is planned until enough of them were to end.
    pub fn scheduler_with(&self, procs: Procs, now: Time, jobs: PresentJobs) -> Box<dyn BatchScheduler> {
        let PresentJobs { running, waiting, shares, .. } = jobs;
        let mut scheduler = self.scheduler(procs, now);
        let running = within(procs, running);
        let mut dump = Dump { running, queued: waiting, shares, ..Dump::default() };
        match scheduler.restore(now, &dump) {
            // The policy chooses among all waiting jobs, in its queue order.
            Ok(()) => scheduler.extend_running(now, &[]),
            // A policy with reservations: the jobs get theirs in order of submission.
            Err(_) => {
                let waiting = std::mem::take(&mut dump.queued);
                scheduler.restore(now, &dump).expect("running jobs within the cluster fit every policy");
                waiting.into_iter().for_each(|job| scheduler.submit(now, job));
            }
        }
        scheduler
    }

    /// The same on nodes. Running jobs whose nodes are not there any more get others.
    ///
    /// # Errors
    ///
    /// As for [`LocalPolicy::scheduler_on`].
    pub fn scheduler_on_with(
        &self,
        nodes: &ClusterNodes,
        now: Time,
        jobs: PresentJobs,
    ) -> Result<Box<dyn BatchScheduler>, UnknownName> {
        let PresentJobs { running, waiting, on_nodes, .. } = jobs;
        let mut scheduler = self.scheduler_on(nodes, now)?;
        let running = within(nodes.procs(), running);
        let on_nodes = remaining(nodes, &running, on_nodes);
        let mut dump = Dump { running, on_nodes, ..Dump::default() };
        if scheduler.restore(now, &dump).is_err() {
            dump.on_nodes.clear();
            scheduler.restore(now, &dump).expect("as many processors as there are fit on any nodes");
        }
        waiting.into_iter().for_each(|job| scheduler.submit(now, job));
        Ok(scheduler)
    }
}

/// What running jobs have of nodes that may have less than when the jobs started: at most what is there, and none twice. Jobs whose
/// processors are elsewhere now are left out.
fn remaining(nodes: &ClusterNodes, running: &[RunningJob], on_nodes: Vec<JobOnNodes>) -> Vec<JobOnNodes> {
    let mut left = super::nodes::all_of(nodes);
    let mut known: BTreeMap<JobId, JobOnNodes> = on_nodes.into_iter().map(|one| (one.job, one)).collect();
    let mut remaining = Vec::new();
    for RunningJob { job, procs, .. } in running {
        let Some(mut one) = known.remove(job) else { continue };
        one.on.retain(|part| (part.node as usize) < left.len());
        for part in &mut one.on {
            part.taken = part.taken.min(left[part.node as usize]);
        }
        let is_node = |part: &&Part| (part.node as usize) < left.len() - nodes.licences.len();
        let cores: u64 = one.on.iter().filter(is_node).map(|part| u64::from(part.taken.cores)).sum();
        if cores >= u64::from(procs.0) {
            for part in &one.on {
                left[part.node as usize] = left[part.node as usize].without(part.taken);
            }
            remaining.push(one);
        }
    }
    remaining
}

/// The running jobs, with as many processors in all as the cluster has. Those that end last count first: at each time
/// the planned processors are those of the running jobs, at most all of the cluster.
fn within(capacity: Procs, mut running: Vec<RunningJob>) -> Vec<RunningJob> {
    running.sort_by_key(|one| (std::cmp::Reverse(one.end), one.job));
    let mut left = capacity.0;
    running.retain_mut(|one| {
        one.procs = Procs(one.procs.0.min(left));
        left -= one.procs.0;
        one.procs > Procs(0)
    });
    running.sort_by_key(|one| one.job);
    running
}
