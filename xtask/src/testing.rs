//! `cargo xtask test`: every test of the workspace, with what they need found or installed first.

use std::num::NonZeroUsize;

use crate::axe;
use crate::browser;
use crate::database;
use crate::logs::Logs;
use crate::machine;
use crate::notes::Notes;
use crate::programs;
use crate::python;
use crate::skipped::{self, Skipped};
use crate::step::{Failure, Step, run_all};

/// What insta reads that would let a golden file differ without a failure, or change it.
const LENIENCES: &[&str] = &["INSTA_FORCE_PASS", "INSTA_FORCE_UPDATE", "INSTA_FORCE_UPDATE_SNAPSHOTS"];

/// Runs the documentation's tests, then all others, and ends with what they have left out. A file that was
/// absent is a failure if `require_files` says so.
pub(crate) fn run(require_files: bool) -> Result<(), Failure> {
    let nextest = machine::prepare_cargo_tool("nextest", "cargo-nextest");
    if !nextest {
        eprintln!("without cargo-nextest: the tests run under `cargo test`");
    }
    browser::prepare();
    let axe = axe::prepare();
    programs::prepare();
    database::prepare();
    let logs = Logs::of_this_run();
    eprintln!("{logs}");
    let threads = threads();
    let runner: &[&str] = match nextest {
        true => &["nextest", "run", "--workspace", "--profile", "all", "--test-threads", &threads],
        false => &["test", "--workspace", "--tests", "--no-fail-fast"],
    };
    let notes = Notes::new("skipped");
    let noting = |step: Step| logs.given_to(step).env(skipped::VARIABLE, notes.path());
    let step = |arguments| {
        let step = noting(Step::cargo(arguments)).env("INSTA_UPDATE", "no");
        let step = axe.iter().fold(step, |step, path| step.env(axe::VARIABLE, path));
        LENIENCES.iter().fold(step, |step, name| step.env_remove(name))
    };
    let passed = run_all(&[step(&["test", "--doc", "--workspace", "--no-fail-fast"]), step(runner)]);
    let passed = passed.and_then(|()| python::run_after_tests(noting));
    let skipped = Skipped::parse(&notes.take()?);
    eprintln!("{skipped}");
    passed.and_then(|()| judge(&skipped, require_files))
}

/// How many tests run at once: two for each core, as those with real daemons wait most of the time; the profile `all` of
/// `.config/nextest.toml` has others count double.
fn threads() -> String {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    (2 * cores).to_string()
}

/// Whether a run whose tests have passed is a success.
fn judge(skipped: &Skipped, require_files: bool) -> Result<(), Failure> {
    match skipped.files() {
        files if require_files && files > 0 => Err(Failure::Incomplete { files }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absent_files_fail_a_run_and_only_on_demand() {
        let check = |notes: &str, require_files: bool, expected: Result<(), Failure>| {
            assert_eq!(judge(&Skipped::parse(notes), require_files), expected, "{notes}");
        };
        let files = "file\ta::b\tKTH is not there\nfile\ta::c\tCTC is not there\n";
        check("", true, Ok(()));
        check("program\ta::b\tno chromium\n", true, Ok(()));
        check(files, false, Ok(()));
        check(files, true, Err(Failure::Incomplete { files: 2 }));
    }
}
