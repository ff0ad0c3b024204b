//! Campaign files, and campaigns on a log of a few hundred jobs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{
    Campaign, CampaignError, Damage, Measured, Options, Progress, Shard, THREADS_MAX, cells, merge,
    read_results, run,
};

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
        "17:11: `realloc`: expected a reallocation algorithm (none, regular, all-cancellation, no-worse, copies), found `always`",
    );
}

#[test]
fn errors_about_generators_tell_the_key() {
    let generated = |keys: &str, message: &str| check("file = \"log.swf\"", keys, message);
    generated(
        "generate = \"federation\"\nload = 2e3",
        "10:8: `load`: expected a number above 0 and at most 1000, found 2000",
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
fn measure(measured: Measured<'_>) -> Result<BTreeMap<String, f64>, String> {
    let Measured::Jobs { run, reference } = measured else { return Err("expected a run of jobs".to_owned()) };
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
    // As many threads as may be asked for: there are never more than groups.
    assert_eq!(run_with(&campaign, &dir("two"), THREADS_MAX, "1/1"), (4, 8));
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
    for key in campaign.keys() {
        fs::remove_file(out.join("runs").join(format!("{key}.json"))).unwrap();
    }
    assert!(!refused(&campaign), "there is nothing to be mixed with");
    assert!(refused(&other), "the folder is the other campaign's now");
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

/// What is wrong with each damaged file, by the file's name.
fn shown(damaged: &[Damage]) -> Vec<(String, &str)> {
    let name = |damage: &Damage| damage.path.file_name().unwrap().to_string_lossy().into_owned();
    damaged.iter().map(|damage| (name(damage), damage.problem.as_str())).collect()
}

#[test]
fn damaged_runs_are_told_and_simulated_again() {
    let (sources, campaign) = sources();
    let (out, whole) = (sources.path().join("out"), sources.path().join("whole"));
    run_with(&campaign, &out, 1, "1/1");
    let (good, keys) = (bytes(&out), campaign.keys());
    let file = |key: usize| out.join("runs").join(format!("{}.json", keys[key]));
    let text = fs::read_to_string(file(0)).unwrap();
    fs::write(file(1), &text[..text.len() / 2]).unwrap();
    fs::write(file(3), text.replace("pliant.run/1", "pliant.run/0")).unwrap();
    fs::write(file(5), &text).unwrap();
    fs::write(file(7), b"\xff\xfe").unwrap();
    fs::write(file(9), text.replacen("fingerprint\": \"", "fingerprint\": \"x", 1)).unwrap();
    let found = read_results(&out).unwrap();
    assert_eq!(found.runs.len(), 7);
    let damaged = shown(&found.damaged);
    let name = |key: usize| format!("{}.json", keys[key]);
    assert_eq!(damaged[0].0, name(1));
    assert!(damaged[0].1.starts_with("cut off at line "), "{damaged:?}");
    assert_eq!(damaged[1], (name(3), "key `schema`: expected `pliant.run/1`, found `pliant.run/0`"));
    let other = format!("expected the result of this run, found that of {}", keys[0]);
    assert_eq!(damaged[2], (name(5), other.as_str()));
    assert_eq!(
        damaged[3],
        (name(7), "expected a file as Pliant writes it, found something else at line 1, column 1")
    );
    assert!(damaged[4].1.starts_with("expected a result of this campaign ("), "{damaged:?}");

    let merged = merge(&whole, &[&out]).unwrap();
    assert_eq!((merged.damaged.len(), merged.missing.len()), (5, 5));
    assert_eq!(merged.damaged, found.damaged);
    let options = Options { threads: 1, shard: Shard::WHOLE };
    let finished = run(&campaign, &out, options, &measure, &Unwatched).unwrap();
    assert_eq!((finished.simulated, finished.kept, finished.damaged.len()), (5, 7, 5));
    assert_eq!((finished.results.damaged.len(), bytes(&out)), (0, good));
}

#[test]
fn threads_are_bounded() {
    let (sources, campaign) = sources();
    let out = sources.path().join("out");
    let options = Options { threads: THREADS_MAX + 1, shard: Shard::WHOLE };
    let error = run(&campaign, &out, options, &measure, &Unwatched).unwrap_err();
    assert_eq!(error.to_string(), "expected at most 1024 threads, found 1025");
    assert!(error.is_input() && error.hint().is_some() && !out.exists());
}

#[test]
fn optional_workloads_are_skipped_where_their_file_is_absent() {
    let (sources, campaign) = sources();
    let path = sources.path().join("c.toml");
    let more = |optional| {
        format!("[[workload]]\nname = \"more\"\nfile = \"more.swf\"\nplatform = \"three.toml\"\n{optional}")
    };
    let with = |optional| Campaign::parse(&format!("{GOOD}\n{}", more(optional)), &path).unwrap();
    let out = sources.path().join("out");
    let options = Options { threads: 1, shard: Shard::WHOLE };
    for required in [with(""), with("optional = false")] {
        let mut asked = required.clone();
        assert_eq!((asked.skip_absent(), &asked), (vec![], &required));
        let error = run(&asked, &out, options, &measure, &Unwatched).unwrap_err();
        assert!(matches!(&error, CampaignError::NoLog(file) if file.ends_with("more.swf")), "{error}");
        assert!(error.hint().unwrap().contains("optional = true") && !error.is_input());
    }
    let mut optional = with("optional = true");
    assert_eq!(optional.keys().len(), 24);
    let skipped = optional.skip_absent();
    assert_eq!((skipped.len(), skipped[0].workload.as_str()), (1, "more"));
    assert_eq!(optional, campaign);
    fs::copy(sources.path().join("log.swf"), sources.path().join("more.swf")).unwrap();
    let mut there = with("optional = true");
    assert!(there.skip_absent().is_empty() && there.keys().len() == 24);
    // The key changes nothing about a workload that is there.
    run(&there, &out, options, &measure, &Unwatched).unwrap();
    let finished = run(&with(""), &out, options, &measure, &Unwatched).unwrap();
    assert_eq!((finished.simulated, finished.kept), (0, 24));
    there.workloads.clear();
    assert!(matches!(run(&there, &out, options, &measure, &Unwatched), Err(CampaignError::NoWorkload)));
}
