//! Workloads: repaired jobs in order of submission, from a log in any format that is understood.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use pliant_model::{ClusterId, Job, Platform, Time};

use crate::error::{Problem, TraceError};
use crate::lines::{open, plain};
use crate::origins::Origins;
use crate::output::written_format;
use crate::repair::{Collected, LONGEST_S, RepairOptions, RepairReport, Repairer};
use crate::{batsim, gwf, scenario, swf};

/// A workload, ready to be simulated.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Where it came from, in a word.
    pub name: String,
    /// Sorted by submission, the first at 0.
    pub jobs: Vec<Job>,
    /// Per job, the partition (or site) of its log; -1 if unknown.
    pub partitions: Vec<i32>,
    /// Names of the partitions.
    pub partition_names: BTreeMap<i32, String>,
    /// Processors of the machine, if the log says.
    pub max_procs: Option<i64>,
    /// Unix time of the first submission, if the log says.
    pub unix_start: Option<i64>,
    /// What was repaired.
    pub report: RepairReport,
}

/// The formats that are read.
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
    pub log_dirs: Vec<std::path::PathBuf>,
}

/// Loads a workload in any format.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Workload, TraceError> {
    let input = open(path).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
    load_from(path, input, options)
}

/// Loads a workload that is open already, compressed or not. The name decides the format and appears in errors.
pub fn load_from(path: &Path, input: impl BufRead, options: &LoadOptions) -> Result<Workload, TraceError> {
    let input = plain(input).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
    match Format::of(path) {
        Format::Scenario => scenario::load(path, input, options),
        log => load_log(path, log, input, options),
    }
}

fn load_log(
    path: &Path,
    format: Format,
    input: Box<dyn BufRead + '_>,
    options: &LoadOptions,
) -> Result<Workload, TraceError> {
    let mut repairer = Repairer::new(path, options.repair);
    let mut collected = Collected::default();
    let mut facts = Facts::default();
    match format {
        Format::Gwf => {
            let mut reader = gwf::Reader::new(path, input);
            for record in &mut reader {
                collected.add(repairer.repair(&record?)?);
            }
            facts.extra_columns = reader.extra_columns();
            facts.names = reader.site_names();
            facts.unix_start = reader.unix_start_time();
            facts.max_procs = reader.header().processors();
        }
        Format::Batsim => {
            let log = batsim::read(path, input)?;
            facts.max_procs = log.procs;
            for (record, derived) in &log.jobs {
                if *derived {
                    repairer.note_from_profile(record)?;
                }
                collected.add(repairer.repair(record)?);
            }
        }
        Format::Swf | Format::Scenario => {
            let mut reader = swf::Reader::new(path, input)?;
            for record in &mut reader {
                collected.add(repairer.repair(&record?)?);
            }
            facts.extra_columns = reader.extra_columns();
            facts.max_procs = reader.header().processors();
            facts.unix_start = reader.header().unix_start_time;
            facts.names = reader.header().partition_names();
        }
    }
    Ok(facts.workload(path, &repairer, collected))
}

/// What a log says about the whole.
#[derive(Default)]
struct Facts {
    extra_columns: u64,
    names: BTreeMap<i32, String>,
    max_procs: Option<i64>,
    unix_start: Option<i64>,
}

impl Facts {
    fn workload(self, path: &Path, repairer: &Repairer, mut collected: Collected) -> Workload {
        let first = collected.finish(repairer.is_sorted());
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // A start that is not a time of the calendar cannot place jobs on it.
        let known = self.unix_start.filter(|start| (-LONGEST_S..=LONGEST_S).contains(start));
        let unix_start = known.map(|start| start + first.0);
        Workload {
            name: short_name(&name),
            jobs: collected.jobs,
            partitions: collected.partitions,
            partition_names: self.names,
            max_procs: self.max_procs,
            unix_start,
            report: RepairReport { extra_columns: self.extra_columns, ..repairer.report().clone() },
        }
    }
}

fn short_name(file: &str) -> String {
    let name = file.strip_suffix(".gz").unwrap_or(file);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
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

    /// Submission of the last job.
    pub fn last_submit(&self) -> Time {
        self.jobs.last().map_or(Time::ZERO, |job| job.submit)
    }

    /// Writes it as SWF (plain or `.gz`) or GWF, by the name of the file.
    pub fn write(&self, path: &Path) -> Result<(), TraceError> {
        let io = |error| TraceError::new(path, Problem::Write(error));
        match written_format(path)? {
            Format::Gwf => gwf::write(self, path).map_err(io),
            _ => self.write_swf(path).map_err(io),
        }
    }

    fn write_swf(&self, path: &Path) -> std::io::Result<()> {
        let mut header = vec![("MaxJobs".to_owned(), self.jobs.len().to_string())];
        header.push(("MaxRecords".to_owned(), self.jobs.len().to_string()));
        if let Some(start) = self.unix_start {
            header.push(("UnixStartTime".to_owned(), start.to_string()));
        }
        if let Some(procs) = self.max_procs {
            header.push(("MaxProcs".to_owned(), procs.to_string()));
        }
        for (partition, name) in &self.partition_names {
            header.push(("Partition".to_owned(), format!("{partition} {name}")));
        }
        header.push(("Note".to_owned(), format!("written by pliant from {}", self.name)));
        let mut writer = swf::Writer::create(path, &header)?;
        for (job, partition) in self.jobs.iter().zip(&self.partitions) {
            writer.write(&crate::record::Record::of(job, *partition))?;
        }
        writer.finish()
    }
}
