//! Sibling jobs in a direct simulation: the first sibling to start runs, and all others are withdrawn at once.
//!
//! Ties within one instant must be broken as by servers that request start permits from each other ([`crate::protocol`]).
//! Clusters start jobs in their order, each all jobs that are due there. If a sibling is due on a cluster that starts later,
//! that cluster hands its due jobs out early: the sibling is withdrawn, the others wait for the cluster's own start.
//! (`control::embedded` does the same.)

use std::borrow::Borrow;

use pliant_model::{ClusterId, JobId, Time};
use pliant_policy::batch::Start;
use pliant_policy::reallocation::{Algorithm, Move, siblings};
use rustc_hash::FxHashMap;

use super::Engine;
use crate::{Policies, SimJob};

/// The siblings of waiting jobs.
pub(super) struct Siblings {
    /// The siblings of each waiting job that has some.
    of: FxHashMap<JobId, Vec<Move>>,
    /// Jobs that arrived at this instant.
    arrived: Vec<JobId>,
    /// By cluster: jobs handed out before its own start.
    early: Vec<Vec<Start>>,
}

impl Siblings {
    pub(super) fn new(clusters: usize) -> Siblings {
        Siblings { of: FxHashMap::default(), arrived: Vec::new(), early: vec![Vec::new(); clusters] }
    }

    /// Records the arrival of a job, if jobs get siblings.
    pub(super) fn arrived(&mut self, job: JobId, policies: &Policies) {
        if policies.reallocation.is_some_and(|policy| policy.algorithm == Algorithm::Siblings) {
            self.arrived.push(job);
        }
    }

    /// True if no waiting job has a sibling.
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// True if a cluster has jobs that were handed out early.
    pub(super) fn is_due(&self, cluster: ClusterId) -> bool {
        !self.early[cluster.index()].is_empty()
    }

    /// Takes the jobs that were handed out early.
    pub(super) fn take_early(&mut self, cluster: ClusterId, started: &mut Vec<Start>) {
        started.append(&mut self.early[cluster.index()]);
    }
}

impl<I> Engine<'_, I>
where
    I: Iterator,
    I::Item: Borrow<SimJob>,
{
    /// Queues siblings of the jobs that have arrived and wait, and starts those that can start.
    pub(super) fn submit_siblings(&mut self, now: Time) {
        if self.siblings.arrived.is_empty() {
            return;
        }
        for job in std::mem::take(&mut self.siblings.arrived) {
            let made = siblings::submit_siblings(&mut self.federation, now, job);
            if !made.is_empty() {
                self.siblings.of.insert(job, made);
            }
        }
        for cluster in self.federation.ids() {
            self.update_next_start(now, cluster);
        }
        self.start_due(now);
    }

    /// Starts the due jobs of a cluster: its own jobs first, then siblings, whose original jobs are withdrawn.
    pub(super) fn start_first(&mut self, now: Time, cluster: ClusterId, started: &mut Vec<Start>) {
        let mut started_siblings = Vec::new();
        for start in started.drain(..) {
            let siblings = self.siblings.of.remove(&start.job).unwrap_or_default();
            match siblings.iter().position(|sibling| sibling.to == cluster) {
                Some(position) => {
                    self.withdraw(now, start.job, siblings[position].from);
                    started_siblings.push((start, siblings, position));
                }
                None => {
                    self.start(now, cluster, start, None);
                    siblings.iter().for_each(|sibling| self.withdraw(now, sibling.job, sibling.to));
                }
            }
        }
        for (start, mut siblings, position) in started_siblings {
            let sibling = siblings.remove(position);
            self.start(now, cluster, start, Some(&sibling));
            siblings.iter().for_each(|other| self.withdraw(now, other.job, other.to));
        }
    }

    /// Withdraws a job or a sibling from a cluster.
    fn withdraw(&mut self, now: Time, job: JobId, cluster: ClusterId) {
        let scheduler = self.federation.scheduler(cluster);
        if scheduler.cancel(now, &[job]) == 0 {
            let early = &mut self.siblings.early[cluster.index()];
            scheduler.start_due(now, early);
            early.retain(|start| start.job != job);
            scheduler.finish(now, job);
        }
        self.update_next_start(now, cluster);
    }
}
