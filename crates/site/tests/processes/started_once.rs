//! A job is started once, as soon as it can be, or says why it cannot.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pliant_site::processes::{Ending, ProcessState, RunSpec, SpawnError, find, spawn, terminate};
use pliant_wire::Outcome;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::scratch::*;

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
        assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::Running(_)), "it has not given up");
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
        let path = scratch.dir().display().to_string();
        assert!(!exit.outcome.to_string().contains(&path), "the path is not shown: {exit:?}");
        // It counts as started all the same: it is not tried again without the server's knowledge.
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
    assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::NeverStarted));
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
    assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::NeverStarted));
    assert!(scratch.run().await.is_success());
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
    assert!(matches!(find(&scratch.dir()).unwrap(), ProcessState::Ended(exit) if exit.is_success()));
}
