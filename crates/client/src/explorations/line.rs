//! The line to one server: a stream that is made again when it breaks, with everything that has no answer yet.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::{Key, Name};
use pliant_control::reason::{Cause, Reason};
use pliant_staging::FileSpec;
use pliant_wire::{Attempt, Call, FromServer, ToServer, proto};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status};

use super::unanswered::Unanswered;
use super::{Report, RequestEvent};
use crate::error::is_broken;
use crate::{Client, ClientError};

/// The pause before a stream is made again.
const AGAIN: Duration = Duration::from_millis(200);
/// How often a server is to say what was had there at most, in seconds.
const SHARES_EVERY_LEAST_S: u32 = 5;

/// What a line is to do.
#[derive(Debug)]
pub(super) enum Order {
    Call(Call),
    Probe(u32),
    Cancel(Attempt),
    /// Cancel, and report what became of it.
    Recall(Call),
    CancelAll,
    Withdraw(Attempt),
    Expect,
}

/// The line to a server.
pub(super) struct ServerConnection {
    client: Client,
    server: Name,
    begin: ToServer,
    inputs: Arc<Inputs>,
    /// The server has the files, as far as is known here.
    has_inputs: bool,
    patience: Duration,
    unanswered: Unanswered,
    /// Since when nothing has come of it.
    failing: Option<Instant>,
}

/// Files that every request is to find, and where they are here; uploaded under the key of the exploration.
#[derive(Debug)]
pub(super) struct Inputs {
    pub(super) key: Key,
    pub(super) files: Vec<(FileSpec, PathBuf)>,
}

/// The first message to one of so many servers: each is to say from time to time what was had there, if it says nothing else,
/// but not more than two of them in a second.
pub(super) fn begin_among(begin: &ToServer, servers: usize) -> ToServer {
    let mut begin = begin.clone();
    if let ToServer::Begin { shares_every_s, .. } = &mut begin {
        *shares_every_s = u32::try_from(servers / 2).unwrap_or(u32::MAX).max(SHARES_EVERY_LEAST_S);
    }
    begin
}

/// Why a stream came to its end.
enum End {
    /// Nobody wants anything any more.
    Unwanted,
    /// It broke.
    Broken(Status),
}

impl ServerConnection {
    pub(super) fn new(
        client: Client,
        server: Name,
        begin: ToServer,
        inputs: Arc<Inputs>,
        patience: Duration,
    ) -> ServerConnection {
        ServerConnection {
            client,
            unanswered: Unanswered::new(server.clone()),
            server,
            begin,
            has_inputs: inputs.files.is_empty(),
            inputs,
            patience,
            failing: None,
        }
    }

    /// Goes on until whoever gives orders is gone.
    pub(super) async fn keep(
        mut self,
        addresses: Arc<Mutex<HashMap<Name, String>>>,
        mut orders: UnboundedReceiver<Order>,
        reports: UnboundedSender<Report>,
    ) {
        loop {
            if self.unanswered.is_empty() {
                match orders.recv().await {
                    Some(order) => drop(self.unanswered.note(order)),
                    None => return,
                }
                continue;
            }
            let address = addresses.lock().get(&self.server).cloned();
            let end = match address {
                Some(address) => self.stream(&address, &mut orders, &reports).await,
                None => End::Broken(Status::unavailable("nobody has said where it is")),
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
        orders: &mut UnboundedReceiver<Order>,
        reports: &UnboundedSender<Report>,
    ) -> End {
        if !self.has_inputs {
            if let Err(status) = self.upload(address).await {
                return End::Broken(status);
            }
            self.has_inputs = true;
        }
        let (sender, receiver) = unbounded_channel::<proto::ExploreRequest>();
        // Whether it arrives shows in what is answered.
        let send = |asked: &ToServer| drop(sender.send(asked.into()));
        send(&self.begin);
        self.unanswered.all().for_each(|asked| send(&asked));
        let calls = UnboundedReceiverStream::new(receiver);
        let mut replies = match self.client.explore(&self.server, address, calls).await {
            Ok(replies) => replies,
            Err(status) => return End::Broken(status),
        };
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.unanswered.note(order).iter().for_each(send),
                    None => return End::Unwanted,
                },
                reply = replies.message() => {
                    let reply = match reply {
                        Ok(Some(reply)) => FromServer::try_from(reply),
                        Ok(None) => return End::Broken(Status::unavailable("the server has hung up")),
                        Err(status) => return End::Broken(status),
                    };
                    match reply {
                        Ok(told) => self.told(told, reports),
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

    fn told(&mut self, FromServer { said, share }: FromServer, reports: &UnboundedSender<Report>) {
        self.failing = None;
        if let Some(share) = share {
            report(reports, Report::Share(self.server.clone(), share));
        }
        self.unanswered.told(said, &mut |what| report(reports, what));
    }

    /// Waits a moment, or gives the server up.
    async fn broken(&mut self, status: &Status, reports: &UnboundedSender<Report>) {
        // It has forgotten them.
        if status.code() == Code::Aborted {
            self.has_inputs = self.inputs.files.is_empty();
        }
        if let Some(why) = refusal(status) {
            self.unanswered.refused(&why, &mut |what| report(reports, what));
            return self.give_up(status.message().to_owned(), reports);
        }
        let since = *self.failing.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.patience {
            return self.give_up(status.message().to_owned(), reports);
        }
        tokio::time::sleep(AGAIN).await;
    }

    fn give_up(&mut self, why: String, reports: &UnboundedSender<Report>) {
        self.unanswered.clear();
        self.failing = None;
        report(reports, Report::Happened(RequestEvent::Lost { server: self.server.clone(), why }));
    }
}

/// Tells whoever gives orders, who may have gone; then the orders end too.
fn report(reports: &UnboundedSender<Report>, what: Report) {
    let _ = reports.send(what);
}

/// Why a server takes nothing of this exploration, if that does not pass.
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
