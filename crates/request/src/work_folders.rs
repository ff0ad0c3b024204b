//! The folders of sweeps and explorations: their registry, and the tables of results in them.

use std::path::Path;

use pliant_client::{FolderError, InstanceRecord, InstanceState, SweepResults, WorkRegistry};
use pliant_report::{FileError, InstanceRow, write_instances};

use crate::RequestError;
use crate::local_federation::state_folder;

/// The registry of this user on this machine, which `pliant web` reads.
///
/// # Errors
///
/// If the user has no home folder.
pub fn registry() -> Result<WorkRegistry, RequestError> {
    Ok(WorkRegistry::new(state_folder()?.join("work")))
}

/// Notes that a process works in a folder.
///
/// # Errors
///
/// If the registry cannot be written.
pub fn register(folder: &Path) -> Result<(), RequestError> {
    registry()?.add(folder).map_err(RequestError::system)
}

/// The tables of results cannot be written.
#[derive(Debug)]
pub enum ResultsError {
    /// A line of the sweep's journal cannot be read.
    Folder(FolderError),
    /// A table cannot be written.
    File(FileError),
}

impl From<FolderError> for ResultsError {
    fn from(error: FolderError) -> ResultsError {
        ResultsError::Folder(error)
    }
}

impl From<FileError> for ResultsError {
    fn from(error: FileError) -> ResultsError {
        ResultsError::File(error)
    }
}

/// What the tables of a sweep's results hold that a user is to see.
#[derive(Default, Debug)]
pub struct Tables {
    /// The first failed instances.
    pub failures: Vec<InstanceRecord>,
    /// Why the first one did not run that no server completes in time.
    pub late: Option<String>,
}

/// Writes the tables of a sweep's results into its folder. At most `most` failed instances are returned.
///
/// # Errors
///
/// If the journal cannot be read or a table cannot be written.
pub fn write_results(rows: &mut SweepResults, most: usize) -> Result<Tables, ResultsError> {
    let Tables { mut failures, mut late } = Tables::default();
    let (dir, names, count) = (rows.dir().to_owned(), rows.names(), rows.len());
    write_instances::<ResultsError>(&dir, &names, count, |instance| {
        let row = rows.row(instance)?;
        if row.state == InstanceState::Failed && failures.len() < most {
            failures.push(row.clone());
        }
        if row.state == InstanceState::NotStarted {
            late.get_or_insert_with(|| row.how.clone());
        }
        Ok(InstanceRow {
            instance: row.instance,
            values: row.values,
            state: row.state.word().to_owned(),
            exit_code: row.code,
            how: row.how,
            tries: row.tries,
            server: row.server.map(|server| server.to_string()).unwrap_or_default(),
            job: row.job.map(|job| job.to_string()).unwrap_or_default(),
            elapsed_ms: row.elapsed_ms,
            output: row.output.into(),
            error: row.error.into(),
        })
    })?;
    Ok(Tables { failures, late })
}
