//! A campaign of multi-jobs from its file to its page.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;

use serde_json::Value;
use support::{folder, run};

const FILE: &str = r#"
kind = "multi-job"
name = "sweeps"
seed = 1
draws = 3

[[log]]
name = "made"
generate = { sites = 5, jobs = 2000, days = 3, groups = 3, users = 3, executables = 3, mean_s = 1000, spread = 0.5, skew = 1.5 }
clusters = 5

[[log]]
name = "absent"
file = "absent.swf"
optional = true
clusters = 5

[[frozen]]
name = "still"
logs = ["made", "absent"]
job_times_s = [0, 1000]
delays_s = [50000]
starts = 4
instances = [10, 100]
laws = ["deterministic", "gaussian"]
mean_s = 1000

[[arriving]]
name = "busy"
logs = ["made", "absent"]
processors = [1, 2]
starts = 2
delays_s = [50000]
instances = [20]
times_s = [500]
categories = [{ level = "user", rank = 1 }]
reference = "STAT-user"

# Starts within 233,280 - 200,000 s of the log: they overlap.
[[arriving]]
name = "single"
logs = ["made"]
processors = [1]
starts = 2
delays_s = [200000]
instances = [20]
times_s = [500]
categories = [{ level = "user", rank = 1 }]
policies = ["STAT-user", "RND"]

[[policy]]
name = "STAT-user"
level = "user"

[[policy]]
name = "moving"
knowledge = "finished"
estimator = "quantile"
quantile = 0.8
poll_s = 600

[[policy]]
name = "RND"
strategy = "random"
"#;

#[test]
fn a_campaign_of_multi_jobs_goes_from_its_file_to_its_page() {
    let dir = folder();
    fs::write(dir.path().join("sweeps.toml"), FILE).unwrap();
    let said = run(&["campaign", "run", "sweeps.toml", "--out", "out"], dir.path());
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stderr.contains("workload `absent` is skipped"), "{}", said.stderr);
    let overlap = "warning: experiment `single` on `made`: all 2 starts lie within ";
    assert!(said.stderr.contains(overlap) && !said.stderr.contains("experiment `busy`"), "{}", said.stderr);
    assert!(
        said.stdout.contains("16 rows of frozen and 10 of arriving experiments on 1 log"),
        "{}",
        said.stdout
    );
    let said = run(&["campaign", "show", "out"], dir.path());
    assert!(said.code == 0 && said.stdout.contains("moving"), "{}{}", said.stdout, said.stderr);
    let said = run(&["campaign", "show", "out", "--format", "json"], dir.path());
    let value = said.json();
    assert_eq!(
        (value["frozen"].as_array().unwrap().len(), value["errors"].as_array().unwrap().len()),
        (16, 20)
    );
    // The others beside `STAT`, and the mean of what each start says.
    let ratios = value["ratios"].as_array().unwrap();
    assert_eq!(ratios.iter().map(|row| &row["policy"]).collect::<Vec<_>>(), ["moving", "RND"]);
    for row in ratios {
        let starts: Vec<f64> =
            row["log_ratios"].as_array().unwrap().iter().map(|ratio| ratio.as_f64().unwrap()).collect();
        assert_eq!((starts.len(), &row["reference"], &row["low"]), (2, &"STAT-user".into(), &Value::Null));
        assert!((row["ratio"].as_f64().unwrap().ln() - (starts[0] + starts[1]) / 2.0).abs() < 1e-12);
    }
    assert!(ratios[1]["ratio"].as_f64().unwrap() > 1.0, "random is no better: {ratios:?}");
    let said = run(&["report", "out"], dir.path());
    assert_eq!(said.code, 0, "{}", said.stderr);
    let page = fs::read_to_string(dir.path().join("out/report.html")).unwrap();
    for title in [
        "Work by cluster [3]",
        "Starts of the experiments in the logs",
        "Makespan on made, jobs of 1000 s, after 50000 s [4, 6]",
        "Makespan on made, jobs of their own times, after 50000 s [4, 5]",
        "Scenarios 3 and 4: busy",
        "Makespan on made, instances of 500 s, after 50000 s [10, 11]",
        "Makespan on made, instances of 500 s, after 200000 s [7, 8]",
        "Makespan on made, instances of user 1, after 200000 s [9]",
        "Random allocation and statistics by user, scenario 4 [table 5]",
        "Policies compared with the reference",
    ] {
        assert!(page.contains(title), "{title}");
    }
    assert!(!page.contains("NaN"));
    // Scenario 3 has these policies too, and is not in that table.
    let table = page.split("[table 5]").nth(1).unwrap().split("<h2").next().unwrap();
    assert!(table.contains("busy") && !table.contains("single"), "{table}");
    support::same_from_shards("sweeps.toml", "out", &["results.json"], dir.path());
    // The log is too short for such a delay.
    fs::write(dir.path().join("long.toml"), FILE.replace("[200000]", "[250000]")).unwrap();
    let said = run(&["campaign", "run", "long.toml", "--out", "long"], dir.path());
    for part in ["single on made: expected a log", "longer than the delay of 250000 s", "shorten `delays_s`"]
    {
        assert!(said.code == 2 && said.stderr.contains(part), "{}", said.stderr);
    }
}
