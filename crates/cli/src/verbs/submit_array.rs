//! `pliant submit --array`: a script that runs once for each of several indices, as a sweep.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pliant_client::{SweepFolder, SweepSpec};

use crate::failure::Failure;
use crate::federation::{Session, inform};
use crate::output::Output;
use crate::verbs::sweep;

/// The most folders that are looked at for a free name.
const FOLDERS_MAX: u32 = 100_000;
/// How much of the name of a job is in that of a folder.
const NAME_BYTES: usize = 200;

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
