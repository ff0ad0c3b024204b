//! Workloads: repaired jobs in order of submission, whatever they were read from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pliant_model::{ClusterId, Job, Platform, Span, Time};
use serde::{Deserialize, Serialize};

use crate::calendar::{CalendarMonth, day_of};
use crate::origins::Origins;
use crate::repair::{RepairOptions, RepairReport};

/// A workload, ready to be simulated.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Workload {
    /// Its source.
    pub name: String,
    /// Sorted by submission, the first at 0.
    pub jobs: Vec<Job>,
    /// Per job, the partition (or site) of its log; -1 if unknown.
    pub partitions: Vec<i32>,
    /// Names of the partitions.
    pub partition_names: BTreeMap<i32, String>,
    /// Processors of the machine, if known.
    pub max_procs: Option<i64>,
    /// Unix time of the first submission, if known.
    pub unix_start: Option<i64>,
    /// The repairs.
    pub report: RepairReport,
}

/// The input formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Standard Workload Format.
    Swf,
    /// Grid Workload Format.
    Gwf,
    /// A Batsim workload.
    Batsim,
    /// A TOML file that joins several.
    Scenario,
}

impl Format {
    /// The format that a name promises, `.gz` or not; SWF if it promises nothing.
    pub fn of(path: &Path) -> Format {
        let name =
            path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit('.').next() {
            Some("gwf") => Format::Gwf,
            Some("json") => Format::Batsim,
            Some("toml") => Format::Scenario,
            _ => Format::Swf,
        }
    }
}

/// How a workload is loaded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LoadOptions {
    /// Repairs.
    pub repair: RepairOptions,
    /// Folders in which a scenario's logs are looked for, after its own.
    pub log_dirs: Vec<PathBuf>,
}

impl Workload {
    /// Gives each job the cluster that its log put it on: by the partition's name (whatever the case of its
    /// letters); if no partition has a name, by its number, 1 being the first cluster. Jobs that already
    /// have an origin keep it. Returns how many have none.
    pub fn resolve_origins(&mut self, platform: &Platform) -> usize {
        let origins = Origins::new(platform);
        let names = self.partition_names.iter();
        let by_name: BTreeMap<i32, ClusterId> =
            names.filter_map(|(partition, name)| Some((*partition, origins.named(name)?))).collect();
        let named = !self.partition_names.is_empty();
        let mut missing = 0;
        for (job, partition) in self.jobs.iter_mut().zip(&self.partitions) {
            if job.origin.is_none() {
                job.origin = origins.only().or_else(|| {
                    if named { by_name.get(partition).copied() } else { origins.numbered(*partition) }
                });
            }
            missing += usize::from(job.origin.is_none());
        }
        missing
    }

    /// Keeps the jobs that were submitted in a calendar month (UTC, by the log's UnixStartTime), the first at 0. An
    /// error is a sentence for the user.
    pub fn keep_month(&mut self, month: CalendarMonth) -> Result<(), String> {
        let Some(origin) = self.unix_start else {
            return Err("expected a log with UnixStartTime to cut months out of, found none".to_owned());
        };
        let unix = month.unix();
        let last = origin + self.last_submit().0;
        let within = |job: &Job| unix.contains(&(origin + job.submit.0));
        let Some(first) = self.jobs.iter().position(within) else {
            let (from, to) = (day_of(origin), day_of(last));
            return Err(format!("expected jobs in {month}, found them from {from} to {to} only"));
        };
        let count = self.jobs[first..].iter().take_while(|job| within(job)).count();
        self.jobs = self.jobs.drain(first..first + count).collect();
        self.partitions = self.partitions.drain(first..first + count).collect();
        let begin = self.jobs[0].submit;
        for job in &mut self.jobs {
            job.submit = Time((job.submit - begin).0);
        }
        self.unix_start = Some(origin + begin.0);
        (self.report.read, self.report.kept) = (count as u64, count as u64);
        Ok(())
    }

    /// Moves submissions closer together or further apart, all by the same factor, so that the [`offered_load`] up to the
    /// last one becomes `load`. Runtimes stay.
    pub fn offer(&mut self, capacity: f64, load: f64) {
        let natural = offered_load(&self.jobs, capacity, self.last_submit() - Time::ZERO);
        let factor = natural / load;
        for job in &mut self.jobs {
            job.submit = Time((job.submit.0 as f64 * factor).round() as i64);
        }
    }

    /// Submission of the last job.
    pub fn last_submit(&self) -> Time {
        self.jobs.last().map_or(Time::ZERO, |job| job.submit)
    }
}

/// Offered load: the work of the jobs over what a platform of that capacity ([`Platform::capacity`], speeds
/// counted in) works off in `span`. At 1.0 it can just keep up. Work is processor seconds at speed 1.0.
pub fn offered_load(jobs: &[Job], capacity: f64, span: Span) -> f64 {
    let work: f64 = jobs.iter().map(|job| f64::from(job.procs.0) * job.runtime.0 as f64).sum();
    work / (capacity.max(f64::MIN_POSITIVE) * span.0.max(1) as f64)
}
