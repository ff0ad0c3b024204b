//! A server whose journal was made anew, and one whose clock is wrong.

use std::fs;

use pliant_client::Client;
use pliant_control::job::JobState;
use pliant_control::names::Handle;
use pliant_journal::{Batch, Entry, open_sqlite};
use pliant_model::Span;
use pliant_transport::Role;

use crate::harness::*;

/// Runs a script with that exit code at a server, and returns its handle.
async fn exits(client: &Client, server: &str, code: i32) -> Handle {
    let ended = run(client, &order_to(server, rigid(&format!("exit {code}"), 1, 60))).await;
    ended.handle
}

/// The exit code of a job in the agent's record.
async fn code_at_agent(client: &Client, handle: &Handle) -> String {
    let located = client.find(handle).await.unwrap();
    assert_eq!(client.job(handle).await.unwrap().exit, located.record.exit);
    assert_eq!(client.wait(handle, |_| {}).await.unwrap().exit, located.record.exit);
    located.record.exit.unwrap().to_string()
}

/// Waits until the agent has the end of a job.
async fn has_ended_at_agent(client: &Client, handle: &Handle) {
    until(&format!("the agent to know the end of {handle}"), async || {
        client.find(handle).await.ok().filter(|located| located.record.state.is_final())
    })
    .await;
}

/// Takes everything that a daemon keeps from it.
fn forget(federation: &mut Federation, name: &str) {
    federation.kill(name);
    fs::remove_dir_all(federation.folder(name).join("state")).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_new_journal_gives_no_number_again() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = federation.client("alice");
    let (first, second) = (exits(&alice, "lyon", 3).await, exits(&alice, "lyon", 4).await);
    assert_eq!((first.to_string(), second.to_string()), ("lyon.1".to_owned(), "lyon.2".to_owned()));
    // One that has not ended is known to the agent's memory alone.
    let lost = submit(&alice, &order(rigid("sleep 1000", 1, 1000))).await.handle;
    for handle in [&first, &second] {
        has_ended_at_agent(&alice, handle).await;
    }
    until("the agent to know of the last job", async || alice.find(&lost).await.ok()).await;
    alice.cancel(&lost).await.unwrap();
    alice.wait(&lost, |_| {}).await.unwrap();
    // Perhaps before the agent is notified.
    forget(&mut federation, "lyon");
    federation.revive("lyon");
    federation.attached(1).await;
    let third = exits(&alice, "lyon", 5).await;
    assert_eq!(third.to_string(), "lyon.200001");
    has_ended_at_agent(&alice, &third).await;
    for (handle, code) in [(&first, 3), (&second, 4), (&third, 5)] {
        assert_eq!(code_at_agent(&alice, handle).await, format!("exit code {code}"), "{handle}");
    }
    federation.logged(MASTER, &["a child has another journal than before", "lyon"]).await;
    federation.logged("lyon", &["the journal is new", "highest=3"]).await;
    // An outcome that was never reported is cancelled or unknown.
    let known = alice.job(&lost).await.unwrap();
    assert_eq!((&known.handle, known.name.as_str()), (&lost, "job.sh"));
    // Those of the new journal go on as any others, over a restart and without the agent too.
    federation.kill(MASTER);
    federation.kill("lyon");
    federation.revive("lyon");
    federation.revive(MASTER);
    federation.attached(1).await;
    assert_eq!(exits(&alice, "lyon", 6).await.to_string(), "lyon.200002");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_known_wherever_in_the_tree_a_server_comes_back() {
    let mut federation = Federation::without_daemons();
    federation.add_agent(MASTER, None, "");
    for local in ["north", "south"] {
        federation.add_agent(local, Some(MASTER), "");
    }
    federation.add_server(&Cluster { parent: "north", ..Cluster::new("lyon", 2, 1.0) });
    federation.attached(1).await;
    let alice = federation.client("alice");
    let first = exits(&alice, "lyon", 3).await;
    has_ended_at_agent(&alice, &first).await;
    // It is attached to an agent that does not know it, while the other agent is down.
    forget(&mut federation, "lyon");
    federation.kill(MASTER);
    federation.add_server(&Cluster { parent: "south", ..Cluster::new("lyon", 2, 1.0) });
    federation.logged("south", &["attached", "lyon"]).await;
    let mut impatient = order(rigid("exit 4", 1, 60));
    impatient.timeout = std::time::Duration::ZERO;
    let below = client_of(&federation, "south");
    refused(below.submit(&impatient, |_| Ok(())).await, &["journal is new"]);
    federation.revive(MASTER);
    let second = exits(&alice, "lyon", 5).await;
    assert_eq!(second.to_string(), "lyon.200001");
    has_ended_at_agent(&alice, &second).await;
    assert_eq!(code_at_agent(&alice, &first).await, "exit code 3");
    assert_eq!(code_at_agent(&alice, &second).await, "exit code 5");
}

/// A client of a local agent.
pub(crate) fn client_of(federation: &Federation, agent: &str) -> Client {
    let folder = federation.path().join("users").join(format!("alice-of-{agent}"));
    federation.certify(&folder, Role::User, "alice");
    let file = folder.join("client.toml");
    fs::write(&file, federation.address_table("agent", agent) + TLS).unwrap();
    Client::new(&pliant_client::ClientFile::read(&file).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_wrong_clock_is_shown_and_logged_once() {
    const AHEAD_S: i64 = 3600;
    let mut federation =
        Federation::start(&[Cluster::new("lyon", 1, 1.0), Cluster::new("paris", 1, 1.0)]).await;
    federation.stop("lyon");
    // A clock that never goes back: with an entry from an hour ahead in its journal, the server begins there.
    {
        let mut journal = open_sqlite(&federation.folder("lyon").join("state")).unwrap();
        let last = journal.archive().unwrap().entries(1, 1000).unwrap().last().map_or(0, |entry| entry.seq);
        journal.load().unwrap();
        let late = Entry { seq: last + 1, at: now().0 + AHEAD_S, event: "\"due\"".to_owned(), commands: 0 };
        journal.commit(&Batch { entries: vec![late], ..Batch::default() }).unwrap();
    }
    federation.revive("lyon");
    let operator = federation.operator();
    let apart = async || {
        let servers = operator.servers().await.ok()?.servers;
        let lyon = servers.iter().find(|server| server.info.name.as_str() == "lyon")?.clone();
        assert!(
            servers.iter().all(|server| server.info.name == lyon.info.name || server.clock_ahead.is_none())
        );
        lyon.clock_ahead
    };
    let ahead = until("the clock of lyon to differ", apart).await;
    assert!((ahead - Span(AHEAD_S)).0.abs() < 60, "{ahead:?}");
    // Over a new connection it is no new update.
    federation.kill("lyon");
    federation.revive("lyon");
    federation.attached(2).await;
    until("the clock of lyon to differ", apart).await;
    let lines = federation.log(MASTER);
    let reported: Vec<&str> =
        lines.lines().filter(|line| line.contains("the clock of a child differs")).collect();
    assert!(reported.len() == 1 && reported[0].contains("lyon"), "{reported:?}");
    let alice = federation.client("alice");
    let ended = run(&alice, &order_to("lyon", rigid("true", 1, 60))).await;
    assert_eq!(ended.state, JobState::Completed);
}
