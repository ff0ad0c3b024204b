//! The client of a multi-job (paper 002): many instances of one service, distributed over servers by runtime statistics.
//!
//! *Allocation*: servers report when their processors become free and how long an instance is expected to take
//! ([`InstanceProspects`]). [`pliant_policy::allocation`], which the simulator also calls, allocates instances to servers.
//! Each new report of the servers starts a reallocation ([`allocation::reallocate_instances`]): a server that is slower
//! than expected, or down, loses its share to others, and batches that wait there are withdrawn. Where arguments change the
//! length of instances, ended instances give the runtime of a unit of the service, and samples of the rest
//! ([`MultiJob::samples`]) the units of an instance. If instances have to stay on their servers, the shares are journaled
//! ([`Command::RecordShares`]) for a restarted client.
//!
//! *Batches*: short instances are submitted in batches, each of which is one job that runs them one after the other.
//! [`pliant_policy::allocation::instance_batches`] decides the size and the number of batches.
//!
//! *Outcomes*: a failed instance, or one whose batch ended without running it, is submitted again, up to the retry limit.
//! An instance that never started costs no retry. An instance that a server refuses alone goes to another server. If every
//! server refuses it, it waits for a further server until all others have ended, and then it has failed. After a crash,
//! [`Event::BatchRestored`] and the events that followed are replayed in order. Batches keep their numbers, which determine
//! the keys of their submissions, so no batch runs twice. After [`Event::Cancel`] no batch is submitted, submitted ones are
//! ended, and their remaining instances are cancelled. Of instances with a deadline those that no server completes by then never run.
//!
//! Memory: a byte per instance, and the open batches. Cost: O(log n) for each outcome, and an allocation for each report of
//! the servers.

mod allocating;
mod batches;
mod expected;
mod late;
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
pub use prospects::{FreeSlots, InstanceProspects};

/// The outcome of an instance that is done.
const DONE: u8 = u8::MAX;
/// The outcome of an instance that failed for good.
const GIVEN_UP: u8 = u8::MAX - 1;
/// The most instances that servers are asked about before the whole multi-job counts as refused.
const SAMPLES_MAX: u32 = 64;

/// A batch that has not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
struct OpenBatch {
    server: Name,
    left: BTreeSet<u32>,
    /// True if it waited at the last report of its server.
    is_waiting: bool,
    /// True if it is to be withdrawn.
    withdrawn: bool,
    /// True if its server has accepted it.
    is_accepted: bool,
}

impl OpenBatch {
    /// A batch that is about to be submitted.
    fn new(server: Name, left: BTreeSet<u32>) -> OpenBatch {
        OpenBatch { server, left, is_waiting: false, withdrawn: false, is_accepted: false }
    }
}

/// A server that takes instances.
#[derive(Clone, PartialEq, Debug)]
struct ServerShare {
    prospects: InstanceProspects,
    share: u64,
    /// The number of running batches at its last report.
    running: u32,
    /// True if it has refused a batch since its last report.
    refused: bool,
}

/// The state machine of a multi-job.
#[derive(Clone, Debug)]
pub struct MultiJob {
    plan: Plan,
    /// For each instance: the number of failures, [`DONE`] or [`GIVEN_UP`].
    outcomes: Vec<u8>,
    /// The first instance that was never submitted.
    next: u32,
    /// Instances to submit again.
    returned: BTreeSet<u32>,
    batches: BTreeMap<u32, OpenBatch>,
    sites: BTreeMap<Name, ServerShare>,
    /// The runtimes of its own instances.
    runtimes: InstanceRuntimes<Name>,
    progress: Progress,
    /// True if some waiting instances are not allocated.
    unallocated: bool,
    /// The size limit of the next batch for servers that refused a batch because of its content.
    batch_limits: BTreeMap<Name, u32>,
    /// The most instances of a batch for servers that refused one because of the deadline; 0 if not even one is taken ([`late`]).
    deadline_limits: BTreeMap<Name, u32>,
    /// The servers that said last that they complete no instance by the deadline.
    late_servers: BTreeSet<Name>,
    /// True once the waiting instances will not run because of the deadline.
    too_late: bool,
    /// Instances that were refused alone, with the servers that refused them.
    refused_by: BTreeMap<u32, BTreeSet<Name>>,
    /// Instances still to be submitted to each server, if instances stay on their servers.
    fixed_shares: BTreeMap<Name, u64>,
    /// True once the multi-job is cancelled.
    cancelled: bool,
}

/// The key of a batch's submission: the multi-job's key with its last four bytes combined with the batch's number.
pub fn batch_key(multi_job: Key, batch: u32) -> Key {
    let Key(mut bytes) = multi_job;
    bytes[12..].iter_mut().zip(batch.to_be_bytes()).for_each(|(byte, number)| *byte ^= number);
    Key(bytes)
}

/// What the keys of all batches of a multi-job have in common. Keys are drawn at random, so no other jobs have it in common.
pub fn common_key(batch: Key) -> [u8; 12] {
    let Key(bytes) = batch;
    std::array::from_fn(|index| bytes[index])
}

/// The key for the uploaded inputs of all batches. It differs from every batch's key, since those differ only in their last
/// bytes.
pub fn inputs_key(multi_job: Key) -> Key {
    let Key(mut bytes) = multi_job;
    bytes[0] ^= u8::MAX;
    Key(bytes)
}

impl MultiJob {
    /// Makes a multi-job without submitted batches.
    pub fn new(plan: Plan) -> MultiJob {
        let plan =
            Plan { retries: plan.retries.min(RETRIES_MAX), batch_most: plan.batch_most.max(1), ..plan };
        MultiJob {
            outcomes: vec![0; plan.instances as usize],
            plan,
            next: 0,
            returned: BTreeSet::new(),
            batches: BTreeMap::new(),
            sites: BTreeMap::new(),
            runtimes: InstanceRuntimes::new(),
            progress: Progress::default(),
            unallocated: true,
            batch_limits: BTreeMap::new(),
            deadline_limits: BTreeMap::new(),
            late_servers: BTreeSet::new(),
            too_late: false,
            refused_by: BTreeMap::new(),
            fixed_shares: BTreeMap::new(),
            cancelled: false,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The progress.
    pub fn progress(&self) -> Progress {
        let open = self.batches.values().map(|batch| batch.left.len() as u32).sum();
        let Progress { done, failed, .. } = self.progress;
        let rest = self.plan.instances - done - failed - open;
        let cancelled = if self.cancelled { rest } else { 0 };
        let not_started = if self.too_late && !self.cancelled { rest } else { 0 };
        Progress { open, cancelled, not_started, ..self.progress }
    }

    /// True if the multi-job is cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// True if the rest of the instances will not run because of the deadline.
    pub fn has_given_up_rest(&self) -> bool {
        self.too_late
    }

    /// The batches that have not ended, with their servers.
    pub fn open_batches(&self) -> impl Iterator<Item = (u32, &Name)> {
        self.batches.iter().map(|(number, batch)| (*number, &batch.server))
    }

    /// The first waiting instance that no server has refused alone.
    pub fn first_waiting(&self) -> Option<u32> {
        let fresh = (self.next < self.plan.instances).then_some(self.next);
        let again = self.returned.iter().copied().find(|instance| !self.refused_by.contains_key(instance));
        again.or(fresh)
    }

    /// The instance to ask servers about: the next one. If no server takes it, a completed one, and then others from the
    /// whole range; none after enough attempts.
    pub fn sample(&self, attempts: u32) -> Option<u32> {
        let of_done =
            || self.outcomes.iter().position(|outcome| *outcome == DONE).map(|instance| instance as u32);
        let samples = self.plan.instances.min(SAMPLES_MAX);
        match attempts {
            0 => self.first_waiting().or_else(of_done).or(Some(0)),
            1 => of_done().or(Some(0)),
            ..=SAMPLES_MAX if attempts <= samples => {
                Some((u64::from(attempts - 1) * u64::from(self.plan.instances) / u64::from(samples)) as u32)
            }
            _ => None,
        }
    }

    /// A sample of the waiting instances: all if they are few, otherwise some from the whole range, at positions that match
    /// no period in the arguments.
    pub fn samples(&self) -> Vec<u32> {
        let fresh = self.plan.instances - self.next;
        let at = |sample: u32| match fresh <= SAMPLES_MAX {
            true => sample,
            // Fractional parts of multiples of the golden ratio are evenly distributed.
            false => ((u64::from(sample.wrapping_mul(0x9E37_79B9)) * u64::from(fresh)) >> 32) as u32,
        };
        let fresh = (0..fresh.min(SAMPLES_MAX)).map(|sample| self.next + at(sample));
        fresh.chain(self.returned.iter().copied()).take(SAMPLES_MAX as usize).collect()
    }

    /// The instances that failed for good.
    pub fn given_up(&self) -> impl Iterator<Item = u32> {
        let outcomes = (0..).zip(&self.outcomes);
        outcomes.filter_map(|(instance, outcome)| (*outcome == GIVEN_UP).then_some(instance))
    }

    /// True if an instance failed for good.
    pub fn is_given_up(&self, instance: u32) -> bool {
        self.outcomes.get(instance as usize) == Some(&GIVEN_UP)
    }

    /// True if an instance is done.
    pub fn is_done(&self, instance: u32) -> bool {
        self.outcomes.get(instance as usize) == Some(&DONE)
    }

    /// Handles an event and appends the commands that follow.
    pub fn on(&mut self, event: Event, rng: &mut impl Rng, commands: &mut Vec<Command>) {
        match event {
            Event::Begin => {
                // Servers may accept now what they refused an earlier client.
                self.refused_by.clear();
                self.batch_limits.clear();
                self.deadline_limits.clear();
                match self.cancelled {
                    true => self.cancel(commands),
                    false => {
                        commands.push(if self.is_over() { Command::Done } else { Command::QueryServers })
                    }
                }
                return;
            }
            Event::Cancel => {
                self.cancelled = true;
                return self.cancel(commands);
            }
            Event::Found { .. } if self.cancelled => {}
            Event::Found { servers, waiting, late } => {
                self.record_servers(servers, &waiting);
                self.late_servers = late;
                self.reallocate_instances(rng, commands);
            }
            Event::BatchRestored { batch, server, instances } => {
                return self.restore_batch(batch, server, instances);
            }
            Event::SharesRestored { shares } => {
                self.fixed_shares = shares;
                return;
            }
            Event::Accepted { batch } => {
                let Some(batch) = self.batches.get_mut(&batch) else { return };
                batch.is_accepted = true;
                // Others are not limited by what is under way.
                if !self.deadline_limits.contains_key(&batch.server) {
                    return;
                }
            }
            Event::Refused { batch, cause } => self.refused(batch, cause),
            Event::TooLate => self.too_late = true,
            Event::Unplaced { instance } => {
                self.unplaced(instance);
                if !self.is_over() {
                    return;
                }
            }
            Event::InstanceEnded { batch, instance, completed, took, scale } => {
                self.ended(batch, instance, completed, took, scale);
                if !self.is_over() {
                    // The batch continues: a failed instance is submitted with the next one.
                    return;
                }
            }
            Event::BatchEnded { batch, unbegun, lost } => {
                let Some(OpenBatch { server, mut left, .. }) = self.batches.remove(&batch) else { return };
                if let Some(most) = self.batch_limits.get_mut(&server) {
                    // A few instances may have caused the refusal: the limit grows again.
                    *most = most.saturating_mul(2).min(self.plan.batch_most);
                }
                // Instances run in order: only the first one without an end may have begun. Cancelled instances have not failed.
                let begun = if unbegun || self.cancelled { None } else { left.pop_first() };
                self.return_instances(left);
                if let Some(instance) = begun {
                    self.did_not_complete(instance, lost);
                }
                self.ask_after_end(&server, commands);
            }
        }
        if self.is_over() {
            commands.push(Command::Done);
        } else if !self.cancelled {
            self.submit_batches(rng, commands);
            if self.is_rest_refused() {
                commands.extend(self.refused_everywhere().map(|instance| Command::Unplaced { instance }));
            }
            if self.is_too_late() {
                commands.push(Command::TooLate);
            }
        }
    }

    /// The shares of these servers, if nothing were submitted.
    pub fn preview(
        &mut self,
        found: Vec<(Name, InstanceProspects)>,
        rng: &mut impl Rng,
    ) -> (Vec<Share>, SpanMs) {
        self.record_servers(found, &BTreeSet::new());
        self.allocate(rng, &mut Vec::new());
        self.shares()
    }

    /// True if the outcome of an instance in a batch is not known.
    pub fn is_pending(&self, batch: u32, instance: u32) -> bool {
        self.batches.get(&batch).is_some_and(|batch| batch.left.contains(&instance))
    }

    fn record_servers(&mut self, found: Vec<(Name, InstanceProspects)>, waiting: &BTreeSet<u32>) {
        let site = |prospects| ServerShare { prospects, share: 0, running: 0, refused: false };
        self.sites = found.into_iter().map(|(server, prospects)| (server, site(prospects))).collect();
        for (number, batch) in &mut self.batches {
            batch.is_waiting = waiting.contains(number);
            if let Some(site) = self.sites.get_mut(&batch.server).filter(|_| !batch.is_waiting) {
                site.running += 1;
            }
        }
        self.unallocated = true;
    }

    /// Cancels the open batches.
    fn cancel(&self, commands: &mut Vec<Command>) {
        match self.is_over() {
            true => commands.push(Command::Done),
            false => commands.extend(self.batches.keys().map(|batch| Command::Cancel { batch: *batch })),
        }
    }

    fn is_over(&self) -> bool {
        let all_ended = self.progress.done + self.progress.failed == self.plan.instances;
        all_ended || ((self.cancelled || self.too_late) && self.batches.is_empty())
    }

    /// The number of instances that wait to be submitted.
    fn waiting(&self) -> u64 {
        u64::from(self.plan.instances - self.next) + self.returned.len() as u64
    }
}
