//! Two servers in front of one Slurm cluster, with their journal in one PostgreSQL database: when the one that leads is gone or hangs, the
//! other one goes on with its jobs.

use std::fs;
use std::path::Path;

use pliant_client::Client;
use pliant_control::job::JobState;
use pliant_control::names::Handle;
use pliant_testing::postgres::Server;

use crate::harness::*;
use crate::slurm::Behind;

const PERIOD: &str = "period_s = 1\nnodes_every_s = 0\n";

/// A job that notes in a file that it began, and ends when there is a gate.
fn noted(folder: &Path, gate: &str) -> String {
    let (ran, gate) = (folder.join("ran"), folder.join(gate));
    format!(
        "echo $PLIANT_JOB >> {}; while [ ! -e {} ]; do sleep 0.1; done; cat in",
        ran.display(),
        gate.display()
    )
}

/// Submits such a job, with an input file.
async fn submitted(client: &Client, folder: &Path, gate: &str, procs: u32) -> Handle {
    let data = folder.join("data");
    fs::write(&data, "given\n").unwrap();
    let mut asked = order_to("lyon", rigid(&noted(folder, gate), procs, 600));
    asked.inputs.push(input("in", &data));
    submit(client, &asked).await.handle
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_goes_on_with_the_jobs_of_one_that_is_gone_or_hangs() {
    let Some(database) = tokio::task::block_in_place(|| Some(Server::start()?.database())) else { return };
    let Some(mut behind) = Behind::without_servers(1, 2) else { return };
    let keys: &'static str = format!("postgres = \"{}\"", database.connection()).leak();
    let slurm = Some(behind.slurm("lyon").conf.clone());
    behind.federation.add_server(&Cluster {
        slurm,
        batch_keys: PERIOD,
        keys,
        ..Cluster::new("lyon", 0, 1.0)
    });
    behind.federation.attached(1).await;
    let alice = behind.federation.client("alice");
    let folder = behind.federation.path().join("noted");
    fs::create_dir(&folder).unwrap();
    let listed = async || {
        let servers = alice.servers().await.ok()?.servers;
        servers.iter().any(|one| one.info.procs.0 == 2).then_some(())
    };
    until("the cluster to be listed", listed).await;
    behind.federation.add_standby("lyon-b", "lyon");

    // One has ended, one runs, and one waits with its input at the server.
    fs::write(folder.join("open"), "").unwrap();
    let ended = submitted(&alice, &folder, "open", 1).await;
    alice.wait(&ended, |_| {}).await.unwrap();
    let runs = submitted(&alice, &folder, "first", 2).await;
    behind.federation.reaches(&alice, &runs, JobState::Active).await;
    let waits = submitted(&alice, &folder, "second", 2).await;
    behind.federation.kill("lyon");
    behind.federation.ready("lyon-b").await;
    behind.federation.attached(1).await;
    fs::write(folder.join("first"), "").unwrap();
    assert_eq!(alice.wait(&runs, |_| {}).await.unwrap().state, JobState::Completed);
    behind.federation.reaches(&alice, &waits, JobState::Active).await;
    for handle in [&ended, &runs] {
        assert_eq!(fetched(&alice, handle).await["stdout"], b"given\n");
    }

    // The database has ended the connection of the one that hangs.
    behind.federation.stand_by("lyon");
    let last = submitted(&alice, &folder, "open", 2).await;
    behind.federation.suspend("lyon-b");
    tokio::task::block_in_place(|| database.end_leader());
    behind.federation.ready("lyon").await;
    behind.federation.attached(1).await;
    fs::write(folder.join("second"), "").unwrap();
    assert_eq!(alice.wait(&waits, |_| {}).await.unwrap().state, JobState::Completed);
    behind.federation.go_on("lyon-b");
    assert_eq!(behind.federation.ended("lyon-b").await, Some(1));
    behind.federation.logged("lyon-b", &["another daemon has taken over"]).await;
    assert_eq!(alice.wait(&last, |_| {}).await.unwrap().state, JobState::Completed);

    let ran = fs::read_to_string(folder.join("ran")).unwrap();
    let ran: Vec<&str> = ran.lines().collect();
    assert_eq!(ran, [&ended, &runs, &waits, &last].map(|handle| handle.to_string()), "each ran once");
}
