//! Which servers get how many instances, and which packs they give back.

use std::collections::BTreeMap;

use pliant_policy::allocation::sharing::{LEAST_GAIN, share, stays};
use pliant_policy::allocation::{self, ClusterState, allocate};
use rand::Rng;

use super::{Command, MultiJob};
use crate::names::Name;

impl MultiJob {
    /// Servers were looked at anew: packs that wait there come back if the last of them would end earlier elsewhere.
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
            for (number, pack) in self.packs.iter_mut() {
                let count = pack.left.len() as u64;
                if pack.server != *name || !pack.waits || pack.withdrawn {
                    continue;
                }
                pack.withdrawn = !stays(&mut keeps, count);
                if pack.withdrawn {
                    commands.push(Command::Withdraw { pack: *number });
                }
            }
        }
    }

    /// Spreads what is not handed out, beside the packs that wait.
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
        if self.packs.is_empty() && !self.kept.is_empty() && !self.sites.iter().any(has_share) {
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

    /// The servers that take packs, for an allocation.
    fn usable(&self) -> (Vec<Name>, Vec<ClusterState>) {
        let usable = self.sites.iter().filter(|(_, site)| !site.refused);
        usable.map(|(name, site)| (name.clone(), self.state(name, site))).unzip()
    }

    /// How many instances wait there in packs that are not withdrawn.
    fn waiting_at(&self, names: &[Name]) -> Vec<u64> {
        let mut counts: BTreeMap<&Name, u64> = BTreeMap::new();
        for pack in self.packs.values().filter(|pack| pack.waits && !pack.withdrawn) {
            *counts.entry(&pack.server).or_default() += pack.left.len() as u64;
        }
        names.iter().map(|name| counts.get(name).copied().unwrap_or(0)).collect()
    }
}
