//! One program of a list, at work in a folder of its own.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pliant_wire::Outcome;

use crate::processes::group::ProcessGroup;
use crate::processes::inputs::Inputs;
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

impl<'a> TaskProcess<'a> {
    /// Starts a program in a folder, which is made and given its inputs.
    pub(super) fn start(
        program: &[String],
        env: &BTreeMap<String, String>,
        work: PathBuf,
        inputs: Inputs<'a>,
    ) -> io::Result<(TaskProcess<'a>, ChildStdout, ChildStderr)> {
        let begin = Instant::now();
        let started = || -> io::Result<(Child, ChildStdout, ChildStderr)> {
            DirBuilder::new().recursive(true).mode(0o700).create(&work)?;
            inputs.give_to(&work)?;
            let [program, arguments @ ..] = program else {
                return Err(io::Error::new(ErrorKind::InvalidInput, "no program"));
            };
            let mut command = Command::new(program);
            command.args(arguments).current_dir(&work).process_group(0);
            command.env("HOME", &work).envs(env);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let named = |error: io::Error| io::Error::new(error.kind(), format!("`{program}`: {error}"));
            let mut child = spawn(&mut command).map_err(named)?;
            let pipes = child.stdout.take().zip(child.stderr.take());
            let (stdout, stderr) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
            Ok((child, stdout, stderr))
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
