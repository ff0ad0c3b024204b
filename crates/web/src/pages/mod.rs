//! The pages: frames of HTML with everything that does not change; the script fills in what the API says.

mod admin;
mod frame;
mod job;
mod jobs;
mod launches;
mod overview;
mod submit;
mod tokens;
mod what_if;
mod work;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, Uri, header};
use maud::{Markup, html};

use crate::problem::Problem;
use crate::state::Web;

/// The pages.
pub(crate) fn routes() -> Router<Arc<Web>> {
    Router::new()
        .route("/", get(overview::page))
        .route("/jobs", get(jobs::page))
        .route("/jobs/{id}", get(job::page))
        .route("/launches", get(launches::list))
        .route("/launches/{agent}/{key}", get(launches::one))
        .route("/work", get(work::list))
        .route("/work/{id}", get(work::one))
        .route("/what-if", get(what_if::page))
        .route("/admin", get(admin::page))
        .route("/tokens", get(tokens::page))
        .route("/submit", get(submit::page))
        .fallback(missing)
}

/// Nothing is at this address: programs read a problem document, people a page.
async fn missing(uri: Uri) -> Response {
    if uri.path() == "/api" || uri.path().starts_with("/api/") {
        return Problem::new(StatusCode::NOT_FOUND, "expected a call of /api/v1/openapi.json")
            .into_response();
    }
    problem_page(&Problem::new(StatusCode::NOT_FOUND, "there is no such page"))
}

/// The page behind a link that was just spent, which goes on by itself.
pub(crate) fn opened() -> Response {
    let content = html! {
        p { "The link is used. " a href="/" { "Continue" } }
    };
    html_response(StatusCode::OK, frame::bare("Pliant", &content, Some("0;url=/")))
}

/// The page after a user has logged out of a portal.
pub(crate) fn logged_out() -> Response {
    let content = html! {
        p { "You are logged out of this portal. " a href="/" { "Log in again" } }
        p class="quiet" { "You may still be logged in at the provider." }
    };
    html_response(StatusCode::OK, frame::bare("Logged out", &content, None))
}

/// A page that says what is wrong.
pub(crate) fn problem_page(problem: &Problem) -> Response {
    let content = html! {
        p { (problem.detail()) "." }
        @if let Some(advice) = problem.advice() { p class="quiet" { (advice) "." } }
    };
    let title = problem.status().canonical_reason().unwrap_or("Error");
    html_response(problem.status(), frame::bare(title, &content, None))
}

fn html_response(status: StatusCode, page: Markup) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(header::CONTENT_TYPE, kind)], page.into_string()).into_response()
}

#[cfg(test)]
mod tests;
