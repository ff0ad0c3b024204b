//! The options of `pliant submit` that a script may have, too, and how those of the command line win over those of the script.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use pliant_control::environment::{VARIABLE_NAME, may_be_given};
use pliant_control::exact_text::ExactText;
use pliant_control::job::Work;
use pliant_control::names::Name;
use pliant_control::shared_folder::{SharedFileSystems, SharedFolder};
use pliant_model::{Procs, Span, Speedup};
use pliant_site::services::{DurationError, SpeedupSpec, parse_duration};
use pliant_staging::{FileName, FileSpec};
use pliant_wire::{Script, bounds};

use crate::error::RequestError;
use crate::job_files::{Input, announced, input};
use crate::numbers::{timeout, whole};
use crate::option_places::OptionPlaces;
use crate::resource_options::{ResourceOptions, TaskShape};
use crate::runs::Runs;
use crate::schedule_options::ScheduleOptions;
use crate::task_indices::TaskIndices;

/// How long a submission is tried if no option says it.
const SERVER_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of a job, on the command line or in a `#PLIANT` line.
#[derive(Args, Clone, PartialEq, Default, Debug)]
pub struct JobOptions {
    /// An input file, in the job's folder under its own name or NAME; may be repeated.
    #[arg(long = "in", value_name = "[NAME=]FILE", value_parser = input)]
    pub inputs: Vec<Input>,
    /// The speedup model of the script, such as amdahl:0.95,64 (95 % of it is parallel, on at most 64 processors). Others:
    /// downey:40,0.7, table:1=100,2=55, folding:8.
    #[arg(long, value_name = "MODEL", conflicts_with = "rigid")]
    speedup: Option<SpeedupSpec>,
    /// The exact number of processors of the script [default: 1].
    #[arg(long, value_name = "N", value_parser = whole(bounds::PROCS))]
    rigid: Option<u32>,
    /// Options of a script however it is run.
    #[command(flatten)]
    pub run: RunOptions,
    /// Runs the script in this folder, on a server that shares its file system (`[shared]` of the client's file). No files are
    /// sent or fetched.
    #[arg(long, value_name = "DIR")]
    chdir: Option<PathBuf>,
    /// The file that is the script's standard input: sent like --in, or with --chdir a file of that folder.
    #[arg(long, value_name = "[NAME=]FILE", value_parser = input)]
    stdin: Option<Input>,
    /// Has the script's standard error go to its standard output.
    #[arg(long)]
    merge_output: bool,
    #[command(flatten)]
    resources: ResourceOptions,
    #[command(flatten)]
    schedule: ScheduleOptions,
    /// Submits to this server only.
    #[arg(long, value_name = "NAME")]
    pub server: Option<Name>,
    /// Waits until the job has ended.
    #[arg(long)]
    wait: bool,
    /// Waits until the job has ended, and fetches its results into this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How long to try until a server takes the job [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    server_timeout: Option<Duration>,
    /// Runs the script once for each of these indices, as a sweep: 1-100, 0-90:10 or 1,5-9; %LIMIT behind them runs at most so
    /// many at a time.
    #[arg(long, value_name = "INDICES")]
    pub array: Option<TaskIndices>,
    /// Where those options are that a script has.
    #[arg(skip)]
    pub places: OptionPlaces,
}

/// Options of a script however it is run.
#[derive(Args, Clone, PartialEq, Default, Debug)]
pub struct RunOptions {
    /// The walltime of the script, such as 90s or 2h. With --speedup: on the processors of the model, at speed 1.
    #[arg(long, value_name = "TIME", value_parser = parse_duration as fn(&str) -> Result<Span, DurationError>)]
    time: Option<Span>,
    /// The name of the job [default: the name of the script].
    #[arg(long, value_name = "NAME", value_parser = job_name)]
    job_name: Option<String>,
    /// A variable of the script's environment; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Ignores the #SBATCH lines of the script, or only these options in them, by their long names.
    #[arg(
        long,
        value_name = "OPTIONS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ALL_OPTIONS,
        value_delimiter = ','
    )]
    pub ignore_sbatch: Vec<String>,
}

/// The size of a script that runs with parameters.
#[derive(Args, Clone, PartialEq, Default, Debug)]
pub struct SizeOptions {
    /// The exact number of processors of an instance of the script [default: 1].
    #[arg(long, value_name = "N", value_parser = whole(bounds::PROCS))]
    rigid: Option<u32>,
    #[command(flatten)]
    resources: ResourceOptions,
}

impl SizeOptions {
    /// The options of a job of that size.
    pub fn of_job(&self) -> JobOptions {
        JobOptions { rigid: self.rigid, resources: self.resources.clone(), ..JobOptions::default() }
    }
}

/// The value of `--ignore-sbatch` for all options.
pub const ALL_OPTIONS: &str = "all";

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

/// `NAME=VALUE`, as servers take it.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("expected NAME=VALUE, found `{}`", text.escape_debug()))?;
    if !may_be_given(name) || name.len() > bounds::NAME_BYTES_MAX {
        return Err(format!("expected {VARIABLE_NAME}, found `{}`", name.escape_debug()));
    }
    if value.len() > bounds::ARGUMENT_BYTES_MAX || value.contains(char::is_control) {
        let most = bounds::ARGUMENT_BYTES_MAX;
        return Err(format!(
            "expected a value on one line and of at most {most} bytes for {name}, found one with line ends or longer"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// The first of these options that is given.
fn first_given<const N: usize>(options: [(&'static str, bool); N]) -> Option<&'static str> {
    options.into_iter().find(|(_, is_given)| *is_given).map(|(option, _)| option)
}

impl RunOptions {
    /// These options, with those of `weaker` where these say nothing.
    fn over(self, weaker: RunOptions) -> RunOptions {
        RunOptions {
            time: self.time.or(weaker.time),
            job_name: self.job_name.or(weaker.job_name),
            // The last one of a name counts.
            env: [weaker.env, self.env].concat(),
            ignore_sbatch: [weaker.ignore_sbatch, self.ignore_sbatch].concat(),
        }
    }
}

impl JobOptions {
    /// These options, with those of `weaker` where these say nothing. Files that may be named repeatedly are added.
    pub fn over(self, weaker: JobOptions) -> JobOptions {
        // The size is one thing, in either option.
        let is_sized = self.speedup.is_some() || self.rigid.is_some();
        let procs = self.procs();
        let (speedup, rigid) =
            if is_sized { (self.speedup, self.rigid) } else { (weaker.speedup, weaker.rigid) };
        let is_moldable = speedup.as_ref().is_some_and(|spec| !matches!(spec.speedup, Speedup::Rigid));
        let of_weaker = match (is_sized, is_moldable) {
            (false, _) => weaker.resources,
            // A moldable size has no tasks of several processors.
            (true, true) => weaker.resources.without_tasks(),
            (true, false) => weaker.resources.within(procs.unwrap_or(1), &self.resources),
        };
        let mut places = weaker.places;
        places.forget("--chdir", self.chdir.is_some());
        places.forget("--stdin", self.stdin.is_some());
        JobOptions {
            inputs: [weaker.inputs, self.inputs].concat(),
            speedup,
            rigid,
            run: self.run.over(weaker.run),
            chdir: self.chdir.or(weaker.chdir),
            stdin: self.stdin.or(weaker.stdin),
            merge_output: self.merge_output || weaker.merge_output,
            resources: self.resources.over(of_weaker),
            schedule: self.schedule.over(weaker.schedule),
            server: self.server.or(weaker.server),
            wait: self.wait || weaker.wait,
            out: self.out.or(weaker.out),
            server_timeout: self.server_timeout.or(weaker.server_timeout),
            array: self.array.or(weaker.array),
            places: self.places.over(places),
        }
    }

    /// The fixed number of processors, if one is given.
    fn procs(&self) -> Option<u32> {
        let of_model = self.speedup.as_ref().filter(|spec| matches!(spec.speedup, Speedup::Rigid));
        self.rigid.or(of_model.map(|spec| spec.procs.0))
    }

    /// What these options say about the number and the shape of tasks.
    pub fn shape(&self) -> TaskShape {
        TaskShape {
            procs: self.procs(),
            is_moldable: self.speedup.is_some() && self.procs().is_none(),
            ..self.resources.shape()
        }
    }

    /// True if these options say what an option of `sbatch` says as well, which then does not count.
    pub fn replaces(&self, long: &str) -> bool {
        match long {
            "time" => self.run.time.is_some(),
            "job-name" => self.run.job_name.is_some(),
            "chdir" => self.chdir.is_some(),
            "input" => self.stdin.is_some(),
            "array" => self.array.is_some(),
            _ => self.resources.replaces(long) || self.schedule.replaces(long),
        }
    }

    /// The options of runs with parameters, of a size that `sized` gives.
    pub fn of_runs(run: RunOptions, sized: JobOptions) -> JobOptions {
        JobOptions { run, ..sized }
    }

    /// The first of these options that `sweep` or `explore` has no use for.
    pub fn without_use(&self, runs: Runs) -> Option<&'static str> {
        let of_submit = [
            ("--array", self.array.is_some()),
            ("--out", self.out.is_some()),
            ("--server-timeout", self.server_timeout.is_some()),
            ("--server", self.server.is_some()),
            ("--speedup", self.speedup.is_some()),
            ("--chdir", self.chdir.is_some()),
            ("--stdin", self.stdin.is_some()),
            ("--merge-output", self.merge_output),
        ];
        let option = first_given(of_submit);
        match runs {
            Runs::Instances => {
                let again = ("--requeue", self.requeues().is_some_and(|requeues| requeues > 0));
                option.or_else(|| first_given([again]))
            }
            // On one core each, and in no queue.
            Runs::Requests => option
                .or_else(|| self.rigid.filter(|procs| *procs > 1).map(|_| "--rigid"))
                .or_else(|| self.resources.first())
                .or_else(|| self.schedule.first()),
        }
    }

    /// How often a job may run again after its node failed, if that is given.
    pub fn requeues(&self) -> Option<u32> {
        self.schedule.requeues()
    }

    /// The first of these options that reads or writes files of this machine besides those that are `sent` along, or has the command do
    /// more than submit one job.
    pub fn of_this_machine(&self, sent: &[FileName]) -> Option<&'static str> {
        let is_here = |file: &Input| !sent.contains(file.name());
        first_given([
            ("--in", self.inputs.iter().any(is_here)),
            ("--stdin", self.stdin.as_ref().is_some_and(is_here)),
            ("--chdir", self.chdir.is_some()),
            ("--out", self.out.is_some()),
            ("--wait", self.wait),
            ("--array", self.array.is_some()),
        ])
    }

    /// True if the command waits until the job has ended.
    pub fn waits(&self) -> bool {
        self.wait || self.out.is_some()
    }

    /// The first of these options that a script has only if it is submitted alone.
    pub fn of_one_script(&self) -> Option<&'static str> {
        first_given([("--array", self.array.is_some()), ("--out", self.out.is_some())])
    }

    /// How long the submission is tried.
    pub fn timeout(&self) -> Duration {
        self.server_timeout.unwrap_or(SERVER_TIMEOUT)
    }

    /// The first of these options that only a script has.
    pub fn of_scripts(&self) -> Option<&'static str> {
        let options = [
            ("--speedup", self.speedup.is_some()),
            ("--rigid", self.rigid.is_some()),
            ("--time", self.run.time.is_some()),
            ("--job-name", self.run.job_name.is_some()),
            ("--chdir", self.chdir.is_some()),
            ("--env", !self.run.env.is_empty()),
            ("--stdin", self.stdin.is_some()),
            ("--merge-output", self.merge_output),
            ("--ignore-sbatch", !self.run.ignore_sbatch.is_empty()),
            ("--array", self.array.is_some()),
        ];
        first_given(options).or_else(|| self.resources.first()).or_else(|| self.schedule.first())
    }

    /// The script that these options describe, without the folder of `--chdir`.
    pub fn script(
        &self,
        name: String,
        text: ExactText,
        arguments: Vec<String>,
    ) -> Result<Script, RequestError> {
        if self.chdir.is_some() && !self.inputs.is_empty() {
            return Err(RequestError::input("expected --chdir or --in, found both")
                .hint("a script that runs in a folder of yours reads its files there: leave --in out"));
        }
        let walltime = self.run.time.ok_or_else(|| {
            RequestError::input("expected --time with a script, found none")
                .hint("--time 1h, or a line `#PLIANT --time 1h`: how long it runs at most")
        })?;
        let size = match (&self.speedup, self.rigid) {
            (Some(spec), _) => spec.clone(),
            (None, procs) => {
                // One task, or one on each node.
                let tasks = self.resources.nodes().unwrap_or(1);
                let of_tasks = tasks.saturating_mul(self.resources.cpus_per_task().unwrap_or(1));
                SpeedupSpec { speedup: Speedup::Rigid, procs: Procs(procs.unwrap_or(of_tasks)) }
            }
        };
        let resources = self.resources.resources(&size)?;
        let SpeedupSpec { speedup, procs } = size;
        let work = Work {
            // A limit is never less than was asked for, unless the user says how the time changes with the size.
            fixed_time: matches!(speedup, Speedup::Rigid),
            resources: resources.map(Arc::new),
            ..Work::new(procs, walltime, speedup)
        };
        let work = self.schedule.applied(work)?;
        let name = self.run.job_name.clone().unwrap_or(name);
        let environment: BTreeMap<String, String> = self.run.env.iter().cloned().collect();
        if environment.len() > bounds::ARGUMENTS_MAX {
            let (most, found) = (bounds::ARGUMENTS_MAX, environment.len());
            let problem = format!("--env: expected at most {most} variables, found {found}");
            return Err(RequestError::input(problem).hint("send a file with them, and read it in the script"));
        }
        let (stdin, merge_output) = (self.stdin_name()?, self.merge_output);
        Ok(Script { arguments, environment, stdin, merge_output, ..Script::new(name, text, work) })
    }

    /// What is announced of the input files of the job, once each is read.
    ///
    /// # Errors
    ///
    /// If one cannot be read, or two have the same name.
    pub fn announced(&self) -> Result<Vec<(FileSpec, PathBuf)>, RequestError> {
        if let (Some(place), Some(file), None) = (self.places.of("--stdin"), &self.stdin, &self.chdir) {
            file.check("--stdin").map_err(|failure| failure.at(place))?;
        }
        announced("--in", &self.files())
    }

    /// The input files of the job, its standard input among them.
    pub fn files(&self) -> Vec<Input> {
        let mut files = self.inputs.clone();
        // It may be one of the others.
        let stdin = self.stdin.iter().filter(|file| self.chdir.is_none() && !files.contains(file));
        files.extend(stdin.cloned().collect::<Vec<Input>>());
        files
    }

    /// The name of the script's standard input in the folder in which it runs.
    fn stdin_name(&self) -> Result<Option<FileName>, RequestError> {
        let Some(file) = &self.stdin else { return Ok(None) };
        if self.chdir.is_none() {
            return Ok(Some(file.name().clone()));
        }
        let path = file.path();
        let name = path.to_str().and_then(|path| path.parse().ok());
        name.map(Some).ok_or_else(|| {
            let stdin = self.places.shown("--stdin");
            let problem = format!(
                "{stdin}: with --chdir expected a path from that folder on, without `..`, found {}",
                path.display()
            );
            RequestError::input(problem).hint("redirect other files in the script: `exec < FILE`")
        })
    }

    /// The folder of `--chdir` as servers know it.
    pub fn folder(&self, shared: &SharedFileSystems) -> Result<Option<SharedFolder>, RequestError> {
        let Some(dir) = &self.chdir else { return Ok(None) };
        let chdir = self.places.shown("--chdir");
        let wrong = |error| {
            let problem = format!("{chdir}: expected a folder, found {}: {error}", dir.display());
            RequestError::input(problem).hint("name one that is there")
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
                "{chdir}: expected a folder on a shared file system ({expected}), found {}",
                resolved.display()
            );
            RequestError::input(problem)
                .hint("[shared] of the client's file names them; without --chdir, send files with --in")
        })
    }
}

#[cfg(test)]
mod tests;
