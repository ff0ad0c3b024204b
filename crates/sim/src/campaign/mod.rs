//! Campaigns: experiments of several kinds, run in parallel and resumable (`docs/reference/files/campaign.md`).
//!
//! A kind implements `experiment::Experiment`: its cells, how to run one, and how to build results from all records. The
//! runner does the rest: threads, records that survive a kill, shards and their merging, progress.
//!
//! - Simulations: a matrix `workload x platform x moldable x dedicated x seed x policy`. A campaign of optional computations
//!   (paper 004) has scenarios instead of workloads and systems instead of policies; the rest of the matrix is the same.
//! - [`mapping`]: task interaction graphs on grids.
//! - [`multi_job`]: parameter sweeps on clusters.
//!
//! Results hold no times of day and no durations and are written in the order of the cells. They are the same bytes on any
//! number of threads, after any number of kills, and from any number of shards.
//!
//! The caller computes the metrics of simulated runs ([`Measure`]), so that reports and simulations do not depend on each
//! other.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "campaigns read and write files, take the time of each run and use every core; runs do not"
)]

mod check;
mod error;
mod experiment;
mod explorations;
mod file;
mod fingerprint;
mod jobs;
mod keywords;
mod kind;
pub mod mapping;
mod matrix;
pub mod multi_job;
mod planning;
mod recipe;
mod runner;
mod sequence;
mod simulations;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod workloads;

use std::collections::BTreeMap;
use std::path::PathBuf;

use pliant_model::{ExplorationRun, PlannedJob, Run};
use pliant_policy::batch::order::LocalPolicyChange;
use pliant_trace::CalendarMonth;

pub use pliant_model::campaign::Results;
pub use pliant_model::campaign::simulations::{Record, Results as SimulationResults};

pub use error::CampaignError;
use fingerprint::Fingerprint;
pub use jobs::{SimJobs, SkippedWorkload, sim_jobs};
pub use keywords::Moldable;
pub use kind::{Campaign, Kind, merge, read_folder};
pub use matrix::Group;
pub use recipe::{Generator, LONGEST_RANGE_S, ParameterError, Recipe, month};
pub use runner::{FinishedCampaign, Options, Progress, Shard, THREADS_MAX};
pub use sequence::{Sequence, Times};
pub use store::{DamagedLine, FolderContents};
pub use table::{Cell, Spread, cells};

use crate::Policies;
use crate::optional::{Scenario, System};

/// A campaign of simulations, as read from its file.
#[derive(Clone, PartialEq, Debug)]
pub struct SimulationCampaign {
    /// Its name.
    pub name: String,
    /// The base folder of its relative paths.
    pub base: PathBuf,
    /// Folders that are searched for logs that are not in `base`.
    pub log_dirs: Vec<PathBuf>,
    /// The seeds of job types, of locality and of random policies.
    pub seeds: Vec<u64>,
    /// The shares of jobs that go through the federation.
    pub dedicated_shares: Vec<f64>,
    /// Which jobs are moldable.
    pub moldable: Vec<Moldable>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The policies.
    pub policies: Vec<Variant>,
    /// The position of the reference policy.
    pub reference: usize,
    /// Whether runs are measured against the plans that jobs had when they were submitted.
    pub planned_starts: bool,
}

/// A workload of a campaign, and the platforms it runs on.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name in keys and tables.
    pub name: String,
    /// The source of its jobs.
    pub source: JobSource,
    /// True if the campaign may run without it when its file is absent ([`Campaign::skip_absent`]).
    pub optional: bool,
    /// The part of its jobs that the runs of a seed use; none: all jobs.
    pub sequence: Option<Sequence>,
    /// The platforms.
    pub platforms: Vec<PlatformChoice>,
}

/// The source of the jobs of a workload.
#[derive(Clone, PartialEq, Debug)]
pub enum JobSource {
    /// A log, or a scenario of several.
    File {
        /// Relative to the campaign file, or to one of [`SimulationCampaign::log_dirs`].
        path: PathBuf,
        /// Keeps jobs without processors or runtime instead of dropping them.
        keep_bad: bool,
        /// The calendar month to cut out of it; none: the whole log.
        month: Option<CalendarMonth>,
        /// The offered load to which submission times are scaled; none: no scaling.
        load: Option<f64>,
    },
    /// A generator.
    Generated {
        /// The generator and its parameters.
        recipe: Recipe,
        /// The generator's seed.
        seed: u64,
        /// True if the generator gets the seed of each run instead, so that every seed has different jobs.
        per_seed: bool,
    },
    /// No jobs, but users with mandatory and optional requests, and servers.
    Scenario(Box<Scenario>),
}

/// A platform of a campaign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlatformChoice {
    /// One cluster of that many processors.
    Procs(u32),
    /// A built-in platform by its name, or a platform file by its path.
    Named(String),
    /// A platform with all clusters under one local batch policy.
    Under {
        /// The platform.
        platform: Box<PlatformChoice>,
        /// The registered name of the policy.
        batch: String,
    },
}

/// One policy of the matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Its name in keys and tables.
    pub name: String,
    /// The policies for jobs or requests.
    pub treatment: VariantPolicies,
    /// The policies by whose metrics the campaign's page divides those of this one.
    pub compare_with: Vec<String>,
}

/// The sizes that a policy gives to moldable jobs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Sizes {
    /// The sizes that its tuner chooses.
    #[default]
    Chosen,
    /// The sizes that users requested: every job is rigid, as with [`Moldable::None`].
    Asked,
}

/// The policies of one variant of the matrix.
#[derive(Clone, PartialEq, Debug)]
pub enum VariantPolicies {
    /// For the jobs of a workload.
    Jobs {
        /// The policies of its runs; the seed is set for each run.
        policies: Box<Policies>,
        /// The change of every cluster's local policy.
        local: LocalPolicyChange,
        /// The sizes of moldable jobs.
        sizes: Sizes,
    },
    /// For the requests of a scenario.
    Requests(System),
}

/// A run to measure.
#[derive(Clone, Copy, Debug)]
pub enum Measured<'a> {
    /// A run of jobs.
    Jobs {
        /// The run.
        run: &'a Run,
        /// The reference run; none if this run is the reference.
        reference: Option<&'a Run>,
        /// The plans of its jobs right after their submission, in its order; none if the campaign does not measure them.
        plans: Option<&'a [PlannedJob]>,
    },
    /// A run of optional computations.
    Requests(&'a ExplorationRun),
}

/// Computes the metrics of a run. Must depend on its arguments only. An error is a sentence for the user.
pub type Measure<'a> = dyn Fn(Measured<'_>) -> Result<BTreeMap<String, f64>, String> + Sync + 'a;
