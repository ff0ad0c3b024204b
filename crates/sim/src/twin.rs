//! What a live federation recorded, replayed under other policies (`pliant what-if`).
//!
//! Unlike [`crate::recorded`], which runs a finished day from an empty federation, a twin begins at some moment of a
//! federation in use: what ran and waited then is there, and so is what local users ran on clusters that are not the
//! federation's alone, in the shapes, with the runtimes and the limits that they had (`twin::workload`). The federation's
//! own jobs are mapped, sized and moved anew under each policy. A job takes the same share of its walltime everywhere, as
//! in a log (paper 000, section 4.2.2).
//!
//! Clusters of Pliant's own batch system run their policy; external ones run the plan that servers make of them
//! ([`pliant_policy::nodes`]). docs/what-if.md says what all this can tell and what not.
//!
//! Cost: one direct simulation per policy ([`crate::simulate`]).

#[cfg(test)]
mod tests;
mod workload;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pliant_control::job::JobRecord;
use pliant_control::local::LocalJob;
use pliant_control::names::Name;
use pliant_control::server_info::ServerInfo;
use pliant_model::{Cluster, JobId, JobOutcome, Platform, PlatformError, Time};
use pliant_policy::batch;
use pliant_policy::federation::{FederatedCluster, Federation};
use pliant_policy::nodes::{ClusterSnapshot, Nodes, Shape, SnapshotError};
use pliant_policy::tuning::Tuner;

use crate::engine::Engine;
use crate::{Policies, Silent, SimError, SimJob};

pub use workload::Counts;

/// A cluster, and what local users ran on it.
#[derive(Clone, PartialEq, Debug)]
pub struct TwinCluster {
    /// Its server.
    pub info: ServerInfo,
    /// How it sizes moldable requests.
    pub tuner: Tuner,
    /// Its nodes and how its batch system plans, if that is not Pliant's own.
    pub nodes: Option<ClusterSnapshot>,
    /// Jobs of local users: runs that are over, and those that run or wait.
    pub locals: Vec<LocalJob>,
}

/// A recorded federation, ready to be replayed.
#[derive(Clone, Debug)]
pub struct Twin {
    platform: Platform,
    clusters: Vec<TwinCluster>,
    /// The workload, in the order of submission, from time 0.
    jobs: Vec<SimJob>,
    /// How jobs of local users lie on nodes.
    shapes: Arc<BTreeMap<JobId, Shape>>,
    /// What the jobs that are compared were live, in the order of submission.
    measured: Vec<JobOutcome>,
    counts: Counts,
}

/// What a policy would have made of the recorded jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct Replayed {
    /// The jobs that are compared, in the order of [`Twin::measured`]; none of one that would not have run.
    pub jobs: Vec<Option<JobOutcome>>,
    /// How often waiting jobs would have been moved.
    pub moves: u64,
}

/// Why there is no replay.
#[derive(Clone, PartialEq, Debug)]
pub enum TwinError {
    /// The servers make no platform.
    Platform(PlatformError),
    /// The nodes of a cluster make no sense.
    Nodes {
        /// The server.
        server: String,
        /// Why.
        why: SnapshotError,
    },
    /// The simulation cannot be run.
    Sim(SimError),
}

impl fmt::Display for TwinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform(error) => write!(f, "{error}"),
            Self::Nodes { server, why } => write!(f, "the nodes of {server}: {why}"),
            Self::Sim(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for TwinError {}

impl Twin {
    /// Of what was recorded from `since` on: jobs submitted from then on that have run are compared, the others are load.
    ///
    /// # Errors
    ///
    /// If there is no server.
    pub fn new(
        mut clusters: Vec<TwinCluster>,
        records: &[JobRecord],
        since: Time,
    ) -> Result<Twin, TwinError> {
        // As live: ties go by rank and name.
        clusters.sort_by(|a, b| (a.info.rank, &a.info.name).cmp(&(b.info.rank, &b.info.name)));
        clusters.dedup_by(|later, kept| later.info.name == kept.info.name);
        let cluster = |TwinCluster { info, .. }: &TwinCluster| Cluster {
            name: info.name.to_string(),
            procs: info.procs,
            speed: info.speed,
            batch: info.policy.clone(),
        };
        let platform = Platform::new(clusters.iter().map(cluster).collect()).map_err(TwinError::Platform)?;
        let workload::Workload { jobs, shapes, measured, counts } = workload::of(&clusters, records, since);
        Ok(Twin { platform, clusters, jobs, shapes: Arc::new(shapes), measured, counts })
    }

    /// The jobs that are compared, as they were live, in the order of their submission.
    pub fn measured(&self) -> &[JobOutcome] {
        &self.measured
    }

    /// The clusters, as results name them.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// What went into the replay and what did not.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The same with another batch policy on the clusters of Pliant's own batch system; the others cannot be changed.
    #[must_use]
    pub fn with_batch(&self, policy: &str) -> Twin {
        let mut other = self.clone();
        for cluster in other.clusters.iter_mut().filter(|cluster| cluster.nodes.is_none()) {
            policy.clone_into(&mut cluster.info.policy);
        }
        other
    }

    /// The same with what `changed` makes of the tuner of each server, of which it gets the name.
    ///
    /// # Errors
    ///
    /// The first one of `changed`.
    pub fn with_tuners<E>(&self, changed: impl Fn(&Name, Tuner) -> Result<Tuner, E>) -> Result<Twin, E> {
        let mut other = self.clone();
        for cluster in &mut other.clusters {
            cluster.tuner = changed(&cluster.info.name, cluster.tuner)?;
        }
        Ok(other)
    }

    /// Replays all of it. Each server sizes as it does, whatever `policies` say.
    ///
    /// # Errors
    ///
    /// If a cluster has a batch policy that is not known here, or nodes that make no sense.
    pub fn replay(&self, policies: &Policies) -> Result<Replayed, TwinError> {
        let clusters = self.clusters.iter().map(|cluster| self.federated(cluster));
        let federation = Federation::from_clusters(clusters.collect::<Result<_, _>>()?, []);
        let jobs = self.jobs.iter().peekable();
        let engine = Engine::on(&self.platform, federation, Time::ZERO, jobs, policies);
        let run = engine.run(&mut Silent).map_err(TwinError::Sim)?;
        let mut found: BTreeMap<u64, JobOutcome> = run.jobs.iter().map(|job| (job.log_id, *job)).collect();
        let jobs = self.measured.iter().map(|job| found.remove(&job.log_id)).collect();
        Ok(Replayed { jobs, moves: run.reallocations })
    }

    fn federated(&self, cluster: &TwinCluster) -> Result<FederatedCluster, TwinError> {
        let TwinCluster { info, tuner, nodes, .. } = cluster;
        let scheduler: Box<dyn batch::BatchScheduler> = match nodes {
            Some(snapshot) => {
                let server = info.name.to_string();
                let mut nodes = Nodes::from_snapshot(Time::ZERO, snapshot)
                    .map_err(|why| TwinError::Nodes { server, why })?;
                nodes.expect(self.shapes.clone());
                Box::new(nodes)
            }
            None => {
                let policy = info.policy.parse::<batch::LocalPolicy>();
                let policy = policy.map_err(|unknown| TwinError::Sim(SimError::Batch(unknown)))?;
                policy.scheduler(info.procs, Time::ZERO)
            }
        };
        Ok(FederatedCluster { procs: info.procs, speed: info.speed, tuner: *tuner, scheduler, open: true })
    }
}
