//! What a user asks of a sweep, and its progress.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pliant_control::multi_job::{MultiJob, Plan, Progress, Share};
use pliant_control::names::Name;
use pliant_model::{SpanMs, Time};
use pliant_policy::allocation::Strategy;
use pliant_staging::FileSpec;
use pliant_wire::Executable;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::prospects::{ProspectsFound, ProspectsRequest};
use crate::{Client, ParameterSpace, ServerRefusal, WorkError};

/// The most instances of a batch.
const BATCH_MOST: usize = 1_000;
/// The most bytes of values in a batch: messages are no longer than 2 MiB unless a server's file says otherwise.
const BATCH_BYTES: usize = 1 << 19;

/// A sweep as its user asks for it.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepSpec {
    /// What each instance runs.
    pub executable: Executable,
    /// The arguments of each instance.
    pub parameters: ParameterSpace,
    /// Files that every instance finds in its folder, and their local paths.
    pub inputs: Vec<(FileSpec, PathBuf)>,
    /// How instances are allocated to servers.
    pub strategy: Strategy,
    /// Allocate all instances once, at the start.
    pub once: bool,
    /// How often an instance that failed or was lost is run again; in an array, one that was lost.
    pub retries: u8,
    /// The most instances that run at a time; none for any number.
    pub at_once: Option<u32>,
    /// The only server that gets instances; none for any.
    pub only: Option<Name>,
    /// How long to wait for a first server.
    pub timeout: Duration,
}

/// The progress of a sweep.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepStatus {
    /// The outcomes so far.
    pub progress: Progress,
    /// The number of all instances.
    pub instances: u32,
    /// How long the rest is expected to take.
    pub left: Option<SpanMs>,
    /// Servers that take instances.
    pub servers: usize,
    /// When the first instance may start, as long as that is to come.
    pub begin: Option<Time>,
    /// It was stopped before its end.
    pub interrupted: bool,
}

/// How a sweep would be allocated.
#[derive(Clone, PartialEq, Debug)]
pub struct SweepPreview {
    /// The share of each server.
    pub shares: Vec<Share>,
    /// When the last instance would end, from now.
    pub makespan: SpanMs,
    /// The servers without a share.
    pub others: Vec<ServerRefusal>,
    /// How many sample instances servers were asked about.
    pub asked: usize,
    /// The samples that no server takes, and why one server does not.
    pub refused: Vec<(u32, String)>,
}

/// The plan of a sweep for its machine.
pub(super) fn plan(spec: &SweepSpec) -> Plan {
    let batch_most = (BATCH_BYTES / spec.parameters.bytes_most().max(1)).clamp(1, BATCH_MOST) as u32;
    let instances = spec.parameters.combinations().unwrap_or(1);
    let SweepSpec { retries, strategy, once, at_once, .. } = *spec;
    let lost_only = matches!(&spec.executable, Executable::Script(script) if script.array.is_some());
    Plan { instances, retries, strategy, batch_most, once, at_once, lost_only }
}

impl Client {
    /// How a sweep would be allocated now.
    ///
    /// # Errors
    ///
    /// If no server takes such instances.
    pub async fn allocation(&self, spec: &SweepSpec) -> Result<SweepPreview, WorkError> {
        let mut machine = MultiJob::new(plan(spec));
        let mut prospects = ProspectsFound::default();
        // Servers may take other instances than the first sample.
        for sample in (0..).map_while(|attempts| machine.sample(attempts)) {
            let SweepSpec { executable, parameters, only, .. } = spec;
            let asked =
                ProspectsRequest::about(executable, parameters, sample, machine.samples(), only.as_ref());
            prospects = self.all_prospects(&asked, BTreeMap::new()).await?;
            if !prospects.found.is_empty() || !prospects.is_of_instance() {
                break;
            }
        }
        if prospects.found.is_empty() {
            return Err(WorkError::NoServer(prospects.others));
        }
        let (asked, refused) = (machine.samples().len(), prospects.refused_by_all());
        let (shares, makespan) =
            machine.preview(prospects.found, &mut ChaCha8Rng::seed_from_u64(rand::random()));
        Ok(SweepPreview { shares, makespan, others: prospects.others, asked, refused })
    }
}
