//! `pliant submit --array`: a script that runs once for each of several indices, as a sweep.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pliant_client::{SweepFolder, SweepSpec};
use pliant_control::multi_job::RETRIES_MAX;
use pliant_control::shared_folder::SharedFolder;
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
/// How much of the name of a job is in that of a folder.
const NAME_BYTES: usize = 200;

/// The sweep that an array is.
pub(super) fn spec(
    script: &Script,
    indices: &TaskIndices,
    options: &JobOptions,
) -> Result<SweepSpec, Failure> {
    let mut script = script.clone();
    // A task that is lost runs again as an instance of the sweep, without those that have ended.
    let requeues = options.requeues().map(|requeues| requeues.min(u32::from(RETRIES_MAX)) as u8);
    script.work.requeue = 0;
    let script = with_parameters(script, &[TaskArray::INDEX].into(), Some(indices.array()))?;
    Ok(SweepSpec {
        executable: Executable::Script(Box::new(script)),
        parameters: indices.space(),
        inputs: announced("--in", &options.files())?,
        strategy: Strategy::Statistics,
        once: false,
        retries: requeues.unwrap_or(sweep::RETRIES),
        at_once: indices.at_once,
        only: options.server.clone(),
        timeout: options.timeout(),
    })
}

/// Has the tasks run in a folder of the user's own.
pub(super) fn in_folder(spec: &mut SweepSpec, folder: Option<SharedFolder>) {
    if let Executable::Script(script) = &mut spec.executable {
        script.folder = folder;
    }
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
            let dir = new_folder(Path::new(""), spec.executable.name())?;
            inform(|| format!("results in {}", dir.display()));
            let ended = sweep::begin(output, session, spec, &dir);
            if ended.is_err() {
                // Of an array that could not begin nothing is left to resume. What cannot be removed does no harm.
                let _ = SweepFolder::remove_if_unbegun(&dir);
            }
            ended
        }
    }
}

/// A new folder below `parent` for an array whose user names none: `NAME-array-1`, or the next number that is free.
fn new_folder(parent: &Path, name: &str) -> Result<PathBuf, Failure> {
    let name = folder_name(name);
    for number in 1..=FOLDERS_MAX {
        let dir = parent.join(format!("{name}-array-{number}"));
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

/// The name of a job in that of a folder: no option and no hidden file, in this folder, and not too long for a file system.
fn folder_name(name: &str) -> String {
    let name = name.strip_suffix(".sh").unwrap_or(name).replace('/', "-");
    let name = name.trim_start_matches(['-', '.', ' ']);
    match &name[..name.floor_char_boundary(NAME_BYTES)] {
        "" => "job".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_arrays_are_neither_options_nor_elsewhere() {
        let long = "é".repeat(150);
        for (name, expected) in [
            ("fit.sh", "fit"),
            ("fit 3, second run", "fit 3, second run"),
            ("-x", "x"),
            ("--out", "out"),
            ("-", "job"),
            (".sh", "job"),
            ("../up/a.sh", "up-a"),
            (".hidden", "hidden"),
            (long.as_str(), &long[..200]),
        ] {
            assert_eq!(folder_name(name), expected, "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        let names: Vec<PathBuf> = (0..2).map(|_| new_folder(dir.path(), "-a/b").unwrap()).collect();
        assert_eq!(names, ["a-b-array-1", "a-b-array-2"].map(|name| dir.path().join(name)));
        assert!(names.iter().all(|name| name.is_dir()));
    }
}
