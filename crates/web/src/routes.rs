//! All pages and calls, behind their guards.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::Deserialize;

use crate::extract::QueryOf;
use crate::guard::{Guard, guard_session};
use crate::origin::guard_all;
use crate::pages;
use crate::problem::Problem;
use crate::state::{BODIES_MAX, Web};
use crate::{api, assets};

/// The pages and calls of a user, for requests that know their session.
pub(crate) fn content(web: Arc<Web>) -> Router {
    let bounded = from_fn_with_state(web.clone(), bound_bodies);
    pages::routes().nest("/api/v1", api::routes()).with_state(web).layer(bounded)
}

/// Refuses more requests with a body than are answered at a time.
async fn bound_bodies(State(web): State<Arc<Web>>, request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let Ok(_permit) = web.bodies.try_acquire() else {
        let problem = format!("expected at most {BODIES_MAX} requests with a body at a time, found one more");
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, problem);
        return problem.hint("try again when one of them is answered").into_response();
    };
    next.run(request).await
}

/// All routes behind their guards.
pub(crate) fn router(web: Arc<Web>, guard: Arc<Guard>) -> Router {
    let behind_session = content(web).layer(from_fn_with_state(guard.clone(), guard_session));
    let origin = guard.origin();
    Router::new()
        .route("/open", get(open))
        .with_state(guard)
        // Files without a secret: the page of a spent link has a style, too.
        .route("/assets/{name}", get(assets::asset))
        .merge(behind_session)
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "expected GET for this address")
        })
        .layer(from_fn_with_state(origin, guard_all))
}

/// The token of a link.
#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    token: String,
}

/// Spends the link. The answer is a page and no redirection: a browser sends no cookie of this kind behind a link of another site,
/// but it does behind a page of ours.
async fn open(State(guard): State<Arc<Guard>>, headers: HeaderMap, QueryOf(link): QueryOf<Link>) -> Response {
    let sessions = guard.sessions();
    if sessions.session(&headers).is_some() {
        return pages::opened();
    }
    match sessions.spend(&link.token) {
        Ok(Some(cookie)) => {
            let mut response = pages::opened();
            match HeaderValue::try_from(cookie) {
                Ok(cookie) => drop(response.headers_mut().insert(SET_COOKIE, cookie)),
                Err(error) => return Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
            }
            response
        }
        Ok(None) => pages::problem_page(
            &Problem::new(StatusCode::GONE, "expected a link that was not used yet, found another one")
                .hint("each link opens one browser, once: start `pliant web` again for another link"),
        ),
        Err(error) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
    }
}

#[cfg(test)]
pub(crate) mod tests;
