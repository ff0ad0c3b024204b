//! The client library, which the command line uses for every call.

mod admin;
pub mod calls;
mod changes;
mod client_file;
mod driver;
mod error;
mod explorations;
mod files;
mod gathering;
mod history;
mod identity;
mod launch_results;
mod launches;
mod number_in_output;
mod parameters;
mod placement;
mod poll;
mod same_executable;
mod servers;
mod signing;
mod submit;
mod submitted;
mod sweeps;
mod task_files;
mod waiting;
mod work_error;
mod work_folder;
mod work_reader;
mod work_registry;
mod work_view;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::agent::{DiscoveryResult, DiscoverySubject, ReallocationConfig, ReallocationReport};
use pliant_control::explain::Explanation;
use pliant_control::job::JobRecord;
use pliant_control::multi_job::Expectation;
use pliant_control::names::{Handle, Name};
use pliant_model::Time;
use pliant_telemetry::RequestId;
use pliant_transport::{ClientTls, Identity, Role, Timeouts, channel};
use pliant_transport::{Clock, Connections};
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::proto::launches_client::LaunchesClient;
use pliant_wire::{
    self as wire, Accuracy, AccuracyQuery, Federation, JobMove, JobsPage, JobsQuery, LocatedJob,
    MovingChange, Offer, Runtimes, bounds, proto,
};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

pub use client_file::ClientFile;
pub use error::ClientError;
pub use explorations::{
    ExplorationCalls, ExplorationFolder, ExplorationSpec, ExplorationStatus, ExplorationUpdate,
    ExplorationView, Explorer, PlatformUsage, RequestEvent, RequestProgress, RequestRecord, ServerRequests,
};
pub use files::send_pieces;
pub use history::History;
pub use launch_results::{FetchStep, FetchedLaunch, has_run};
pub use parameters::{
    ParameterError, ParameterRange, ParameterRangeError, ParameterSpace, ParameterTable, ParameterTableError,
};
pub use placement::{PlacementReason, placement_reason};
pub use submit::{SubmissionStep, SubmitOrder, without_estimate};
pub use submitted::{InputState, SubmittedInput};
pub use sweeps::{
    InstanceFacts, InstanceRecord, InstanceState, ServerInstances, SweepFolder, SweepPreview, SweepResults,
    SweepSpec, SweepStatus, SweepView, Sweeper,
};
pub use task_files::{InputPaths, InputSender};
pub use work_error::{ServerRefusal, WorkError};
pub use work_folder::FolderError;
pub use work_reader::is_worked_on;
pub use work_registry::{RegisteredFolder, WorkRegistry};
pub use work_view::{WorkView, work_written};

/// How long a call may take.
const CALL: Duration = Duration::from_secs(40);
/// How long a reallocation cycle may take, with its moves.
const REALLOCATION: Duration = Duration::from_secs(600);
/// What becomes of a job that its server does not know any more.
const LOST: &str =
    "if the server has lost its journal, the agent ends the job ten minutes after the server is back";
/// What becomes of a job whose server is down.
const DOWN: &str = "if the server does not come back, an operator may declare it lost, which ends its jobs";
/// How often the agent is asked for such a job.
const DOWN_POLL: Duration = Duration::from_millis(500);
/// How often the agent is asked for a job that its server does not know.
const LOST_POLL: Duration = Duration::from_secs(2);

/// The longest answer, in bytes: more than the longest list of results.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A user's way into the federation.
#[derive(Clone)]
pub struct Client {
    agents: Vec<(Name, AgentClient<Channel>)>,
    /// The same agents, for launches.
    launches: Vec<(Name, LaunchesClient<Channel>)>,
    /// Connections to servers.
    servers: Connections,
    /// The servers of jobs that were moved.
    job_servers: Arc<Mutex<HashMap<Handle, Name>>>,
    tls: Arc<ClientTls>,
    request: RequestId,
    /// How many submissions and waits of calls may be under way.
    call_turns: Arc<calls::CallTurns>,
    /// The submissions that go several in a message.
    gathered: Option<Arc<gathering::Gathered>>,
}

impl Client {
    /// A client with a user's certificate; connects with its first call.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be used.
    pub fn new(file: &ClientFile) -> Result<Client, ClientError> {
        let tls = Arc::new(ClientTls::load(&file.tls).map_err(ClientError::tls)?);
        let agent = |agent: &pliant_transport::AgentAddress| {
            let identity = Identity::new(Role::Agent, agent.name.as_str()).map_err(ClientError::usage)?;
            let channel = channel(&agent.address, &identity, tls.clone(), &Timeouts::default());
            let launches = LaunchesClient::new(channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX);
            let agents = AgentClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
            Ok(((agent.name.clone(), agents), (agent.name.clone(), launches)))
        };
        let both = file.agent.iter().map(agent).collect::<Result<Vec<_>, ClientError>>()?;
        let (agents, launches) = both.into_iter().unzip();
        Ok(Client {
            agents,
            launches,
            servers: Connections::new(Role::Server, tls.clone()),
            job_servers: Arc::default(),
            tls,
            request: RequestId::fresh(),
            call_turns: Arc::default(),
            gathered: None,
        })
    }

    /// The ID of this client's calls in the logs of daemons.
    pub fn request_id(&self) -> RequestId {
        self.request
    }

    /// Discovers the servers that would complete the work first, the best one first.
    pub async fn discover(
        &self,
        what: &DiscoverySubject,
        best: u32,
        only: Option<&Name>,
    ) -> Result<DiscoveryResult, ClientError> {
        let request = wire::discover(what, best, only);
        let request = match &self.gathered {
            None => request,
            Some(gathered) => match gathered.discover(self, request).await {
                Some(found) => return found,
                None => wire::discover(what, best, only),
            },
        };
        let reply =
            self.ask_agent(request, |mut agent, request| async move { agent.discover(request).await });
        let found =
            reply.await?.found.ok_or_else(|| ClientError::protocol("found: expected it, found none"))?;
        DiscoveryResult::try_from(found).map_err(ClientError::protocol)
    }

    /// Every server and local agent of the federation.
    pub async fn servers(&self) -> Result<Federation, ClientError> {
        let request = proto::ServersRequest {};
        let reply = self.ask_agent(request, |mut agent, request| async move { agent.servers(request).await });
        Federation::try_from(reply.await?).map_err(ClientError::protocol)
    }

    /// A page of jobs, the last to be submitted first.
    pub async fn jobs(&self, query: &JobsQuery) -> Result<JobsPage, ClientError> {
        let request = proto::JobsRequest::from(query);
        let reply = self.ask_agent(request, |mut agent, request| async move { agent.jobs(request).await });
        JobsPage::try_from(reply.await?).map_err(ClientError::protocol)
    }

    /// Jobs of as many pages as it takes, the last to be submitted first: at most `most`, whatever the limit of the query.
    pub async fn newest_jobs(&self, mut query: JobsQuery, most: usize) -> Result<JobsPage, ClientError> {
        let mut jobs = Vec::new();
        loop {
            query.limit = (most - jobs.len()).min(bounds::JOBS_MAX) as u32;
            let mut page = self.jobs(&query).await?;
            let is_last = page.next.is_none() || page.jobs.is_empty();
            jobs.append(&mut page.jobs);
            if is_last || jobs.len() >= most {
                return Ok(JobsPage { jobs, ..page });
            }
            query.before = page.next;
        }
    }

    /// How accurate the estimates of servers were: those of their last jobs, and by day.
    pub async fn accuracy(&self, query: AccuracyQuery) -> Result<Vec<Accuracy>, ClientError> {
        let request = proto::AccuracyRequest::from(&query);
        let reply =
            self.ask_agent(request, |mut agent, request| async move { agent.accuracy(request).await });
        wire::accuracies(reply.await?).map_err(ClientError::protocol)
    }

    /// The runtimes of jobs that have ended.
    pub async fn runtimes(&self) -> Result<Runtimes, ClientError> {
        let request = proto::RuntimesRequest {};
        let reply =
            self.ask_agent(request, |mut agent, request| async move { agent.runtimes(request).await });
        Runtimes::try_from(reply.await?).map_err(ClientError::protocol)
    }

    /// The expected runtime of a job of a service, by the jobs that have ended below the agent.
    pub async fn expectation(&self, service: &str) -> Result<Option<Expectation>, ClientError> {
        let request = proto::ExpectationRequest { service: service.to_owned() };
        let reply =
            self.ask_agent(request, |mut agent, request| async move { agent.expectation(request).await });
        wire::expectation_reply(reply.await?).map_err(ClientError::protocol)
    }

    /// The agent's record of a job, and the address of its server.
    pub async fn find(&self, handle: &Handle) -> Result<LocatedJob, ClientError> {
        let request = proto::FindJobRequest { handle: handle.to_string() };
        let reply =
            self.ask_agent(request, |mut agent, request| async move { agent.find_job(request).await });
        LocatedJob::try_from(reply.await?).map_err(ClientError::protocol)
    }

    /// The record of a job: the server's, or the agent's if the server is down.
    pub async fn job(&self, handle: &Handle) -> Result<JobRecord, ClientError> {
        loop {
            let record = match self.server_of(handle).await {
                Ok(mut server) => match server.job(self.request(wire::job_request(handle))).await {
                    Ok(reply) => JobRecord::try_from(reply.into_inner()).map_err(ClientError::protocol)?,
                    Err(status) if is_unavailable(&status) => return Ok(self.find(handle).await?.record),
                    Err(status) => {
                        return self.agent_record(handle, self.server_failed(handle, &status)).await;
                    }
                },
                Err(error) if error.may_pass() => return Ok(self.find(handle).await?.record),
                Err(error) => return Err(error),
            };
            if self.is_there(&record) {
                return Ok(record);
            }
        }
    }

    /// The agent's record of a job whose server is down or does not know it: the server may have a new journal.
    async fn agent_record(&self, handle: &Handle, error: ClientError) -> Result<JobRecord, ClientError> {
        if !error.is_missing() && !error.is_down() {
            return Err(error);
        }
        self.find(handle).await.map(|located| located.record).map_err(|_| error)
    }

    /// Withdraws a waiting job or ends a running one. Of a job that its server has lost, the record once the agent knows that.
    pub async fn cancel(&self, handle: &Handle) -> Result<JobRecord, ClientError> {
        loop {
            let job = match self.server_of(handle).await {
                Ok(mut server) => {
                    let reply = server.cancel(self.request(wire::job_request(handle))).await;
                    reply.map_err(|status| self.server_failed(handle, &status))
                }
                Err(error) => Err(error),
            };
            let job = match job {
                Ok(job) => job,
                Err(error) => {
                    let record = self.agent_record(handle, error.clone()).await?;
                    let is_final = record.state.is_final();
                    return if is_final { Ok(record) } else { Err(without_server(error)) };
                }
            };
            let record = JobRecord::try_from(job.into_inner()).map_err(ClientError::protocol)?;
            if self.is_there(&record) {
                return Ok(record);
            }
        }
    }

    /// Withdraws a job if it waits. The returned record shows whether it was withdrawn.
    pub async fn withdraw(&self, handle: &Handle) -> Result<JobRecord, ClientError> {
        let mut server = self.server_of(handle).await?;
        let reply = server.withdraw(self.request(wire::job_request(handle))).await;
        let job = reply.map_err(|status| self.server_failed(handle, &status))?;
        JobRecord::try_from(job.into_inner()).map_err(ClientError::protocol)
    }

    /// Explains why a job is at its server, or why it waits.
    pub async fn explain(&self, handle: &Handle) -> Result<Explanation, ClientError> {
        loop {
            let reply = match self.server_of(handle).await {
                Ok(mut server) => {
                    let reply = server.explain(self.request(wire::job_request(handle))).await;
                    reply.map_err(|status| self.server_failed(handle, &status))
                }
                Err(error) => Err(error),
            };
            let reply = match reply {
                Ok(reply) => reply,
                Err(error) => {
                    let record = self.agent_record(handle, error.clone()).await?;
                    let unplanned = (!record.state.is_final()).then(|| match error.is_down() {
                        true => format!("its server is down, and this is what the agent knows; {DOWN}"),
                        false => format!("its server does not know it; {LOST}"),
                    });
                    return Ok(Explanation {
                        record,
                        at: Clock::start(Time(0)).now(),
                        waits: None,
                        unplanned,
                    });
                }
            };
            let found = Explanation::try_from(reply.into_inner()).map_err(ClientError::protocol)?;
            if self.is_there(&found.record) {
                return Ok(found);
            }
        }
    }

    /// The moves of the caller's jobs, or of all jobs for an operator, newest first.
    pub async fn moves(&self, all: bool, limit: u32) -> Result<Vec<JobMove>, ClientError> {
        let request = proto::MovesRequest { all, limit };
        let reply = self.ask_agent(request, |mut agent, request| async move { agent.moves(request).await });
        wire::moves(reply.await?).map_err(ClientError::protocol)
    }

    /// The reallocation policy, if waiting jobs are moved.
    pub async fn moving(&self) -> Result<Option<ReallocationConfig>, ClientError> {
        self.ask_about_moving(None).await
    }

    /// Changes the reallocation policy; for operators.
    pub async fn change_moving(
        &self,
        change: &MovingChange,
    ) -> Result<Option<ReallocationConfig>, ClientError> {
        self.ask_about_moving(Some(change)).await
    }

    async fn ask_about_moving(
        &self,
        change: Option<&MovingChange>,
    ) -> Result<Option<ReallocationConfig>, ClientError> {
        let request = wire::moving_request(change);
        let reply = self.ask_agent(request, |mut agent, request| async move { agent.moving(request).await });
        wire::moving_reply(reply.await?).map_err(ClientError::protocol)
    }

    /// Starts a reallocation cycle; for operators. A dry run moves no job.
    pub async fn reallocate(&self, dry_run: bool) -> Result<ReallocationReport, ClientError> {
        self.reallocation_cycle(proto::ReallocateRequest { dry_run, policy: None }).await
    }

    /// A dry run of a reallocation cycle under that policy; for operators.
    pub async fn would_reallocate(
        &self,
        moving: &ReallocationConfig,
    ) -> Result<ReallocationReport, ClientError> {
        self.reallocation_cycle(proto::ReallocateRequest { dry_run: true, policy: Some(moving.into()) }).await
    }

    async fn reallocation_cycle(
        &self,
        request: proto::ReallocateRequest,
    ) -> Result<ReallocationReport, ClientError> {
        let ask = |mut agent: AgentClient<Channel>, mut request: Request<proto::ReallocateRequest>| async move {
            request.set_timeout(REALLOCATION);
            agent.reallocate(request).await
        };
        ReallocationReport::try_from(self.ask_agent(request, ask).await?).map_err(ClientError::protocol)
    }

    /// Waits until a job has ended, and reports each change of its state. Survives restarts of the server.
    pub async fn wait(
        &self,
        handle: &Handle,
        mut changed: impl FnMut(&JobRecord),
    ) -> Result<JobRecord, ClientError> {
        let mut reported = None;
        loop {
            let mut stream = match self.watch(handle).await {
                Ok(stream) => stream,
                Err(error) => {
                    let may_pass = error.may_pass();
                    let record = match self.agent_record(handle, error).await {
                        Ok(record) => record,
                        Err(_) if may_pass => {
                            tokio::time::sleep(Duration::from_millis(500)).await;
                            continue;
                        }
                        Err(error) => return Err(error),
                    };
                    if reported != Some(record.state) {
                        reported = Some(record.state);
                        changed(&record);
                    }
                    if record.state.is_final() {
                        return Ok(record);
                    }
                    // Its server comes back with its journal, or the agent ends the job.
                    tokio::time::sleep(if may_pass { DOWN_POLL } else { LOST_POLL }).await;
                    continue;
                }
            };
            while let Ok(Some(job)) = stream.message().await {
                let record = JobRecord::try_from(job).map_err(ClientError::protocol)?;
                if !self.is_there(&record) {
                    break;
                }
                if reported != Some(record.state) {
                    reported = Some(record.state);
                    changed(&record);
                }
                if record.state.is_final() {
                    return Ok(record);
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn watch(&self, handle: &Handle) -> Result<Streaming<proto::Job>, ClientError> {
        let mut server = self.server_of(handle).await?;
        // A stream has no deadline: a job may take days.
        let mut request = Request::new(wire::job_request(handle));
        self.request.add_to_call(request.metadata_mut());
        let reply = server.watch(request).await;
        Ok(reply.map_err(|status| self.server_failed(handle, &status))?.into_inner())
    }

    /// The services of a server.
    pub async fn offer(&self, name: &Name, address: &str) -> Result<Offer, ClientError> {
        let reply = self.server(name, address)?.services(self.request(proto::ServicesRequest {})).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {name}"), &status))?;
        Offer::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Asks the first agent that is up.
    async fn ask_agent<Q, A, F, C>(&self, question: Q, call: C) -> Result<A, ClientError>
    where
        Q: Clone,
        C: Fn(AgentClient<Channel>, Request<Q>) -> F,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let mut last = ClientError::usage("the client's file names no agent");
        for (name, agent) in &self.agents {
            match call(agent.clone(), self.request(question.clone())).await {
                Ok(reply) => return Ok(reply.into_inner()),
                Err(status) => {
                    let unavailable = is_unavailable(&status);
                    last = ClientError::call(format!("agent {name}"), &status);
                    if !unavailable {
                        break;
                    }
                }
            }
        }
        Err(last)
    }

    /// A call with a deadline and the request ID.
    fn request<Q>(&self, question: Q) -> Request<Q> {
        self.request_within(question, CALL)
    }

    /// A call with another deadline.
    fn request_within<Q>(&self, question: Q, limit: Duration) -> Request<Q> {
        let mut request = Request::new(question);
        request.set_timeout(limit);
        self.request.add_to_call(request.metadata_mut());
        request
    }
}

/// Adds to the error of a call about a job what will become of the job.
fn without_server(error: ClientError) -> ClientError {
    let hint = if error.is_down() { DOWN } else { LOST };
    error.with_hint(hint)
}

/// True if the daemon is down or does not answer.
fn is_unavailable(status: &Status) -> bool {
    error::is_broken(status) || status.code() == tonic::Code::Unavailable
}
