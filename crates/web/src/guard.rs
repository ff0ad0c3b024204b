//! What stands before the pages and calls of one user: the session and its token, or the token of a program.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};

use crate::connection::Trusted;
use crate::origin::Origin;
use crate::pages;
use crate::problem::Problem;
use crate::sessions::{Session, Sessions};
use crate::tokens::{TokenKey, TokenScope};
use crate::types::now;

/// The header in which a page sends the token of its session.
pub(crate) const CSRF_HEADER: &str = "x-csrf-token";

/// Where the pages are, and who may see them.
pub(crate) struct Guard {
    origin: Arc<Origin>,
    sessions: Sessions,
    tokens: TokenKey,
}

impl Guard {
    /// Guards the pages at that address.
    pub(crate) fn new(address: SocketAddr, tokens: TokenKey) -> std::io::Result<Guard> {
        let origin = Arc::new(Origin::of_address(address));
        Ok(Guard { origin, sessions: Sessions::new(address.port())?, tokens })
    }

    /// Where the pages are.
    pub(crate) fn origin(&self) -> Arc<Origin> {
        self.origin.clone()
    }

    /// The link and its session.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The session, with its token if the request changes something.
    fn check_session(&self, request: &Request) -> Result<Session, Problem> {
        let session = self.sessions.session(request.headers()).ok_or_else(|| {
            let hint = "open the link that `pliant web` printed; once it is used, start `pliant web` again for another one";
            Problem::new(StatusCode::UNAUTHORIZED, "expected a session, found none").hint(hint)
        })?;
        check_csrf(request, &session)?;
        Ok(session)
    }
}

/// Whether a request that changes something has the token of its session.
pub(crate) fn check_csrf(request: &Request, session: &Session) -> Result<(), Problem> {
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    let token = request.headers().get(CSRF_HEADER).and_then(|value| value.to_str().ok());
    if is_reading || token.is_some_and(|token| session.csrf.is(token)) {
        return Ok(());
    }
    let problem = match token {
        None => format!("expected the token of the session in {CSRF_HEADER}, found none"),
        Some(_) => format!("expected the token of the session in {CSRF_HEADER}, found another one"),
    };
    Err(Problem::new(StatusCode::FORBIDDEN, problem).hint("reload the page"))
}

/// The token of a program, if a call has one: a browser sends none by itself, so no other site can use it. Empty if it is none.
pub(crate) fn bearer(request: &Request) -> Option<&str> {
    let value = request.headers().get(AUTHORIZATION).filter(|_| request.uri().path().starts_with("/api/"))?;
    Some(value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default())
}

/// Whether a token that permits so much permits the request; none if it is not good.
pub(crate) fn check_scope(scope: Option<TokenScope>, request: &Request) -> Result<(), Problem> {
    let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
    match scope {
        Some(TokenScope::Write) => Ok(()),
        Some(TokenScope::Read) if is_reading => Ok(()),
        Some(TokenScope::Read) => {
            let problem = "expected a token that permits changes, found one that permits to read";
            let hint = "`pliant token create --write` makes one, at a portal the page of tokens";
            Err(Problem::new(StatusCode::FORBIDDEN, problem).hint(hint))
        }
        None => Err(not_good()),
    }
}

/// A token is not good, or not any more.
pub(crate) fn not_good() -> Problem {
    let problem = "expected a token that is good now, found another one";
    let hint = "`pliant token create` makes one, at a portal the page of tokens; with another certificate or role, and after a \
                revocation, it is not good any more";
    Problem::new(StatusCode::UNAUTHORIZED, problem).hint(hint)
}

/// Whether the token of a call is good now: its event streams end when it is not any more.
#[derive(Clone)]
pub(crate) struct TokenCheck(Arc<dyn Fn() -> bool + Send + Sync>);

impl TokenCheck {
    /// Checks by that.
    pub(crate) fn new(is_good: impl Fn() -> bool + Send + Sync + 'static) -> TokenCheck {
        TokenCheck(Arc::new(is_good))
    }

    /// True if it is good now.
    pub(crate) fn is_good(&self) -> bool {
        (self.0)()
    }
}

impl Guard {
    /// Checks the token of a program, if the request has one.
    fn check_token(&self, request: &Request) -> Option<Result<TokenCheck, Problem>> {
        let token = bearer(request)?.to_owned();
        let scope = match self.tokens.scope(&token, now()) {
            Ok(scope) => scope,
            Err(error) => return Some(Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error))),
        };
        let tokens = self.tokens.clone();
        let is_good = move || tokens.scope(&token, now()).is_ok_and(|scope| scope.is_some());
        Some(check_scope(scope, request).map(|()| TokenCheck::new(is_good)))
    }
}

/// Notes that the connection of a request is the user's. Tests call without one.
fn trust(request: &Request) {
    if let Some(trusted) = request.extensions().get::<Trusted>() {
        trusted.note("");
    }
}

/// Refuses requests without a session, and changes without its token.
pub(crate) async fn guard_session(
    State(guard): State<Arc<Guard>>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_call = request.uri().path().starts_with("/api/");
    if let Some(checked) = guard.check_token(&request) {
        return match checked {
            Ok(check) => {
                trust(&request);
                request.extensions_mut().insert(check);
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
