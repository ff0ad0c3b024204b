//! Campaign files, and campaigns on a log of a few hundred jobs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use pliant_model::Run;

use super::{Campaign, CampaignError, Options, Progress, Shard, cells, merge, read_results, run};

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

/// What is wrong with `text`, without the file's name.
fn problem(text: &str) -> String {
    let error = Campaign::parse(text, Path::new("c.toml")).unwrap_err();
    assert!(error.is_input() && error.hint().is_some_and(|hint| !hint.is_empty()), "{error:?}");
    error.to_string().strip_prefix("c.toml:").map(str::to_owned).unwrap()
}

/// The file above with one thing changed is refused, with this message.
fn check(from: &str, to: &str, message: &str) {
    assert!(GOOD.contains(from), "{from}");
    assert_eq!(problem(&GOOD.replacen(from, to, 1)), message);
}

#[test]
fn errors_tell_line_column_and_key() {
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
        "5:9: `tuner`: expected a tuner (exhaustive, binary, exact), found `exactly`",
    );
    check("\"MinMin-can\"", "\"MCT-reg\"", "21:8: `name`: expected unique names, found `MCT-reg` twice");
    check("period_s = 600", "period_s = 0", "24:12: `period_s`: expected at least 1, found 0");
    check(
        "tuner = \"exact\"",
        "reference = \"none\"",
        "5:13: `reference`: expected the name of a [[policy]], found `none`",
    );
    check(
        "file = \"log.swf\"",
        "file = \"log.swf\"\njobs = 3",
        "7:1: expected `file` alone, found keys of a generator beside it",
    );
    check("file = \"log.swf\"\n", "", "7:1: expected either `file` or `generate`");
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
        "17:11: `realloc`: expected a reallocation algorithm (none, regular, all-cancellation, no-worse), found `always`",
    );
}

#[test]
fn unknown_and_missing_keys_are_errors() {
    let unknown = problem(&GOOD.replacen("moldable", "moldabel", 1));
    assert!(
        unknown.starts_with("3:1: `moldabel`: unknown key `moldabel`, expected one of `name`"),
        "{unknown}"
    );
    let missing = problem(&GOOD.replacen("name = \"log\"\n", "", 1));
    assert!(missing.contains("missing key `name`"), "{missing}");
    let batch = problem(&GOOD.replacen("realloc = \"regular\"\nheuristic = \"mct\"", "batch = \"lifo\"", 1));
    assert!(batch.starts_with("17:9: `batch`: expected a batch policy (fcfs, "), "{batch}");
    let broken = problem(&GOOD.replacen("[[policy]]", "[[policy]", 1));
    assert!(broken.starts_with("12:"), "{broken}");
}

#[test]
fn the_matrix_is_ordered_and_its_keys_are_unique() {
    let campaign = Campaign::parse(GOOD, Path::new("c.toml")).unwrap();
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

/// Watches nothing.
struct Unwatched;

impl Progress for Unwatched {
    fn planned(&self, _total: usize, _kept: usize) {}
    fn finished(&self, _key: &str) {}
}

/// Sum of ends, and how many jobs end elsewhere than in the reference: enough to tell runs apart.
fn measure(run: &Run, reference: Option<&Run>) -> Result<BTreeMap<String, f64>, String> {
    let ends: i64 = run.jobs.iter().map(|job| job.end.0).sum();
    let mut metrics = BTreeMap::from([("ends_s".to_owned(), ends as f64 / 3.0)]);
    if let Some(reference) = reference {
        let differs =
            run.jobs.iter().zip(&reference.jobs).filter(|(job, before)| job.end != before.end).count();
        metrics.insert("impacted".to_owned(), differs as f64);
    }
    Ok(metrics)
}

/// A folder with the campaign's files.
fn sources() -> (tempfile::TempDir, Campaign) {
    let dir = tempfile::tempdir().unwrap();
    let mut log = String::from("; Version: 2.2\n; MaxProcs: 40\n");
    for job in 1..=300_i64 {
        let (procs, runtime) = (1 + job * 7 % 15, 60 + job * 997 % 3000);
        let _ = writeln!(
            log,
            "{job} {} -1 {runtime} {procs} -1 -1 {procs} {} -1 1 1 1 1 1 1 -1 -1",
            job * 37,
            runtime * 2
        );
    }
    fs::write(dir.path().join("log.swf"), log).unwrap();
    fs::write(dir.path().join("three.toml"), PLATFORM).unwrap();
    fs::write(dir.path().join("c.toml"), GOOD).unwrap();
    let campaign = Campaign::read(&dir.path().join("c.toml")).unwrap();
    (dir, campaign)
}

fn run_with(campaign: &Campaign, out: &Path, threads: usize, shard: &str) -> (usize, usize) {
    let options = Options { threads, shard: shard.parse().unwrap() };
    let finished = run(campaign, out, options, &measure, &Unwatched).unwrap();
    (finished.simulated, finished.kept)
}

/// Every file of a campaign folder but the one about durations.
fn bytes(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for part in [dir.to_owned(), dir.join("runs")] {
        for entry in fs::read_dir(part).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_file() && name != "timing.csv" {
                files.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    files
}

#[test]
fn threads_kills_and_shards_leave_the_bytes_alone() {
    let (sources, campaign) = sources();
    let dir = |name: &str| sources.path().join(name);
    assert_eq!(run_with(&campaign, &dir("one"), 1, "1/1"), (12, 0));
    let whole = bytes(&dir("one"));
    assert_eq!(whole.len(), 12 + 3);

    assert_eq!(run_with(&campaign, &dir("two"), 2, "1/1"), (12, 0));
    assert_eq!(bytes(&dir("two")), whole);

    // As after a kill: runs missing, among them a reference, one cut short, no results yet.
    for gone in [0, 4, 11] {
        fs::remove_file(dir("two").join("runs").join(format!("{}.json", campaign.keys()[gone]))).unwrap();
    }
    fs::write(dir("two").join("runs").join(format!("{}.json", campaign.keys()[7])), "{\"schema\":").unwrap();
    fs::remove_file(dir("two").join("results.csv")).unwrap();
    assert_eq!(run_with(&campaign, &dir("two"), 2, "1/1"), (4, 8));
    assert_eq!(bytes(&dir("two")), whole);

    assert_eq!(run_with(&campaign, &dir("part-1"), 1, "1/3"), (6, 0));
    assert_eq!(run_with(&campaign, &dir("part-2"), 1, "2/3"), (3, 0));
    let parts = [dir("part-1"), dir("part-2"), dir("part-3")];
    let parts: Vec<&Path> = parts.iter().map(|part| part.as_path()).collect();
    let merged = merge(&dir("merged"), &parts[..2]).unwrap();
    assert_eq!((merged.results.runs.len(), merged.missing.len()), (9, 3));
    assert_eq!(merged.missing[0], campaign.keys()[6]);
    assert_eq!(run_with(&campaign, &dir("part-3"), 1, "3/3"), (3, 0));
    assert!(merge(&dir("merged"), &parts).unwrap().missing.is_empty());
    assert_eq!(bytes(&dir("merged")), whole);
}

#[test]
fn runs_of_two_campaigns_are_never_mixed() {
    let (sources, campaign) = sources();
    let out = sources.path().join("out");
    run_with(&campaign, &out, 1, "1/1");
    let refused = |campaign: &Campaign| {
        let options = Options { threads: 1, shard: Shard::WHOLE };
        matches!(run(campaign, &out, options, &measure, &Unwatched), Err(CampaignError::Changed { .. }))
    };
    let path = sources.path().join("c.toml");
    let commented = Campaign::parse(&format!("# a comment\n{GOOD}"), &path).unwrap();
    assert!(!refused(&commented), "comments do not count");
    let other = Campaign::parse(&GOOD.replacen("period_s = 600", "period_s = 601", 1), &path).unwrap();
    assert!(refused(&other), "another period");
    run_with(&other, &sources.path().join("other"), 1, "1/1");
    let mixed = merge(&sources.path().join("merged"), &[&out, &sources.path().join("other")]);
    assert!(matches!(mixed, Err(CampaignError::Changed { .. })));
    fs::write(sources.path().join("three.toml"), PLATFORM.replace("24", "25")).unwrap();
    assert!(refused(&campaign), "another platform under the same name");
}

#[test]
fn what_is_no_campaign_folder_is_told() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(read_results(dir.path()), Err(CampaignError::Absent(_))));
    assert!(matches!(merge(dir.path(), &[]), Err(CampaignError::NothingToMerge)));
    fs::write(dir.path().join("campaign.json"), "{}").unwrap();
    assert!(matches!(read_results(dir.path()), Err(CampaignError::Damaged { .. })));
}

#[test]
fn cells_gather_the_seeds() {
    let (sources, campaign) = sources();
    let out = sources.path().join("out");
    run_with(&campaign, &out, 2, "1/1");
    let results = read_results(&out).unwrap();
    let cells = cells(&results);
    assert_eq!(cells.len(), 6);
    for (index, cell) in cells.iter().enumerate() {
        let of_cell: Vec<f64> = results
            .runs
            .iter()
            .filter(|run| run.policy == cell.policy && run.dedicated_share == cell.dedicated_share)
            .map(|run| run.metrics["ends_s"])
            .collect();
        let spread = cell.metrics["ends_s"];
        assert_eq!((cell.seeds, spread.runs, of_cell.len()), (2, 2, 2));
        assert_eq!(spread.min, of_cell[0].min(of_cell[1]));
        assert_eq!(spread.max, of_cell[0].max(of_cell[1]));
        assert!((spread.mean - (of_cell[0] + of_cell[1]) / 2.0).abs() <= 1e-9 * spread.mean);
        assert_eq!(cell.metrics.contains_key("impacted"), !index.is_multiple_of(3));
    }
}
