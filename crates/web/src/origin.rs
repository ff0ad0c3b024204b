//! Where the pages are: which host and which site requests may name.
//!
//! A request must name this server as its host, so that no other name can be bound to its address and used to read the
//! pages (DNS rebinding). Browsers say from which site a request comes: other sites may link to a page, nothing else. Cookies
//! are not separated by port, so pages on other ports of this machine count as other sites.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{self, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::problem::Problem;

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

/// For how long browsers use TLS alone: a year.
const ONLY_TLS: &str = "max-age=31536000";

/// The scheme and the hosts of the pages' URLs.
pub(crate) struct Origin {
    scheme: &'static str,
    hosts: Vec<String>,
}

impl Origin {
    /// That of pages without TLS at an address of this machine.
    pub(crate) fn of_address(address: SocketAddr) -> Origin {
        let hosts = vec![address.to_string(), format!("localhost:{}", address.port())];
        Origin { scheme: "http", hosts }
    }

    /// That of pages behind TLS, whose URLs have this host, with its port if it is not 443.
    pub(crate) fn secure(host: &str) -> Origin {
        Origin { scheme: "https", hosts: vec![host.to_owned()] }
    }

    /// True if browsers reach the pages through TLS.
    fn is_secure(&self) -> bool {
        self.scheme == "https"
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
            let host = origin.strip_prefix(self.scheme).and_then(|rest| rest.strip_prefix("://"));
            let host = host.unwrap_or_default();
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
}

/// Refuses requests to another host and from other sites; adds the headers of every answer.
pub(crate) async fn guard_all(State(origin): State<Arc<Origin>>, request: Request, next: Next) -> Response {
    let checked = origin.check_host(request.headers()).and_then(|()| origin.check_site(&request));
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in &HEADERS {
        // A download has a stricter policy of its own.
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    if origin.is_secure() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(ONLY_TLS));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
