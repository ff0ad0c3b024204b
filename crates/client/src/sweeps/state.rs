//! The state of a sweep, which its journal rebuilds: packs and instances.

use std::collections::BTreeMap;

use pliant_control::multi_job::{Command, Event, MultiJob};
use pliant_control::names::{Handle, Name};
use pliant_model::SpanMs;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tokio::time::Instant;

use super::Entry;
use super::folder::{Header, numbers};

/// A pack that has not ended.
#[derive(Clone, Debug)]
pub(super) struct OpenPack {
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
    pub(super) packs: BTreeMap<u32, OpenPack>,
    /// A server has accepted a pack.
    pub(super) has_accepted: bool,
    rng: ChaCha8Rng,
}

impl SweepState {
    pub(super) fn new(header: &Header) -> SweepState {
        SweepState {
            machine: MultiJob::new(header.plan.clone()),
            packs: BTreeMap::new(),
            has_accepted: false,
            rng: ChaCha8Rng::seed_from_u64(header.seed),
        }
    }

    /// Draws other random numbers than the clients that handed out the packs so far.
    pub(super) fn reseed(&mut self) {
        self.rng.set_stream(u64::from(self.machine.progress().packs));
    }

    pub(super) fn on(&mut self, event: Event, commands: &mut Vec<Command>) {
        self.machine.on(event, &mut self.rng, commands);
    }

    pub(super) fn open(&mut self, pack: u32, server: Name, instances: Vec<u32>) {
        self.packs.insert(pack, OpenPack { server, instances, job: None, running_since: None });
    }

    pub(super) fn apply(&mut self, entry: Entry, commands: &mut Vec<Command>) {
        let event = match entry {
            Entry::Submitted { pack, server, instances } => {
                let instances = numbers(&instances);
                self.open(pack, server.clone(), instances.clone());
                Event::Recalled { pack, server, instances }
            }
            Entry::Accepted { pack, job } => {
                self.has_accepted = true;
                if let Some(open) = self.packs.get_mut(&pack) {
                    open.job = Some(job);
                }
                if self.machine.is_cancelled() {
                    commands.push(Command::Cancel { pack });
                }
                return;
            }
            Entry::Kept { shares } => Event::Kept { shares },
            Entry::Refused { pack, cause, .. } => {
                self.packs.remove(&pack);
                Event::Refused { pack, cause }
            }
            Entry::Ended { pack, end } => {
                let took = SpanMs(i64::try_from(end.elapsed_ms).unwrap_or(i64::MAX / 4));
                let (instance, completed, scale) = (end.instance, end.is_success(), end.scale);
                Event::Ended { pack, instance, completed, took, scale }
            }
            Entry::Over { pack, unbegun, .. } => {
                self.packs.remove(&pack);
                Event::Over { pack, unbegun }
            }
            Entry::Unplaced { instance, .. } => Event::Unplaced { instance },
            Entry::Cancelled {} => Event::Cancel,
        };
        self.on(event, commands);
    }
}
