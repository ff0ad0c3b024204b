//! Result folders: the files of a run, written and read. `docs/reference/results.md` describes each file.
//!
//! Every file is written under a temporary name and renamed, so that a kill leaves no partial file. `summary.json` is removed
//! first and written last: a folder with `summary.json` is complete. Writing uses buffers
//! of a fixed size, whatever the size of the run.

mod atomic;
mod error;
mod format;
mod instances;
#[cfg(feature = "parquet")]
mod instances_parquet;
mod jobs_csv;
#[cfg(feature = "parquet")]
mod jobs_parquet;
mod record;
mod summary_json;
mod swf;
mod tables_csv;

use std::path::Path;

use pliant_model::Run;

pub use error::FileError;
pub use format::FileFormat;
pub use instances::{InstanceRow, write_instances};
pub use tables_csv::{RefusedRow, refused_rows};

use crate::metrics::Summary;

const JOBS_CSV: &str = "jobs.csv";
const JOBS_PARQUET: &str = "jobs.parquet";
const MOVES_CSV: &str = "moves.csv";
const REFUSED_CSV: &str = "refused.csv";
const SCHEDULE_SWF: &str = "schedule.swf";
const SUMMARY_JSON: &str = "summary.json";

/// A result folder in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultFolder {
    /// The metrics of the run.
    pub summary: Summary,
    /// The run.
    pub run: Run,
}

/// Every name that a result folder may hold, the page of `pliant report` among them. The summary comes first:
/// without it the rest is no complete result.
pub const RESULT_FILES: [&str; 7] =
    [SUMMARY_JSON, JOBS_CSV, JOBS_PARQUET, MOVES_CSV, REFUSED_CSV, SCHEDULE_SWF, "report.html"];

/// Makes `dir` ready for the results of a run: creates it if needed, and removes what an earlier run left
/// there, half written files included. Other files stay.
pub fn prepare_folder(dir: &Path) -> Result<(), FileError> {
    std::fs::create_dir_all(dir).map_err(|source| FileError::io(dir, "create this folder", source))?;
    for name in RESULT_FILES {
        let path = dir.join(name);
        atomic::remove(&path)?;
        atomic::remove(&atomic::temporary(&path))?;
    }
    // Reports a folder without write permission before the simulation.
    atomic::try_out(&dir.join(SUMMARY_JSON))
}

/// Writes the files of all formats into `dir`, which is [prepared](prepare_folder) first.
pub fn write_folder(dir: &Path, run: &Run, summary: &Summary) -> Result<(), FileError> {
    write_formats(dir, run, summary, FileFormat::ALL)
}

/// Writes the files of some formats only. A folder can be read back if it has CSV and JSON.
pub fn write_formats(
    dir: &Path,
    run: &Run,
    summary: &Summary,
    formats: &[FileFormat],
) -> Result<(), FileError> {
    prepare_folder(dir)?;
    write_tables(dir, run, formats)?;
    if formats.contains(&FileFormat::Json) {
        atomic::write(&dir.join(SUMMARY_JSON), |out| summary_json::write(out, summary))?;
    }
    Ok(())
}

/// Writes all files but the summary.
#[cfg(feature = "parquet")]
fn write_tables(dir: &Path, run: &Run, formats: &[FileFormat]) -> Result<(), FileError> {
    // Compressing takes about as long as all the text: in two threads the files of a run cost half the time.
    std::thread::scope(|scope| {
        let columns = formats
            .contains(&FileFormat::Parquet)
            .then(|| scope.spawn(|| jobs_parquet::write(&dir.join(JOBS_PARQUET), run)));
        let text = write_text(dir, run, formats);
        let columns =
            columns.map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        text.and(columns.unwrap_or(Ok(())))
    })
}

#[cfg(not(feature = "parquet"))]
use write_text as write_tables;

fn write_text(dir: &Path, run: &Run, formats: &[FileFormat]) -> Result<(), FileError> {
    if formats.contains(&FileFormat::Csv) {
        atomic::write(&dir.join(JOBS_CSV), |out| jobs_csv::write(out, run))?;
        atomic::write(&dir.join(MOVES_CSV), |out| tables_csv::write_moves(out, run))?;
        atomic::write(&dir.join(REFUSED_CSV), |out| tables_csv::write_refused(out, run))?;
    }
    if formats.contains(&FileFormat::Swf) {
        atomic::write(&dir.join(SCHEDULE_SWF), |out| swf::write(out, run))?;
    }
    Ok(())
}

/// Reads a result folder back: the platform and the counts from `summary.json`, the rest from the CSV files.
pub fn read_folder(dir: &Path) -> Result<ResultFolder, FileError> {
    let path = dir.join(SUMMARY_JSON);
    let summary = summary_json::read(&path)?;
    let platform = summary_json::platform(&path, &summary)?;
    let jobs = jobs_csv::read(&dir.join(JOBS_CSV), &platform)?;
    let moves = tables_csv::read_moves(&dir.join(MOVES_CSV), &platform)?;
    let refused = tables_csv::read_refused(&dir.join(REFUSED_CSV), &platform)?;
    let reallocations = summary.reallocations;
    Ok(ResultFolder { summary, run: Run { platform, jobs, refused, moves, reallocations } })
}
