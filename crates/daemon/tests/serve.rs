//! Daemons in this process: what makes them end, and what they refuse to start with.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::path::Path;

use pliant_control::agent::ChildKind;
use pliant_control::job::{JobRecord, JobState, Work};
use pliant_control::names::Key;
use pliant_control::reason::DiscoverySummary;
use pliant_daemon::agent;
use pliant_daemon::config::{self, AgentFile, ServerFile};
use pliant_daemon::host::DaemonError;
use pliant_model::{Estimate, Fnv, Procs, Span, Speedup, Time};
use pliant_testing::postgres;
use pliant_transport::{Credentials, Role};
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::{FromChild, proto};
use support::{Federation, Running, TIMEOUT, running};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

impl Running {
    /// Sends an event that is to be journaled: a child is attached.
    async fn send_event(&self, own: &Credentials) {
        // It may end before it says anything.
        let _ = self.attach(own).await;
    }

    /// A connection to it, both ways.
    async fn attach(
        &self,
        own: &Credentials,
    ) -> Result<(mpsc::Sender<proto::Up>, Streaming<proto::Down>), Status> {
        let mut agent = AgentClient::new(self.channel(own));
        let (sender, receiver) = mpsc::channel::<proto::Up>(1);
        let name = "local".parse().unwrap();
        let hello = FromChild::Hello { name, kind: ChildKind::Agent, journal: 1, servers: Vec::new() };
        sender.send((&hello).into()).await.unwrap();
        Ok((sender, agent.attach(ReceiverStream::new(receiver)).await?.into_inner()))
    }

    /// Why it ends by itself.
    async fn ends(self) -> DaemonError {
        let ended = tokio::time::timeout(TIMEOUT, self.serving).await;
        ended.expect("it ends by itself").unwrap().unwrap_err()
    }
}

fn alter(journal: &Path, text: &str) {
    rusqlite::Connection::open(journal).unwrap().execute_batch(text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_whose_journal_is_damaged_while_it_runs_ends() {
    let federation = Federation::new();
    let child = federation.issue(Role::Agent, "local");
    let agent = running(federation.agent("state = \"state\"")).await;
    alter(
        &federation.folder("master").join("state/journal.db"),
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'nonsense' WHERE name = 'entries'; \
         PRAGMA schema_version = 1000",
    );
    agent.send_event(&child).await;
    let error = agent.ends().await;
    assert!(error.to_string().contains("damaged"), "{error}");
    assert!(error.is_input() && error.hint().is_some_and(|hint| hint.contains("backup")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deposed_leader_ends() {
    let database = tokio::task::block_in_place(|| Some(postgres::Server::start()?.database()));
    let Some(database) = database else { return };
    let federation = Federation::new();
    let child = federation.issue(Role::Agent, "local");
    let journal = format!("postgres = \"{}\"", database.connection());
    let agent = running(federation.agent(&journal)).await;
    // As an agent that stood by would.
    tokio::task::block_in_place(|| database.query("UPDATE metadata SET term = term + 1"));
    agent.send_event(&child).await;
    let error = agent.ends().await;
    assert!(error.to_string().contains("another daemon has taken over"), "{error}");
    assert!(!error.is_input(), "started again it stands by");
    tokio::task::block_in_place(|| drop(database));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_does_not_start_with_a_journal_that_lacks_something() {
    let federation = Federation::new();
    let child = federation.issue(Role::Agent, "local");
    let file = federation.agent("state = \"state\"");
    let agent = running(file.clone()).await;
    agent.send_event(&child).await;
    agent.stop.send_replace(true);
    agent.serving.await.unwrap().unwrap();
    let journal = federation.folder("master").join("state/journal.db");
    let other_state =
        format!("UPDATE snapshot_parts SET bytes = x'7b7d', hash = {}", Fnv::of(b"{}").cast_signed());
    for (damage, words) in [
        (other_state.as_str(), "cannot read entry"),
        ("UPDATE snapshot_parts SET hash = 7", "is not what was written"),
        ("UPDATE metadata SET last_entry = last_entry + 1", "the journal is damaged"),
    ] {
        alter(&journal, damage);
        let (_stop, stopping) = watch::channel(false);
        let error = agent::serve(file.clone(), stopping, |_| ()).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert!(error.is_input() && error.hint().is_some(), "{error}");
    }
}

/// A status update of a job below the agent `local`.
fn status_update(sequence: u64) -> proto::Up {
    (&FromChild::StatusUpdate { sequence, record: job_record() }).into()
}

/// A job below the agent `local`.
fn job_record() -> Box<JobRecord> {
    let (procs, walltime) = (Procs(1), Span(60));
    Box::new(JobRecord {
        handle: "lyon.1".parse().unwrap(),
        key: Key([1; 16]),
        owner: "alice".parse().unwrap(),
        name: "x".repeat(100),
        work: Work::new(procs, walltime, Speedup::Rigid),
        state: JobState::Queued,
        submitted: Time(1),
        expected: Estimate { procs, walltime, start: Time(1) },
        procs,
        walltime,
        started: None,
        ended: None,
        exit: None,
        requeues: 0,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_waits_for_a_journal_that_cannot_be_written() {
    // Far more than the network buffers hold.
    const MANY: u64 = 20_000;
    let federation = Federation::new();
    let child = federation.issue(Role::Agent, "local");
    let agent = running(federation.agent("state = \"state\"")).await;
    let (sender, mut down) = agent.attach(&child).await.unwrap();
    let kept = |message: proto::Down| match message.message {
        Some(proto::down::Message::Acknowledge(kept)) => Some(kept.sequence),
        _ => None,
    };
    while kept(down.message().await.unwrap().unwrap()).is_none() {}
    let journal = federation.folder("master").join("state/journal.db");
    alter(&journal, "CREATE TRIGGER stuck BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'stuck'); END");
    let sending = tokio::spawn(async move {
        for sequence in 1..=MANY {
            sender.send(status_update(sequence)).await.unwrap();
        }
        sender
    });
    // The connection stays up while nothing can be journaled, longer than it takes to send all of that: five heartbeats.
    for _ in 0..5 {
        assert_eq!(kept(down.message().await.unwrap().unwrap()), None);
    }
    assert!(!sending.is_finished(), "they wait in our memory");
    alter(&journal, "DROP TRIGGER stuck");
    while kept(down.message().await.unwrap().unwrap()) != Some(MANY) {}
    sending.await.unwrap();
    agent.stop.send_replace(true);
    agent.serving.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_jobs_names_the_children_that_still_report_again() {
    let federation = Federation::new();
    let child = federation.issue(Role::Agent, "local");
    let agent = running(federation.agent("state = \"state\"")).await;
    let alice = AgentClient::new(agent.channel(&federation.issue(Role::User, "alice")));
    let reporting = async || {
        let reply = alice.clone().jobs(proto::JobsRequest { limit: 10, ..Default::default() }).await;
        let proto::JobsReply { reporting_again, children, .. } = reply.unwrap().into_inner();
        (reporting_again, children)
    };
    let until = async |expected: (&[&str], u32)| {
        let expected = (expected.0.iter().map(ToString::to_string).collect(), expected.1);
        let comes = async { while reporting().await != expected {} };
        tokio::time::timeout(TIMEOUT, comes).await.unwrap_or_else(|_| panic!("{expected:?}"));
    };
    let (sender, _down) = agent.attach(&child).await.unwrap();
    assert_eq!(reporting().await, (Vec::new(), 0));
    sender.send((&FromChild::ReportedAgain(job_record())).into()).await.unwrap();
    until((&["local"], 1)).await;
    sender.send((&FromChild::AllReported { sequence: 7 }).into()).await.unwrap();
    until((&[], 0)).await;
    agent.stop.send_replace(true);
    agent.serving.await.unwrap().unwrap();
}

/// A call whose message is there and has no end until the sender is dropped.
fn begun(
    channel: Channel,
) -> (mpsc::Sender<proto::ServersRequest>, impl Future<Output = Result<(), Status>>) {
    let (sender, receiver) = mpsc::channel(1);
    sender.try_send(proto::ServersRequest {}).unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    let call = async move {
        client.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/pliant.v1.Agent/Servers");
        let codec = tonic_prost::ProstCodec::<proto::ServersRequest, proto::ServersReply>::default();
        client.client_streaming(Request::new(ReceiverStream::new(receiver)), path, codec).await.map(drop)
    };
    (sender, call)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_key_of_a_server_has_so_many_requests_and_no_more() {
    let federation = Federation::new();
    let agent = running(federation.agent("state = \"state\"")).await;
    let stolen = federation.issue(Role::Server, "lyon");
    let (mut open, mut calls) = (Vec::new(), tokio::task::JoinSet::new());
    // 128 may be under way on each connection.
    for channel in (0..9).map(|_| agent.channel(&stolen)) {
        for _ in 0..120 {
            let (sender, call) = begun(channel.clone());
            open.push(sender);
            calls.spawn(call);
        }
    }
    // Those that are not refused wait to be whole, and time out after half a minute.
    let status = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("1024 requests of server/lyon are open"), "{status:?}");
    let alice = agent.channel(&federation.issue(Role::User, "alice"));
    AgentClient::new(alice).servers(proto::ServersRequest {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_are_not_whole_count() {
    let federation = Federation::new();
    let limits = config::LimitsFile { open_requests: 3, ..config::LimitsFile::default() };
    let agent = running(AgentFile { limits, ..federation.agent("state = \"state\"") }).await;
    let channel = agent.channel(&federation.issue(Role::User, "alice"));
    let (mut open, mut calls) = (Vec::new(), tokio::task::JoinSet::new());
    for _ in 0..4 {
        let (sender, call) = begun(channel.clone());
        open.push(sender);
        calls.spawn(call);
    }
    // One of them is too many; the others wait to be whole.
    let status = calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert!(status.message().contains("3 requests of alice are open"), "{status:?}");
    drop(open);
    while let Some(answered) = calls.join_next().await {
        answered.unwrap().unwrap();
    }
    AgentClient::new(channel).servers(proto::ServersRequest {}).await.unwrap();
}

#[test]
fn clients_are_not_sent_to_servers_that_are_down() {
    let federation = Federation::new();
    let parent = "parent = [{ name = \"master\", address = \"localhost:7700\" }]\nstate = \"state\"\n\
                  accounts = { map = \"shared\" }\ncluster = { procs = 4 }";
    let read = |listen: &str, advertise: Option<&str>| {
        let advertise = advertise.map(|address| format!("advertise = \"{address}\"\n")).unwrap_or_default();
        let text = format!("name = \"lyon\"\nlisten = \"{listen}\"\n{advertise}{parent}");
        ServerFile::read(&federation.written(Role::Server, "lyon", &text))
    };
    for (listen, advertise) in [
        ("127.0.0.1:0", None),
        ("0.0.0.0:7710", Some("lyon.example.org:7710")),
        ("[::]:7710", Some("192.0.2.1:7710")),
        ("[::]:7710", Some("[2001:db8::1]:7710")),
    ] {
        assert!(read(listen, advertise).is_ok(), "{listen} {advertise:?}");
    }
    for (listen, advertise, found) in [
        ("0.0.0.0:7710", None, "0.0.0.0:7710"),
        ("[::]:7710", None, "found none"),
        ("0.0.0.0:7710", Some("0.0.0.0:7710"), "0.0.0.0:7710"),
        ("127.0.0.1:0", Some("lyon.example.org"), "`lyon.example.org`"),
        ("127.0.0.1:0", Some("lyon.example.org:0"), "`lyon.example.org:0`"),
        ("127.0.0.1:0", Some("lyon.example.org:77100"), "`lyon.example.org:77100`"),
        ("127.0.0.1:0", Some("http://lyon/:1"), "`http://lyon/:1`"),
        ("127.0.0.1:0", Some(""), "an empty text"),
    ] {
        let error = DaemonError::from(read(listen, advertise).err().unwrap());
        let text = error.to_string();
        assert!(text.contains("advertise: expected") && text.contains(found), "{text}");
        assert!(error.is_input() && error.hint().unwrap().contains("advertise"), "{text}");
    }
}
