//! The overview: the next hours, the clusters, promises and moves.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::html;
use pliant_wire::bounds::MOVES_MAX;

use super::frame::{page as framed, sorted_table};
use crate::sessions::Session;
use crate::state::Web;

/// How far the chart looks ahead.
const HOURS: [(u32, &str); 5] =
    [(2, "2 hours"), (6, "6 hours"), (12, "12 hours"), (48, "2 days"), (168, "a week")];

pub(super) async fn page(State(web): State<Arc<Web>>, Extension(session): Extension<Session>) -> Response {
    let user = web.session_view();
    let jobs = if user.operator { "Jobs of all users" } else { "Your jobs" };
    let content = html! {
        h1 class="hidden" { "Overview" }
        section aria-labelledby="health-title" id="health" hidden {
            h2 id="health-title" { "Needs attention" }
            ul id="warnings" {}
        }
        div id="tiles" class="tiles" aria-live="off" {}
        section aria-labelledby="next-title" {
            div class="bar" {
                h2 id="next-title" { "The next hours" }
                div class="legend" id="states" {}
                span class="tools" {
                    label { "Show " select id="hours" {
                        @for (hours, text) in HOURS { option value=(hours) selected[hours == 12] { (text) } }
                    } }
                    button type="button" data-zoom="in" aria-label="Zoom in" { "+" }
                    button type="button" data-zoom="out" aria-label="Zoom out" { "−" }
                    button type="button" data-zoom="all" { "All" }
                }
            }
            div class="chart" {
                canvas id="gantt" tabindex="0" role="application" aria-describedby="gantt-help"
                    aria-label="Gantt chart: time from left to right, the processors of each cluster from bottom to top" {}
            }
            p class="quiet" id="gantt-help" {
                (jobs) ": running ones until their walltime ends, the next waiting ones as they are planned now, later ones as they were promised. "
                @if !user.operator { "Processors that others use are not drawn: the number of free ones is below the name of a cluster. " }
                "Which processors a job has is not known: it is drawn where it leaves the fewest gaps. "
                "Keys: " kbd { "+" } " " kbd { "-" } " zoom, " kbd { "←" } " " kbd { "→" } " pan, "
                kbd { "0" } " all, " kbd { "n" } " " kbd { "p" } " next and previous job, " kbd { "Enter" } " opens it."
            }
            div id="pinned" class="pinned" aria-live="polite" hidden {}
            p class="quiet" id="gantt-note" hidden {}
        }
        section aria-labelledby="clusters-title" {
            h2 id="clusters-title" { "Clusters" }
            (sorted_table("clusters", "Clusters of the federation", &[
                ("Server", false), ("State", false), ("In use", false), ("Free", true), ("Processors", true), ("Speed", true),
                ("Running", true), ("Waiting", true), ("Policy", false),
            ]))
            div id="agents-part" hidden {
                h3 { "Agents" }
                (sorted_table("agents", "Agents below the one that answers", &[
                    ("Agent", false), ("State", false), ("Since", false), ("Clock", false),
                ]))
            }
        }
        section aria-labelledby="promises-title" {
            div class="bar" {
                h2 id="promises-title" { "Promises kept" }
                span class="tools" {
                    label { "Show " select id="window" {
                        option value="federation" { "Jobs of all users, the last 1000 of each server" }
                        option value="day" { (jobs) " that ended within 24 hours" }
                        option value="four_weeks" { (jobs) " that ended within 4 weeks" }
                    } }
                }
            }
            p class="quiet" {
                "What happened minus what the server promised when it accepted the job; + is later. The bar goes from the quantile of "
                "5 % to that of 95 %, with a mark at the median."
            }
            (sorted_table("promises", "Errors of promised starts and completions by server", &[
                ("Server", false), ("Jobs", true), ("Start", false), ("median", true), ("95 %", true), ("Completion", false),
                ("median", true), ("95 %", true),
            ]))
        }
        section aria-labelledby="days-title" id="days-section" hidden {
            div class="bar" {
                h2 id="days-title" { "Promises kept, day by day" }
                span class="tools" {
                    label { "Show " select id="days-of" {
                        option value="completion" { "completions" }
                        option value="start" { "starts" }
                    } }
                }
            }
            p class="quiet" {
                "Jobs of all users in the last four weeks. A bar is the share of the jobs of a day (UTC) that were late by at most a tenth of the promised "
                "response time, or by a minute; the line is at 100 %."
            }
            canvas id="days" class="days" role="img" aria-label="Share of promises kept by server and day; the table has the numbers" {}
            details {
                summary { "The numbers" }
                (sorted_table("days-table", "Promises kept by server and day", &[
                    ("Server", false), ("Day", false), ("Jobs", true), ("Kept", true), ("median", true), ("90 % of sizes", true),
                ]))
            }
        }
        section aria-labelledby="moves-title" {
            div class="bar" {
                h2 id="moves-title" { "Last moves" }
                span class="tools" {
                    label { "Show the last " select id="moves-last" {
                        @for count in [10, 50, 200, MOVES_MAX] { option value=(count) { (count) } }
                    } }
                }
            }
            (sorted_table("moves", "The last moves of waiting jobs to other servers", &[
                ("When", false), ("Job", false), ("From", false), ("To", false), ("Why", false), ("Expected completion", false),
            ]))
        }
    };
    framed(&user, &session, "overview", "Overview", &content)
}
