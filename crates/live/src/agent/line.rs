//! The lines down: what children say.

use std::sync::Arc;

use pliant_control::agent::{Agent, ChildKind, Event, ServerInfo};
use pliant_control::names::Name;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::driver::Lines;
use crate::daemon::Mailbox;
use crate::gate;
use crate::identity::{self, Role, ServerTls};
use crate::uplink::{HEARTBEAT, SILENCE};
use crate::wire::{FromChild, FromParent, proto};

/// Messages on their way to a child.
const WINDOW: usize = 4096;

/// How much news may be ahead of the machine: a child that has more to tell waits, not our memory.
const AHEAD: u32 = 512;

/// Takes in a child, until it goes.
pub(super) async fn attach(
    request: Request<Streaming<proto::Up>>,
    mailbox: Mailbox<Agent>,
    lines: Lines,
    tls: Arc<ServerTls>,
    stop: watch::Receiver<bool>,
) -> Result<Response<ReceiverStream<Result<proto::Down, Status>>>, Status> {
    let caller = gate::daemon(&request, &[Role::Agent, Role::Server])?;
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
    let (sender, receiver) = mpsc::channel(WINDOW);
    let number = lines.open(child.clone(), sender.clone());
    let attached = Event::Attached { child: child.clone(), kind, journal, servers };
    mailbox.tell(attached).map_err(|_| stopped())?;
    tracing::info!(%child, remote = %caller.address, "attached");
    let line = Line { child, kind, caller, mailbox, tls };
    tokio::spawn(async move {
        let mut stop = stop;
        let ended = tokio::select! {
            ended = line.listen(&mut up, &sender) => ended,
            // Open lines would keep a daemon that is stopping.
            _ = stop.wait_for(|stop| *stop) => Ok("stopping".to_owned()),
        };
        let why = ended.unwrap_or_else(|status| status.message().to_owned());
        tracing::warn!(child = %line.child, reason = %why, "detached");
        if lines.close(&line.child, number) {
            // A daemon that has stopped knows nobody anyway.
            let _ = line.mailbox.tell(Event::Detached { child: line.child });
        }
    });
    Ok(Response::new(ReceiverStream::new(receiver)))
}

/// Whether the greeting says what the certificate says.
fn greeting(
    child: &Name,
    kind: ChildKind,
    servers: &[ServerInfo],
    caller: &identity::Caller,
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

struct Line {
    child: Name,
    kind: ChildKind,
    caller: identity::Caller,
    mailbox: Mailbox<Agent>,
    tls: Arc<ServerTls>,
}

impl Line {
    /// Until the child goes or is silent for too long.
    async fn listen(
        &self,
        up: &mut Streaming<proto::Up>,
        sender: &mpsc::Sender<Result<proto::Down, Status>>,
    ) -> Result<String, Status> {
        let mut beat = interval(HEARTBEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = tokio::time::Instant::now();
        let mut ahead = 0;
        loop {
            tokio::select! {
                message = up.message() => {
                    let Some(message) = message? else { return Ok("the child closed the line".to_owned()) };
                    self.told(message)?;
                    ahead += 1;
                    if ahead == AHEAD {
                        ahead = 0;
                        // Answered once everything before it is taken in.
                        self.mailbox.ask(|_, _| ()).await.map_err(|_| stopped())?;
                    }
                    heard = tokio::time::Instant::now();
                }
                _ = beat.tick() => {
                    self.tls.check(&self.caller.peer).map_err(|error| Status::unauthenticated(error.to_string()))?;
                    if heard.elapsed() > SILENCE {
                        return Ok("the child is silent".to_owned());
                    }

                    // A child that takes nothing in will be silent soon.
                    let _ = sender.try_send(Ok((&FromParent::Heartbeat).into()));
                }
                () = sender.closed() => return Ok("the line has broken".to_owned()),
            }
        }
    }

    fn told(&self, message: proto::Up) -> Result<(), Status> {
        let child = self.child.clone();
        // A message of a later version is not for us.
        if message.message.is_none() {
            return Ok(());
        }
        let event = match FromChild::try_from(message)? {
            FromChild::Servers(servers) => {
                own_servers(&child, self.kind, &servers)?;
                Event::Announced { child, servers }
            }
            FromChild::Answer { discovery, found } => Event::Answered { child, discovery, found },
            FromChild::News { sequence, record } => {
                if self.kind == ChildKind::Server && record.handle.server != child {
                    return Err(Status::permission_denied("a server tells of its own jobs and of no others"));
                }
                Event::Told { child, sequence, record }
            }
            FromChild::Hello { .. } => {
                return Err(Status::invalid_argument("expected one greeting, found another"));
            }
            FromChild::Heartbeat => return Ok(()),
        };
        self.mailbox.tell(event).map_err(|_| stopped())
    }
}

pub(super) fn stopped() -> Status {
    Status::unavailable("the agent is stopping")
}
