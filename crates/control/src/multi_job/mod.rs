//! The client of a multi-job (paper 002): many instances of one service, spread over servers by what statistics say.
//!
//! *Allocation*: servers say when their processors come free and how long an instance is expected to take there
//! ([`Prospects`]); [`pliant_policy::allocation`], which the simulator calls as well, says how many instances each gets.
//! It is asked again for what has not started whenever servers were looked at anew, so that a server that is slower
//! than expected, or gone, loses its share to others; batches that wait there are withdrawn
//! ([`allocation::reallocate_instances`], as in the simulator). Where arguments make instances longer or shorter, what has ended tells how
//! long a unit of the service takes, and some instances from all over the rest ([`MultiJob::samples`]) how many units one has.
//! If instances are to stay where they were put, how they were is noted ([`Command::Keep`]) for whoever goes on.
//!
//! *Packing*: short instances go out in batches, of which each is one job that runs them one after the other. How many of them
//! are in one, and how many batches a server has, [`pliant_policy::allocation::instance_batches`] says.
//!
//! *Outcomes*: an instance that failed, or whose batch ended without having run it, goes out again, a bounded number of
//! times. What never began costs no try. An instance that a server does not take alone goes to another one, and if nobody takes it
//! it waits for somebody who does until all others have ended; then it has failed. What was handed out is told by [`Event::Recalled`]
//! and the events that followed it after a crash, in their order: batches keep their numbers, from which the keys of their submissions
//! follow, so that none is run twice. Once nothing more is wanted ([`Event::Cancel`]), nothing is handed out, what was is ended, and
//! what it had not run to an end is cancelled.
//!
//! Memory is a byte for each instance and what is in open batches. Cost: O(log n) for each outcome, and that of an
//! allocation for each look.

mod allocating;
mod batches;
mod expected;
mod messages;
mod outcomes;
mod prospects;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::SpanMs;
#[cfg(doc)]
use pliant_policy::allocation;
use pliant_policy::allocation::instances::InstanceRuntimes;
use rand::Rng;

use crate::names::{Key, Name};

pub use messages::{Command, Event, Plan, Progress, RETRIES_MAX, Share};
pub use pliant_policy::allocation::instance_batches::BATCH_MS;
pub use pliant_policy::allocation::instances::{Expectation, RuntimeSource};
pub use prospects::{Places, Prospects};

/// An instance that is done.
const DONE: u8 = u8::MAX;
/// One that failed for good.
const GIVEN_UP: u8 = u8::MAX - 1;
/// Of how many instances servers are asked, at most, before it is said that nobody takes them.
const SAMPLES_MAX: u32 = 64;

/// A batch on a server.
#[derive(Clone, PartialEq, Eq, Debug)]
struct OpenBatch {
    server: Name,
    left: BTreeSet<u32>,
    /// It waited when its server was looked at last.
    waits: bool,
    /// It is to be withdrawn.
    withdrawn: bool,
}

/// A server that takes instances.
#[derive(Clone, PartialEq, Debug)]
struct Site {
    prospects: Prospects,
    share: u64,
    /// How many batches ran there when it was looked at.
    running: u32,
    /// It refused a batch since it was looked at.
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
    batches: BTreeMap<u32, OpenBatch>,
    sites: BTreeMap<Name, Site>,
    /// What its own instances took.
    runtimes: InstanceRuntimes<Name>,
    progress: Progress,
    /// What is not handed out was not all allocated.
    unallocated: bool,
    /// Servers that refused a batch for what is in it: the most instances of the next one.
    narrowed: BTreeMap<Name, u32>,
    /// Instances that some servers refused alone.
    barred: BTreeMap<u32, BTreeSet<Name>>,
    /// What servers are still to get, if instances stay where they were put.
    kept: BTreeMap<Name, u64>,
    /// Nothing more is wanted.
    cancelled: bool,
}

/// The key of a batch's submission: that of the multi-job, its last four bytes combined with the batch's number.
pub fn batch_key(multi_job: Key, batch: u32) -> Key {
    let Key(mut bytes) = multi_job;
    bytes[12..].iter_mut().zip(batch.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
    Key(bytes)
}

/// The key under which the inputs of all batches are uploaded: no batch's, since those differ in their last bytes only.
pub fn inputs_key(multi_job: Key) -> Key {
    let Key(mut bytes) = multi_job;
    bytes[0] ^= u8::MAX;
    Key(bytes)
}

impl MultiJob {
    /// One of which nothing was handed out.
    pub fn new(plan: Plan) -> MultiJob {
        let plan =
            Plan { retries: plan.retries.min(RETRIES_MAX), batch_most: plan.batch_most.max(1), ..plan };
        MultiJob {
            fates: vec![0; plan.instances as usize],
            plan,
            next: 0,
            again: BTreeSet::new(),
            batches: BTreeMap::new(),
            sites: BTreeMap::new(),
            runtimes: InstanceRuntimes::new(),
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
        let open = self.batches.values().map(|batch| batch.left.len() as u32).sum();
        let Progress { done, failed, .. } = self.progress;
        let cancelled = if self.cancelled { self.plan.instances - done - failed - open } else { 0 };
        Progress { open, cancelled, ..self.progress }
    }

    /// True if nothing more is wanted.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// The batches that have not ended, and where they are.
    pub fn open_batches(&self) -> impl Iterator<Item = (u32, &Name)> {
        self.batches.iter().map(|(number, batch)| (*number, &batch.server))
    }

    /// The first instance that is not handed out and that no server has refused alone, if there is one.
    pub fn first_left(&self) -> Option<u32> {
        let fresh = (self.next < self.plan.instances).then_some(self.next);
        let again = self.again.iter().copied().find(|instance| !self.barred.contains_key(instance));
        again.or(fresh)
    }

    /// An instance that servers are asked about, for all: the next one and, where nobody has taken that one in so many attempts,
    /// one that has ended well, or others from all over the range. None after enough of them.
    pub fn sample(&self, attempts: u32) -> Option<u32> {
        let of_done = || self.fates.iter().position(|fate| *fate == DONE).map(|instance| instance as u32);
        let samples = self.plan.instances.min(SAMPLES_MAX);
        match attempts {
            0 => self.first_left().or_else(of_done).or(Some(0)),
            1 => of_done().or(Some(0)),
            ..=SAMPLES_MAX if attempts <= samples => {
                Some((u64::from(attempts - 1) * u64::from(self.plan.instances) / u64::from(samples)) as u32)
            }
            _ => None,
        }
    }

    /// Instances that stand for all that are not handed out: all of them if they are few, otherwise some from all over them, in
    /// no step that arguments may have as well.
    pub fn samples(&self) -> Vec<u32> {
        let fresh = self.plan.instances - self.next;
        let at = |sample: u32| match fresh <= SAMPLES_MAX {
            true => sample,
            // The fractional parts of multiples of the golden ratio lie evenly.
            false => ((u64::from(sample.wrapping_mul(0x9E37_79B9)) * u64::from(fresh)) >> 32) as u32,
        };
        let fresh = (0..fresh.min(SAMPLES_MAX)).map(|sample| self.next + at(sample));
        fresh.chain(self.again.iter().copied()).take(SAMPLES_MAX as usize).collect()
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
                self.reallocate_instances(rng, commands);
            }
            Event::Recalled { batch, server, instances } => return self.recall(batch, server, instances),
            Event::Kept { shares } => {
                self.kept = shares;
                return;
            }
            Event::Refused { batch, cause } => self.refused(batch, cause),
            Event::Unplaced { instance } => {
                self.unplaced(instance);
                if !self.is_over() {
                    return;
                }
            }
            Event::Ended { batch, instance, completed, took, scale } => {
                self.ended(batch, instance, completed, took, scale);
                if !self.is_over() {
                    // Its batch goes on: what failed is handed out with the next one.
                    return;
                }
            }
            Event::Over { batch, unbegun } => {
                let Some(OpenBatch { server, left, .. }) = self.batches.remove(&batch) else { return };
                if let Some(most) = self.narrowed.get_mut(&server) {
                    // What was refused may have been the fault of a few.
                    *most = most.saturating_mul(2).min(self.plan.batch_most);
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
            if self.is_rest_barred() {
                commands.extend(self.takers_none().map(|instance| Command::Unplaced { instance }));
            }
        }
    }

    /// What servers of which that is known would get, if nothing were handed out.
    pub fn preview(&mut self, found: Vec<(Name, Prospects)>, rng: &mut impl Rng) -> (Vec<Share>, SpanMs) {
        self.found(found, &BTreeSet::new());
        self.allocate(rng, &mut Vec::new());
        self.shares()
    }

    /// True if it is not known yet how an instance of a batch ended.
    pub fn awaits(&self, batch: u32, instance: u32) -> bool {
        self.batches.get(&batch).is_some_and(|batch| batch.left.contains(&instance))
    }

    fn found(&mut self, found: Vec<(Name, Prospects)>, waiting: &BTreeSet<u32>) {
        let site = |prospects| Site { prospects, share: 0, running: 0, refused: false };
        self.sites = found.into_iter().map(|(server, prospects)| (server, site(prospects))).collect();
        for (number, batch) in &mut self.batches {
            batch.waits = waiting.contains(number);
            if let Some(site) = self.sites.get_mut(&batch.server).filter(|_| !batch.waits) {
                site.running += 1;
            }
        }
        self.unallocated = true;
    }

    /// Has what is handed out ended.
    fn cancel(&self, commands: &mut Vec<Command>) {
        match self.is_over() {
            true => commands.push(Command::Done),
            false => commands.extend(self.batches.keys().map(|batch| Command::Cancel { batch: *batch })),
        }
    }

    fn is_over(&self) -> bool {
        let all_ended = self.progress.done + self.progress.failed == self.plan.instances;
        all_ended || (self.cancelled && self.batches.is_empty())
    }

    /// How many instances are not handed out.
    fn waiting(&self) -> u64 {
        u64::from(self.plan.instances - self.next) + self.again.len() as u64
    }
}
