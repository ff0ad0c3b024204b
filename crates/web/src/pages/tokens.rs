//! The page of tokens, at a portal.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use maud::html;

use super::frame::page as framed;
use super::problem_page;
use crate::problem::Problem;
use crate::sessions::Session;
use crate::state::Web;

/// For how long tokens are good, in hours.
const TIMES: [(i64, &str); 6] = [
    (1, "1 hour"),
    (8, "8 hours"),
    (24, "1 day"),
    (7 * 24, "7 days"),
    (30 * 24, "30 days"),
    (365 * 24, "1 year"),
];

pub(super) async fn page(State(web): State<Arc<Web>>, Extension(session): Extension<Session>) -> Response {
    let Some(tokens) = &web.tokens else {
        let problem = Problem::new(StatusCode::NOT_FOUND, "these pages create no tokens");
        let hint = "at a portal operators allow them with [tokens] in its file; for your own `pliant web`, `pliant token create` makes them";
        return problem_page(&problem.hint(hint));
    };
    let times = TIMES.into_iter().filter(|(hours, _)| hours * 3600 <= tokens.life_max_s());
    let content = html! {
        h1 { "Tokens" }
        section aria-labelledby="create-title" {
            h2 id="create-title" { "Create a token" }
            p class="quiet" {
                "A token lets a program of yours use the " a href="/api/v1/openapi.json" { "API" } " of this portal as you do, without a login. It is shown once."
            }
            form id="create" class="bar" {
                label { "It permits " select name="scope" {
                    option value="read" { "to read" }
                    option value="write" { "to read and to change" }
                } }
                label { "for " select name="for_s" {
                    @for (hours, text) in times { option value=(hours * 3600) { (text) } }
                    option value=(tokens.life_max_s()) { "the longest time" }
                } }
                button type="submit" class="primary" { "Create" }
            }
            div id="created" role="status" {}
        }
        section aria-labelledby="revoke-title" {
            h2 id="revoke-title" { "Revoke" }
            p id="revoke-text" class="quiet" {}
            p class="bar" { button type="button" id="revoke" class="danger" disabled { "Revoke all tokens" } }
        }
    };
    framed(&web.session_view(), &session, "tokens", "Tokens", &content)
}
