//! Campaigns: experiments of several kinds, run in parallel and resumable (`docs/campaigns.md`).
//!
//! A kind is an implementation of `experiment::Experiment`: which cells there are, how one is run, and what all their records
//! say. The runner does the rest for each of them: threads, records that survive a kill, shards and their merging, progress.
//!
//! - Simulations: a matrix `workload x platform x moldable x dedicated x seed x policy`. A campaign of optional computations
//!   (paper 004) has scenarios instead of workloads and systems instead of policies; the rest of the matrix is the same.
//! - [`mapping`]: task interaction graphs on grids.
//! - [`multi_job`]: parameter sweeps on clusters.
//!
//! Results hold no times of day and no durations and are written in the order of the cells, so they are the same
//! bytes on any number of threads, after any number of kills, and from any number of shards.
//!
//! What a simulated run was worth is the caller's to say ([`Measure`]): this crate knows no metrics, so that reports
//! and simulations do not depend on each other.
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
mod words;
mod workloads;

use std::collections::BTreeMap;
use std::path::PathBuf;

use pliant_model::{ExplorationRun, Run};
use pliant_policy::batch::order::LocalPolicyChange;
use pliant_trace::CalendarMonth;

pub use pliant_model::campaign::Results;
pub use pliant_model::campaign::simulations::{Record, Results as SimulationResults};

pub use error::CampaignError;
use fingerprint::Fingerprint;
pub use jobs::{SimJobs, Skipped, sim_jobs};
pub use kind::{Campaign, Kind, merge, read_folder};
pub use matrix::Group;
pub use recipe::{Generator, LONGEST_RANGE_S, ParameterError, Recipe, month};
pub use runner::{Finished, Options, Progress, Shard, THREADS_MAX};
pub use sequence::{Sequence, Times};
pub use store::{Contents, Damage};
pub use table::{Cell, Spread, cells};
pub use words::Moldable;

use crate::Policies;
use crate::optional::{Scenario, System};

/// A campaign of simulations, as its file says.
#[derive(Clone, PartialEq, Debug)]
pub struct SimulationCampaign {
    /// Its name.
    pub name: String,
    /// The folder that relative paths in it start from.
    pub base: PathBuf,
    /// Where logs are looked for that are not there; none, unless the caller names some.
    pub log_dirs: Vec<PathBuf>,
    /// Seeds of job types, of locality and of policies that draw.
    pub seeds: Vec<u64>,
    /// Shares of the jobs that come through the federation.
    pub dedicated_shares: Vec<f64>,
    /// Which jobs are moldable.
    pub moldable: Vec<Moldable>,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The policies.
    pub policies: Vec<Variant>,
    /// Position of the policy that the others are compared with.
    pub reference: usize,
}

/// A workload of a campaign, and the platforms it runs on.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name in keys and tables.
    pub name: String,
    /// Where its jobs come from.
    pub source: JobSource,
    /// True if the campaign may be run without it where its file is absent ([`Campaign::skip_absent`]).
    pub optional: bool,
    /// Which of its jobs the runs of a seed see; all of them without it.
    pub sequence: Option<Sequence>,
    /// The platforms.
    pub platforms: Vec<PlatformChoice>,
}

/// Where jobs come from.
#[derive(Clone, PartialEq, Debug)]
pub enum JobSource {
    /// A log, or a scenario of several.
    File {
        /// Relative to the campaign file, or to one of [`SimulationCampaign::log_dirs`].
        path: PathBuf,
        /// Keeps jobs without processors or runtime instead of dropping them.
        keep_bad: bool,
        /// The calendar month that is cut out of it; none takes the whole.
        month: Option<CalendarMonth>,
        /// Offered load on the platform, to which submissions are moved; none leaves them where they are.
        load: Option<f64>,
    },
    /// A generator.
    Generated {
        /// What is generated.
        recipe: Recipe,
        /// The generator's seed.
        seed: u64,
        /// True if the generator is given the seed of each run instead, so that every seed has other jobs.
        per_seed: bool,
    },
    /// None: users with mandatory and optional requests, and servers.
    Scenario(Box<Scenario>),
}

/// A platform of a campaign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PlatformChoice {
    /// One cluster of that many processors.
    Procs(u32),
    /// A built-in platform by its name, or a platform file by its path.
    Named(String),
}

/// One policy of the matrix.
#[derive(Clone, PartialEq, Debug)]
pub struct Variant {
    /// Its name in keys and tables.
    pub name: String,
    /// What is done with jobs or requests.
    pub treatment: Treatment,
    /// Policies whose metrics the page of the campaign divides its metrics by.
    pub compare_with: Vec<String>,
}

/// Which sizes a policy gives to moldable jobs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Sizes {
    /// Those that its tuner chooses.
    #[default]
    Chosen,
    /// Those that users asked for: every job is rigid, as with [`Moldable::None`].
    Asked,
}

/// What a policy of the matrix does.
#[derive(Clone, PartialEq, Debug)]
pub enum Treatment {
    /// With the jobs of a workload.
    Jobs {
        /// The policies of its runs; the seed is set for each run.
        policies: Policies,
        /// What is changed of the local policy of every cluster.
        local: LocalPolicyChange,
        /// Which sizes moldable jobs get.
        sizes: Sizes,
    },
    /// With the requests of a scenario.
    Requests(System),
}

/// A run that is to be measured.
#[derive(Clone, Copy, Debug)]
pub enum Measured<'a> {
    /// Of jobs.
    Jobs {
        /// The run.
        run: &'a Run,
        /// What it is compared with; none if it is the reference.
        reference: Option<&'a Run>,
    },
    /// Of optional computations.
    Requests(&'a ExplorationRun),
}

/// Says what a run was worth. Must depend on its arguments only. An error is a sentence for the user.
pub type Measure<'a> = dyn Fn(Measured<'_>) -> Result<BTreeMap<String, f64>, String> + Sync + 'a;
