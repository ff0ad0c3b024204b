//! The alert rules and the dashboard in `deploy`, as Prometheus and Grafana read them.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

use std::path::{Path, PathBuf};
use std::process::Command;

use pliant_testing::{Needed, skip};
use serde_json::Value;

fn deployed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(file)
}

/// Has promtool check a file; false if there is no promtool.
fn promtool(arguments: [&str; 2], file: &Path) -> bool {
    let Ok(output) = Command::new("promtool").args(arguments).arg(file).output() else {
        skip(Needed::Program, "promtool (package prometheus)");
        return false;
    };
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}: {}", file.display(), String::from_utf8_lossy(&printed));
    true
}

#[test]
fn prometheus_reads_the_alerts_and_raises_them() {
    _ = promtool(["check", "rules"], &deployed("prometheus/pliant.rules.yml"))
        && promtool(["test", "rules"], &deployed("prometheus/tests.yml"));
}

/// Each alert is raised by a case of `tests.yml`.
#[test]
fn every_alert_has_a_case() {
    let read = |file| std::fs::read_to_string(deployed(file)).unwrap();
    let (rules, cases) = (read("prometheus/pliant.rules.yml"), read("prometheus/tests.yml"));
    let alerts = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let missing: Vec<&str> =
        alerts.clone().filter(|alert| !cases.contains(&format!("alertname=\"{alert}\""))).collect();
    assert!(
        alerts.count() >= 10 && missing.is_empty(),
        "no case in deploy/prometheus/tests.yml for {missing:?}"
    );
}

/// Prometheus reads the expressions of all panels, with any daemon in place of the variable.
#[test]
fn prometheus_reads_the_expressions_of_the_dashboard() {
    let text = std::fs::read_to_string(deployed("grafana/pliant.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let targets = board["panels"].as_array().unwrap().iter().filter_map(|panel| panel["targets"].as_array());
    let expressions: Vec<&Value> = targets.flatten().map(|target| &target["expr"]).collect();
    assert!(expressions.len() >= 20, "{}", expressions.len());
    let rule =
        |(number, expression)| serde_json::json!({ "record": format!("panel:{number}"), "expr": expression });
    let rules: Vec<Value> = expressions.into_iter().enumerate().map(rule).collect();
    // JSON is YAML.
    let group = serde_json::json!({ "groups": [{ "name": "dashboard", "rules": rules }] });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    std::fs::write(&file, group.to_string()).unwrap();
    promtool(["check", "rules"], &file);
}
