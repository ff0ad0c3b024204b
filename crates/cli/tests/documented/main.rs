//! What the command takes is what the documentation lists.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod book;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use pliant_testing::Needed;
use serde_json::Value;
use support::{folder, run};

/// The pages about the command, with the verbs of each. A page about several verbs has a section of each, by its name.
const PAGES: [(&str, &[&str]); 13] = [
    ("submit", &["submit"]),
    ("call", &["call"]),
    ("jobs", &["queue", "status", "explain", "wait", "cancel", "resubmit", "fetch", "logs"]),
    ("sweep", &["sweep"]),
    ("explore", &["explore"]),
    ("federation", &["servers", "users", "web", "token create", "token revoke", "reallocate", "what-if"]),
    ("launch", &["launch", "launch list", "launch spawn", "launch subjobs"]),
    (
        "admin",
        &[
            "admin drain",
            "admin resume",
            "admin hold",
            "admin release",
            "admin priority",
            "admin ban",
            "admin unban",
            "admin limit",
            "admin forget",
            "admin log",
        ],
    ),
    ("simulate", &["simulate", "report", "demo", "policies"]),
    ("trace", &["trace info", "trace convert", "trace generate"]),
    ("campaign", &["campaign run", "campaign merge", "campaign show", "map"]),
    ("administration", &["up", "down", "agent", "server", "completions"]),
    (
        "ca",
        &[
            "ca init",
            "ca issue",
            "ca request",
            "ca sign",
            "ca install",
            "ca revoke",
            "ca list",
            "ca rollover",
        ],
    ),
];

/// The option that a page about client verbs may name once, outside its sections.
const CONFIG: &str = "--config";

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name)).unwrap()
}

/// The part of a page about a verb: from its heading to the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no section {heading}")) + 1;
    let end = page[start + 1..].find("\n## ").map_or(page.len(), |end| start + 1 + end);
    &page[start..end]
}

/// The long options that a text names.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    // Rules of tables are made of hyphens only.
    words.filter(|word| word.starts_with("--") && !word.ends_with('-')).map(str::to_owned).collect()
}

/// The options in the first column of the tables of a section.
fn listed(section: &str) -> BTreeSet<String> {
    let rows = section.lines().filter(|line| line.starts_with("| `-"));
    rows.flat_map(|row| options(row.split('|').nth(1).unwrap())).collect()
}

/// The options of a verb, as its help says.
fn taken(verb: &str, dir: &Path) -> BTreeSet<String> {
    let mut arguments: Vec<&str> = verb.split_whitespace().collect();
    arguments.push("--help");
    let said = run(&arguments, dir);
    assert_eq!(said.code, 0, "{verb}");
    let own = said.stdout.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    // Behind the option its help may name others.
    own.flat_map(|line| options(line.split("  ").next().unwrap())).collect()
}

#[test]
fn every_option_of_every_verb_is_in_its_section_and_no_other() {
    let dir = folder();
    let everywhere: BTreeSet<String> = listed(&page("commands/index.md"));
    let (mut all, mut pages) = (everywhere.clone(), Vec::new());
    for (name, verbs) in PAGES {
        let page = page(&format!("commands/{name}.md"));
        for verb in verbs {
            let taken = taken(verb, dir.path());
            all.extend(taken.iter().cloned());
            let section = if verbs.len() == 1 { page.as_str() } else { section(&page, verb) };
            let listed = listed(section);
            let mut expected: BTreeSet<String> = taken
                .iter()
                .filter(|option| !["--help", "--format"].contains(&option.as_str()))
                .cloned()
                .collect();
            if !listed.contains(CONFIG) && expected.remove(CONFIG) {
                assert!(page.contains(CONFIG), "{CONFIG} is not on {name}.md");
            }
            assert_eq!(listed, expected, "listed on {name}.md and taken by {verb}");
        }
        pages.push((name, page));
    }
    for option in ["--format", "--help", "--version", CONFIG] {
        assert!(everywhere.contains(option), "{option} is not on index.md");
    }
    pages.push(("index", page("commands/index.md")));
    for (name, page) in pages {
        let unknown: Vec<String> =
            options(&page).into_iter().filter(|option| !all.contains(option)).collect();
        assert!(unknown.is_empty(), "{name}.md names {unknown:?}, which no verb takes");
    }
}

#[test]
fn every_verb_has_a_page() {
    let said = run(&["help"], folder().path());
    let index = page("commands/index.md");
    let listed: BTreeSet<&str> =
        PAGES.iter().flat_map(|(_, verbs)| *verbs).filter_map(|verb| verb.split(' ').next()).collect();
    let groups = said.stdout.split("\nOptions:").next().unwrap();
    let rows = groups.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let verbs: BTreeSet<&str> = rows.filter_map(|row| row.split_whitespace().next()).collect();
    assert_eq!(verbs, listed);
    for verb in verbs {
        assert!(index.contains(&format!("`{verb}`")), "{verb} is not on index.md");
    }
}

#[test]
fn every_key_of_a_campaign_is_on_the_page() {
    let (dir, page) = (folder(), page("files/campaign.md"));
    let tables = ["", "[[workload]]\nname = \"w\"\n", "[[policy]]\nname = \"p\"\n"];
    for table in tables {
        fs::write(dir.path().join("c.toml"), format!("{table}nonsense = 1\n")).unwrap();
        let said = run(&["campaign", "run", "c.toml", "--out", "out"], dir.path());
        let keys = said.stderr.split("expected one of ").nth(1).unwrap().lines().next().unwrap();
        for key in keys.split(", ").filter(|key| !["`workload`", "`policy`"].contains(key)) {
            let listed = page.lines().any(|line| {
                let cell = line.split('|').nth(1).unwrap_or_default();
                cell.contains(key) || cell.contains(&format!("`{} = true`", key.trim_matches('`')))
            });
            assert!(listed, "{key} of {table:?} is not in docs/reference/files/campaign.md");
        }
    }
}

/// The words that a page quotes, with `{mean,max}_wait_s` as all words that it stands for.
fn quoted(page: &str) -> BTreeSet<String> {
    let prose = page.split("```").step_by(2).collect::<String>();
    let mut words = BTreeSet::new();
    for quote in prose.split('`').skip(1).step_by(2) {
        let choices = quote.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        match choices {
            Some((first, end)) => words.extend(first.split(',').map(|first| format!("{first}{end}"))),
            None => {
                let parts = quote.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
                words.extend(parts.map(str::to_owned));
            }
        }
    }
    words
}

/// The keys of objects in a JSON Schema.
fn keys(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::Object(properties)) = fields.get("properties") {
                found.extend(properties.keys().cloned());
            }
            fields.values().for_each(|value| keys(value, found));
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn every_key_of_every_json_document_is_on_a_page() {
    let words: BTreeSet<String> = ["json.md", "json-campaigns.md", "results.md"]
        .into_iter()
        .flat_map(|name| quoted(&page(name)))
        .collect();
    let mut undocumented = BTreeSet::new();
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")).unwrap() {
        let path = file.unwrap().path();
        let (mut found, name) = (BTreeSet::new(), path.file_name().unwrap().to_string_lossy().into_owned());
        keys(&serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap(), &mut found);
        assert!(!found.is_empty() || name == "definitions.schema.json", "{name} has no keys");
        undocumented.extend(found.difference(&words).map(|key| format!("{key} of {name}")));
    }
    assert!(undocumented.is_empty(), "on no page: {undocumented:#?}");
}

/// The generators of other languages read the protocol with this compiler, which is stricter than ours.
#[test]
fn the_protocol_compiles_with_protoc() {
    let protocol = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let files = fs::read_dir(protocol.join("pliant/v1")).unwrap().map(|entry| entry.unwrap().path());
    let folder = folder();
    let mut protoc = Command::new("protoc");
    protoc
        .arg("--proto_path")
        .arg(&protocol)
        .arg("--descriptor_set_out")
        .arg(folder.path().join("descriptors"));
    match protoc.args(files).output() {
        Ok(outcome) => assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr)),
        Err(_) => pliant_testing::skip(Needed::Program, "the protocol by another compiler (no protoc)"),
    }
}
