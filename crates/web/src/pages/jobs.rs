//! The list of jobs.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::frame::{page as framed, sorted_table};
use crate::sessions::Session;
use crate::state::Web;

/// The columns: what they are sorted by, their text, whether they hold numbers.
const COLUMNS: [(&str, &str, bool); 10] = [
    ("id", "Job", false),
    ("name", "Name", false),
    ("state", "State", false),
    ("server", "Server", false),
    ("submitted", "Submitted", false),
    ("start", "Start", false),
    ("end", "End", false),
    ("procs", "Procs", true),
    ("walltime", "Walltime", true),
    ("moves", "Moves", true),
];

pub(super) async fn page(State(web): State<Arc<Web>>, Extension(session): Extension<Session>) -> Response {
    let user = web.session_view();
    let content = html! {
        h1 { "Jobs" }
        section aria-label="Jobs" {
            form id="filter" class="bar" role="search" {
                label { "Search " input type="search" name="text" placeholder="ID, name, user, server" autocomplete="off"; }
                fieldset class="chips" id="chips" { legend class="hidden" { "States" } }
                label { "Group by " select name="by" {
                    option value="" { "nothing" }
                    option value="name" { "name" }
                    option value="server" { "server" }
                    option value="state" { "state" }
                    @if user.operator { option value="owner" { "user" } }
                } }
                p id="scope" class="scope" hidden {}
            }
            p id="selection" class="bar" {
                button type="button" id="cancel-selected" class="danger" disabled { "Cancel selected jobs" }
                button type="button" id="all-matching" class="link" hidden {}
                span class="quiet" id="count" role="status" {}
            }
            div class="scroll" id="list" {
                table id="jobs" {
                    caption class="hidden" { "Jobs" }
                    thead { tr {
                        th scope="col" class="check" { input type="checkbox" id="all" aria-label="Select all jobs of this page"; }
                        @for (key, text, number) in COLUMNS {
                            th scope="col" class=[number.then_some("number")] data-sort=(key) {
                                button type="button" class="sort" { (text) }
                            }
                            @if key == "name" && user.operator {
                                th scope="col" data-sort="owner" { button type="button" class="sort" { "User" } }
                            }
                            @if key == "state" { th scope="col" { "Exit" } }
                        }
                    } }
                    tbody {}
                }
            }
            div id="grouped" hidden {
                (sorted_table("groups", "Groups of jobs", &[
                    ("Group", false), ("Jobs", true), ("Waiting", true), ("Running", true), ("Completed", true), ("Failed", true),
                    ("Cancelled", true),
                ]))
            }
            nav id="pages" class="bar" aria-label="Pages of the list" {
                button type="button" data-to="first" { "First" }
                button type="button" data-to="previous" { "Previous" }
                span id="place" class="quiet" {}
                button type="button" data-to="next" { "Next" }
                button type="button" data-to="last" { "Last" }
                label { "Jobs on a page " select name="per_page" id="per-page" {
                    @for count in [50, 100, 250, 1000] { option value=(count) selected[count == 100] { (count) } }
                } }
            }
        }
    };
    framed(&user, &session, "jobs", "Jobs", &content)
}
