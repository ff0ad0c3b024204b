//! The page of operators: servers, users, moves, the audit trail.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use pliant_policy::reallocation::{Algorithm, Heuristic};

use super::frame::{page as framed, search, sorted_table, table};
use super::problem_page;
use crate::problem::Problem;
use crate::sessions::Session;
use crate::state::Web;

pub(super) async fn page(State(web): State<Arc<Web>>, Extension(session): Extension<Session>) -> Response {
    let user = web.session_view();
    if !user.operator {
        let problem = Problem::new(
            StatusCode::FORBIDDEN,
            "expected the certificate of an operator, found that of a user",
        );
        return problem_page(&problem);
    }
    let content = html! {
        h1 { "Administration" }
        section aria-labelledby="servers-title" {
            h2 id="servers-title" { "Servers" }
            (sorted_table("servers", "Servers", &[
                ("Server", false), ("State", false), ("Clock", false), ("Act", false),
            ]))
        }
        section aria-labelledby="certificates-title" {
            h2 id="certificates-title" { "Certificates" }
            (sorted_table("certificates", "Certificates of daemons and of these pages, those that end first at the top", &[
                ("Of", false), ("State", false), ("Ends", false), ("On", false),
            ]))
        }
        section aria-labelledby="users-title" {
            div class="bar" {
                h2 id="users-title" { "Users" }
                span class="tools" { (search("users", "user, reason")) }
            }
            (sorted_table("users", "Users with jobs, limits or a ban", &[
                ("User", false), ("State", false), ("At", false), ("Waiting", true), ("Running", true), ("Completed", true), ("Failed", true),
                ("Cancelled", true), ("Act", false),
            ]))
            p id="users-note" class="quiet" role="status" {}
        }
        div class="pairs" {
            section aria-labelledby="limit-title" {
                h2 id="limit-title" { "Limit a user" }
                form id="limit" autocomplete="off" {
                    div class="row" { (field("User", "user", true)) (field("Reason", "why", true)) }
                    div class="row" { (number("Running jobs", "running-jobs")) (number("Processors", "processors")) }
                    div class="row" { (number("Waiting jobs", "waiting-jobs")) (number("Waiting bytes", "waiting-bytes")) }
                    p class="quiet" { "At all servers. A number, " code { "none" } " for no limit, or nothing to leave it as it is." }
                    button type="submit" class="primary" { "Limit" }
                }
            }
            section aria-labelledby="ban-title" {
                h2 id="ban-title" { "Ban a user" }
                form id="ban" autocomplete="off" {
                    div class="row" { (field("User", "user", true)) (field("Reason", "why", true)) }
                    p class="quiet" { "All servers accept nothing of the user and start none of the user's waiting jobs. Running jobs go on." }
                    p class="bar" {
                        button type="submit" name="banned" value="true" class="danger" { "Ban" }
                        button type="submit" name="banned" value="false" { "End the ban" }
                    }
                }
                p id="ban-note" class="quiet" role="status" {}
            }
        }
        section aria-labelledby="limits-title" {
            h2 id="limits-title" { "Limits of users" }
            (sorted_table("limits", "Limits of users", &[
                ("User", false), ("Server", false), ("Running jobs", true), ("Processors", true), ("Waiting jobs", true),
                ("Waiting bytes", true), ("Since", false), ("By", false), ("Why", false),
            ]))
        }
        section aria-labelledby="reallocation-title" {
            div class="bar" {
                h2 id="reallocation-title" { "Reallocation" }
                span class="tools" { button type="button" id="trial" { "What would a cycle move now?" } }
            }
            p id="policy" {}
            details id="reallocation-change" {
                summary { "Change the policy" }
                form id="reallocation" autocomplete="off" {
                    div class="row" {
                        label class="field" { "Algorithm" select name="algorithm" {
                            @for one in Algorithm::ALL { option { (one.name()) } }
                        } }
                        label class="field" { "Heuristic" select name="heuristic" {
                            @for one in Heuristic::ALL { option { (one.name()) } }
                        } }
                    }
                    div class="row" {
                        (seconds("Seconds between two cycles", "period_s", 1, true)) (seconds("Least gain in seconds", "threshold_s", 0, true))
                    }
                    div class="row" {
                        label class="field" { "Jobs considered together" input type="number" name="window" min="1" required; }
                        (seconds("Seconds between cycles after early ends, or nothing", "early_s", 1, false))
                    }
                    p class="quiet" { "The policy is kept over restarts of the agent. " code { "pliant reallocate" } " changes it, too." }
                    p class="bar" {
                        button type="submit" name="kind" value="set" class="primary" { "Use this policy" }
                        button type="submit" name="kind" value="off" class="danger" formnovalidate { "Move no jobs" }
                        button type="submit" name="kind" value="reset" formnovalidate { "Return to the file of the agent" }
                    }
                }
            }
            div id="trial-result" hidden {
                p id="trial-note" class="quiet" role="status" {}
                (table("proposals", "Moves that a cycle would make", &[
                    ("Job", false), ("From", false), ("To", false), ("Completion now", false), ("Completion there", false),
                ]))
            }
        }
        section aria-labelledby="audit-title" {
            div class="bar" {
                h2 id="audit-title" { "Audit trail" }
                span class="tools" {
                    (search("audit", "user, job, act, reason"))
                    label { "Show the last " select id="last" {
                        @for count in [50, 200, 1000] { option value=(count) { (count) } }
                    } }
                }
            }
            (sorted_table("audit", "Records of the audit trail, the newest first", &[
                ("When", false), ("Server", false), ("By", false), ("Act", false), ("Of", false), ("Why", false),
            ]))
        }
    };
    framed(&user, &session, "admin", "Administration", &content)
}

fn field(text: &str, name: &str, required: bool) -> Markup {
    html! { label class="field" { (text) input name=(name) required[required]; } }
}

fn seconds(text: &str, name: &str, least: u32, required: bool) -> Markup {
    html! { label class="field" { (text) input type="number" name=(name) min=(least) max="604800" required[required]; } }
}

fn number(text: &str, name: &str) -> Markup {
    html! { label class="field" { (text) input name=(name) pattern="none|[0-9]+" title="a number, or none"; } }
}
