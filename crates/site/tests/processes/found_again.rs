//! Who comes later finds a job again: running, ended or lost.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pliant_site::processes::{Ending, Lost, ProcessState, RunSpec, SpawnError, find, spawn, terminate};
use pliant_wire::Outcome;

use crate::scratch::*;

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
        assert!(matches!(
            find(&scratch.dir()).unwrap(),
            ProcessState::Lost(Lost::SupervisorDied { killed: 0 })
        ));
        assert!(matches!(spawn(&supervisor(), &scratch.dir()), Err(SpawnError::StartedBefore { .. })));
        terminate(&scratch.dir()).unwrap();
    }
    check("sleep 1000 & sleep 1000 & echo on; exec sleep 1000", None, 3).await;
    // One left the group, and one forgot its environment.
    check("setsid sleep 1000 & env -i sleep 1000 & sleep 0.3; echo on; exec sleep 1000", None, 3).await;
    // One left the group and seems to have ended.
    let Some(stays) = without_first_thread(WRITES_PID) else { return };
    let text = format!("setsid {stays} & while [ ! -e pid ]; do sleep 0.05; done; echo on; exec sleep 1000");
    check(&text, None, 2).await;
}

#[test]
fn a_job_of_another_boot_is_lost() {
    let scratch = Scratch::with(&script("echo ran"));
    let own = std::process::id();
    let started = format!(
        "{{\"supervisor\": {own}, \"group\": {own}, \"boot_id\": \"another\", \"started_unix_ms\": 1}}"
    );
    fs::write(scratch.dir().join("started.json"), started).unwrap();
    assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::Lost(Lost::HostRestarted)));
    // Half a marker: its supervisor was killed while writing it.
    fs::write(scratch.dir().join("started.json"), "").unwrap();
    assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::Lost(Lost::SupervisorDied { killed: 0 })));
}

#[tokio::test]
async fn a_job_that_leaves_nonsense_for_a_record_is_lost_with_its_supervisor() {
    let too_long = r#"printf '{"outcome":{"not_started":"%070000d"},"over_walltime":false,"cancelled":false,"started_unix_ms":1,
        "ended_unix_ms":2,"elapsed_ms":1,"cpu_s":0.0,"max_rss_kb":1,"stdout_cut":false,"stderr_cut":false}' 0 > ../exit.json"#;
    for nonsense in ["echo '{' > ../exit.json", "mkdir ../exit.json", too_long] {
        let scratch = Scratch::with(&script(&format!("{nonsense}; echo on; exec sleep 1000")));
        let mut running = spawn(&supervisor(), &scratch.dir()).unwrap();
        scratch.wait_for("stdout", |text| text == "on\n");
        kill(scratch.started("supervisor"));
        assert!(matches!(ending(&mut running).await, Ending::Lost(_)), "{nonsense}");
        terminate(&scratch.dir()).unwrap();
    }
}
