//! What stands before every page and every call: the host, the site that a request comes from, the session and its token.
//!
//! A request must name this server as its host, so that no other name can be bound to the loopback address and used to read the
//! pages (DNS rebinding). Browsers say from which site a request comes: other sites may link to a page, nothing else. Cookies
//! are not separated by port, so pages on other ports of this machine count as other sites.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{self, AUTHORIZATION, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::connection::Trusted;
use crate::pages;
use crate::problem::Problem;
use crate::sessions::{Session, Sessions};
use crate::tokens::{TokenKey, TokenScope};
use crate::types::now;

/// The header in which a page sends the token of its session.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// What a page may load and do: its own files and calls alone.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Headers of every answer.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Where the pages are, and who may see them.
pub(crate) struct Guard {
    hosts: Vec<String>,
    sessions: Sessions,
    tokens: TokenKey,
}

impl Guard {
    /// Guards the pages at that address.
    pub(crate) fn new(address: SocketAddr, tokens: TokenKey) -> std::io::Result<Guard> {
        let port = address.port();
        let hosts = vec![address.to_string(), format!("localhost:{port}")];
        Ok(Guard { hosts, sessions: Sessions::new(port)?, tokens })
    }

    /// The link and its session.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Whether the request names this server as its host.
    fn check_host(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let mut named = headers.get_all(HOST).iter();
        let host = named.next().and_then(|host| host.to_str().ok()).unwrap_or_default();
        if named.next().is_none() && self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return Ok(());
        }
        Err(Problem::new(
            StatusCode::MISDIRECTED_REQUEST,
            format!("expected the host {}, found `{}`", self.hosts.join(" or "), host.escape_debug()),
        ))
    }

    /// Whether the request comes from a page of this server, from the user's own hand, or is a link from elsewhere.
    fn check_site(&self, request: &Request) -> Result<(), Problem> {
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("another site"));
        let is_link = *request.method() == Method::GET && text(SEC_FETCH_MODE) == Some("navigate");
        match text(SEC_FETCH_SITE) {
            None | Some("same-origin") => {}
            Some(_) if is_link => {}
            Some(found) => {
                let problem =
                    format!("expected a request from a page of this server, found one from {found}");
                return Err(Problem::new(StatusCode::FORBIDDEN, problem));
            }
        }
        let is_own = |origin: &str| {
            let host = origin.strip_prefix("http://").unwrap_or_default();
            self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
        };
        match text(ORIGIN) {
            None => Ok(()),
            Some(origin) if is_own(origin) => Ok(()),
            Some(origin) => {
                let found = origin.escape_debug();
                let problem =
                    format!("expected a request from a page of this server, found one from `{found}`");
                Err(Problem::new(StatusCode::FORBIDDEN, problem))
            }
        }
    }

    /// The session, with its token if the request changes something.
    fn check_session(&self, request: &Request) -> Result<Session, Problem> {
        let session = self.sessions.session(request.headers()).ok_or_else(|| {
            let hint = "open the link that `pliant web` printed; once it is used, start `pliant web` again for another one";
            Problem::new(StatusCode::UNAUTHORIZED, "expected a session, found none").hint(hint)
        })?;
        let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
        let token = request.headers().get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        if is_reading || token.is_some_and(|token| session.csrf.is(token)) {
            return Ok(session);
        }
        let problem = match token {
            None => format!("expected the token of the session in {CSRF_HEADER}, found none"),
            Some(_) => format!("expected the token of the session in {CSRF_HEADER}, found another one"),
        };
        Err(Problem::new(StatusCode::FORBIDDEN, problem).hint("reload the page"))
    }
}

impl Guard {
    /// Checks the token of a program, if the request has one: a browser sends none by itself, so no other site can use it.
    fn check_token(&self, request: &Request) -> Option<Result<(), Problem>> {
        let value = request.headers().get(AUTHORIZATION)?;
        let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
        Some(match self.tokens.scope(token, now()) {
            Ok(Some(TokenScope::Write)) => Ok(()),
            Ok(Some(TokenScope::Read)) if is_reading => Ok(()),
            Ok(Some(TokenScope::Read)) => {
                let problem = "expected a token that permits changes, found one that permits to read";
                Err(Problem::new(StatusCode::FORBIDDEN, problem)
                    .hint("`pliant token create --write` makes one"))
            }
            Ok(None) => {
                let problem = "expected a token that is good now, found another one";
                let hint = "`pliant token create` makes one; with another certificate or after `pliant token revoke` it is not good any more";
                Err(Problem::new(StatusCode::UNAUTHORIZED, problem).hint(hint))
            }
            Err(error) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error)),
        })
    }
}

/// Refuses requests to another host and from other sites; adds the headers of every answer.
pub(crate) async fn guard_all(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let checked = guard.check_host(request.headers()).and_then(|()| guard.check_site(&request));
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in &HEADERS {
        // A download has a stricter policy of its own.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Notes that the connection of a request is the user's. Tests call without one.
fn trust(request: &Request) {
    if let Some(trusted) = request.extensions().get::<Trusted>() {
        trusted.note();
    }
}

/// Refuses requests without a session, and changes without its token.
pub(crate) async fn guard_session(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_call = request.uri().path().starts_with("/api/");
    if is_call && let Some(checked) = guard.check_token(&request) {
        return match checked {
            Ok(()) => {
                trust(&request);
                next.run(request).await
            }
            Err(problem) => problem.into_response(),
        };
    }
    match guard.check_session(&request) {
        Ok(session) => {
            trust(&request);
            request.extensions_mut().insert(session);
            next.run(request).await
        }
        Err(problem) if is_call => problem.into_response(),
        Err(problem) => pages::problem_page(&problem),
    }
}
