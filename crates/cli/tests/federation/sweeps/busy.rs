//! A server full of jobs that outlive all that it has seen: what a sweep has put behind them comes back.

use std::fs;

use pliant_client::Client;
use pliant_wire::ProspectsQuery;

use super::{CommandUser, runs, with_shell};
use crate::harness::{Federation, order_to, rigid, run, service, submit, until, waiting_for};

const INSTANCES: u32 = 160;
/// Of the server that will be busy.
const PROCS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_ends_while_a_server_is_full_of_jobs_that_outlive_what_it_has_seen() {
    let lines = tempfile::NamedTempFile::new().unwrap();
    let line = format!("sleep 0.2; echo $PLIANT_INSTANCE >> {}", lines.path().display());
    let clusters = [with_shell("lyon", 2, "nap", &line), with_shell("nancy", PROCS, "nap", &line)];
    let federation = Federation::start(&clusters).await;
    let client = federation.client("alice");
    // One server knows short jobs only, of another user.
    for _ in 0..3 {
        run(&client, &order_to("nancy", service("nap", &[("x", "1")]))).await;
    }
    fs::write(lines.path(), "").unwrap();
    let (bob, gate) = (federation.client("bob"), federation.path().join("gate"));
    for _ in 0..PROCS {
        submit(&bob, &order_to("nancy", rigid(&waiting_for(&gate), 1, 600))).await;
    }

    let alice = CommandUser::new(&federation, "alice");
    let mut sweep = alice.begin(&format!("sweep nap --vary x=1..{INSTANCES} --out behind"));
    until("batches to wait behind them", async || (jobs_at_nancy(&client).await? > PROCS).then_some(()))
        .await;
    let status = until("the sweep to end", async || sweep.try_wait().unwrap()).await;
    assert!(status.success(), "{status}");
    assert_eq!(jobs_at_nancy(&client).await, Some(PROCS), "these are still there");
    let rows = alice.rows("behind");
    assert_eq!(rows.len(), INSTANCES as usize);
    for row in &rows {
        let found = ["state", "tries", "server"].map(|column| row[column].as_str());
        assert_eq!(found, ["completed", "1", "lyon"], "{row:?}");
    }
    assert!(runs(lines.path()).values().all(|times| *times == 1));
    fs::write(&gate, "").unwrap();
}

/// How many jobs run or wait there.
async fn jobs_at_nancy(client: &Client) -> Option<u32> {
    let query = ProspectsQuery {
        varied: Vec::new(),
        others: Vec::new(),
        executable: "nap".into(),
        arguments: [("x".to_owned(), "1".to_owned())].into(),
        without: Vec::new(),
        elsewhere: None,
    };
    let servers = client.servers().await.ok()?.servers;
    let nancy = servers.into_iter().find(|server| server.info.name.as_str() == "nancy")?.info;
    Some(client.prospects(&nancy.name, &nancy.address, &query).await.ok()?.ok()?.jobs)
}
