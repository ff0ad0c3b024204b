//! The pages of a daemon for monitoring: `/metrics`, `/healthz` and `/readyz` over HTTP/1 on a loopback address.
//!
//! No client is trusted here: each connection is answered once, within seconds, and few are open at a
//! time. A new one ends the oldest as soon as that has been open long enough to send its request. So slow or many clients cost the daemon
//! nothing. They delay others: with so many that they fill the queue of the listening socket, for seconds.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use pliant_telemetry::names;
use serde::Serialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

/// What a client is given; more is cut off.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Connections open at once, at least 1; a new one ends the oldest.
    connections: usize,
    /// Until a new one may end it: a client that connects again and again ends no connection of another before it is answered.
    undisturbed: Duration,
    /// Until the headers are complete.
    head: Duration,
    /// Until the answer is read, counted from the connection's beginning.
    connection: Duration,
}

const LIMITS: Limits = Limits {
    connections: 64,
    undisturbed: Duration::from_millis(250),
    head: Duration::from_secs(5),
    connection: Duration::from_secs(10),
};

/// Bytes of a request's line and headers. The library takes no less than 8 KiB.
const HEAD_BYTES_MAX: usize = 8 * 1024;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// How long open connections may take when the daemon stops.
const STOP_TIME: Duration = Duration::from_secs(2);
/// How often samples of histograms are put into their buckets.
const UPKEEP: Duration = Duration::from_secs(5);
/// Pause after a connection could not be taken, for want of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Whether a daemon can do its work, and if not, why.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Readiness {
    reasons: Vec<Reason>,
    /// What is worth knowing whether it is ready or not.
    notes: Vec<String>,
}

/// Why a daemon is not ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reason {
    /// The part of the daemon that is not ready, such as `parent` or `journal`.
    pub part: &'static str,
    /// What it waits for or what is wrong, for people.
    pub reason: String,
}

impl Readiness {
    /// Ready.
    pub fn ready() -> Readiness {
        Readiness::default()
    }

    /// Not ready, for this reason too.
    #[must_use]
    pub fn but(mut self, part: &'static str, reason: impl Into<String>) -> Readiness {
        self.reasons.push(Reason { part, reason: reason.into() });
        self
    }

    /// The same with something that is worth knowing.
    #[must_use]
    pub fn noting(mut self, note: impl Into<String>) -> Readiness {
        self.notes.push(note.into());
        self
    }

    /// True if there is no reason against it.
    pub fn is_ready(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// Why the pages cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address can be reached from other machines.
    #[error("http: expected a loopback address such as 127.0.0.1:9700, found {address}")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("http: cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
}

impl HttpError {
    /// A way out, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            HttpError::NotLoopback { .. } => {
                Some("the pages check no identity; let a proxy of this machine show them to others")
            }
            HttpError::Listen { .. } => Some("another process may listen there; port 0 takes any free port"),
        }
    }
}

/// Listens on a loopback address for [`serve_http`].
///
/// # Errors
///
/// If the address is not a loopback address, or cannot be listened on.
pub async fn bind_http(address: SocketAddr) -> Result<TcpListener, HttpError> {
    if !address.ip().is_loopback() {
        return Err(HttpError::NotLoopback { address });
    }
    TcpListener::bind(address).await.map_err(|source| HttpError::Listen { address, source })
}

/// Serves the pages until `stop` is done; then takes no more connections, lets the open ones finish for two seconds at
/// most, and returns. `ready` is called at each request for `/readyz` and must not block.
pub async fn serve_http<R>(
    listener: TcpListener,
    metrics: PrometheusHandle,
    ready: R,
    stop: impl Future<Output = ()>,
) where
    R: Fn() -> Readiness + Send + Sync + 'static,
{
    serve(listener, metrics, ready, stop, LIMITS).await;
}

async fn serve<R>(
    listener: TcpListener,
    metrics: PrometheusHandle,
    ready: R,
    stop: impl Future<Output = ()>,
    limits: Limits,
) where
    R: Fn() -> Readiness + Send + Sync + 'static,
{
    let pages = pages(metrics.clone(), ready);
    let (stopping, stopped) = watch::channel(false);
    let mut open = JoinSet::new();
    let mut oldest_first: VecDeque<(Instant, AbortHandle)> = VecDeque::new();
    let mut upkeep = interval(UPKEEP);
    upkeep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stop = pin!(stop);
    loop {
        oldest_first.retain(|(_, connection)| !connection.is_finished());
        let is_full = oldest_first.len() >= limits.connections;
        let next = oldest_first.front().filter(|_| is_full).map(|(begun, _)| *begun + limits.undisturbed);
        let accept = async {
            if let Some(next) = next {
                sleep_until(next).await;
            }
            listener.accept().await
        };
        tokio::select! {
            () = &mut stop => break,
            _ = upkeep.tick() => metrics.run_upkeep(),
            Some(_) = open.join_next() => {}
            accepted = accept => match accepted {
                Ok((stream, _)) => {
                    // Every user of the host can open connections, and keep them.
                    if is_full && let Some((_, oldest)) = oldest_first.pop_front() {
                        oldest.abort();
                        metrics::counter!(names::CONNECTIONS_REFUSED, "reason" => "http_full").increment(1);
                    }
                    let answered = answer(stream, pages.clone(), stopped.clone(), limits);
                    oldest_first.push_back((Instant::now(), open.spawn(answered)));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection to the monitoring pages");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    // What is still open after that is closed as `open` is dropped.
    let _ = timeout(STOP_TIME, async { while open.join_next().await.is_some() {} }).await;
}

/// Answers one connection, once.
async fn answer(stream: TcpStream, pages: Router, mut stopped: watch::Receiver<bool>, limits: Limits) {
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false);
    let answered = async {
        let mut connection =
            pin!(server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages)));
        tokio::select! {
            ended = connection.as_mut() => return ended,
            _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    };
    match timeout(limits.connection, answered).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(error, "a connection to the monitoring pages failed"),
        Err(_) => tracing::debug!("a connection to the monitoring pages took too long"),
    }
}

fn pages<R>(handle: PrometheusHandle, ready: R) -> Router
where
    R: Fn() -> Readiness + Send + Sync + 'static,
{
    let ready = Arc::new(ready);
    let measured = ready.clone();
    Router::new()
        .route(
            "/metrics",
            get(async move || {
                metrics::gauge!(names::READY).set(if measured().is_ready() { 1.0 } else { 0.0 });
                (plain("text/plain; version=0.0.4; charset=utf-8"), handle.render())
            }),
        )
        .route("/healthz", get(async || (plain("text/plain; charset=utf-8"), "ok\n")))
        .route("/readyz", get(async move || readiness_page(&ready())))
        .fallback(async || {
            let text = "expected /metrics, /healthz or /readyz\n";
            (StatusCode::NOT_FOUND, plain("text/plain; charset=utf-8"), text)
        })
        .layer(from_fn(without_body))
}

type Headers = [(header::HeaderName, &'static str); 2];

fn plain(content_type: &'static str) -> Headers {
    [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-store")]
}

fn readiness_page(readiness: &Readiness) -> Response {
    let status = if readiness.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut page = serde_json::json!({ "ready": readiness.is_ready(), "reasons": readiness.reasons });
    if !readiness.notes.is_empty() {
        page["notes"] = readiness.notes.clone().into();
    }
    (status, plain("application/json"), format!("{page}\n")).into_response()
}

/// No page reads a body, so a request that announces one is refused before it is sent.
async fn without_body(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let length = headers.get(header::CONTENT_LENGTH);
    if headers.contains_key(header::TRANSFER_ENCODING) || length.is_some_and(|length| length != "0") {
        let text = "expected a request without a body\n";
        return (StatusCode::PAYLOAD_TOO_LARGE, plain("text/plain; charset=utf-8"), text).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::monitoring::recorder;

    const HOUR: Duration = Duration::from_secs(3600);

    async fn served(limits: Limits) -> SocketAddr {
        let listener = bind_http("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let handle = recorder().handle();
        tokio::spawn(serve(listener, handle, Readiness::ready, std::future::pending(), limits));
        address
    }

    /// Connects, sends, and keeps the connection.
    async fn sent(address: SocketAddr, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// What the other side sends until it closes. A reset counts as the end.
    async fn rest(mut stream: TcpStream) -> String {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn headers_that_do_not_come_close_the_connection() {
        let address = served(Limits { head: Duration::from_millis(20), connection: HOUR, ..LIMITS }).await;
        for text in ["", "GET /healthz HTTP/1.1\r\nhost: x\r\n"] {
            let answer = rest(sent(address, text).await).await;
            assert!(!answer.contains("200"), "{text:?}: {answer}");
        }
    }

    #[tokio::test]
    async fn no_connection_lives_longer_than_its_time() {
        let address = served(Limits { head: HOUR, connection: Duration::from_millis(20), ..LIMITS }).await;
        assert_eq!(rest(sent(address, "GET /healthz").await).await, "");
    }

    #[tokio::test]
    async fn who_keeps_connections_open_keeps_no_other_from_the_pages() {
        let undisturbed = Duration::from_millis(20);
        let limits = Limits { connections: 2, undisturbed, head: HOUR, connection: HOUR };
        let address = served(limits).await;
        let request = "GET /healthz HTTP/1.1\r\n";
        let (first, mut second) = (sent(address, request).await, sent(address, request).await);
        let whole = async || rest(sent(address, "GET /healthz HTTP/1.0\r\n\r\n").await).await;
        assert!(whole().await.ends_with("ok\n"), "the oldest gives way");
        assert_eq!(rest(first).await, "");
        second.write_all(b"\r\n").await.unwrap();
        assert!(rest(second).await.ends_with("ok\n"), "and no other");
    }

    #[tokio::test]
    async fn who_connects_again_and_again_keeps_no_other_from_the_pages() {
        let undisturbed = Duration::from_millis(20);
        let address = served(Limits { connections: 4, undisturbed, ..LIMITS }).await;
        let mut crowd = JoinSet::new();
        for _ in 0..20 {
            crowd.spawn(async move {
                loop {
                    rest(sent(address, "GET /healthz HTTP/1.1\r\n").await).await;
                }
            });
        }
        for number in 0..20 {
            let answer = rest(sent(address, "GET /healthz HTTP/1.0\r\n\r\n").await).await;
            assert!(answer.ends_with("ok\n"), "request {number}: {answer}");
        }
    }

    #[tokio::test]
    async fn only_loopback_addresses_are_listened_on() {
        let check = async |address: &str, loopback: bool| {
            let bound = bind_http(address.parse().unwrap()).await;
            let refused = matches!(bound, Err(HttpError::NotLoopback { .. }));
            assert_eq!(refused, !loopback, "{address}: {bound:?}");
        };
        check("127.0.0.1:0", true).await;
        check("127.8.8.8:0", true).await;
        check("0.0.0.0:0", false).await;
        check("192.0.2.1:0", false).await;
        check("[::]:0", false).await;
    }
}
