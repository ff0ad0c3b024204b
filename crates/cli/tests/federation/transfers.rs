//! Files of jobs when something is in the way: a full disk, the same submission again, readers who go, results that
//! are many or that cannot be fetched.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use pliant_client::Client;
use pliant_control::job::{Exit, JobState};
use pliant_control::names::Handle;
use pliant_staging::{Checksum, ResultName};
use pliant_transport::Role;
use pliant_wire::proto::DownloadRequest;
use pliant_wire::{Download, Fetchable};
use serde_json::{Value, json};

use crate::harness::*;

/// Puts something in the way of the job with that number, before it is submitted: nothing can be written there.
fn fill_disk_of(federation: &Federation, handle: &Handle) -> PathBuf {
    let folder = federation.job_folder(handle);
    fs::create_dir_all(&folder).unwrap();
    // The specification of a job is written there first, and every write to this device fails as on a full disk.
    let full = folder.join("spec.tmp");
    symlink("/dev/full", &full).unwrap();
    full
}

/// The handle of the job after that one.
fn next(handle: &Handle) -> Handle {
    Handle { number: handle.number + 1, ..handle.clone() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_waits_for_disk_space_and_does_not_fail_without_it() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let before = run(&alice, &order(rigid("true", 1, 60))).await.handle;

    let full = fill_disk_of(&federation, &next(&before));
    let waiting = submit(&alice, &order(rigid("echo ran", 1, 60))).await.handle;
    assert_eq!(waiting, next(&before));
    federation.logged("lyon", &["WARN", &waiting.to_string(), "cannot be started at the moment"]).await;
    assert!(!alice.job(&waiting).await.unwrap().state.is_final());
    fs::remove_file(&full).unwrap();
    let ended = alice.wait(&waiting, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.exit), (JobState::Completed, Some(Exit::Code(0))));
    assert_eq!(fetched(&alice, &waiting).await["stdout"], b"ran\n");
    let log = federation.log("lyon");
    assert_eq!(log.lines().filter(|line| line.contains("cannot be started at the moment")).count(), 1);

    // While it is tried again it can be cancelled.
    fill_disk_of(&federation, &next(&waiting));
    let cancelled = submit(&alice, &order(rigid("echo ran", 1, 60))).await.handle;
    federation.logged("lyon", &["WARN", &cancelled.to_string(), "cannot be started at the moment"]).await;
    alice.cancel(&cancelled).await.unwrap();
    let ended = alice.wait(&cancelled, |_| {}).await.unwrap();
    assert_eq!((ended.state, ended.exit), (JobState::Canceled, Some(Exit::Cancelled)));

    // A file that does not pass fails the job, without a word about the files of this host.
    fs::write(federation.job_folder(&next(&cancelled)), "").unwrap();
    let ended = run(&alice, &order(rigid("echo ran", 1, 60))).await;
    let Some(Exit::NotStarted(why)) = &ended.exit else { panic!("{ended:?}") };
    assert!(!why.is_empty() && !why.contains("state") && !why.contains('/'), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_command_again_does_not_touch_the_inputs_of_the_job_that_waits() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let (gate, path) = (federation.path().join("gate"), federation.path().join("data"));
    submit(&alice, &order(rigid(&waiting_for(&gate), 1, 60))).await;
    fs::write(&path, "first").unwrap();
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &path));
    let first = submit(&alice, &asked).await;
    assert_eq!(first.state, JobState::Queued);
    // The file has changed since, and is announced as it is now.
    fs::write(&path, "second, and longer").unwrap();
    asked.inputs = vec![input("data", &path)];
    assert_eq!(submit(&alice, &asked).await.handle, first.handle);
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    let alice = federation.client("alice");
    assert_eq!(submit(&alice, &asked).await.handle, first.handle, "after a crash");
    fs::write(&gate, "").unwrap();
    let ended = alice.wait(&first.handle, |_| {}).await.unwrap();
    assert_eq!(ended.state, JobState::Completed, "{ended:?}");
    assert_eq!(fetched(&alice, &first.handle).await["work/copy.bin"], b"first");
    assert_eq!(submit(&alice, &asked).await.handle, first.handle, "after its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_silent_job_that_disconnects_leaves_nothing_open() {
    let limits = format!("[limits]\nopen_requests = 4\n{SERVICES}");
    let federation = Federation::start(&[Cluster { tables: limits, ..Cluster::new("lyon", 1, 1.0) }]).await;
    let alice = federation.client("alice");
    let silent = submit(&alice, &order(rigid("sleep 1000", 1, 1000))).await.handle;
    federation.reaches(&alice, &silent, JobState::Active).await;
    let mut server = federation.server_client(Role::User, "alice", "lyon");
    let wanted = DownloadRequest::from(&Download { follow: true, ..stdout_of(&silent) });
    for _ in 0..12 {
        // Refused while as many are open as may be; each that was let in is given up at once.
        let open = async || server.download(wanted.clone()).await.ok();
        drop(until("a reader to be let in", open).await);
    }
    assert_eq!(alice.job(&silent).await.unwrap().state, JobState::Active);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_job_are_given_once_it_has_ended() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let gate = federation.path().join("gate");
    let text = format!("echo half > out; echo on; {}", waiting_for(&gate));
    let running = submit(&alice, &order(rigid(&text, 1, 60))).await.handle;
    let written = federation.job_folder(&running).join("work/out");
    until("a file", async || fs::read(&written).is_ok_and(|text| text == b"half\n").then_some(())).await;
    let name = ResultName::File("out".parse().unwrap());
    let half = Fetchable { name, size: 5, sha256: Checksum::of(b"half\n") };
    let folder = federation.path().join("fetched");
    refused(alice.fetch(&running, &half, &folder).await, &["once it has ended"]);
    refused(alice.results(&running).await, &["once it has ended"]);
    fs::write(&gate, "").unwrap();
    alice.wait(&running, |_| {}).await.unwrap();
    alice.fetch(&running, &half, &folder).await.unwrap();
}

/// What a verb prints, on standard output as a document and on standard error.
fn verb(federation: &Federation, arguments: &[&str]) -> (Value, String) {
    let config = federation.client_file(Role::User, "alice");
    let words = [arguments, &["--format", "json"]].concat();
    let output = pliant(&config, &words).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {said}");
    (document(&output.stdout), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_output_that_cannot_be_fetched_are_reported() {
    let loud = r#"
[[service]]
name = "loud"
summary = "writes more than is kept, and leaves what is not given back"
command = ["/bin/sh", "-c", "head -c 5000 /dev/zero; echo few >&2; ln -s /etc/passwd link; mkfifo pipe; echo good > good"]
speedup = "rigid:1"
runtime = "10s"
max_output_bytes = 1000
"#;
    let tables = format!("{SERVICES}{loud}");
    let federation = Federation::start(&[Cluster { tables, ..Cluster::new("lyon", 1, 1.0) }]).await;
    let alice = federation.client("alice");
    let ended = run(&alice, &order(service("loud", &[]))).await;
    let results = alice.results(&ended.handle).await.unwrap();
    assert_eq!((results.stdout_cut, results.stderr_cut, results.left_out_count), (true, false, 2));

    let (handle, out) = (ended.handle.to_string(), federation.path().join("out"));
    let out = out.to_str().unwrap();
    let (mut fetched, fetch_said) = verb(&federation, &["fetch", &handle, "--out", out]);
    let fetched = fetched["jobs"][0].take();
    let (submitted, submit_said) = verb(&federation, &["submit", "loud", "--out", out]);
    for (document, said) in [(fetched, fetch_said), (submitted, submit_said)] {
        let names: Vec<_> = document["files"].as_array().unwrap().iter().map(|file| &file["name"]).collect();
        assert_eq!(names, ["stdout", "stderr", "work/good"]);
        let left = |name| json!({ "name": name, "reason": "not-a-file" });
        assert_eq!(document["left_out"], json!([left("link"), left("pipe")]));
        assert_eq!(document["left_out_count"], 2);
        assert_eq!((&document["stdout_cut"], &document["stderr_cut"]), (&json!(true), &json!(false)));
        for words in ["warning: some of what", "standard output was dropped", "link: not a regular file"] {
            assert!(said.contains(words), "expected `{words}` in: {said}");
        }
        assert!(!said.contains("standard error was dropped"), "{said}");
    }
}

/// What a job left, as its server keeps it.
async fn listed(client: &Client, text: &str) -> (Handle, usize) {
    let ended = run(client, &order(rigid(text, 1, 600))).await;
    assert_eq!(ended.state, JobState::Completed, "{ended:?}");
    let count = client.results(&ended.handle).await.unwrap().files.len();
    (ended.handle, count)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_names_of_results_are_bounded_together() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    // Some 760 bytes a name, 7 MB together.
    let text = "part=$(printf '%0250d' 0); mkdir -p $part/$part/$part; cd $part/$part/$part\n\
                i=0; while [ $i -lt 9000 ]; do : > $i; i=$((i + 1)); done";
    let (handle, count) = listed(&alice, text).await;
    assert!((1_300..1_500).contains(&count), "{count} results have the names of 1 MiB");
    let kept = fs::metadata(federation.job_folder(&handle).join("results.json")).unwrap().len();
    assert!((1 << 20..2 << 20).contains(&kept), "{kept}");
}
