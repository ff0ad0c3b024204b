//! Calls that stay open for long.

use std::sync::Arc;
use std::time::Duration;

use pliant_control::access::Caller;
use pliant_transport::{Peer, Role, ServerTls};
use tonic::{Request, Status};

use super::files::Sender;
use super::service::Service;
use crate::gate::{self, Pass};

/// How often the certificates of callers that only listen are looked at.
const POLL_PERIOD: Duration = Duration::from_secs(5);

/// A call that stays open: counted, and its caller's certificate looked at from time to time.
pub(super) struct OpenCall {
    pub(super) pass: Option<Pass>,
    pub(super) tls: Arc<ServerTls>,
    pub(super) peer: Peer,
}

impl Service {
    /// Lets in a sender of files: their owner, or a server that hands a job over.
    pub(super) fn open_to_send<T>(&self, request: &Request<T>) -> Result<(Sender, OpenCall), Status> {
        let peer = gate::caller(request)?.peer;
        if peer.role == Role::Server {
            let name = peer.name.parse().map_err(|error| Status::unauthenticated(format!("{error}")))?;
            let sender = Sender::Server(name);
            let pass = request.extensions().get().cloned();
            return Ok((sender, OpenCall { pass, tls: self.tls.clone(), peer }));
        }
        let (caller, open) = self.open(request)?;
        Ok((Sender::User(caller.user), open))
    }

    /// Lets in a call that stays open.
    pub(super) fn open<T>(&self, request: &Request<T>) -> Result<(Caller, OpenCall), Status> {
        let (caller, pass) = self.gate.user(request)?;
        let peer = gate::caller(request)?.peer;
        Ok((caller, OpenCall { pass: Some(pass), tls: self.tls.clone(), peer }))
    }
}

impl OpenCall {
    /// An error once the caller's certificate is revoked or has expired.
    pub(super) fn check(&self) -> Result<(), Status> {
        self.tls.check(&self.peer).map_err(|error| {
            tracing::warn!(%error, "open call refused");
            Status::unauthenticated(error.to_string())
        })
    }

    /// Waits until the caller may send another message: see [`Pass::message`].
    pub(super) async fn message(&self) {
        if let Some(pass) = &self.pass {
            pass.message().await;
        }
    }

    /// Waits until the caller's certificate is revoked or has expired.
    pub(super) async fn refused(&self) -> Status {
        loop {
            tokio::time::sleep(POLL_PERIOD).await;
            if let Err(status) = self.check() {
                return status;
            }
        }
    }
}
