//! Two processes with the certificate of one server.

use pliant_control::agent::ChildKind;
use pliant_control::job::JobState;
use pliant_transport::{Credentials, Role};
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::{FromChild, proto};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};

use super::monitoring::{Monitored, page};
use crate::harness::*;

/// Attaches to the master with lyon's own certificate, as a second process with a journal of its own would.
async fn attach_again(federation: &Federation) -> (mpsc::Sender<proto::Up>, Streaming<proto::Down>) {
    let known = federation.operator().servers().await.unwrap();
    let info = known.servers[0].info.clone();
    let (name, servers) = (info.name.clone(), vec![info]);
    let own = Credentials::in_folder(&federation.folder("lyon"));
    let (sender, receiver) = mpsc::channel(4);
    let hello = FromChild::Hello { name, kind: ChildKind::Server, journal: 1, servers };
    sender.send((&hello).into()).await.unwrap();
    let mut agent = AgentClient::new(federation.channel(&own, Role::Agent, MASTER));
    let down = agent.attach(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    (sender, down)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_place_was_taken_comes_back_by_itself_and_says_so() {
    let Monitored { federation, at_master, at_lyon } = Monitored::start().await;

    let (_up, mut down) = attach_again(&federation).await;
    let ended = loop {
        match down.message().await {
            Ok(message) => assert!(message.is_some(), "the connection was closed without a reason"),
            Err(status) => break status,
        }
    };
    let why = "another connection with the certificate of server/lyon came from";
    assert_eq!((ended.code(), ended.message().contains(why)), (Code::AlreadyExists, true), "{ended}");
    federation.logged("lyon", &["no connection to the parent", why]).await;
    federation
        .logged(MASTER, &["before its earlier connection had ended", "lyon", "remote", "earlier"])
        .await;
    let not_ready =
        async || page(at_lyon, "/readyz").filter(|page| page.contains("\"part\":\"certificate\""));
    until("lyon to report the other process", not_ready).await;
    let displaced = "pliant_connections_displaced_total{peer=\"server/lyon\"} 2";
    until("both to be counted", async || page(at_master, "/metrics").filter(|page| page.contains(displaced)))
        .await;

    // The agent finds it and learns of its jobs, as before.
    federation.attached(1).await;
    let alice = federation.client("alice");
    let job = run(&alice, &order(rigid("true", 1, 60))).await;
    until("the agent to know of the end", async || {
        alice.find(&job.handle).await.ok().filter(|found| found.record.state == JobState::Completed)
    })
    .await;
}
