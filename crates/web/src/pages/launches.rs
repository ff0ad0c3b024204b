//! The list of launches, and the page of one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use maud::html;
use pliant_control::coallocation::LaunchId;

use super::frame::{page as framed, sorted_table};
use super::problem_page;
use crate::extract::PathOf;
use crate::problem::Problem;
use crate::sessions::Session;
use crate::state::Web;

/// The list.
pub(super) async fn list(State(web): State<Arc<Web>>, Extension(session): Extension<Session>) -> Response {
    let content = html! {
        h1 { "Launches" }
        section aria-label="Launches" {
            (sorted_table("launches", "Launches", &[
                ("Name", false), ("User", false), ("State", false), ("Submitted", false), ("Tasks", true), ("Servers", false),
                ("Outcome", false),
            ]))
            p class="quiet" { "Applications of communicating tasks, started with " code { "pliant launch" } "." }
        }
    };
    framed(&web.session_view(), &session, "launches", "Launches", &content)
}

/// The page of one launch.
pub(super) async fn one(
    State(web): State<Arc<Web>>,
    Extension(session): Extension<Session>,
    path: Result<PathOf<(String, String)>, Problem>,
) -> Response {
    let id = path.and_then(|PathOf((agent, key))| {
        let id = format!("{agent}/{key}").parse::<LaunchId>();
        id.map_err(|error| Problem::new(StatusCode::NOT_FOUND, error))
    });
    let id = match id {
        Ok(id) => id,
        Err(problem) => return problem_page(&problem),
    };
    let content = html! {
        div id="launch" data-launch=(id) {
            div class="bar" {
                h1 { "Launch " span id="name" {} " " span id="state" class="state" role="status" {} }
                span class="tools" { button type="button" id="cancel" class="danger" hidden { "Cancel launch" } }
            }
            section aria-label="Facts" { div id="facts" {} }
            section aria-labelledby="mapping-title" {
                h2 id="mapping-title" { "Mapping" }
                p class="quiet" { "Each task is on the machine that it was mapped to, by cluster." }
                div id="mapping" class="mapping" {}
                div id="links-part" hidden {
                    h3 { "Links between its servers" }
                    div id="links-picture" {}
                    (sorted_table("links", "Measured links between the servers of the launch", &[
                        ("Between", false), ("and", false), ("Speed", true), ("Round trip", true), ("Measured", false),
                    ]))
                }
            }
            section aria-labelledby="tasks-title" {
                h2 id="tasks-title" { "Tasks" }
                (sorted_table("tasks", "Tasks of the launch", &[
                    ("Task", false), ("Server", false), ("Machine", false), ("Address", false), ("Exit", false), ("Affinity", true),
                ]))
            }
        }
    };
    framed(&web.session_view(), &session, "launch", "Launch", &content)
}
