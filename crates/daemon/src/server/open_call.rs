//! Calls that stay open for long.

use std::sync::Arc;
use std::time::Duration;

use pliant_transport::{Peer, ServerTls};
use tonic::Status;

use crate::gate::Pass;

/// How often the certificates of callers that only listen are looked at.
const POLL_PERIOD: Duration = Duration::from_secs(5);

/// A call that stays open: counted, and its caller's certificate looked at from time to time.
pub(super) struct OpenCall {
    pub(super) pass: Option<Pass>,
    pub(super) tls: Arc<ServerTls>,
    pub(super) peer: Peer,
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
