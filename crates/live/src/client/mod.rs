//! The client library: everything that the command line does, it does through this.

mod error;
mod files;
mod submit;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pliant_control::access::Caller;
use pliant_control::agent::{Found, What};
use pliant_control::explain::Explanation;
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::agent::driver::locked;
use crate::config::ClientFile;
use crate::identity::{ClientTls, Identity, Role, Timeouts, channel};
use crate::telemetry::RequestId;
use crate::wire::proto::agent_client::AgentClient;
use crate::wire::proto::server_client::ServerClient;
use crate::wire::{self, Accuracy, Federation, JobsPage, JobsQuery, LocatedJob, Offer, proto};

pub use error::ClientError;
pub use submit::{Order, Step};

/// How long a call may take.
const CALL: Duration = Duration::from_secs(40);

/// The longest answer, in bytes: more than the longest list of results.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Servers that were talked to, by name and address.
type Servers = HashMap<(Name, String), ServerClient<Channel>>;

/// A user's way into the federation.
#[derive(Clone)]
pub struct Client {
    agents: Vec<(Name, AgentClient<Channel>)>,
    servers: Arc<Mutex<Servers>>,
    tls: Arc<ClientTls>,
    request: RequestId,
}

impl Client {
    /// A client with a user's certificate; connects with its first call.
    ///
    /// # Errors
    ///
    /// If the certificate cannot be used.
    pub fn new(file: &ClientFile) -> Result<Client, ClientError> {
        let tls = Arc::new(ClientTls::load(&file.tls).map_err(ClientError::tls)?);
        let agent = |agent: &crate::config::AgentAddress| {
            let identity = Identity::new(Role::Agent, agent.name.as_str()).map_err(ClientError::usage)?;
            let channel = channel(&agent.address, &identity, tls.clone(), &Timeouts::default());
            Ok((agent.name.clone(), AgentClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX)))
        };
        let agents = file.agent.iter().map(agent).collect::<Result<Vec<_>, ClientError>>()?;
        Ok(Client { agents, servers: Arc::default(), tls, request: RequestId::fresh() })
    }

    /// Who the certificate says that we are.
    pub fn user(&self) -> String {
        self.tls.own().name.clone()
    }

    /// Ties the log lines of this client's calls together.
    pub fn request_id(&self) -> RequestId {
        self.request
    }

    /// Who we are to a machine in the same process; for tests of access.
    pub fn caller(&self) -> Option<Caller> {
        let own = self.tls.own();
        Some(Caller { user: own.name.parse().ok()?, operator: own.role == Role::Operator })
    }

    /// The servers that would complete something first, best first.
    pub async fn discover(&self, what: &What, best: u32, only: Option<&Name>) -> Result<Found, ClientError> {
        let request = wire::discover(what, best, only);
        let reply =
            self.ask_agent(request, |mut agent, request| async move { agent.discover(request).await });
        let found =
            reply.await?.found.ok_or_else(|| ClientError::protocol("found: expected it, found none"))?;
        Found::try_from(found).map_err(ClientError::protocol)
    }

    /// Every server and local agent of the federation.
    pub async fn servers(&self) -> Result<Federation, ClientError> {
        let request = proto::ServersRequest {};
        let reply = self.ask_agent(request, |mut agent, request| async move { agent.servers(request).await });
        Federation::try_from(reply.await?).map_err(ClientError::protocol)
    }

    /// Jobs, newest first.
    pub async fn jobs(&self, query: &JobsQuery) -> Result<JobsPage, ClientError> {
        let request = proto::JobsRequest::from(query);
        let reply = self.ask_agent(request, |mut agent, request| async move { agent.jobs(request).await });
        JobsPage::try_from(reply.await?).map_err(ClientError::protocol)
    }

    /// How far estimates were from what happened.
    pub async fn accuracy(&self, last: u32) -> Result<Vec<Accuracy>, ClientError> {
        let request = proto::AccuracyRequest { last };
        let reply =
            self.ask_agent(request, |mut agent, request| async move { agent.accuracy(request).await });
        wire::accuracies(reply.await?).map_err(ClientError::protocol)
    }

    /// What the agent knows of a job, and where its server is.
    pub async fn find(&self, handle: &Handle) -> Result<LocatedJob, ClientError> {
        let request = proto::FindJobRequest { handle: handle.to_string() };
        let reply =
            self.ask_agent(request, |mut agent, request| async move { agent.find_job(request).await });
        LocatedJob::try_from(reply.await?).map_err(ClientError::protocol)
    }

    /// How a job stands: as its server says, or as the agent last heard if the server is not there.
    pub async fn job(&self, handle: &Handle) -> Result<JobRecord, ClientError> {
        match self.server_of(handle).await {
            Ok(mut server) => match server.job(self.request(wire::job_request(handle))).await {
                Ok(reply) => JobRecord::try_from(reply.into_inner()).map_err(ClientError::protocol),
                Err(status) if is_absent(&status) => Ok(self.find(handle).await?.record),
                Err(status) => self.told_before(handle, self.server_failed(handle, &status)).await,
            },
            Err(error) if error.may_pass() => Ok(self.find(handle).await?.record),
            Err(error) => Err(error),
        }
    }

    /// What the agent has of a job that its server does not know: the server may have another journal since.
    async fn told_before(&self, handle: &Handle, error: ClientError) -> Result<JobRecord, ClientError> {
        if !error.is_missing() {
            return Err(error);
        }
        self.find(handle).await.map(|located| located.record).map_err(|_| error)
    }

    /// Withdraws a waiting job or ends a running one.
    pub async fn cancel(&self, handle: &Handle) -> Result<JobRecord, ClientError> {
        let mut server = self.server_of(handle).await?;
        let reply = server.cancel(self.request(wire::job_request(handle))).await;
        let job = reply.map_err(|status| self.server_failed(handle, &status))?;
        JobRecord::try_from(job.into_inner()).map_err(ClientError::protocol)
    }

    /// Why a job is where it is, or why it waits.
    pub async fn explain(&self, handle: &Handle) -> Result<Explanation, ClientError> {
        let mut server = self.server_of(handle).await?;
        let reply = server.explain(self.request(wire::job_request(handle))).await;
        let reply = reply.map_err(|status| self.server_failed(handle, &status))?;
        Explanation::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Waits until a job has ended, telling each change. Goes on when its server goes away and comes back.
    pub async fn wait(
        &self,
        handle: &Handle,
        mut changed: impl FnMut(&JobRecord),
    ) -> Result<JobRecord, ClientError> {
        let mut seen = None;
        loop {
            let mut stream = match self.watch(handle).await {
                Ok(stream) => stream,
                Err(error) if error.may_pass() => {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                    continue;
                }
                Err(error) => {
                    let record = self.told_before(handle, error.clone()).await?;
                    if !record.state.is_final() {
                        return Err(error);
                    }
                    changed(&record);
                    return Ok(record);
                }
            };
            while let Ok(Some(job)) = stream.message().await {
                let record = JobRecord::try_from(job).map_err(ClientError::protocol)?;
                if seen != Some(record.state) {
                    seen = Some(record.state);
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

    /// What a server offers.
    pub async fn offer(&self, name: &Name, address: &str) -> Result<Offer, ClientError> {
        let reply = self.server(name, address)?.services(self.request(proto::ServicesRequest {})).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {name}"), &status))?;
        Offer::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Asks the first agent that is there.
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
                    let absent = is_absent(&status);
                    last = ClientError::call(format!("agent {name}"), &status);
                    if !absent {
                        break;
                    }
                }
            }
        }
        Err(last)
    }

    /// A call with its deadline and its id.
    fn request<Q>(&self, question: Q) -> Request<Q> {
        self.request_within(question, CALL)
    }

    /// The same with a deadline of its own.
    fn request_within<Q>(&self, question: Q, limit: Duration) -> Request<Q> {
        let mut request = Request::new(question);
        request.set_timeout(limit);
        self.request.add_to_call(request.metadata_mut());
        request
    }

    async fn server_of(&self, handle: &Handle) -> Result<ServerClient<Channel>, ClientError> {
        let known = {
            let servers = locked(&self.servers);
            servers.iter().find(|((name, _), _)| *name == handle.server).map(|(_, server)| server.clone())
        };
        if let Some(server) = known {
            return Ok(server);
        }
        let address = match self.find(handle).await {
            Ok(located) => located.address,
            // The agent may not have heard of a new job yet; its server knows.
            Err(error) if error.is_missing() => Some(self.address(&handle.server).await.map_err(
                |absent| {
                    if absent.is_missing() { error } else { absent }
                },
            )?),
            Err(error) => return Err(error),
        };
        let address = address.ok_or_else(|| {
            ClientError::absent(format!("server {} is not known to the agent at the moment", handle.server))
        })?;
        self.server(&handle.server, &address)
    }

    /// Where a server is.
    async fn address(&self, name: &Name) -> Result<String, ClientError> {
        let servers = self.servers().await?.servers.into_iter();
        let server = servers.map(|server| server.info).find(|info| info.name == *name);
        let missing = || ClientError::missing(format!("the federation has no server {name}"));
        server.map(|info| info.address).ok_or_else(missing)
    }

    fn server(&self, name: &Name, address: &str) -> Result<ServerClient<Channel>, ClientError> {
        let mut servers = locked(&self.servers);
        let key = (name.clone(), address.to_owned());
        if let Some(server) = servers.get(&key) {
            return Ok(server.clone());
        }
        let identity = Identity::new(Role::Server, name.as_str()).map_err(ClientError::usage)?;
        let channel = channel(address, &identity, self.tls.clone(), &Timeouts::default());
        let server = ServerClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        servers.insert(key, server.clone());
        Ok(server)
    }

    fn server_failed(&self, handle: &Handle, status: &Status) -> ClientError {
        if is_absent(status) {
            // It may come back elsewhere.
            locked(&self.servers).retain(|(name, _), _| *name != handle.server);
        }
        ClientError::call(format!("server {}", handle.server), status)
    }
}

/// True if nobody was there to answer.
fn is_absent(status: &Status) -> bool {
    error::is_broken(status) || status.code() == tonic::Code::Unavailable
}
