//! Tokens for programs: created and revoked by their user at a portal.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use http::StatusCode;

use super::Json;
use crate::extract::JsonBody;
use crate::problem::Problem;
use crate::sessions::Session;
use crate::state::Web;
use crate::tokens::{TokenIssuer, TokenScope};
use crate::types::{RevokedView, ScopeWord, TokenBody, TokenView, TokensView, now};

/// The shortest time that a token can be good, in seconds.
const LIFE_MIN_S: i64 = 60;

/// What creates tokens. A token creates none, so no program makes its time longer.
fn issuer<'a>(web: &'a Web, session: Option<&Session>) -> Result<&'a TokenIssuer, Problem> {
    if session.is_none() {
        let problem = "expected a session, found a token: tokens are created and revoked by their user";
        return Err(Problem::new(StatusCode::FORBIDDEN, problem));
    }
    web.tokens.as_ref().ok_or_else(|| {
        let problem = "expected a portal that has tokens, found other pages";
        Problem::new(StatusCode::NOT_FOUND, problem)
            .hint("for your own `pliant web`, `pliant token create` makes tokens")
    })
}

/// Whether you have tokens, and how long they can be good. At a portal, with a session.
#[utoipa::path(get, path = "/tokens", tag = "tokens",
    responses(
        (status = 200, body = TokensView),
        (status = 403, body = Problem, description = "The request has a token in place of a session."),
        (status = 404, body = Problem, description = "These pages create no tokens."),
    ))]
pub(super) async fn tokens(
    State(web): State<Arc<Web>>,
    session: Option<Extension<Session>>,
) -> Result<Json<TokensView>, Problem> {
    let issuer = issuer(&web, session.as_deref())?;
    Ok(Json(TokensView { created: issuer.exists(), life_max_s: issuer.life_max_s() }))
}

/// Creates a token for programs: it does what you may do, or only reads, until its time is over. It is shown once. At a portal, with a
/// session.
#[utoipa::path(post, path = "/tokens", tag = "tokens", request_body = TokenBody,
    responses(
        (status = 200, body = TokenView),
        (status = 400, body = Problem, description = "The body is wrong."),
        (status = 403, body = Problem, description = "The request has a token in place of a session, or lacks the token of the session."),
        (status = 404, body = Problem, description = "These pages create no tokens."),
    ))]
pub(super) async fn create(
    State(web): State<Arc<Web>>,
    session: Option<Extension<Session>>,
    JsonBody(TokenBody { scope, for_s }): JsonBody<TokenBody>,
) -> Result<Json<TokenView>, Problem> {
    let issuer = issuer(&web, session.as_deref())?;
    let most = issuer.life_max_s();
    if !(LIFE_MIN_S..=most).contains(&for_s) {
        let problem = format!("for_s: expected {LIFE_MIN_S} to {most} seconds, found {for_s}");
        return Err(Problem::bad_request(problem));
    }
    let until = pliant_model::Time(now().0 + for_s);
    let permits = match scope {
        ScopeWord::Read => TokenScope::Read,
        ScopeWord::Write => TokenScope::Write,
    };
    let token = issuer.create(permits, until).map_err(failed)?;
    tracing::info!(user = issuer.user(), scope = permits.word(), until = until.0, "a token was created");
    Ok(Json(TokenView { token, scope, not_after_s: until.0 }))
}

/// Revokes all tokens that you have created at this portal. With a session.
#[utoipa::path(post, path = "/tokens/revoke", tag = "tokens",
    responses(
        (status = 200, body = RevokedView),
        (status = 403, body = Problem, description = "The request has a token in place of a session, or lacks the token of the session."),
        (status = 404, body = Problem, description = "These pages create no tokens."),
    ))]
pub(super) async fn revoke(
    State(web): State<Arc<Web>>,
    session: Option<Extension<Session>>,
) -> Result<Json<RevokedView>, Problem> {
    let issuer = issuer(&web, session.as_deref())?;
    let revoked = issuer.revoke_all().map_err(failed)?;
    if revoked {
        tracing::info!(user = issuer.user(), "all tokens were revoked");
    }
    Ok(Json(RevokedView { revoked }))
}

fn failed(error: std::io::Error) -> Problem {
    // Users need not know where the portal keeps keys.
    tracing::warn!(%error, "the key of tokens cannot be used");
    let problem = "the portal cannot use the key of your tokens";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem)
        .hint("operators find the reason in the portal's log")
}
