//! The folders of jobs on another file system than the journal, where all jobs run as the server's own user.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use pliant_control::job::{Exit, JobState};
use pliant_testing::{Needed, skip};

use super::harness::*;

/// A file system in memory that most systems have, and that every user can write to.
const OTHER: &str = "/dev/shm";

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_jobs_are_elsewhere_and_a_server_without_them_does_not_start() {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev()).ok();
    let scratch = tempfile::tempdir().unwrap();
    let there = tempfile::tempdir_in(OTHER).ok();
    let Some(there) = there.filter(|there| device(there.path()) != device(scratch.path())) else {
        return skip(Needed::Program, "folders of jobs on another file system (needs /dev/shm)");
    };
    let folder = there.path().join("mounted/lyon");
    let accounts = format!("[accounts]\nmap = \"shared\"\nfolder = \"{}\"\n", folder.display());
    let mut federation = Federation::start(&[Cluster { accounts, ..Cluster::new("lyon", 2, 1.0) }]).await;
    let client = federation.client("alice");
    let (data, gate) = (federation.path().join("data"), federation.path().join("gate"));
    fs::write(&data, vec![7_u8; 1 << 20]).unwrap();
    let text = format!("cp data.bin copy.bin; {}; wc -c < copy.bin", waiting_for(&gate));
    let mut asked = order(rigid(&text, 1, 600));
    asked.inputs.push(input("data.bin", &data));
    let job = submit(&client, &asked).await;
    federation.reaches(&client, &job.handle, JobState::Active).await;
    let state = federation.folder("lyon").join("state");
    // The job is active before its program has read its input.
    let copy = folder.join("jobs/1/work/copy.bin");
    until("the copy of its input", async || copy.exists().then_some(())).await;
    assert!(folder.join("jobs/1/work/data.bin").exists());
    assert!(!state.join("jobs").exists() && !state.join("staging").exists());

    // Its file system is not mounted: the server must not take the job for one that was never started.
    federation.kill("lyon");
    let away = there.path().join("away");
    fs::rename(there.path().join("mounted"), &away).unwrap();
    federation.stand_by("lyon");
    federation.logged("lyon", &["expected the folders of jobs", "is its file system mounted?"]).await;
    federation.kill("lyon");
    federation.kill("lyon");
    fs::rename(&away, there.path().join("mounted")).unwrap();
    federation.revive("lyon");
    fs::write(&gate, "").unwrap();
    let ended = client.wait(&job.handle, |_| {}).await.unwrap();
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    let found = fetched(&client, &job.handle).await;
    assert_eq!(found["stdout"], b"1048576\n");
    assert_eq!(found["work/copy.bin"].len(), 1 << 20);

    // Explorations and the next jobs have their folders there, too.
    let ended = run(&client, &order(rigid("pwd", 1, 60))).await;
    let found = fetched(&client, &ended.handle).await;
    assert!(String::from_utf8_lossy(&found["stdout"]).starts_with(&*folder.to_string_lossy()), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_inherit_no_descriptor_and_the_state_folder_is_closed_to_others() {
    let mut federation = Federation::agent_only("");
    // The process that starts the server has left a descriptor open.
    let (left_open, wrapper) = (federation.path().join("left-open"), federation.path().join("start"));
    fs::write(&left_open, "").unwrap();
    let text =
        format!("#!/bin/sh\nexec 7<{}\nexec {} \"$@\"\n", left_open.display(), env!("CARGO_BIN_EXE_pliant"));
    fs::write(&wrapper, text).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    federation.build = Some(wrapper);
    federation.add_server(&Cluster::new("lyon", 1, 1.0));
    federation.sized(1).await;
    let client = federation.client("alice");
    // The supervisor of the job, and the daemon above it.
    let seen = "for process in $$ $PPID $(ps -o ppid= -p $PPID); do readlink /proc/$process/fd/* | grep -c left-open; done";
    let ended = run(&client, &order(rigid(&format!("{seen}; true"), 1, 60))).await;
    assert_eq!(ended.exit, Some(Exit::Code(0)), "{ended:?}");
    let found = fetched(&client, &ended.handle).await;
    assert_eq!(
        String::from_utf8_lossy(&found["stdout"]),
        "0\n0\n1\n",
        "the job, its supervisor and the server"
    );

    let state = federation.folder("lyon").join("state");
    let mode = || fs::metadata(&state).unwrap().mode() & 0o777;
    assert_eq!(mode(), 0o700);
    federation.stop("lyon");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o755)).unwrap();
    federation.revive("lyon");
    assert_eq!(mode(), 0o700);
    federation.logged("lyon", &["other users could enter the state folder (mode 755)"]).await;
}
