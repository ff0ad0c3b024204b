//! A portal: the pages for all users of a site, who log in through an OpenID provider.
//!
//! The portal has no rights of its own. Each session is of one federation user, and its calls go with the identity of that
//! user, which operators have put into the portal's folder. Requests come in through one address, behind TLS.

mod fetch;
mod file;
mod id_token;
mod login;
mod provider;
mod sessions;
mod tokens;
mod users;

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use pliant_control::names::User;
use pliant_telemetry::LineLimit;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

pub use file::PortalFile;

use crate::assets;
use crate::connection::Trusted;
use crate::extract::QueryOf;
use crate::guard::{TokenCheck, bearer, check_csrf, check_scope, not_good};
use crate::listen::{LIMITS, Limits, listen};
use crate::origin::{Origin, guard_all};
use crate::pages;
use crate::problem::Problem;
use crate::script::ScriptReader;
use crate::types::now;
use crate::what_if::ReplayCommand;
use login::Logins;
use provider::Provider;
use sessions::PortalSessions;
use tokens::PortalTokens;
use users::{ForAll, OpenUsers, check_private, user_of};

/// Connections of all users together.
const PORTAL_LIMITS: Limits = Limits { connections: 2048, of_a_user: 64, ..LIMITS };
/// How often sessions and users are looked at whose time may be over.
const SWEEP: Duration = Duration::from_secs(5);

/// The lines about refused logins.
static REFUSED: LineLimit = LineLimit::new();

/// Why a portal cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PortalError(String);

/// The pages of a portal.
pub struct PortalServer {
    listener: TcpListener,
    address: SocketAddr,
    url: String,
    tls: Option<TlsAcceptor>,
    portal: Arc<Portal>,
}

/// What all requests share.
struct Portal {
    origin: Arc<Origin>,
    provider: Provider,
    file: file::LoginSection,
    logins: Logins,
    sessions: PortalSessions,
    tokens: Option<Arc<PortalTokens>>,
    users: OpenUsers,
}

impl PortalServer {
    /// Listens on the address of the file.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened on, or a file that the portal's file names cannot be used.
    pub async fn bind(
        file: PortalFile,
        scripts: ScriptReader,
        replay: ReplayCommand,
    ) -> Result<PortalServer, PortalError> {
        let portal = Arc::new(Portal::new(&file, scripts, replay).map_err(PortalError)?);
        let tls = file.tls.as_ref().map(acceptor).transpose().map_err(PortalError)?;
        let failed = |error| PortalError(format!("cannot listen on {}: {error}", file.listen));
        let listener = TcpListener::bind(file.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(PortalServer { listener, address, url: file.url, tls, portal })
    }

    /// The address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where browsers find the portal.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves the pages; never returns.
    pub async fn serve(self) {
        self.serve_within(PORTAL_LIMITS).await;
    }

    async fn serve_within(self, limits: Limits) {
        let sweeps = self.portal.clone().sweep();
        listen(self.listener, self.tls, router(self.portal), limits, sweeps).await;
    }
}

/// TLS with the certificate of the portal.
fn acceptor(tls: &file::TlsSection) -> Result<TlsAcceptor, String> {
    check_private(&tls.key, "tls.key")?;
    let in_file = |path: &Path, error: &dyn std::fmt::Display| format!("tls: {}: {error}", path.display());
    let chain = CertificateDer::pem_file_iter(&tls.cert).map_err(|error| in_file(&tls.cert, &error))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| in_file(&tls.cert, &error))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| in_file(&tls.key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| in_file(&tls.cert, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl Portal {
    fn new(file: &PortalFile, scripts: ScriptReader, replay: ReplayCommand) -> Result<Portal, String> {
        let PortalFile { url, identities, agent, master, login, session, .. } = file;
        let host = file::host_of(url).ok_or("url: expected https://HOST or https://HOST:PORT")?;
        check_private(&login.client_secret, "login.client_secret")?;
        let secret = std::fs::read_to_string(&login.client_secret)
            .map_err(|error| format!("login.client_secret: {}: {error}", login.client_secret.display()))?;
        let failed = |why| format!("login.ca: {why}");
        let random = |error| format!("cannot draw a secret: {error}");
        let tokens = file.tokens.as_ref().map(PortalTokens::new).transpose()?.map(Arc::new);
        let for_all = ForAll {
            agents: agent.clone(),
            masters: master.clone(),
            scripts,
            replay,
            tokens: tokens.clone(),
        };
        Ok(Portal {
            origin: Arc::new(Origin::secure(&host)),
            provider: Provider::new(login.clone(), secret.trim_end().to_owned(), url).map_err(failed)?,
            file: login.clone(),
            logins: Logins::new().map_err(random)?,
            sessions: PortalSessions::new(*session),
            tokens,
            users: OpenUsers::new(identities, login, for_all, session.users)?,
        })
    }

    /// Ends sessions and users whose time is over, and those of removed users; never returns.
    async fn sweep(self: Arc<Portal>) -> Infallible {
        loop {
            self.sessions.end_old(now());
            self.users.end_idle(now());
            let portal = self.clone();
            // File systems may hang. A panic there is no reason to stop.
            let _ = tokio::task::spawn_blocking(move || portal.end_removed()).await;
            tokio::time::sleep(SWEEP).await;
        }
    }

    /// Ends the sessions and revokes the tokens of those who are no users any more.
    fn end_removed(&self) {
        // What cannot be read now may be there.
        let is_user = |user: &User| self.users.has(user).unwrap_or(true);
        for user in self.sessions.users().iter().filter(|user| !is_user(user)) {
            self.sessions.end_of(user);
            self.users.end(user);
            tracing::info!(%user, "the sessions of a removed user were ended");
        }
        let Some(tokens) = &self.tokens else { return };
        match tokens.revoke_removed(is_user) {
            Ok(revoked) => revoked.iter().for_each(|user| {
                self.users.end(user);
                tracing::info!(%user, "the tokens of a removed user were revoked");
            }),
            Err(error) => {
                tracing::warn!(%error, folder = %tokens.folder().display(), "tokens cannot be revoked")
            }
        }
    }
}

/// All routes.
fn router(portal: Arc<Portal>) -> Router {
    let origin = portal.origin.clone();
    Router::new()
        .route("/login", get(log_in))
        .route("/login/callback", get(call_back))
        .route("/logout", post(log_out))
        .route("/logged-out", get(async || pages::logged_out()))
        .route("/assets/{name}", get(assets::asset))
        .fallback(of_user)
        .with_state(portal)
        .layer(from_fn_with_state(origin, guard_all))
}

/// Where a login leads to.
#[derive(Deserialize)]
struct LoginQuery {
    #[serde(default)]
    to: String,
}

/// Sends the browser to the provider.
async fn log_in(
    State(portal): State<Arc<Portal>>,
    headers: HeaderMap,
    QueryOf(query): QueryOf<LoginQuery>,
) -> Response {
    let begun = portal.logins.begin(&headers, &query.to, now());
    let (login, state, cookies) = match begun {
        Ok(begun) => begun,
        Err(error) => return pages::problem_page(&Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error)),
    };
    match portal.provider.login_url(&state, &login.nonce(), &login.verifier()).await {
        Ok(url) => leading_to(&url, &cookies),
        Err(error) => pages::problem_page(&unavailable(&error)),
    }
}

/// What the provider sends back through the browser.
#[derive(Deserialize)]
struct CallbackQuery {
    #[serde(default)]
    state: String,
    code: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// Ends a login and begins a session.
async fn call_back(
    State(portal): State<Arc<Portal>>,
    headers: HeaderMap,
    QueryOf(query): QueryOf<CallbackQuery>,
) -> Response {
    let no_cookie = Logins::no_cookie(&query.state);
    match session_of(&portal, &headers, query).await {
        Ok((page, cookie)) => {
            leading_to(&page, &[Some(cookie), no_cookie].into_iter().flatten().collect::<Vec<_>>())
        }
        Err(problem) => {
            // Everyone who reaches the port can have logins refused.
            if problem.status().is_client_error()
                && let Some(left_out) = REFUSED.admit("", Instant::now())
            {
                tracing::warn!(reason = problem.detail(), left_out, "a login was refused");
            }
            with_cookies(pages::problem_page(&problem), no_cookie.as_slice())
        }
    }
}

/// The page that a login leads to, and the cookie of the session that begins.
async fn session_of(
    portal: &Portal,
    headers: &HeaderMap,
    query: CallbackQuery,
) -> Result<(String, String), Problem> {
    let refused = |problem: String| {
        Problem::new(StatusCode::FORBIDDEN, problem).hint("open the portal again to log in")
    };
    let login = portal.logins.find(headers, &query.state, now()).ok_or_else(|| {
        let problem =
            "expected the end of a login that this browser began within ten minutes, found another one";
        refused(problem.to_owned())
    })?;
    // RFC 9207: an answer of another provider.
    if query.iss.is_some_and(|found| found != portal.provider.issuer()) {
        return Err(refused(
            "expected an answer of the provider of this portal, found another one's".to_owned(),
        ));
    }
    if let Some(error) = query.error {
        let error: String = error.escape_debug().take(200).collect();
        return Err(refused(format!("the provider refuses the login: {error}")));
    }
    let code = query.code.ok_or_else(|| refused("expected the code of a login, found none".to_owned()))?;
    // Before the provider is asked: each login asks it once, however often its callback comes.
    if !portal.logins.spend(&login, now()) {
        return Err(refused("expected a login that has not ended, found one that has".to_owned()));
    }
    let claims = portal.provider.claims(&code, &login.nonce(), &login.verifier()).await;
    let claims = claims.map_err(|error| match error.is_refusal() {
        true => refused(error.to_string()),
        false => unavailable(&error),
    })?;
    let user = user_of(&portal.file, &claims)?;
    // Without an identity there is no session.
    drop(portal.users.pages(&user, now())?);
    let random = |error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error);
    // A session that this browser had ends: none goes on as another user's.
    portal.sessions.end(headers);
    let cookie = portal.sessions.begin(user.clone(), now()).map_err(random)?;
    tracing::info!(%user, "logged in");
    Ok((login.page, cookie))
}

/// Ends a session.
async fn log_out(State(portal): State<Arc<Portal>>, request: Request) -> Response {
    let Some((user, session)) = portal.sessions.find(request.headers(), now()) else {
        return no_session().into_response();
    };
    if let Err(problem) = check_csrf(&request, &session) {
        return problem.into_response();
    }
    portal.sessions.end(request.headers());
    tracing::info!(%user, "logged out");
    with_cookies(StatusCode::NO_CONTENT.into_response(), &[PortalSessions::no_cookie()])
}

/// Passes a request on to the pages and calls of its user.
async fn of_user(State(portal): State<Arc<Portal>>, mut request: Request) -> Response {
    let is_call = request.uri().path().starts_with("/api/");
    if let Some(token) = bearer(&request) {
        let token = token.to_owned();
        return of_token(&portal, request, &token).await.into_response();
    }
    let Some((user, session)) = portal.sessions.find(request.headers(), now()) else {
        let is_page = !is_call && *request.method() == Method::GET;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let page = form_urlencoded::byte_serialize(path.as_bytes()).collect::<String>();
        return if is_page {
            leading_to(&format!("/login?to={page}"), &[])
        } else {
            no_session().into_response()
        };
    };
    let checked = check_csrf(&request, &session).and_then(|()| portal.users.pages(&user, now()));
    match checked {
        Ok(pages) => {
            if let Some(trusted) = request.extensions().get::<Trusted>() {
                trusted.note(user.as_str());
            }
            request.extensions_mut().insert(session);
            pages.router.oneshot(request).await.into_response()
        }
        Err(problem) if is_call => problem.into_response(),
        Err(problem) => pages::problem_page(&problem),
    }
}

/// Passes a call with a token on to the calls of its user.
async fn of_token(portal: &Portal, mut request: Request, token: &str) -> Result<Response, Problem> {
    let Some(tokens) = &portal.tokens else {
        let problem = "expected a session, found a token: this portal has no tokens";
        let hint = "operators allow tokens with [tokens] in the portal's file";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, problem).hint(hint));
    };
    let found = tokens.find(token, now()).map_err(|error| {
        tracing::warn!(%error, "the key of tokens cannot be used");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the portal cannot use the key of these tokens")
    })?;
    check_scope(found.as_ref().map(|(_, good)| good.scope), &request)?;
    let Some((user, good)) = found else { return Err(not_good()) };
    let pages = portal.users.pages(&user, now())?;
    // A token is not good for another role than that in which it was created.
    if pages.is_operator != good.is_operator {
        return Err(not_good());
    }
    if let Some(trusted) = request.extensions().get::<Trusted>() {
        trusted.note(user.as_str());
    }
    let (tokens, token) = (tokens.clone(), token.to_owned());
    let is_good = move || tokens.find(&token, now()).is_ok_and(|found| found.is_some());
    request.extensions_mut().insert(TokenCheck::new(is_good));
    Ok(pages.router.oneshot(request).await.into_response())
}

fn no_session() -> Problem {
    let problem = "expected a session, found none";
    Problem::new(StatusCode::UNAUTHORIZED, problem).hint("reload the page to log in")
}

/// The lines about the provider: each attempt to log in can cause one.
static PROVIDER_FAILURES: LineLimit = LineLimit::new();

/// The provider does not do what it should.
fn unavailable(error: &provider::ProviderError) -> Problem {
    if let Some(left_out) = PROVIDER_FAILURES.admit("provider", Instant::now()) {
        tracing::warn!(%error, left_out, "the provider of logins cannot be used");
    }
    let problem = "users cannot log in now: the provider of logins does not answer as it should";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem)
        .hint("try again in some minutes; operators find the reason in the portal's log")
}

/// Sends the browser to another page.
fn leading_to(url: &str, cookies: &[String]) -> Response {
    match HeaderValue::try_from(url) {
        Ok(url) => with_cookies((StatusCode::SEE_OTHER, [(LOCATION, url)]).into_response(), cookies),
        Err(error) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
    }
}

fn with_cookies(mut response: Response, cookies: &[String]) -> Response {
    for cookie in cookies.iter().filter_map(|cookie| HeaderValue::try_from(cookie).ok()) {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}
