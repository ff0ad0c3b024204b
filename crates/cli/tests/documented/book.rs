//! The pages of the book: all of them are in its summary, their links lead somewhere, and none is too long.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

/// The most lines of a page of the book.
const PAGE_LINES: usize = 250;
/// The most lines of pages outside it.
const OTHERS: [(&str, usize); 2] = [("README.md", 120), ("ARCHITECTURE.md", 200)];

fn root() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// The files below a folder whose names end so, without what builds and version control keep.
fn files(folder: &Path, ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                found.extend(files(&path, ends));
            }
        } else if ends.iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
    found
}

/// A page, as far as links need it.
struct Page {
    /// The targets of its links and pictures.
    links: Vec<String>,
    /// The anchors of its headings.
    anchors: BTreeSet<String>,
}

impl Page {
    fn read(path: &Path) -> Page {
        let text = fs::read_to_string(path).unwrap();
        let (mut links, mut anchors, mut heading) = (Vec::new(), BTreeSet::new(), None);
        for event in Parser::new_ext(&text, pulldown_cmark::Options::ENABLE_TABLES) {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    anchors.extend(heading.take().map(|title: String| anchor(&title)));
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(title) = &mut heading {
                        title.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        Page { links, anchors }
    }
}

/// The anchor of a heading: in lower case, with hyphens for spaces and without punctuation.
fn anchor(title: &str) -> String {
    let letters = title.chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
    letters.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

#[test]
fn every_page_is_in_the_summary_once() {
    let docs = root().join("docs");
    let mut listed = Page::read(&docs.join("SUMMARY.md")).links;
    listed.sort();
    let mut pages: Vec<String> = files(&docs, &[".md"])
        .iter()
        .map(|path| path.strip_prefix(&docs).unwrap().display().to_string())
        .filter(|page| page != "SUMMARY.md")
        .collect();
    pages.sort();
    assert_eq!(listed, pages);
    assert!(fs::read_to_string(root().join("book.toml")).unwrap().contains("src = \"docs\""));
}

/// Whether a path is inside a folder. A path that does not exist counts: another error names it.
fn inside(path: &Path, folder: &Path) -> bool {
    match (path.canonicalize(), folder.canonicalize()) {
        (Ok(path), Ok(folder)) => path.starts_with(folder),
        _ => true,
    }
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let root = root();
    let mut broken = Vec::new();
    let pages = files(&root, &[".md"]);
    assert!(pages.len() > 60, "found only {} pages", pages.len());
    for path in pages {
        let shown = path.strip_prefix(&root).unwrap().display().to_string();
        for link in Page::read(&path).links {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            if path.starts_with(root.join("docs")) && !inside(&target, &root.join("docs")) {
                broken.push(format!("{shown}: expected a page of the book, which is rendered alone: {link}"));
            } else if !target.exists() {
                broken.push(format!("{shown}: expected a file, found none: {link}"));
            } else if !heading.is_empty() && !Page::read(&target).anchors.contains(heading) {
                broken.push(format!("{shown}: expected a heading, found none: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn pages_that_the_code_names_exist() {
    let root = root();
    let mut missing = Vec::new();
    let folders = ["crates", "xtask", "examples", "campaigns", "scenarios", "deploy"];
    for path in folders.iter().flat_map(|folder| files(&root.join(folder), &[".rs", ".toml"])) {
        let text = fs::read_to_string(&path).unwrap();
        for named in text.split("docs/").skip(1) {
            let length =
                named.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_/.".contains(letter));
            let Some(page) = named[..length.unwrap_or(named.len())].split_inclusive(".md").next() else {
                continue;
            };
            if page.ends_with(".md") && !root.join("docs").join(page).exists() {
                missing.push(format!("{}: docs/{page}", path.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_drawing_is_whole_and_on_a_page() {
    let root = root();
    let mut pages = files(&root.join("docs"), &[".md"]);
    pages.extend([root.join("README.md"), root.join("examples/threshold-pivoting/README.md")]);
    let pages: Vec<String> = pages.iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    for path in files(&root.join("docs/img"), &[".svg"]) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(pages.iter().any(|page| page.contains(&format!("img/{name})"))), "{name} is on no page");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"), "{name} is cut off");
    }
}

#[test]
fn no_page_is_too_long() {
    let root = root();
    let book = files(&root.join("docs"), &[".md"]).into_iter().map(|path| (path, PAGE_LINES));
    let others = OTHERS.map(|(name, most)| (root.join(name), most));
    for (path, most) in book.chain(others) {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= most, "{}: expected at most {most} lines, found {lines}", path.display());
    }
}

#[test]
fn anchors_are_those_of_forges() {
    assert_eq!(anchor("A server's file"), "a-servers-file");
    assert_eq!(anchor("`servers`, users"), "servers-users");
    assert_eq!(anchor("2. Start it (again)"), "2-start-it-again");
}
