//! Plans by predictions, from the file of a campaign to its figures, which are those of a schedule that was made by hand.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::go;

/// Two clusters of one processor.
const PLATFORM: &str = r#"[[cluster]]
name = "a"
procs = 1
speed = 1.0
batch = "cbf"

[[cluster]]
name = "b"
procs = 1
speed = 1.0
batch = "cbf"
"#;

/// Submission, runtime, walltime and user of each job. The first user asks for a hundred times what his jobs take.
const JOBS: [(i64, i64, i64, u32); 5] =
    [(0, 10, 1_000, 1), (20, 10, 1_000, 1), (100, 10, 1_000, 1), (101, 500, 500, 2), (102, 10, 1_000, 1)];

const CAMPAIGN: &str = r#"name = "planned"
seeds = [1]
moldable = ["none"]
platforms = ["two.toml"]
reference = "walltimes"

[[workload]]
name = "log"
file = "log.swf"

[[policy]]
name = "walltimes"

[[policy]]
name = "last-two"
plan_by = "predictions"

[[policy]]
name = "shortest"
plan_by = "predictions"
level = "all"
estimator = "quantile"
quantile = 0.1
last_jobs = 9

[[policy]]
name = "runtimes"
plan_by = "runtimes"
"#;

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let line = |(job, (submit, run, walltime, user)): (usize, &(i64, i64, i64, u32))| {
        format!("{} {submit} -1 {run} 1 -1 -1 1 {walltime} -1 1 {user} 1 1 1 1 -1 -1\n", job + 1)
    };
    let lines: String = JOBS.iter().enumerate().map(line).collect();
    fs::write(dir.path().join("log.swf"), format!("; Version: 2.2\n; MaxProcs: 1\n{lines}")).unwrap();
    fs::write(dir.path().join("two.toml"), PLATFORM).unwrap();
    fs::write(dir.path().join("planned.toml"), CAMPAIGN).unwrap();
    dir
}

fn said(dir: &Path, line: &str) -> Value {
    go(dir, line).json()
}

/// The last job has the choice between `a`, where a job runs that was submitted for 1000 s at 100 and takes 10 s, and `b`, where
/// one runs from 101 to 601. By walltimes `b` is free first, and it ends at 611; who knows that such jobs take 10 s sends it to
/// `a`, where it ends at 120. Of the second user's first job only the runtimes of the others are known, 10 s: it
/// goes to `b` all the same, and outlives what was predicted without being ended.
#[test]
fn a_campaign_with_plans_by_predictions_reports_what_they_were_worth() {
    let dir = folder();
    said(dir.path(), "--format json campaign run planned.toml --out out --quiet");
    let shown = said(dir.path(), "--format json campaign show out");
    let cells = shown["cells"].as_array().unwrap();
    let figure = |policy: &str, metric: &str| {
        let cell = cells.iter().find(|cell| cell["policy"] == policy).unwrap();
        cell["metrics"][metric]["mean"].as_f64().unwrap()
    };
    let (walltimes, informed) = (530.0 + 509.0, 530.0 + 18.0);
    assert_eq!(
        (figure("walltimes", "mean_response_s"), figure("walltimes", "makespan_s")),
        (walltimes / 5.0, 611.0)
    );
    for policy in ["last-two", "shortest", "runtimes"] {
        let found = ["mean_response_s", "makespan_s", "impacted", "jobs_earlier", "gained_s"]
            .map(|metric| figure(policy, metric));
        assert_eq!(found, [informed / 5.0, 601.0, 1.0, 1.0, 509.0 - 18.0], "{policy}");
        // Of the jobs that are impacted.
        let relative = figure(policy, "relative_mean_response");
        assert!((relative - 18.0 / 509.0).abs() < 1e-12, "{policy}: {relative}");
    }
    // A single simulation says the same, and that walltimes stayed the limits.
    let line =
        "--format json simulate --platform two.toml --workload log.swf --plan-by predictions --out one";
    let one = said(dir.path(), line);
    assert_eq!(one["mean_response_s"].as_f64().unwrap(), figure("last-two", "mean_response_s"));
    let jobs = fs::read_to_string(dir.path().join("one/jobs.csv")).unwrap();
    let mut lines = jobs.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let column =
        |name: &str| head.iter().position(|found| *found == name).unwrap_or_else(|| panic!("{head:?}"));
    let (cluster, start, end, walltime) =
        (column("cluster"), column("start"), column("end"), column("walltime"));
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let found: Vec<_> = rows.iter().map(|row| (row[cluster], row[start], row[end], row[walltime])).collect();
    let expected = [
        ("a", "0", "10", "1000"),
        ("a", "20", "30", "1000"),
        ("a", "100", "110", "1000"),
        ("b", "101", "601", "500"),
        ("a", "110", "120", "1000"),
    ];
    assert_eq!(found, expected);
}
