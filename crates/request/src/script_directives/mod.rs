//! Options in the head of a script: `#PLIANT` lines, which have options of `pliant submit`, and `#SBATCH` lines, of which a
//! documented subset is understood.
//!
//! The head ends before the first line that is neither blank nor a comment. `#PLIANT` lines win over `#SBATCH` lines, and
//! later lines over earlier ones.

mod head;
mod sbatch;
mod sbatch_size;
mod slurm_time;

use crate::error::RequestError;
use crate::sbatch_options::OPTIONS;
use crate::submit_options::{ALL_OPTIONS, JobOptions};
use crate::words;
use head::{Dialect, Directive};

/// What the directives of a script say.
#[derive(Debug)]
pub struct Found {
    /// The options of the job.
    pub options: JobOptions,
    /// What a user of Slurm may expect otherwise, a line each.
    pub notes: Vec<String>,
}

/// Reads the directives of a script; `shown` is where it is from, for errors. What `given`, the options of the command line, or a
/// `#PLIANT` line ignores of the `#SBATCH` lines is not read.
pub fn read(shown: &str, text: &[u8], given: &JobOptions) -> Result<Found, RequestError> {
    let directives = head::directives(shown, text)?;
    let (own, of_slurm): (Vec<Directive>, Vec<Directive>) =
        directives.into_iter().partition(|directive| directive.dialect == Dialect::Pliant);
    let mut options = JobOptions::default();
    for Directive { line, words, .. } in own {
        let named = words.clone();
        let place = format!("{shown}:{line}");
        let mut parsed = parsed(words).map_err(|failure| failure.at(&place))?;
        parsed.places.add(&named, |option| format!("{place}: {option}"));
        options = parsed.over(options);
    }
    let ignored: Vec<&String> = given.run.ignore_sbatch.iter().chain(&options.run.ignore_sbatch).collect();
    if ignored.iter().any(|name| *name == ALL_OPTIONS) {
        return Ok(Found { options, notes: Vec::new() });
    }
    let is_unknown = |name: &&String| !OPTIONS.iter().any(|option| option.long == **name);
    if let Some(unknown) = ignored.iter().copied().find(is_unknown) {
        let expected = "--ignore-sbatch: expected long names of options of sbatch";
        return Err(RequestError::input(format!("{expected}, found `{}`", unknown.escape_debug()))
            .hint("--ignore-sbatch=partition,account ignores both, and --ignore-sbatch all #SBATCH lines"));
    }
    let stronger = given.clone().over(options.clone());
    let translation = sbatch::translated(shown, &of_slurm, &ignored, &stronger)?;
    let mut weaker = JobOptions::default();
    for option in translation.options {
        let place = format!("{shown}:{}: #SBATCH {}", option.line, option.name);
        let named = option.words.clone();
        let mut parsed =
            parsed(option.words).map_err(|failure| without_option(failure, &named).at(&place))?;
        parsed.places.add(&named, |_| place.clone());
        weaker = parsed.over(weaker);
    }
    Ok(Found { options: options.over(weaker), notes: translation.notes })
}

/// A failure without the name of the option into which a line was translated: the place names the one in the line.
fn without_option(failure: RequestError, words: &[String]) -> RequestError {
    let option = words.first().and_then(|word| word.split('=').next()).unwrap_or_default();
    failure.without_start(&format!("{option}: "))
}

/// Parses words as options of `pliant submit`.
///
/// # Errors
///
/// If they are no such options.
pub fn parsed(words: Vec<String>) -> Result<JobOptions, RequestError> {
    words::parsed("pliant submit", words)
}

#[cfg(test)]
mod tests;
