//! Result folders: what a run leaves on disk, and reading it back. `docs/results.md` describes each file.
//!
//! Every file is written under a temporary name and renamed, so that a kill leaves no half file.
//! `summary.json` is removed first and written last: a folder that has one is complete.

mod atomic;
mod error;
mod jobs_csv;
mod jobs_parquet;
mod record;
mod summary_json;
mod swf;
mod tables_csv;

use std::path::Path;

use pliant_model::Run;

pub use error::FileError;

use crate::metrics::Summary;

const JOBS_CSV: &str = "jobs.csv";
const JOBS_PARQUET: &str = "jobs.parquet";
const MOVES_CSV: &str = "moves.csv";
const REFUSED_CSV: &str = "refused.csv";
const SCHEDULE_SWF: &str = "schedule.swf";
const SUMMARY_JSON: &str = "summary.json";

/// A result folder in memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Folder {
    /// What the run was worth.
    pub summary: Summary,
    /// The run.
    pub run: Run,
}

/// Writes `jobs.csv`, `jobs.parquet`, `moves.csv`, `refused.csv`, `schedule.swf` and `summary.json` into
/// `dir`, which is created if needed. Files of an earlier run there are replaced.
pub fn write_folder(dir: &Path, run: &Run, summary: &Summary) -> Result<(), FileError> {
    std::fs::create_dir_all(dir).map_err(|source| FileError::io(dir, "create this folder", source))?;
    atomic::remove(&dir.join(SUMMARY_JSON))?;
    // Compressing takes about as long as all the text: side by side, a run's files cost half the time.
    std::thread::scope(|scope| {
        let columns = scope.spawn(|| jobs_parquet::write(&dir.join(JOBS_PARQUET), run));
        let text = write_text(dir, run);
        let columns = columns.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        text.and(columns)
    })?;
    atomic::write(&dir.join(SUMMARY_JSON), |out| summary_json::write(out, summary))
}

fn write_text(dir: &Path, run: &Run) -> Result<(), FileError> {
    atomic::write(&dir.join(JOBS_CSV), |out| jobs_csv::write(out, run))?;
    atomic::write(&dir.join(MOVES_CSV), |out| tables_csv::write_moves(out, run))?;
    atomic::write(&dir.join(REFUSED_CSV), |out| tables_csv::write_refused(out, run))?;
    atomic::write(&dir.join(SCHEDULE_SWF), |out| swf::write(out, run))
}

/// Reads a result folder back: the platform and the counts from `summary.json`, the rest from the CSV files.
pub fn read_folder(dir: &Path) -> Result<Folder, FileError> {
    let path = dir.join(SUMMARY_JSON);
    let summary = summary_json::read(&path)?;
    let platform = summary_json::platform(&path, &summary)?;
    let jobs = jobs_csv::read(&dir.join(JOBS_CSV), &platform)?;
    let moves = tables_csv::read_moves(&dir.join(MOVES_CSV), &platform)?;
    let refused = tables_csv::read_refused(&dir.join(REFUSED_CSV), &platform)?;
    let reallocations = summary.reallocations;
    Ok(Folder { summary, run: Run { platform, jobs, refused, moves, reallocations } })
}
