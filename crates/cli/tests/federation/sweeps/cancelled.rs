//! A sweep that is cancelled: what runs and waits is ended, and what is done stays done.

use std::collections::BTreeMap;

use pliant_wire::JobsQuery;
use rustix::process::{Pid, Signal, kill_process};

use super::{CommandUser, runs, with_shell};
use crate::harness::{Federation, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_is_cancelled_after_its_client_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let lines = dir.path().join("lines");
    // Those above 6 go on until they are ended. Each server gets three batches of one instance before a longer one.
    let line = format!("[ $1 -le 6 ] || exec sleep 1000; echo $PLIANT_INSTANCE >> {}", lines.display());
    let clusters = ["lyon", "nancy"].map(|name| {
        let cluster = with_shell(name, 1, "some", &line);
        crate::harness::Cluster { tables: cluster.tables.replace("\"2s\"", "\"600s\""), ..cluster }
    });
    let federation = Federation::start(&clusters).await;
    let alice = CommandUser::new(&federation, "alice");
    let begun = "sweep some --vary x=1..40 --out kept";
    let client = alice.begin(begun);
    until("the short ones to end", async || (runs(&lines).len() == 6).then_some(())).await;
    let (code, _, stderr) = alice.run("cancel kept");
    assert!(code == 2 && stderr.contains("another client works on it"), "{code}: {stderr}");
    kill_process(Pid::from_child(&client), Signal::KILL).unwrap();
    client.wait_with_output().unwrap();

    let (code, said, stderr) = alice.run("cancel kept");
    assert_eq!(code, 0, "{stderr}");
    let counts =
        ["completed", "failed", "cancelled", "retried"].map(|key| said["folders"][0][key].as_u64().unwrap());
    assert_eq!(counts, [6, 0, 34, 0], "{said}");
    let query = JobsQuery::of_caller(Vec::new(), 1_000);
    let client = federation.client("alice");
    let jobs = until("the agent to know of all ends", async || {
        let jobs = client.jobs(&query).await.ok()?.jobs;
        jobs.iter().all(|job| job.state.is_final()).then_some(jobs)
    })
    .await;
    assert_eq!(said["folders"][0]["batches"], jobs.len());
    let mut states: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for row in alice.rows("kept") {
        states.entry(row["state"].clone()).or_default().push(row["x"].parse().unwrap());
    }
    let expected = [("cancelled", (7..=40).collect()), ("completed", (1..=6).collect::<Vec<u32>>())];
    assert_eq!(states, expected.map(|(state, rows)| (state.to_owned(), rows)).into());

    // That was for good.
    for again in [begun, "sweep --resume kept"] {
        let (code, said, stderr) = alice.run(again);
        assert!(code == 3 && stderr.contains("34 of 40 instances were cancelled"), "{code}: {stderr}");
        assert_eq!((&said["completed"], &said["batches"]), (&6.into(), &jobs.len().into()));
    }
    assert_eq!(alice.run("cancel kept").0, 0);
    assert_eq!(runs(&lines).len(), 6);
    let (code, _, stderr) = alice.run("cancel nowhere");
    assert!(code == 2 && stderr.contains("no folder of that name"), "{code}: {stderr}");
}
