//! `pliant submit --array`: a script that runs once for each of several indices, as a sweep.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pliant_client::SweepSpec;

use crate::failure::Failure;
use crate::federation::{Session, inform};
use crate::output::Output;
use crate::verbs::sweep;

/// The most folders that are looked at for a free name.
const FOLDERS_MAX: u32 = 100_000;

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
