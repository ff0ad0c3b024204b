//! The options of `pliant submit` that a script may have, too, and how those of the command line win over those of the script.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pliant_control::exact_text::ExactText;
use pliant_control::job::Work;
use pliant_control::names::Name;
use pliant_control::shared_folder::{SharedFileSystems, SharedFolder};
use pliant_model::{Procs, Span, Speedup};
use pliant_site::services::{DurationError, SpeedupSpec, parse_duration};
use pliant_staging::FileName;
use pliant_wire::{Script, bounds};

use crate::failure::Failure;
use crate::federation::timeout;
use crate::job_files::{Input, input};
use crate::numbers::whole;

/// How long a submission is tried if no option says it.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a job, on the command line or in a `#PLIANT` line.
#[derive(Args, Clone, PartialEq, Default, Debug)]
pub(crate) struct JobOptions {
    /// An input file, in the job's folder under its own name or NAME; may be repeated.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    pub(crate) inputs: Vec<Input>,
    /// The speedup model of the script, such as amdahl:0.95,64 (95 % of it is parallel, on at most 64 processors). Others:
    /// downey:40,0.7, table:1=100,2=55, folding:8.
    #[arg(long, value_name = "MODEL", conflicts_with = "rigid")]
    speedup: Option<SpeedupSpec>,
    /// The exact number of processors of the script [default: 1].
    #[arg(long, value_name = "N", value_parser = whole(bounds::PROCS))]
    rigid: Option<u32>,
    /// The walltime of the script at speed 1, such as 90s or 2h: on the processors of --rigid or of the model, else on 1.
    #[arg(long, value_name = "TIME", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    time: Option<Span>,
    /// The name of the job [default: the name of the script].
    #[arg(long, value_name = "NAME", value_parser = job_name)]
    job_name: Option<String>,
    /// Runs the script in this folder, on a server that shares its file system (`[shared]` of the client's file). No files are
    /// sent or fetched.
    #[arg(long, value_name = "DIR")]
    chdir: Option<PathBuf>,
    /// Submits to this server only.
    #[arg(long, value_name = "NAME")]
    pub(crate) server: Option<Name>,
    /// Waits until the job has ended.
    #[arg(long)]
    wait: bool,
    /// Waits until the job has ended, and fetches its results into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// How long to try until a server takes the job [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    server_timeout: Option<Duration>,
    /// Ignores the #SBATCH lines of the script.
    #[arg(long)]
    pub(crate) ignore_sbatch: bool,
}

/// The name of a job, which the server takes for the name of its script.
fn job_name(text: &str) -> Result<String, String> {
    let expected = || {
        let most = bounds::NAME_BYTES_MAX;
        format!(
            "expected a name of 1 to {most} bytes without slashes and control characters, found `{}`",
            text.escape_debug()
        )
    };
    let is_valid = !text.contains('/') && text.len() <= bounds::NAME_BYTES_MAX;
    match text.parse::<FileName>() {
        Ok(_) if is_valid => Ok(text.to_owned()),
        _ => Err(expected()),
    }
}

impl JobOptions {
    /// These options, with those of `weaker` where these say nothing. Files that may be named repeatedly are added.
    pub(crate) fn over(self, weaker: JobOptions) -> JobOptions {
        // The size is one thing, in either option.
        let is_sized = self.speedup.is_some() || self.rigid.is_some();
        let (speedup, rigid) =
            if is_sized { (self.speedup, self.rigid) } else { (weaker.speedup, weaker.rigid) };
        JobOptions {
            inputs: [weaker.inputs, self.inputs].concat(),
            speedup,
            rigid,
            time: self.time.or(weaker.time),
            job_name: self.job_name.or(weaker.job_name),
            chdir: self.chdir.or(weaker.chdir),
            server: self.server.or(weaker.server),
            wait: self.wait || weaker.wait,
            out: self.out.or(weaker.out),
            server_timeout: self.server_timeout.or(weaker.server_timeout),
            ignore_sbatch: self.ignore_sbatch || weaker.ignore_sbatch,
        }
    }

    /// True if the command waits until the job has ended.
    pub(crate) fn waits(&self) -> bool {
        self.wait || self.out.is_some()
    }

    /// How long the submission is tried.
    pub(crate) fn timeout(&self) -> Duration {
        self.server_timeout.unwrap_or(SERVER_TIMEOUT)
    }

    /// The first of these options that only a script has.
    pub(crate) fn of_scripts(&self) -> Option<&'static str> {
        let options = [
            ("--speedup", self.speedup.is_some()),
            ("--rigid", self.rigid.is_some()),
            ("--time", self.time.is_some()),
            ("--job-name", self.job_name.is_some()),
            ("--chdir", self.chdir.is_some()),
            ("--ignore-sbatch", self.ignore_sbatch),
        ];
        options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
    }

    /// The script that these options describe, without the folder of `--chdir`.
    pub(crate) fn script(
        &self,
        name: String,
        text: ExactText,
        arguments: Vec<String>,
    ) -> Result<Script, Failure> {
        if self.chdir.is_some() && !self.inputs.is_empty() {
            return Err(Failure::input("expected --chdir or --in, found both")
                .hint("a script that runs in a folder of yours reads its files there: leave --in out"));
        }
        let walltime = self.time.ok_or_else(|| {
            Failure::input("expected --time with a script, found none").hint(
                "--time 1h, or a line `#PLIANT --time 1h`: how long it runs at most on one processor of speed 1",
            )
        })?;
        let SpeedupSpec { speedup, procs } = match (&self.speedup, self.rigid) {
            (Some(spec), _) => spec.clone(),
            (None, procs) => SpeedupSpec { speedup: Speedup::Rigid, procs: Procs(procs.unwrap_or(1)) },
        };
        let work = Work::new(procs, walltime, speedup);
        let name = self.job_name.clone().unwrap_or(name);
        Ok(Script { name, text, work, arguments, folder: None })
    }

    /// The folder of `--chdir` as servers know it.
    pub(crate) fn folder(&self, shared: &SharedFileSystems) -> Result<Option<SharedFolder>, Failure> {
        let Some(dir) = &self.chdir else { return Ok(None) };
        let wrong = |error| {
            let problem = format!("--chdir: expected a folder, found {}: {error}", dir.display());
            Failure::input(problem).hint("name one that is there")
        };
        let resolved = dir.canonicalize().map_err(wrong)?;
        if !resolved.is_dir() {
            return Err(wrong(std::io::ErrorKind::NotADirectory.into()));
        }
        // As it was written, then with its links resolved.
        let written = std::path::absolute(dir).unwrap_or_default();
        let found = shared.folder_at(&written).or_else(|| shared.folder_at(&resolved));
        found.map(Some).ok_or_else(|| {
            let known: Vec<String> = shared.iter().map(|(path, _)| path.display().to_string()).collect();
            let expected = if known.is_empty() { "none is named".to_owned() } else { known.join(", ") };
            let problem = format!(
                "--chdir: expected a folder on a shared file system ({expected}), found {}",
                resolved.display()
            );
            Failure::input(problem)
                .hint("[shared] of the client's file names them; without --chdir, send files with --in")
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: JobOptions,
    }

    fn options(line: &str) -> JobOptions {
        let words = std::iter::once("submit").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}")).options
    }

    #[test]
    fn options_win_over_weaker_ones() {
        let check = |stronger: &str, weaker: &str, expected: &str| {
            assert_eq!(
                options(stronger).over(options(weaker)),
                options(expected),
                "{stronger} over {weaker}"
            );
        };
        check("", "--time 1h --rigid 2 --wait", "--time 1h --rigid 2 --wait");
        check("--time 2h", "--time 1h --out o", "--time 2h --out o");
        check("--speedup folding:4", "--rigid 2", "--speedup folding:4");
        check("--rigid 2", "--speedup folding:4 --server a", "--rigid 2 --server a");
        check("--in b", "--in a --job-name n", "--in a --in b --job-name n");
        check("--job-name m --chdir x", "--job-name n --chdir y", "--job-name m --chdir x");
        check(
            "--server-timeout 1s",
            "--server-timeout 2s --ignore-sbatch",
            "--server-timeout 1s --ignore-sbatch",
        );
    }

    #[test]
    fn names_of_jobs_are_names_of_files() {
        for name in ["fit", "fit 3, second run", "é"] {
            assert_eq!(job_name(name), Ok(name.to_owned()));
        }
        for name in ["", "..", "a/b", "a\nb", &"x".repeat(bounds::NAME_BYTES_MAX + 1)] {
            assert!(job_name(name).is_err_and(|error| error.starts_with("expected a name")), "{name}");
        }
    }

    #[test]
    fn a_folder_of_the_user_is_for_no_input_files() {
        let both = options("--chdir a").over(options("--in b --time 1h"));
        let failure = both.script("job.sh".to_owned(), b"#!/bin/sh\n".to_vec().into(), Vec::new());
        assert_eq!(failure.unwrap_err().message(), "expected --chdir or --in, found both");
    }
}
