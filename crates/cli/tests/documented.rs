//! What the command takes is what the documentation lists.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use support::{folder, run};

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// The part of a page about a verb: from its heading to the next one.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!("\n## {heading}\n")).unwrap() + 1;
    let end = page[start + 1..].find("\n## ").map_or(page.len(), |end| start + 1 + end);
    &page[start..end]
}

#[test]
fn every_option_of_every_verb_is_on_the_page_and_no_other() {
    let (dir, page) = (folder(), page("cli.md"));
    for (heading, verbs) in [
        ("simulate", &["simulate"][..]),
        ("trace", &["trace info", "trace convert", "trace generate"]),
        ("campaign", &["campaign run", "campaign merge", "campaign show"]),
        ("map", &["map"]),
        ("report", &["report"]),
        ("demo", &["demo"]),
        ("policies", &["policies"]),
        ("up, down", &["up", "down"]),
        ("agent, server", &["agent", "server"]),
        ("ca", &["ca init", "ca issue", "ca revoke", "ca list"]),
        (
            "The client verbs",
            &[
                "submit",
                "status",
                "queue",
                "explain",
                "reallocate",
                "explore",
                "sweep",
                "launch",
                "launch list",
                "launch spawn",
                "launch subjobs",
                "users",
                "wait",
                "cancel",
                "fetch",
                "logs",
                "servers",
                "what-if",
            ],
        ),
    ] {
        let options = |text: &str| -> BTreeSet<String> {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            // Rules of tables are made of hyphens only.
            let options =
                words.filter(|word| word.starts_with("--") && !word.ends_with('-') && *word != "--format");
            options.map(str::to_owned).collect()
        };
        let mut taken = BTreeSet::new();
        for verb in verbs {
            let mut arguments: Vec<&str> = verb.split(' ').collect();
            arguments.push("--help");
            let said = run(&arguments, dir.path());
            assert_eq!(said.code, 0, "{verb}");
            let own = said.stdout.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
            taken.extend(own.flat_map(|line| options(line).into_iter().take(1)));
            taken.remove("--help");
        }
        let listed = options(section(&page, heading));
        assert_eq!(listed, taken, "listed and taken by {heading}");
    }
}

#[test]
fn every_key_of_a_campaign_is_on_the_page() {
    let (dir, page) = (folder(), page("campaigns.md"));
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
            assert!(listed, "{key} of {table:?} is not in docs/campaigns.md");
        }
    }
}
