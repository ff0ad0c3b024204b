//! The connection to one server: a stream that is opened again when it breaks, with all pending calls.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::{Key, Name};
use pliant_control::reason::{Cause, Reason};
use pliant_staging::FileSpec;
use pliant_wire::{Attempt, Call, ExplorationReply, ExplorationRequest, proto};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status};

use super::pending::PendingCalls;
use super::{ConnectionReport, RequestEvent};
use crate::error::is_broken;
use crate::{Client, ClientError};

/// The pause before a stream is opened again.
const AGAIN: Duration = Duration::from_millis(200);
/// The shortest period in which a server reports usage, in seconds.
const SHARES_EVERY_LEAST_S: u32 = 5;

/// A command to a server.
#[derive(Debug)]
pub(super) enum ServerCommand {
    Call(Call),
    Probe(u32),
    Cancel(Attempt),
    /// Cancel, and report the outcome.
    Recall(Call),
    CancelAll,
    Withdraw(Attempt),
    Expect,
}

/// The connection to a server.
pub(super) struct ServerConnection {
    client: Client,
    server: Name,
    begin: ExplorationRequest,
    inputs: Arc<Inputs>,
    /// The files were uploaded.
    has_inputs: bool,
    timeout: Duration,
    pending: PendingCalls,
    /// Since when no stream has worked.
    failing: Option<Instant>,
}

/// The input files of all requests, with their local paths; uploaded under the key of the exploration.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) key: Key,
    pub(super) files: Vec<(FileSpec, PathBuf)>,
}

/// The first message to one of that many servers. Each reports usage from time to time; all servers together at most twice a
/// second.
pub(super) fn begin_among(begin: &ExplorationRequest, servers: usize) -> ExplorationRequest {
    let mut begin = begin.clone();
    if let ExplorationRequest::Begin { shares_every_s, .. } = &mut begin {
        *shares_every_s = u32::try_from(servers / 2).unwrap_or(u32::MAX).max(SHARES_EVERY_LEAST_S);
    }
    begin
}

/// Why a stream came to its end.
enum End {
    /// The client is gone.
    Unwanted,
    /// It broke.
    Broken(Status),
}

impl ServerConnection {
    pub(super) fn new(
        client: Client,
        server: Name,
        begin: ExplorationRequest,
        inputs: Arc<Inputs>,
        timeout: Duration,
    ) -> ServerConnection {
        ServerConnection {
            client,
            pending: PendingCalls::new(server.clone()),
            server,
            begin,
            has_inputs: inputs.files.is_empty(),
            inputs,
            timeout,
            failing: None,
        }
    }

    /// Keeps the connection until its client is gone.
    pub(super) async fn keep(
        mut self,
        addresses: Arc<Mutex<HashMap<Name, String>>>,
        mut orders: UnboundedReceiver<ServerCommand>,
        reports: UnboundedSender<ConnectionReport>,
    ) {
        loop {
            if self.pending.is_empty() {
                match orders.recv().await {
                    Some(order) => drop(self.pending.add(order)),
                    None => return,
                }
                continue;
            }
            let address = addresses.lock().get(&self.server).cloned();
            let end = match address {
                Some(address) => self.stream(&address, &mut orders, &reports).await,
                None => End::Broken(Status::unavailable("its address is not known")),
            };
            match end {
                End::Unwanted => return,
                End::Broken(status) => self.broken(&status, &reports).await,
            }
        }
    }

    /// One stream, to its end.
    async fn stream(
        &mut self,
        address: &str,
        orders: &mut UnboundedReceiver<ServerCommand>,
        reports: &UnboundedSender<ConnectionReport>,
    ) -> End {
        if !self.has_inputs {
            if let Err(status) = self.upload(address).await {
                return End::Broken(status);
            }
            self.has_inputs = true;
        }
        let (sender, receiver) = unbounded_channel::<proto::ExploreRequest>();
        // An answer shows that it has arrived.
        let send = |asked: &ExplorationRequest| drop(sender.send(asked.into()));
        send(&self.begin);
        self.pending.all().for_each(|asked| send(&asked));
        let calls = UnboundedReceiverStream::new(receiver);
        let mut replies = match self.client.explore(&self.server, address, calls).await {
            Ok(replies) => replies,
            Err(status) => return End::Broken(status),
        };
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.pending.add(order).iter().for_each(send),
                    None => return End::Unwanted,
                },
                reply = replies.message() => {
                    let reply = match reply {
                        Ok(Some(reply)) => ExplorationReply::try_from(reply),
                        Ok(None) => return End::Broken(Status::unavailable("the server has closed the stream")),
                        Err(status) => return End::Broken(status),
                    };
                    match reply {
                        Ok(reply) => self.receive(reply, reports),
                        Err(malformed) => return End::Broken(Status::internal(malformed.to_string())),
                    }
                }
            }
        }
    }

    async fn upload(&self, address: &str) -> Result<(), Status> {
        let failed = |error: ClientError| match error.may_pass() {
            true => Status::unavailable(error.to_string()),
            false => Status::invalid_argument(error.to_string()),
        };
        let mut server = self.client.server(&self.server, address).map_err(failed)?;
        for (spec, path) in &self.inputs.files {
            self.client.upload(&mut server, self.inputs.key, spec, path).await.map_err(failed)?;
        }
        Ok(())
    }

    fn receive(
        &mut self,
        ExplorationReply { answer, share }: ExplorationReply,
        reports: &UnboundedSender<ConnectionReport>,
    ) {
        self.failing = None;
        if let Some(share) = share {
            report(reports, ConnectionReport::Share(self.server.clone(), share));
        }
        self.pending.receive(answer, &mut |what| report(reports, what));
    }

    /// Waits before the next stream, or gives the server up.
    async fn broken(&mut self, status: &Status, reports: &UnboundedSender<ConnectionReport>) {
        // The server has removed the files.
        if status.code() == Code::Aborted {
            self.has_inputs = self.inputs.files.is_empty();
        }
        if let Some(why) = refusal(status) {
            self.pending.refused(&why, &mut |what| report(reports, what));
            return self.give_up(status.message().to_owned(), reports);
        }
        let since = *self.failing.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.timeout {
            return self.give_up(status.message().to_owned(), reports);
        }
        tokio::time::sleep(AGAIN).await;
    }

    fn give_up(&mut self, why: String, reports: &UnboundedSender<ConnectionReport>) {
        self.pending.clear();
        self.failing = None;
        report(reports, ConnectionReport::Event(RequestEvent::Lost { server: self.server.clone(), why }));
    }
}

/// Reports to the client, if it is not gone.
fn report(reports: &UnboundedSender<ConnectionReport>, what: ConnectionReport) {
    let _ = reports.send(what);
}

/// Why a server refuses this exploration for good, if it does.
fn refusal(status: &Status) -> Option<Reason> {
    if is_broken(status) {
        return None;
    }
    let cause = match status.code() {
        Code::NotFound | Code::FailedPrecondition | Code::PermissionDenied | Code::Unimplemented => {
            Cause::NotOffered
        }
        Code::AlreadyExists => Cause::KeyTaken,
        Code::InvalidArgument => Cause::Invalid,
        _ => return None,
    };
    Some(cause.because(status.message()))
}
