//! `pliant submit --array`: a script that runs once for each of several indices, as a sweep.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pliant_client::SweepSpec;
use pliant_control::multi_job::RETRIES_MAX;
use pliant_policy::allocation::Strategy;
use pliant_wire::{Executable, Script, TaskArray};

use crate::executable_options::with_parameters;
use crate::failure::Failure;
use crate::federation::{Session, inform};
use crate::job_files::announced;
use crate::output::Output;
use crate::submit_options::JobOptions;
use crate::task_indices::TaskIndices;
use crate::verbs::sweep;

/// The most folders that are looked at for a free name.
const FOLDERS_MAX: u32 = 100_000;

/// The sweep that an array is.
pub(super) fn spec(
    script: &Script,
    indices: &TaskIndices,
    options: &JobOptions,
) -> Result<SweepSpec, Failure> {
    if let Some(option) = options.without_use_in_array() {
        let problem =
            format!("expected --array or {option}, found both, on the command line or in the script");
        let hint =
            "a task of an array is an instance of a sweep: `pliant sweep --help` has the options of that";
        return Err(Failure::input(problem).hint(hint));
    }
    let mut script = script.clone();
    // A task that is lost runs again as an instance of the sweep, without those that have ended.
    let requeues = options.requeues().map(|requeues| requeues.min(u32::from(RETRIES_MAX)) as u8);
    script.work.requeue = 0;
    let script = with_parameters(script, &[TaskArray::INDEX].into(), Some(indices.array()))?;
    Ok(SweepSpec {
        executable: Executable::Script(Box::new(script)),
        parameters: indices.space(),
        inputs: announced("--in", &options.inputs)?,
        strategy: Strategy::Statistics,
        once: false,
        retries: requeues.unwrap_or(sweep::RETRIES),
        at_once: indices.at_once,
        only: None,
        timeout: options.timeout(),
    })
}

/// Runs the array and follows it, or shows how it would be allocated.
pub(super) fn run(
    output: Output,
    session: &Session,
    spec: &SweepSpec,
    dry_run: bool,
    out: Option<&Path>,
) -> Result<(), Failure> {
    match out {
        _ if dry_run => sweep::dry_run(output, session, spec),
        Some(dir) => sweep::begin(output, session, spec, dir),
        None => {
            let dir = new_folder(spec.executable.name())?;
            inform(|| format!("results in {}", dir.display()));
            sweep::begin(output, session, spec, &dir)
        }
    }
}

/// A new folder for an array whose user names none: `NAME-array-1`, or the next number that is free.
fn new_folder(name: &str) -> Result<PathBuf, Failure> {
    let name = name.strip_suffix(".sh").unwrap_or(name);
    for number in 1..=FOLDERS_MAX {
        let dir = PathBuf::from(format!("{name}-array-{number}"));
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                let problem = format!("cannot make {} for the results: {error}", dir.display());
                return Err(Failure::input(problem).hint("--out DIR names another folder"));
            }
        }
    }
    let problem =
        format!("expected a free name from {name}-array-1 to {name}-array-{FOLDERS_MAX}, found none");
    Err(Failure::input(problem).hint("--out DIR names a folder"))
}
