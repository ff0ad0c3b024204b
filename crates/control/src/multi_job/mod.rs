//! The client of a multi-job (paper 002): many instances of one service, spread over servers by what statistics say.
//!
//! *Allocation*: servers say when their processors come free and how long an instance is expected to take there
//! ([`Prospects`]); [`pliant_policy::allocation`], which the simulator calls as well, says how many instances each gets.
//! It is asked again for what has not started whenever servers were looked at anew, so that a server that is slower
//! than expected, or gone, loses its share to others; packs that wait there are withdrawn
//! ([`allocation::allocate_anew`], as in the simulator).
//!
//! *Packing*: short instances go out in packs, of which each is one job that runs them one after the other. A pack takes
//! about [`PACK_MS`], and towards the end of a server's share half of what its processors have left to do (guided
//! self-scheduling: Polychronopoulos and Kuck, IEEE Trans. Computers C-36(12), 1987), so that all of them end at about the same time. No
//! server has many more packs than it runs at a time.
//!
//! *Outcomes*: an instance that failed, or whose pack ended without having run it, goes out again, a bounded number of
//! times. What never began costs no try. An instance that a server does not take alone goes to another one. What was handed out is told by [`Event::Recalled`] and the events that followed it after a crash, in their order:
//! packs keep their numbers, from which the keys of their submissions follow, so that none is run twice. Once nothing more is
//! wanted ([`Event::Cancel`]), nothing is handed out, what was is ended, and what it had not run to an end is cancelled.
//!
//! Memory is a byte for each instance and what is in open packs. Cost: O(log n) for each outcome, and that of an
//! allocation for each look.

mod allocating;
mod event;
mod outcomes;
mod packing;
mod prospects;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use pliant_model::{Span, SpanMs};
use pliant_policy::allocation::{self, ClusterState, Offer, Strategy};
use pliant_policy::runtimes::{Categories, Estimator, Level, Runtimes, Settings};
use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::job::is_false;
use crate::names::{Key, Name};

pub use event::{Command, Event};
pub use packing::PACK_MS;
pub use prospects::{Expectation, Places, Prospects, Told};

/// An instance that is done.
const DONE: u8 = u8::MAX;
/// One that failed for good.
const GIVEN_UP: u8 = u8::MAX - 1;
/// The most that an instance may be tried again.
pub const RETRIES_MAX: u8 = 100;

/// What a user wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// How many instances, numbered from 0.
    pub instances: u32,
    /// How often one that failed is tried again: at most [`RETRIES_MAX`].
    pub retries: u8,
    /// How they are spread.
    pub strategy: Strategy,
    /// The most instances of a pack.
    pub pack_most: u32,
    /// They are spread once, in the beginning, and stay where they were put as long as their server takes them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub once: bool,
}

/// How far a multi-job is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Instances that ended well.
    pub done: u32,
    /// Instances that failed for good.
    pub failed: u32,
    /// Instances that will not be run to an end, because they are not wanted any more.
    pub cancelled: u32,
    /// Instances in open packs.
    pub open: u32,
    /// Outcomes after which an instance was tried again.
    pub retried: u32,
    /// Packs that were handed out.
    pub packs: u32,
}

/// What a server gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The server.
    pub server: Name,
    /// Instances that are to go there, beside those that have.
    pub instances: u64,
    /// How many run there at a time.
    pub places: u32,
    /// How long one is expected to take there.
    pub instance: SpanMs,
    /// From where that is known.
    pub told: Told,
    /// When the last of them is expected to end, from now.
    pub makespan: SpanMs,
}

/// A pack on a server.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Pack {
    server: Name,
    left: BTreeSet<u32>,
    /// It waited when its server was looked at last.
    waits: bool,
    /// It is to be withdrawn.
    withdrawn: bool,
}

/// A server that takes instances.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Site {
    prospects: Prospects,
    share: u64,
    /// It refused a pack since it was looked at.
    refused: bool,
}

/// A multi-job on its way.
#[derive(Clone, Debug)]
pub struct MultiJob {
    plan: Plan,
    /// Of each instance: how often it failed, [`DONE`] or [`GIVEN_UP`].
    fates: Vec<u8>,
    /// From here on nothing was handed out.
    next: u32,
    /// What is to be handed out again.
    again: BTreeSet<u32>,
    packs: BTreeMap<u32, Pack>,
    sites: BTreeMap<Name, Site>,
    /// What its own instances took, in milliseconds, by server.
    runtimes: Runtimes<Name>,
    progress: Progress,
    /// What is not handed out was not all allocated.
    unallocated: bool,
    /// Servers that refused a pack for what is in it: the most instances of the next one.
    narrowed: BTreeMap<Name, u32>,
    /// Instances that some servers refused alone.
    barred: BTreeMap<u32, BTreeSet<Name>>,
    /// What servers are still to get, if instances stay where they were put.
    kept: BTreeMap<Name, u64>,
    /// Nothing more is wanted.
    cancelled: bool,
}

/// The key of a pack's submission: that of the multi-job, its last four bytes combined with the pack's number.
pub fn pack_key(multi_job: Key, pack: u32) -> Key {
    let Key(mut bytes) = multi_job;
    bytes[12..].iter_mut().zip(pack.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
    Key(bytes)
}

/// The key under which the inputs of all packs are uploaded: no pack's, since those differ in their last bytes only.
pub fn inputs_key(multi_job: Key) -> Key {
    let Key(mut bytes) = multi_job;
    bytes[0] ^= u8::MAX;
    Key(bytes)
}

impl MultiJob {
    /// One of which nothing was handed out.
    pub fn new(plan: Plan) -> MultiJob {
        let plan = Plan { retries: plan.retries.min(RETRIES_MAX), pack_most: plan.pack_most.max(1), ..plan };
        let window = NonZeroUsize::new(1_000).expect("more than none");
        let least = NonZeroUsize::new(3).expect("more than none");
        MultiJob {
            fates: vec![0; plan.instances as usize],
            plan,
            next: 0,
            again: BTreeSet::new(),
            packs: BTreeMap::new(),
            sites: BTreeMap::new(),
            runtimes: Runtimes::new(Settings { window, least }),
            progress: Progress::default(),
            unallocated: true,
            narrowed: BTreeMap::new(),
            barred: BTreeMap::new(),
            kept: BTreeMap::new(),
            cancelled: false,
        }
    }

    /// What is wanted.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let open = self.packs.values().map(|pack| pack.left.len() as u32).sum();
        let Progress { done, failed, .. } = self.progress;
        let cancelled = if self.cancelled { self.plan.instances - done - failed - open } else { 0 };
        Progress { open, cancelled, ..self.progress }
    }

    /// True if nothing more is wanted.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The packs that have not ended, and where they are.
    pub fn open_packs(&self) -> impl Iterator<Item = (u32, &Name)> {
        self.packs.iter().map(|(number, pack)| (*number, &pack.server))
    }

    /// The first instance that is not handed out and that no server has refused alone, if there is one.
    pub fn first_left(&self) -> Option<u32> {
        let fresh = (self.next < self.plan.instances).then_some(self.next);
        let again = self.again.iter().copied().find(|instance| !self.barred.contains_key(instance));
        again.or(fresh)
    }

    /// The instances that failed for good.
    pub fn given_up(&self) -> impl Iterator<Item = u32> {
        let fates = (0..).zip(&self.fates);
        fates.filter_map(|(instance, fate)| (*fate == GIVEN_UP).then_some(instance))
    }

    /// True if an instance ended well.
    pub fn is_done(&self, instance: u32) -> bool {
        self.fates.get(instance as usize) == Some(&DONE)
    }

    /// Takes in an event and appends what is to be done.
    pub fn on(&mut self, event: Event, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        match event {
            Event::Begin => {
                // What servers refused an earlier client they may take now.
                self.barred.clear();
                self.narrowed.clear();
                match self.cancelled {
                    true => self.cancel(commands),
                    false => commands.push(if self.is_over() { Command::Done } else { Command::Look }),
                }
                return;
            }
            Event::Cancel => {
                self.cancelled = true;
                return self.cancel(commands);
            }
            Event::Found { .. } if self.cancelled => {}
            Event::Found { servers, waiting } => {
                self.found(servers, &waiting);
                self.allocate_anew(rng, commands);
            }
            Event::Recalled { pack, server, instances } => return self.recall(pack, server, instances),
            Event::Refused { pack, cause } => {
                if let Some(instance) = self.refused(pack, cause) {
                    commands.push(Command::Unplaced { instance });
                }
            }
            Event::Ended { pack, instance, completed, took } => {
                self.ended(pack, instance, completed, took);
                if !self.is_over() {
                    // Its pack goes on: what failed is handed out with the next one.
                    return;
                }
            }
            Event::Over { pack, unbegun } => {
                let Some(Pack { server, left, .. }) = self.packs.remove(&pack) else { return };
                if let Some(most) = self.narrowed.get_mut(&server) {
                    // What was refused may have been the fault of a few.
                    *most = most.saturating_mul(2).min(self.plan.pack_most);
                }
                // What was ended has not failed.
                match unbegun || self.cancelled {
                    true => self.put_back(left),
                    false => left.into_iter().for_each(|instance| self.failed(instance)),
                }
            }
        }
        if self.is_over() {
            commands.push(Command::Done);
        } else if !self.cancelled {
            self.hand_out(rng, commands);
        }
    }

    /// What servers of which that is known would get, if nothing were handed out.
    pub fn preview(&mut self, found: Vec<(Name, Prospects)>, rng: &mut impl Rng) -> (Vec<Share>, SpanMs) {
        self.found(found, &BTreeSet::new());
        self.allocate(rng);
        self.shares()
    }

    /// True if it is not known yet how an instance of a pack ended.
    pub fn awaits(&self, pack: u32, instance: u32) -> bool {
        self.packs.get(&pack).is_some_and(|pack| pack.left.contains(&instance))
    }

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

    /// When the last instance is expected to end, from now, if all places of the servers are its own.
    pub fn left(&self) -> Option<SpanMs> {
        let Progress { done, failed, cancelled, .. } = self.progress();
        let left = u64::from(self.plan.instances - done - failed - cancelled);
        let offers: Vec<Offer> = self.sites.iter().map(|(server, site)| self.whole(server, site)).collect();
        let offers: Vec<&Offer> = offers.iter().filter(|offer| offer.processors() > 0).collect();
        if offers.is_empty() {
            return None;
        }
        let counts = allocation::earliest::allocate(&offers, left);
        let last = offers.iter().zip(counts).map(|(offer, count)| offer.finish(count)).max();
        last.map(|span| SpanMs(span.0))
    }

    fn found(&mut self, found: Vec<(Name, Prospects)>, waiting: &BTreeSet<u32>) {
        let site = |prospects| Site { prospects, share: 0, refused: false };
        self.sites = found.into_iter().map(|(server, prospects)| (server, site(prospects))).collect();
        self.packs.iter_mut().for_each(|(number, pack)| pack.waits = waiting.contains(number));
        self.unallocated = true;
    }

    /// Has what is handed out ended.
    fn cancel(&self, commands: &mut Vec<Command>) {
        match self.is_over() {
            true => commands.push(Command::Done),
            false => commands.extend(self.packs.keys().map(|pack| Command::Cancel { pack: *pack })),
        }
    }

    fn is_over(&self) -> bool {
        let all_ended = self.progress.done + self.progress.failed == self.plan.instances;
        all_ended || (self.cancelled && self.packs.is_empty())
    }

    /// How many instances are not handed out.
    fn waiting(&self) -> u64 {
        u64::from(self.plan.instances - self.next) + self.again.len() as u64
    }

    /// How long an instance is expected to take on a server: by those of this multi-job that ended there, by what the
    /// server says of earlier jobs of the service, by those that ended elsewhere, or by what else the server says.
    fn expected(&self, server: &Name, prospects: &Prospects) -> (SpanMs, Told) {
        let of = Categories { executable: Some(server.clone()), user: None, group: None };
        let found = self.runtimes.predict(&of, Level::Executable, Estimator::Mean);
        let own = found.filter(|found| found.level == Level::Executable);
        let found = own.or(found.filter(|_| !prospects.told.is_of_service()));
        let told = |jobs| Told::Own { instances: jobs };
        found
            .map_or((prospects.instance, prospects.told), |found| (SpanMs(found.runtime.0), told(found.jobs)))
    }

    /// A server for the allocation. Its unit of time is the millisecond.
    fn state(&self, server: &Name, site: &Site) -> ClusterState {
        let Prospects { free, jobs, failures, .. } = &site.prospects;
        let free = free.iter().map(Places::free).collect();
        let job = Span(self.expected(server, &site.prospects).0.0.max(1));
        ClusterState { offer: Offer { free, job }, jobs: u64::from(*jobs), failures: *failures }
    }

    /// The same as if all of its places were free.
    fn whole(&self, server: &Name, site: &Site) -> Offer {
        let at = SpanMs::ZERO;
        let free = Places { at, places: site.prospects.places() }.free();
        Offer { free: vec![free], job: self.state(server, site).offer.job }
    }
}
