//! The connections down: what children send.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use pliant_control::agent::{Agent, ChildKind, Event};
use pliant_control::names::Name;
use pliant_control::server_info::ServerInfo;
use pliant_model::Time;
use pliant_telemetry::names;
use pliant_transport::Clock;
use pliant_transport::{self as transport, Role, ServerTls};
use pliant_wire::{FromChild, FromParent, Pieces, proto};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::child_connections::{ChildConnections, ReportedCertificates, ReportedServers, TakenIn};
use super::numbers::Numbers;
use super::reports::Reports;
use crate::gate;
use crate::host::{Mailbox, Stopped};
use crate::uplink::{HEARTBEAT, SILENCE};

/// Messages on their way to a child.
const WINDOW: usize = 4096;

/// After so many messages of a child we check that they are durable. While the next so much comes in the journal has
/// time for it; then the child waits, not our memory.
const AHEAD: u32 = 512;

/// Takes in a child, until it goes.
pub(super) async fn attach(
    request: Request<Streaming<proto::Up>>,
    mailbox: Mailbox<Agent>,
    connections: ChildConnections,
    tls: Arc<ServerTls>,
    numbers: Numbers,
    clock: Clock,
    stop: watch::Receiver<bool>,
) -> Result<Response<ReceiverStream<Result<proto::Down, Status>>>, Status> {
    let (caller, pass) = gate::daemon(&request, &[Role::Agent, Role::Server])?;
    let mut up = request.into_inner();
    let first = timeout(SILENCE, up.message()).await;
    let first = first.map_err(|_| Status::deadline_exceeded("expected a greeting, found silence"))??;
    let Some(FromChild::Hello { name: child, kind, journal, servers }) =
        first.map(FromChild::try_from).transpose()?
    else {
        return Err(Status::invalid_argument("expected a greeting first"));
    };
    greeting(&child, kind, &servers, &caller).inspect_err(|status| {
        tracing::warn!(remote = %caller.address, peer = %caller.peer.name, reason = %status.message(), "child refused");
    })?;
    same_journal(&child, journal, &mailbox).await;
    let (sender, receiver) = mpsc::channel(WINDOW);
    let attached = Event::Attached { child: child.clone(), kind, journal, servers };
    let opened = connections.open(child.clone(), caller.address, sender.clone(), || mailbox.send(attached));
    let TakenIn { number, earlier, displaced } = opened.map_err(|_| stopped())?;
    tracing::info!(%child, remote = %caller.address, "attached");
    if let Some(earlier) = earlier {
        note_displaced(&caller, earlier);
    }
    let connection =
        ChildConnection { child, number, kind, caller, mailbox, connections, tls, numbers, clock };
    tokio::spawn(async move {
        let (mut stop, _pass) = (stop, pass);
        let ended = tokio::select! {
            ended = connection.listen(&mut up, &sender) => ended,
            Ok(later) = displaced => {
                let status = Status::already_exists(format!(
                    "another connection with the certificate of {} came from {later}",
                    connection.caller.peer
                ));
                // If the queue to the child is full, the connection ends without a reason.
                let _ = sender.try_send(Err(status.clone()));
                Err(status)
            }
            // Open connections would keep a daemon that is stopping.
            _ = stop.wait_for(|stop| *stop) => Ok("stopping".to_owned()),
        };
        let why = ended.unwrap_or_else(|status| status.message().to_owned());
        tracing::warn!(child = %connection.child, reason = %why, "detached");
        let ChildConnection { child, number, mailbox, connections, .. } = connection;
        connections.close(&child, number, || mailbox.send(Event::Detached { child: child.clone() }));
    });
    Ok(Response::new(ReceiverStream::new(receiver)))
}

/// Logs that a connection has taken the place of another one with the same certificate.
fn note_displaced(caller: &transport::Caller, earlier: SocketAddr) {
    metrics::counter!(names::CONNECTIONS_DISPLACED, "peer" => caller.peer.to_string()).increment(1);
    tracing::warn!(
        child = %caller.peer.name, remote = %caller.address, %earlier,
        "a child has connected again before its earlier connection had ended, which is ended now; if this goes on, two processes have its certificate"
    );
}

/// Whether the greeting says what the certificate says.
fn greeting(
    child: &Name,
    kind: ChildKind,
    servers: &[ServerInfo],
    caller: &transport::Caller,
) -> Result<(), Status> {
    let role = match kind {
        ChildKind::Server => Role::Server,
        ChildKind::Agent => Role::Agent,
    };
    if caller.peer.name != child.as_str() || caller.peer.role != role {
        return Err(Status::permission_denied(format!(
            "expected the name of the certificate, {} {}, found {} {child}",
            caller.peer.role.name(),
            caller.peer.name,
            role.name(),
        )));
    }
    own_servers(child, kind, servers)
}

/// Whether a child speaks of servers that it may speak of.
fn own_servers(child: &Name, kind: ChildKind, servers: &[ServerInfo]) -> Result<(), Status> {
    if kind == ChildKind::Server && (servers.len() != 1 || servers[0].name != *child) {
        return Err(Status::permission_denied("a server speaks for itself and for no other"));
    }
    Ok(())
}

/// Logs a warning if a child has another journal than before.
async fn same_journal(child: &Name, journal: u64, mailbox: &Mailbox<Agent>) {
    let name = child.clone();
    let known = mailbox.ask(move |agent, _| agent.journal_of(&name)).await.ok().flatten();
    if known.is_some_and(|known| known != journal) {
        tracing::warn!(
            %child, "a child has another journal than before: jobs of the earlier one that it does not report end in ten minutes"
        );
    }
}

struct ChildConnection {
    child: Name,
    number: u64,
    kind: ChildKind,
    caller: transport::Caller,
    mailbox: Mailbox<Agent>,
    connections: ChildConnections,
    tls: Arc<ServerTls>,
    numbers: Numbers,
    clock: Clock,
}

/// What is remembered between two messages of a child.
struct Incoming {
    /// The pieces of an answer.
    pieces: Pieces,
    /// What was reported of jobs.
    reports: Reports,
}

/// What waits for the journal.
type Settling = Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send>>;

impl ChildConnection {
    /// Until the child goes or is silent for too long.
    async fn listen(
        &self,
        up: &mut Streaming<proto::Up>,
        sender: &mpsc::Sender<Result<proto::Down, Status>>,
    ) -> Result<String, Status> {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_contact = tokio::time::Instant::now();
        let mut ahead = 0;
        let reports = Reports::new(self.child.clone(), self.kind, self.tls.clone(), self.numbers.clone());
        let mut incoming = Incoming { pieces: Pieces::default(), reports };
        let mut settling: Option<Settling> = None;
        loop {
            if ahead == AHEAD && settling.is_none() {
                ahead = 0;
                let mailbox = self.mailbox.clone();
                settling = Some(Box::pin(async move { mailbox.settled().await }));
            }
            tokio::select! {
                message = up.message(), if ahead < AHEAD => {
                    let Some(message) = message? else { return Ok("the child closed the connection".to_owned()) };
                    self.receive(message, &mut incoming).await?;
                    ahead += 1;
                    last_contact = tokio::time::Instant::now();
                }
                settled = wait(&mut settling), if settling.is_some() => {
                    settled.map_err(|_| stopped())?;
                    settling = None;
                    // Messages of the child were not read during the pause.
                    last_contact = tokio::time::Instant::now();
                }
                _ = beat.tick() => {
                    self.connections.record_contact(&self.caller.peer, last_contact);
                    self.connections.update_skew(&self.child, &self.caller.peer);
                    self.tls.check(&self.caller.peer).map_err(|error| Status::unauthenticated(error.to_string()))?;
                    if ahead < AHEAD && last_contact.elapsed() > SILENCE {
                        return Ok("the child is silent".to_owned());
                    }

                    // A child that takes nothing in will be silent soon.
                    let _ = sender.try_send(Ok((&FromParent::Heartbeat).into()));
                }
                () = sender.closed() => return Ok("the connection has broken".to_owned()),
            }
        }
    }

    async fn receive(&self, message: proto::Up, incoming: &mut Incoming) -> Result<(), Status> {
        let child = self.child.clone();
        // A message of a later version is not for us.
        if message.message.is_none() {
            return Ok(());
        }
        let message = match FromChild::try_from(message)? {
            FromChild::Piece { discovery, bytes, last } => {
                match incoming.pieces.take(discovery, &bytes, last)? {
                    Some(answer) => answer,
                    None => return Ok(()),
                }
            }
            message => message,
        };
        let is_all = matches!(message, FromChild::AllReported { .. });
        let event = match message {
            FromChild::Servers(servers) => {
                own_servers(&child, self.kind, &servers)?;
                Event::Announced { child, servers }
            }
            FromChild::Answer { discovery, found } => Event::Answered { child, discovery, found },
            FromChild::StatusUpdate { sequence, record } => {
                let job = record.handle.clone();
                match incoming.reports.checked(*record).await? {
                    Ok(record) => Event::StatusUpdate { child, sequence, record: Box::new(record) },
                    Err(refusal) => {
                        refusal.note(&child, &job);
                        Event::StatusRefused { child, sequence }
                    }
                }
            }
            FromChild::ReportedAgain(record) => {
                self.connections.report_again(&child, self.number, false);
                let job = record.handle.clone();
                match incoming.reports.checked_again(*record).await? {
                    Some(Ok(record)) => Event::StatusAgain { child, record: Box::new(record) },
                    Some(Err(refusal)) => {
                        refusal.note(&child, &job);
                        return Ok(());
                    }
                    None => return Ok(()),
                }
            }
            FromChild::AllReported { sequence } => {
                if self.connections.reporting_again().contains(&child) {
                    tracing::info!(%child, sequence, "all jobs were reported again");
                }
                Event::StatusRefused { child, sequence }
            }
            // Put together above: an answer is no piece.
            FromChild::Piece { .. } => return Ok(()),
            FromChild::Hello { .. } => {
                return Err(Status::invalid_argument("expected one greeting, found another"));
            }
            FromChild::Heartbeat { now, free, certificate, certificates, drained } => {
                if let Some(now) = now {
                    self.connections.clock(&child, now - self.clock.now());
                }
                let own = |server: &Name| self.kind == ChildKind::Agent || *server == child;
                let free = free.into_iter().filter(|(server, _)| own(server)).collect();
                let drained = drained.into_iter().filter(own).collect();
                self.connections.report_servers(&child, ReportedServers { free, drained });
                self.connections.report_certificates(&child, self.validity(certificate, certificates));
                return Ok(());
            }
            FromChild::Freed => Event::Freed { child },
            FromChild::Summary(summary) => Event::Summarised { child, summary },
            FromChild::Unnumbered { server } => {
                if self.kind == ChildKind::Server && server != child {
                    return Err(Status::permission_denied(
                        "a server asks for its own numbers and for no others",
                    ));
                }
                self.numbers.asked(&child, server).await;
                return Ok(());
            }
            FromChild::Restored { jobs, later_than } => {
                if self.kind != ChildKind::Server {
                    return Err(Status::permission_denied("only a server asks what is known of its jobs"));
                }
                let jobs = match later_than {
                    Some(number) => incoming.reports.later_than(number).await?,
                    None => incoming.reports.known_of(jobs).await?,
                };
                self.connections.send(&child, &FromParent::KnownJobs { jobs });
                return Ok(());
            }
        };
        let deliver = || self.mailbox.send(event);
        self.connections.deliver(&self.child, self.number, deliver).map_err(|_| stopped())?;
        if is_all {
            self.connections.report_again(&self.child, self.number, true);
        }
        Ok(())
    }

    /// What the child says of certificates; a server speaks for its own only.
    fn validity(&self, own: Option<Time>, below: Vec<(Name, Time)>) -> ReportedCertificates {
        let own = own.map(|not_after| (self.child.clone(), not_after)).into_iter().collect();
        match self.kind {
            ChildKind::Server => ReportedCertificates { servers: own, ..ReportedCertificates::default() },
            ChildKind::Agent => ReportedCertificates { agents: own, servers: below.into_iter().collect() },
        }
    }
}

async fn wait(settling: &mut Option<Settling>) -> Result<(), Stopped> {
    match settling {
        Some(settling) => settling.await,
        None => Ok(()),
    }
}

pub(super) fn stopped() -> Status {
    Status::unavailable("the agent is stopping")
}
