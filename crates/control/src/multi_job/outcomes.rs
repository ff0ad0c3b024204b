//! What became of batches and their instances.

use std::collections::BTreeSet;

use pliant_model::SpanMs;

use super::{DONE, GIVEN_UP, MultiJob, OpenBatch, SAMPLES_MAX};
use crate::names::Name;
use crate::reason::Cause;

impl MultiJob {
    pub(super) fn recall(&mut self, batch: u32, server: Name, instances: Vec<u32>) {
        for instance in &instances {
            // They are handed out in order.
            self.next = self.next.max(instance + 1);
            self.again.remove(instance);
        }
        self.progress.batches = self.progress.batches.max(batch + 1);
        self.has_got(&server, instances.len() as u64);
        let left = instances.into_iter().collect();
        self.batches.insert(batch, OpenBatch { server, left, waits: false, withdrawn: false });
    }

    pub(super) fn ended(&mut self, batch: u32, instance: u32, completed: bool, took: SpanMs, scale: f64) {
        let Some(batch) = self.batches.get_mut(&batch) else { return };
        if !batch.left.remove(&instance) {
            return;
        }
        if !completed {
            return self.failed(instance);
        }
        self.runtimes.record(&batch.server, took, scale);
        self.fates[instance as usize] = DONE;
        self.progress.done += 1;
    }

    pub(super) fn failed(&mut self, instance: u32) {
        let fate = &mut self.fates[instance as usize];
        if *fate >= self.plan.retries {
            *fate = GIVEN_UP;
            self.progress.failed += 1;
            return;
        }
        *fate += 1;
        self.progress.retried += 1;
        self.again.insert(instance);
        self.unallocated = true;
    }

    /// A server does not take a batch. Of what is wrong with it one instance may be the reason: it is looked for by halves.
    pub(super) fn refused(&mut self, batch: u32, cause: Cause) {
        let Some(OpenBatch { server, left, .. }) = self.batches.remove(&batch) else { return };
        let (first, count) = (left.first().copied(), left.len() as u32);
        self.put_back(left);
        match (cause, first) {
            (Cause::Invalid | Cause::TooLong, Some(instance)) if count == 1 => {
                self.narrowed.remove(&server);
                self.barred.entry(instance).or_default().insert(server);
            }
            (Cause::Invalid | Cause::TooLong, _) => _ = self.narrowed.insert(server, count / 2),
            _ => {
                self.kept.remove(&server);
                if let Some(site) = self.sites.get_mut(&server) {
                    site.refused = true;
                }
            }
        }
    }

    /// Instances that every server has refused which is there.
    pub(super) fn takers_none(&self) -> impl Iterator<Item = u32> {
        let is_refused = |barred: &BTreeSet<Name>| {
            !self.sites.is_empty() && self.sites.keys().all(|site| barred.contains(site))
        };
        let left = self.barred.iter().filter(|(instance, _)| self.again.contains(instance));
        left.filter(move |(_, barred)| is_refused(barred)).map(|(instance, _)| *instance)
    }

    /// True if nothing else is to be done than what servers have refused: until then one may come that takes it.
    pub(super) fn is_rest_barred(&self) -> bool {
        self.batches.is_empty()
            && self.next == self.plan.instances
            && self.again.iter().all(|instance| self.barred.contains_key(instance))
    }

    /// True if nothing has ended well, and nobody takes any of so many instances that it is none of theirs that is at fault.
    pub fn is_refused(&self) -> bool {
        let samples = self.plan.instances.min(SAMPLES_MAX) as usize;
        self.progress.done == 0 && self.barred.len() >= samples && self.takers_none().count() >= samples
    }

    /// Nobody takes an instance that is not handed out.
    pub(super) fn unplaced(&mut self, instance: u32) {
        if self.again.remove(&instance) {
            self.barred.remove(&instance);
            self.fates[instance as usize] = GIVEN_UP;
            self.progress.failed += 1;
        }
    }

    /// Instances that were handed out in vain: that costs no try.
    pub(super) fn put_back(&mut self, instances: BTreeSet<u32>) {
        self.again.extend(instances);
        self.unallocated = true;
    }
}
