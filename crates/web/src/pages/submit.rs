//! The page that submits work.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::html;

use super::frame::{page as framed, table};
use crate::sessions::Session;
use crate::state::Web;

/// The text that the editor begins with.
const SCRIPT: &str = "#!/bin/sh\necho \"$PLIANT_JOB on $PLIANT_PROCS processors\"\n";

pub(super) async fn page(State(web): State<Arc<Web>>, Extension(session): Extension<Session>) -> Response {
    let content = html! {
        h1 { "Submit" }
        form id="submit" class="pairs" autocomplete="off" {
            section aria-label="Work" {
                fieldset class="chips" {
                    legend class="hidden" { "What runs" }
                    label { input type="radio" name="kind" value="service" checked; " Service" }
                    label { input type="radio" name="kind" value="script"; " Script" }
                }
                div id="service-fields" {
                    label class="field" { "Service" select name="service" id="service" {} }
                    p id="service-summary" class="quiet" {}
                    div id="arguments" {}
                }
                div id="script-fields" hidden {
                    label class="field" { "Name" input name="name" value="job.sh" required maxlength="128"; }
                    div class="row" {
                        label class="field" { "Walltime" input name="time" value="10m" placeholder="1h30m"; }
                        label class="field" { "Processors" input name="rigid" type="number" min="1" value="1"; }
                    }
                    label class="field" { "Script" textarea name="text" rows="14" spellcheck="false" wrap="off" { (SCRIPT) } }
                    label class="field" { "Arguments" input name="arguments" placeholder="words behind --"; }
                    label class="field" { "More options" input name="options" placeholder="--mem 4G --deadline 18:00"; }
                    p class="quiet" {
                        "Options of " code { "pliant submit" } ", and lines with " code { "#PLIANT" } " or " code { "#SBATCH" }
                        " in the script."
                    }
                }
                p id="inputs-of" class="quiet" hidden {}
                label class="field" id="files-field" { "Input files" input type="file" id="files" multiple;
                    small { "They are in the working folder of the job; together at most 3 MB. Larger ones are sent with " code { "pliant submit --in" } "." } }
                label class="field" { "Server" select name="server" id="server" { option value="" { "the best one" } } }
                p class="bar" {
                    button type="submit" class="primary" { "Submit" }
                    span id="submit-note" class="quiet" role="status" {}
                }
            }
            section aria-labelledby="estimates-title" {
                h2 id="estimates-title" { "Estimates" }
                p id="best" class="lead" role="status" {}
                (table("estimates", "Estimates of all servers", &[
                    ("Server", false), ("Start", false), ("Completion", false), ("Processors", true), ("Walltime", true), ("Waiting", true),
                ]))
                ul id="refusals" class="quiet" {}
                h3 { "On the command line" }
                pre id="command" tabindex="0" role="region" aria-label="The same on the command line" {}
            }
        }
    };
    framed(&web.session_view(), &session, "submit", "Submit", &content)
}
