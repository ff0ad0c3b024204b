//! A server whose cluster changes while it has jobs: it is killed, its file is changed, and it is started again.

use std::fs;
use std::path::Path;
use std::process::Command;

use pliant_client::Client;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::server::Server;
use pliant_daemon::config::ServerFile;
use pliant_daemon::host::replay_journal;
use pliant_model::Time;
use serde_json::Value;

use super::replay;
use crate::harness::*;

/// Replaces a part of the server's file.
fn rewrite(file: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "expected {from:?} in {text}");
    fs::write(file, text.replace(from, to)).unwrap();
}

/// What `--check` says of a change.
fn checked(file: &Path) -> Value {
    let check = Command::new(env!("CARGO_BIN_EXE_pliant"))
        .args(["--format", "json", "server", "--check"])
        .arg(file)
        .output()
        .unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    serde_json::from_slice::<Value>(&check.stdout).unwrap()["change"].clone()
}

async fn planned_start(client: &Client, job: &JobRecord) -> Option<Time> {
    Some(client.explain(&job.handle).await.unwrap().waits?.plan.start)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_shrinks_grows_and_changes_its_policy_with_its_jobs() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    let alice = federation.client("alice");
    let file = federation.folder("lyon").join("server.toml");
    let gates = ["a", "b", "c"].map(|name| federation.path().join(name));
    let mut running = Vec::new();
    for (path, walltime_s) in gates.iter().zip([700, 800, 900]) {
        let job = submit(&alice, &order(rigid(&waiting_for(path), 1, walltime_s))).await;
        running.push(federation.reaches(&alice, &job.handle, JobState::Active).await);
    }
    let narrow = submit(&alice, &order(rigid("true", 2, 600))).await;
    let wide = submit(&alice, &order(rigid("true", 3, 60))).await;
    assert_eq!(checked(&file), Value::Null);

    // Half of it: while the server runs `--check` says what will be.
    rewrite(&file, "\nprocs = 4\n", "\nprocs = 2\n");
    let change = checked(&file);
    let effect = ["procs_before", "procs", "running", "waiting", "later", "earlier", "too_large"];
    assert_eq!(effect.map(|key| change[key].as_u64().unwrap()), [4, 2, 3, 2, 1, 0, 1], "{change}");
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    assert_eq!(checked(&file), Value::Null);
    assert!(planned_start(&alice, &narrow).await > Some(narrow.expected.start));
    let why = alice.explain(&wide.handle).await.unwrap().unplanned.unwrap();
    assert!(why.contains("needs 3 processors"), "{why}");
    for job in &running {
        assert_eq!(alice.job(&job.handle).await.unwrap().state, JobState::Active);
    }
    // The two that are left have both processors.
    fs::write(&gates[0], "").unwrap();
    federation.reaches(&alice, &running[0].handle, JobState::Completed).await;
    assert_eq!(alice.job(&narrow.handle).await.unwrap().state, JobState::Queued);

    // Larger than before, under another policy.
    rewrite(&file, "\nprocs = 2\n", "\nprocs = 5\n");
    rewrite(&file, "batch = \"cbf\"", "batch = \"easy\"");
    let change = checked(&file);
    let batch = ["batch_before", "batch"].map(|key| change[key].as_str().unwrap());
    assert_eq!(batch, ["cbf", "easy"], "{change}");
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    for job in [&narrow, &wide] {
        federation.reaches(&alice, &job.handle, JobState::Completed).await;
    }
    for (path, job) in gates.iter().zip(&running).skip(1) {
        fs::write(path, "").unwrap();
        federation.reaches(&alice, &job.handle, JobState::Completed).await;
    }

    // A replay takes the changes from the journal.
    federation.stop("lyon");
    let file = ServerFile::read(&file).unwrap();
    let replayed =
        replay_journal(&file.state, |now| Server::new(replay::server(&file), now).unwrap()).unwrap();
    assert_eq!(replayed.differing, [0; 0]);
}
