//! The files of the pages: their style and their script. The charts are those of reports.

use std::sync::LazyLock;

use axum::extract::{Path, RawQuery};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use pliant_report::html::{CHART_SCRIPTS, PALETTE};
use pliant_staging::Checksum;

use crate::problem::Problem;

const STYLE: &str = include_str!("../assets/web.css");

/// The parts of the script, in the order in which they need each other.
const SCRIPTS: [&str; 16] = [
    include_str!("../assets/base.js"),
    include_str!("../assets/tables.js"),
    include_str!("../assets/words.js"),
    include_str!("../assets/live.js"),
    include_str!("../assets/overview.js"),
    include_str!("../assets/jobs.js"),
    include_str!("../assets/job.js"),
    include_str!("../assets/call.js"),
    include_str!("../assets/submit.js"),
    include_str!("../assets/launches.js"),
    include_str!("../assets/plot.js"),
    include_str!("../assets/work.js"),
    include_str!("../assets/what_if.js"),
    include_str!("../assets/admin.js"),
    include_str!("../assets/tokens.js"),
    include_str!("../assets/main.js"),
];

/// A file of the pages.
pub(crate) struct Asset {
    kind: &'static str,
    text: Bytes,
    /// Its address, which changes with its content: browsers keep it until then.
    pub(crate) url: String,
    version: String,
}

/// The style.
pub(crate) static STYLE_FILE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("web.css", "text/css; charset=utf-8", [PALETTE, STYLE].concat()));

/// The script.
pub(crate) static SCRIPT_FILE: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("web.js", "text/javascript; charset=utf-8", script()));

impl Asset {
    fn new(name: &str, kind: &'static str, text: String) -> Asset {
        let version = format!("v={:.16}", Checksum::of(text.as_bytes()).to_string());
        Asset { kind, text: text.into(), url: format!("/assets/{name}?{version}"), version }
    }
}

/// A file by its name; any other name is not found, so no path leads anywhere.
pub(crate) async fn asset(Path(name): Path<String>, RawQuery(version): RawQuery) -> Response {
    let asset: &Asset = match name.as_str() {
        "web.css" => &STYLE_FILE,
        "web.js" => &SCRIPT_FILE,
        _ => {
            let problem = Problem::new(StatusCode::NOT_FOUND, "expected /assets/web.css or /assets/web.js");
            return problem.into_response();
        }
    };
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    let mut response = ([kind], asset.text.clone()).into_response();
    // They have no secrets. Another version is that of another program at this address.
    if version.is_some_and(|version| version == asset.version) {
        let kept = HeaderValue::from_static("private, max-age=31536000, immutable");
        response.headers_mut().insert(header::CACHE_CONTROL, kept);
    }
    response
}

fn script() -> String {
    let mut text = String::from("\"use strict\";\n");
    CHART_SCRIPTS.iter().chain(&SCRIPTS).for_each(|part| text.push_str(part));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn browsers_keep_the_version_that_a_page_names_and_no_other() {
        let kept = async |query: Option<&str>| {
            let response = asset(Path("web.js".to_owned()), RawQuery(query.map(str::to_owned))).await;
            response.headers().get(header::CACHE_CONTROL).is_some()
        };
        let (_, version) = SCRIPT_FILE.url.split_once('?').unwrap();
        assert!(kept(Some(version)).await);
        assert!(!kept(None).await && !kept(Some("v=0123456789abcdef")).await);
        assert_ne!(SCRIPT_FILE.version, STYLE_FILE.version);
    }

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
