//! A local agent between the master and the servers dies and comes back.

use std::time::Duration;

use pliant_client::SubmitOrder;
use pliant_control::job::{Exit, JobState};
use pliant_model::Procs;

use crate::harness::*;

/// Rounds of submissions, each with a death of the agent in between.
const ROUNDS: usize = 3;
/// Submissions that go on at a time.
const AT_A_TIME: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_in_between_that_is_killed_is_missed_and_then_knows_everything_again() {
    let mut federation = Federation::agent_only("");
    federation.add_agent("local", Some(MASTER), "");
    for cluster in [Cluster::new("lyon", 2, 1.0), Cluster::new("paris", 1, 1.2)] {
        federation.add_server(&Cluster { parent: "local", ..cluster });
    }
    federation.attached(2).await;
    let alice = federation.client("alice");
    let (lines, gate) = (federation.path().join("lines"), federation.path().join("gate"));
    // Three run, one waits.
    let text = noting(&lines, &waiting_for(&gate));
    let mut accepted = Vec::new();
    for _ in 0..3 {
        accepted.push(submit(&alice, &order(rigid(&text, 1, 600))).await.handle);
        federation.reaches(&alice, accepted.last().unwrap(), JobState::Active).await;
    }
    let waits = submit(&alice, &order(rigid(&noting(&lines, "true"), 1, 600))).await;
    assert_eq!(waits.state, JobState::Queued);

    until("the master to hear of it", async || alice.find(&waits.handle).await.ok()).await;
    until("the master to know that no processor is free", async || {
        let servers = alice.servers().await.ok()?.servers;
        servers.iter().all(|server| server.free == Some(Procs(0))).then_some(())
    })
    .await;

    // While it is down no server can be discovered, and known jobs stay known.
    federation.kill("local");
    federation.attached(0).await;
    let servers = alice.servers().await.unwrap().servers;
    assert!(servers.iter().all(|server| server.free.is_none()), "what was reported is not true any more");
    let brief = SubmitOrder { timeout: Duration::from_secs(1), ..order(rigid("true", 1, 60)) };
    refused(alice.submit(&brief, |_| Ok(())).await, &["no server", "is up"]);
    for handle in accepted.iter().chain([&waits.handle]) {
        let located = alice.find(handle).await.unwrap();
        assert!(!located.attached && !located.record.state.is_final(), "{located:?}");
    }
    std::fs::write(&gate, "").unwrap();
    for handle in accepted.iter().chain([&waits.handle]) {
        assert_eq!(alice.wait(handle, |_| {}).await.unwrap().exit, Some(Exit::Code(0)), "{handle}");
    }
    accepted.push(waits.handle);
    federation.revive("local");
    federation.attached(2).await;

    // Submissions all the while, some of them on their way when it dies.
    let short = noting(&lines, "sleep 0.05");
    for _ in 0..ROUNDS {
        let mut submissions = tokio::task::JoinSet::new();
        for _ in 0..AT_A_TIME {
            let (client, order) = (alice.clone(), order(rigid(&short, 1, 60)));
            submissions.spawn(async move { submit(&client, &order).await.handle });
        }
        accepted.push(submissions.join_next().await.unwrap().unwrap());
        federation.kill("local");
        federation.revive("local");
        while let Some(handle) = submissions.join_next().await {
            accepted.push(handle.unwrap());
        }
    }
    for handle in &accepted {
        let ended = alice.wait(handle, |_| {}).await.unwrap();
        assert_eq!((ended.state, ended.exit), (JobState::Completed, Some(Exit::Code(0))), "{handle}");
    }
    // Every end was reported to the master.
    agree(&federation.operator(), &lines).await;
    let runs = runs(&lines);
    assert_eq!(runs.len(), accepted.len());
    assert!(accepted.iter().all(|handle| runs[&handle.to_string()] == 1), "{runs:?}");
}
