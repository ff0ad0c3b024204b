//! The tasks of a part of a launch, all at once by one job: the process `pliant run-part FILE`, under the supervisor of any
//! job.
//!
//! Each task has a folder of its own below the job's work folder, named like the task: `work/` where it runs, `stdout`,
//! `stderr` and, if it is one, its `script`. It is the leader of a process group; when its first process has ended, whatever
//! is left of the group is killed. A line of JSON on standard output ([`TaskEnd`]) says how it ended, as soon as it has. One
//! that fails ends no other: whether the others go on is for the coordinator of the launch to say. Told to end, all groups
//! get TERM, and KILL after the grace period, and nothing is said of those that end by that: they did not by themselves.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pliant_control::names::User;
use pliant_staging::{FileName, PART, SHARED, put_script};
use pliant_wire::Outcome;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use super::output::Copy;
use super::pack::outcome;
use super::supervisor::spawn;
use super::watch::Signals;

/// The longest that nobody looks whether a task is there.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait for the rest of the output once nothing of a task is left.
const OUTPUT_AT_MOST: Duration = Duration::from_secs(2);

/// What to run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PartSpec {
    /// Whose it is: nobody else is given what its tasks leave.
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
    pub script: Option<String>,
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
    /// What it is called in the folder of files that the tasks of the part share, `inputs/`.
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

/// How a part ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartEnd {
    /// Every task reported success.
    Well,
    /// One did not.
    Failed,
    /// Somebody wanted it to end.
    Ended,
}

impl PartSpec {
    /// As it stands in its file.
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a part is plain data with text keys")
    }

    /// The part in a job's folder.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn of(dir: &Path) -> io::Result<PartSpec> {
        Ok(serde_json::from_slice(&fs::read(dir.join(PART))?)?)
    }

    /// Runs the tasks in folders below `here`, with what they find in `shared`, and tells of each when it has ended.
    fn run(
        &self,
        here: &Path,
        shared: &Path,
        signals: &mut Signals,
        mut tell: impl FnMut(&TaskEnd) -> io::Result<()>,
    ) -> io::Result<PartEnd> {
        let mut end = PartEnd::Well;
        let mut tell = |ended: TaskEnd| {
            if ended.outcome != Outcome::ExitCode(0) {
                end = PartEnd::Failed;
            }
            tell(&ended)
        };
        let mut running = Vec::new();
        for task in &self.tasks {
            let begin = Instant::now();
            match Running::start(task, &here.join(&task.name), shared) {
                Ok(child) => running.push(child),
                Err(error) => {
                    let outcome = Outcome::NotStarted(error.to_string());
                    tell(TaskEnd::of(&task.name, outcome, begin))?;
                }
            }
        }
        let mut kill_at = None;
        while !running.is_empty() {
            signals.wait(LOOK);
            if signals.is_terminated() {
                let now = Instant::now();
                let at = *kill_at.get_or_insert_with(|| {
                    running.iter().for_each(|task: &Running<'_>| task.signal(&[Signal::TERM, Signal::CONT]));
                    now.checked_add(Duration::from_secs(self.grace_s))
                });
                if at.is_some_and(|at| at <= now) {
                    running.iter().for_each(|task| task.signal(&[Signal::KILL]));
                }
            }
            for task in running.extract_if(.., |task| task.is_over()) {
                let ended = task.finish();
                if kill_at.is_none() {
                    tell(ended)?;
                }
            }
        }
        Ok(if kill_at.is_some() { PartEnd::Ended } else { end })
    }
}

impl TaskEnd {
    fn of(task: &str, outcome: Outcome, begin: Instant) -> TaskEnd {
        let elapsed_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        TaskEnd { task: task.to_owned(), outcome, elapsed_ms, cut: [false; 2] }
    }
}

/// A task at work.
struct Running<'a> {
    name: &'a str,
    child: Child,
    leader: Pid,
    begin: Instant,
    output: [Copy; 2],
    inputs: Inputs<'a>,
    /// Where it runs.
    work: PathBuf,
}

impl Running<'_> {
    fn start<'a>(task: &'a TaskRun, folder: &Path, shared: &Path) -> io::Result<Running<'a>> {
        let work = folder.join("work");
        DirBuilder::new().recursive(true).mode(0o700).create(&work)?;
        let names = task.inputs.iter().map(|input| (&input.shared, &input.name));
        let inputs = Inputs::new(shared.to_owned(), names);
        inputs.give_to(&work)?;
        if let Some(text) = &task.script {
            put_script(folder, text.as_bytes()).map_err(io::Error::other)?;
        }
        let files = [File::create(folder.join("stdout"))?, File::create(folder.join("stderr"))?];
        let [program, arguments @ ..] = task.program.as_slice() else {
            return Err(io::Error::new(ErrorKind::InvalidInput, "no program"));
        };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&work).process_group(0);
        command.env("HOME", &work).envs(&task.env);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let named = |error: io::Error| io::Error::new(error.kind(), format!("`{program}`: {error}"));
        let begin = Instant::now();
        let mut child = spawn(&mut command).map_err(named)?;
        let leader = Pid::from_child(&child);
        let [stdout, stderr] = files;
        let missing = || io::Error::other("no pipes");
        let most = task.max_output_bytes;
        let copies = child.stdout.take().ok_or_else(missing).and_then(|pipe| Copy::start(pipe, stdout, most));
        let copies = copies.and_then(|copy| {
            let pipe = child.stderr.take().ok_or_else(missing)?;
            Ok([copy, Copy::start(pipe, stderr, most)?])
        });
        match copies {
            Ok(output) => Ok(Running { name: &task.name, child, leader, begin, output, inputs, work }),
            Err(error) => {
                let _ = kill_process_group(leader, Signal::KILL);
                let _ = child.wait();
                Err(io::Error::new(error.kind(), format!("cannot copy its output: {error}")))
            }
        }
    }

    fn signal(&self, signals: &[Signal]) {
        for signal in signals {
            // Failures mean that there is nobody.
            let _ = kill_process_group(self.leader, *signal);
        }
    }

    /// True once its first process has ended, which stays a zombie: the group's id is still its own.
    fn is_over(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(self.leader), options), Ok(Some(_)) | Err(_))
    }

    fn finish(mut self) -> TaskEnd {
        self.signal(&[Signal::KILL]);
        let ended = TaskEnd::of(self.name, outcome(self.child.wait()), self.begin);
        let cut = self.output.map(|copy| copy.finish(OUTPUT_AT_MOST));
        self.inputs.take_from(&self.work);
        TaskEnd { cut, ..ended }
    }
}

/// Runs the tasks of a file in folders below the present one, and says on `out` how each ended.
///
/// # Errors
/// The file cannot be read, or nobody hears how they ended.
pub fn run_part(file: &Path, out: &mut impl Write) -> io::Result<PartEnd> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
    };
    let text = fs::read(file).map_err(at(file))?;
    let part: PartSpec = serde_json::from_slice(&text).map_err(io::Error::from).map_err(at(file))?;
    let here = std::env::current_dir().map_err(at(Path::new(".")))?;
    let mut signals = Signals::listen().map_err(at(Path::new("signals")))?;
    part.run(&here, &file.with_file_name(SHARED), &mut signals, |ended| {
        let mut line = serde_json::to_vec(ended).expect("plain data with text keys");
        line.push(b'\n');
        out.write_all(&line).and_then(|()| out.flush()).map_err(at(Path::new("standard output")))
    })
}

/// What a part has said so far of how its tasks ended, in the folder of its job. What is not whole yet comes later; what is
/// no such line was written by somebody else.
///
/// # Errors
/// It cannot be read.
pub fn task_ends(dir: &Path) -> io::Result<Vec<TaskEnd>> {
    let text = match fs::read(output_of(dir)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read?,
    };
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = text[..whole].split(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
}

/// The file where a part says how its tasks ended.
fn output_of(dir: &Path) -> PathBuf {
    dir.join("stdout")
}

/// How much a part has said, in bytes: more whenever there is something new.
pub fn task_ends_length(dir: &Path) -> u64 {
    fs::metadata(output_of(dir)).map_or(0, |found| found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, script: &str) -> TaskRun {
        TaskRun {
            name: name.to_owned(),
            program: vec!["../script".to_owned()],
            env: BTreeMap::from([("PLIANT_TASK".to_owned(), name.to_owned())]),
            script: Some(format!("#!/bin/sh\n{script}\n")),
            inputs: Vec::new(),
            max_output_bytes: 100,
        }
    }

    fn run(dir: &Path, tasks: Vec<TaskRun>, tell: impl FnMut(&TaskEnd) -> io::Result<()>) -> PartEnd {
        let part = PartSpec { owner: "alice".parse().unwrap(), grace_s: 1, tasks };
        part.run(dir, &dir.join(SHARED), &mut Signals::listen().unwrap(), tell).unwrap()
    }

    #[test]
    fn tasks_run_side_by_side_each_in_its_folder_and_say_how_they_ended() {
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
        assert_eq!(end, PartEnd::Failed);
        assert_eq!((&ends["first"], &ends["second"]), (&Outcome::ExitCode(3), &Outcome::ExitCode(0)));
        assert!(matches!(&ends["lost"], Outcome::NotStarted(why) if why.contains("/no/such/program")));
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!((read("first/stdout"), read("first/stderr")), ("first\n".to_owned(), "why\n".to_owned()));
        assert_eq!(read("second/stdout"), format!("{}\n", dir.path().join("second/work").display()));
    }

    #[test]
    fn whatever_a_task_leaves_behind_is_killed_with_it() {
        let dir = tempfile::tempdir().unwrap();
        // What it leaves holds its output open: the part would not end.
        let end = run(dir.path(), vec![task("one", "sleep 1000 & echo left")], |_| Ok(()));
        assert_eq!(end, PartEnd::Well);
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
        let end = TaskEnd::of("a", Outcome::ExitCode(0), Instant::now());
        let line = serde_json::to_string(&end).unwrap();
        fs::write(dir.path().join("stdout"), format!("{line}\nnothing\n{}", &line[..9])).unwrap();
        assert_eq!(task_ends(dir.path()).unwrap(), [end]);
    }
}
