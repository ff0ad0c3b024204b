//! `pliant demo` and `pliant report`: what they print, where they write, and what they refuse.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::{call, folder, run};

/// The examples in README.md of what is printed.
fn examples() -> Vec<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let blocks = readme.split("```text\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// The live demonstration computes for real, says what other policies would have done, and leaves nothing behind.
#[test]
fn the_demonstration_runs_a_federation_and_leaves_nothing_running() {
    let dir = tempfile::tempdir().unwrap();
    let said = Command::new(env!("CARGO_BIN_EXE_pliant"))
        .args(["--format", "json", "demo"])
        .env("TMPDIR", dir.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{stderr}");
    let value = support::schemas::document(&said.stdout);
    assert_eq!(value["schema"], "pliant.demo/1");
    assert_eq!(value["jobs"], 14);
    assert_eq!(stderr.matches("COMPLETED (exit code 0)").count(), 14, "{stderr}");
    let simulated = value["simulated"].as_array().unwrap();
    assert_eq!(simulated.len(), 7);
    let live = value["live"]["mean_response_s"].as_f64().unwrap();
    assert!(live > 1.0 && simulated.iter().all(|one| one["mean_response_s"].as_f64().unwrap() > 1.0));
    nothing_is_left(dir.path());
}

/// Neither files in the folder, nor processes that name it.
fn nothing_is_left(dir: &Path) {
    let left: Vec<_> = fs::read_dir(dir).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let is_relevant = |path: &Path| {
        let line = fs::read(path.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(dir.to_str().unwrap())
    };
    let running: Vec<_> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_relevant(path))
        .collect();
    assert!(running.is_empty(), "{running:?}");
}

/// Ctrl-C and SIGTERM, while daemons are being started and while jobs run.
#[test]
fn a_demonstration_that_is_ended_early_reports_it_and_leaves_no_process() {
    for (signal, message, code) in [
        (Signal::INT, "Starting an agent", 130),
        (Signal::INT, "runs, after waiting", 130),
        (Signal::TERM, "runs, after waiting", 143),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut demo = Command::new(env!("CARGO_BIN_EXE_pliant"))
            .arg("demo")
            .env("TMPDIR", dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(demo.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(message)), "{message}");
        kill_process(Pid::from_child(&demo), signal).unwrap();
        let rest: Vec<String> = lines.collect();
        let said = demo.wait_with_output().unwrap();
        assert_eq!((said.status.code(), said.stdout.as_slice()), (Some(code), &[][..]), "{rest:#?}");
        assert!(
            rest.iter().any(|line| line == "error: interrupted; the federation was stopped"),
            "{rest:#?}"
        );
        nothing_is_left(dir.path());
    }
}

#[test]
fn the_simulated_month_prints_what_the_readme_shows_and_writes_its_page() {
    let dir = tempfile::tempdir().unwrap();
    let said = run(&["demo", "--simulate", "--out", "new/folder"], dir.path());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let examples = examples();
    let shown = examples.iter().any(|example| said.stdout.contains(example.as_str()));
    assert!(shown, "README.md shows\n{examples:#?}\nfound\n{}", said.stdout);
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
    assert_eq!(call(dir.path(), simulate).code, 0);
    let said = run(&["--format", "json", "report", "out"], dir.path()).json();
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
    check(&["demo", "--simulate", "--out", "log.swf"], "log.swf: expected a folder, found a file");
}
