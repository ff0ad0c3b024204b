//! Connections: which of them belong to the user.
//!
//! Every user of the machine can connect, and keep connections. When all places are taken, a connection on which nothing but
//! refused requests came gives its place up; those of the session and of tokens never do.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::{BoxError, Router};
use bytes::Bytes;
use http::Request;
use http_body::Body;
use tokio::task::AbortHandle;
use tower::Service;

/// Whether a request with a session or a token has come on a connection.
#[derive(Clone, Default)]
pub(crate) struct Trusted(Arc<AtomicBool>);

impl Trusted {
    /// Notes that one has come.
    pub(crate) fn note(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_noted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The pages on one connection: each request knows it.
#[derive(Clone)]
pub(crate) struct OnConnection {
    pages: Router,
    trusted: Trusted,
}

impl OnConnection {
    pub(crate) fn new(pages: Router, trusted: Trusted) -> OnConnection {
        OnConnection { pages, trusted }
    }
}

impl<B> Service<Request<B>> for OnConnection
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = <Router as Service<Request<B>>>::Response;
    type Error = Infallible;
    type Future = <Router as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.pages, context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.trusted.clone());
        self.pages.call(request)
    }
}

/// The open connections, the oldest first.
#[derive(Default)]
pub(crate) struct OpenConnections(VecDeque<(AbortHandle, Trusted)>);

impl OpenConnections {
    /// Adds the newest one.
    pub(crate) fn add(&mut self, connection: AbortHandle, trusted: Trusted) {
        self.0.push_back((connection, trusted));
    }

    /// How many are open.
    pub(crate) fn count(&mut self) -> usize {
        self.0.retain(|(connection, _)| !connection.is_finished());
        self.0.len()
    }

    /// Ends the oldest one that does not belong to the user; false if there is none.
    pub(crate) fn end_stranger(&mut self) -> bool {
        let stranger = self.0.iter().position(|(_, trusted)| !trusted.is_noted());
        let Some((connection, _)) = stranger.and_then(|at| self.0.remove(at)) else { return false };
        connection.abort();
        true
    }
}
