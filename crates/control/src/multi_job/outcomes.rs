//! What became of packs and their instances.

use std::collections::BTreeSet;

use pliant_model::{Span, SpanMs};
use pliant_policy::runtimes::Categories;

use super::{DONE, GIVEN_UP, MultiJob, Pack};
use crate::names::Name;
use crate::reason::Cause;

impl MultiJob {
    pub(super) fn recall(&mut self, pack: u32, server: Name, instances: Vec<u32>) {
        for instance in &instances {
            // They are handed out in order.
            self.next = self.next.max(instance + 1);
            self.again.remove(instance);
        }
        self.progress.packs = self.progress.packs.max(pack + 1);
        let left = instances.into_iter().collect();
        self.packs.insert(pack, Pack { server, left, waits: false, withdrawn: false });
    }

    pub(super) fn ended(&mut self, pack: u32, instance: u32, completed: bool, took: SpanMs) {
        let Some(pack) = self.packs.get_mut(&pack) else { return };
        if !pack.left.remove(&instance) {
            return;
        }
        if !completed {
            return self.failed(instance);
        }
        let of = Categories { executable: Some(pack.server.clone()), user: None, group: None };
        self.runtimes.tell(&of, Span(took.0));
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

    /// A server does not take a pack. Of what is wrong with it one instance may be the reason: it is looked for by halves.
    /// Gives an instance that no server takes.
    pub(super) fn refused(&mut self, pack: u32, cause: Cause) -> Option<u32> {
        let Pack { server, left, .. } = self.packs.remove(&pack)?;
        let (first, count) = (left.first().copied(), left.len() as u32);
        self.put_back(left);
        match (cause, first) {
            (Cause::Invalid | Cause::TooLong, Some(instance)) if count == 1 => {
                self.narrowed.remove(&server);
                let barred = self.barred.entry(instance).or_default();
                barred.insert(server);
                let is_unplaced =
                    !self.sites.is_empty() && self.sites.keys().all(|site| barred.contains(site));
                return is_unplaced.then_some(instance);
            }
            (Cause::Invalid | Cause::TooLong, _) => _ = self.narrowed.insert(server, count / 2),
            _ => {
                self.kept.remove(&server);
                if let Some(site) = self.sites.get_mut(&server) {
                    site.refused = true;
                }
            }
        }
        None
    }

    /// Instances that were handed out in vain: that costs no try.
    pub(super) fn put_back(&mut self, instances: BTreeSet<u32>) {
        self.again.extend(instances);
        self.unallocated = true;
    }
}
