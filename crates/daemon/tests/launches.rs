//! An agent in this process that coordinates launches, with a server that holds and runs whatever it is asked to: who may
//! say what, and what is remembered.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_client::ClientFile;
use pliant_client::{Client, ClientError, InputPaths};
use pliant_control::agent::ChildKind;
use pliant_control::coallocation::{
    Application, LaunchEnd, LaunchRecord, LaunchState, Machine, Mapping, Subjob, SubjobDecision, SubjobId,
    SubjobState, TaskEdge, TaskSpec,
};
use pliant_control::job::Exit;
use pliant_control::names::Key;
use pliant_control::server_info::ServerInfo;
use pliant_daemon::config::AgentFile;
use pliant_model::{Procs, Span, Speed};
use pliant_transport::{Credentials, Limits, Role, ServerTls, incoming};
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::proto::launches_client::LaunchesClient;
use pliant_wire::proto::subjobs_server::{Subjobs, SubjobsServer};
use pliant_wire::{
    DecidedSubjob, FromChild, LaunchRequest, LaunchesQuery, Program, SubjobReport, machines_reply, proto,
};
use support::{Federation, Running, TIMEOUT, running};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};

impl Federation {
    fn client(&self, agent: &Running, user: &str) -> Client {
        let text = format!("[[agent]]\nname = \"master\"\naddress = \"{}\"\n", agent.address);
        Client::new(&ClientFile::read(&self.written(Role::User, user, &text)).unwrap()).unwrap()
    }
}

/// The agent, whose launches are in its folder.
async fn started(federation: &Federation) -> Running {
    running(federation.agent("state = \"state\"")).await
}

impl Running {
    /// The answer to a server that reports the state of its subjob.
    async fn report(&self, own: &Credentials, report: SubjobReport) -> Result<DecidedSubjob, Status> {
        let reply =
            LaunchesClient::new(self.channel(own)).report_subjob(proto::SubjobReport::from(&report)).await?;
        Ok(DecidedSubjob::try_from(reply.into_inner()).unwrap())
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.serving.await.unwrap().unwrap();
    }
}

/// A server that prepares each subjob at once and runs it for ever once it is committed.
#[derive(Clone, Default)]
struct Willing(Arc<Mutex<BTreeMap<SubjobId, (Subjob, SubjobState)>>>);

impl Willing {
    fn subjobs(&self) -> Vec<(Subjob, SubjobState)> {
        self.0.lock().values().cloned().collect()
    }
}

impl Willing {
    /// Its subjob, once it runs.
    async fn runs(&self) -> Subjob {
        let begun = Instant::now();
        loop {
            let subjobs = self.subjobs();
            let subjob = subjobs.into_iter().find(|(_, state)| matches!(state, SubjobState::Runs { .. }));
            if let Some((subjob, _)) = subjob {
                return subjob;
            }
            assert!(begun.elapsed() < TIMEOUT, "no subjob runs");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn replied(state: &SubjobState) -> Result<Response<proto::SubjobState>, Status> {
    Ok(Response::new(state.into()))
}

#[tonic::async_trait]
impl Subjobs for Willing {
    async fn list_machines(
        &self,
        _: Request<proto::ListMachinesRequest>,
    ) -> Result<Response<proto::ListMachinesReply>, Status> {
        let machine = Machine { name: "host".to_owned(), power_mflops: 400.0, procs: 4, load: 0.0 };
        Ok(Response::new(machines_reply(&[machine])))
    }

    async fn prepare(
        &self,
        request: Request<proto::PrepareSubjob>,
    ) -> Result<Response<proto::SubjobState>, Status> {
        let subjob = Subjob::try_from(request.into_inner())?;
        let address = |at: usize| format!("127.0.0.1:{}", 7000 + at);
        let tasks = subjob.tasks.iter().enumerate();
        let addresses = tasks.map(|(at, task)| (task.name.clone(), address(at))).collect();
        let held = SubjobState::Prepared { addresses };
        self.0.lock().insert(subjob.id.clone(), (subjob, held.clone()));
        replied(&held)
    }

    async fn decide(
        &self,
        request: Request<proto::DecideSubjob>,
    ) -> Result<Response<proto::SubjobState>, Status> {
        let (id, decided) = <(SubjobId, DecidedSubjob)>::try_from(request.into_inner())?;
        let state = match decided.decision {
            SubjobDecision::Commit { .. } => SubjobState::Runs { ended: BTreeMap::new() },
            SubjobDecision::End => SubjobState::Over { ended: BTreeMap::new(), exit: Exit::Cancelled },
            SubjobDecision::Undecided => SubjobState::Unknown,
        };
        self.0.lock().get_mut(&id).unwrap().1 = state.clone();
        replied(&state)
    }
}

/// A willing server that the agent knows, as long as the connection is up.
struct Attached {
    willing: Willing,
    own: Credentials,
    line: Line,
}

/// The way up and the way down.
type Line = (mpsc::Sender<proto::Up>, tonic::Streaming<proto::Down>);

async fn attached(federation: &Federation, agent: &Running, name: &str) -> Attached {
    let own = federation.issue(Role::Server, name);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let tls = Arc::new(ServerTls::load(&own).unwrap());
    let willing = Willing::default();
    let service = Server::builder().add_service(SubjobsServer::new(willing.clone()));
    tokio::spawn(service.serve_with_incoming(incoming(listener, tls, Limits::default())));
    let info = ServerInfo {
        name: name.parse().unwrap(),
        address,
        rank: 0,
        procs: Procs(4),
        speed: Speed::REFERENCE,
        policy: "cbf".to_owned(),
        services: Vec::new(),
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    };
    let hello = FromChild::Hello {
        name: info.name.clone(),
        kind: ChildKind::Server,
        journal: 1,
        servers: vec![info],
    };
    let (sender, receiver) = mpsc::channel(4);
    sender.send((&hello).into()).await.unwrap();
    let up = ReceiverStream::new(receiver);
    let down = AgentClient::new(agent.channel(&own)).attach(up).await.unwrap().into_inner();
    Attached { willing, own, line: (sender, down) }
}

fn pair(key: u8) -> LaunchRequest {
    let program = Program::Service { name: "talk".to_owned(), arguments: BTreeMap::new() };
    let wish = |name: &str| TaskSpec { name: name.to_owned(), rcr: 1.0, payload: program.payload() };
    LaunchRequest {
        key: Key([key; 16]),
        name: "pair".to_owned(),
        application: Application {
            mcr_mflops: 100.0,
            bandwidth_mbps: None,
            tasks: vec![wish("a"), wish("b")],
            edges: vec![TaskEdge { between: [0, 1], rqoc: 1.0 }],
        },
        walltime: Span(100),
        timeout: Span(30),
        user_lan: None,
        threshold: None,
        mapping: Mapping::Wase,
        dry_run: false,
        signed: None,
    }
}

/// Launches and follows until it is so far.
async fn until(
    client: &Client,
    request: &LaunchRequest,
    state: LaunchState,
) -> Result<LaunchRecord, ClientError> {
    let report = |record: &LaunchRecord| match record.state == state {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    client.launch(request, &InputPaths::new(), TIMEOUT, std::future::pending(), report).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subjob_is_spoken_of_by_its_server_alone_and_a_launch_is_seen_by_its_owner() {
    let federation = Federation::new();
    let agent = started(&federation).await;
    let lyon = attached(&federation, &agent, "lyon").await;
    let [alice, bob] = ["alice", "bob"].map(|user| federation.client(&agent, user));
    let record = until(&alice, &pair(1), LaunchState::Running).await.unwrap();
    let subjob = lyon.willing.runs().await;
    assert_eq!((subjob.owner.as_str(), subjob.tasks.len(), subjob.procs), ("alice", 2, Procs(2)));
    assert_eq!((subjob.coordinator.name.as_str(), &subjob.coordinator.address), ("master", &agent.address));
    assert!(record.tasks.iter().all(|task| task.address.is_some()), "{record:?}");

    // Another server that reports the subjob has to end it, which changes nothing; users may not report.
    let over = |code| SubjobReport {
        id: subjob.id.clone(),
        state: SubjobState::Over { ended: BTreeMap::new(), exit: Exit::Code(code) },
    };
    let other = federation.issue(Role::Server, "paris");
    let decision = agent.report(&other, over(1)).await.unwrap();
    assert_eq!(decision, DecidedSubjob { decision: SubjobDecision::End, end_acknowledged: true });
    let user = federation.issue(Role::User, "alice");
    assert_eq!(agent.report(&user, over(1)).await.unwrap_err().code(), Code::PermissionDenied);
    assert!(bob.find_launch(&record.id).await.unwrap_err().is_missing());
    assert!(bob.cancel_launch(&record.id).await.unwrap_err().is_missing());
    assert!(until(&bob, &pair(1), LaunchState::Over).await.unwrap_err().to_string().contains("another user"));
    assert_eq!(alice.find_launch(&record.id).await.unwrap().state, LaunchState::Running);

    let decision = agent.report(&lyon.own, over(0)).await.unwrap();
    assert!(decision.end_acknowledged, "that nothing of it is left: {decision:?}");
    let record = until(&alice, &pair(1), LaunchState::Over).await.unwrap();
    assert_eq!(record.end, Some(LaunchEnd::Completed));
    // It is remembered by an agent that was made again.
    drop(lyon.line);
    agent.stop().await;
    let agent = started(&federation).await;
    let alice = federation.client(&agent, "alice");
    assert_eq!(alice.find_launch(&record.id).await.unwrap(), record);
    assert_eq!(until(&alice, &pair(1), LaunchState::Over).await.unwrap(), record, "the same key again");
    let listed = alice.launches(&LaunchesQuery { all: false, limit: 5 }).await.unwrap();
    assert_eq!(listed, [record]);
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_goes_on_where_it_was_when_the_agent_is_back() {
    let federation = Federation::new();
    let agent = started(&federation).await;
    let lyon = attached(&federation, &agent, "lyon").await;
    let alice = federation.client(&agent, "alice");
    let record = until(&alice, &pair(2), LaunchState::Running).await.unwrap();
    lyon.willing.runs().await;
    drop(lyon.line);
    agent.stop().await;
    let agent = started(&federation).await;
    let alice = federation.client(&agent, "alice");
    let found = alice.find_launch(&record.id).await.unwrap();
    assert_eq!((found.state, &found.tasks), (LaunchState::Running, &record.tasks));
    let ended = alice.cancel_launch(&record.id).await.unwrap();
    assert_eq!(ended.end, Some(LaunchEnd::Cancelled));
    let record = until(&alice, &pair(2), LaunchState::Over).await.unwrap();
    assert_eq!(record.end, Some(LaunchEnd::Cancelled));
    assert!(lyon.willing.subjobs().iter().all(|(_, state)| state.is_over()), "its server was notified");
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_servers_could_not_reach_says_why_it_launches_nothing() {
    let federation = Federation::new();
    let anywhere =
        AgentFile { listen: "0.0.0.0:0".parse().unwrap(), ..federation.agent("state = \"state\"") };
    let agent = running(anywhere).await;
    let agent = Running { address: agent.address.replace("0.0.0.0", "127.0.0.1"), ..agent };
    let alice = federation.client(&agent, "alice");
    let refused = until(&alice, &pair(3), LaunchState::Over).await.unwrap_err();
    assert!(refused.is_input() && refused.to_string().contains("`advertise`"), "{refused}");
    agent.stop().await;
}
