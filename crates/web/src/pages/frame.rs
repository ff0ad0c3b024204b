//! The frame of pages: head, navigation, and where messages appear.

use axum::response::Response;
use http::StatusCode;
use maud::{DOCTYPE, Markup, html};

use super::html_response;
use crate::assets::{SCRIPT_FILE, STYLE_FILE};
use crate::sessions::Session;
use crate::types::SessionView;

/// The pages that the navigation leads to, with the word that the script knows each by.
const LINKS: [(&str, &str, &str); 5] = [
    ("overview", "/", "Overview"),
    ("jobs", "/jobs", "Jobs"),
    ("submit", "/submit", "Submit"),
    ("works", "/work", "Sweeps"),
    ("launches", "/launches", "Launches"),
];

/// A page around some content. `kind` says which part of the script it needs.
pub(super) fn page(
    user: &SessionView,
    session: &Session,
    kind: &str,
    title: &str,
    content: &Markup,
) -> Response {
    // Sessions of a portal end.
    let is_portal = session.end.is_some();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, &html! {
                meta name="csrf-token" content=(session.csrf.hex());
                meta name="pliant-user" content=(user.user);
                script src=(SCRIPT_FILE.url) defer {}
            }))
            body data-page=(kind) data-operator[user.operator] {
                a class="skip" href="#main" { "Skip to content" }
                header class="top" {
                    a class="brand" href="/" { "Pliant" }
                    nav aria-label="Pages" {
                        @for (name, path, text) in LINKS {
                            a href=(path) aria-current=[current(name, kind)] { (text) }
                        }
                        @if user.operator {
                            @if user.replays {
                                a href="/what-if" aria-current=[(kind == "whatif").then_some("page")] { "What if" }
                            }
                            a href="/admin" aria-current=[(kind == "admin").then_some("page")] { "Administration" }
                        }
                    }
                    p class="who" {
                        span id="live" class="live" role="status" { "connecting" }
                        span { (user.user) @if user.operator { " (operator)" } }
                        @if user.tokens { a href="/tokens" aria-current=[(kind == "tokens").then_some("page")] { "Tokens" } }
                        @if is_portal { button type="button" id="logout" { "Log out" } }
                    }
                }
                noscript { p { "These pages need JavaScript." } }
                div id="messages" role="alert" {}
                main id="main" tabindex="-1" { (content) }
                footer { "pliant " (user.version) " · " a href="/api/v1/openapi.json" { "API" } }
            }
        }
    };
    html_response(StatusCode::OK, page)
}

/// Whether a link of the navigation leads to the page, or to the list in which the page is an entry.
fn current(name: &str, kind: &str) -> Option<&'static str> {
    match (name, kind) {
        _ if name == kind => Some("page"),
        ("jobs", "job") | ("works", "work") | ("launches", "launch") => Some("true"),
        _ => None,
    }
}

/// A page without navigation, for those who have no session.
pub(super) fn bare(title: &str, content: &Markup, refresh: Option<&str>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, &html! {
                @if let Some(refresh) = refresh { meta http-equiv="refresh" content=(refresh); }
            }))
            body {
                main id="main" class="bare" { h1 { (title) } (content) }
            }
        }
    }
}

fn head(title: &str, more: &Markup) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) @if title != "Pliant" { " · Pliant" } }
            link rel="icon" href="data:,";
            link rel="stylesheet" href=(STYLE_FILE.url);
            (more)
        }
    }
}

/// A table that the script fills: its columns by name, and whether they hold numbers.
pub(super) fn table(id: &str, caption: &str, columns: &[(&str, bool)]) -> Markup {
    table_of(id, caption, columns, false)
}

/// The same, whose rows are all in the page and are sorted by its heads.
pub(super) fn sorted_table(id: &str, caption: &str, columns: &[(&str, bool)]) -> Markup {
    table_of(id, caption, columns, true)
}

/// A field that searches the rows of a table.
pub(super) fn search(table: &str, placeholder: &str) -> Markup {
    html! {
        label { "Search " input type="search" data-search=(table) placeholder=(placeholder) autocomplete="off"; }
    }
}

fn table_of(id: &str, caption: &str, columns: &[(&str, bool)], is_sorted: bool) -> Markup {
    html! {
        div class="scroll" {
            table id=(id) data-sorted[is_sorted] {
                caption class="hidden" { (caption) }
                thead { tr { @for (text, number) in columns { th scope="col" class=[number.then_some("number")] { (text) } } } }
                tbody {}
            }
        }
    }
}
