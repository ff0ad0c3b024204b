//! Project tasks, run as `cargo xtask VERB`: every test, the lints, the fuzz targets, the fault
//! schedules.
//!
//! A task installs what it needs where it can, reports what it skipped, and ends with the exit code
//! of the first step that failed. Its own lines go to standard error, between those of the tools it runs.

mod axe;
mod benefit;
mod browser;
mod claims;
mod database;
mod decisions;
mod dist;
mod fuzz;
mod interpreters;
mod lint;
mod logs;
mod machine;
mod mutants;
mod notes;
mod packages;
mod paper;
mod programs;
mod python;
mod shared_builds;
mod skipped;
mod soak;
mod source;
mod step;
mod structure;
mod testing;
mod upgrade;
mod verb;

use std::io::Write;
use std::process::ExitCode;

use step::Failure;
use verb::Verb;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let verb = match Verb::parse(&arguments) {
        Ok(verb) => verb,
        Err(error) => {
            eprintln!("xtask: {error}");
            return ExitCode::from(2);
        }
    };
    match perform(verb) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn perform(verb: Verb) -> Result<(), Failure> {
    match verb {
        Verb::Help => {
            // A reader that closes the pipe early has read enough.
            let _ = std::io::stdout().write_all(verb::HELP.as_bytes());
            Ok(())
        }
        Verb::Lint => lint::run(),
        Verb::Test { require_files } => testing::run(require_files),
        Verb::Ci => lint::run().and_then(|()| testing::run(false)),
        Verb::Fuzz { seconds } => fuzz::run(seconds),
        Verb::Dist { binary, glibc, out } => dist::run(binary.as_deref(), glibc.as_deref(), &out),
        Verb::Claims { paper } => claims::run(paper.as_deref()),
        Verb::Campaign { folder } => claims::run_campaign(&folder),
        Verb::Paper004 => paper::run(),
        Verb::Python { program } => python::run(program.as_deref()),
        Verb::Snakemake => python::run_snakemake(),
        Verb::Soak { seeds, from } => soak::run(seeds, from),
        Verb::Upgrade { commit } => upgrade::run(&commit),
        Verb::Mutants(selection) => mutants::run(&selection),
        Verb::Benefit { sizes, rounds, seed, seconds } => benefit::run(sizes, rounds, seed, seconds),
    }
}
