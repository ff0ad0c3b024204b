//! Any process is killed at any time: every accepted job runs exactly once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_transport::Role;
use pliant_wire::{Download, Upload, UploadAnswer};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use tokio_stream::wrappers::ReceiverStream;

use crate::harness::*;

/// Jobs of the long test.
const JOBS: u64 = 200;
/// How often a daemon is killed meanwhile.
const KILLS: u64 = 40;
/// Submissions that go on at a time.
const AT_A_TIME: usize = 12;

/// What a submission by a process of its own came to.
enum ClientOutcome {
    Handle(Handle),
    /// It was killed, and not repeated.
    Nothing,
}

/// Submits by `pliant submit`, killed and repeated with the same key, or killed and given up.
async fn submit_by_process(
    script: PathBuf,
    config: PathBuf,
    state: PathBuf,
    mut random: ChaCha8Rng,
) -> ClientOutcome {
    let key = fresh_key();
    let gives_up = random.next_u32().is_multiple_of(4);
    let mut kills = random.next_u32() % 3 + u32::from(gives_up);
    loop {
        let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_pliant"))
            .args(["submit", "--rigid", "1", "--time", "60s", "--server-timeout", "60s"])
            .arg("--script")
            .arg(&script)
            .arg("--config")
            .arg(&config)
            .arg("--key")
            .arg(key.to_string())
            .env("XDG_STATE_HOME", &state)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        if kills > 0 {
            kills -= 1;
            tokio::time::sleep(Duration::from_millis(u64::from(random.next_u32() % 150))).await;
            child.kill().await.unwrap();
            if gives_up && kills == 0 {
                return ClientOutcome::Nothing;
            }
            continue;
        }
        let output = child.wait_with_output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        return ClientOutcome::Handle(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_job_runs_exactly_once_while_daemons_are_killed() {
    let clusters =
        [Cluster::new("lyon", 4, 1.0), Cluster::new("paris", 3, 1.2), Cluster::new("rennes", 2, 1.4)];
    let mut federation = Federation::start(&clusters).await;
    let names = [MASTER, "lyon", "paris", "rennes"];
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let lines = federation.path().join("lines");
    let text = noting(&lines, "sleep 0.05");
    let script = federation.path().join("job.sh");
    fs::write(&script, format!("#!/bin/sh\n{text}\n")).unwrap();
    let users =
        ["alice", "bob"].map(|user| (federation.client(user), federation.client_file(Role::User, user)));
    let mut submissions = tokio::task::JoinSet::new();
    let (mut begun, mut accepted, mut given_up, mut kills) = (0, Vec::new(), 0, 0);
    // Submissions, kills and restarts all the while.
    while begun < JOBS || !submissions.is_empty() {
        while begun < JOBS && submissions.len() < AT_A_TIME {
            let user = (begun % 2) as usize;
            let (client, config) = users[user].clone();
            let (script, text, state) = (script.clone(), text.clone(), federation.path().join("state"));
            let by_process = begun % 5 == 0;
            let seeded = ChaCha8Rng::seed_from_u64(begun);
            submissions.spawn(async move {
                match by_process {
                    true => (user, submit_by_process(script, config, state, seeded).await),
                    false => (
                        user,
                        ClientOutcome::Handle(submit(&client, &order(rigid(&text, 1, 60))).await.handle),
                    ),
                }
            });
            begun += 1;
        }
        match submissions.join_next().await.unwrap().unwrap() {
            (user, ClientOutcome::Handle(handle)) => accepted.push((user, handle)),
            (_, ClientOutcome::Nothing) => given_up += 1,
        }
        if (accepted.len() as u64 + given_up).is_multiple_of(JOBS / KILLS) {
            tokio::time::sleep(Duration::from_millis(u64::from(random.next_u32() % 50))).await;
            let name = names[random.next_u32() as usize % names.len()];
            federation.kill(name);
            tokio::time::sleep(Duration::from_millis(u64::from(random.next_u32() % 100))).await;
            federation.revive(name);
            kills += 1;
        }
    }
    assert_eq!(kills, KILLS);
    for (user, handle) in &accepted {
        let ended = users[*user].0.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, ended.exit), (JobState::Completed, Some(Exit::Code(0))), "{handle}");
        let found = fetched(&users[*user].0, handle).await;
        assert_eq!(String::from_utf8_lossy(&found["stdout"]), format!("I am {handle}\n"));
    }
    // Also jobs whose clients were killed before the answer.
    let root = federation.operator();
    agree(&root, &lines).await;
    let mut runs = runs(&lines);
    for (_, handle) in &accepted {
        assert_eq!(runs.remove(&handle.to_string()), Some(1), "{handle}");
    }
    assert_eq!(accepted.len() as u64 + given_up, JOBS);
    assert!(runs.len() as u64 <= given_up, "{runs:?} ran without a submission");
    assert!(runs.values().all(|times| *times == 1), "{runs:?}");
    println!(
        "{kills} kills; {} jobs accepted, {given_up} clients given up, {} of theirs ran",
        accepted.len(),
        runs.len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_with_waiting_and_running_jobs_goes_on_with_them() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let (lines, gate) = (federation.path().join("lines"), federation.path().join("gate"));
    let text = noting(&lines, &format!("echo $$ > own; {}; cat own", waiting_for(&gate)));
    let running = submit(&alice, &order(rigid(&text, 1, 60))).await.handle;
    let waiting = submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 60))).await.handle;
    federation.reaches(&alice, &running, JobState::Active).await;
    // A client follows the output of the waiting job before it starts.
    let (client, wanted) = (alice.clone(), Download { follow: true, ..stdout_of(&waiting) });
    let follows = tokio::spawn(async move {
        let mut said = Vec::new();
        let piece = |piece: &[u8]| {
            said.extend_from_slice(piece);
            Ok(())
        };
        client.output(&wanted, piece).await.map(|_| said)
    });
    for _ in 0..3 {
        federation.kill("lyon");
        federation.revive("lyon");
    }
    assert_eq!(federation.reaches(&alice, &running, JobState::Active).await.exit, None);
    assert_eq!(federation.reaches(&alice, &waiting, JobState::Queued).await.started, None);
    fs::write(&gate, "").unwrap();
    for handle in [&running, &waiting] {
        assert_eq!(alice.wait(handle, |_| {}).await.unwrap().state, JobState::Completed, "{handle}");
        assert_eq!(runs(&lines)[&handle.to_string()], 1, "{handle}");
    }
    let found = fetched(&alice, &running).await;
    let said = String::from_utf8_lossy(&found["stdout"]).into_owned();
    assert_eq!(said, format!("I am {running}\n{}", String::from_utf8_lossy(&found["work/own"])));
    assert_eq!(follows.await.unwrap().unwrap(), format!("I am {waiting}\n").as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_the_server_did_not_see_is_found() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = federation.client("alice");
    let (lines, gate) = (federation.path().join("lines"), federation.path().join("gate"));
    let wait = waiting_for(&gate);
    let good = submit(&alice, &order(rigid(&noting(&lines, &wait), 1, 60))).await.handle;
    let bad = submit(&alice, &order(rigid(&noting(&lines, &format!("{wait}; exit 7")), 1, 60))).await.handle;
    for handle in [&good, &bad] {
        federation.reaches(&alice, handle, JobState::Active).await;
        let begun = || runs(&lines).contains_key(&handle.to_string());
        until("the job to run", async || begun().then_some(())).await;
    }
    federation.kill("lyon");
    fs::write(&gate, "").unwrap();
    for handle in [&good, &bad] {
        let exit = federation.job_folder(handle).join("exit.json");
        until("the supervisor to note the end", async || exit.exists().then_some(())).await;
    }
    federation.revive("lyon");
    for (handle, code) in [(&good, 0), (&bad, 7)] {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!(ended.exit, Some(Exit::Code(code)));
        assert_eq!(runs(&lines)[&handle.to_string()], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_where_it_was_cut() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 253) as u8).collect();
    let path = federation.path().join("data");
    fs::write(&path, &data).unwrap();
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &path));
    let begin = Upload::Begin { key: asked.key, file: asked.inputs[0].0.clone(), claim: None };

    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    let mut server = federation.server_client(Role::User, "alice", "lyon");
    sender.send((&begin).into()).await.unwrap();
    for piece in data[..1_000_000].chunks(100_000) {
        sender.send((&Upload::Data(piece.to_vec())).into()).await.unwrap();
    }
    let mut answers = server.upload(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let first = UploadAnswer::try_from(answers.message().await.unwrap().unwrap()).unwrap();
    assert_eq!(first, UploadAnswer::Offset(0));
    let staging = federation.folder("lyon").join("state/staging");
    until("the pieces to arrive", async || (bytes_below(&staging) >= 1_000_000).then_some(())).await;
    federation.kill("lyon");
    drop((sender, answers, server));
    federation.revive("lyon");
    federation.attached(1).await;

    let (sender, receiver) = tokio::sync::mpsc::channel(16);
    let mut server = federation.server_client(Role::User, "alice", "lyon");
    sender.send((&begin).into()).await.unwrap();
    let mut answers = server.upload(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let first = UploadAnswer::try_from(answers.message().await.unwrap().unwrap()).unwrap();
    assert_eq!(first, UploadAnswer::Offset(1_000_000));
    drop((sender, answers, server));

    let ended = run(&alice, &asked).await;
    assert_eq!(ended.state, JobState::Completed);
    assert!(fetched(&alice, &ended.handle).await["work/copy.bin"] == data);
}

/// How many bytes the parts of uploads have.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.path() {
        path if path.is_dir() => bytes_below(&path),
        path if path.extension().is_some_and(|end| end == "part") => {
            path.metadata().map_or(0, |found| found.len())
        }
        _ => 0,
    });
    bytes.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_supervisor_is_gone_is_lost_and_not_run_again() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let lines = federation.path().join("lines");
    for server_is_there in [true, false] {
        let text = noting(&lines, "sleep 1000");
        let accepted = submit(&alice, &order(rigid(&text, 1, 1000))).await.handle;
        let (folder, said) = (federation.job_folder(&accepted), format!("I am {accepted}\n"));
        let begun = || fs::read(folder.join("stdout")).is_ok_and(|found| found == said.as_bytes());
        until("the job to say its line", async || begun().then_some(())).await;
        if !server_is_there {
            federation.kill("lyon");
        }
        let lock = fs::read_to_string(folder.join("lock")).unwrap();
        kill_process(Pid::from_raw(lock.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        if !server_is_there {
            federation.revive("lyon");
        }
        let ended = alice.wait(&accepted, |_| {}).await.unwrap();
        assert_eq!(ended.state, JobState::Failed);
        assert!(matches!(ended.exit, Some(Exit::Lost(_))), "{:?}", ended.exit);
        assert_eq!(fetched(&alice, &accepted).await["stdout"], said.as_bytes());
        assert_eq!(runs(&lines)[&accepted.to_string()], 1);
    }
    let next = run(&alice, &order(rigid("true", 1, 60))).await;
    assert_eq!(next.state, JobState::Completed, "the processor is free again");
}
