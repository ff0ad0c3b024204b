//! The outcomes of batches and their instances.

use std::collections::BTreeSet;

use pliant_model::SpanMs;

use super::{DONE, GIVEN_UP, MultiJob, OpenBatch, SAMPLES_MAX};
use crate::names::Name;
use crate::reason::Cause;

impl MultiJob {
    pub(super) fn restore_batch(&mut self, batch: u32, server: Name, instances: Vec<u32>) {
        for instance in &instances {
            // Instances are submitted in order.
            self.next = self.next.max(instance + 1);
            self.returned.remove(instance);
        }
        self.progress.batches = self.progress.batches.max(batch + 1);
        self.count_submitted(&server, instances.len() as u64);
        let left = instances.into_iter().collect();
        self.batches.insert(batch, OpenBatch::new(server, left));
    }

    pub(super) fn ended(&mut self, batch: u32, instance: u32, completed: bool, took: SpanMs, scale: f64) {
        let Some(batch) = self.batches.get_mut(&batch) else { return };
        if !batch.left.remove(&instance) {
            return;
        }
        if !completed {
            return self.did_not_complete(instance, false);
        }
        self.runtimes.record(&batch.server, took, scale);
        self.outcomes[instance as usize] = DONE;
        self.progress.done += 1;
    }

    fn gives_up(&mut self, instance: u32) {
        self.outcomes[instance as usize] = GIVEN_UP;
        self.progress.failed += 1;
    }

    /// Handles an instance that failed, or that was lost.
    pub(super) fn did_not_complete(&mut self, instance: u32, lost: bool) {
        match self.plan.lost_only && !lost {
            true => self.gives_up(instance),
            false => self.runs_again(instance),
        }
    }

    fn runs_again(&mut self, instance: u32) {
        let outcome = &mut self.outcomes[instance as usize];
        if *outcome >= self.plan.retries {
            return self.gives_up(instance);
        }
        *outcome += 1;
        self.progress.retried += 1;
        self.returned.insert(instance);
        self.unallocated = true;
    }

    /// Handles a refused batch. One of its instances may be the cause: bisection finds it.
    pub(super) fn refused(&mut self, batch: u32, cause: Cause) {
        let Some(OpenBatch { server, left, is_accepted, .. }) = self.batches.remove(&batch) else { return };
        let (first, count) = (left.first().copied(), left.len() as u32);
        self.return_instances(left);
        if cause == Cause::Deadline {
            return self.refused_by_deadline(&server, count, is_accepted);
        }
        match first.filter(|_| cause.is_of_work()) {
            Some(instance) if count == 1 => {
                self.batch_limits.remove(&server);
                self.refused_by.entry(instance).or_default().insert(server);
            }
            Some(_) => _ = self.batch_limits.insert(server, count / 2),
            None => {
                self.fixed_shares.remove(&server);
                if let Some(site) = self.sites.get_mut(&server) {
                    site.refused = true;
                }
            }
        }
    }

    /// Waiting instances that every known server has refused.
    pub(super) fn refused_everywhere(&self) -> impl Iterator<Item = u32> {
        let is_refused = |refusers: &BTreeSet<Name>| {
            !self.sites.is_empty()
                && self.sites.keys().all(|site| refusers.contains(site) || self.is_late(site))
        };
        let left = self.refused_by.iter().filter(|(instance, _)| self.returned.contains(instance));
        left.filter(move |(_, refusers)| is_refused(refusers)).map(|(instance, _)| *instance)
    }

    /// True if only refused instances are left: they wait for a further server.
    pub(super) fn is_rest_refused(&self) -> bool {
        self.batches.is_empty()
            && self.next == self.plan.instances
            && self.returned.iter().all(|instance| self.refused_by.contains_key(instance))
    }

    /// True if no instance is done, and so many were refused that the cause is not a single instance.
    pub fn is_refused(&self) -> bool {
        let samples = self.plan.instances.min(SAMPLES_MAX) as usize;
        self.progress.done == 0
            && self.refused_by.len() >= samples
            && self.refused_everywhere().count() >= samples
    }

    /// Records that no server takes a waiting instance: it has failed.
    pub(super) fn unplaced(&mut self, instance: u32) {
        if self.returned.remove(&instance) {
            self.refused_by.remove(&instance);
            self.gives_up(instance);
        }
    }

    /// Returns instances of a batch that did not run: that costs no retry.
    pub(super) fn return_instances(&mut self, instances: BTreeSet<u32>) {
        self.returned.extend(instances);
        self.unallocated = true;
    }
}
