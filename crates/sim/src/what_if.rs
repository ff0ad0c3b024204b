//! Replays the records of a live federation under other policies (`pliant what-if`).
//!
//! [`crate::recorded`] replays a finished day from an empty federation. A what-if replay starts at some time of a federation
//! in use: with the jobs that ran and waited then, and with the jobs of local users on shared clusters, in their recorded
//! shapes, runtimes and time limits (`what_if::workload`). Each policy maps, sizes and moves the federation's own jobs anew.
//! A job takes the same share of its walltime everywhere, as in a log (paper 000, section 4.2.2).
//!
//! Clusters with Pliant's own batch system run their policy; external ones run the plan that servers make of them
//! ([`pliant_policy::nodes`]). docs/concepts/what-if.md explains what a replay can show and what not.
//!
//! Cost: one direct simulation per policy ([`crate::simulate`]).

#[cfg(test)]
mod tests;
mod workload;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pliant_control::job::JobRecord;
use pliant_control::local::LocalJob;
use pliant_control::names::Name;
use pliant_control::server_info::ServerInfo;
use pliant_model::{Cluster, Estimate, JobId, JobOutcome, Platform, PlatformError, Time};
use pliant_policy::batch;
use pliant_policy::completion::is_late;
use pliant_policy::federation::{Admission, FederatedCluster, Federation};
use pliant_policy::nodes::{ClusterSnapshot, Nodes, Shape, SnapshotError};
use pliant_policy::tuning::Tuner;

use crate::engine::Engine;
use crate::{NoObserver, Policies, SimError, SimJob};

pub use workload::Counts;

/// A cluster of a replay, with the jobs of its local users.
#[derive(Clone, PartialEq, Debug)]
pub struct WhatIfCluster {
    /// Its server.
    pub info: ServerInfo,
    /// The tuner that sizes moldable requests there.
    pub tuner: Tuner,
    /// Its nodes and the planning rules of its external batch system; none with Pliant's own batch system.
    pub nodes: Option<ClusterSnapshot>,
    /// Jobs of local users: ended, running and waiting ones.
    pub locals: Vec<LocalJob>,
}

/// A recorded federation, ready to be replayed.
#[derive(Clone, Debug)]
pub struct WhatIfReplay {
    platform: Platform,
    clusters: Vec<WhatIfCluster>,
    /// The workload, in the order of submission, from time 0.
    jobs: Vec<SimJob>,
    /// The shapes of local users' jobs on nodes.
    shapes: Arc<BTreeMap<JobId, Shape>>,
    /// The live outcomes of the compared jobs, in the order of submission.
    measured: Vec<JobOutcome>,
    /// The deadlines of these.
    deadlines: Vec<Option<Time>>,
    counts: Counts,
}

/// The result of a replay under a policy.
#[derive(Clone, PartialEq, Debug)]
pub struct WhatIfOutcome {
    /// The outcomes of the compared jobs, in the order of [`WhatIfReplay::measured`]; none for a job that would not have run, as one that would
    /// have started too late for its deadline.
    pub jobs: Vec<Option<JobOutcome>>,
    /// How many would have started too late for their deadlines. In the replay they take their processors all the same.
    pub too_late: u32,
    /// The number of moves of waiting jobs.
    pub moves: u64,
}

/// A reason why a replay fails.
#[derive(Clone, PartialEq, Debug)]
pub enum WhatIfError {
    /// The servers do not form a platform.
    Platform(PlatformError),
    /// The nodes of a cluster are invalid.
    Nodes {
        /// The server.
        server: String,
        /// Why.
        why: SnapshotError,
    },
    /// The simulation cannot be run.
    Sim(SimError),
}

impl fmt::Display for WhatIfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Platform(error) => write!(f, "{error}"),
            Self::Nodes { server, why } => write!(f, "the nodes of {server}: {why}"),
            Self::Sim(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for WhatIfError {}

impl WhatIfReplay {
    /// Builds a replay from `since` on. Jobs submitted from then on that have run are compared; the others are load.
    ///
    /// # Errors
    ///
    /// If there is no server.
    pub fn new(
        mut clusters: Vec<WhatIfCluster>,
        records: &[JobRecord],
        since: Time,
    ) -> Result<WhatIfReplay, WhatIfError> {
        // As live, ties are broken by rank and name.
        clusters.sort_by(|a, b| (a.info.rank, &a.info.name).cmp(&(b.info.rank, &b.info.name)));
        clusters.dedup_by(|later, kept| later.info.name == kept.info.name);
        let cluster = |WhatIfCluster { info, .. }: &WhatIfCluster| Cluster {
            name: info.name.to_string(),
            procs: info.procs,
            speed: info.speed,
            batch: info.policy.clone(),
            nodes: None,
        };
        let platform =
            Platform::new(clusters.iter().map(cluster).collect()).map_err(WhatIfError::Platform)?;
        let workload::Workload { jobs, shapes, measured, deadlines, counts } =
            workload::of(&clusters, records, since);
        Ok(WhatIfReplay { platform, clusters, jobs, shapes: Arc::new(shapes), measured, deadlines, counts })
    }

    /// The live outcomes of the compared jobs, in the order of submission.
    pub fn measured(&self) -> &[JobOutcome] {
        &self.measured
    }

    /// The clusters, in the order of result indices.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// The counts of jobs that are in the replay or left out.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns a copy with another batch policy on the clusters with Pliant's own batch system; the others stay.
    #[must_use]
    pub fn with_batch(&self, policy: &str) -> WhatIfReplay {
        let mut other = self.clone();
        for cluster in other.clusters.iter_mut().filter(|cluster| cluster.nodes.is_none()) {
            policy.clone_into(&mut cluster.info.policy);
        }
        other
    }

    /// Returns a copy in which `changed` replaces the tuner of each server; it gets the server's name and tuner.
    ///
    /// # Errors
    ///
    /// The first one of `changed`.
    pub fn with_tuners<E>(
        &self,
        changed: impl Fn(&Name, Tuner) -> Result<Tuner, E>,
    ) -> Result<WhatIfReplay, E> {
        let mut other = self.clone();
        for cluster in &mut other.clusters {
            cluster.tuner = changed(&cluster.info.name, cluster.tuner)?;
        }
        Ok(other)
    }

    /// Replays the workload. Servers keep their tuners, whatever `policies` has.
    ///
    /// # Errors
    ///
    /// If a cluster has an unknown batch policy or invalid nodes.
    pub fn replay(&self, policies: &Policies) -> Result<WhatIfOutcome, WhatIfError> {
        let clusters = self.clusters.iter().map(|cluster| self.federated(cluster));
        let federation = Federation::from_clusters(clusters.collect::<Result<_, _>>()?, []);
        let jobs = self.jobs.iter().peekable();
        let engine = Engine::on(&self.platform, federation, Time::ZERO, jobs, Cow::Borrowed(policies));
        let run = engine.run(&mut NoObserver).map_err(WhatIfError::Sim)?;
        let mut found: BTreeMap<u64, JobOutcome> = run.jobs.iter().map(|job| (job.log_id, *job)).collect();
        let jobs = self.measured.iter().map(|job| found.remove(&job.log_id));
        let mut outcome = WhatIfOutcome { jobs: jobs.collect(), too_late: 0, moves: run.reallocations };
        for (job, deadline) in outcome.jobs.iter_mut().zip(&self.deadlines) {
            let Some((JobOutcome { procs, walltime, start, .. }, deadline)) = job.as_ref().zip(*deadline)
            else {
                continue;
            };
            // Live it would have been given up, by its walltime.
            if is_late(&Estimate { procs: *procs, walltime: *walltime, start: *start }, deadline) {
                *job = None;
                outcome.too_late += 1;
            }
        }
        Ok(outcome)
    }

    fn federated(&self, cluster: &WhatIfCluster) -> Result<FederatedCluster, WhatIfError> {
        let WhatIfCluster { info, tuner, nodes, .. } = cluster;
        let scheduler: Box<dyn batch::BatchScheduler> = match nodes {
            Some(snapshot) => {
                let server = info.name.to_string();
                let mut nodes = Nodes::from_snapshot(Time::ZERO, snapshot)
                    .map_err(|why| WhatIfError::Nodes { server, why })?;
                nodes.expect(self.shapes.clone());
                Box::new(nodes)
            }
            None => {
                let policy = info.policy.parse::<batch::LocalPolicy>();
                let policy = policy.map_err(|unknown| WhatIfError::Sim(SimError::Batch(unknown)))?;
                policy.scheduler(info.procs, Time::ZERO)
            }
        };
        Ok(FederatedCluster {
            procs: info.procs,
            speed: info.speed,
            tuner: *tuner,
            scheduler,
            admission: Admission::Open,
        })
    }
}
