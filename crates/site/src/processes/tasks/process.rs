//! One program of a list, at work in a folder of its own.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pliant_wire::Outcome;

use crate::processes::group::ProcessGroup;
use crate::processes::inputs::Inputs;
use crate::processes::streams::Streams;
use crate::processes::supervisor::spawn;

/// The longest that nothing looks whether a program has ended.
const PERIOD: Duration = Duration::from_secs(1);
/// How long to wait for the rest of the output once nothing of a program is left.
pub(super) const OUTPUT_AT_MOST: Duration = Duration::from_secs(2);

/// A program that runs.
pub(super) struct TaskProcess<'a> {
    child: Child,
    group: ProcessGroup,
    begin: Instant,
    deadline: Option<Instant>,
    ending: Option<Ending>,
    inputs: Inputs<'a>,
    work: PathBuf,
}

/// A program that was asked to end.
struct Ending {
    over_walltime: bool,
    kill_at: Option<Instant>,
}

/// How a program ended.
pub(super) struct ProcessEnd {
    pub(super) outcome: Outcome,
    pub(super) elapsed_ms: u64,
    pub(super) over_walltime: bool,
}

impl ProcessEnd {
    /// Of one that was not started.
    pub(super) fn not_started(error: &io::Error) -> ProcessEnd {
        let outcome = Outcome::NotStarted(error.to_string());
        ProcessEnd { outcome, elapsed_ms: 0, over_walltime: false }
    }
}

/// Where a program runs.
pub(super) enum TaskPlace {
    /// In a folder that is made for it.
    New(PathBuf),
    /// In a folder of the user's own.
    Existing {
        /// The folder.
        folder: PathBuf,
        /// Where a program with a relative path is.
        programs: PathBuf,
    },
}

/// What a program writes, to be read.
pub(super) type TaskOutput = Box<dyn Read + Send>;

impl TaskPlace {
    /// The command for a program here. A folder that is made for it is its home; otherwise it has that of the job.
    fn command(&self, program: &str) -> Command {
        match self {
            TaskPlace::New(folder) => {
                let mut command = Command::new(program);
                command.current_dir(folder).env("HOME", folder);
                command
            }
            TaskPlace::Existing { folder, programs } => {
                // A name without a slash is looked for in `PATH`.
                let path = if program.contains('/') { programs.join(program) } else { program.into() };
                let mut command = Command::new(path);
                command.current_dir(folder);
                command
            }
        }
    }

    fn folder(&self) -> &PathBuf {
        match self {
            TaskPlace::New(folder) | TaskPlace::Existing { folder, .. } => folder,
        }
    }
}

/// Starts a command with its standard error in its standard output: both of them as they come.
fn merged(command: &mut Command) -> io::Result<(Child, TaskOutput, TaskOutput)> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = spawn(command)?;
    // The command has ends of the pipe for writing, too: the output would have no end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Ok((child, Box::new(reader), Box::new(io::empty())))
}

/// Starts a command with its two outputs apart.
fn apart(command: &mut Command) -> io::Result<(Child, TaskOutput, TaskOutput)> {
    let mut child = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let pipes = child.stdout.take().zip(child.stderr.take());
    let (stdout, stderr) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
    Ok((child, Box::new(stdout), Box::new(stderr)))
}

impl<'a> TaskProcess<'a> {
    /// Starts a program with its environment in a folder, which gets its inputs; returns its two outputs, of which the second is empty if it
    /// goes to the first.
    pub(super) fn start(
        (program, env): (&[String], &BTreeMap<String, String>),
        place: TaskPlace,
        inputs: Inputs<'a>,
        streams: &Streams,
    ) -> io::Result<(TaskProcess<'a>, TaskOutput, TaskOutput)> {
        let begin = Instant::now();
        let work = place.folder().clone();
        let started = || -> io::Result<(Child, TaskOutput, TaskOutput)> {
            if let TaskPlace::New(folder) = &place {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            inputs.give_to(&work)?;
            let [program, arguments @ ..] = program else {
                return Err(io::Error::new(ErrorKind::InvalidInput, "no program"));
            };
            let mut command = place.command(program);
            command.args(arguments).process_group(0).envs(env).stdin(streams.open_stdin(&work)?);
            let started = if streams.merge_output { merged(&mut command) } else { apart(&mut command) };
            started.map_err(|error| io::Error::new(error.kind(), format!("`{program}`: {error}")))
        };
        match started() {
            Ok((child, stdout, stderr)) => {
                let group = ProcessGroup::of(&child);
                let process = TaskProcess { child, group, begin, deadline: None, ending: None, inputs, work };
                Ok((process, stdout, stderr))
            }
            Err(error) => {
                inputs.take_from(&work);
                Err(error)
            }
        }
    }

    /// The same, to be ended after that time.
    pub(super) fn with_walltime(mut self, walltime: Duration) -> TaskProcess<'a> {
        self.deadline = self.begin.checked_add(walltime);
        self
    }

    /// Has it end if it is over its walltime or all are to end; says how long nothing need be done.
    pub(super) fn tick(&mut self, all_end: bool, grace: Duration) -> Duration {
        let now = Instant::now();
        let is_over = self.deadline.is_some_and(|deadline| now >= deadline);
        let next = match &self.ending {
            None if is_over || all_end => {
                self.group.ask_to_end();
                let kill_at = now.checked_add(grace);
                self.ending = Some(Ending { over_walltime: is_over && !all_end, kill_at });
                kill_at
            }
            None => self.deadline,
            Some(Ending { kill_at: Some(at), .. }) if now >= *at => {
                self.group.kill();
                None
            }
            Some(Ending { kill_at, .. }) => *kill_at,
        };
        next.map_or(PERIOD, |next| PERIOD.min(next - now))
    }

    /// Whether its first process has ended.
    pub(super) fn is_over(&self) -> bool {
        self.group.is_over()
    }

    /// Kills what is left of it, and removes what is left of its inputs.
    pub(super) fn finish(mut self) -> ProcessEnd {
        self.group.kill();
        let outcome = self.group.outcome().unwrap_or(Outcome::Signal(0));
        let elapsed_ms = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let _ = self.child.wait();
        self.inputs.take_from(&self.work);
        let over_walltime = self.ending.is_some_and(|ending| ending.over_walltime);
        ProcessEnd { outcome, elapsed_ms, over_walltime }
    }
}
