//! The batches of instances that are submitted as one job.

use std::collections::BTreeMap;

use pliant_policy::allocation::instance_batches::{NextBatch, window};
use pliant_policy::allocation::instances::Expected;
use rand::Rng;

use super::{Command, MultiJob, OpenBatch, ServerShare};
use crate::names::Name;

impl MultiJob {
    /// Submits batches as the servers' shares and open batches allow.
    pub(super) fn submit_batches(&mut self, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        if self.waiting() == 0 {
            // A server is idle while batches wait on others.
            if self.may_withdraw() {
                commands.push(Command::QueryServers);
            }
            return;
        }
        if self.unallocated {
            self.allocate(rng, commands);
        }
        let mut open: BTreeMap<Name, usize> = BTreeMap::new();
        self.batches.values().for_each(|batch| *open.entry(batch.server.clone()).or_default() += 1);
        self.submit_refused(&mut open, commands);
        let names: Vec<Name> = self.sites.keys().cloned().collect();
        // Late servers are idle on purpose.
        let may_take = self.sites.is_empty() || self.sites.keys().any(|name| !self.is_late(name));
        let mut is_idle = self.unallocated && may_take;
        for name in names {
            let soon = self.sites[&name].prospects.free_soon();
            let open = open.entry(name.clone()).or_default();
            while *open < window(soon)
                && self.may_open()
                && self.may_ask(&name)
                && let Some(batch) = self.batch_size(&name).and_then(|size| self.batch(&name, size))
            {
                commands.push(batch);
                *open += 1;
            }
            let has_none = *open < soon as usize && self.sites[&name].share == 0;
            is_idle |= !self.plan.once && has_none && !self.is_late(&name);
        }
        // A server is idle while others have a share: the shares did not match the servers' speeds. While no more batches may be
        // open, servers are idle on purpose.
        if is_idle && self.waiting() > 0 && self.may_open() {
            commands.push(Command::QueryServers);
        }
    }

    /// True if the user lets one more batch be open.
    fn may_open(&self) -> bool {
        self.plan.at_once.is_none_or(|most| self.batches.len() < most as usize)
    }

    /// True if a server is idle while a batch may wait on another one.
    fn may_withdraw(&self) -> bool {
        let is_busy =
            |server: &Name| self.sites.get(server).is_some_and(|site| site.prospects.free_soon() == 0);
        let waits = |batch: &OpenBatch| !batch.withdrawn && (batch.is_waiting || is_busy(&batch.server));
        let has_batches = |name: &Name| self.batches.values().any(|batch| batch.server == *name);
        let is_idle =
            |(name, site): (&Name, &ServerShare)| site.prospects.free_soon() > 0 && !has_batches(name);
        !self.plan.once && self.batches.values().any(waits) && self.sites.iter().any(is_idle)
    }

    /// The size of the next batch for a server; none without a share.
    fn batch_size(&self, name: &Name) -> Option<u64> {
        let ServerShare { prospects, share, .. } = &self.sites[name];
        let Expected { time: instance, source } = self.expected(name, prospects);
        let next = NextBatch {
            share: *share,
            slots: prospects.slots(),
            instance,
            is_known: source.is_of_service(),
            most: self.plan.batch_most,
            // The limits by the server's longest walltime and by its refusals.
            taken: [&self.batch_limits, &self.deadline_limits]
                .into_iter()
                .filter_map(|limits| limits.get(name).copied())
                .chain(prospects.batch_most)
                .min(),
        };
        next.size()
    }

    /// Makes a batch; none if only refused instances are left.
    fn batch(&mut self, name: &Name, size: u64) -> Option<Command> {
        let mut instances = Vec::with_capacity(size as usize);
        while (instances.len() as u64) < size
            && let Some(instance) = self.first_waiting()
        {
            instances.push(instance);
            if !self.returned.remove(&instance) {
                self.next += 1;
            }
        }
        (!instances.is_empty()).then(|| self.submit(name, instances))
    }

    fn submit(&mut self, name: &Name, instances: Vec<u32>) -> Command {
        let count = instances.len() as u64;
        if let Some(site) = self.sites.get_mut(name) {
            site.share = site.share.saturating_sub(count);
        }
        self.count_submitted(name, count);
        let batch = self.progress.batches;
        self.progress.batches += 1;
        let left = instances.iter().copied().collect();
        self.batches.insert(batch, OpenBatch::new(name.clone(), left));
        Command::Submit { batch, server: name.clone(), instances }
    }

    /// Counts instances as submitted in the server's fixed share.
    pub(super) fn count_submitted(&mut self, server: &Name, count: u64) {
        if let Some(kept) = self.fixed_shares.get_mut(server) {
            *kept = kept.saturating_sub(count);
        }
    }

    /// Submits refused instances alone, each to a server that has not refused it and has a free slot, whatever its share.
    fn submit_refused(&mut self, open: &mut BTreeMap<Name, usize>, commands: &mut Vec<Command>) {
        let left: Vec<u32> =
            self.refused_by.keys().filter(|one| self.returned.contains(one)).copied().collect();
        for instance in left {
            let refusers = &self.refused_by[&instance];
            let count = |name: &Name| open.get(name).copied().unwrap_or(0);
            let has_free_slots = |(name, site): &(&Name, &ServerShare)| {
                let is_usable = !site.refused && site.prospects.slots() > 0 && !refusers.contains(*name);
                let is_asked = self.may_open() && self.may_ask(name);
                is_usable && is_asked && count(name) < window(site.prospects.free_soon())
            };
            let able = self.sites.iter().filter(has_free_slots).map(|(name, _)| name);
            let Some(name) = able.min_by_key(|name| count(name)).cloned() else { continue };
            self.returned.remove(&instance);
            *open.entry(name.clone()).or_default() += 1;
            commands.push(self.submit(&name, vec![instance]));
        }
    }
}
