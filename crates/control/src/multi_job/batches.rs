//! Which instances go out in one job.

use std::collections::BTreeMap;

use pliant_policy::allocation::instance_batches::{NextBatch, window};
use pliant_policy::allocation::instances::Expected;
use rand::Rng;

use super::{Command, MultiJob, OpenBatch, Site};
use crate::names::Name;

impl MultiJob {
    /// Hands out what the servers' shares and the batches that they have allow.
    pub(super) fn hand_out(&mut self, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        if self.waiting() == 0 {
            // Somebody has nothing left to do while batches wait elsewhere.
            if self.may_withdraw() {
                commands.push(Command::Look);
            }
            return;
        }
        if self.unallocated {
            self.allocate(rng, commands);
        }
        let mut open: BTreeMap<Name, usize> = BTreeMap::new();
        self.batches.values().for_each(|batch| *open.entry(batch.server.clone()).or_default() += 1);
        self.hand_out_refused(&mut open, commands);
        let names: Vec<Name> = self.sites.keys().cloned().collect();
        let mut is_idle = self.unallocated;
        for name in names {
            let soon = self.sites[&name].prospects.soon();
            let open = open.entry(name.clone()).or_default();
            while *open < window(soon)
                && let Some(batch) = self.batch_size(&name).and_then(|size| self.batch(&name, size))
            {
                commands.push(batch);
                *open += 1;
            }
            is_idle |= !self.plan.once && *open < soon as usize && self.sites[&name].share == 0;
        }
        // Somebody has nothing left to do while others have: their shares were not what they are worth.
        if is_idle && self.waiting() > 0 {
            commands.push(Command::Look);
        }
    }

    /// Whether a server is idle while a batch may wait at another one.
    fn may_withdraw(&self) -> bool {
        let is_busy = |server: &Name| self.sites.get(server).is_some_and(|site| site.prospects.soon() == 0);
        let waits = |batch: &OpenBatch| !batch.withdrawn && (batch.waits || is_busy(&batch.server));
        let has_batches = |name: &Name| self.batches.values().any(|batch| batch.server == *name);
        let is_idle = |(name, site): (&Name, &Site)| site.prospects.soon() > 0 && !has_batches(name);
        !self.plan.once && self.batches.values().any(waits) && self.sites.iter().any(is_idle)
    }

    /// How many instances the next batch of a server has; none if it has no share left.
    fn batch_size(&self, name: &Name) -> Option<u64> {
        let Site { prospects, share, .. } = &self.sites[name];
        let Expected { time: instance, source } = self.expected(name, prospects);
        let next = NextBatch {
            share: *share,
            places: prospects.places(),
            instance,
            is_known: source.is_of_service(),
            most: self.plan.batch_most,
            // By its walltime, and by what it has refused.
            taken: prospects.batch_most.into_iter().chain(self.narrowed.get(name).copied()).min(),
        };
        next.size()
    }

    /// None if nothing is left but what some server has refused alone.
    fn batch(&mut self, name: &Name, size: u64) -> Option<Command> {
        let mut instances = Vec::with_capacity(size as usize);
        while (instances.len() as u64) < size
            && let Some(instance) = self.first_left()
        {
            instances.push(instance);
            if !self.again.remove(&instance) {
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
        self.has_got(name, count);
        let batch = self.progress.batches;
        self.progress.batches += 1;
        let left = instances.iter().copied().collect();
        self.batches.insert(batch, OpenBatch { server: name.clone(), left, waits: false, withdrawn: false });
        Command::Submit { batch, server: name.clone(), instances }
    }

    /// A server has got so many of what is kept for it.
    pub(super) fn has_got(&mut self, server: &Name, count: u64) {
        if let Some(kept) = self.kept.get_mut(server) {
            *kept = kept.saturating_sub(count);
        }
    }

    /// Instances that some server has refused alone go out alone, to one that has not and has room, whatever its share.
    fn hand_out_refused(&mut self, open: &mut BTreeMap<Name, usize>, commands: &mut Vec<Command>) {
        let left: Vec<u32> = self.barred.keys().filter(|one| self.again.contains(one)).copied().collect();
        for instance in left {
            let barred = &self.barred[&instance];
            let count = |name: &Name| open.get(name).copied().unwrap_or(0);
            let has_room = |(name, site): &(&Name, &Site)| {
                let is_usable = !site.refused && site.prospects.places() > 0 && !barred.contains(*name);
                is_usable && count(name) < window(site.prospects.soon())
            };
            let able = self.sites.iter().filter(has_room).map(|(name, _)| name);
            let Some(name) = able.min_by_key(|name| count(name)).cloned() else { continue };
            self.again.remove(&instance);
            *open.entry(name.clone()).or_default() += 1;
            commands.push(self.submit(&name, vec![instance]));
        }
    }
}
