//! The pages of one user, on a loopback address.

use std::net::SocketAddr;
use std::sync::Arc;

use pliant_client::{Client, WorkRegistry};
use tokio::net::TcpListener;

use crate::guard::Guard;
use crate::listen::{LIMITS, Limits, listen};
use crate::routes::router;
use crate::script::ScriptReader;
use crate::state::Web;
use crate::tokens::TokenKey;
use crate::what_if::{ReplayCommand, WhatIf};
use crate::works::Works;

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
    /// The folders of the user's sweeps and explorations.
    pub work: WorkRegistry,
    /// Makes the command of a replay.
    pub replay: ReplayCommand,
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
        let WebConfig { address, client, scripts, tokens, work, replay } = config;
        if !address.ip().is_loopback() {
            return Err(WebError::NotLoopback { address });
        }
        let failed = |source| WebError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let guard = Arc::new(Guard::new(address, tokens).map_err(WebError::Random)?);
        let web = Web::new(client, scripts)
            .with_works(Works::new(work))
            .with_what_if(Arc::new(WhatIf::new(replay)));
        Ok(WebServer { listener, address, guard, web: Arc::new(web) })
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
        self.serve_within(LIMITS).await;
    }

    async fn serve_within(self, limits: Limits) {
        let polls = self.web.follower.clone().run();
        let pages = router(self.web, self.guard);
        listen(self.listener, None, pages, limits, polls).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::routes::tests::closed;
    use crate::state::STREAMS_MAX;

    async fn served(limits: Limits) -> (SocketAddr, Arc<Guard>, tempfile::TempDir) {
        let (_, _, web, dir) = closed();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tokens = TokenKey::new(&dir.path().join("key"), "alice", false);
        let guard = Arc::new(Guard::new(address, tokens).unwrap());
        tokio::spawn(WebServer { listener, address, guard: guard.clone(), web }.serve_within(limits));
        (address, guard, dir)
    }

    /// The status line of an answer; empty if the connection is closed without one.
    async fn status(stream: &mut TcpStream, address: SocketAddr, headers: &str) -> String {
        let request = format!("GET /api/v1/session HTTP/1.1\r\nhost: {address}\r\n{headers}\r\n");
        // A closed connection may refuse the request already.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = vec![0; 15];
        match stream.read_exact(&mut answer).await {
            Ok(_) => String::from_utf8(answer).unwrap(),
            Err(_) => String::new(),
        }
    }

    #[tokio::test]
    async fn connections_of_strangers_give_way_and_those_of_the_user_stay() {
        let limits = Limits { connections: 4, undisturbed: Duration::from_millis(20), ..LIMITS };
        let (address, guard, _dir) = served(limits).await;
        let sessions = guard.sessions();
        let cookie = sessions.spend(&sessions.token().unwrap()).unwrap().unwrap();
        let cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
        let mut own = TcpStream::connect(address).await.unwrap();
        assert_eq!(status(&mut own, address, &cookie).await, "HTTP/1.1 200 OK");
        let mut strangers = Vec::new();
        for _ in 0..12 {
            strangers.push(TcpStream::connect(address).await.unwrap());
        }
        let mut late = TcpStream::connect(address).await.unwrap();
        assert_eq!(status(&mut late, address, &cookie).await, "HTTP/1.1 200 OK");
        let mut rest = vec![0; 1];
        assert_eq!(strangers[0].read(&mut rest).await.unwrap_or(0), 0, "the oldest stranger was sent away");
        own.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let (mut piece, mut answers) = (vec![0; 1024], String::new());
        while !answers.contains("HTTP/1.1 421") {
            let length = own.read(&mut piece).await.unwrap();
            assert!(length > 0, "the connection of the user was ended");
            answers += &String::from_utf8_lossy(&piece[..length]);
        }
    }

    /// The whole answer to a request on a connection of its own.
    async fn answer(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{request}host: {address}\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // The rest of a body that was refused may be a reset.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    /// The cookie of the session, as a header, and the token of its pages.
    async fn session(address: SocketAddr, guard: &Guard) -> (String, String) {
        let sessions = guard.sessions();
        let cookie = sessions.spend(&sessions.token().unwrap()).unwrap().unwrap();
        let cookie = format!("cookie: {}\r\n", cookie.split(';').next().unwrap());
        let page = answer(address, &format!("GET /submit HTTP/1.1\r\nconnection: close\r\n{cookie}")).await;
        let (_, rest) = page.split_once("name=\"csrf-token\" content=\"").unwrap();
        (cookie, format!("x-csrf-token: {}\r\n", rest.split('"').next().unwrap()))
    }

    /// No byte of the body comes: an answer other than 408 shows that none was waited for.
    #[tokio::test]
    async fn a_body_that_is_declared_too_long_is_refused_without_waiting_for_it() {
        let (address, guard, _dir) = served(LIMITS).await;
        let (cookie, csrf) = session(address, &guard).await;
        let post = format!("POST /api/v1/jobs HTTP/1.1\r\n{cookie}{csrf}content-type: application/json\r\n");
        for length in [(4_u64 << 20) + 1, u64::MAX / 2] {
            let answer = answer(address, &format!("{post}content-length: {length}\r\n")).await;
            assert!(answer.starts_with("HTTP/1.1 413 "), "{length}: {answer}");
            assert!(
                answer.contains("application/problem+json") && answer.contains("\"status\":413"),
                "{answer}"
            );
        }
    }

    #[tokio::test]
    async fn one_event_stream_more_than_may_be_open_gets_a_problem_document() {
        let (address, guard, _dir) = served(LIMITS).await;
        let (cookie, _) = session(address, &guard).await;
        let ask = format!("GET /api/v1/events HTTP/1.1\r\n{cookie}");
        let mut open = Vec::new();
        for _ in 0..STREAMS_MAX {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("{ask}host: {address}\r\n\r\n").as_bytes()).await.unwrap();
            let mut status = vec![0; 15];
            stream.read_exact(&mut status).await.unwrap();
            assert_eq!(status, b"HTTP/1.1 200 OK");
            open.push(stream);
        }
        let refused = answer(address, &format!("{ask}connection: close\r\n")).await;
        assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
        let (_, body) = refused.split_once("\r\n\r\n").unwrap();
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["status"], 503);
        assert_eq!(
            problem["detail"],
            format!("expected at most {STREAMS_MAX} open event streams, found one more")
        );
        assert_eq!(problem["hint"], "close other pages of `pliant web`");
        // The others go on.
        let ask = format!("GET /api/v1/session HTTP/1.1\r\n{cookie}connection: close\r\n");
        assert!(answer(address, &ask).await.starts_with("HTTP/1.1 200 OK"));
    }

    #[tokio::test]
    async fn headers_that_do_not_come_close_the_connection() {
        let (address, _guard, _dir) = served(Limits { head: Duration::from_millis(20), ..LIMITS }).await;
        for text in ["", "GET / HTTP/1.1\r\nhost: x\r\n"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            // A reset is an end, too.
            let _ = stream.read_to_end(&mut answer).await;
            assert!(!answer.starts_with(b"HTTP/1.1 200"), "{text:?}");
        }
    }
}
