//! Explorations: the calls that paper 004 adds to GridRPC. Servers are discovered for a service, not for one request; a request
//! may be optional; a wait for any request has a time limit.
//!
//! [`ExplorationCalls`] has these calls and those of GridRPC; [`Client::calls`] has an example. [`Explorer`] is the dispatcher
//! that most users want: the machine of `pliant_control::optional::explore`, which drives these calls.

mod connection;
mod executor;
mod explorer;
mod folder;
mod pending;
mod request_event;
mod spec;
mod view;
mod waiting_requests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::agent::ExplorationServer;
use pliant_control::names::{Key, Name};
use pliant_control::optional::server::{RequestState, UserShare};
use pliant_control::server_info::OfferedWork;
use pliant_model::TimeMs;
use pliant_policy::optional::Kind;
use pliant_staging::FileSpec;
use pliant_wire::{self as wire, Attempt, Call, Executable, ExplorationRequest, OffersQuery, Shares, proto};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, timeout_at};
use tonic::Request;

use self::connection::{Inputs, ServerCommand, ServerConnection};
use self::waiting_requests::WaitingRequests;
use super::{Client, ClientError};

pub use self::explorer::Explorer;
pub use self::folder::ExplorationFolder;
pub use self::request_event::RequestEvent;
pub use self::spec::{ExplorationSpec, ExplorationStatus, ExplorationUpdate};
pub use self::view::{ExplorationView, RequestProgress, RequestRecord, ServerRequests};

/// A report of the connection to a server.
#[derive(Debug)]
enum ConnectionReport {
    Event(RequestEvent),
    Status { number: u32, state: RequestState },
    Cancelled(Name, Option<u32>),
    Share(Name, UserShare),
}

/// The usage of one server since this client began, in core time.
#[derive(Clone, PartialEq, Debug)]
struct ServerUsage {
    first: UserShare,
    last: UserShare,
}

/// The usage of the platform by this client's user since the client began.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct PlatformUsage {
    /// Core time used, in seconds.
    pub usage_s: f64,
    /// The fair share of core time, in seconds.
    pub fair_share_s: f64,
}

/// The requests of one exploration.
pub struct ExplorationCalls {
    client: Client,
    begin: ExplorationRequest,
    inputs: Arc<Inputs>,
    timeout: Duration,
    addresses: Arc<Mutex<HashMap<Name, String>>>,
    connections: HashMap<Name, UnboundedSender<ServerCommand>>,
    reports: UnboundedReceiver<ConnectionReport>,
    reporter: UnboundedSender<ConnectionReport>,
    /// The server of each open request.
    open: BTreeMap<u32, Name>,
    /// Mandatory requests that no server has answered yet.
    unanswered: BTreeSet<u32>,
    /// Optional requests that wait for these answers.
    waiting: WaitingRequests,
    /// Cancellations that are not acknowledged: of one request, or of all at a server.
    cancelling: BTreeSet<(Name, Option<u32>)>,
    /// Events that were received while another one was awaited.
    backlog: VecDeque<RequestEvent>,
    usage: BTreeMap<Name, ServerUsage>,
}

impl Client {
    /// Discovers at most `most` servers that offer a service, or run scripts, for explorations.
    pub async fn offers(
        &self,
        offered: OfferedWork,
        most: u32,
        exploration: Key,
    ) -> Result<Vec<ExplorationServer>, ClientError> {
        let query = OffersQuery { offered, most, exploration };
        let request = proto::OffersRequest::from(&query);
        let reply = self.ask_agent(request, |mut agent, request| async move { agent.offers(request).await });
        wire::offers(reply.await?).map_err(ClientError::protocol)
    }

    /// The usage of a server's cores for explorations: of the caller, or of all users for an operator.
    pub async fn users(&self, server: &Name, address: &str) -> Result<Shares, ClientError> {
        let reply = self.server(server, address)?.users(self.request(proto::UsersRequest {})).await;
        let reply = reply.map_err(|status| ClientError::call(format!("server {server}"), &status))?;
        Shares::try_from(reply.into_inner()).map_err(ClientError::protocol)
    }

    /// Requests of a service, or of a script with parameters. `exploration` identifies them after a crash; a server that is unreachable for `timeout` is given
    /// up.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::collections::BTreeMap;
    /// use std::path::Path;
    /// use std::time::Duration;
    ///
    /// use pliant_control::names::Key;
    /// use pliant_control::optional::server::RequestState;
    /// use pliant_client::{Client, ClientFile, RequestEvent};
    /// use pliant_policy::optional::Kind;
    /// use pliant_wire::Call;
    /// use tokio::time::Instant;
    ///
    /// let client = Client::new(&ClientFile::read(Path::new("client.toml"))?)?;
    /// let mut calls = client.calls(Key(rand::random()), "simulate", None, Duration::from_secs(20));
    /// let offers = calls.discover(10).await?;
    /// let Some(first) = offers.first() else { return Err("no server offers it".into()) };
    /// let call = |number: u32, kind| {
    ///     let arguments = BTreeMap::from([("seed".to_owned(), number.to_string())]);
    ///     Call { number, kind, attempt: 0, arguments }
    /// };
    /// // One that has to be completed, and one more if cores are free within an hour.
    /// calls.call_async(&first.server, call(0, Kind::Mandatory));
    /// calls.call_async(&first.server, call(1, Kind::Optional));
    /// let until = Instant::now() + Duration::from_secs(3_600);
    /// while calls.open() > 0
    ///     && let Some(event) = calls.wait_any_until(until).await
    /// {
    ///     if let RequestEvent::Ended { number, state: RequestState::Completed, output, .. } = event {
    ///         println!("request {number} wrote {} bytes", output.len());
    ///     }
    /// }
    /// calls.cancel_all(&first.server);
    /// calls.settle(Instant::now() + Duration::from_secs(5)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn calls(
        &self,
        exploration: Key,
        executable: impl Into<Executable>,
        deadline: Option<TimeMs>,
        timeout: Duration,
    ) -> ExplorationCalls {
        let (reporter, reports) = unbounded_channel();
        ExplorationCalls {
            client: self.clone(),
            begin: ExplorationRequest::Begin {
                exploration,
                executable: executable.into(),
                deadline,
                inputs: Vec::new(),
                shares_every_s: 0,
            },
            inputs: Arc::new(Inputs { key: exploration, files: Vec::new() }),
            timeout,
            addresses: Arc::default(),
            connections: HashMap::new(),
            reports,
            reporter,
            open: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            waiting: WaitingRequests::default(),
            cancelling: BTreeSet::new(),
            backlog: VecDeque::new(),
            usage: BTreeMap::new(),
        }
    }

    /// Opens a stream to a server.
    async fn explore(
        &self,
        server: &Name,
        address: &str,
        calls: impl tokio_stream::Stream<Item = proto::ExploreRequest> + Send + 'static,
    ) -> Result<tonic::Streaming<proto::ExploreReply>, tonic::Status> {
        let own = self.server(server, address);
        let mut own = own.map_err(|error| tonic::Status::invalid_argument(error.to_string()))?;
        // A stream has no deadline.
        let mut request = Request::new(calls);
        self.request.add_to_call(request.metadata_mut());
        Ok(own.explore(request).await?.into_inner())
    }
}

impl ExplorationCalls {
    /// Adds files that every request finds in its folder.
    #[must_use]
    pub fn with_inputs(mut self, files: Vec<(FileSpec, PathBuf)>) -> ExplorationCalls {
        let ExplorationRequest::Begin { exploration, inputs, .. } = &mut self.begin else { return self };
        *inputs = files.iter().map(|(spec, _)| spec.clone()).collect();
        self.inputs = Arc::new(Inputs { key: *exploration, files });
        self
    }

    /// Adds the addresses of these servers.
    pub fn know(&mut self, offers: &[ExplorationServer]) {
        let mut addresses = self.addresses.lock();
        addresses.extend(offers.iter().map(|offer| (offer.server.clone(), offer.address.clone())));
    }

    /// Discovers at most `most` servers that offer the service, or run scripts.
    pub async fn discover(&mut self, most: u32) -> Result<Vec<ExplorationServer>, ClientError> {
        let ExplorationRequest::Begin { exploration, executable, .. } = &self.begin else {
            return Ok(Vec::new());
        };
        let found =
            self.client.find_servers(executable.offered(), most, *exploration, &BTreeSet::new()).await;
        let offers = found.offers?;
        found.federation.transpose()?;
        self.know(&offers);
        Ok(offers)
    }

    /// Sends a request to a server that was discovered, and returns at once. The server runs a number once. Mandatory requests
    /// go first: optional ones are sent once servers have answered those, or after a second.
    pub fn call_async(&mut self, server: &Name, call: Call) {
        self.open.insert(call.number, server.clone());
        if call.kind == Kind::Mandatory {
            self.unanswered.insert(call.number);
        } else if !self.unanswered.is_empty() {
            let connection = self.connection(server).clone();
            return self.waiting.hold(server.clone(), call, connection);
        }
        self.send(server, ServerCommand::Call(call));
    }

    /// Sends a request and waits until it is over. Other requests continue.
    pub async fn call(&mut self, server: &Name, call: Call) -> RequestEvent {
        let wanted = call.number;
        self.call_async(server, call);
        loop {
            let event = self.next_event().await;
            let is_it = match &event {
                RequestEvent::Ended { number, .. } | RequestEvent::Refused { number, .. } => {
                    *number == wanted
                }
                RequestEvent::Withdrawn { id, .. } => id.number == wanted,
                RequestEvent::Lost { server: lost, .. } => lost == server,
                RequestEvent::Expected { .. } => false,
            };
            if is_it {
                return event;
            }
            self.backlog.push_back(event);
        }
    }

    /// The state of a request, as its server says; none if it is over, or its server does not answer in time.
    pub async fn probe(&mut self, wanted: u32) -> Option<RequestState> {
        let server = self.open.get(&wanted)?.clone();
        self.send(&server, ServerCommand::Probe(wanted));
        let until = Instant::now() + self.timeout;
        loop {
            let report = timeout_at(until, self.reports.recv()).await.ok()??;
            let found = match report {
                ConnectionReport::Status { number, state } if number == wanted => Some(state),
                _ => None,
            };
            let event = self.apply(report);
            self.backlog.extend(event);
            if found.is_some() {
                return found;
            }
            self.open.get(&wanted)?;
        }
    }

    /// Asks a server what mandatory requests may expect there. An unreachable server never answers.
    pub fn expect(&mut self, server: &Name) {
        self.send(server, ServerCommand::Expect);
    }

    /// Withdraws a request, unless it has started: after [`RequestEvent::Withdrawn`] another server may get it, as the next
    /// attempt. There is no event if it has started.
    pub fn withdraw(&mut self, server: &Name, id: Attempt) {
        self.send(server, ServerCommand::Withdraw(id));
    }

    /// Cancels a request.
    pub fn cancel(&mut self, server: &Name, id: impl Into<Attempt>) {
        let id @ Attempt { number, .. } = id.into();
        if self.open.get(&number) == Some(server) {
            self.open.remove(&number);
            self.answered(number);
        }
        if self.waiting.forget(server, number) {
            return;
        }
        self.cancelling.insert((server.clone(), Some(number)));
        self.send(server, ServerCommand::Cancel(id));
    }

    /// Cancels a request that an earlier client of this exploration called. Its outcome is reported: ended, if it was over, or
    /// withdrawn.
    pub fn recall(&mut self, server: &Name, call: Call) {
        self.open.insert(call.number, server.clone());
        self.cancelling.insert((server.clone(), Some(call.number)));
        self.send(server, ServerCommand::Recall(call));
    }

    /// Cancels all requests at a server.
    pub fn cancel_all(&mut self, server: &Name) {
        self.close_requests(server);
        self.cancelling.insert((server.clone(), None));
        self.send(server, ServerCommand::CancelAll);
    }

    /// Waits for the next event of a request, at most until then.
    pub async fn wait_any_until(&mut self, until: Instant) -> Option<RequestEvent> {
        timeout_at(until, self.wait_any()).await.ok()
    }

    /// Waits for the next event of a request. The future may be dropped while it waits.
    pub async fn wait_any(&mut self) -> RequestEvent {
        match self.backlog.pop_front() {
            Some(event) => event,
            None => self.next_event().await,
        }
    }

    /// Waits until all requests are over.
    pub async fn wait_all(&mut self) -> Vec<RequestEvent> {
        let mut all = Vec::new();
        while !self.open.is_empty() || !self.backlog.is_empty() {
            all.push(self.wait_any().await);
        }
        all
    }

    /// Waits until all cancellations are acknowledged, at most until then. True if they are.
    pub async fn settle(&mut self, until: Instant) -> bool {
        while !self.cancelling.is_empty() {
            match timeout_at(until, self.reports.recv()).await {
                Ok(Some(report)) => {
                    let event = self.apply(report);
                    self.backlog.extend(event);
                }
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }

    /// True if a cancellation is not acknowledged.
    pub fn cancels(&self) -> bool {
        !self.cancelling.is_empty()
    }

    /// Requests that are not over.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Servers that have accepted requests.
    pub fn servers(&self) -> usize {
        self.usage.len()
    }

    /// The usage of the platform since this client began.
    pub fn platform(&self) -> PlatformUsage {
        let mut platform = PlatformUsage::default();
        for ServerUsage { first, last } in self.usage.values() {
            platform.usage_s += (last.share.usage - first.share.usage).0 as f64 / 1e3;
            platform.fair_share_s += (last.share.fair_share - first.share.fair_share).0 as f64 / 1e3;
        }
        platform
    }

    /// Waits for the next event that connections report.
    async fn next_event(&mut self) -> RequestEvent {
        loop {
            // One of its ends is ours: it is never closed.
            let report = self.reports.recv().await.expect("the reporter is kept with its receiver");
            if let Some(event) = self.apply(report) {
                return event;
            }
        }
    }

    /// A server has answered a request, or the answer is not awaited any more.
    fn answered(&mut self, number: u32) {
        if self.unanswered.remove(&number) && self.unanswered.is_empty() {
            self.waiting.release();
        }
    }

    /// No request at a server is open any more.
    fn close_requests(&mut self, server: &Name) {
        self.waiting.forget_all(server);
        let there = self.open.extract_if(.., |_, at| at == server).map(|(number, _)| number);
        for number in there.collect::<Vec<u32>>() {
            self.answered(number);
        }
    }

    fn apply(&mut self, report: ConnectionReport) -> Option<RequestEvent> {
        match report {
            ConnectionReport::Event(event) => {
                match &event {
                    RequestEvent::Expected { .. } => {}
                    RequestEvent::Ended { number, server, .. }
                    | RequestEvent::Refused { number, server, .. }
                    | RequestEvent::Withdrawn { id: Attempt { number, .. }, server } => {
                        self.answered(*number);
                        if self.open.get(number) == Some(server) {
                            self.open.remove(number);
                        }
                    }
                    RequestEvent::Lost { server, .. } => {
                        self.close_requests(server);
                        self.cancelling.retain(|(at, _)| at != server);
                    }
                }
                return Some(event);
            }
            ConnectionReport::Status { number, .. } => self.answered(number),
            ConnectionReport::Cancelled(server, number) => {
                self.cancelling.remove(&(server, number));
            }
            ConnectionReport::Share(server, share) => {
                let usage = self.usage.entry(server);
                usage
                    .and_modify(|usage| usage.last = share.clone())
                    .or_insert(ServerUsage { first: share.clone(), last: share });
            }
        }
        None
    }

    fn send(&mut self, server: &Name, order: ServerCommand) {
        // A connection ends with the sender of its commands.
        let _ = self.connection(server).send(order);
    }

    /// The connection to a server, opened if there is none.
    fn connection(&mut self, server: &Name) -> &UnboundedSender<ServerCommand> {
        let new = || {
            let (sender, orders) = unbounded_channel();
            let begin = connection::begin_among(&self.begin, self.addresses.lock().len());
            let (client, inputs) = (self.client.clone(), self.inputs.clone());
            let connection = ServerConnection::new(client, server.clone(), begin, inputs, self.timeout);
            tokio::spawn(connection.keep(self.addresses.clone(), orders, self.reporter.clone()));
            sender
        };
        self.connections.entry(server.clone()).or_insert_with(new)
    }
}
