//! `pliant simulate` and what is common to all verbs: results, exit codes, error texts.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;

use support::{folder, pliant, run};

#[test]
fn one_cluster() {
    let dir = folder();
    let said = run(
        &["simulate", "--workload", "log.swf", "--procs", "32", "--batch", "easy", "--out", "out"],
        dir.path(),
    );
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    assert!(said.stdout.contains("mean wait"), "{}", said.stdout);
    let jobs = fs::read_to_string(dir.path().join("out/jobs.csv")).unwrap();
    assert!(jobs.starts_with("job,cluster,submit,start,end,procs"), "{jobs}");
    assert_eq!(jobs.lines().count(), 201);
    let summary: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("out/summary.json")).unwrap()).unwrap();
    for key in ["jobs", "makespan_s", "mean_wait_s", "mean_response_s", "utilization", "reallocations"] {
        assert!(summary[key].is_number(), "{key}");
    }
    assert_eq!(summary["jobs"], 200);
    assert_eq!(summary["clusters"][0]["batch"], "easy");
}

#[test]
fn a_federation_and_its_report() {
    let dir = folder();
    let arguments = "--format json simulate --workload log.swf --platform three.toml --moldable paper --tuner binary \
        --realloc all-cancellation --heuristic minmin --period 10m --dedicated-share 1 --seed 3 --out out --report";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let document = run(&arguments, dir.path()).json();
    assert_eq!(document["schema"], "pliant.simulate/1");
    assert_eq!(document["jobs"], 200);
    assert!(document["reallocations"].as_u64().unwrap() > 0);
    assert_eq!(document["run"]["seed"], 3);
    assert_eq!(document["run"]["realloc"], "all-cancellation");
    assert!(fs::metadata(dir.path().join("out/report.html")).unwrap().len() > 10_000);
    assert_eq!(document, run(&arguments, dir.path()).json(), "the same seed gives the same results");

    let report = run(&["report", "out", "--out", "page.html"], dir.path());
    assert_eq!(report.code, 0, "{}", report.stderr);
    assert!(dir.path().join("page.html").is_file());
}

/// A call that fails: its exit code, and what its first two lines of errors hold.
fn check(arguments: &str, code: i32, error: &str, hint: &str) {
    let dir = folder();
    fs::write(dir.path().join("broken.swf"), "1 0 -1 10 4 -1 -1 4 20 -1 1 1 1 1 1 1 -1 -1\n2 5 -1 ten 4\n")
        .unwrap();
    fs::write(dir.path().join("zero.toml"), support::PLATFORM.replace("24", "0")).unwrap();
    fs::write(dir.path().join("key.toml"), support::PLATFORM.replace("speed = 1.2", "sped = 1.2")).unwrap();
    fs::write(dir.path().join("batch.toml"), support::PLATFORM.replace("cbf", "lifo")).unwrap();
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let said = run(&arguments, dir.path());
    assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{arguments:?}: {}", said.stderr);
    assert!(said.stderr.starts_with("error: "), "{arguments:?}: {}", said.stderr);
    assert!(said.stderr.contains(error), "{arguments:?}: {}", said.stderr);
    assert!(said.stderr.contains(hint), "{arguments:?}: {}", said.stderr);
}

#[test]
fn bad_input_gives_exit_code_2_a_position_and_a_hint() {
    check("simulate --workload broken.swf --procs 4", 2, "broken.swf:2:", "hint: ");
    check("simulate --workload log.swf --platform zero.toml", 2, "zero.toml:", "hint: ");
    check("simulate --workload log.swf --platform key.toml", 2, "key.toml:10:", "sped");
    check("simulate --workload log.swf --platform batch.toml", 2, "lifo", "fcfs");
    check("simulate --workload log.swf --platform nowhere", 2, "nowhere", "hint: ");
    check("report .", 2, "found neither", "hint: ");
    check("campaign show .", 2, "no campaign.json", "hint: ");
    check("campaign run c.toml --out o --shard 3/2", 2, "3/2", "--shard");
}

#[test]
fn bad_usage_gives_exit_code_2() {
    check("simulate --workload log.swf", 2, "--procs", "--platform");
    check("simulate --workload log.swf --procs 0", 2, "--procs", "0");
    check("simulate --workload log.swf --procs 4 --platform three.toml", 2, "--platform", "cannot be used");
    check("simulate --workload log.swf --procs 4 --batch lifo", 2, "lifo", "cbf");
    check("simulate --workload log.swf --procs 4 --dedicated-share 1.5", 2, "1.5", "at most 1");
    check("simulate --workload log.swf --procs 4 --period 0s", 2, "--period", "expected 1s to 11574d");
    check("simulate --workload log.swf --procs 4 --period 5", 2, "--period", "found `5`");
    check("simulate --workload log.swf --procs 4 --threshold 1", 2, "--threshold", "with its unit");
    check("simulate --workload log.swf --procs 4 --window 2.5", 2, "--window", "a whole number from 1 to");
    check("simulate --workload log.swf --procs -4", 2, "--procs", "found `-4`");
    check("simulate --workload log.swf --procs 4 --seed -1", 2, "--seed", "a whole number from 0 to");
    check("simulate --workload log.swf --procs 4 --dedicated-share -0.5", 2, "-0.5", "at most 1");
    check("simulate --workload log.swf --procs 4 --out o --files csv,xml", 2, "xml", "parquet");
    check("simulate --workload log.swf --procs 4 --out o --files ,", 2, "--files", "csv");
    check("simulate --workload log.swf --procs 4 --files csv", 2, "--out", "required");
    check("simulate --workload log.swf --procs 4 --colour", 2, "--colour", "--help");
    check("simulat", 2, "simulat", "simulate");
}

#[test]
fn what_the_system_refuses_gives_exit_code_1() {
    let path = "hint: check the path";
    check("simulate --workload absent.swf --procs 4", 1, "absent.swf: cannot read this file", path);
    check(
        "simulate --workload log.swf --platform absent.toml",
        1,
        "absent.toml: cannot read this file",
        path,
    );
    check("simulate --workload . --procs 4", 1, ".: cannot read this file", "give a file in that folder");
    let folder = "give another folder";
    check("simulate --workload log.swf --procs 16 --out log.swf/o", 1, "log.swf/o: cannot create", folder);
    check("simulate --workload log.swf --procs 16 --out log.swf", 1, "log.swf: cannot create", folder);
    check("campaign run absent.toml --out o", 1, "absent.toml", "cannot read");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let dir = folder();
    let mut child = pliant(&["policies"], dir.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
}

#[test]
fn policies_are_listed() {
    let dir = folder();
    let text = run(&["policies"], dir.path()).stdout;
    let document = run(&["policies", "--format", "json"], dir.path()).json();
    assert_eq!(document["schema"], "pliant.policies/1");
    for registry in ["batch", "moldable", "tuner", "mapping", "realloc", "heuristic"] {
        let rows = document[registry].as_array().unwrap();
        assert!(rows.len() >= 2, "{registry}");
        for row in rows {
            assert!(
                text.contains(row["name"].as_str().unwrap())
                    && text.contains(row["summary"].as_str().unwrap())
            );
        }
    }
}
