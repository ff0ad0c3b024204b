//! The page of replays: a policy and a period, what happened, and what would have happened.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use maud::{Markup, html};
use pliant_policy::reallocation::{Algorithm, Heuristic};

use super::frame::{page as framed, table};
use super::problem_page;
use crate::problem::Problem;
use crate::sessions::Session;
use crate::state::Web;

/// The periods, in hours.
const PERIODS: [(u32, &str); 6] =
    [(1, "hour"), (6, "6 hours"), (24, "day"), (168, "7 days"), (720, "30 days"), (2160, "90 days")];

pub(super) async fn page(State(web): State<Arc<Web>>, Extension(session): Extension<Session>) -> Response {
    let user = web.session_view();
    if !user.operator {
        let problem = "expected the certificate of an operator, found that of a user";
        return problem_page(&Problem::new(StatusCode::FORBIDDEN, problem));
    }
    let content = html! {
        h1 { "What if" }
        section aria-labelledby="ask-title" {
            h2 id="ask-title" { "Replay the recorded history" }
            form id="ask" autocomplete="off" {
                div class="row" {
                    label class="field" { "Jobs submitted in the last" select name="hours" {
                        @for (hours, text) in PERIODS { option value=(hours) selected[hours == 168] { (text) } }
                    } }
                    label class="field" { "Waiting jobs are moved by" select name="algorithm" {
                        option value="now" { "the policy in force" }
                        option value="none" { "nothing" }
                        @for one in Algorithm::ALL { option selected[*one == Algorithm::Regular] { (one.name()) } }
                    } }
                }
                div class="row" {
                    label class="field" { "Heuristic" select name="heuristic" {
                        @for one in Heuristic::ALL { option { (one.name()) } }
                    } }
                    label class="field" { "Further changes" input name="changes" placeholder="period=5m,mapping=random" maxlength="150"; }
                }
                p class="bar" {
                    button type="submit" class="primary" { "Replay" }
                    button type="button" id="cancel" class="danger" hidden { "Cancel the replay" }
                    span id="replay-state" class="quiet" role="status" {}
                }
            }
            pre id="command" tabindex="0" role="region" aria-label="On the command line" {}
        }
        section aria-labelledby="result-title" id="result" hidden {
            h2 id="result-title" { "Responses" }
            p id="counts" class="quiet" {}
            (table("measures", "What happened, and what would have happened", &[
                ("Policy", false), ("Jobs", true), ("Mean response", true), ("Median", true), ("Slowdown", true), ("Moves", true),
                ("Difference (s)", true), ("95 % interval", true),
            ]))
            p id="trust" class="quiet" {}
        }
        section aria-labelledby="charts-title" id="charts" hidden {
            div class="bar" {
                h2 id="charts-title" { "On the processors" }
                div class="legend" {
                    span { i class="mark mine" {} "not moved" }
                    span { i class="mark others" {} "moved while it waited" }
                }
                span class="tools" { label { "Compare with " select id="other" {} } }
            }
            (chart("recorded", "What happened"))
            (chart("replayed", "What would have happened"))
            p class="quiet" { "The compared jobs only. Keys: " kbd { "+" } " " kbd { "-" } " zoom, " kbd { "←" } " " kbd { "→" } " pan, "
                kbd { "0" } " all, " kbd { "n" } " " kbd { "p" } " next and previous job: the same job is marked in both charts." }
            div id="pinned" class="pinned" aria-live="polite" hidden {}
        }
    };
    framed(&user, &session, "whatif", "What if", &content)
}

fn chart(id: &str, title: &str) -> Markup {
    html! {
        h3 id={ (id) "-title" } { (title) }
        div class="chart" {
            canvas id=(id) tabindex="0" role="application" aria-labelledby={ (id) "-title" } {}
        }
    }
}
