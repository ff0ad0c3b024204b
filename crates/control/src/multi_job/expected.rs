//! How long instances are expected to take, and all of them together.

use std::collections::BTreeMap;

use pliant_model::{Span, SpanMs};
use pliant_policy::allocation::instances::{self, Expected, with_own_processors};
use pliant_policy::allocation::{self, ClusterState, Offer, Strategy};

use super::{MultiJob, OpenBatch, Places, Progress, Prospects, Share, Site};
use crate::names::Name;

impl MultiJob {
    /// What each server is to get, and when the last instance is expected to end.
    pub fn shares(&self) -> (Vec<Share>, SpanMs) {
        let share = |(server, site): (&Name, &Site)| {
            let Expected { time: instance, source } = self.expected(server, &site.prospects);
            let makespan = self.state(server, site).offer.finish(site.share);
            Share {
                server: server.clone(),
                instances: site.share,
                places: site.prospects.places(),
                instance,
                told: source,
                makespan: SpanMs(makespan.0),
            }
        };
        let shares: Vec<Share> = self.sites.iter().map(share).collect();
        let makespan = shares.iter().map(|share| share.makespan).max().unwrap_or(SpanMs::ZERO);
        (shares, makespan)
    }

    /// When the last instance is expected to end, from now: where other jobs hold places, servers say until when. They were looked at
    /// `since` ago; of batches that run, `running` says for how long their present instance has.
    pub fn left(&self, since: SpanMs, running: &BTreeMap<u32, SpanMs>) -> Option<SpanMs> {
        let offer =
            |server, site: &Site| with_own_processors(self.state(server, site).offer, site.running, since);
        let offers = self.sites.iter().map(|(server, site)| (server, offer(server, site)));
        let offers: Vec<(&Name, Offer)> = offers.filter(|(_, offer)| offer.processors() > 0).collect();
        if offers.is_empty() {
            return None;
        }
        let counts = self.spread(&offers)?;
        let spread = offers.iter().zip(counts).map(|((_, offer), count)| offer.finish(count)).max();
        let batches =
            running.iter().filter_map(|(batch, elapsed)| self.batch_time_left(*batch, *elapsed)).max();
        spread.map(|spread| SpanMs(spread.0)).max(batches)
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
        for batch in self.batches.values() {
            *put.entry(&batch.server).or_default() += batch.left.len() as u64;
        }
        let counts: Vec<u64> =
            offers.iter().map(|(server, _)| put.get(server).copied().unwrap_or(0)).collect();
        (counts.iter().sum::<u64>() == left).then_some(counts)
    }

    /// When a batch is expected to end whose present instance has run for so long.
    fn batch_time_left(&self, batch: u32, elapsed: SpanMs) -> Option<SpanMs> {
        let OpenBatch { server, left, .. } = self.batches.get(&batch)?;
        let instance = self.expected(server, &self.sites.get(server)?.prospects).time;
        Some(instances::batch_time_left(left.len(), instance, elapsed))
    }

    /// How long an instance is expected to take on a server.
    pub(super) fn expected(&self, server: &Name, prospects: &Prospects) -> Expected {
        self.runtimes.expected(server, prospects.scale, prospects.expected())
    }

    /// A server for the allocation. Its unit of time is the millisecond.
    pub(super) fn state(&self, server: &Name, site: &Site) -> ClusterState {
        let Prospects { free, jobs, failures, .. } = &site.prospects;
        let free = free.iter().map(Places::free).collect();
        let job = Span(self.expected(server, &site.prospects).time.0.max(1));
        ClusterState { offer: Offer { free, job }, jobs: u64::from(*jobs), failures: *failures }
    }
}
