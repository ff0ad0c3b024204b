//! The frame of every page: head, style, embedded data, scripts; and the escaping of all text.

use std::fmt::Write as _;

/// The colours of all pages, light and dark, as a style sheet.
pub const PALETTE: &str = include_str!("../../assets/palette.css");
/// The scripts of charts over time: `Pliant.Gantt` and what it needs.
pub const CHART_SCRIPTS: [&str; 4] = [
    include_str!("../../assets/base.js"),
    include_str!("../../assets/axis.js"),
    include_str!("../../assets/raster.js"),
    include_str!("../../assets/gantt.js"),
];

const STYLE: &str = include_str!("../../assets/report.css");
/// The scripts of reports alone.
const SCRIPTS: [&str; 3] = [
    include_str!("../../assets/steps.js"),
    include_str!("../../assets/boxes.js"),
    include_str!("../../assets/main.js"),
];

/// Nothing may be loaded from anywhere; what the page needs is in it.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A whole page around `body` (HTML) with `data` for the scripts.
pub(super) fn page(title: &str, note: &str, body: &str, data: &serde_json::Value) -> String {
    let mut scripts =
        format!("<script type=\"application/json\" id=\"pliant-data\">{}</script>\n", embed(data));
    scripts.push_str("<script>\n\"use strict\";\n");
    for script in CHART_SCRIPTS.iter().chain(&SCRIPTS) {
        scripts.push_str(script);
    }
    scripts.push_str("</script>\n");
    frame(title, note, body, " Times are relative to the first submission.", &scripts)
}

/// A whole page around `body` (HTML) that is drawn already: without scripts.
pub(super) fn still_page(title: &str, note: &str, body: &str) -> String {
    frame(title, note, body, "", "")
}

fn frame(title: &str, note: &str, body: &str, remark: &str, scripts: &str) -> String {
    let mut html = String::with_capacity(1 << 20);
    let safe_title = escape(title);
    html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(html, "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.push_str(
        "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n",
    );
    let _ = writeln!(html, "<title>{safe_title}</title>\n<style>\n{PALETTE}{STYLE}</style>\n</head>");
    let _ = writeln!(html, "<body>\n<header><h1>{safe_title}</h1>");
    if !note.is_empty() {
        let _ = writeln!(html, "<p class=\"note\">{}</p>", escape(note));
    }
    let _ = writeln!(html, "</header>\n<main>\n{body}</main>");
    let _ = writeln!(html, "<footer>Written by pliant {}.{remark}</footer>", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(html, "{scripts}</body>\n</html>");
    html
}

/// Text as HTML, fit for content and for quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(letter),
        }
    }
    safe
}

/// JSON that cannot end the script element it stands in: `<` only occurs in strings, where it may be escaped.
fn embed(data: &serde_json::Value) -> String {
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
    }

    #[test]
    fn embedded_data_cannot_end_its_script() {
        let data = serde_json::json!({"name": "</script><!--<script>"});
        let embedded = embed(&data);
        assert!(!embedded.contains('<'), "{embedded}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&embedded).unwrap(), data);
    }
}
