//! Allocation of instances to servers, and withdrawal of batches.

use std::collections::BTreeMap;

use pliant_policy::allocation::sharing::{LEAST_GAIN, share, stays};
use pliant_policy::allocation::{self, ClusterState, allocate};
use rand::Rng;

use super::{Command, MultiJob};
use crate::names::Name;

impl MultiJob {
    /// Withdraws waiting batches after a new report of the servers, if the last of them would end earlier on other servers.
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
                if batch.server != *name || !batch.is_waiting || batch.withdrawn {
                    continue;
                }
                batch.withdrawn = !stays(&mut keeps, count);
                if batch.withdrawn {
                    commands.push(Command::Withdraw { batch: *number });
                }
            }
        }
    }

    /// Allocates the waiting instances, in addition to the batches that wait.
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

    /// Allocates the instances that no server has got yet. A server keeps its instances, also while it is down.
    fn allocate_once(&mut self, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        let (names, states) = self.usable();
        let has_share = |(name, site): (&Name, &super::ServerShare)| {
            !site.refused && self.fixed_shares.contains_key(name)
        };
        if self.batches.is_empty() && !self.fixed_shares.is_empty() && !self.sites.iter().any(has_share) {
            // No server with a fixed share is up.
            self.fixed_shares.clear();
            commands.push(Command::RecordShares { shares: BTreeMap::new() });
        }
        let new = self.waiting().saturating_sub(self.fixed_shares.values().sum());
        let Some(found) = allocate(self.plan.strategy, &states, new, rng) else { return };
        for (name, count) in names.into_iter().zip(found.instances).filter(|(_, count)| *count > 0) {
            *self.fixed_shares.entry(name).or_default() += count;
        }
        if new > 0 {
            commands.push(Command::RecordShares { shares: self.fixed_shares.clone() });
        }
        for (name, site) in &mut self.sites {
            site.share = if site.refused { 0 } else { self.fixed_shares.get(name).copied().unwrap_or(0) };
        }
        self.unallocated = false;
    }

    /// The servers that take batches, for an allocation.
    fn usable(&self) -> (Vec<Name>, Vec<ClusterState>) {
        let usable = self.sites.iter().filter(|(name, site)| !site.refused && !self.is_late(name));
        usable.map(|(name, site)| (name.clone(), self.state(name, site))).unzip()
    }

    /// The instances that wait on each server in batches that are not withdrawn.
    fn waiting_at(&self, names: &[Name]) -> Vec<u64> {
        let mut counts: BTreeMap<&Name, u64> = BTreeMap::new();
        for batch in self.batches.values().filter(|batch| batch.is_waiting && !batch.withdrawn) {
            *counts.entry(&batch.server).or_default() += batch.left.len() as u64;
        }
        names.iter().map(|name| counts.get(name).copied().unwrap_or(0)).collect()
    }
}
