//! What agents ask of a server for the launches that they coordinate.

use pliant_control::payload::Payload;
use std::collections::BTreeMap;

use pliant_control::coallocation::{LaunchId, PlacedTask, Subjob, SubjobId, SubjobState};
use pliant_control::job::{Exit, Work};
use pliant_control::names::Token;
use pliant_control::names::{Name, User};
use pliant_control::server::{Answer, Event, Server, SubjobEvent};
use pliant_model::{Procs, Span, Speedup};
use pliant_site::services::Refusal;
use pliant_staging::check_manifest;
use pliant_transport::Role;
use pliant_wire::{self as wire, DecidedSubjob, Program, Script, SubmittedWork, TaskProgram, proto};
use prost::Message;
use tonic::{Request, Response, Status};

use super::coordinators::verdict_word;
use super::inputs::Inputs;
use crate::gate::{self, Pass};
use crate::server::execution::Program as TaskWork;
use crate::server::offer::PreparedWork;
use crate::server::service::{Service, TIMEOUT, slow, stopping};
use pliant_site::BatchSystemSettings;

#[tonic::async_trait]
impl proto::subjobs_server::Subjobs for Service {
    async fn list_machines(
        &self,
        request: Request<proto::ListMachinesRequest>,
    ) -> Result<Response<proto::ListMachinesReply>, Status> {
        let (_, _pass) = agent(&request)?;
        self.refresh_listing().await;
        let machines = self.machines.list_machines(&self.mailbox).await.map_err(|_| stopping())?;
        Ok(Response::new(wire::machines_reply(&machines)))
    }

    async fn prepare(
        &self,
        request: Request<proto::PrepareSubjob>,
    ) -> Result<Response<proto::SubjobState>, Status> {
        let (from, _pass) = agent(&request)?;
        let bytes = request.get_ref().encoded_len();
        let subjob = Subjob::try_from(request.into_inner())?;
        coordinates(&from, &subjob.id.launch)?;
        let state = self.prepare_subjob(subjob, bytes).await?;
        Ok(Response::new((&state).into()))
    }

    async fn decide(
        &self,
        request: Request<proto::DecideSubjob>,
    ) -> Result<Response<proto::SubjobState>, Status> {
        let (from, _pass) = agent(&request)?;
        let bytes = request.get_ref().encoded_len();
        let (id, DecidedSubjob { decision, end_acknowledged }) = request.into_inner().try_into()?;
        coordinates(&from, &id.launch)?;
        tracing::info!(subjob = %id, decision = verdict_word(&decision), "decided about a subjob");
        let state = self
            .subjob(
                |reply| SubjobEvent::Decided { reply: Some(reply), id, decision, end_acknowledged },
                bytes,
            )
            .await?;
        Ok(Response::new((&state).into()))
    }
}

/// The agent that calls, and its pass.
fn agent<T>(request: &Request<T>) -> Result<(Name, Option<Pass>), Status> {
    let (caller, pass) = gate::daemon(request, &[Role::Agent])?;
    let name = caller.peer.name.parse().map_err(|error| Status::unauthenticated(format!("{error}")))?;
    Ok((name, pass))
}

/// Refuses an agent that speaks of another one's launch.
fn coordinates(from: &Name, launch: &LaunchId) -> Result<(), Status> {
    if *from == launch.agent {
        return Ok(());
    }
    tracing::warn!(%from, %launch, "request refused: another agent coordinates this launch");
    Err(Status::permission_denied(format!(
        "expected the certificate of agent {}, found {from}'s",
        launch.agent
    )))
}

/// Why a subjob is not taken, for its coordinator.
fn refused(id: &SubjobId, why: String) -> SubjobState {
    tracing::info!(subjob = %id, why, "subjob refused");
    SubjobState::Over { ended: BTreeMap::new(), exit: Exit::NotStarted(why) }
}

impl Service {
    /// Has a subjob taken in, unless it was before, or says why it is not.
    async fn prepare_subjob(&self, subjob: Subjob, bytes: usize) -> Result<SubjobState, Status> {
        let id = subjob.id.clone();
        let wanted = id.clone();
        let known = move |server: &mut Server, _| server.subjob_state(&wanted);
        let known = self.mailbox.ask(known).await.map_err(|_| stopping())?;
        if known != SubjobState::Unknown {
            // What is known of it may still be on its way to the disk.
            let settled = tokio::time::timeout(TIMEOUT, self.mailbox.settled()).await;
            settled.map_err(|_| slow())?.map_err(|_| stopping())?;
            return Ok(known);
        }
        if let Some(unnumbered) = self.is_unnumbered().await {
            return Err(Status::unavailable(unnumbered.to_string()));
        }
        self.can_write()?;
        self.refresh_listing().await;
        let subjob = match self.made(subjob).await? {
            Ok(subjob) => subjob,
            Err(why) => return Ok(refused(&id, why)),
        };
        tracing::info!(
            subjob = %id, owner = %subjob.owner, name = subjob.name, procs = subjob.procs.0, tasks = subjob.tasks.len(),
            "asked to prepare a subjob"
        );
        let state =
            self.subjob(|reply| SubjobEvent::Prepare { reply, subjob: Box::new(subjob) }, bytes).await?;
        tracing::info!(subjob = %id, state = state.word(), "answered");
        Ok(state)
    }

    /// Sends the machine an event about a subjob, and gives how that stands then.
    pub(super) async fn subjob(
        &self,
        event: impl FnOnce(Token) -> SubjobEvent,
        bytes: usize,
    ) -> Result<SubjobState, Status> {
        match self.call(|reply| Event::Subjob(event(reply)), bytes).await? {
            Answer::Subjob(state) => Ok(state),
            _ => Err(Status::internal("not an answer about a subjob")),
        }
    }

    /// The subjob with what this server would run, or why it would not.
    async fn made(&self, mut subjob: Subjob) -> Result<Result<Subjob, String>, Status> {
        if let Err(refusal) = self.claims.check_subjob(&subjob) {
            let (launch, owner) = (&subjob.id.launch, &subjob.owner);
            tracing::warn!(%launch, %owner, reason = %refusal, "subjob refused: its tasks are not signed");
            return Ok(Err(refusal.counted().to_string()));
        }
        if let Err(why) = self.has_room_for(&subjob).await? {
            return Ok(Err(why));
        }
        for task in &mut subjob.tasks {
            match self.task(task, &subjob.owner, subjob.walltime).await {
                Ok(launch) => task.payload = Payload::of(&launch),
                Err(why) => return Ok(Err(format!("task `{}`: {why}", task.name))),
            }
        }
        // What is wrong with their files together.
        Ok(Inputs::of(&self.host, &subjob).map(|_| subjob))
    }

    /// Whether a subjob can be started at once where its tasks are to be.
    async fn has_room_for(&self, subjob: &Subjob) -> Result<Result<(), String>, Status> {
        match self.host.cluster.external() {
            None => return Ok(Ok(())),
            Some(BatchSystemSettings::Oar(_)) => {
                return Ok(Err("subjobs of launches are not run in front of OAR".to_owned()));
            }
            Some(BatchSystemSettings::Slurm(_)) => {}
        }
        let first = subjob.tasks.first().map(|task| task.machine.clone()).unwrap_or_default();
        if let Some(other) = subjob.tasks.iter().find(|task| task.machine != first) {
            let other = &other.machine;
            return Ok(Err(format!(
                "expected tasks of one node in front of Slurm, found some of {first} and some of {other}"
            )));
        }
        let wanted = first.clone();
        let node = move |server: &mut Server, now| {
            let nodes = server.nodes(now)?.nodes;
            nodes.into_iter().find(|node| node.name == wanted)
        };
        let node = self.mailbox.ask(node).await.map_err(|_| stopping())?;
        Ok(match node {
            Some(node) if node.up && node.cores >= subjob.procs => Ok(()),
            Some(node) if node.up => {
                let (needed, found) = (subjob.procs, node.cores);
                Err(format!("expected a node of at least {needed} processors, found {first} with {found}"))
            }
            Some(_) => Err(format!("node {first} takes no jobs at the moment")),
            None => Err(format!("there is no node {first}")),
        })
    }

    /// What a task would run.
    async fn task(&self, task: &PlacedTask, owner: &User, walltime: Span) -> Result<TaskWork, String> {
        let TaskProgram { program, inputs } = task.payload.read().map_err(|error| error.to_string())?;
        let what = match program {
            Program::Service { name, arguments } => SubmittedWork::Service { name, arguments },
            Program::Script { name, text, arguments } => {
                // Its size is that of its subjob.
                let work = Work::new(Procs::ONE, walltime, Speedup::Rigid);
                SubmittedWork::Script(Script { arguments, ..Script::new(name, text, work) })
            }
        };
        let refused = |refusal: Refusal| match refusal.hint() {
            hint if hint.is_empty() => refusal.to_string(),
            hint => format!("{refusal}; {hint}"),
        };
        if let Some(name) = what.service() {
            let service = self.offer.catalogue.find(name, owner).map_err(refused)?;
            if let Some(allowed) = service.max_walltime.filter(|allowed| walltime > *allowed) {
                return Err(refused(Refusal::TooLong { allowed, found: walltime }));
            }
        }
        let PreparedWork { prepared, account, .. } =
            self.offer.prepare(&what, owner, None).map_err(refused)?;
        // The share of a machine that a task gets is one of its processors.
        prepared.check_needs_no_job().map_err(refused)?;
        prepared.check_inputs(&inputs).map_err(refused)?;
        check_manifest(&inputs).map_err(|error| error.to_string())?;
        let submitted = Some(what).filter(|what| matches!(what, SubmittedWork::Script(_)));
        Ok(TaskWork {
            prepared,
            submitted,
            script: None,
            batch: None,
            inputs,
            shared: None,
            account: account.map(String::from),
            request: String::new(),
        })
    }
}
