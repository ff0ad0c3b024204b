//! Jobs as real processes: what they get, how they end, and that none is lost or run twice whoever is killed.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pliant_live::processes::{
    Ending, Exit, Found, Lost, Outcome, RunSpec, Running, SpawnError, find, recorded, spawn, supervise,
    terminate,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::Value;
use tempfile::TempDir;

/// How long a test waits for what must come, on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);

/// Not a test: this program started by another test, as the supervisor of the job in its last argument.
#[test]
#[ignore = "a supervisor, started by the other tests"]
fn as_supervisor() {
    if let Some(dir) = folder_argument() {
        let result = supervise(&dir);
        if let Err(error) = &result {
            eprintln!("error: {error}");
        }
        std::process::exit(i32::from(result.is_err()));
    }
}

/// Not a test: a server that starts a job and then does nothing until it is killed.
#[test]
#[ignore = "a server, started by the other tests"]
fn as_server() {
    if let Some(dir) = folder_argument() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let command = if dir.join("slowly").exists() { slow_supervisor() } else { supervisor() };
        runtime.block_on(async {
            let _running = spawn(&command, &dir).unwrap();
            println!("spawned");
            std::future::pending::<()>().await;
        });
    }
}

fn folder_argument() -> Option<PathBuf> {
    std::env::args_os().map(PathBuf::from).next_back().filter(|last| last.is_absolute() && last.is_dir())
}

fn this_program_as(role: &str) -> Vec<OsString> {
    let program = std::env::current_exe().unwrap().into_os_string();
    [program].into_iter().chain(["--exact", "--ignored", "--nocapture", role].map(OsString::from)).collect()
}

fn supervisor() -> Vec<OsString> {
    this_program_as("as_supervisor")
}

/// A supervisor that takes a second until it does anything.
fn slow_supervisor() -> Vec<OsString> {
    let wait = ["/bin/sh", "-c", "sleep 1; exec \"$0\" \"$@\""].map(OsString::from);
    wait.into_iter().chain(supervisor()).collect()
}

/// A temporary folder with one job's folder in it; at its end nothing may run that belongs to it.
struct Scratch {
    root: TempDir,
}

impl Scratch {
    fn new() -> Scratch {
        Scratch { root: tempfile::tempdir().unwrap() }
    }

    /// With a job that is ready to be run.
    fn with(spec: &RunSpec) -> Scratch {
        let scratch = Scratch::new();
        spec.write(&scratch.dir()).unwrap();
        scratch
    }

    fn dir(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("job")
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.dir().join(file)).unwrap_or_default()
    }

    /// Waits for a file of the job's folder to have a content.
    fn wait_for(&self, file: &str, is_there: impl Fn(&str) -> bool) -> String {
        wait_until(file, || Some(self.text(file)).filter(|text| is_there(text)))
    }

    fn started(&self, field: &str) -> i32 {
        wait_until(field, || {
            let started: Value = serde_json::from_str(&self.text("started.json")).ok()?;
            started[field].as_i64().map(|pid| pid as i32)
        })
    }

    async fn run(&self) -> Exit {
        exit(&mut spawn(&supervisor(), &self.dir()).unwrap()).await
    }

    /// Processes that carry the folder in their environment or in their arguments.
    fn processes(&self) -> Vec<i32> {
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
        while !self.processes().is_empty() && !thread::panicking() && begin.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        let left = self.processes();
        left.iter().for_each(|&pid| kill(pid));
        assert!(left.is_empty() || thread::panicking(), "processes are left: {left:?}");
    }
}

fn wait_until<T>(what: &str, ready: impl Fn() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(begin.elapsed() < PATIENCE, "{what} did not come");
        thread::sleep(Duration::from_millis(10));
    }
}

async fn ending(running: &mut Running) -> Ending {
    tokio::time::timeout(PATIENCE, running.ended()).await.unwrap().unwrap()
}

async fn exit(running: &mut Running) -> Exit {
    match ending(running).await {
        Ending::Ended(exit) => exit,
        other => panic!("{other:?}"),
    }
}

fn running(dir: &Path) -> Running {
    match find(dir).unwrap() {
        Found::Running(running) => running,
        other => panic!("{other:?}"),
    }
}

fn kill(pid: i32) {
    let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
}

fn program(arguments: &[&str]) -> RunSpec {
    RunSpec {
        program: arguments.iter().map(ToString::to_string).collect(),
        env: BTreeMap::new(),
        walltime_s: 600,
        grace_s: 600,
        cores: None,
        cpu_share: None,
        max_output_bytes: 1_000_000,
    }
}

fn script(text: &str) -> RunSpec {
    program(&["/bin/sh", "-c", text])
}

#[tokio::test]
async fn exits_and_output() {
    async fn check(text: &str, outcome: Outcome, stdout: &str, stderr: &str) {
        let scratch = Scratch::with(&script(text));
        let exit = scratch.run().await;
        assert_eq!(exit.outcome, outcome, "{text}");
        assert_eq!((exit.over_walltime, exit.cancelled), (false, false), "{text}");
        assert_eq!((exit.stdout_cut, exit.stderr_cut), (false, false), "{text}");
        assert_eq!((scratch.text("stdout").as_str(), scratch.text("stderr").as_str()), (stdout, stderr));
        assert!(exit.ended_unix_ms >= exit.started_unix_ms && exit.max_rss_kb.unwrap() > 0, "{exit:?}");
        assert!(matches!(find(&scratch.dir()).unwrap(), Found::Ended(found) if found == exit));
        assert_eq!(scratch.text("supervisor.log"), "");
    }
    check("true", Outcome::ExitCode(0), "", "").await;
    check("exit 77", Outcome::ExitCode(77), "", "").await;
    check("kill -SEGV $$", Outcome::Signal(11), "", "").await;
    check("echo out; echo err >&2", Outcome::ExitCode(0), "out\n", "err\n").await;
    check("cat; echo end of input", Outcome::ExitCode(0), "end of input\n", "").await;
    check("cd ..; basename $PWD; ls -d work", Outcome::ExitCode(0), "job\nwork\n", "").await;
    // Neither the lock nor a file of the supervisor's is handed on.
    check("readlink /proc/self/fd/* | grep -F ${PWD%/work}", Outcome::ExitCode(1), "", "").await;
    // What is left when the first process is gone is killed, but what it wrote is kept.
    check("(echo child; exec sleep 1000) & sleep 0.3", Outcome::ExitCode(0), "child\n", "").await;
}

#[tokio::test]
async fn cpu_time_and_memory_are_of_the_whole_job() {
    // `tail` keeps what it may have to print.
    let text = "sh -c 'head -c 64000000 /dev/zero | tail -c 64000000 | wc -c'";
    let scratch = Scratch::with(&script(text));
    let exit = scratch.run().await;
    assert!(exit.is_success() && exit.cpu_s > 0.0, "{exit:?}");
    assert_eq!(scratch.text("stdout"), "64000000\n");
    assert!(exit.max_rss_kb.unwrap() > 60_000, "{exit:?}");
}

#[tokio::test]
async fn environment_is_what_was_given() {
    let mut spec = program(&["env"]);
    spec.env = BTreeMap::from([("PLIANT_PROCS".into(), "4".into()), ("PLIANT_JOB_DIR".into(), "no".into())]);
    let scratch = Scratch::with(&spec);
    let exit = scratch.run().await;
    assert!(exit.is_success(), "{exit:?}");
    let stdout = scratch.text("stdout");
    let mut found: Vec<&str> = stdout.lines().collect();
    found.sort_unstable();
    let dir = scratch.dir().into_os_string().into_string().unwrap();
    let expected = [
        format!("HOME={dir}/work"),
        "LANG=C.UTF-8".into(),
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into(),
        format!("PLIANT_JOB_DIR={dir}"),
        "PLIANT_PROCS=4".into(),
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn walltime_is_enforced() {
    async fn check(text: &str, cpu_share: Option<f64>, grace_s: u64, outcome: Outcome, stdout: &str) {
        let scratch = Scratch::with(&RunSpec { walltime_s: 1, grace_s, cpu_share, ..script(text) });
        let exit = scratch.run().await;
        assert_eq!(exit.outcome, outcome, "{text}");
        assert_eq!((exit.over_walltime, exit.cancelled), (true, false), "{text}");
        assert!(exit.elapsed_ms >= 1000, "{text}: {}", exit.elapsed_ms);
        assert_eq!(scratch.text("stdout"), stdout, "{text}");
    }
    check("sleep 1000", None, 600, Outcome::Signal(15), "").await;
    check("trap 'echo bye; exit 3' TERM; sleep 1000 & wait", None, 600, Outcome::ExitCode(3), "bye\n").await;
    // Stubborn, with a stubborn grandchild in its group and another that left it.
    let stubborn =
        "trap '' TERM; sh -c 'sleep 1000; :' & setsid sleep 1000 & echo on; sleep 1000; sleep 1000";
    check(stubborn, None, 1, Outcome::Signal(9), "on\n").await;
    check("trap '' TERM; while :; do :; done", None, 0, Outcome::Signal(9), "").await;
    // Stopped by its throttle or by itself, it still hears TERM.
    let busy = "trap 'echo bye; exit 3' TERM; while :; do :; done";
    check(busy, Some(0.01), 600, Outcome::ExitCode(3), "bye\n").await;
    check("trap 'echo bye; exit 3' TERM; kill -STOP $$", None, 600, Outcome::ExitCode(3), "bye\n").await;
}

#[tokio::test]
async fn cancelled_while_running() {
    async fn check(text: &str, grace_s: u64, outcome: Outcome) {
        let scratch = Scratch::with(&RunSpec { grace_s, ..script(text) });
        let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
        scratch.wait_for("stdout", |text| text == "on\n");
        terminate(&scratch.dir()).unwrap();
        terminate(&scratch.dir()).unwrap();
        let exit = exit(&mut running).await;
        assert_eq!(
            (exit.outcome.clone(), exit.cancelled, exit.over_walltime),
            (outcome, true, false),
            "{text}"
        );
        terminate(&scratch.dir()).unwrap();
        assert!(matches!(find(&scratch.dir()).unwrap(), Found::Ended(found) if found == exit));
    }
    check("echo on; exec sleep 1000", 600, Outcome::Signal(15)).await;
    check("trap 'exit 0' TERM; echo on; sleep 1000 & wait", 600, Outcome::ExitCode(0)).await;
    check("trap '' TERM; echo on; sleep 1000", 1, Outcome::Signal(9)).await;
}

#[tokio::test]
async fn cancelled_by_a_signal_or_by_a_file_alone() {
    let scratch = Scratch::with(&script("echo on; exec sleep 1000"));
    let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
    scratch.wait_for("stdout", |text| text == "on\n");
    let supervisor_id = Pid::from_raw(scratch.started("supervisor")).unwrap();
    kill_process(supervisor_id, Signal::TERM).unwrap();
    assert!(exit(&mut running).await.cancelled);

    // Long after the supervisor's first look.
    let scratch = Scratch::with(&script("sleep 0.5; echo on; exec sleep 1000"));
    let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
    scratch.wait_for("stdout", |text| text == "on\n");
    fs::write(scratch.dir().join("cancel"), "").unwrap();
    assert!(exit(&mut running).await.cancelled);
}

#[tokio::test]
async fn cancelled_before_it_started() {
    async fn check(command: &[OsString], is_spawned_first: bool) {
        let scratch = Scratch::with(&script("echo ran"));
        if !is_spawned_first {
            terminate(&scratch.dir()).unwrap();
            assert!(matches!(find(&scratch.dir()).unwrap(), Found::NeverStarted));
        }
        let mut running = spawn(command, &scratch.dir()).unwrap();
        terminate(&scratch.dir()).unwrap();
        let exit = exit(&mut running).await;
        assert!(matches!(&exit.outcome, Outcome::NotStarted(why) if why.contains("cancelled")), "{exit:?}");
        assert!(exit.cancelled && exit.max_rss_kb.is_none());
        assert_eq!(scratch.text("stdout"), "");
    }
    check(&supervisor(), false).await;
    check(&slow_supervisor(), true).await;
}

#[tokio::test]
async fn a_job_that_says_itself_that_it_has_ended_can_be_cancelled() {
    let scratch = Scratch::with(&script("echo on; exec sleep 1000"));
    let said = serde_json::json!({
        "outcome": { "exit_code": 0 }, "over_walltime": false, "cancelled": false, "started_unix_ms": 1,
        "ended_unix_ms": 2, "elapsed_ms": 1, "cpu_s": 0.0, "max_rss_kb": 1, "stdout_cut": false, "stderr_cut": false
    });
    let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
    scratch.wait_for("stdout", |text| text == "on\n");
    for said in [said.to_string(), "{".to_owned()] {
        fs::write(scratch.dir().join("exit.json"), said).unwrap();
        assert!(matches!(find(&scratch.dir()).unwrap(), Found::Running(_)));
        terminate(&scratch.dir()).unwrap();
    }
    assert!(exit(&mut running).await.cancelled);
    assert!(recorded(&scratch.dir()).unwrap().unwrap().cancelled, "what the supervisor says is what counts");
}

#[tokio::test]
async fn a_job_that_leaves_nonsense_for_a_record_is_lost_with_its_supervisor() {
    for nonsense in ["echo '{' > ../exit.json", "mkdir ../exit.json"] {
        let scratch = Scratch::with(&script(&format!("{nonsense}; echo on; exec sleep 1000")));
        let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
        scratch.wait_for("stdout", |text| text == "on\n");
        kill(scratch.started("supervisor"));
        assert!(matches!(ending(&mut running).await, Ending::Lost(_)), "{nonsense}");
        terminate(&scratch.dir()).unwrap();
    }
}

/// A supervisor that may have so many files open.
fn supervisor_with_open_files(most: u32) -> Vec<OsString> {
    let limit = format!("ulimit -Sn {most}; exec \"$0\" \"$@\"");
    [OsString::from("/bin/sh"), "-c".into(), limit.into()].into_iter().chain(supervisor()).collect()
}

#[tokio::test]
async fn a_job_is_started_as_soon_as_there_is_what_it_takes() {
    // Too few for the signals; for the output of the job, once it is claimed.
    for most in [4, 10] {
        let scratch = Scratch::with(&script("echo ran"));
        let mut running = spawn(&supervisor_with_open_files(most), &scratch.dir()).unwrap();
        scratch.wait_for("supervisor.log", |text| text.contains("Too many open files"));
        assert!(matches!(find(&scratch.dir()).unwrap(), Found::Running(_)), "it has not given up");
        for pid in scratch.processes() {
            let limit = Rlimit { current: Some(100), maximum: getrlimit(Resource::Nofile).maximum };
            prlimit(Pid::from_raw(pid), Resource::Nofile, limit).unwrap();
        }
        let exit = exit(&mut running).await;
        assert!(exit.is_success(), "{exit:?}");
        assert_eq!(scratch.text("stdout"), "ran\n");
        assert_eq!(scratch.text("supervisor.log").lines().count(), 1, "it complains once");
    }
}

#[tokio::test]
async fn a_job_that_waits_to_be_started_can_be_cancelled() {
    for most in [4, 10] {
        let scratch = Scratch::with(&script("echo ran"));
        let mut running = spawn(&supervisor_with_open_files(most), &scratch.dir()).unwrap();
        scratch.wait_for("supervisor.log", |text| text.contains("Too many open files"));
        let is_claimed = scratch.dir().join("started.json").exists();
        terminate(&scratch.dir()).unwrap();
        match ending(&mut running).await {
            Ending::Ended(exit) => assert!(is_claimed && exit.cancelled, "{exit:?}"),
            Ending::NeverStarted(_) => assert!(!is_claimed),
            Ending::Lost(lost) => panic!("{lost}"),
        }
        assert_eq!(scratch.text("stdout"), "");
    }
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    async fn check(change: impl Fn(&Path), spec: RunSpec, expected: &str) {
        let scratch = Scratch::with(&spec);
        change(&scratch.dir());
        let exit = scratch.run().await;
        assert!(
            matches!(&exit.outcome, Outcome::NotStarted(why) if why.contains(expected)),
            "{expected}: {exit:?}"
        );
        assert!(!exit.is_success() && exit.max_rss_kb.is_none());
        let place = scratch.dir().display().to_string();
        assert!(!exit.outcome.to_string().contains(&place), "where it lies is nobody's business: {exit:?}");
        // It counts as started all the same: nobody tries again behind the server's back.
        assert!(matches!(spawn(&supervisor(), &scratch.dir()), Err(SpawnError::StartedBefore { .. })));
    }
    let nothing = |_: &Path| {};
    check(nothing, program(&["/no/such/program"]), "`/no/such/program`: no such program").await;
    check(nothing, program(&["no-such-program"]), "no such program in PATH (/usr").await;
    let mut elsewhere = program(&["true"]);
    elsewhere.env.insert("PATH".into(), "/elsewhere".into());
    check(nothing, elsewhere, "no such program in PATH (/elsewhere)").await;
    check(|dir| fs::write(dir.join("work/mine"), "x").unwrap(), program(&["./mine"]), "not executable").await;
    check(nothing, program(&["/etc"]), "not executable").await;
    check(nothing, RunSpec { cores: Some(vec![1023]), ..script("") }, "cores [1023]").await;
    check(nothing, RunSpec { cores: Some(vec![0, 1023]), ..script("") }, "cores [0, 1023]").await;
    check(|dir| fs::remove_dir(dir.join("work")).unwrap(), script(""), "no work folder").await;
    check(|dir| fs::write(dir.join("spec.json"), "{").unwrap(), script(""), "spec.json: cannot understand")
        .await;
    let empty = |dir: &Path| {
        let changed = fs::read_to_string(dir.join("spec.json")).unwrap().replace("true", "");
        fs::write(dir.join("spec.json"), changed).unwrap();
    };
    check(empty, program(&["true"]), "program: expected").await;
}

#[tokio::test]
async fn spawning_wrongly_is_refused() {
    let scratch = Scratch::new();
    assert!(matches!(find(&scratch.dir()).unwrap(), Found::NeverStarted));
    assert!(matches!(spawn(&supervisor(), &scratch.dir()), Err(SpawnError::Folder(_))));
    fs::create_dir(scratch.dir()).unwrap();
    assert!(matches!(spawn(&supervisor(), &scratch.dir()), Err(SpawnError::NoSpec { .. })));
    script("echo ran").write(&scratch.dir()).unwrap();
    assert!(matches!(spawn(&[], &scratch.dir()), Err(SpawnError::Supervisor { .. })));
    let missing = [OsString::from("/no/such/supervisor")];
    assert!(matches!(spawn(&missing, &scratch.dir()), Err(SpawnError::Supervisor { .. })));
    // A supervisor that gives up leaves its last words, and the job may be started again.
    let failing = ["/bin/sh", "-c", "echo no luck >&2"].map(OsString::from);
    let ended = ending(&mut spawn(&failing, &scratch.dir()).unwrap()).await;
    assert_eq!(ended, Ending::NeverStarted(Some("no luck".into())));
    assert!(matches!(find(&scratch.dir()).unwrap(), Found::NeverStarted));
    assert!(scratch.run().await.is_success());
    assert_eq!(scratch.text("stdout"), "ran\n");
}

/// Starts a server which starts the job, kills it at once, and returns when it is gone.
fn start_by_a_server_that_dies(dir: &Path) {
    let command = this_program_as("as_server");
    let mut server =
        Command::new(&command[0]).args(&command[1..]).arg(dir).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let spawned = lines.any(|line| line.contains("spawned"));
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(spawned, "the server did not start the job");
}

#[tokio::test]
async fn a_job_survives_its_server() {
    let scratch = Scratch::with(&script("echo on; while [ ! -e go ]; do sleep 0.05; done; echo off; exit 5"));
    start_by_a_server_that_dies(&scratch.dir());
    let mut adopted = running(&scratch.dir());
    scratch.wait_for("stdout", |text| text == "on\n");
    assert!(matches!(spawn(&supervisor(), &scratch.dir()), Err(SpawnError::IsRunning { .. })));
    // Waiting may be given up and begun again.
    let given_up = tokio::time::timeout(Duration::from_millis(50), adopted.ended()).await;
    assert!(given_up.is_err(), "{given_up:?}");
    fs::write(scratch.dir().join("work/go"), "").unwrap();
    assert_eq!(exit(&mut adopted).await.outcome, Outcome::ExitCode(5));
    assert_eq!(scratch.text("stdout"), "on\noff\n");
    assert!(matches!(spawn(&supervisor(), &scratch.dir()), Err(SpawnError::StartedBefore { .. })));
}

#[tokio::test]
async fn an_adopted_job_can_be_cancelled() {
    let scratch = Scratch::with(&script("echo on; exec sleep 1000"));
    start_by_a_server_that_dies(&scratch.dir());
    scratch.wait_for("stdout", |text| text == "on\n");
    let mut adopted = running(&scratch.dir());
    terminate(adopted.dir()).unwrap();
    assert!(exit(&mut adopted).await.cancelled);
}

#[tokio::test]
async fn a_supervisor_about_to_start_counts_as_running() {
    let scratch = Scratch::with(&script("echo ran"));
    fs::write(scratch.dir().join("slowly"), "").unwrap();
    start_by_a_server_that_dies(&scratch.dir());
    // For a second it has done nothing that can be seen, other than holding the lock it was handed.
    let mut adopted = running(&scratch.dir());
    assert!(!scratch.dir().join("started.json").exists());
    assert!(matches!(spawn(&supervisor(), &scratch.dir()), Err(SpawnError::IsRunning { .. })));
    assert!(exit(&mut adopted).await.is_success());
    assert_eq!(scratch.text("stdout"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_spawns_start_one_job() {
    let scratch = Scratch::with(&script("echo ran >> ../count; sleep 0.2"));
    let attempts: Vec<_> = (0..20)
        .map(|_| {
            let dir = scratch.dir();
            tokio::task::spawn_blocking(move || spawn(&supervisor(), &dir))
        })
        .collect();
    let mut started = 0;
    for attempt in attempts {
        match attempt.await.unwrap() {
            Ok(mut running) => {
                started += 1;
                assert!(exit(&mut running).await.is_success());
            }
            Err(SpawnError::IsRunning { .. } | SpawnError::StartedBefore { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((started, scratch.text("count").as_str()), (1, "ran\n"));
}

#[tokio::test]
async fn twenty_supervisors_start_one_job() {
    let scratch = Scratch::with(&script("echo ran >> ../count; sleep 0.2"));
    let command = supervisor();
    let by_hand = || -> Child {
        let mut by_hand = Command::new(&command[0]);
        by_hand.args(&command[1..]).arg(scratch.dir());
        by_hand.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let supervisors: Vec<Child> = (0..20).map(|_| by_hand()).collect();
    let successes =
        supervisors.into_iter().map(|mut one| one.wait().unwrap()).filter(|status| status.success()).count();
    assert_eq!((successes, scratch.text("count").as_str()), (1, "ran\n"));
    // And later, after it has ended.
    assert!(!by_hand().wait().unwrap().success());
    assert_eq!(scratch.text("count"), "ran\n");
    assert!(matches!(find(&scratch.dir()).unwrap(), Found::Ended(exit) if exit.is_success()));
}

#[tokio::test]
async fn a_killed_supervisor_loses_its_job_and_nothing_stays() {
    async fn check(text: &str, cpu_share: Option<f64>, killed_expected: usize) {
        let scratch = Scratch::with(&RunSpec { cpu_share, ..script(text) });
        let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
        scratch.wait_for("stdout", |text| text == "on\n");
        scratch.started("group");
        kill(scratch.started("supervisor"));
        let expected = Lost::SupervisorDied { killed: killed_expected };
        assert_eq!(ending(&mut running).await, Ending::Lost(expected), "{text}");
        assert_eq!(scratch.processes(), [0; 0], "{text}");
        // It stays lost, and is not started again.
        assert!(matches!(find(&scratch.dir()).unwrap(), Found::Lost(Lost::SupervisorDied { killed: 0 })));
        assert!(matches!(spawn(&supervisor(), &scratch.dir()), Err(SpawnError::StartedBefore { .. })));
        terminate(&scratch.dir()).unwrap();
    }
    check("sleep 1000 & sleep 1000 & echo on; exec sleep 1000", None, 3).await;
    // One left the group, and one forgot its environment.
    check("setsid sleep 1000 & env -i sleep 1000 & sleep 0.3; echo on; exec sleep 1000", None, 3).await;
}

#[test]
fn a_job_of_another_boot_is_lost() {
    let scratch = Scratch::with(&script("echo ran"));
    let own = std::process::id();
    let started = format!(
        "{{\"supervisor\": {own}, \"group\": {own}, \"boot_id\": \"another\", \"started_unix_ms\": 1}}"
    );
    fs::write(scratch.dir().join("started.json"), started).unwrap();
    assert!(matches!(find(&scratch.dir()).unwrap(), Found::Lost(Lost::HostRestarted)));
    // Half a marker: its supervisor was killed while writing it.
    fs::write(scratch.dir().join("started.json"), "").unwrap();
    assert!(matches!(find(&scratch.dir()).unwrap(), Found::Lost(Lost::SupervisorDied { killed: 0 })));
}

#[tokio::test]
async fn throttled_jobs_use_their_share() {
    async fn check(text: &str, share: f64) {
        let spec = RunSpec { cpu_share: Some(share), walltime_s: 3, grace_s: 0, ..script(text) };
        let scratch = Scratch::with(&spec);
        let exit = scratch.run().await;
        assert!(exit.over_walltime, "{exit:?}");
        let used = exit.cpu_s / (exit.elapsed_ms as f64 / 1000.0);
        assert!((share * 0.6..share * 1.4).contains(&used), "{text}: {used} cores of {share}");
    }
    let busy = "while :; do :; done";
    check(busy, 0.25).await;
    check(&format!("trap '' TERM; ({busy}) & {busy}"), 0.25).await;
    // Outside of the group, too.
    check(&format!("trap '' TERM; setsid sh -c '{busy}' & wait; sleep 1000"), 0.25).await;
}

#[tokio::test]
async fn pinned_jobs_stay_on_their_cores() {
    let allowed = |status: &str| {
        let line = status.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
        line.unwrap().split_once(':').unwrap().1.trim().to_owned()
    };
    // The last core that this process may use: 0 would not tell a pin from a default.
    let own = allowed(&fs::read_to_string("/proc/self/status").unwrap());
    let core: u32 = own.rsplit([',', '-']).next().unwrap().parse().unwrap();
    let spec = RunSpec { cores: Some(vec![core]), ..script("sh -c 'cat /proc/self/status'") };
    let scratch = Scratch::with(&spec);
    assert!(scratch.run().await.is_success());
    assert_eq!(allowed(&scratch.text("stdout")), core.to_string());
}

#[tokio::test]
async fn output_is_cut_and_the_job_goes_on() {
    let text = "head -c 300000 /dev/zero | tr '\\0' x; echo few >&2; touch done";
    let scratch = Scratch::with(&RunSpec { max_output_bytes: 1000, ..script(text) });
    let exit = scratch.run().await;
    assert!(exit.is_success(), "{exit:?}");
    assert_eq!((exit.stdout_cut, exit.stderr_cut), (true, false));
    let expected = format!("{}\n[pliant: output beyond 1000 bytes was dropped]\n", "x".repeat(1000));
    assert_eq!((scratch.text("stdout"), scratch.text("stderr")), (expected, "few\n".to_owned()));
    assert!(scratch.dir().join("work/done").exists());
}
