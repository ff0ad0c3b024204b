//! Files behind the options of verbs: workloads, platforms, and where logs are looked for.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use pliant_model::{Job, Platform, Procs};
use pliant_sim::campaign::PlatformChoice;
use pliant_trace::platform::{BUILT_IN, DEFAULT_BATCH};
use pliant_trace::{JobStream, LoadOptions, RepairOptions, RepairPolicy, RepairReport, TraceError};

use crate::failure::Failure;
use crate::table::grouped;

/// `--repair`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Repair {
    /// Drops jobs that did not run, and repairs the others.
    Clean,
    /// Keeps every job that can be simulated, also those with runtime 0.
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

/// A workload to be simulated on a platform.
pub(crate) struct Request<'a> {
    pub(crate) workload: &'a Path,
    pub(crate) platform: &'a Platform,
    pub(crate) repairs: RepairOptions,
    pub(crate) traces: Option<&'a Path>,
}

/// The jobs of a workload, at least one.
pub(crate) enum Jobs {
    /// Read while they are simulated.
    Stream(Box<JobStream<'static>>),
    /// In memory, with what was repaired.
    Loaded(Vec<Job>, RepairReport),
}

impl Request<'_> {
    /// The jobs, as a stream if the workload is a log.
    pub(crate) fn open(&self) -> Result<Jobs, Failure> {
        match pliant_trace::stream(self.workload, self.repairs, self.platform)? {
            Some(stream) if stream.is_empty() => Err(self.no_jobs(&stream.report())),
            Some(stream) => Ok(Jobs::Stream(Box::new(stream))),
            None => self.load(),
        }
    }

    /// The jobs in memory.
    pub(crate) fn load(&self) -> Result<Jobs, Failure> {
        let mut workload = pliant_trace::load(self.workload, &load_options(self.repairs, self.traces))?;
        workload.resolve_origins(self.platform);
        if workload.jobs.is_empty() {
            return Err(self.no_jobs(&workload.report));
        }
        Ok(Jobs::Loaded(workload.jobs, workload.report))
    }

    /// The error of a workload of which nothing can be simulated.
    fn no_jobs(&self, report: &RepairReport) -> Failure {
        let path = self.workload.display();
        if report.read == 0 {
            return Failure::input(format!("{path}: expected a workload with jobs, found none in it")).hint(
                "is it the right file? docs/reference/files/formats.md describes the formats, which are known by the file name's extension",
            );
        }
        let reasons = report.counts.iter().filter(|(repair, _)| repair.word().starts_with("dropped-"));
        let reasons: Vec<String> = reasons
            .map(|(repair, count)| {
                let (_, reason) = treatment(*repair);
                format!("{} ({reason})", grouped(*count))
            })
            .collect();
        let all =
            if report.read == 1 { "its only job" } else { &format!("all {} jobs", grouped(report.read)) };
        let keep_bad = self.repairs.policy == RepairPolicy::Clean
            && report.count(pliant_trace::Repair::DroppedNoRuntime) > 0;
        Failure::input(format!(
            "{path}: expected a job that can be simulated, found {all} dropped: {}",
            reasons.join(", ")
        ))
        .hint(match keep_bad {
            true => "--repair keep-bad keeps jobs whose runtime is 0; docs/reference/files/repairs.md lists every reason",
            false => "docs/reference/files/repairs.md lists every reason",
        })
    }
}

/// Whether jobs were dropped or repaired, and why.
fn treatment(repair: pliant_trace::Repair) -> (&'static str, &'static str) {
    let described = repair.describe();
    described.strip_prefix("dropped: ").map_or(("repaired", described), |reason| ("dropped", reason))
}

/// The facts about dropped and repaired jobs, each with its heading.
pub(crate) fn repair_facts(repairs: &RepairReport, extra_columns: u64) -> Vec<(&'static str, String)> {
    let counts = repairs.counts.iter().map(|(repair, count)| {
        let (heading, reason) = treatment(*repair);
        (heading, format!("{} ({reason})", grouped(*count)))
    });
    let columns = (extra_columns > 0).then(|| {
        ("repaired", format!("{} (more columns than the format has, ignored)", grouped(extra_columns)))
    });
    counts.chain(columns).collect()
}

/// One cluster of that many processors, or the federation of that name or file.
pub(crate) fn platform_of(procs: Option<u32>, name: Option<&str>) -> Result<Platform, Failure> {
    match procs {
        Some(procs) => Platform::single(Procs(procs), DEFAULT_BATCH).map_err(Failure::input),
        None => platform(name.unwrap_or_default()),
    }
}

/// A built-in platform, or a platform file.
pub(crate) fn platform(word: &str) -> Result<Platform, Failure> {
    if !BUILT_IN.contains(&word) && !word.ends_with(".toml") {
        let problem =
            format!("expected a platform ({}) or a file NAME.toml, found `{word}`", BUILT_IN.join(", "));
        return Err(Failure::input(problem).hint("docs/reference/files/platform.md describes platform files"));
    }
    Ok(PlatformChoice::Named(word.to_owned()).load(Path::new(""))?)
}

/// How logs are read, and where they are looked for: in `traces`, else where `PLIANT_TRACES` says.
pub(crate) fn load_options(repair: RepairOptions, traces: Option<&Path>) -> LoadOptions {
    let log_dirs = traces.map_or_else(log_dirs, |traces| vec![traces.to_owned()]);
    LoadOptions { repair, log_dirs }
}

/// The folder of logs that are not in the folder of their scenario: `PLIANT_TRACES`.
pub(crate) fn log_dirs() -> Vec<PathBuf> {
    std::env::var_os("PLIANT_TRACES").map(PathBuf::from).into_iter().collect()
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
