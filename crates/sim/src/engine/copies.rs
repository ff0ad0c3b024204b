//! Copies in a direct simulation: of a job and its copies the first to start runs, and all others are gone at once.
//!
//! Which is the first among those of one instant has to be the same as with servers that ask one another
//! ([`crate::protocol`]): clusters take turns in their order, and whoever has its turn starts all that is due there. A
//! job that has come due on a cluster whose turn is still to come is handed out there and is gone in the same
//! instant; what else is handed out with it waits for that turn. (`control::embedded` does the same.)

use std::borrow::Borrow;

use pliant_model::{ClusterId, JobId, Time};
use pliant_policy::batch::Start;
use pliant_policy::reallocation::{Algorithm, Move, siblings};
use rustc_hash::FxHashMap;

use super::Engine;
use crate::{Policies, SimJob};

/// What is known of copies.
pub(super) struct Copies {
    /// Those of every job that waits and has some.
    of: FxHashMap<JobId, Vec<Move>>,
    /// Jobs that have arrived at this instant.
    arrived: Vec<JobId>,
    /// By cluster: jobs that were handed out before its turn.
    early: Vec<Vec<Start>>,
}

impl Copies {
    pub(super) fn new(clusters: usize) -> Copies {
        Copies { of: FxHashMap::default(), arrived: Vec::new(), early: vec![Vec::new(); clusters] }
    }

    /// A job has come that may have copies.
    pub(super) fn arrived(&mut self, job: JobId, policies: &Policies) {
        if policies.reallocation.is_some_and(|policy| policy.algorithm == Algorithm::Siblings) {
            self.arrived.push(job);
        }
    }

    /// True if no job that waits has a copy.
    pub(super) fn are_none(&self) -> bool {
        self.of.is_empty()
    }

    /// True if a cluster has to have its turn for what was handed out early.
    pub(super) fn is_due(&self, cluster: ClusterId) -> bool {
        !self.early[cluster.index()].is_empty()
    }

    /// Takes what was handed out before the cluster's turn.
    pub(super) fn handed_out(&mut self, cluster: ClusterId, started: &mut Vec<Start>) {
        started.append(&mut self.early[cluster.index()]);
    }
}

impl<I> Engine<'_, I>
where
    I: Iterator,
    I::Item: Borrow<SimJob>,
{
    /// Queues copies of the jobs that have arrived and wait, and starts what starts by that.
    pub(super) fn spread_copies(&mut self, now: Time) {
        if self.copies.arrived.is_empty() {
            return;
        }
        for job in std::mem::take(&mut self.copies.arrived) {
            let made = siblings::submit_siblings(&mut self.federation, now, job);
            if !made.is_empty() {
                self.copies.of.insert(job, made);
            }
        }
        for cluster in self.federation.ids() {
            self.changed(now, cluster);
        }
        self.start_due(now);
    }

    /// A cluster starts jobs and copies. It starts its own jobs at once, and asks about copies; so in the second pass all
    /// of these are withdrawn where they wait themselves.
    pub(super) fn start_first(&mut self, now: Time, cluster: ClusterId, started: &mut Vec<Start>) {
        let mut won = Vec::new();
        for start in started.drain(..) {
            let copies = self.copies.of.remove(&start.job).unwrap_or_default();
            match copies.iter().position(|copy| copy.to == cluster) {
                Some(place) => {
                    self.retract(now, start.job, copies[place].from);
                    won.push((start, copies, place));
                }
                None => {
                    self.start(now, cluster, start, None);
                    copies.iter().for_each(|copy| self.retract(now, copy.job, copy.to));
                }
            }
        }
        for (start, mut copies, place) in won {
            let copy = copies.remove(place);
            self.start(now, cluster, start, Some(&copy));
            copies.iter().for_each(|other| self.retract(now, other.job, other.to));
        }
    }

    /// A job or a copy is no longer wanted on a cluster.
    fn retract(&mut self, now: Time, job: JobId, cluster: ClusterId) {
        let scheduler = self.federation.scheduler(cluster);
        if scheduler.cancel(now, &[job]) == 0 {
            let early = &mut self.copies.early[cluster.index()];
            scheduler.start_due(now, early);
            early.retain(|start| start.job != job);
            scheduler.finish(now, job);
        }
        self.changed(now, cluster);
    }
}
