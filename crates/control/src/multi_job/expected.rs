//! How long instances are expected to take, and all of them together.

use std::collections::BTreeMap;

use pliant_model::{Span, SpanMs};
use pliant_policy::allocation::{self, ClusterState, Free, Offer, Strategy};
use pliant_policy::runtimes::{Categories, Estimator, Level};

use super::outcomes::NS_PER_MS;
use super::{MultiJob, Pack, Places, Progress, Prospects, Share, Site, Told};
use crate::names::Name;

/// What arguments make longer than that is not told apart: a thousand years.
const LONGEST_MS: f64 = 3.2e13;

impl MultiJob {
    /// What each server is to get, and when the last instance is expected to end.
    pub fn shares(&self) -> (Vec<Share>, SpanMs) {
        let share = |(server, site): (&Name, &Site)| {
            let (instance, told) = self.expected(server, &site.prospects);
            let makespan = self.state(server, site).offer.finish(site.share);
            Share {
                server: server.clone(),
                instances: site.share,
                places: site.prospects.places(),
                instance,
                told,
                makespan: SpanMs(makespan.0),
            }
        };
        let shares: Vec<Share> = self.sites.iter().map(share).collect();
        let makespan = shares.iter().map(|share| share.makespan).max().unwrap_or(SpanMs::ZERO);
        (shares, makespan)
    }

    /// When the last instance is expected to end, from now: where other jobs hold places, servers say until when. They were looked at
    /// `since` ago; of packs that run, `running` says for how long their present instance has.
    pub fn left(&self, since: SpanMs, running: &BTreeMap<u32, SpanMs>) -> Option<SpanMs> {
        let offers = self.sites.iter().map(|(server, site)| (server, self.with_own(server, site, since)));
        let offers: Vec<(&Name, Offer)> = offers.filter(|(_, offer)| offer.processors() > 0).collect();
        if offers.is_empty() {
            return None;
        }
        let counts = self.spread(&offers)?;
        let spread = offers.iter().zip(counts).map(|((_, offer), count)| offer.finish(count)).max();
        let packs = running.iter().filter_map(|(pack, elapsed)| self.pack_left(*pack, *elapsed)).max();
        spread.map(|spread| SpanMs(spread.0)).max(packs)
    }

    /// How many of the instances that are not done each server gets: by statistics as those who have least to do take from the others,
    /// by other strategies, and if they stay, as they were put. None if some are put where nobody is.
    fn spread(&self, offers: &[(&Name, Offer)]) -> Option<Vec<u64>> {
        let Progress { done, failed, cancelled, .. } = self.progress();
        let left = u64::from(self.plan.instances - done - failed - cancelled);
        if self.plan.strategy == Strategy::Statistics && !self.plan.once {
            let offers: Vec<&Offer> = offers.iter().map(|(_, offer)| offer).collect();
            return Some(allocation::earliest::allocate(&offers, left));
        }
        let mut put: BTreeMap<&Name, u64> =
            self.sites.iter().map(|(server, site)| (server, site.share)).collect();
        for pack in self.packs.values() {
            *put.entry(&pack.server).or_default() += pack.left.len() as u64;
        }
        let counts: Vec<u64> =
            offers.iter().map(|(server, _)| put.get(server).copied().unwrap_or(0)).collect();
        (counts.iter().sum::<u64>() == left).then_some(counts)
    }

    /// When a pack is expected to end whose present instance has run for so long. One that runs longer than was expected is
    /// expected to run as long again as it is over.
    fn pack_left(&self, pack: u32, elapsed: SpanMs) -> Option<SpanMs> {
        let Pack { server, left, .. } = self.packs.get(&pack)?;
        let mean = self.expected(server, &self.sites.get(server)?.prospects).0;
        let behind = (left.len() as i64 - 1).max(0).saturating_mul(mean.0);
        Some(SpanMs(behind.saturating_add((mean.0 - elapsed.0).abs())))
    }

    /// How long an instance is expected to take on a server: by those of this multi-job that ended there, by what the
    /// server says of earlier jobs of the service, by those that ended elsewhere, or by what else the server says.
    pub(super) fn expected(&self, server: &Name, prospects: &Prospects) -> (SpanMs, Told) {
        let of = Categories { executable: Some(server.clone()), user: None, group: None };
        let found = self.runtimes.predict(&of, Level::Executable, Estimator::Mean);
        let own = found.filter(|found| found.level == Level::Executable);
        let found = own.or(found.filter(|_| !prospects.told.is_of_service()));
        found.map_or((prospects.instance, prospects.told), |found| {
            let ms = found.runtime.0 as f64 * prospects.scale / NS_PER_MS;
            (SpanMs(ms.ceil().min(LONGEST_MS) as i64), Told::Own { instances: found.jobs })
        })
    }

    /// A server for the allocation. Its unit of time is the millisecond.
    pub(super) fn state(&self, server: &Name, site: &Site) -> ClusterState {
        let Prospects { free, jobs, failures, .. } = &site.prospects;
        let free = free.iter().map(Places::free).collect();
        let job = Span(self.expected(server, &site.prospects).0.0.max(1));
        ClusterState { offer: Offer { free, job }, jobs: u64::from(*jobs), failures: *failures }
    }

    /// The same with the places that its running packs have as free: instances in them are still to be done. Of those that are
    /// taken the first to come free are its own, as a pack is shorter than most jobs.
    fn with_own(&self, server: &Name, site: &Site, since: SpanMs) -> Offer {
        let ClusterState { mut offer, .. } = self.state(server, site);
        let mut own = site.running;
        let mut freed = 0;
        offer.free.sort_by_key(|free| free.at);
        for free in &mut offer.free {
            if free.at > Span::ZERO {
                let count = free.processors.min(own);
                free.processors -= count;
                (own, freed) = (own - count, freed + count);
            }
            free.at = (free.at - Span(since.0)).max(Span::ZERO);
        }
        offer.free.push(Free { at: Span::ZERO, processors: freed });
        offer
    }
}
