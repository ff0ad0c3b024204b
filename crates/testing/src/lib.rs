//! What the tests of several crates share: where files are that are not in the repository, and the record of
//! what a test leaves out because one of them, or a program, is absent; and the figures of the papers' claims. Nothing that
//! ships depends on it.

pub mod axe;
pub mod browser;
pub mod claims;
#[cfg(feature = "oar")]
pub mod oar;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "provider")]
pub mod provider;
#[cfg(feature = "slurm")]
pub mod slurm;

use std::io::Write;
use std::path::{Path, PathBuf};

/// The variable that names the folder of the real logs.
const LOGS: &str = "PLIANT_TRACES";
/// The variable that names the folder of the schedules that other simulators made of them.
const SCHEDULES: &str = "PLIANT_ORACLE";
/// The variable that names the file to which each omission is added; `cargo xtask test` sets and reads it.
const SKIPPED: &str = "PLIANT_SKIPPED";

/// What a test may have to do without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Needed {
    /// A file outside the repository.
    File,
    /// A program of this machine.
    Program,
}

/// The folder of the real logs.
pub fn logs() -> PathBuf {
    folder(LOGS, "traces")
}

/// A real log, if it is there; says so if not.
pub fn log(name: &str) -> Option<PathBuf> {
    present(logs().join(name), LOGS)
}

/// A schedule that another simulator made of a log, if it is there; says so if not.
pub fn schedule(name: &str) -> Option<PathBuf> {
    present(folder(SCHEDULES, "oracle").join(name), SCHEDULES)
}

/// Says that the running test leaves something out, for want of something, and notes it for the summary of
/// `cargo xtask test`.
///
/// # Panics
///
/// If the note cannot be written: an omission without a note would count as a success.
pub fn skip(needed: Needed, what: &str) {
    println!("skipped: {what}");
    let kind = match needed {
        Needed::File => "file",
        Needed::Program => "program",
    };
    note(SKIPPED, &format!("{kind}\t{}\t{what}", running_test()));
}

/// Adds a line to the file that a variable names, if it is set.
fn note(variable: &str, line: &str) {
    let Some(record) = std::env::var_os(variable).filter(|path| !path.is_empty()) else { return };
    // One write in append mode: lines of tests that run at the same time do not mix.
    let file = std::fs::OpenOptions::new().create(true).append(true).open(&record);
    if let Err(error) = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
        panic!("cannot note in {}: {error}", Path::new(&record).display());
    }
}

fn folder(variable: &str, beside_the_checkout: &str) -> PathBuf {
    let beside =
        || Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(beside_the_checkout);
    std::env::var_os(variable).filter(|path| !path.is_empty()).map_or_else(beside, PathBuf::from)
}

fn present(path: PathBuf, variable: &str) -> Option<PathBuf> {
    if path.is_file() {
        return Some(path);
    }
    skip(Needed::File, &format!("{} is not there (set {variable})", path.display()));
    None
}

/// The test's binary and name: a test runs on a thread that is called as it is.
fn running_test() -> String {
    let binary = std::env::current_exe().ok();
    let stem = binary.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    // Cargo adds a hash to the name.
    let stem = stem.unwrap_or_default();
    let suite = stem.rsplit_once('-').map_or(stem.as_str(), |(name, _)| name);
    let thread = std::thread::current();
    format!("{suite}::{}", thread.name().unwrap_or("?"))
}
