//! Jobs to be run, in temporary folders, and this program as their supervisor.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use pliant_site::processes::{Ending, Exit, JobLimits, ProcessState, RunSpec, Running, Streams, find, spawn};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for what must come, on a machine that is busy with something else.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn this_program_as(role: &str) -> Vec<OsString> {
    let program = std::env::current_exe().unwrap().into_os_string();
    [program].into_iter().chain(["--exact", "--ignored", "--nocapture", role].map(OsString::from)).collect()
}

pub(crate) fn supervisor() -> Vec<OsString> {
    this_program_as("as_supervisor")
}

/// A supervisor that takes a second until it does anything.
pub(crate) fn slow_supervisor() -> Vec<OsString> {
    let wait = ["/bin/sh", "-c", "sleep 1; exec \"$0\" \"$@\""].map(OsString::from);
    wait.into_iter().chain(supervisor()).collect()
}

/// A temporary folder with one job's folder in it; at its end nothing may run that belongs to it.
pub(crate) struct Scratch {
    root: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        Scratch { root: tempfile::tempdir().unwrap() }
    }

    /// With a job that is ready to be run.
    pub(crate) fn with(spec: &RunSpec) -> Scratch {
        let scratch = Scratch::new();
        spec.write(&scratch.dir()).unwrap();
        scratch
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("job")
    }

    pub(crate) fn text(&self, file: &str) -> String {
        fs::read_to_string(self.dir().join(file)).unwrap_or_default()
    }

    /// Waits for a file of the job's folder to have a content.
    pub(crate) fn wait_for(&self, file: &str, is_there: impl Fn(&str) -> bool) -> String {
        wait_until(file, || Some(self.text(file)).filter(|text| is_there(text)))
    }

    pub(crate) fn started(&self, field: &str) -> i32 {
        wait_until(field, || {
            let started: Value = serde_json::from_str(&self.text("started.json")).ok()?;
            started[field].as_i64().map(|pid| pid as i32)
        })
    }

    pub(crate) async fn run(&self) -> Exit {
        exit(&mut spawn(&supervisor(), &self.dir()).unwrap()).await
    }

    /// Processes that carry the folder in their environment or in their arguments.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let dir = self.dir().into_os_string().into_string().unwrap();
        let names = |pid: i32, file: &str| {
            let content = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            content.split(|&byte| byte == 0).any(|part| {
                let part = String::from_utf8_lossy(part);
                part == dir || part == format!("PLIANT_JOB_DIR={dir}")
            })
        };
        let entries = fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        pids.filter(|&pid| names(pid, "environ") || names(pid, "cmdline")).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A supervisor has recorded the exit a moment before it is gone.
        let begin = Instant::now();
        while !self.processes().is_empty() && !thread::panicking() && begin.elapsed() < TIMEOUT {
            thread::sleep(Duration::from_millis(10));
        }
        let left = self.processes();
        left.iter().for_each(|&pid| kill(pid));
        assert!(left.is_empty() || thread::panicking(), "processes are left: {left:?}");
    }
}

pub(crate) fn wait_until<T>(what: &str, ready: impl Fn() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(begin.elapsed() < TIMEOUT, "{what} did not come");
        thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) async fn ending(running: &mut Running) -> Ending {
    tokio::time::timeout(TIMEOUT, running.ended()).await.unwrap().unwrap()
}

pub(crate) async fn exit(running: &mut Running) -> Exit {
    match ending(running).await {
        Ending::Ended(exit) => exit,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn running(dir: &Path) -> Running {
    match find(dir).unwrap() {
        ProcessState::Running(running) => running,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn kill(pid: i32) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

pub(crate) fn program(arguments: &[&str]) -> RunSpec {
    RunSpec {
        account: None,
        program: arguments.iter().map(ToString::to_string).collect(),
        env: BTreeMap::new(),
        walltime_s: 600,
        grace_s: 600,
        cores: None,
        cpu_share: None,
        max_output_bytes: 1_000_000,
        folder: None,
        streams: Streams::default(),
        limits: JobLimits::default(),
        keeps_user: false,
    }
}

pub(crate) fn script(text: &str) -> RunSpec {
    program(&["/bin/sh", "-c", text])
}

/// Perl that writes its process id to a file `pid`, and goes on.
pub(crate) const WRITES_PID: &str = r#"open(my $file, ">", "pid.tmp"); print $file "$$\n"; close($file); rename("pid.tmp", "pid"); sleep 1000"#;

/// A command whose process goes on with this in perl after its first thread has ended: `/proc` shows it as one that has ended. None, with a
/// note, where perl has no threads.
pub(crate) fn without_first_thread(then: &str) -> Option<String> {
    let has_threads = Command::new("perl").args(["-Mthreads", "-e", "1"]).output();
    if !has_threads.is_ok_and(|output| output.status.success()) {
        pliant_testing::skip(pliant_testing::Needed::Program, "no perl with threads");
        return None;
    }
    // The system call `exit`.
    let end = "my $exit = $Config{archname} =~ /x86_64/ ? 60 : 93; syscall($exit, 0)";
    Some(format!("perl -Mthreads -MConfig -e '$| = 1; threads->create(sub {{ {then} }}); {end}'"))
}
