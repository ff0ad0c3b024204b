//! The connections of a listening socket.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::connection::{OnConnection, OpenConnections, Trusted};

/// What connections are given.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// How many are open at a time: event streams of all pages, and some more.
    pub(crate) connections: usize,
    /// How many of one user stay when all places are taken and others come.
    pub(crate) of_a_user: usize,
    /// Until a new one may end one of a stranger: long enough to send a request.
    pub(crate) undisturbed: Duration,
    /// Until the headers of a request are complete; also how long a connection may be without a request.
    pub(crate) head: Duration,
}

/// Those of the pages of one user: the user's own stay.
pub(crate) const LIMITS: Limits = Limits {
    connections: 256,
    of_a_user: usize::MAX,
    undisturbed: Duration::from_millis(250),
    head: Duration::from_secs(30),
};

/// The most bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The most headers of a request.
const HEADERS_MAX: usize = 64;
/// The pause after a connection could not be taken, for want of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers the requests of all connections, while something else goes on; never returns.
pub(crate) async fn listen(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    pages: Router,
    limits: Limits,
    meanwhile: impl Future<Output = Infallible>,
) {
    let mut meanwhile = pin!(meanwhile);
    let mut tasks = JoinSet::new();
    let mut open = OpenConnections::default();
    loop {
        let is_full = open.count() >= limits.connections;
        let pause = if is_full { open.pause(limits.undisturbed, limits.of_a_user) } else { Duration::ZERO };
        let accept = async {
            if !pause.is_zero() {
                // A new one waits in the queue of the socket for as long as the oldest needs to show whose it is.
                sleep(pause).await;
            }
            listener.accept().await
        };
        tokio::select! {
            never = &mut meanwhile => match never {},
            Some(_) = tasks.join_next() => {}
            accepted = accept => match accepted {
                Ok((stream, _)) => {
                    if open.count() >= limits.connections && !open.end_one(limits.undisturbed, limits.of_a_user) {
                        // All belong to users: they close connections when their pages are closed.
                        continue;
                    }
                    let trusted = Trusted::default();
                    let service = OnConnection::new(pages.clone(), trusted.clone());
                    open.add(tasks.spawn(answer(stream, tls.clone(), service, limits)), trusted);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection to the pages");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

/// Answers the requests of a connection, behind TLS if there is a certificate.
async fn answer(stream: TcpStream, tls: Option<TlsAcceptor>, pages: OnConnection, limits: Limits) {
    let Some(tls) = tls else { return answer_requests(stream, pages, limits).await };
    match timeout(limits.head, tls.accept(stream)).await {
        Ok(Ok(stream)) => answer_requests(stream, pages, limits).await,
        Ok(Err(error)) => tracing::debug!(%error, "a connection to the pages failed"),
        Err(_) => tracing::debug!("a connection to the pages took too long to begin"),
    }
}

async fn answer_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    pages: OnConnection,
    limits: Limits,
) {
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let connection = pin!(server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages)));
    if let Err(error) = connection.await {
        tracing::debug!(error, "a connection to the pages failed");
    }
}
