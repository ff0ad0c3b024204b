//! The expected runtimes of instances and of the whole multi-job.

use std::collections::BTreeMap;

use pliant_model::{Span, SpanMs};
use pliant_policy::allocation::instances::{self, Expected, with_own_processors};
use pliant_policy::allocation::{self, ClusterState, Offer, Strategy};

use super::{FreeSlots, InstanceProspects, MultiJob, OpenBatch, Progress, ServerShare, Share};
use crate::names::Name;

impl MultiJob {
    /// The share of each server, and when the last instance is expected to end.
    pub fn shares(&self) -> (Vec<Share>, SpanMs) {
        let share = |(server, site): (&Name, &ServerShare)| {
            let Expected { time: instance, source } = self.expected(server, &site.prospects);
            let makespan = self.state(server, site).offer.finish(site.share);
            Share {
                server: server.clone(),
                instances: site.share,
                slots: site.prospects.slots(),
                instance,
                source,
                makespan: SpanMs(makespan.0),
            }
        };
        let shares: Vec<Share> = self.sites.iter().map(share).collect();
        let makespan = shares.iter().map(|share| share.makespan).max().unwrap_or(SpanMs::ZERO);
        let limited = self.in_turn(shares.iter().map(|share| (share.instances, share.instance)));
        (shares, makespan.max(limited))
    }

    /// The least time that so many instances of such runtimes take if no more run at a time than the plan allows; 0 if it allows any number.
    fn in_turn(&self, instances: impl Iterator<Item = (u64, SpanMs)>) -> SpanMs {
        let Some(at_once) = self.plan.at_once else { return SpanMs::ZERO };
        let work = instances
            .map(|(count, SpanMs(each))| i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(each));
        SpanMs(work.fold(0, i64::saturating_add) / i64::from(at_once.max(1)))
    }

    /// When the last instance is expected to end, from now; slots of other jobs count from their expected ends. The servers
    /// reported `since` ago. `running` has the elapsed time of the current instance of each running batch.
    pub fn left(&self, since: SpanMs, running: &BTreeMap<u32, SpanMs>) -> Option<SpanMs> {
        let offer = |server, site: &ServerShare| {
            with_own_processors(self.state(server, site).offer, site.running, since)
        };
        let offers = self.sites.iter().map(|(server, site)| (server, offer(server, site)));
        let offers: Vec<(&Name, Offer)> = offers.filter(|(_, offer)| offer.processors() > 0).collect();
        if offers.is_empty() {
            return None;
        }
        let counts = self.spread(&offers)?;
        let limited =
            self.in_turn(offers.iter().zip(&counts).map(|((_, offer), count)| (*count, SpanMs(offer.job.0))));
        let spread = offers.iter().zip(counts).map(|((_, offer), count)| offer.finish(count)).max();
        let batches =
            running.iter().filter_map(|(batch, elapsed)| self.batch_time_left(*batch, *elapsed)).max();
        spread.map(|spread| SpanMs(spread.0).max(limited)).max(batches)
    }

    /// The remaining instances of each server: by statistics, servers with the least work take from the others; by other
    /// strategies, and if instances stay on their servers, by the shares. None if some are on a server that is down.
    fn spread(&self, offers: &[(&Name, Offer)]) -> Option<Vec<u64>> {
        let Progress { done, failed, cancelled, not_started, .. } = self.progress();
        let left = u64::from(self.plan.instances - done - failed - cancelled - not_started);
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

    /// When a batch is expected to end, by the elapsed time of its current instance.
    fn batch_time_left(&self, batch: u32, elapsed: SpanMs) -> Option<SpanMs> {
        let OpenBatch { server, left, .. } = self.batches.get(&batch)?;
        let instance = self.expected(server, &self.sites.get(server)?.prospects).time;
        Some(instances::batch_time_left(left.len(), instance, elapsed))
    }

    /// The expected runtime of an instance on a server.
    pub(super) fn expected(&self, server: &Name, prospects: &InstanceProspects) -> Expected {
        self.runtimes.expected(server, prospects.scale, prospects.expected())
    }

    /// The state of a server for the allocation, in milliseconds.
    pub(super) fn state(&self, server: &Name, site: &ServerShare) -> ClusterState {
        let InstanceProspects { free, jobs, failures, .. } = &site.prospects;
        let free = free.iter().map(FreeSlots::free).collect();
        let job = Span(self.expected(server, &site.prospects).time.0.max(1));
        ClusterState { offer: Offer { free, job }, jobs: u64::from(*jobs), failures: *failures }
    }
}
