//! Which instances go out in one job.

use std::collections::BTreeMap;

use rand::Rng;

use super::{Command, MultiJob, Pack, Site};
use crate::names::Name;

/// How long a pack is to take, in milliseconds: much longer than a job's own cost, and no longer than one waits gladly.
pub const PACK_MS: i64 = 30_000;
/// As long as no job of the service tells how long an instance takes, a pack has no more than so many.
const UNKNOWN_MOST: u64 = 4;
/// A server has at most so many packs, however large it is.
const OPEN_MOST: usize = 1_000;

impl MultiJob {
    /// Hands out what the servers' shares and the packs that they have allow.
    pub(super) fn hand_out(&mut self, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        if self.waiting() == 0 {
            // Somebody has nothing left to do while packs wait elsewhere.
            if self.may_withdraw() {
                commands.push(Command::Look);
            }
            return;
        }
        if self.unallocated {
            self.allocate(rng, commands);
        }
        let mut open: BTreeMap<Name, usize> = BTreeMap::new();
        self.packs.values().for_each(|pack| *open.entry(pack.server.clone()).or_default() += 1);
        self.hand_out_refused(&mut open, commands);
        let names: Vec<Name> = self.sites.keys().cloned().collect();
        let mut is_idle = self.unallocated;
        for name in names {
            let soon = self.sites[&name].prospects.soon() as usize;
            let open = open.entry(name.clone()).or_default();
            while *open < window(soon)
                && let Some(pack) = self.pack_size(&name).and_then(|size| self.pack(&name, size))
            {
                commands.push(pack);
                *open += 1;
            }
            is_idle |= !self.plan.once && *open < soon && self.sites[&name].share == 0;
        }
        // Somebody has nothing left to do while others have: their shares were not what they are worth.
        if is_idle && self.waiting() > 0 {
            commands.push(Command::Look);
        }
    }

    /// Whether a server is idle while a pack may wait at another one.
    fn may_withdraw(&self) -> bool {
        let is_busy = |server: &Name| self.sites.get(server).is_some_and(|site| site.prospects.soon() == 0);
        let waits = |pack: &Pack| !pack.withdrawn && (pack.waits || is_busy(&pack.server));
        let has_packs = |name: &Name| self.packs.values().any(|pack| pack.server == *name);
        let is_idle = |(name, site): (&Name, &Site)| site.prospects.soon() > 0 && !has_packs(name);
        !self.plan.once && self.packs.values().any(waits) && self.sites.iter().any(is_idle)
    }

    /// How many instances the next pack of a server has; none if it has no share left.
    fn pack_size(&self, name: &Name) -> Option<u64> {
        let site = &self.sites[name];
        let places = u64::from(site.prospects.places());
        if site.share == 0 || places == 0 {
            return None;
        }
        let (instance, told) = self.expected(name, &site.prospects);
        let in_time = (PACK_MS / instance.0.max(1)).max(1) as u64;
        let guided = site.share.div_ceil(2 * places);
        let most = if told.is_of_service() { u64::from(self.plan.pack_most) } else { UNKNOWN_MOST };
        // By its walltime, and by what it has refused.
        let taken = site.prospects.pack_most.into_iter().chain(self.narrowed.get(name).copied()).min();
        let taken = taken.map_or(u64::MAX, |taken| u64::from(taken.max(1)));
        Some(in_time.min(guided).min(most).min(taken).min(u64::from(self.plan.pack_most)))
    }

    /// None if nothing is left but what some server has refused alone.
    fn pack(&mut self, name: &Name, size: u64) -> Option<Command> {
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
        let pack = self.progress.packs;
        self.progress.packs += 1;
        let left = instances.iter().copied().collect();
        self.packs.insert(pack, Pack { server: name.clone(), left, waits: false, withdrawn: false });
        Command::Submit { pack, server: name.clone(), instances }
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
                is_usable && count(name) < window(site.prospects.soon() as usize)
            };
            let able = self.sites.iter().filter(has_room).map(|(name, _)| name);
            let Some(name) = able.min_by_key(|name| count(name)).cloned() else { continue };
            self.again.remove(&instance);
            *open.entry(name.clone()).or_default() += 1;
            commands.push(self.submit(&name, vec![instance]));
        }
    }
}

/// How many packs a server may have that can soon run so many at a time: some wait, so that nothing is idle until the next
/// one comes. One that is busy for long has one in its queue, to have its turn there; what is not handed out can go
/// elsewhere.
fn window(soon: usize) -> usize {
    if soon == 0 { 1 } else { (soon + (soon / 2).max(2)).min(OPEN_MOST) }
}
