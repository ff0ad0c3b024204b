//! The fields of a log that a converted workload omits. Costs one more reading of the log; memory does not grow
//! with it.

use std::path::Path;

use crate::error::{Problem, TraceError};
use crate::lines::open;
use crate::record::Record;
use crate::workload::Format;
use crate::{gwf, swf};

/// A field of a log that is omitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OmittedField {
    /// Its description.
    pub what: &'static str,
    /// Number of jobs with this field; none if not counted.
    pub jobs: Option<u64>,
}

/// A column, and a test whether a job has a value in it.
type Column = (&'static str, fn(&Record) -> bool);

const COLUMNS: [Column; 7] = [
    ("wait", |job| job.wait > 0),
    ("CPU time", |job| job.cpu > 0),
    ("processors requested where others were allocated", |job| {
        job.req_procs > 0 && job.procs > 0 && job.req_procs != job.procs
    }),
    ("status (all are written as completed)", |job| job.status >= 0 && job.status != 1),
    ("queue", |job| job.queue >= 0),
    ("preceding job", |job| job.preceding > 0),
    ("think time", |job| job.think > 0),
];

/// Fields of GWF only.
const OF_GWF: [&str; 2] = [
    "names of users, groups and applications (numbers instead)",
    "columns 19 to 30, about structure and I/O",
];

/// The fields omitted by a conversion of this file to any format.
pub fn omitted_fields(path: &Path) -> Result<Vec<OmittedField>, TraceError> {
    let uncounted = |what| OmittedField { what, jobs: None };
    // A pipe was read already and cannot be read again.
    let countable = std::fs::metadata(path).is_ok_and(|there| there.is_file());
    match Format::of(path) {
        Format::Batsim => Ok(vec![uncounted("profiles")]),
        Format::Swf | Format::Gwf if countable => counted(path),
        Format::Swf | Format::Gwf | Format::Scenario => {
            Ok(COLUMNS.iter().map(|(what, _)| uncounted(what)).collect())
        }
    }
}

fn counted(path: &Path) -> Result<Vec<OmittedField>, TraceError> {
    let input = open(path).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
    let mut counts = [0; COLUMNS.len()];
    let mut add = |record: Record| {
        for ((_, is_omitted), count) in COLUMNS.iter().zip(&mut counts) {
            *count += u64::from(is_omitted(&record));
        }
    };
    let of_gwf = Format::of(path) == Format::Gwf;
    if of_gwf {
        for record in gwf::Reader::new(path, input) {
            add(record?);
        }
    } else {
        for record in swf::Reader::new(path, input)? {
            add(record?);
        }
    }
    let columns = COLUMNS.iter().zip(counts).filter(|(_, jobs)| *jobs > 0);
    let mut all: Vec<OmittedField> =
        columns.map(|((what, _), jobs)| OmittedField { what, jobs: Some(jobs) }).collect();
    if of_gwf {
        all.extend(OF_GWF.map(|what| OmittedField { what, jobs: None }));
    }
    Ok(all)
}
