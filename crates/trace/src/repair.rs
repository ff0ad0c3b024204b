//! From log lines to jobs that can be simulated. Every job that is dropped or changed is counted, by reason.
//!
//! `clean` (the default) is what other simulators do with cleaned logs, so that schedules can be compared
//! (docs/research/validation.md): jobs without processors or runtime are dropped, processors are the allocated ones,
//! else the requested; the walltime is the requested time, else the runtime; a runtime is cut at its walltime.
//! `keep-bad` keeps what can be kept, as paper 000 does (section 4.2): a runtime of 0 becomes 1 s,
//! a walltime shorter than its runtime is raised to it. In both, submissions are shifted so that the first kept
//! job is at 0, and sorted, keeping the order of the log on ties.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use pliant_model::{Job, LoggedMemory, Mebibytes, Procs, Span, Time};
use serde::{Deserialize, Serialize};

use crate::error::{Problem, TraceError};
use crate::job_numbers::JobNumbers;
use crate::record::Record;

/// How jobs are repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RepairPolicy {
    /// Drop jobs that did not run.
    #[default]
    Clean,
    /// Keep all jobs that can be simulated.
    KeepBad,
}

impl FromStr for RepairPolicy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "clean" => Ok(Self::Clean),
            "keep-bad" => Ok(Self::KeepBad),
            other => Err(format!("expected a repair policy (clean, keep-bad), found `{other}`")),
        }
    }
}

/// How a workload is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RepairOptions {
    /// How jobs are repaired.
    pub policy: RepairPolicy,
    /// Whether a job that would be dropped or repaired is an error instead.
    pub strict: bool,
}

/// Times beyond 30,000 years are cut, since they would overflow sums of times.
pub(crate) const LONGEST_S: i64 = 1_000_000_000_000;

/// Why a job was dropped or changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Repair {
    /// Dropped: when it was submitted is unknown.
    DroppedNoSubmission,
    /// Dropped: it never ran, or its runtime is unknown.
    DroppedNoRuntime,
    /// Dropped: neither allocated nor requested processors are known.
    DroppedNoProcessors,
    /// The allocated processors are unknown; the requested ones count.
    ProcsFromRequest,
    /// No walltime was requested; the runtime counts.
    WalltimeFromRuntime,
    /// It ran longer than it asked for; cut at its walltime.
    RuntimeCut,
    /// Its runtime of 0 became 1 s.
    RuntimeRaised,
    /// Its walltime was raised to its runtime.
    WalltimeRaised,
    /// It was logged before a job that was submitted earlier.
    OutOfOrder,
    /// A count or a time larger than a scheduler can hold was cut.
    TooLarge,
    /// A runtime or a size was derived from a profile that does not state it (Batsim).
    FromProfile,
    /// Its number is unknown; it was given one.
    NumberUnknown,
    /// An earlier job of the log has its number; it was given another.
    NumberRepeated,
}

impl Repair {
    /// All reasons, in the order in which they are shown.
    pub const ALL: [Repair; 13] = [
        Repair::DroppedNoSubmission,
        Repair::DroppedNoRuntime,
        Repair::DroppedNoProcessors,
        Repair::ProcsFromRequest,
        Repair::WalltimeFromRuntime,
        Repair::RuntimeCut,
        Repair::RuntimeRaised,
        Repair::WalltimeRaised,
        Repair::OutOfOrder,
        Repair::TooLarge,
        Repair::FromProfile,
        Repair::NumberUnknown,
        Repair::NumberRepeated,
    ];

    /// The stable word used in files.
    pub fn word(self) -> &'static str {
        match self {
            Self::DroppedNoSubmission => "dropped-no-submission",
            Self::DroppedNoRuntime => "dropped-no-runtime",
            Self::DroppedNoProcessors => "dropped-no-processors",
            Self::ProcsFromRequest => "procs-from-request",
            Self::WalltimeFromRuntime => "walltime-from-runtime",
            Self::RuntimeCut => "runtime-cut-at-walltime",
            Self::RuntimeRaised => "runtime-raised-to-1s",
            Self::WalltimeRaised => "walltime-raised-to-runtime",
            Self::OutOfOrder => "submitted-out-of-order",
            Self::TooLarge => "value-too-large",
            Self::FromProfile => "derived-from-profile",
            Self::NumberUnknown => "number-unknown",
            Self::NumberRepeated => "number-repeated",
        }
    }

    /// The description for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::DroppedNoSubmission => "dropped: submission unknown",
            Self::DroppedNoRuntime => "dropped: did not run",
            Self::DroppedNoProcessors => "dropped: processors unknown",
            Self::ProcsFromRequest => "processors taken from the request",
            Self::WalltimeFromRuntime => "walltime missing, runtime taken",
            Self::RuntimeCut => "ran over its walltime, cut there",
            Self::RuntimeRaised => "runtime 0 raised to 1 s",
            Self::WalltimeRaised => "walltime raised to the runtime",
            Self::OutOfOrder => "submitted before an earlier line",
            Self::TooLarge => "value too large, cut",
            Self::FromProfile => "runtime derived from its profile",
            Self::NumberUnknown => "job number unknown, one given",
            Self::NumberRepeated => "job number of an earlier job, another given",
        }
    }
}

/// How many jobs were dropped or changed, by reason.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct RepairReport {
    /// Jobs read.
    pub read: u64,
    /// Jobs kept.
    pub kept: u64,
    /// By reason; a job may count for several.
    pub counts: BTreeMap<Repair, u64>,
    /// Lines with more columns than the format has.
    pub extra_columns: u64,
}

impl RepairReport {
    /// How many jobs one reason applies to.
    pub fn count(&self, repair: Repair) -> u64 {
        self.counts.get(&repair).copied().unwrap_or(0)
    }

    /// The counts, by the stable words of the reasons.
    pub fn by_word(&self) -> BTreeMap<&'static str, u64> {
        self.counts.iter().map(|(repair, count)| (repair.word(), *count)).collect()
    }

    /// Jobs dropped.
    pub fn dropped(&self) -> u64 {
        self.read - self.kept
    }

    /// Counts one more.
    pub(crate) fn note(&mut self, repair: Repair) {
        *self.counts.entry(repair).or_default() += 1;
    }

    /// Adds another report.
    pub fn absorb(&mut self, other: &RepairReport) {
        self.read += other.read;
        self.kept += other.kept;
        self.extra_columns += other.extra_columns;
        for (repair, count) in &other.counts {
            *self.counts.entry(*repair).or_default() += count;
        }
    }
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read, {} kept", counted(self.read, "job"), self.kept)?;
        for (repair, count) in &self.counts {
            write!(f, "; {count} {}", repair.describe())?;
        }
        if self.extra_columns > 0 {
            write!(f, "; {} with extra columns", counted(self.extra_columns, "line"))?;
        }
        Ok(())
    }
}

/// `1 job`, `2 jobs`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Repairs records one by one, in bounded memory.
pub(crate) struct Repairer {
    path: PathBuf,
    options: RepairOptions,
    report: RepairReport,
    last_submit: i64,
    sorted: bool,
    numbers: JobNumbers,
}

impl Repairer {
    pub(crate) fn new(path: &Path, options: RepairOptions) -> Self {
        Self {
            path: path.to_owned(),
            options,
            report: RepairReport::default(),
            last_submit: i64::MIN,
            sorted: true,
            numbers: JobNumbers::default(),
        }
    }

    /// The repairs so far.
    pub(crate) fn report(&self) -> &RepairReport {
        &self.report
    }

    /// True if no job so far was submitted before an earlier one.
    pub(crate) fn is_sorted(&self) -> bool {
        self.sorted
    }

    fn note(&mut self, record: &Record, repair: Repair) -> Result<(), TraceError> {
        self.report.note(repair);
        if self.options.strict {
            let problem = Problem::Strict { line: record.line, job: record.id, reason: repair.describe() };
            return Err(TraceError::new(&self.path, problem));
        }
        Ok(())
    }

    /// Counts a repair that the format's reader made.
    pub(crate) fn note_from_profile(&mut self, record: &Record) -> Result<(), TraceError> {
        self.note(record, Repair::FromProfile)
    }

    /// The job of a record, on the log's clock, with the partition that the log put it on (-1 if unknown);
    /// none if it is dropped.
    pub(crate) fn repair(&mut self, record: &Record) -> Result<Option<(Job, i32)>, TraceError> {
        self.report.read += 1;
        if record.submit < 0 {
            self.note(record, Repair::DroppedNoSubmission)?;
            return Ok(None);
        }
        let Some(procs) = self.procs(record)? else { return Ok(None) };
        let Some((walltime, runtime)) = self.times(record)? else { return Ok(None) };
        if record.submit < self.last_submit {
            self.sorted = false;
            self.note(record, Repair::OutOfOrder)?;
        }
        self.last_submit = self.last_submit.max(record.submit);
        if record.submit.max(walltime) > LONGEST_S || procs > i64::from(u32::MAX) {
            self.note(record, Repair::TooLarge)?;
        }
        let job = Job {
            log_id: self.number(record)?,
            submit: Time(record.submit.min(LONGEST_S)),
            procs: Procs(u32::try_from(procs).unwrap_or(u32::MAX)),
            walltime: Span(walltime.min(LONGEST_S)),
            runtime: Span(runtime.min(LONGEST_S)),
            user: small(record.user),
            group: small(record.group),
            executable: small(record.executable),
            origin: None,
            memory: LoggedMemory { requested: mebibytes(record.req_memory), used: mebibytes(record.memory) },
            resources: None,
        };
        self.report.kept += 1;
        Ok(Some((job, small(record.partition))))
    }

    /// The job's number, which no job before it has.
    fn number(&mut self, record: &Record) -> Result<u64, TraceError> {
        let repair = match u64::try_from(record.id) {
            Ok(number) if self.numbers.take(number) => return Ok(number),
            Ok(_) => Repair::NumberRepeated,
            Err(_) => Repair::NumberUnknown,
        };
        self.note(record, repair)?;
        Ok(self.numbers.give(record.line))
    }

    /// Processors, or none if the job is dropped.
    fn procs(&mut self, record: &Record) -> Result<Option<i64>, TraceError> {
        let procs = if record.procs > 0 { record.procs } else { record.req_procs };
        if procs <= 0 {
            self.note(record, Repair::DroppedNoProcessors)?;
            return Ok(None);
        }
        if record.procs <= 0 {
            self.note(record, Repair::ProcsFromRequest)?;
        }
        Ok(Some(procs))
    }

    /// Walltime and runtime in seconds, or none if the job is dropped.
    fn times(&mut self, record: &Record) -> Result<Option<(i64, i64)>, TraceError> {
        let keep = self.options.policy == RepairPolicy::KeepBad;
        let mut run = record.run;
        if run <= 0 {
            if !keep || run < 0 {
                self.note(record, Repair::DroppedNoRuntime)?;
                return Ok(None);
            }
            self.note(record, Repair::RuntimeRaised)?;
            run = 1;
        }
        let mut walltime = record.req_time;
        if walltime <= 0 {
            self.note(record, Repair::WalltimeFromRuntime)?;
            walltime = run;
        }
        if run > walltime {
            if keep {
                self.note(record, Repair::WalltimeRaised)?;
                walltime = run;
            } else {
                self.note(record, Repair::RuntimeCut)?;
                run = walltime;
            }
        }
        Ok(Some((walltime, run)))
    }
}

/// Jobs of a log, put in order once all are known.
#[derive(Default)]
pub(crate) struct CollectedJobs {
    pub(crate) jobs: Vec<Job>,
    /// Per job, the partition that its log put it on; -1 if unknown.
    pub(crate) partitions: Vec<i32>,
}

impl CollectedJobs {
    /// Adds a job.
    pub(crate) fn add(&mut self, job: Option<(Job, i32)>) {
        if let Some((job, partition)) = job {
            self.jobs.push(job);
            self.partitions.push(partition);
        }
    }

    /// Sorts if need be, keeping the order of the log on ties, and puts the first job at 0. Returns when that
    /// was, on the log's clock.
    pub(crate) fn finish(&mut self, sorted: bool) -> Time {
        if !sorted {
            let jobs = std::mem::take(&mut self.jobs);
            let mut pairs: Vec<(Job, i32)> = jobs.into_iter().zip(self.partitions.drain(..)).collect();
            pairs.sort_by_key(|(job, _)| job.submit);
            (self.jobs, self.partitions) = pairs.into_iter().unzip();
        }
        let first = self.jobs.first().map_or(Time::ZERO, |job| job.submit);
        for job in &mut self.jobs {
            job.submit = Time(job.submit.0 - first.0);
        }
        self.jobs.shrink_to_fit();
        self.partitions.shrink_to_fit();
        first
    }
}

/// An amount of memory in KB, rounded up; none if it is unknown.
fn mebibytes(kilobytes: i64) -> Option<Mebibytes> {
    let known = u64::try_from(kilobytes).ok().filter(|kilobytes| *kilobytes > 0);
    known.map(|kilobytes| Mebibytes(u32::try_from(kilobytes.div_ceil(1024)).unwrap_or(u32::MAX)))
}

/// A number of the log that names something; -1 if it is unknown or no such number.
fn small(value: i64) -> i32 {
    i32::try_from(value).ok().filter(|number| *number >= 0).unwrap_or(-1)
}
