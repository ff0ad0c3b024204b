//! The listening socket and its connections.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use pliant_client::Client;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::guard::Guard;
use crate::routes::router;
use crate::script::ScriptReader;
use crate::state::Web;
use crate::tokens::TokenKey;

/// The most connections that are open at a time: event streams of all pages, and some more.
const CONNECTIONS_MAX: usize = 256;
/// The most bytes of a request's line and headers.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The most headers of a request.
const HEADERS_MAX: usize = 64;
/// How long the headers of a request may take; also how long a connection may be without a request.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The pause after a connection could not be taken, for want of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the pages cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address can be reached from other machines.
    #[error("--listen: expected a loopback address such as 127.0.0.1:8080, found {address}")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The address cannot be listened on.
    #[error("--listen: cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The operating system gives no random numbers.
    #[error("cannot draw the token of the link: {0}")]
    Random(std::io::Error),
}

impl WebError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            WebError::NotLoopback { .. } => Some(
                "the pages have your rights; to see them from another machine, forward the port: ssh -L 8080:127.0.0.1:8080 HOST",
            ),
            WebError::Listen { .. } => Some("another process may listen there; port 0 takes any free port"),
            WebError::Random(_) => None,
        }
    }
}

/// What the pages of a user need.
pub struct WebConfig {
    /// The loopback address to serve on.
    pub address: SocketAddr,
    /// The client of all calls.
    pub client: Client,
    /// Reads scripts that are submitted.
    pub scripts: ScriptReader,
    /// The key of the tokens of programs.
    pub tokens: TokenKey,
}

/// The pages of one user.
pub struct WebServer {
    listener: TcpListener,
    address: SocketAddr,
    guard: Arc<Guard>,
    web: Arc<Web>,
}

impl WebServer {
    /// Listens on a loopback address.
    ///
    /// # Errors
    ///
    /// If it is not a loopback address, or cannot be listened on.
    pub async fn bind(config: WebConfig) -> Result<WebServer, WebError> {
        let WebConfig { address, client, scripts, tokens } = config;
        if !address.ip().is_loopback() {
            return Err(WebError::NotLoopback { address });
        }
        let failed = |source| WebError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let guard = Arc::new(Guard::new(address, tokens).map_err(WebError::Random)?);
        Ok(WebServer { listener, address, guard, web: Arc::new(Web::new(client, scripts)) })
    }

    /// The address of the pages.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link that opens the pages in one browser, once; none if it was used.
    pub fn link(&self) -> Option<String> {
        let token = self.guard.sessions().token()?;
        Some(format!("http://{}/open?token={token}", self.address))
    }

    /// Serves the pages; never returns.
    pub async fn serve(self) {
        let follower = self.web.follower.clone();
        let mut open = JoinSet::new();
        open.spawn(follower.run());
        let pages = router(self.web, self.guard);
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let accept = async {
                // Further connections wait in the queue of the socket.
                let permit = permits.clone().acquire_owned().await;
                (self.listener.accept().await, permit)
            };
            tokio::select! {
                Some(_) = open.join_next() => {}
                (accepted, permit) = accept => match accepted {
                    Ok((stream, _)) => {
                        let pages = pages.clone();
                        open.spawn(async move {
                            answer(stream, pages).await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot take a connection to the pages");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }
}

/// Answers the requests of a connection.
async fn answer(stream: TcpStream, pages: Router) {
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let connection = pin!(server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages)));
    if let Err(error) = connection.await {
        tracing::debug!(error, "a connection to the pages failed");
    }
}
