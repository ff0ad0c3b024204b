//! How a job ends: by itself, over its walltime, cancelled.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use pliant_site::processes::{ProcessState, RunSpec, find, recorded, spawn, terminate};
use pliant_wire::Outcome;
use rustix::process::{Pid, Signal, kill_process};

use crate::scratch::*;

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
        assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::Ended(found) if found == exit));
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

/// As what its job leaves behind, and as a job over its walltime.
#[tokio::test]
async fn a_process_without_its_first_thread_ends() {
    let Some(stays) = without_first_thread(WRITES_PID) else { return };
    let left = format!("setsid {stays} & while [ ! -e pid ]; do sleep 0.05; done");
    for text in [format!("{left}; exit 3"), format!("{left}; exec sleep 1000"), format!("exec {stays}")] {
        let scratch = Scratch::with(&RunSpec { walltime_s: 5, grace_s: 0, ..script(&text) });
        let exit = scratch.run().await;
        assert_eq!(exit.over_walltime, !text.ends_with("exit 3"), "{exit:?}");
        let pid: i32 = scratch.text("work/pid").trim().parse().unwrap();
        let goes_on = std::path::Path::new(&format!("/proc/{pid}")).exists();
        kill(pid);
        assert!(!goes_on, "{text}");
    }
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

/// As a batch system suspends a job, with its supervisor and everything.
#[tokio::test]
async fn time_for_which_a_job_is_suspended_is_not_its_own() {
    let text = "echo on; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done; echo done";
    let scratch = Scratch::with(&RunSpec { walltime_s: 4, ..script(text) });
    let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
    scratch.wait_for("stdout", |text| text == "on\n");
    let all = || scratch.processes().into_iter().filter_map(Pid::from_raw);
    all().for_each(|process| _ = kill_process(process, Signal::STOP));
    tokio::time::sleep(Duration::from_secs(5)).await;
    all().for_each(|process| _ = kill_process(process, Signal::CONT));
    let exit = exit(&mut running).await;
    assert_eq!((exit.outcome, exit.over_walltime), (Outcome::ExitCode(0), false));
    assert_eq!(scratch.text("stdout"), "on\ndone\n");
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
        assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::Ended(found) if found == exit));
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
            assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::NeverStarted));
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
        assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::Running(_)));
        terminate(&scratch.dir()).unwrap();
    }
    assert!(exit(&mut running).await.cancelled);
    assert!(recorded(&scratch.dir()).unwrap().unwrap().cancelled, "what the supervisor says is what counts");
}
