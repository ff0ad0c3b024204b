//! The files of the pages: their style and their script. The charts are those of reports.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use pliant_report::html::{CHART_SCRIPTS, PALETTE};

use crate::problem::Problem;

const STYLE: &str = include_str!("../assets/web.css");

/// The parts of the script, in the order in which they need each other.
const SCRIPTS: [&str; 14] = [
    include_str!("../assets/base.js"),
    include_str!("../assets/words.js"),
    include_str!("../assets/live.js"),
    include_str!("../assets/overview.js"),
    include_str!("../assets/jobs.js"),
    include_str!("../assets/job.js"),
    include_str!("../assets/submit.js"),
    include_str!("../assets/launches.js"),
    include_str!("../assets/plot.js"),
    include_str!("../assets/work.js"),
    include_str!("../assets/what_if.js"),
    include_str!("../assets/admin.js"),
    include_str!("../assets/tokens.js"),
    include_str!("../assets/main.js"),
];

/// A file by its name; any other name is not found, so no path leads anywhere.
pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    let (kind, text) = match name.as_str() {
        "web.css" => ("text/css; charset=utf-8", [PALETTE, STYLE].concat()),
        "web.js" => ("text/javascript; charset=utf-8", script()),
        _ => {
            let problem = Problem::new(StatusCode::NOT_FOUND, "expected /assets/web.css or /assets/web.js");
            return problem.into_response();
        }
    };
    ([(header::CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}

fn script() -> String {
    let mut text = String::from("\"use strict\";\n");
    CHART_SCRIPTS.iter().chain(&SCRIPTS).for_each(|part| text.push_str(part));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_makes_no_markup_of_texts() {
        let script = script();
        for way in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
        ] {
            assert!(!script.contains(way), "{way}");
        }
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for text in [script(), STYLE.to_owned()] {
            assert!(!text.contains("http://") && !text.contains("https://") && !text.contains("url("));
        }
    }
}
