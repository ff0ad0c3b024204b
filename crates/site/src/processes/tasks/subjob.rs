//! The tasks of a subjob, all at once. Each has a folder named like the task: `work/` where it runs, `stdout`, `stderr` and, if it
//! is one, its `script`. One that fails ends no other: whether the others go on is for the coordinator of the launch to say.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pliant_control::exact_text::ExactText;
use pliant_control::names::User;
use pliant_staging::{FileName, WORK, put_script};
use pliant_wire::Outcome;
use serde::{Deserialize, Serialize};

use super::TasksEnd;
use super::port::TaskPort;
use super::process::{OUTPUT_AT_MOST, ProcessEnd, TaskPlace, TaskProcess};
use crate::processes::inputs::Inputs;
use crate::processes::output::Copy;
use crate::processes::streams::Streams;
use crate::processes::watch::Signals;

/// The variable of a task that says where it is to listen.
pub const ADDRESS_VARIABLE: &str = "PLIANT_ADDRESS";

/// A subjob.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SubjobSpec {
    /// Whose it is: only that user is given what its tasks leave.
    pub owner: User,
    /// Seconds between TERM and KILL.
    pub grace_s: u64,
    /// The tasks.
    pub tasks: Vec<TaskRun>,
}

/// A task, ready to be run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskRun {
    /// Its name, which is that of its folder too.
    pub name: String,
    /// Program and arguments, relative to the folder where it runs.
    pub program: Vec<String>,
    /// Its environment, on top of that of the job.
    pub env: BTreeMap<String, String>,
    /// The text of its script, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ExactText>,
    /// What it finds in the folder where it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<TaskInput>,
    /// Bytes that are kept of its standard output and of its standard error, each.
    pub max_output_bytes: u64,
}

/// An input file of a task.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskInput {
    /// What it is called where the task runs.
    pub name: FileName,
    /// What it is called in the folder of files that the tasks share, `inputs/`.
    pub shared: FileName,
}

/// How a task has ended by itself: a line of the job's standard output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskEnd {
    /// The task.
    pub task: String,
    /// How its first process ended.
    pub outcome: Outcome,
    /// How long it ran.
    pub elapsed_ms: u64,
    /// Whether something that it wrote on its standard output was dropped, and the same of its standard error.
    pub cut: [bool; 2],
}

impl SubjobSpec {
    /// Runs the tasks in folders below `here`, with what they find in `shared`, and reports each when it has ended.
    pub(super) fn run(
        &self,
        here: &Path,
        shared: &Path,
        signals: &mut Signals,
        mut report: impl FnMut(&TaskEnd) -> io::Result<()>,
    ) -> io::Result<TasksEnd> {
        let mut end = TasksEnd::Succeeded;
        let mut report = |ended: TaskEnd| {
            if ended.outcome != Outcome::ExitCode(0) {
                end = TasksEnd::Failed;
            }
            report(&ended)
        };
        let mut running = Vec::new();
        // All of them before a task starts, which may be what takes the port of another.
        let ports: Vec<_> = self.tasks.iter().map(TaskRun::keep_port).collect();
        for (task, port) in self.tasks.iter().zip(ports) {
            match port.and_then(|port| Running::start(task, &here.join(&task.name), shared, port)) {
                Ok(started) => running.push(started),
                Err(error) => report(TaskEnd::of(&task.name, ProcessEnd::not_started(&error), [false; 2]))?,
            }
        }
        let grace = Duration::from_secs(self.grace_s);
        let mut is_ending = false;
        while !running.is_empty() {
            is_ending |= signals.is_terminated();
            let waits = running.iter_mut().map(|task: &mut Running<'_>| task.tick(is_ending, grace));
            if let Some(wait) = waits.min() {
                signals.wait(wait);
            }
            for task in running.extract_if(.., |task| task.is_over()) {
                let ended = task.finish();
                if !is_ending {
                    report(ended)?;
                }
            }
        }
        Ok(if is_ending { TasksEnd::Ended } else { end })
    }
}

impl TaskRun {
    /// Keeps the port where it is to listen, if it is to.
    fn keep_port(&self) -> io::Result<Option<TaskPort>> {
        let address = self.env.get(ADDRESS_VARIABLE).filter(|address| !address.is_empty());
        address.map(|address| TaskPort::keep(address)).transpose()
    }
}

impl TaskEnd {
    fn of(task: &str, end: ProcessEnd, cut: [bool; 2]) -> TaskEnd {
        TaskEnd { task: task.to_owned(), outcome: end.outcome, elapsed_ms: end.elapsed_ms, cut }
    }
}

/// A task at work.
struct Running<'a> {
    name: &'a str,
    process: TaskProcess<'a>,
    output: [Copy; 2],
    /// Until it listens there.
    port: Option<TaskPort>,
    /// Why it cannot go on.
    failure: Option<String>,
}

impl Running<'_> {
    fn start<'a>(
        task: &'a TaskRun,
        folder: &Path,
        shared: &Path,
        mut port: Option<TaskPort>,
    ) -> io::Result<Running<'a>> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        if let Some(text) = &task.script {
            put_script(folder, text.as_bytes()).map_err(io::Error::other)?;
        }
        let files = [File::create(folder.join("stdout"))?, File::create(folder.join("stderr"))?];
        let names = task.inputs.iter().map(|input| (&input.shared, &input.name));
        let inputs = Inputs::new(shared.to_owned(), names);
        if let Some(port) = &mut port {
            port.free();
        }
        let place = TaskPlace::New(folder.join(WORK));
        let (process, stdout, stderr) =
            TaskProcess::start((&task.program, &task.env), place, inputs, &Streams::default())?;
        let [to_stdout, to_stderr] = files;
        let most = task.max_output_bytes;
        let copies = Copy::start(stdout, to_stdout, most)
            .and_then(|copy| Ok([copy, Copy::start(stderr, to_stderr, most)?]));
        match copies {
            Ok(output) => Ok(Running { name: &task.name, process, output, port, failure: None }),
            Err(error) => {
                process.finish();
                Err(io::Error::new(error.kind(), format!("cannot copy its output: {error}")))
            }
        }
    }

    /// Has it end if all are to end; says how long nothing need be done.
    fn tick(&mut self, all_end: bool, grace: Duration) -> Duration {
        let wait = self.process.tick(all_end, grace);
        let Some(port) = &mut self.port else { return wait };
        match port.look(Instant::now()) {
            Ok(Some(look_in)) => wait.min(look_in),
            Ok(None) => {
                self.port = None;
                wait
            }
            Err(why) => {
                self.failure = Some(why);
                Duration::ZERO
            }
        }
    }

    fn is_over(&self) -> bool {
        self.failure.is_some() || self.process.is_over()
    }

    fn finish(self) -> TaskEnd {
        let mut end = self.process.finish();
        if let Some(why) = self.failure {
            end.outcome = Outcome::NotStarted(why);
        }
        TaskEnd::of(self.name, end, self.output.map(|copy| copy.finish(OUTPUT_AT_MOST).was_cut))
    }
}

/// More than the reports of all tasks of a subjob; what follows was written by the job.
const REPORTS_BYTES_MAX: u64 = 4 << 20;

/// How the tasks of a subjob have ended so far, as it has reported in the folder of its job. A line that is not whole yet
/// comes later; one that is no report was written by the job.
///
/// # Errors
/// It cannot be read.
pub fn task_ends(dir: &Path) -> io::Result<Vec<TaskEnd>> {
    let mut text = Vec::new();
    match File::open(output_of(dir)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        file => _ = file?.take(REPORTS_BYTES_MAX).read_to_end(&mut text)?,
    }
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text[..whole].split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// The file where a subjob reports how its tasks ended.
fn output_of(dir: &Path) -> PathBuf {
    dir.join("stdout")
}

/// How much a subjob has reported, in bytes: more whenever there is something new.
pub fn task_ends_length(dir: &Path) -> u64 {
    fs::metadata(output_of(dir)).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    use pliant_staging::SHARED;

    use super::*;

    fn task(name: &str, script: &str) -> TaskRun {
        TaskRun {
            name: name.to_owned(),
            program: vec!["../script".to_owned()],
            env: BTreeMap::from([("PLIANT_TASK".to_owned(), name.to_owned())]),
            script: Some(format!("#!/bin/sh\n{script}\n").into()),
            inputs: Vec::new(),
            max_output_bytes: 100,
        }
    }

    fn run(dir: &Path, tasks: Vec<TaskRun>, report: impl FnMut(&TaskEnd) -> io::Result<()>) -> TasksEnd {
        let subjob = SubjobSpec { owner: "alice".parse().unwrap(), grace_s: 1, tasks };
        subjob.run(dir, &dir.join(SHARED), &mut Signals::listen().unwrap(), report).unwrap()
    }

    #[test]
    fn tasks_run_concurrently_each_in_its_folder_and_report_how_they_ended() {
        let dir = tempfile::tempdir().unwrap();
        // The second waits for the first: one after the other they would never end.
        let first = task("first", "echo $PLIANT_TASK; echo why >&2; touch ../../gate; exit 3");
        let second = task("second", "while ! test -e ../../gate; do sleep 0.01; done; pwd");
        let lost = TaskRun { program: vec!["/no/such/program".to_owned()], script: None, ..task("lost", "") };
        let mut ends = BTreeMap::new();
        let end = run(dir.path(), vec![second, first, lost], |ended| {
            ends.insert(ended.task.clone(), ended.outcome.clone());
            Ok(())
        });
        assert_eq!(end, TasksEnd::Failed);
        assert_eq!((&ends["first"], &ends["second"]), (&Outcome::ExitCode(3), &Outcome::ExitCode(0)));
        assert!(matches!(&ends["lost"], Outcome::NotStarted(why) if why.contains("/no/such/program")));
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("first/stdout"), read("first/stderr")), ("first\n".to_owned(), "why\n".to_owned()));
        assert_eq!(read("second/stdout"), format!("{}\n", dir.path().join("second/work").display()));
    }

    #[test]
    fn what_a_task_leaves_behind_is_killed_with_it() {
        let dir = tempfile::tempdir().unwrap();
        // What it leaves holds its output open: the subjob would not end.
        let end = run(dir.path(), vec![task("one", "sleep 1000 & echo left")], |_| Ok(()));
        assert_eq!(end, TasksEnd::Succeeded);
        assert_eq!(fs::read_to_string(dir.path().join("one/stdout")).unwrap(), "left\n");
    }

    #[test]
    fn a_task_finds_its_inputs_and_leaves_what_is_its_own() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(SHARED)).unwrap();
        fs::write(dir.path().join(SHARED).join("ab12"), "scene").unwrap();
        let input = |name: &str, shared: &str| TaskInput {
            name: name.parse().unwrap(),
            shared: shared.parse().unwrap(),
        };
        let inputs = vec![input("scene.txt", "ab12"), input("in/same.txt", "ab12")];
        let reads =
            TaskRun { inputs, ..task("reads", "cat scene.txt in/same.txt | tee left; printf %0200d 0 >&2") };
        let lacks = TaskRun { inputs: vec![input("none", "ffff")], ..task("lacks", "echo began") };
        let mut ends = BTreeMap::new();
        run(dir.path(), vec![reads, lacks], |ended| {
            ends.insert(ended.task.clone(), ended.clone());
            Ok(())
        });
        assert_eq!((&ends["reads"].outcome, ends["reads"].cut), (&Outcome::ExitCode(0), [false, true]));
        assert!(
            matches!(&ends["lacks"].outcome, Outcome::NotStarted(why) if why.contains("the input file none"))
        );
        let left: Vec<_> = fs::read_dir(dir.path().join("reads/work"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["left"]);
        assert_eq!(fs::read_to_string(dir.path().join("reads/work/left")).unwrap(), "scenescene");
    }

    #[test]
    fn only_whole_lines_are_ends() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(task_ends(dir.path()).unwrap(), []);
        assert_eq!(task_ends_length(dir.path()), 0);
        let end =
            TaskEnd { task: "a".to_owned(), outcome: Outcome::ExitCode(0), elapsed_ms: 7, cut: [false; 2] };
        let line = serde_json::to_string(&end).unwrap();
        fs::write(dir.path().join("stdout"), format!("{line}\nnothing\n{}", &line[..9])).unwrap();
        assert_eq!(task_ends(dir.path()).unwrap(), [end]);
    }
}
