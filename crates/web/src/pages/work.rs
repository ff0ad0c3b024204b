//! The list of sweeps and explorations, and the page of one.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use maud::html;

use super::frame::{page as framed, sorted_table};
use super::problem_page;
use crate::extract::PathOf;
use crate::problem::Problem;
use crate::sessions::Session;
use crate::state::Web;

/// The list.
pub(super) async fn list(State(web): State<Arc<Web>>, Extension(session): Extension<Session>) -> Response {
    let user = web.session_view();
    let mut columns = vec![
        ("Sweep", false),
        ("Runs", false),
        ("User", false),
        ("Jobs ended", false),
        ("Waiting", true),
        ("Running", true),
        ("Failed", true),
        ("Cancelled", true),
        ("Servers", false),
        ("Submitted", false),
        ("Ended", false),
    ];
    // Others see their own only.
    columns.retain(|(name, _)| user.operator || *name != "User");
    let of_agent = match (web.works.is_some(), user.operator) {
        (false, _) => "Sweeps and arrays by their jobs",
        (true, false) => "Of other machines",
        (true, true) => "Of other machines and users",
    };
    let content = html! {
        h1 { "Sweeps and explorations" }
        @if web.works.is_some() { section aria-labelledby="works-title" {
            h2 id="works-title" { "Of this machine" }
            (sorted_table("works", "Sweeps and explorations", &[
                ("Name", false), ("Kind", false), ("Runs", false), ("State", false), ("Progress", false), ("Failed", true),
                ("At servers", true), ("Deadline", false), ("Last change", false),
            ]))
            p id="works-note" class="quiet" {
                "Those that you have begun on this machine with " code { "pliant sweep" } ", " code { "pliant explore" } " or "
                code { "pliant submit --array" } "."
            }
        } }
        section aria-labelledby="sweeps-title" id="sweeps-section" hidden[web.works.is_some()] {
            h2 id="sweeps-title" { (of_agent) }
            (sorted_table("sweeps", "Sweeps and arrays by their jobs", &columns))
            p class="quiet" {
                "What the agent knows: the jobs that were submitted so far, each of which runs one or more instances. A sweep with a single job is \
                 listed with the " a href="/jobs" { "jobs" } " only. "
                "The instances with their arguments and results, and the requests of explorations, are in the folder of the command: "
                code { "pliant web" } " on the machine where it runs shows them."
            }
            p id="sweeps-note" class="quiet" role="status" {}
        }
        section aria-labelledby="shares-title" id="shares-section" hidden {
            h2 id="shares-title" { "Fair share of explorations" }
            (sorted_table("shares", "Your use and your fair share of the cores for explorations", &[
                ("Server", false), ("Cores", true), ("Used", true), ("Fair share", true), ("Used of the share", false),
                ("Open requests", true), ("Completed", true), ("Ended for others", true),
            ]))
        }
    };
    framed(&user, &session, "works", "Sweeps", &content)
}

/// The page of one.
pub(super) async fn one(
    State(web): State<Arc<Web>>,
    Extension(session): Extension<Session>,
    path: Result<PathOf<String>, Problem>,
) -> Response {
    let id = match path {
        Ok(PathOf(id)) => id,
        Err(problem) => return problem_page(&problem),
    };
    if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return problem_page(&Problem::new(StatusCode::NOT_FOUND, "there is no such page"));
    }
    let content = html! {
        div id="work" data-work=(id) {
            div class="bar" {
                h1 { span id="kind" { "Work" } " " span id="name" {} " " span id="state" class="state" role="status" {} }
            }
            p id="summary" class="lead" {}
            div class="pairs" {
                section aria-label="Facts" {
                    div id="bar" class="progress" role="img" aria-label="Progress" {}
                    div id="facts" {}
                    pre id="command" tabindex="0" role="region" aria-label="On the command line" {}
                }
                section aria-labelledby="servers-title" {
                    h2 id="servers-title" { "Servers" }
                    (sorted_table("servers", "What each server did", &[
                        ("Server", false), ("Share", false), ("Completed", true), ("Optional", true), ("Failed", true), ("At it", true),
                        ("Refused", true), ("Each took", true),
                    ]))
                }
            }
            section aria-labelledby="plot-title" {
                div class="bar" {
                    h2 id="plot-title" { "Plot" }
                    span class="tools" {
                        label { "Up " select id="plot-y" {} }
                        label { "across " select id="plot-x" {} }
                    }
                }
                div class="chart" { canvas id="plot" tabindex="0" role="img" aria-label="Plot of the results" {} }
                p id="plot-note" class="quiet" role="status" {}
            }
            section aria-labelledby="results-title" {
                h2 id="results-title" { "Results" }
                form id="filter" class="bar" role="search" {
                    label { "Search " input type="search" name="text" placeholder="argument, server" autocomplete="off"; }
                    fieldset class="chips" id="chips" { legend class="hidden" { "States" } }
                    p class="quiet" id="count" role="status" {}
                }
                div class="scroll" {
                    table id="rows" {
                        caption class="hidden" { "Results" }
                        thead { tr {} }
                        tbody {}
                    }
                }
                nav id="pages" class="bar" aria-label="Pages of the results" {
                    button type="button" data-to="first" { "First" }
                    button type="button" data-to="previous" { "Previous" }
                    span id="place" class="quiet" {}
                    button type="button" data-to="next" { "Next" }
                    button type="button" data-to="last" { "Last" }
                }
            }
        }
    };
    framed(&web.session_view(), &session, "work", "Sweep", &content)
}
