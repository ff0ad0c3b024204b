//! The children that a discovery may ask.
//!
//! The children with the best bounds are asked first, so many that the wanted number of offers can be expected of them. An answer
//! that keeps below this expectation lets the agent ask more children at a time: as many again, as in the slow start of TCP. So good
//! bounds cost few messages, and bad ones cost a number of rounds that grows with the logarithm of the number of children.

use std::collections::BTreeMap;

use pliant_model::Time;

use super::BoundOrder;
use crate::completion::{Offer, Preference};

/// The most children that are asked for their reasons, once some offers were found, although they would refuse by their summaries.
pub const REFUSING_MAX: usize = 8;

/// The children that a discovery has not asked, and what it expects of those that it has.
#[derive(Clone, Debug)]
pub struct Candidates<Server, Child> {
    /// The wanted number of offers.
    best: usize,
    /// Offers that complete later are of no use.
    latest: Time,
    order: BoundOrder<(u32, Server), (Child, usize)>,
    /// Children without a bound.
    unbounded: Vec<Child>,
    /// The offers that are expected of each child that was asked and has not answered.
    open: BTreeMap<Child, usize>,
    /// Their sum.
    expected: usize,
    /// How many offers are expected at a time.
    window: usize,
    /// The offers that were preferred to the next bound when children were last asked.
    better: usize,
    /// The children that were asked although they would refuse.
    refusing: usize,
    /// Some children are late: the others are asked at once.
    hurries: bool,
}

impl<Server: Ord + Clone, Child: Ord + Clone> Candidates<Server, Child> {
    /// No children yet. At least one offer is wanted; offers that complete after `latest` are of no use.
    pub fn new(best: usize, latest: Time) -> Candidates<Server, Child> {
        let best = best.max(1);
        let (order, open) = (BoundOrder::default(), BTreeMap::new());
        Candidates {
            best,
            latest,
            order,
            unbounded: Vec::new(),
            open,
            expected: 0,
            window: best,
            better: 0,
            refusing: 0,
            hurries: false,
        }
    }

    /// Adds a child without a bound, which is asked in any case.
    pub fn push_unbounded(&mut self, child: Child) {
        self.unbounded.push(child);
    }

    /// Adds a child with its bound: no offer of a server below it completes earlier, or as early with a lower rank and name. The child
    /// refuses if the bound is [`Time::MAX`]. `servers` are below it; 0 if no answer of it can be expected.
    pub fn push(&mut self, completion: Time, first: (u32, Server), child: Child, servers: usize) {
        self.order.push(completion, first, (child, servers.min(self.best)));
    }

    /// Puts the children in the order of their bounds, after the last of them was added.
    pub fn sort(&mut self) {
        self.order.sort();
    }

    /// The children to ask now. `kept` are the best offers so far, the most preferred first.
    pub fn ask(&mut self, kept: &[Offer<&Server>]) -> Vec<Child> {
        let mut asked = std::mem::take(&mut self.unbounded);
        self.open.extend(asked.iter().map(|child| (child.clone(), 0)));
        while let Some(child) = self.next(kept) {
            asked.push(child);
        }
        if self.open.is_empty() || self.hurries {
            self.ask_refusing(kept, &mut asked);
        }
        self.better = self.better_than_next(kept);
        asked
    }

    /// The next child that may be of use.
    fn next(&mut self, kept: &[Offer<&Server>]) -> Option<Child> {
        let Candidates { best, latest, expected, window, hurries, .. } = *self;
        let (child, offers) = self.order.next_if(|bound| {
            let better = better(kept, bound);
            let may_be_kept = better < best && bound.completion <= latest && bound.completion != Time::MAX;
            may_be_kept && (hurries || expected + better < window)
        })?;
        self.open.insert(child.clone(), offers);
        self.expected += offers;
        Some(child)
    }

    /// Children that would refuse by their summaries: all of them if no offer was found, some if too few were. Their summaries may be
    /// wrong, and their reasons are of use.
    fn ask_refusing(&mut self, kept: &[Offer<&Server>], asked: &mut Vec<Child>) {
        if kept.len() >= self.best || self.latest < Time::MAX {
            return;
        }
        while kept.is_empty() || self.refusing < REFUSING_MAX {
            let next = self.order.next_if(|bound| bound.completion == Time::MAX);
            let Some((child, offers)) = next else { break };
            self.open.insert(child.clone(), offers);
            self.expected += offers;
            self.refusing += 1;
            asked.push(child);
        }
    }

    /// A child has answered, or does not. More children are asked at a time if it has fewer offers than were expected that are preferred to
    /// the next bound.
    pub fn answered(&mut self, child: &Child, kept: &[Offer<&Server>]) {
        let Some(expected) = self.open.remove(child) else { return };
        self.expected -= expected;
        let better = self.better_than_next(kept);
        if better.saturating_sub(self.better) < expected {
            self.window = self.window.saturating_add(expected);
        }
        self.better = better;
    }

    /// The number of offers that are preferred to the next bound.
    fn better_than_next(&self, kept: &[Offer<&Server>]) -> usize {
        self.order.rest().next().map_or(kept.len(), |(bound, _)| better(kept, bound))
    }

    /// Some children are late with their answers: all others that may be of use are asked at once.
    pub fn hurry(&mut self) {
        self.hurries = true;
    }

    /// Offers that complete later are of no use.
    pub fn latest(&self, kept: &[Offer<&Server>]) -> Time {
        let last = kept.get(self.best - 1).map(|offer| offer.estimate.completion());
        last.map_or(self.latest, |last| last.min(self.latest))
    }

    /// True if children were asked and have not answered.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// True if this child was asked and has not answered.
    pub fn is_asked(&self, child: &Child) -> bool {
        self.open.contains_key(child)
    }

    /// The children that were asked and have not answered.
    pub fn open(&self) -> impl Iterator<Item = &Child> {
        self.open.keys()
    }

    /// The children that were not asked.
    pub fn rest(&self) -> impl Iterator<Item = &Child> {
        self.unbounded.iter().chain(self.order.rest().map(|(_, (child, _))| child))
    }
}

/// The number of offers that are preferred to a bound.
fn better<Server: Ord>(kept: &[Offer<&Server>], bound: &Preference<Time, (u32, Server)>) -> usize {
    let is_better = |offer: &&Offer<&Server>| {
        let completion = offer.estimate.completion();
        (completion, offer.rank, offer.server) < (bound.completion, bound.rank.0, &bound.rank.1)
    };
    kept.iter().filter(is_better).count()
}
