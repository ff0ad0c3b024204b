//! The API, `/api/v1`: what the pages use, for programs too. Its description is made from the types.

mod admin;
mod calls;
mod clusters;
mod events;
mod files;
mod gantt;
mod jobs;
mod launches;
mod log;
mod sent_files;
mod submit;
mod submitted;
mod tokens;
mod what_if;
mod work;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use crate::problem::{PROBLEM_TYPE, Problem};
use crate::state::Web;

/// The description of the API.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Pliant",
        description = "The API of `pliant web`: jobs, clusters, estimates and submissions of a federation, with the rights of the \
                       user who started it. Times are in seconds since the Unix epoch. Requests need a token, or the cookie of \
                       a session; with a cookie, those that change something also need the token of the session in the header \
                       `x-csrf-token`. Errors are problem documents (RFC 9457)."
    ),
    servers((url = "/api/v1")),
    security(("token" = []), ("session" = [])),
    modifiers(&Credentials, &Problems),
    paths(
        clusters::session,
        clusters::clusters,
        clusters::health,
        clusters::promises,
        clusters::moves,
        gantt::gantt,
        jobs::jobs,
        jobs::groups,
        jobs::sweeps,
        jobs::job,
        jobs::cancel,
        jobs::cancel_several,
        log::log,
        files::files,
        files::file,
        submitted::submitted,
        calls::call,
        calls::call_value,
        submit::services,
        submit::estimates,
        submit::submit,
        launches::launches,
        launches::launch,
        launches::cancel_launch,
        launches::links,
        work::work,
        work::one,
        work::work_rows,
        work::work_points,
        work::shares,
        tokens::tokens,
        tokens::create,
        tokens::revoke,
        what_if::what_if,
        what_if::start,
        what_if::cancel,
        what_if::schedule,
        admin::drain,
        admin::ban,
        admin::limits,
        admin::limit,
        admin::hold,
        admin::release,
        admin::priority,
        admin::audit,
        admin::reallocation,
        admin::change_reallocation,
        admin::trial,
        events::events,
    )
)]
struct ApiDescription;

/// How callers say who they are.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let token = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A token of `pliant token create`, or of the page of tokens of a portal."))
            .build();
        let session = ApiKeyValue::with_description(
            "pliant-session-PORT",
            "The cookie that the one-time link of `pliant web` sets, by the port of the pages; at a portal it is `__Host-pliant-session`.",
        );
        let components = description.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(token));
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(session)));
    }
}

/// The media type of the errors, and those that any call may answer.
struct Problems;

impl Modify for Problems {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let content = || Content::new(Some(Ref::from_schema_name("Problem")));
        let any = ResponseBuilder::new()
            .description(
                "Any other error, of the request itself or before the call is reached: 400, 401 without a session or a token, 403, 404, 405, \
                 408, 413, 415, 421 for a foreign host, 500, 502, 503.",
            )
            .content(PROBLEM_TYPE, content())
            .build();
        for path in description.paths.paths.values_mut() {
            let calls = [&mut path.get, &mut path.post, &mut path.put, &mut path.delete, &mut path.patch];
            for call in calls.into_iter().flatten() {
                for (status, response) in &mut call.responses.responses {
                    if let (true, RefOr::T(response)) = (status.as_str() >= "400", response) {
                        response.content = [(PROBLEM_TYPE.to_owned(), RefOr::T(content()))].into();
                    }
                }
                call.responses.responses.insert("default".to_owned(), RefOr::T(any.clone()));
            }
        }
    }
}

/// The description as JSON.
pub fn openapi() -> String {
    let mut text = ApiDescription::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// The calls.
pub(crate) fn routes() -> Router<Arc<Web>> {
    Router::new()
        .route("/session", get(clusters::session))
        .route("/clusters", get(clusters::clusters))
        .route("/health", get(clusters::health))
        .route("/promises", get(clusters::promises))
        .route("/moves", get(clusters::moves))
        .route("/gantt", get(gantt::gantt))
        .route("/jobs", get(jobs::jobs).post(submit::submit))
        .route("/jobs/cancel", post(jobs::cancel_several))
        .route("/jobs/groups", get(jobs::groups))
        .route("/jobs/{id}", get(jobs::job))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/jobs/{id}/log", get(log::log))
        .route("/jobs/{id}/files", get(files::files))
        .route("/jobs/{id}/files/{*name}", get(files::file))
        .route("/jobs/{id}/submitted", get(submitted::submitted))
        .route("/jobs/{id}/call", get(calls::call))
        .route("/jobs/{id}/call/{name}", get(calls::call_value))
        .route("/services", get(submit::services))
        .route("/estimates", post(submit::estimates))
        .route("/launches", get(launches::launches))
        .route("/launches/{agent}/{key}", get(launches::launch))
        .route("/launches/{agent}/{key}/cancel", post(launches::cancel_launch))
        .route("/links", get(launches::links))
        .route("/work", get(work::work))
        .route("/work/{id}", get(work::one))
        .route("/work/{id}/rows", get(work::work_rows))
        .route("/work/{id}/points", get(work::work_points))
        .route("/sweeps", get(jobs::sweeps))
        .route("/shares", get(work::shares))
        .route("/tokens", get(tokens::tokens).post(tokens::create))
        .route("/tokens/revoke", post(tokens::revoke))
        .route("/what-if", get(what_if::what_if).post(what_if::start))
        .route("/what-if/cancel", post(what_if::cancel))
        .route("/what-if/schedules/{index}", get(what_if::schedule))
        .route("/jobs/{id}/hold", post(admin::hold))
        .route("/jobs/{id}/release", post(admin::release))
        .route("/jobs/{id}/priority", post(admin::priority))
        .route("/admin/drains", post(admin::drain))
        .route("/admin/bans", post(admin::ban))
        .route("/admin/limits", get(admin::limits).post(admin::limit))
        .route("/admin/audit", get(admin::audit))
        .route("/admin/reallocation", get(admin::reallocation).post(admin::change_reallocation))
        .route("/admin/reallocation/trial", post(admin::trial))
        .route("/events", get(events::events))
        .route("/openapi.json", get(async || json_text(openapi())))
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "expected a call of /api/v1/openapi.json"))
        .method_not_allowed_fallback(async || {
            let problem = "expected a method of /api/v1/openapi.json for this path";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, problem)
        })
}

/// An answer of JSON.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.0) {
            Ok(text) => json_text(text),
            Err(error) => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error).into_response(),
        }
    }
}

fn json_text(text: String) -> Response {
    let kind = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}
