//! Agents whose journal is lost, or an older copy: servers report all their jobs again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use pliant_control::job::JobState;
use pliant_control::names::Handle;
use pliant_testing::postgres::Server;
use pliant_wire::JobsQuery;

use crate::harness::*;

/// The jobs that the master agent lists for all users, and their states, once there are as many as expected.
async fn listed(federation: &Federation, expected: &BTreeMap<Handle, JobState>) {
    let operator = federation.operator();
    let query =
        JobsQuery { owner: None, all: true, server: None, states: Vec::new(), limit: 1000, before: None };
    until(&format!("a list of {expected:?}"), async || {
        let jobs = operator.jobs(&query).await.ok()?.jobs;
        let listed: BTreeMap<Handle, JobState> =
            jobs.into_iter().map(|job| (job.handle, job.state)).collect();
        (listed == *expected).then_some(())
    })
    .await;
}

/// A server below the local agent `north`.
async fn below_a_local_agent() -> Federation {
    let mut federation = Federation::without_daemons();
    federation.add_agent(MASTER, None, "");
    federation.add_agent("north", Some(MASTER), "");
    federation.add_server(&Cluster { parent: "north", ..Cluster::new("lyon", 1, 1.0) });
    federation.attached(1).await;
    federation
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_journal_is_lost_or_older_gets_all_jobs_again() {
    let clusters = [Cluster::new("lyon", 1, 1.0), Cluster::new("paris", 1, 1.0)];
    let mut federation = Federation::start(&clusters).await;
    let alice = federation.client("alice");
    let mut expected = BTreeMap::new();
    for server in ["lyon", "paris"] {
        for (script, state) in [("true", JobState::Completed), ("exit 3", JobState::Failed)] {
            let ended = run(&alice, &order_to(server, rigid(script, 1, 60))).await;
            expected.insert(ended.handle, state);
        }
    }
    listed(&federation, &expected).await;
    federation.stop(MASTER);
    let state = federation.folder(MASTER).join("state");
    let older = federation.path().join("older");
    copy(&state, &older);
    federation.revive(MASTER);
    federation.attached(2).await;
    for (script, state) in [("sleep 1000", JobState::Active), ("true", JobState::Queued)] {
        expected.insert(submit(&alice, &order_to("lyon", rigid(script, 1, 2000))).await.handle, state);
    }
    let ended = run(&alice, &order_to("paris", rigid("true", 1, 60))).await;
    expected.insert(ended.handle, JobState::Completed);
    let cancelled = submit(&alice, &order_to("lyon", rigid("true", 1, 2000))).await.handle;
    alice.cancel(&cancelled).await.unwrap();
    expected.insert(cancelled, JobState::Canceled);
    listed(&federation, &expected).await;

    for restored in [None, Some(&older)] {
        federation.kill(MASTER);
        fs::remove_dir_all(&state).unwrap();
        if let Some(older) = restored {
            copy(older, &state);
        }
        federation.revive(MASTER);
        federation.attached(2).await;
        listed(&federation, &expected).await;
        federation.logged("lyon", &["all jobs are reported again", "master"]).await;
        federation.logged(MASTER, &["all jobs were reported again", "lyon"]).await;
    }

    // Once only, and what changes from then on is known as well.
    federation.kill(MASTER);
    federation.revive(MASTER);
    federation.attached(2).await;
    let running = expected.iter().find(|(_, state)| **state == JobState::Active).unwrap().0.clone();
    alice.cancel(&running).await.unwrap();
    expected.insert(running, JobState::Canceled);
    let waiting = expected.iter().find(|(_, state)| **state == JobState::Queued).unwrap().0.clone();
    expected.insert(waiting, JobState::Completed);
    listed(&federation, &expected).await;
    let log = federation.log("lyon");
    assert_eq!(log.matches("all jobs are reported again").count(), 2, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_changes_to_a_journal_in_postgresql_gets_all_jobs_again() {
    let Some(database) = tokio::task::block_in_place(|| Some(Server::start()?.database())) else { return };
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let mut expected = BTreeMap::new();
    for (script, state) in [("true", JobState::Completed), ("exit 3", JobState::Failed)] {
        expected.insert(run(&alice, &order(rigid(script, 1, 60))).await.handle, state);
    }
    for (script, state) in [("sleep 1000", JobState::Active), ("true", JobState::Queued)] {
        expected.insert(submit(&alice, &order(rigid(script, 1, 2000))).await.handle, state);
    }
    listed(&federation, &expected).await;
    federation.stop(MASTER);
    let file = federation.folder(MASTER).join("agent.toml");
    let text = fs::read_to_string(&file).unwrap();
    let journal = format!("postgres = \"{}\"", database.connection());
    assert!(text.contains("state = \"state\""), "{text}");
    fs::write(&file, text.replace("state = \"state\"", &journal)).unwrap();
    federation.revive(MASTER);
    federation.attached(1).await;
    listed(&federation, &expected).await;
    let cancelled = submit(&alice, &order(rigid("true", 1, 2000))).await.handle;
    alice.cancel(&cancelled).await.unwrap();
    expected.insert(cancelled, JobState::Canceled);
    listed(&federation, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_learns_what_its_local_agent_has_lost() {
    let mut federation = below_a_local_agent().await;
    let alice = federation.client("alice");
    let mut expected = BTreeMap::new();
    // The local agent has acknowledged it, and loses it before the master is back.
    federation.kill(MASTER);
    let north = crate::new_journals::client_of(&federation, "north");
    let ended = run(&north, &order(rigid("exit 4", 1, 60))).await;
    expected.insert(ended.handle.clone(), JobState::Failed);
    until("the local agent to know the end", async || {
        north.find(&ended.handle).await.ok().filter(|found| found.record.state.is_final())
    })
    .await;
    federation.kill("north");
    fs::remove_dir_all(federation.folder("north").join("state")).unwrap();
    federation.revive(MASTER);
    federation.revive("north");
    federation.attached(1).await;
    listed(&federation, &expected).await;
    let again = run(&alice, &order(rigid("true", 1, 60))).await;
    expected.insert(again.handle, JobState::Completed);
    listed(&federation, &expected).await;
    // Both have lost everything.
    for agent in [MASTER, "north"] {
        federation.kill(agent);
        fs::remove_dir_all(federation.folder(agent).join("state")).unwrap();
    }
    federation.revive(MASTER);
    federation.revive("north");
    federation.attached(1).await;
    listed(&federation, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_agent_with_an_older_journal_is_attached_again_and_misses_nothing() {
    let mut federation = below_a_local_agent().await;
    let alice = federation.client("alice");
    let mut expected = BTreeMap::new();
    expected.insert(run(&alice, &order(rigid("true", 1, 60))).await.handle, JobState::Completed);
    listed(&federation, &expected).await;
    federation.stop("north");
    let state = federation.folder("north").join("state");
    let older = federation.path().join("older");
    copy(&state, &older);
    federation.revive("north");
    federation.attached(1).await;
    for (script, state) in [("exit 3", JobState::Failed), ("true", JobState::Completed)] {
        expected.insert(run(&alice, &order(rigid(script, 1, 60))).await.handle, state);
    }
    let running = submit(&alice, &order(rigid("sleep 1000", 1, 2000))).await.handle;
    expected.insert(running.clone(), JobState::Active);
    listed(&federation, &expected).await;

    federation.kill("north");
    fs::remove_dir_all(&state).unwrap();
    copy(&older, &state);
    federation.revive("north");
    federation.logged("north", &["an older copy of itself"]).await;
    federation.logged("north", &["all jobs are reported again"]).await;
    federation.attached(1).await;
    // The numbers of these updates are those of others that the master had.
    alice.cancel(&running).await.unwrap();
    expected.insert(running, JobState::Canceled);
    listed(&federation, &expected).await;
    // Neither after a restart.
    federation.kill("north");
    federation.revive("north");
    federation.attached(1).await;
    expected.insert(run(&alice, &order(rigid("exit 5", 1, 60))).await.handle, JobState::Failed);
    listed(&federation, &expected).await;
}
