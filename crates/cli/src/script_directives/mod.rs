//! Options in the head of a script: `#PLIANT` lines, which have options of `pliant submit`, and `#SBATCH` lines, of which a
//! documented subset is understood.
//!
//! The head ends before the first line that is neither blank nor a comment. `#PLIANT` lines win over `#SBATCH` lines, and
//! later lines over earlier ones.

mod head;
mod sbatch;
mod sbatch_options;
mod sbatch_size;
mod slurm_time;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser};

use crate::failure::Failure;
use crate::submit_options::{ALL_OPTIONS, JobOptions};
use crate::usage_error::usage_failure;
use head::{Dialect, Directive};
use sbatch_options::OPTIONS;

/// The options that a `#PLIANT` line may have.
#[derive(Parser)]
#[command(name = "pliant submit", disable_help_flag = true)]
struct Line {
    #[command(flatten)]
    options: JobOptions,
}

/// What the directives of a script say.
#[derive(Debug)]
pub(crate) struct Found {
    /// The options of the job.
    pub(crate) options: JobOptions,
    /// What a user of Slurm may expect otherwise, a line each.
    pub(crate) notes: Vec<String>,
}

/// Reads the directives of a script; `shown` is where it is from, for errors. What `given`, the options of the command line, or a
/// `#PLIANT` line ignores of the `#SBATCH` lines is not read.
pub(crate) fn read(shown: &str, text: &[u8], given: &JobOptions) -> Result<Found, Failure> {
    let directives = head::directives(shown, text)?;
    let (own, of_slurm): (Vec<Directive>, Vec<Directive>) =
        directives.into_iter().partition(|directive| directive.dialect == Dialect::Pliant);
    let mut options = JobOptions::default();
    for Directive { line, words, .. } in own {
        let parsed = parsed(words).map_err(|failure| failure.at(&format!("{shown}:{line}")))?;
        options = parsed.over(options);
    }
    let ignored: Vec<&String> = given.run.ignore_sbatch.iter().chain(&options.run.ignore_sbatch).collect();
    if ignored.iter().any(|name| *name == ALL_OPTIONS) {
        return Ok(Found { options, notes: Vec::new() });
    }
    let is_unknown = |name: &&String| !OPTIONS.iter().any(|option| option.long == **name);
    if let Some(unknown) = ignored.iter().copied().find(is_unknown) {
        let expected = "--ignore-sbatch: expected long names of options of sbatch";
        return Err(Failure::input(format!("{expected}, found `{}`", unknown.escape_debug()))
            .hint("--ignore-sbatch=partition,account ignores both, and --ignore-sbatch all #SBATCH lines"));
    }
    let translation = sbatch::translated(shown, &of_slurm, &ignored)?;
    let mut weaker = JobOptions::default();
    for option in translation.options {
        let place = format!("{shown}:{}: #SBATCH {}", option.line, option.name);
        let parsed = parsed(option.words).map_err(|failure| failure.at(&place))?;
        weaker = parsed.over(weaker);
    }
    Ok(Found { options: options.over(weaker), notes: translation.notes })
}

/// Parses words as options of `pliant submit`.
pub(crate) fn parsed(words: Vec<String>) -> Result<JobOptions, Failure> {
    let command = Line::command();
    let name = command.get_name().to_owned();
    let arguments: Vec<OsString> = std::iter::once(name).chain(words).map(OsString::from).collect();
    let failed = |error: &clap::Error| {
        usage_failure(&command, &arguments, error).unwrap_or_else(|| Failure::input(error))
    };
    let matches = command.clone().try_get_matches_from(&arguments).map_err(|error| failed(&error))?;
    Line::from_arg_matches(&matches).map(|line| line.options).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests;
