//! The page of one job.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::frame::{page as framed, sorted_table, table};
use super::problem_page;
use crate::extract::JobId;
use crate::problem::Problem;
use crate::sessions::Session;
use crate::state::Web;

pub(super) async fn page(
    State(web): State<Arc<Web>>,
    Extension(session): Extension<Session>,
    id: Result<JobId, Problem>,
) -> Response {
    let handle = match id {
        Ok(JobId(handle)) => handle,
        Err(problem) => return problem_page(&problem),
    };
    let id = handle.to_string();
    let content = html! {
        div id="job" data-job=(id) {
            div class="bar" {
                h1 { "Job " (id) " " span id="state" class="state" role="status" {} }
                span class="tools" {
                    span id="operator" class="tools" hidden {}
                    button type="button" id="resubmit" hidden { "Resubmit" }
                    button type="button" id="cancel" class="danger" hidden { "Cancel job" }
                }
            }
            p id="summary" class="lead" {}
            p id="sweep" class="quiet" hidden { "One of " a href="/jobs" {} " of a sweep or an array." }
            div class="pairs" {
                section aria-labelledby="timeline-title" {
                    h2 id="timeline-title" { "Promised and happened" }
                    div id="timeline" {}
                    div id="facts" {}
                }
                section aria-labelledby="why-title" {
                    h2 id="why-title" { "Why it is where it is" }
                    div id="why" {}
                    div id="wait" hidden {
                        h3 { "Why it waits" }
                        div id="wait-text" {}
                        (sorted_table("until", "Running jobs that end before its planned start", &[
                            ("Job", false), ("Ends at the latest", false), ("Processors", true),
                        ]))
                    }
                }
            }
            section aria-labelledby="compared-title" id="compared-section" hidden {
                h2 id="compared-title" { "Estimates when it was submitted" }
                (table("compared", "The estimates that were compared", &[
                    ("Server", false), ("Start", false), ("Completion", false), ("Processors", true), ("Walltime", true),
                    ("Against the best", true),
                ]))
                p id="passed" class="quiet" {}
            }
            section aria-labelledby="moves-title" id="moves-section" hidden {
                h2 id="moves-title" { "Moves" }
                (sorted_table("moves", "Moves to other servers", &[
                    ("When", false), ("From", false), ("To", false), ("Why", false), ("Expected completion", false),
                ]))
            }
            section aria-labelledby="submitted-title" id="submitted-section" hidden {
                h2 id="submitted-title" { "What was submitted" }
                div id="submitted" {}
                div id="inputs-part" hidden {
                    h3 { "Input files" }
                    (sorted_table("inputs", "Input files of the job", &[
                        ("Name", false), ("Bytes", true), ("SHA-256", false), ("State", false),
                    ]))
                    p id="inputs-note" class="quiet" {}
                }
                p id="submitted-note" class="quiet" {}
            }
            section aria-labelledby="call-title" id="call-section" hidden {
                h2 id="call-title" { "Values" }
                (table("call", "Values of the call", &[("Parameter", false), ("What went to the service", false), ("What came back", false)]))
                p id="call-note" class="quiet" {}
            }
            section aria-labelledby="log-title" {
                div class="bar" {
                    h2 id="log-title" { "Output" }
                    span class="tools" {
                        button type="button" data-stream="stdout" aria-pressed="true" { "Standard output" }
                        button type="button" data-stream="stderr" aria-pressed="false" { "Standard error" }
                        label { input type="checkbox" id="follow" checked; " follow" }
                    }
                }
                pre id="log" tabindex="0" role="region" aria-label="Output of the job" {}
                p id="log-note" class="quiet" {}
            }
            section aria-labelledby="files-title" id="files-section" hidden {
                h2 id="files-title" { "Files" }
                (sorted_table("files", "Files of the job", &[("Name", false), ("Bytes", true), ("SHA-256", false)]))
                p id="files-note" class="quiet" {}
            }
        }
    };
    framed(&web.session_view(), &session, "job", &format!("Job {id}"), &content)
}
