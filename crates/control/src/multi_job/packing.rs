//! Which instances go out in one job.

use std::collections::BTreeMap;

use rand::Rng;

use super::{Command, MultiJob, Pack, Told};
use crate::names::Name;

/// How long a pack is to take, in milliseconds: much longer than a job's own cost, and no longer than one waits gladly.
pub const PACK_MS: i64 = 30_000;
/// As long as nothing but walltimes is known, a pack has no more than so many.
const UNKNOWN_MOST: u64 = 4;
/// A server has at most so many packs, however large it is.
const OPEN_MOST: usize = 1_000;

impl MultiJob {
    /// Hands out what the servers' shares and the packs that they have allow.
    pub(super) fn hand_out(&mut self, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        if self.waiting() == 0 {
            return;
        }
        if self.unallocated {
            self.allocate(rng);
        }
        let mut open: BTreeMap<Name, usize> = BTreeMap::new();
        self.packs.values().for_each(|pack| *open.entry(pack.server.clone()).or_default() += 1);
        let names: Vec<Name> = self.sites.keys().cloned().collect();
        let mut is_idle = self.unallocated;
        for name in names {
            let soon = self.sites[&name].prospects.soon() as usize;
            let open = open.entry(name.clone()).or_default();
            while *open < window(soon)
                && let Some(size) = self.pack_size(&name)
            {
                commands.push(self.pack(&name, size));
                *open += 1;
            }
            is_idle |= *open < soon && self.sites[&name].share == 0;
        }
        // Somebody has nothing left to do while others have: their shares were not what they are worth.
        if is_idle && self.waiting() > 0 {
            commands.push(Command::Look);
        }
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
        let most = match told {
            Told::Walltime => UNKNOWN_MOST,
            Told::Statistics { .. } | Told::Own { .. } => u64::from(self.plan.pack_most),
        };
        Some(in_time.min(guided).min(most).min(u64::from(self.plan.pack_most)))
    }

    fn pack(&mut self, name: &Name, size: u64) -> Command {
        let mut instances = Vec::with_capacity(size as usize);
        while (instances.len() as u64) < size
            && let Some(instance) = self.first_left()
        {
            if !self.again.remove(&instance) {
                self.next += 1;
            }
            instances.push(instance);
        }
        if let Some(site) = self.sites.get_mut(name) {
            site.share -= instances.len() as u64;
        }
        let pack = self.progress.packs;
        self.progress.packs += 1;
        let left = instances.iter().copied().collect();
        self.packs.insert(pack, Pack { server: name.clone(), left });
        Command::Submit { pack, server: name.clone(), instances }
    }
}

/// How many packs a server may have that can soon run so many at a time: some wait, so that nothing is idle until the next
/// one comes. One that is busy for long has one in its queue, to have its turn there; what is not handed out can go
/// elsewhere.
fn window(soon: usize) -> usize {
    if soon == 0 { 1 } else { (soon + (soon / 2).max(2)).min(OPEN_MOST) }
}
