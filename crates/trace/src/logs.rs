//! Logs as workloads: every line read, repaired and put in order of submission.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;

use crate::error::{Problem, TraceError};
use crate::lines::open;
use crate::repair::{CollectedJobs, LONGEST_S, RepairReport, Repairer};
use crate::workload::{Format, LoadOptions, Workload};
use crate::{batsim, gwf, swf};

/// Loads a log.
pub(crate) fn load(path: &Path, options: &LoadOptions) -> Result<Workload, TraceError> {
    let input = open(path).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
    load_from(path, input, options)
}

/// Loads a log that is open already and plain, in the format that its name promises.
pub(crate) fn load_from(
    path: &Path,
    input: Box<dyn BufRead + Send + '_>,
    options: &LoadOptions,
) -> Result<Workload, TraceError> {
    let mut repairer = Repairer::new(path, options.repair);
    let mut collected = CollectedJobs::default();
    let mut metadata = LogMetadata::default();
    match Format::of(path) {
        Format::Gwf => {
            let mut reader = gwf::Reader::new(path, input);
            for record in &mut reader {
                collected.add(repairer.repair(&record?)?);
            }
            metadata.extra_columns = reader.extra_columns();
            metadata.names = reader.site_names();
            metadata.unix_start = reader.unix_start_time();
            metadata.max_procs = reader.header().processors();
        }
        Format::Batsim => {
            let log = batsim::read(path, input)?;
            metadata.max_procs = log.procs;
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
            metadata.extra_columns = reader.extra_columns();
            metadata.max_procs = reader.header().processors();
            metadata.unix_start = reader.header().unix_start_time;
            metadata.names = reader.header().partition_names();
        }
    }
    Ok(metadata.workload(path, &repairer, collected))
}

/// The header data of a log.
#[derive(Default)]
struct LogMetadata {
    extra_columns: u64,
    names: BTreeMap<i32, String>,
    max_procs: Option<i64>,
    unix_start: Option<i64>,
}

impl LogMetadata {
    fn workload(self, path: &Path, repairer: &Repairer, mut collected: CollectedJobs) -> Workload {
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
