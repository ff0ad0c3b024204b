//! What a user wants of a multi-job, and what is told of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pliant_control::multi_job::{MultiJob, Plan, Progress, Share};
use pliant_model::SpanMs;
use pliant_policy::allocation::Strategy;
use pliant_staging::FileSpec;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::looks::{ProspectsFound, ProspectsRequest};
use crate::{Client, Sweep, Unreachable, WorkError};

/// The most instances of a pack.
const PACK_MOST: usize = 1_000;
/// The most bytes of values in a pack: messages are no longer than 2 MiB unless a server's file says otherwise.
const PACK_BYTES: usize = 1 << 19;

/// What a user wants.
#[derive(Clone, PartialEq, Debug)]
pub struct MultiJobWanted {
    /// What each instance runs.
    pub service: String,
    /// With which arguments.
    pub sweep: Sweep,
    /// Files that every instance finds in its folder, and where they are here.
    pub inputs: Vec<(FileSpec, PathBuf)>,
    /// How they are spread.
    pub strategy: Strategy,
    /// They are spread once, and stay where they were put.
    pub once: bool,
    /// How often an instance that failed is tried again.
    pub retries: u8,
    /// How long to wait for a first server.
    pub patience: Duration,
}

/// How far a multi-job is.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepStatus {
    /// What has become of instances.
    pub progress: Progress,
    /// All of them.
    pub instances: u32,
    /// How long the rest will take, as far as is known.
    pub left: Option<SpanMs>,
    /// Servers that take instances.
    pub servers: usize,
    /// It was stopped before its end.
    pub interrupted: bool,
}

/// What would become of a multi-job.
#[derive(Clone, PartialEq, Debug)]
pub struct Preview {
    /// What each server would get.
    pub shares: Vec<Share>,
    /// When the last instance would end, from now.
    pub makespan: SpanMs,
    /// Who would get nothing.
    pub others: Vec<Unreachable>,
    /// How many instances servers were asked about.
    pub asked: usize,
    /// Those of them that none of the servers takes, and why one of them does not.
    pub refused: Vec<(u32, String)>,
}

/// What a sweep would have its machine do.
pub(super) fn plan(wanted: &MultiJobWanted) -> Plan {
    let pack_most = (PACK_BYTES / wanted.sweep.bytes_most().max(1)).clamp(1, PACK_MOST) as u32;
    let instances = wanted.sweep.combinations().unwrap_or(1);
    let MultiJobWanted { retries, strategy, once, .. } = *wanted;
    Plan { instances, retries, strategy, pack_most, once }
}

impl Client {
    /// What each server would get of a multi-job, and when its last instance would end.
    ///
    /// # Errors
    ///
    /// If no server takes such instances.
    pub async fn allocation(&self, wanted: &MultiJobWanted) -> Result<Preview, WorkError> {
        let mut machine = MultiJob::new(plan(wanted));
        let mut looked = ProspectsFound::default();
        // Of an instance that nobody takes the others may be taken all the same.
        for sample in (0..).map_while(|attempts| machine.sample(attempts)) {
            let asked = ProspectsRequest::about(&wanted.service, &wanted.sweep, sample, machine.samples());
            looked = self.look(&asked, BTreeMap::new()).await?;
            if !looked.found.is_empty() || !looked.is_of_instance() {
                break;
            }
        }
        if looked.found.is_empty() {
            return Err(WorkError::NoServer(looked.others));
        }
        let (asked, refused) = (machine.samples().len(), looked.refused_by_all());
        let (shares, makespan) =
            machine.preview(looked.found, &mut ChaCha8Rng::seed_from_u64(rand::random()));
        Ok(Preview { shares, makespan, others: looked.others, asked, refused })
    }
}
