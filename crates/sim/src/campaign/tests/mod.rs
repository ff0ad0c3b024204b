//! Tests of campaign files of simulations; `runner` has tests of the runner with every kind.

mod runner;

use std::path::Path;

use super::{SimulationCampaign, VariantPolicies};
use crate::Estimates;

const GOOD: &str = r#"name = "tiny"
seeds = { from = 1, count = 2 }
moldable = ["paper"]
dedicated_shares = [1.0, 0.5]
tuner = "exact"

[[workload]]
name = "log"
file = "log.swf"
platform = "three.toml"

[[policy]]
name = "reference"

[[policy]]
name = "MCT-reg"
realloc = "regular"
heuristic = "mct"

[[policy]]
name = "MinMin-can"
realloc = "all-cancellation"
heuristic = "minmin"
period_s = 600
"#;

const PLATFORM: &str = r#"
[[cluster]]
name = "a"
procs = 16
speed = 1.0
batch = "cbf"

[[cluster]]
name = "b"
procs = 24
speed = 1.2
batch = "cbf"
"#;

/// The error of a campaign file, without the file's name.
fn problem(text: &str) -> String {
    let error = SimulationCampaign::parse(text, Path::new("c.toml")).unwrap_err();
    assert!(error.is_input() && error.hint().is_some_and(|hint| !hint.is_empty()), "{error:?}");
    error.to_string().strip_prefix("c.toml:").map(str::to_owned).unwrap()
}

/// Checks that the file above with one change is refused with this message.
fn check(from: &str, to: &str, message: &str) {
    assert!(GOOD.contains(from), "{from}");
    assert_eq!(problem(&GOOD.replacen(from, to, 1)), message);
}

#[test]
fn errors_have_line_column_and_key() {
    check("\"tiny\"", "\"a_b\"", "1:8: `name`: expected a name, found `a_b`");
    check("{ from = 1, count = 2 }", "[]", "2:9: `seeds`: expected at least one, found none");
    check("{ from = 1, count = 2 }", "[3, 3]", "2:9: `seeds`: expected each value once, found 3 twice");
    check(
        "[1.0, 0.5]",
        "[1.0, 1.5]",
        "4:26: `dedicated_shares`: expected a share above 0 and at most 1, found 1.5",
    );
    check("[1.0, 0.5]", "[0.0]", "4:21: `dedicated_shares`: expected a share above 0 and at most 1, found 0");
    check(
        "\"exact\"",
        "\"exactly\"",
        "5:9: `tuner`: expected a tuner (slack, exact, binary, exhaustive, equal-share, hesrpt, fair-share, knee, efficiency, \
         lpa, price), found `exactly`",
    );
    check("\"MinMin-can\"", "\"MCT-reg\"", "21:8: `name`: expected unique names, found `MCT-reg` twice");
    for found in [0, -5, 1_000_000_001] {
        check(
            "period_s = 600",
            &format!("period_s = {found}"),
            &format!("24:12: `period_s`: expected a whole number from 1 to 1000000000, found {found}"),
        );
    }
    check(
        "period_s = 600",
        "threshold_s = -1",
        "24:15: `threshold_s`: expected a whole number from 0 to 1000000000, found -1",
    );
    check(
        "period_s = 600",
        "window = 4294967296",
        "24:10: `window`: expected a whole number from 1 to 4294967295, found 4294967296",
    );
    check(
        "tuner = \"exact\"",
        "reference = \"none\"",
        "5:13: `reference`: expected the name of a [[policy]], found `none`",
    );
    check(
        "file = \"log.swf\"",
        "file = \"log.swf\"\njobs = 3",
        "10:8: `jobs`: expected `file` without keys of a generator, found `jobs`",
    );
    check("file = \"log.swf\"\n", "", "7:1: expected either `file` or `generate`, found neither");
    check(
        "file = \"log.swf\"",
        "file = \"log.swf\"\ngenerate = \"lublin\"",
        "10:12: `generate`: expected either `file` or `generate`, found both",
    );
    check("platform = \"three.toml\"", "", "7:1: expected workload `log` to have a platform");
    check("platform = \"three.toml\"", "procs = 0", "10:9: `procs`: expected at least 1 processor, found 0");
    check(
        "realloc = \"regular\"\n",
        "",
        "15:1: expected `realloc` with heuristic, period_s, threshold_s or window",
    );
    check(
        "realloc = \"regular\"",
        "realloc = \"always\"",
        "17:11: `realloc`: expected a reallocation algorithm (none, regular, all-cancellation, no-worse, siblings), found `always`",
    );
}

#[test]
fn estimates_and_planned_starts_are_read() {
    let given =
        GOOD.replacen("realloc = \"regular\"", "estimates = \"processors\"\nrealloc = \"regular\"", 1);
    let given = given.replacen("tuner =", "planned_starts = true\ntuner =", 1);
    let campaign = SimulationCampaign::parse(&given, Path::new("c.toml")).unwrap();
    assert!(
        campaign.planned_starts
            && !SimulationCampaign::parse(GOOD, Path::new("c.toml")).unwrap().planned_starts
    );
    let estimates = campaign.policies.iter().map(|one| match &one.treatment {
        VariantPolicies::Jobs { policies, .. } => policies.estimates,
        VariantPolicies::Requests(_) => panic!("expected policies of jobs"),
    });
    assert_eq!(estimates.collect::<Vec<_>>(), [Estimates::Nodes, Estimates::Processors, Estimates::Nodes]);
    check(
        "realloc = \"regular\"",
        "estimates = \"memory\"",
        "17:13: `estimates`: expected a basis of estimates (nodes, processors), found `memory`",
    );
    check(
        "realloc = \"regular\"",
        "memory = \"none\"",
        "17:10: `memory`: expected a memory of moldable jobs (per-processor, total), found `none`",
    );
}

#[test]
fn errors_of_generators_have_the_key() {
    let generated = |keys: &str, message: &str| check("file = \"log.swf\"", keys, message);
    generated(
        "generate = \"federation\"\nload = 2e3",
        "10:8: `load`: expected a load above 0 and at most 1000, found 2000",
    );
    generated(
        "generate = \"federation\"\ndays = 0.0",
        "10:8: `days`: expected a number above 0 and at most 36500, found 0",
    );
    generated(
        "generate = \"federation\"\njobs = 0",
        "10:8: `jobs`: expected a whole number from 1 to 20000000, found 0",
    );
    generated(
        "generate = \"uniform\"\nwalltime_max_s = 5",
        "10:18: `walltime_max_s`: expected a whole number from 200 to 1000000000 (seconds), found 5",
    );
    generated(
        "generate = \"lublin\"\ndays = 3.0",
        "10:8: `days`: expected parameters of `lublin` (jobs, load), found another",
    );
    generated(
        "generate = \"grid5000\"",
        "9:12: `generate`: expected a month (january, february, march, april, may, june) for `grid5000`, found none",
    );
    generated(
        "generate = \"lublin\"\nrepair = \"clean\"",
        "10:10: `repair`: expected no `repair` with `generate`",
    );
    generated(
        "generate = \"lublin\"\noptional = true",
        "10:12: `optional`: expected `optional` with `file`, found no `file`",
    );
    generated(
        "generate = \"lublin\"\njobs = \"many\"",
        "10:8: `jobs`: expected a whole number of 0 to 4294967295, found \"many\"",
    );
}

#[test]
fn orders_and_sequences_are_checked() {
    let policy = |keys: &str, expected: &str| {
        let found = problem(&GOOD.replacen("realloc = \"regular\"\nheuristic = \"mct\"", keys, 1));
        assert!(found.contains(expected), "{keys}: {found}");
    };
    policy("order = \"lifo\"", "17:9: `order`: expected a queue order (first-come, shortest, ");
    policy("batch = \"h1\"\norder = \"f1\"", "(first-come), found `f1 under h1`");
    policy("batch = \"cbf\"\norder = \"f1\"", "(first-come), found `f1 under cbf`");
    policy("order = \"f1\"\naging = \"soon\"", "`aging`: expected a bound of aging (none, 24h, ");
    policy("order = \"first-come\"\naging = \"1h\"", "found `first-come with aging 1h`");
    let workload = |keys: &str, expected: &str| {
        let found = problem(&GOOD.replacen("name = \"log\"\n", &format!("name = \"log\"\n{keys}\n"), 1));
        assert!(found.contains(expected), "{keys}: {found}");
    };
    workload("sequence_jobs = 0", "expected a whole number from 1 to 100000000, found 0");
    workload("sequence_jobs = 5\nsequence_first = [7]", "expected a position for each of 2 seeds, found 1");
    workload("sequence_first = [7, 8]", "expected `sequence_first` with `sequence_jobs`");
    workload("sequence_times = \"log\"", "expected `sequence_times` with `sequence_jobs`");
    workload("sequence_jobs = 5\nsequence_times = \"never\"", "expected a time of submission (shifted, log)");
}

#[test]
fn unknown_and_missing_keys_are_errors() {
    let unknown = problem(&GOOD.replacen("moldable", "moldabel", 1));
    assert!(unknown.starts_with("3:1: unknown key `moldabel`, expected one of `name`"), "{unknown}");
    let missing = problem(&GOOD.replacen("name = \"log\"\n", "", 1));
    assert!(missing.contains("missing key `name`"), "{missing}");
    let batch = problem(&GOOD.replacen("realloc = \"regular\"\nheuristic = \"mct\"", "batch = \"lifo\"", 1));
    assert!(batch.starts_with("17:9: `batch`: expected a batch policy (fcfs, "), "{batch}");
    let broken = problem(&GOOD.replacen("[[policy]]", "[[policy]", 1));
    assert!(broken.starts_with("12:"), "{broken}");
}

#[test]
fn the_matrix_is_ordered_and_its_keys_are_unique() {
    let campaign = SimulationCampaign::parse(GOOD, Path::new("c.toml")).unwrap();
    let keys = campaign.keys();
    assert_eq!(keys.len(), 12);
    assert_eq!(keys[0], "log_three_paper_share-1_seed-1_reference");
    assert_eq!(keys[4], "log_three_paper_share-1_seed-2_MCT-reg");
    assert_eq!(keys[11], "log_three_paper_share-0.5_seed-2_MinMin-can");
    let mut unique = keys.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), keys.len());
}
