//! Two agents on one PostgreSQL database: when the one that leads is gone, the other one goes on where it was.

use std::fs;

use pliant_client::Client;
use pliant_client::ClientFile;
use pliant_control::job::JobState;
use pliant_testing::postgres::Server;
use pliant_transport::Role;

use crate::harness::*;
use crate::monitoring::{page, pages};

const AGENTS: [&str; 2] = ["first", "second"];

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_agent_goes_on_where_the_first_one_was() {
    let Some(database) = tokio::task::block_in_place(|| Some(Server::start()?.database())) else { return };
    let journal = format!("postgres = \"{}\"", database.connection());
    let mut federation = Federation::without_daemons();
    // Each leads for a moment, so that it is known where it listens.
    let (at_first, http) = pages();
    for (agent, keys) in AGENTS.into_iter().zip([format!("{journal}\n{http}"), journal]) {
        federation.add_agent_on(agent, &keys);
        federation.stop(agent);
    }
    federation.revive("first");
    federation.stand_by("second");
    let both: String = AGENTS.map(|agent| federation.address_table("agent", agent)).concat();
    let second_parent = federation.address_table("parent", "second");
    let lyon = Cluster::new("lyon", 2, 1.0);
    let tables = format!("{second_parent}\n{}", lyon.tables);
    federation.add_server(&Cluster { parent: "first", tables, ..lyon });
    let client = |role, name| {
        let folder = federation.path().join(name);
        federation.certify(&folder, role, name);
        fs::write(folder.join("client.toml"), format!("{both}\n{TLS}")).unwrap();
        Client::new(&ClientFile::read(&folder.join("client.toml")).unwrap()).unwrap()
    };
    let (alice, root) = (client(Role::User, "alice"), client(Role::Operator, "root"));
    let attached = async || {
        let servers = root.servers().await.ok()?.servers;
        servers.iter().any(|server| server.attached).then_some(())
    };
    until("lyon to be attached to the first agent", attached).await;
    let ready = page(at_first, "/readyz").unwrap();
    assert!(ready.contains("\"notes\":[\"agent first coordinates no launches: its journal"), "{ready}");
    let gate = federation.path().join("gate");
    let text = format!("while [ ! -e '{}' ]; do sleep 0.05; done; echo done", gate.display());
    let before = submit(&alice, &order(rigid("echo before", 1, 60))).await.handle;
    alice.wait(&before, |_| {}).await.unwrap();
    let across = submit(&alice, &order(rigid(&text, 1, 60))).await.handle;
    federation.reaches(&alice, &across, JobState::Active).await;

    federation.kill("first");
    federation.ready("second").await;
    until("lyon to be attached to the second agent", attached).await;
    // What the first one knew, and what happens now.
    let known = async |handle, state| {
        let found = root.find(handle).await.ok()?;
        (found.record.state == state).then_some(())
    };
    until("the job that had ended", async || known(&before, JobState::Completed).await).await;
    until("the job that runs", async || known(&across, JobState::Active).await).await;
    fs::write(&gate, "").unwrap();
    assert_eq!(run(&alice, &order(rigid("true", 1, 60))).await.state, JobState::Completed);

    // The first one comes back, stands by, and takes over when the second one is stopped.
    federation.stand_by("first");
    federation.stop("second");
    federation.ready("first").await;
    until("lyon to be attached to the first agent again", attached).await;
    until("the end that was reported to the second agent", async || {
        known(&across, JobState::Completed).await
    })
    .await;
    assert_eq!(fetched(&alice, &across).await["stdout"], b"done\n");
}
