//! An agent that coordinates launches by hand: it asks a real server, and hears how its subjobs stand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use pliant_client::Client;
use pliant_control::coallocation::{
    Addresses, LaunchId, Machine, PlacedTask, Subjob, SubjobDecision, SubjobId, SubjobState, TaskSpec,
};
use pliant_control::handoff::Peer;
use pliant_control::payload::Payload;
use pliant_model::{Procs, Span};
use pliant_transport::{Limits, Role, ServerTls, guard, incoming};
use pliant_wire::proto::launches_server::{Launches, LaunchesServer};
use pliant_wire::proto::subjobs_client::SubjobsClient;
use pliant_wire::{DecidedSubjob, Program, SubjobReport, listed_machines, proto};
use tokio::net::TcpListener;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use crate::harness::*;

/// Its name.
pub(super) const AGENT: &str = "conductor";

/// The reported states of a subjob, in order and each once, and the decision that is the answer.
#[derive(Default)]
struct ReportedSubjob {
    states: Vec<SubjobState>,
    decision: Option<SubjobDecision>,
}

/// The reports of all subjobs.
#[derive(Clone, Default)]
struct ReportRecorder(Arc<Mutex<BTreeMap<SubjobId, ReportedSubjob>>>);

/// The agent, and the way to one server.
pub(super) struct Agent {
    address: String,
    recorder: ReportRecorder,
    pub(super) server: SubjobsClient<Channel>,
    /// Signs for the tasks.
    owner: Client,
}

impl Agent {
    /// An agent that asks that server.
    pub(super) async fn start(federation: &Federation, server: &str) -> Agent {
        let own = federation.credentials(Role::Agent, AGENT);
        let tls = Arc::new(ServerTls::load(&own).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let recorder = ReportRecorder::default();
        let service = InterceptedService::new(LaunchesServer::new(recorder.clone()), guard(tls.clone()));
        let connections = incoming(listener, tls, Limits::default());
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(connections));
        let owner = federation.client("alice");
        Agent { address, recorder, server: client(federation, Role::Agent, AGENT, server), owner }
    }

    /// A subjob of these tasks on that machine.
    pub(super) fn subjob(&self, key: u8, machine: &str, tasks: &[(&str, Program, &[&str])]) -> Subjob {
        let launch = LaunchId { agent: AGENT.parse().unwrap(), key: pliant_control::names::Key([key; 16]) };
        let task = |(name, program, neighbours): &(&str, Program, &[&str])| PlacedTask {
            name: (*name).to_owned(),
            machine: machine.to_owned(),
            neighbours: neighbours.iter().map(|name| (*name).to_owned()).collect(),
            payload: program.payload(),
        };
        Subjob {
            coordinator: Peer { name: launch.agent.clone(), address: self.address.clone() },
            id: SubjobId { launch, number: 0 },
            owner: "alice".parse().unwrap(),
            name: "row".to_owned(),
            tasks: tasks.iter().map(task).collect(),
            procs: Procs(2),
            walltime: Span(600),
            timeout: Span(300),
            signed: Payload::default(),
        }
    }

    pub(super) async fn machines(&mut self) -> Vec<Machine> {
        let reply = self.server.list_machines(proto::ListMachinesRequest {}).await.unwrap();
        listed_machines(reply.into_inner()).unwrap()
    }

    pub(super) async fn prepare(&mut self, subjob: &Subjob) -> SubjobState {
        let reply = self.server.prepare(proto::PrepareSubjob::from(&self.signed(subjob))).await.unwrap();
        reply.into_inner().try_into().unwrap()
    }

    /// A subjob with its owner's signature.
    pub(super) fn signed(&self, subjob: &Subjob) -> Subjob {
        let task =
            |task: &PlacedTask| TaskSpec { name: task.name.clone(), rcr: 1.0, payload: task.payload.clone() };
        let tasks: Vec<TaskSpec> = subjob.tasks.iter().map(task).collect();
        let LaunchId { agent, key } = &subjob.id.launch;
        let signed = Payload::of(&self.owner.sign_tasks(*key, tasks.iter(), agent).unwrap());
        Subjob { signed, ..subjob.clone() }
    }

    /// Decides, also for when the server asks.
    pub(super) async fn decide(&mut self, id: &SubjobId, decision: SubjobDecision) -> SubjobState {
        self.recorder.0.lock().unwrap().entry(id.clone()).or_default().decision = Some(decision.clone());
        let decided = (id.clone(), DecidedSubjob { decision, end_acknowledged: false });
        self.server
            .decide(proto::DecideSubjob::from(&decided))
            .await
            .unwrap()
            .into_inner()
            .try_into()
            .unwrap()
    }

    /// Waits until the server has said that of a subjob.
    pub(super) async fn hears<T>(
        &self,
        id: &SubjobId,
        what: &str,
        wanted: impl Fn(&SubjobState) -> Option<T>,
    ) -> T {
        until(&format!("the server to report that the subjob {what}"), async || {
            self.recorder.0.lock().unwrap().get(id)?.states.iter().find_map(&wanted)
        })
        .await
    }

    /// Waits until a subjob is held, and gives where its tasks will listen.
    pub(super) async fn held(&self, id: &SubjobId) -> Addresses {
        self.hears(id, "is held", |state| match state {
            SubjobState::Prepared { addresses } => Some(addresses.clone()),
            _ => None,
        })
        .await
    }
}

/// Calls of a server about subjobs, with a certificate of that role.
pub(super) fn client(
    federation: &Federation,
    role: Role,
    name: &str,
    server: &str,
) -> SubjobsClient<Channel> {
    SubjobsClient::new(federation.channel(&federation.credentials(role, name), Role::Server, server))
}

/// A task that runs this script.
pub(super) fn shell(text: &str) -> Program {
    Program::Script {
        name: "task.sh".to_owned(),
        text: format!("#!/bin/sh\n{text}\n").into(),
        arguments: Vec::new(),
    }
}

/// The folders of the subjobs of a server.
pub(super) fn folders(federation: &Federation, server: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(federation.folder(server).join("state/subjobs")) else {
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// What a task wrote on its standard output.
pub(super) fn written(folder: &Path, task: &str) -> String {
    std::fs::read_to_string(folder.join("work").join(task).join("stdout")).unwrap()
}

#[tonic::async_trait]
impl Launches for ReportRecorder {
    async fn report_subjob(
        &self,
        request: Request<proto::SubjobReport>,
    ) -> Result<Response<proto::SubjobDecision>, Status> {
        let SubjobReport { id, state } = request.into_inner().try_into()?;
        let mut known = self.0.lock().unwrap();
        let known = known.entry(id).or_default();
        let decided = DecidedSubjob {
            decision: known.decision.clone().unwrap_or(SubjobDecision::Undecided),
            end_acknowledged: state.is_over(),
        };
        if known.states.last() != Some(&state) {
            known.states.push(state);
        }
        Ok(Response::new((&decided).into()))
    }

    async fn launch(&self, _: Request<proto::LaunchRequest>) -> Result<Response<proto::LaunchReply>, Status> {
        Err(not_called())
    }

    async fn spawn(&self, _: Request<proto::SpawnRequest>) -> Result<Response<proto::LaunchReply>, Status> {
        Err(not_called())
    }

    async fn cancel(&self, _: Request<proto::LaunchId>) -> Result<Response<proto::LaunchReply>, Status> {
        Err(not_called())
    }

    async fn get(&self, _: Request<proto::LaunchId>) -> Result<Response<proto::Launch>, Status> {
        Err(not_called())
    }

    async fn list(
        &self,
        _: Request<proto::LaunchesRequest>,
    ) -> Result<Response<proto::LaunchesReply>, Status> {
        Err(not_called())
    }

    async fn links(&self, _: Request<proto::LinksRequest>) -> Result<Response<proto::LinksReply>, Status> {
        Err(not_called())
    }
}

fn not_called() -> Status {
    Status::unimplemented("no user asks this agent")
}
