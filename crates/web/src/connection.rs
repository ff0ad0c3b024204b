//! Connections: which of them belong to users.
//!
//! Everyone who reaches the port can connect, and keep connections. When all places are taken, a connection on which nothing but
//! refused requests came gives its place up. If there is none, the user with the most connections gives one up, if these are
//! more than a user may have then.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::{BoxError, Router};
use bytes::Bytes;
use http::Request;
use http_body::Body;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tower::Service;

/// Whose session or token came last on a connection, if any did. A proxy sends requests of several users on one connection, one after the
/// other.
#[derive(Clone, Default)]
pub(crate) struct Trusted(Arc<Mutex<Option<Arc<str>>>>);

impl Trusted {
    /// Notes that a request of that user has come.
    pub(crate) fn note(&self, user: &str) {
        let mut last = self.0.lock();
        if last.as_deref() != Some(user) {
            *last = Some(user.into());
        }
    }

    fn user(&self) -> Option<Arc<str>> {
        self.0.lock().clone()
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
pub(crate) struct OpenConnections(VecDeque<OpenConnection>);

struct OpenConnection {
    task: AbortHandle,
    trusted: Trusted,
    begun: Instant,
}

impl OpenConnections {
    /// Adds the newest one.
    pub(crate) fn add(&mut self, connection: AbortHandle, trusted: Trusted) {
        self.0.push_back(OpenConnection { task: connection, trusted, begun: Instant::now() });
    }

    /// How many are open.
    pub(crate) fn count(&mut self) -> usize {
        self.0.retain(|connection| !connection.task.is_finished());
        self.0.len()
    }

    /// Ends one so that another can come: the oldest that does not belong to a user and had `undisturbed` to show whose it is,
    /// else the oldest of the user with the most, if these are more than `of_a_user`, else the oldest that does not belong to a
    /// user. False if there is none.
    pub(crate) fn end_one(&mut self, undisturbed: Duration, of_a_user: usize) -> bool {
        let stranger = self.stranger();
        let had_time = stranger.filter(|at| self.0[*at].begun.elapsed() >= undisturbed);
        let position = had_time.or_else(|| self.of_the_greediest(of_a_user)).or(stranger);
        let Some(connection) = position.and_then(|at| self.0.remove(at)) else { return false };
        connection.task.abort();
        true
    }

    /// How long it takes until one may be ended: a stranger has `undisturbed` to show whose the connection is.
    pub(crate) fn pause(&self, undisturbed: Duration, of_a_user: usize) -> Duration {
        if self.of_the_greediest(of_a_user).is_some() {
            return Duration::ZERO;
        }
        self.stranger().map_or(undisturbed, |at| undisturbed.saturating_sub(self.0[at].begun.elapsed()))
    }

    /// The oldest one that does not belong to a user.
    fn stranger(&self) -> Option<usize> {
        self.0.iter().position(|connection| connection.trusted.user().is_none())
    }

    fn of_the_greediest(&self, of_a_user: usize) -> Option<usize> {
        let mut counts: BTreeMap<Arc<str>, (usize, usize)> = BTreeMap::new();
        for (at, connection) in self.0.iter().enumerate() {
            counts.entry(connection.trusted.user().unwrap_or_else(|| "".into())).or_insert((0, at)).0 += 1;
        }
        let (count, oldest) = counts.into_values().max_by_key(|(count, _)| *count)?;
        (count > of_a_user).then_some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_counts_for_the_user_of_its_last_request() {
        let mut open = OpenConnections::default();
        let mut tasks = Vec::new();
        let mut connect = |open: &mut OpenConnections| {
            let trusted = Trusted::default();
            let task = tokio::spawn(std::future::pending::<()>());
            open.add(task.abort_handle(), trusted.clone());
            tasks.push(task);
            trusted
        };
        // A proxy has sent a request of alice on each, and later one of another user on all but two.
        let connections: Vec<Trusted> = (0..6).map(|_| connect(&mut open)).collect();
        connections.iter().for_each(|one| one.note("alice"));
        connections[..4].iter().zip(["bob", "carol", "dave", "erin"]).for_each(|(one, user)| one.note(user));
        assert_eq!(open.of_the_greediest(2), None, "no user has more than two");
        assert_eq!(open.of_the_greediest(1), Some(4), "the first one of alice");
    }
}
