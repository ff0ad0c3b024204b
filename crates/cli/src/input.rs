//! Files behind the options of verbs: workloads, platforms, and where logs are looked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pliant_model::{Job, Platform, Procs};
use pliant_sim::campaign::PlatformChoice;
use pliant_trace::platform::BUILT_IN;
use pliant_trace::{LoadOptions, RepairOptions, RepairPolicy, RepairReport, TraceError};

use crate::failure::Failure;

/// `--repair`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Repair {
    /// Drops jobs that did not run, repairs the others.
    Clean,
    /// Keeps what can be kept.
    KeepBad,
}

impl Repair {
    pub(crate) fn options(self, strict: bool) -> RepairOptions {
        let policy = match self {
            Self::Clean => RepairPolicy::Clean,
            Self::KeepBad => RepairPolicy::KeepBad,
        };
        RepairOptions { policy, strict }
    }
}

/// What a workload is loaded for.
pub(crate) struct Request<'a> {
    pub(crate) workload: &'a Path,
    pub(crate) procs: Option<u32>,
    pub(crate) platform: Option<&'a str>,
    pub(crate) repairs: RepairOptions,
    pub(crate) traces: Option<&'a Path>,
}

/// A workload on a platform.
pub(crate) struct Loaded {
    pub(crate) platform: Platform,
    pub(crate) jobs: Vec<Job>,
    pub(crate) repairs: RepairReport,
}

/// Loads a workload and the platform it is to run on.
pub(crate) fn load(request: &Request<'_>) -> Result<Loaded, Failure> {
    let platform = match (request.procs, request.platform) {
        (Some(procs), _) => Platform::single(Procs(procs), "cbf").map_err(Failure::input)?,
        (None, name) => platform(name.unwrap_or_default())?,
    };
    let mut workload = pliant_trace::load(request.workload, &load_options(request.repairs, request.traces))?;
    workload.resolve_origins(&platform);
    Ok(Loaded { platform, jobs: workload.jobs, repairs: workload.report })
}

/// A built-in platform, or a platform file.
pub(crate) fn platform(word: &str) -> Result<Platform, Failure> {
    if !BUILT_IN.contains(&word) && !word.ends_with(".toml") {
        let problem =
            format!("expected a platform ({}) or a file NAME.toml, found `{word}`", BUILT_IN.join(", "));
        return Err(Failure::input(problem).hint("docs/workloads.md describes platform files"));
    }
    Ok(PlatformChoice::Named(word.to_owned()).load(Path::new(""))?)
}

/// How logs are read, and where they are looked for: in `traces`, else where `PLIANT_TRACES` says.
pub(crate) fn load_options(repair: RepairOptions, traces: Option<&Path>) -> LoadOptions {
    let log_dirs =
        traces.map(Path::to_owned).or_else(|| std::env::var_os("PLIANT_TRACES").map(PathBuf::from));
    LoadOptions { repair, log_dirs: log_dirs.into_iter().collect() }
}

/// The counts of a repair report, by their stable words.
pub(crate) fn repair_counts(report: &RepairReport) -> BTreeMap<&'static str, u64> {
    report.counts.iter().map(|(repair, count)| (repair.word(), *count)).collect()
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Failure {
        let failure = if error.is_io() { Failure::system(&error) } else { Failure::input(&error) };
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}
