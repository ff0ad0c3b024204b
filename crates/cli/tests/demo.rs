//! `pliant demo` and `pliant report`: what they print, where they write, and what they refuse.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::path::Path;

use support::{folder, run};

/// The example in README.md of what the demonstration prints.
fn example() -> String {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    readme.split("```text\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

#[test]
fn the_demonstration_prints_what_the_readme_shows_and_writes_its_page() {
    let dir = tempfile::tempdir().unwrap();
    let said = run(&["demo", "--out", "new/folder"], dir.path());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains(&example()), "README.md shows\n{}found\n{}", example(), said.stdout);
    assert!(
        said.stdout.ends_with("Charts, to open in a browser: new/folder/report.html\n"),
        "{}",
        said.stdout
    );
    let page = fs::read_to_string(dir.path().join("new/folder/report.html")).unwrap();
    assert!(page.contains("aria-pressed=\"true\">MinMin-can</button>"), "the page opens on the best policy");
    assert!(!page.contains(">Makespan gain<"), "the makespan of every run is the same");
}

#[test]
fn a_report_says_what_the_run_was_of() {
    let dir = folder();
    let simulate = "simulate --workload log.swf --platform three.toml --out out";
    assert_eq!(run(&simulate.split(' ').collect::<Vec<_>>(), dir.path()).code, 0);
    let said = run(&["--output", "json", "report", "out"], dir.path()).json();
    assert_eq!((&said["kind"], &said["warnings"]), (&"run".into(), &serde_json::json!([])));
    let page = fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    assert!(page.contains("<p class=\"note\">log.swf on 3 clusters, 72 processors</p>"));
}

/// A call that fails with exit code 2, and what its error holds.
fn check(arguments: &[&str], error: &str) {
    let dir = folder();
    fs::create_dir(dir.path().join("empty")).unwrap();
    fs::create_dir(dir.path().join("half")).unwrap();
    fs::write(dir.path().join("half/jobs.csv"), "").unwrap();
    let said = run(arguments, dir.path());
    assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{arguments:?}: {}", said.stderr);
    assert!(said.stderr.contains(error) && said.stderr.contains("hint: "), "{arguments:?}: {}", said.stderr);
}

#[test]
fn a_report_says_what_is_wrong_with_the_folder() {
    check(&["report", "nosuch"], "nosuch: expected a folder with results, found no such folder");
    check(
        &["report", "empty"],
        "empty: expected a folder with results, found neither summary.json nor campaign.json",
    );
    check(&["report", "half"], "half: expected a folder with results, found jobs.csv without summary.json");
    check(&["report", "log.swf"], "log.swf: expected a folder with results, found a file");
}

#[test]
fn a_demonstration_that_cannot_be_kept_is_not_run() {
    check(&["demo", "--out", "log.swf"], "log.swf: expected a folder, found a file");
}
