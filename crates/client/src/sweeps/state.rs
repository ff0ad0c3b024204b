//! The state of a sweep, which its journal rebuilds: batches and instances.

use std::collections::BTreeMap;

use pliant_control::multi_job::{Command, Event, MultiJob};
use pliant_control::names::{Handle, Name};
use pliant_control::reason::Cause;
use pliant_model::SpanMs;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::time::Instant;

use super::Entry;
use super::folder::{Header, numbers};

/// A batch that has not ended.
#[derive(Clone, Debug)]
pub(super) struct SubmittedBatch {
    pub(super) server: Name,
    pub(super) instances: Vec<u32>,
    /// Its job, once it is accepted.
    pub(super) job: Option<Handle>,
    /// When its current instance started, about; none while it is not known to run.
    pub(super) running_since: Option<Instant>,
}

/// The state of a sweep.
#[derive(Debug)]
pub struct SweepState {
    pub(super) machine: MultiJob,
    pub(super) batches: BTreeMap<u32, SubmittedBatch>,
    /// A server has accepted a batch.
    pub(super) has_accepted: bool,
    rng: ChaCha8Rng,
}

impl SweepState {
    pub(super) fn new(header: &Header) -> SweepState {
        SweepState {
            machine: MultiJob::new(header.plan.clone()),
            batches: BTreeMap::new(),
            has_accepted: false,
            rng: ChaCha8Rng::seed_from_u64(header.seed),
        }
    }

    /// Draws other random numbers than the clients that handed out the batches so far.
    pub(super) fn reseed(&mut self) {
        self.rng.set_stream(u64::from(self.machine.progress().batches));
    }

    pub(super) fn on(&mut self, event: Event, commands: &mut Vec<Command>) {
        self.machine.on(event, &mut self.rng, commands);
    }

    pub(super) fn open(&mut self, batch: u32, server: Name, instances: Vec<u32>) {
        self.batches.insert(batch, SubmittedBatch { server, instances, job: None, running_since: None });
    }

    pub(super) fn apply(&mut self, entry: Entry, commands: &mut Vec<Command>) {
        let event = match entry {
            Entry::Submitted { batch, server, instances } => {
                let instances = numbers(&instances);
                self.open(batch, server.clone(), instances.clone());
                Event::BatchRestored { batch, server, instances }
            }
            Entry::Accepted { batch, job } => {
                self.has_accepted = true;
                if let Some(open) = self.batches.get_mut(&batch) {
                    open.job = Some(job);
                }
                if self.machine.is_cancelled() {
                    commands.push(Command::Cancel { batch });
                }
                Event::Accepted { batch }
            }
            Entry::Kept { shares } => Event::SharesRestored { shares },
            Entry::Refused { batch, cause, .. } => {
                self.batches.remove(&batch);
                Event::Refused { batch, cause }
            }
            Entry::Ended { batch, end } => {
                let took = SpanMs(i64::try_from(end.elapsed_ms).unwrap_or(i64::MAX / 4));
                let (instance, completed, scale) = (end.instance, end.is_success(), end.scale);
                Event::InstanceEnded { batch, instance, completed, took, scale }
            }
            Entry::Over { batch, unbegun, lost, too_late, .. } => {
                self.batches.remove(&batch);
                match too_late {
                    true => Event::Refused { batch, cause: Cause::Deadline },
                    false => Event::BatchEnded { batch, unbegun, lost },
                }
            }
            Entry::TooLate { .. } => Event::TooLate,
            Entry::Unplaced { instance, .. } => Event::Unplaced { instance },
            Entry::Cancelled {} => Event::Cancel,
        };
        self.on(event, commands);
    }
}
