//! What a server asks its parent before it starts anything: up to where the parent has kept its status updates, and what it knows of the
//! jobs of a journal that was put back.

use std::sync::Arc;

use pliant_control::agent::{ChildKind, DiscoveryResult};
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name};
use pliant_control::reason::Cause;
use pliant_control::server_info::ServerInfo;
use pliant_transport::{AgentAddress, ClientTls, Identity, Role, Timeouts, channel};
use pliant_wire::bounds::RESTORED_JOBS_MAX;
use pliant_wire::{FromChild, FromParent, proto};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use super::{HEARTBEAT, SILENCE, WINDOW, broken};

/// How many heartbeats the numbers of jobs may take: the agents above are asked as well.
const NUMBERS_WITHIN: u32 = 15;

/// A server that asks.
pub(crate) struct Inquiry {
    /// Itself.
    pub(crate) info: ServerInfo,
    /// The number of its journal for the parent.
    pub(crate) journal: u64,
    /// With which certificate.
    pub(crate) tls: Arc<ClientTls>,
}

/// What a parent knows of what has happened since a copy of a journal was made.
#[derive(Default)]
pub(crate) struct SinceCopy {
    /// The last status update that it has kept of that journal; 0 if it has never been the server's parent.
    pub(crate) kept: u64,
    /// The highest number of the server's jobs that the agents know.
    pub(crate) highest: u32,
    /// Its records of the jobs of the copy.
    pub(crate) known: Vec<JobRecord>,
    /// Its records of jobs that were submitted later, by number.
    pub(crate) later: Vec<JobRecord>,
}

impl SinceCopy {
    /// Adds what another master knows, which is of other users' jobs.
    pub(crate) fn join(&mut self, other: SinceCopy) {
        self.kept = self.kept.max(other.kept);
        self.highest = self.highest.max(other.highest);
        self.known.extend(other.known);
        self.later.extend(other.later);
        self.later.sort_by_key(|record| record.handle.number);
    }
}

/// A connection over which the parent has answered the greeting.
struct Answering {
    name: Name,
    up: mpsc::Sender<proto::Up>,
    down: Streaming<proto::Down>,
}

impl Inquiry {
    /// The last status update that a parent has kept of the journal.
    ///
    /// # Errors
    ///
    /// The parent is not there, or does not answer.
    pub(crate) async fn kept(&self, parent: &AgentAddress) -> Result<u64, Status> {
        let (answering, kept) = self.greet(parent).await?;
        answering.close().await;
        Ok(kept)
    }

    /// What a parent knows of what has happened since a copy was made: of these jobs, and of those with numbers above.
    ///
    /// # Errors
    ///
    /// The parent is not there, or does not answer.
    pub(crate) async fn since_copy(
        &self,
        parent: &AgentAddress,
        jobs: &[Handle],
        last: u32,
    ) -> Result<SinceCopy, Status> {
        let (mut answering, kept) = self.greet(parent).await?;
        let mut known = Vec::new();
        for jobs in jobs.chunks(RESTORED_JOBS_MAX) {
            known.extend(answering.known(jobs.to_vec(), None).await?);
        }
        let mut later: Vec<JobRecord> = Vec::new();
        loop {
            let after = later.last().map_or(last, |record| record.handle.number);
            let next = answering.known(Vec::new(), Some(after)).await?;
            let higher = next.into_iter().filter(|record| record.handle.number > after);
            let before = later.len();
            later.extend(higher);
            if later.len() == before {
                break;
            }
        }
        let highest = answering.numbers().await?;
        answering.close().await;
        Ok(SinceCopy { kept, highest, known, later })
    }

    async fn greet(&self, parent: &AgentAddress) -> Result<(Answering, u64), Status> {
        let expected = Identity::new(Role::Agent, parent.name.as_str())
            .map_err(|error| Status::invalid_argument(error.to_string()))?;
        let channel = channel(&parent.address, &expected, self.tls.clone(), &Timeouts::default());
        let mut client = proto::agent_client::AgentClient::new(channel);
        let (up, receiver) = mpsc::channel(WINDOW);
        let (name, servers) = (self.info.name.clone(), vec![self.info.clone()]);
        let hello = FromChild::Hello { name, kind: ChildKind::Server, journal: self.journal, servers };
        up.try_send((&hello).into()).map_err(|_| broken())?;
        let attached = timeout(SILENCE, client.attach(ReceiverStream::new(receiver))).await;
        let silent = |_| Status::deadline_exceeded("the parent does not answer");
        let down = attached.map_err(silent)??.into_inner();
        let mut answering = Answering { name: self.info.name.clone(), up, down };
        let kept = loop {
            if let FromParent::Acknowledge { sequence } = answering.next().await? {
                break sequence;
            }
        };
        Ok((answering, kept))
    }
}

impl Answering {
    /// The next message. A question of the parent is answered: nothing is known yet.
    async fn next(&mut self) -> Result<FromParent, Status> {
        let silent = || Status::deadline_exceeded("the parent does not answer");
        let message = timeout(SILENCE, self.down.message()).await.map_err(|_| silent())??;
        let message = message.ok_or_else(|| Status::unavailable("the parent closed the connection"))?;
        // A message of a later version is not for us.
        if message.message.is_none() {
            return Ok(FromParent::Heartbeat);
        }
        let message = FromParent::try_from(message)?;
        if let FromParent::Question { discovery, .. } = &message {
            let why =
                Cause::NotConnected.because("the server compares its journal with the records of its agent");
            let refusals = vec![(self.name.clone(), why)];
            let found = DiscoveryResult { refusals, ..DiscoveryResult::default() };
            self.say(&FromChild::Answer { discovery: *discovery, found })?;
        }
        Ok(message)
    }

    fn say(&self, message: &FromChild) -> Result<(), Status> {
        self.up.try_send(message.into()).map_err(|_| broken())
    }

    async fn known(&mut self, jobs: Vec<Handle>, later_than: Option<u32>) -> Result<Vec<JobRecord>, Status> {
        self.say(&FromChild::Restored { jobs, later_than })?;
        // An agent of an earlier version says nothing to that, and counts as silent only without heartbeats.
        let known = async {
            loop {
                if let FromParent::KnownJobs { jobs } = self.next().await? {
                    return Ok(jobs);
                }
            }
        };
        let silent = || {
            Status::unimplemented(
                "the parent does not say what it knows of jobs: is its version an earlier one?",
            )
        };
        timeout(SILENCE, known).await.map_err(|_| silent())?
    }

    async fn numbers(&mut self) -> Result<u32, Status> {
        for _ in 0..NUMBERS_WITHIN {
            self.say(&FromChild::Unnumbered { server: self.name.clone() })?;
            let numbered = async {
                loop {
                    match self.next().await? {
                        FromParent::Numbered { server, highest } if server == self.name => {
                            return Ok(highest);
                        }
                        _ => {}
                    }
                }
            };
            if let Ok(highest) = timeout(HEARTBEAT, numbered).await {
                return highest;
            }
        }
        Err(Status::deadline_exceeded("the agents do not say which job numbers are in use"))
    }

    /// Ends the connection, and waits until the parent has seen that: the next one does not displace it.
    async fn close(self) {
        let Answering { up, mut down, .. } = self;
        drop(up);
        let ended = async { while let Ok(Some(_)) = down.message().await {} };
        // A parent that hangs sees it later.
        let _ = timeout(HEARTBEAT, ended).await;
    }
}
