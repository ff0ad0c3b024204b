//! Launches applications on several clusters at once: the calls of the launch machine of `control`.

use std::ops::ControlFlow;
use std::time::Duration;

use pliant_control::coallocation::{
    self as launch, ClientAction, LaunchId, LaunchOutcome, LaunchRecord, LaunchUpdate, Link, SpawnSpec,
    SubjobId, SubjobState,
};
use pliant_control::names::Name;
use pliant_model::Time;
use pliant_transport::Clock;
use pliant_transport::not_sent;
use pliant_wire::proto::held_subjobs_client::HeldSubjobsClient;
use pliant_wire::proto::launches_client::LaunchesClient;
use pliant_wire::{
    HeldSubjobs, LaunchRequest, LaunchesPage, LaunchesQuery, SpawnRequest, launch_answer, links, proto,
};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

use super::error::is_broken;
use super::{ANSWER_BYTES_MAX, Client, ClientError, InputPaths, InputSender};

impl Client {
    /// Launches an application and follows it until it is over. `report` gets each record; if it breaks, the call returns as soon
    /// as the input files of tasks are uploaded, and the launch continues. `cancelled` ends the launch.
    ///
    /// Calls go to the first agent of the client's file that can be reached, and to no other one: a key is one launch at each
    /// agent.
    ///
    /// # Errors
    ///
    /// If the launch is not accepted; if the agent has not answered within `timeout`, where the same key shows whether it was
    /// accepted; or if input files cannot be sent, after which the launch is ended.
    pub async fn launch(
        &self,
        request: &LaunchRequest,
        inputs: &InputPaths,
        timeout: Duration,
        cancelled: impl Future<Output = ()>,
        mut report: impl FnMut(&LaunchRecord) -> ControlFlow<()>,
    ) -> Result<LaunchRecord, ClientError> {
        let clock = Clock::start(Time(0));
        let until = Time(clock.now().0 + timeout.as_secs() as i64);
        let mut machine = launch::LaunchClient::new(until);
        let mut connection = LaunchConnection { client: self, agent: 0, sent: false };
        let mut sender = InputSender::new(self, request.key, &request.application.tasks, inputs)?;
        let mut cancelled = std::pin::pin!(cancelled);
        let (mut is_cancelled, mut event) = (false, LaunchUpdate::Begin);
        let mut unsent = None;
        loop {
            let mut wants = Vec::new();
            if let LaunchUpdate::Launch(record) = &event {
                if let Err(error) = sender.go_on(record) {
                    unsent.get_or_insert(error);
                    machine.on(clock.now(), LaunchUpdate::Cancel, &mut wants);
                }
                if report(record).is_break() && unsent.is_none() && sender.is_done(record) {
                    return Ok((**record).clone());
                }
            }
            machine.on(clock.now(), event, &mut wants);
            let want = wants.pop().expect("the machine wants one thing after each event but a cancellation");
            event = match want {
                ClientAction::Launch => connection.launch(request).await,
                ClientAction::Query => connection.find(request).await,
                ClientAction::Cancel => connection.cancel(request).await,
                ClientAction::WakeAt(at) => {
                    tokio::select! {
                        () = tokio::time::sleep(clock.until(at)) => {}
                        () = cancelled.as_mut(), if !is_cancelled => {
                            is_cancelled = true;
                            machine.on(clock.now(), LaunchUpdate::Cancel, &mut wants);
                        }
                    }
                    LaunchUpdate::Due
                }
                ClientAction::Done(outcome) => {
                    return match unsent {
                        Some(error) => Err(error),
                        None => ended(*outcome).and_then(|record| sender.explained(record)),
                    };
                }
            };
        }
    }

    /// Adds a task to a launch that runs. The same key is one task.
    ///
    /// # Errors
    ///
    /// If it is not accepted, or the agent does not answer.
    pub async fn spawn(&self, launch: &LaunchId, spawn: &SpawnSpec) -> Result<LaunchRecord, ClientError> {
        let signed = self.signed_tasks(launch.key, spawn.tasks.iter().map(|one| &one.task), &launch.agent)?;
        let request = SpawnRequest { launch: launch.clone(), spawn: SpawnSpec { signed, ..spawn.clone() } };
        let (agent, mut launches) = self.launches_at(launch)?;
        let reply = launches.spawn(self.request(proto::SpawnRequest::from(&request))).await;
        accepted(&agent, reply)
    }

    /// Ends all of a launch.
    ///
    /// # Errors
    ///
    /// If it does not exist or is not ours, or the agent does not answer.
    pub async fn cancel_launch(&self, launch: &LaunchId) -> Result<LaunchRecord, ClientError> {
        let (agent, mut launches) = self.launches_at(launch)?;
        let reply = launches.cancel(self.request(proto::LaunchId::from(launch))).await;
        accepted(&agent, reply)
    }

    /// The record of a launch.
    ///
    /// # Errors
    ///
    /// If it does not exist or is not ours, or the agent does not answer.
    pub async fn find_launch(&self, launch: &LaunchId) -> Result<LaunchRecord, ClientError> {
        let (agent, mut launches) = self.launches_at(launch)?;
        let reply = launches.get(self.request(proto::LaunchId::from(launch))).await;
        let reply = reply.map_err(|status| failed(&agent, &status))?;
        LaunchRecord::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// The measured links between servers, of the first agent that is up.
    ///
    /// # Errors
    ///
    /// If no agent answers, or it measures none.
    pub async fn links(&self) -> Result<Vec<Link>, ClientError> {
        let ask = |mut agent: LaunchesClient<Channel>| async move {
            agent.links(self.request(proto::LinksRequest {})).await
        };
        let reply = self.ask_launches(ask).await?;
        links(reply).map_err(ClientError::protocol)
    }

    /// The newest launches of the first agent that is up: the caller's, or all for an operator.
    ///
    /// # Errors
    ///
    /// If no agent answers.
    pub async fn launches(&self, query: &LaunchesQuery) -> Result<Vec<LaunchRecord>, ClientError> {
        let ask = |mut agent: LaunchesClient<Channel>| async move {
            agent.list(self.request(proto::LaunchesRequest::from(query))).await
        };
        let page = LaunchesPage::try_from(self.ask_launches(ask).await?);
        page.map(|page| page.0).map_err(ClientError::protocol)
    }

    /// Asks the first agent that is up.
    async fn ask_launches<R, F>(&self, ask: impl Fn(LaunchesClient<Channel>) -> F) -> Result<R, ClientError>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let mut last = ClientError::usage("the client's file names no agent");
        for (name, agent) in &self.launches {
            match ask(agent.clone()).await {
                Ok(reply) => return Ok(reply.into_inner()),
                Err(status) => {
                    last = ClientError::call(format!("agent {name}"), &status);
                    if !super::is_unavailable(&status) {
                        break;
                    }
                }
            }
        }
        Err(last)
    }

    /// The subjobs of launches at a server: the caller's, or all for an operator.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub async fn held_subjobs(&self, server: &Name) -> Result<HeldSubjobs, ClientError> {
        let reply =
            self.held_subjobs_client(server).await?.list(self.request(proto::HeldSubjobsRequest {})).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        HeldSubjobs::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Ends a subjob whose agent does not; for operators.
    ///
    /// # Errors
    ///
    /// If the caller is no operator, the subjob does not exist, or the server does not answer.
    pub async fn give_up_subjob(&self, server: &Name, subjob: &SubjobId) -> Result<SubjobState, ClientError> {
        let reply = self
            .held_subjobs_client(server)
            .await?
            .give_up(self.request(proto::SubjobId::from(subjob)))
            .await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        SubjobState::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    async fn held_subjobs_client(&self, server: &Name) -> Result<HeldSubjobsClient<Channel>, ClientError> {
        let channel = self.channel_named(server).await?;
        Ok(HeldSubjobsClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX))
    }

    /// The agent that coordinates a launch.
    fn launches_at(&self, launch: &LaunchId) -> Result<(String, LaunchesClient<Channel>), ClientError> {
        let found = self.launches.iter().find(|(name, _)| *name == launch.agent);
        let (name, agent) = found.ok_or_else(|| {
            ClientError::usage(format!(
                "expected a launch of an agent that the client's file names, found one of `{}`",
                launch.agent
            ))
        })?;
        Ok((format!("agent {name}"), agent.clone()))
    }
}

/// Calls about one launch.
struct LaunchConnection<'a> {
    client: &'a Client,
    /// The index of the agent that is called.
    agent: usize,
    /// The agent may have the launch: no other one is called.
    sent: bool,
}

impl LaunchConnection<'_> {
    async fn launch(&mut self, request: &LaunchRequest) -> LaunchUpdate {
        let Some((name, agent)) = self.client.launches.get(self.agent) else {
            return LaunchUpdate::Refused("the client's file names no agent".to_owned());
        };
        let signed = match self.client.sign_tasks(request.key, request.application.tasks.iter(), name) {
            Ok(signed) => signed,
            Err(error) => return LaunchUpdate::Refused(error.to_string()),
        };
        let message = proto::LaunchRequest::from(&LaunchRequest { signed: Some(signed), ..request.clone() });
        let reply = agent.clone().launch(self.client.request(message)).await;
        if let Err(status) = &reply
            && let Some(error) = not_sent(status)
        {
            if !self.sent {
                self.agent = (self.agent + 1) % self.client.launches.len();
            }
            return LaunchUpdate::Silent(error.to_string());
        }
        self.sent = true;
        update(reply.map(Response::into_inner))
    }

    async fn find(&self, request: &LaunchRequest) -> LaunchUpdate {
        let (id, mut agent) = self.of(request);
        match agent.get(self.client.request(id)).await {
            Ok(reply) => match LaunchRecord::try_from(reply.into_inner()) {
                Ok(record) => LaunchUpdate::Launch(Box::new(record)),
                Err(malformed) => LaunchUpdate::Silent(malformed.to_string()),
            },
            Err(status) if is_missing(&status) => LaunchUpdate::NoSuchLaunch,
            Err(status) => LaunchUpdate::Silent(status.message().to_owned()),
        }
    }

    async fn cancel(&self, request: &LaunchRequest) -> LaunchUpdate {
        let (id, mut agent) = self.of(request);
        match agent.cancel(self.client.request(id)).await {
            Err(status) if is_missing(&status) => LaunchUpdate::NoSuchLaunch,
            reply => update(reply.map(Response::into_inner)),
        }
    }

    fn of(&self, request: &LaunchRequest) -> (proto::LaunchId, LaunchesClient<Channel>) {
        let (name, agent) = &self.client.launches[self.agent];
        let id = LaunchId { agent: name.clone(), key: request.key };
        ((&id).into(), agent.clone())
    }
}

/// The update that a reply means.
fn update(reply: Result<proto::LaunchReply, Status>) -> LaunchUpdate {
    match reply.map(launch_answer) {
        Ok(Ok(Ok(record))) => LaunchUpdate::Launch(Box::new(record)),
        Ok(Ok(Err(why))) => LaunchUpdate::Refused(why),
        Ok(Err(malformed)) => LaunchUpdate::Silent(malformed.to_string()),
        Err(status) if is_refusal(&status) => LaunchUpdate::Refused(status.message().to_owned()),
        Err(status) => LaunchUpdate::Silent(status.message().to_owned()),
    }
}

/// True if the same call would be refused again.
fn is_refusal(status: &Status) -> bool {
    !is_broken(status)
        && matches!(
            status.code(),
            Code::InvalidArgument
                | Code::FailedPrecondition
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::Unimplemented
                | Code::OutOfRange
        )
}

fn is_missing(status: &Status) -> bool {
    !is_broken(status) && status.code() == Code::NotFound
}

/// The error of a call about a launch.
fn failed(agent: &str, status: &Status) -> ClientError {
    ClientError::call(agent, status).if_missing("`pliant launch list` lists yours")
}

fn accepted(
    agent: &str,
    reply: Result<Response<proto::LaunchReply>, Status>,
) -> Result<LaunchRecord, ClientError> {
    let reply = reply.map_err(|status| failed(agent, &status))?;
    let answer = launch_answer(reply.into_inner()).map_err(ClientError::protocol)?;
    answer.map_err(ClientError::usage)
}

fn ended(outcome: LaunchOutcome) -> Result<LaunchRecord, ClientError> {
    match outcome {
        LaunchOutcome::Over(record) => Ok(record),
        LaunchOutcome::Refused(why) => Err(ClientError::usage(why)),
        LaunchOutcome::Unknown(why) => Err(ClientError::unavailable(format!(
            "the connection to the agent broke ({why}): it may have accepted the launch"
        ))
        .with_hint("launch again with the same key: the agent does not accept it a second time")),
    }
}
