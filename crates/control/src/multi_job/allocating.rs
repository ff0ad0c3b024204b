//! Which servers get how many instances, and which batches they give back.

use std::collections::BTreeMap;

use pliant_policy::allocation::sharing::{LEAST_GAIN, share, stays};
use pliant_policy::allocation::{self, ClusterState, allocate};
use rand::Rng;

use super::{Command, MultiJob};
use crate::names::Name;

impl MultiJob {
    /// Servers were looked at anew: batches that wait there come back if the last of them would end earlier elsewhere.
    pub(super) fn reallocate_instances(&mut self, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        if self.plan.once {
            return;
        }
        let (names, states) = self.usable();
        let waiting = self.waiting_at(&names);
        let strategy = self.plan.strategy;
        let better =
            allocation::reallocate_instances(strategy, &states, &waiting, self.waiting(), LEAST_GAIN, rng);
        let Some(better) = better else { return };
        for (name, keeps) in names.iter().zip(better.instances) {
            let mut keeps = keeps;
            for (number, batch) in self.batches.iter_mut() {
                let count = batch.left.len() as u64;
                if batch.server != *name || !batch.waits || batch.withdrawn {
                    continue;
                }
                batch.withdrawn = !stays(&mut keeps, count);
                if batch.withdrawn {
                    commands.push(Command::Withdraw { batch: *number });
                }
            }
        }
    }

    /// Spreads what is not handed out, beside the batches that wait.
    pub(super) fn allocate(&mut self, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        if self.plan.once {
            return self.allocate_once(rng, commands);
        }
        let (names, states) = self.usable();
        let waiting = self.waiting_at(&names);
        self.sites.values_mut().for_each(|site| site.share = 0);
        let Some(shares) = share(self.plan.strategy, states, &waiting, self.waiting(), rng) else { return };
        for (name, share) in names.iter().zip(shares) {
            if let Some(site) = self.sites.get_mut(name) {
                site.share = share;
            }
        }
        self.unallocated = false;
    }

    /// Spreads what no server has got yet: what one has stays its own, also while it is away.
    fn allocate_once(&mut self, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        let (names, states) = self.usable();
        let has_share = |(name, site): (&Name, &super::Site)| !site.refused && self.kept.contains_key(name);
        if self.batches.is_empty() && !self.kept.is_empty() && !self.sites.iter().any(has_share) {
            // Nobody is there for whom anything was kept.
            self.kept.clear();
            commands.push(Command::Keep { shares: BTreeMap::new() });
        }
        let new = self.waiting().saturating_sub(self.kept.values().sum());
        let Some(found) = allocate(self.plan.strategy, &states, new, rng) else { return };
        for (name, count) in names.into_iter().zip(found.instances).filter(|(_, count)| *count > 0) {
            *self.kept.entry(name).or_default() += count;
        }
        if new > 0 {
            commands.push(Command::Keep { shares: self.kept.clone() });
        }
        for (name, site) in &mut self.sites {
            site.share = if site.refused { 0 } else { self.kept.get(name).copied().unwrap_or(0) };
        }
        self.unallocated = false;
    }

    /// The servers that take batches, for an allocation.
    fn usable(&self) -> (Vec<Name>, Vec<ClusterState>) {
        let usable = self.sites.iter().filter(|(_, site)| !site.refused);
        usable.map(|(name, site)| (name.clone(), self.state(name, site))).unzip()
    }

    /// How many instances wait there in batches that are not withdrawn.
    fn waiting_at(&self, names: &[Name]) -> Vec<u64> {
        let mut counts: BTreeMap<&Name, u64> = BTreeMap::new();
        for batch in self.batches.values().filter(|batch| batch.waits && !batch.withdrawn) {
            *counts.entry(&batch.server).or_default() += batch.left.len() as u64;
        }
        names.iter().map(|name| counts.get(name).copied().unwrap_or(0)).collect()
    }
}
