//! What scripts and people read, word for word: `tests/snapshots/` holds it. A change there is a change of the
//! contract (docs/reference/json.md); `cargo insta review` shows and accepts it.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use insta::assert_snapshot;
use support::{call, folder};

const CAMPAIGN: &str = r#"name = "small"
seeds = { from = 1, count = 3 }
moldable = ["paper"]
dedicated_shares = [1.0, 0.3333]
tuner = "binary"
platforms = ["three.toml"]

[[workload]]
name = "log"
file = "log.swf"

[[policy]]
name = "reference"
realloc = "none"

[[policy]]
name = "MCT-reg"
realloc = "regular"
heuristic = "mct"

[[policy]]
name = "MinMin-can"
realloc = "all-cancellation"
heuristic = "minmin"
"#;

/// What the last of several calls prints, in a folder with a log of 200 jobs, a platform of three clusters and
/// the campaign.
fn printed(calls: &[&str]) -> String {
    let dir = folder();
    std::fs::write(dir.path().join("small.toml"), CAMPAIGN).unwrap();
    let mut printed = String::new();
    for line in calls {
        let said = call(dir.path(), line);
        assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{line}");
        printed = said.stdout;
    }
    printed
}

#[test]
fn policies() {
    assert_snapshot!("policies_text", printed(&["policies"]));
    assert_snapshot!("policies_json", printed(&["--format json policies"]));
}

#[test]
fn trace_info() {
    assert_snapshot!("trace_info_text", printed(&["trace info log.swf"]));
    assert_snapshot!("trace_info_json", printed(&["--format json trace info log.swf"]));
}

#[test]
fn simulate_on_one_cluster() {
    let call = "--format json simulate --workload log.swf --procs 32 --batch cbf";
    assert_snapshot!("simulate_cluster_json", printed(&[call]));
}

#[test]
fn simulate_on_a_federation() {
    let call = "--format json simulate --workload log.swf --platform three.toml --moldable paper --tuner exact \
        --realloc all-cancellation --heuristic minmin --period 10m --dedicated-share 0.5 --seed 3";
    assert_snapshot!("simulate_federation_json", printed(&[call]));
}

#[test]
fn campaign_table() {
    let calls = ["campaign run small.toml --out out --quiet", "campaign show out"];
    assert_snapshot!("campaign_table", printed(&calls));
}
