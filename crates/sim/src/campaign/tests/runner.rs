//! Tests of the runner: campaigns of every kind on a log of a few hundred jobs, small graphs and small clusters.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{GOOD, PLATFORM};
use crate::campaign::{
    Campaign, CampaignError, DamagedLine, FinishedCampaign, FolderContents, Measured, Options, Progress,
    Results, Shard, THREADS_MAX, cells, merge, read_folder,
};

const EXPLORATIONS: &str = r#"name = "optional"
seeds = [1, 2]

[[scenario]]
name = "together"
arrivals = "simultaneous"
users = 3
requests = 20
servers = 2

[[system]]
name = "shared"

[[system]]
name = "guessed"
guesses = [5]
"#;

const MAPPING: &str = r#"kind = "mapping"
name = "graphs"
seeds = [1, 2]
reference = "wase"
tasks = [8, 12]
cluster_sizes = [[1, 3]]
mcr_mflops = [25, 100]
weights = [1, 10]
edges_per_task = 3
bandwidth_mbps = 1
machines = [16, 32]
lan_hosts = [4]
power_mflops = [600, 1300]
load = [0, 0.6]

[tiers]
mans_per_wan = 2
lans_per_man = 2
wan_routers = 3
man_routers = 3
wan_redundancy = 1
man_redundancy = 1
lan_redundancy = 1
man_wan_redundancy = 1
lan_man_redundancy = 1
lan_mbps = [1000, 10000]
man_mbps = [100, 1000]
wan_mbps = [10, 100]
root_mbps = [1, 10]

[[policy]]
name = "wase"

[[policy]]
name = "greedy"
algorithm = "best-fit"

[[use_case]]
name = "render"
application = "render.toml"
grid = "testbed.toml"
clusters = [2, 3]
mcr_mflops = [25]
"#;

const MULTI_JOB: &str = r#"kind = "multi-job"
name = "sweeps"
seed = 1
draws = 3

[[log]]
name = "made"
generate = { sites = 5, jobs = 2000, days = 3, groups = 3, users = 3, executables = 3, mean_s = 1000, spread = 0.5, skew = 1.5 }
clusters = 5

[[log]]
name = "log"
file = "log.swf"
clusters = 1

[[frozen]]
name = "still"
logs = ["made"]
job_times_s = [0, 1000]
delays_s = [50000]
starts = 4
instances = [10, 100]
laws = ["deterministic", "gaussian"]
mean_s = 1000

[[arriving]]
name = "busy"
logs = ["made", "log"]
processors = [1, 2]
starts = 3
delays_s = [1000, 5000]
instances = [20]
times_s = [500]
categories = [{ level = "user", rank = 1 }]
reference = "statistics"

[[policy]]
name = "statistics"

[[policy]]
name = "random"
strategy = "random"
"#;

/// The sum of ends, and the number of jobs with other ends than in the reference: enough to distinguish runs.
fn measure(measured: Measured<'_>) -> Result<BTreeMap<String, f64>, String> {
    let (run, reference) = match measured {
        Measured::Jobs { run, reference, .. } => (run, reference),
        Measured::Requests(run) => {
            let completed: u32 = run.explorations.iter().map(|one| one.completed).sum();
            return Ok(BTreeMap::from([("completed".to_owned(), f64::from(completed) / 3.0)]));
        }
    };
    let ends: i64 = run.jobs.iter().map(|job| job.end.0).sum();
    let mut metrics = BTreeMap::from([("ends_s".to_owned(), ends as f64 / 3.0)]);
    if let Some(reference) = reference {
        let differs =
            run.jobs.iter().zip(&reference.jobs).filter(|(job, before)| job.end != before.end).count();
        metrics.insert("impacted".to_owned(), differs as f64);
    }
    Ok(metrics)
}

/// A folder with the input files of the campaigns, in which campaigns are run.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
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
        let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns/paper-003");
        for file in ["render.toml", "testbed.toml"] {
            fs::copy(paper.join(file), dir.path().join(file)).unwrap();
        }
        Folder(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The campaign of that text.
    fn campaign(&self, text: &str) -> Campaign {
        fs::write(self.path("c.toml"), text).unwrap();
        Campaign::read(&self.path("c.toml"), Vec::new()).unwrap()
    }

    fn try_run(
        &self,
        campaign: &Campaign,
        out: &str,
        threads: usize,
        shard: &str,
    ) -> Result<FinishedCampaign, CampaignError> {
        let options = Options { threads, shard: shard.parse().unwrap() };
        campaign.run(&self.path(out), options, &measure, &())
    }

    /// The number of cells that were run, and of those that had records already.
    fn run(&self, campaign: &Campaign, out: &str, threads: usize, shard: &str) -> (usize, usize) {
        let finished = self.try_run(campaign, out, threads, shard).unwrap();
        assert_eq!(finished.contents, read_folder(&self.path(out)).unwrap());
        (finished.ran, finished.kept)
    }

    fn merge(&self, out: &str, dirs: &[&str]) -> Result<FolderContents, CampaignError> {
        let dirs: Vec<PathBuf> = dirs.iter().map(|dir| self.path(dir)).collect();
        merge(&self.path(out), &dirs.iter().map(PathBuf::as_path).collect::<Vec<_>>())
    }

    /// All files of a campaign folder except those with durations.
    fn bytes(&self, out: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(self.path(out)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if !["records.jsonl", "timing.csv", "timing.json"].contains(&name.as_str()) {
                files.insert(name, fs::read(entry.path()).unwrap());
            }
        }
        files
    }

    /// The lines of records of a folder.
    fn records(&self, out: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path(out).join("records.jsonl")).unwrap();
        text.lines().map(|line| format!("{line}\n")).collect()
    }

    fn write_records(&self, out: &str, lines: &[String]) {
        fs::write(self.path(out).join("records.jsonl"), lines.concat()).unwrap();
    }
}

/// The results of a campaign of simulations.
fn simulations(contents: &FolderContents) -> &crate::campaign::SimulationResults {
    let Results::Simulations(results) = &contents.results else { panic!("expected simulations") };
    results
}

#[test]
fn threads_kills_and_shards_do_not_change_results_of_any_kind() {
    let check = |text: &str, cells: usize, shards: [usize; 3], files: &[&str]| {
        let folder = Folder::new();
        let campaign = folder.campaign(text);
        assert_eq!(folder.run(&campaign, "one", 1, "1/1"), (cells, 0));
        let whole = folder.bytes("one");
        assert_eq!(whole.keys().collect::<Vec<_>>(), files);
        assert_eq!(folder.records("one").len(), cells);
        assert_eq!(folder.run(&campaign, "one", 1, "1/1"), (0, cells), "all cells have records");
        assert_eq!(folder.bytes("one"), whole);

        assert_eq!(folder.run(&campaign, "two", 2, "1/1"), (cells, 0));
        assert_eq!(folder.bytes("two"), whole);

        // After a kill: some records are missing, the last one is cut off, and there are no results.
        let mut lines = folder.records("two");
        lines.truncate(cells.div_ceil(2));
        let kept = lines.len() - 1;
        let half = lines[kept].len() / 2;
        lines[kept].truncate(half);
        folder.write_records("two", &lines);
        fs::remove_file(folder.path("two/results.json")).unwrap();
        let contents = read_folder(&folder.path("two")).unwrap();
        assert_eq!((contents.present(), contents.planned, contents.damaged), (kept, cells, vec![]));
        // With the maximal number of threads: there are never more than groups.
        assert_eq!(folder.run(&campaign, "two", THREADS_MAX, "1/1"), (cells - kept, kept));
        assert_eq!(folder.bytes("two"), whole);

        let dirs = ["part-1", "part-2", "part-3"];
        for at in [0, 1] {
            assert_eq!(folder.run(&campaign, dirs[at], 1, &format!("{}/3", at + 1)), (shards[at], 0));
        }
        let merged = folder.merge("merged", &dirs[..2]).unwrap();
        assert_eq!((merged.present(), merged.missing.len()), (cells - shards[2], shards[2]));
        assert_eq!(folder.run(&campaign, dirs[2], 1, "3/3"), (shards[2], 0));
        assert!(folder.merge("merged", &dirs).unwrap().missing.is_empty());
        assert_eq!(folder.bytes("merged"), whole);
        assert_eq!(folder.records("merged").len(), cells);
    };
    let tables = ["campaign.json", "results.csv", "results.json"];
    check(GOOD, 12, [6, 3, 3], &tables);
    check(EXPLORATIONS, 4, [2, 2, 0], &tables);
    // 8 applications, and a use case.
    check(MAPPING, 9, [3, 3, 3], &["campaign.json", "results.json", "trials.csv"]);
    // 2 logs, 2 x 4 cells of frozen experiments, 2 x 3 starts with 2 delays.
    check(MULTI_JOB, 2 + 8 + 12, [1 + 4 + 4, 1 + 4, 4 + 4], &["campaign.json", "results.json"]);
}

/// Cancels a campaign when the runner asks for that so many times more.
struct Cancelling(AtomicUsize);

impl Progress for Cancelling {
    fn planned(&self, _total: usize, _kept: usize) {}
    fn finished(&self, _key: &str) {}

    fn is_cancelled(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }
}

#[test]
fn a_cancelled_campaign_keeps_its_records_and_goes_on_later() {
    // The runner asks before a group and after each cell; simulations of jobs ask while they run, too.
    for (text, asked, kept) in
        [(GOOD, 0, 0), (GOOD, 2, 0), (EXPLORATIONS, 3, 2), (MAPPING, 3, 2), (MULTI_JOB, 1, 1)]
    {
        let folder = Folder::new();
        let campaign = folder.campaign(text);
        let options = Options { threads: 1, shard: Shard::WHOLE };
        let cancelled =
            campaign.run(&folder.path("out"), options, &measure, &Cancelling(AtomicUsize::new(asked)));
        assert!(matches!(cancelled, Err(CampaignError::Cancelled)), "{cancelled:?}");
        assert_eq!(folder.records("out").len(), kept, "{asked}");
        assert_eq!(folder.run(&campaign, "out", 1, "1/1").1, kept);
    }
}

#[test]
fn records_of_two_campaigns_are_never_mixed() {
    let check = |text: &str, from: &str, to: &str, file: &str, line: &str, changed: &str| {
        assert!(text.contains(from));
        let folder = Folder::new();
        let campaign = folder.campaign(text);
        folder.run(&campaign, "out", 1, "1/1");
        let whole = folder.bytes("out");
        let refused = |campaign: &Campaign| {
            let refused = folder.try_run(campaign, "out", 1, "1/1");
            matches!(refused, Err(CampaignError::Changed { .. }))
        };
        assert!(!refused(&folder.campaign(&format!("# a comment\n{text}"))), "comments do not count");
        let other = folder.campaign(&text.replacen(from, to, 1));
        assert!(refused(&other), "{to}");
        folder.run(&other, "other", 1, "1/1");
        assert!(matches!(folder.merge("merged", &["out", "other"]), Err(CampaignError::Changed { .. })));
        let original = fs::read_to_string(folder.path(file)).unwrap();
        assert!(original.contains(line));
        fs::write(folder.path(file), original.replacen(line, changed, 1)).unwrap();
        assert!(refused(&campaign), "another {file} under the same name");
        assert_eq!(folder.bytes("out"), whole, "nothing was changed");
        folder.write_records("out", &[]);
        assert!(!refused(&campaign), "the folder has no records of another campaign");
        assert!(refused(&other), "the folder is the other campaign's now");
    };
    check(GOOD, "period_s = 600", "period_s = 601", "three.toml", "procs = 24", "procs = 25");
    check(MAPPING, "edges_per_task = 3", "edges_per_task = 4", "render.toml", "\n", "\n\n");
    check(MULTI_JOB, "mean_s = 1000\n\n", "mean_s = 1001\n\n", "log.swf", "\n2 74 ", "\n2 75 ");
    let folder = Folder::new();
    folder.run(&folder.campaign(EXPLORATIONS), "out", 1, "1/1");
    folder.run(&folder.campaign(MAPPING), "other", 1, "1/1");
    assert!(matches!(folder.merge("out", &["other"]), Err(CampaignError::Changed { .. })), "another kind");
}

#[test]
fn unusable_folders_are_refused_and_not_changed() {
    let folder = Folder::new();
    assert!(matches!(read_folder(&folder.path("")), Err(CampaignError::Absent(_))));
    assert!(matches!(folder.merge("merged", &[]), Err(CampaignError::NothingToMerge)));
    let campaign = folder.campaign(EXPLORATIONS);
    folder.run(&campaign, "out", 1, "1/1");
    let file = folder.path("out/campaign.json");
    let good = fs::read_to_string(&file).unwrap();
    let refused = |text: &str, problem: &str| {
        fs::write(&file, text).unwrap();
        let (before, records) = (folder.bytes("out"), folder.records("out"));
        for error in [
            read_folder(&folder.path("out")).unwrap_err(),
            folder.try_run(&campaign, "out", 1, "1/1").unwrap_err(),
            folder.merge("out", &["out"]).unwrap_err(),
        ] {
            assert!(error.to_string().contains(problem) && error.hint().is_some(), "{error}");
        }
        assert_eq!((folder.bytes("out"), folder.records("out")), (before, records));
    };
    let later = good.replace("campaign-folder/1", "campaign-folder/2");
    refused(&later, "expected version `pliant.campaign-folder/1`, found `pliant.campaign-folder/2`");
    refused("{}", "expected a file as Pliant writes it, found something else at line 1, column 2");
    refused(&good[..good.len() / 2], "cut off at line ");
    fs::write(&file, good).unwrap();
    // Another process has locked the folder.
    let records = fs::File::open(folder.path("out/records.jsonl")).unwrap();
    records.lock().unwrap();
    let error = folder.try_run(&campaign, "out", 1, "1/1").unwrap_err();
    assert!(matches!(error, CampaignError::Busy(_)) && !error.is_input(), "{error}");
    drop(records);
    assert_eq!(folder.run(&campaign, "out", 1, "1/1"), (0, 4));
}

#[test]
fn damaged_records_are_reported_and_their_cells_run_again() {
    let folder = Folder::new();
    let campaign = folder.campaign(GOOD);
    folder.run(&campaign, "out", 1, "1/1");
    let good = folder.bytes("out");
    let mut lines = folder.records("out");
    let half = lines[1].len() / 2;
    lines[1] = format!("{}\n", &lines[1][..half]);
    lines[3] = lines[3].replace("\"ends_s\":", "\"ends_s\":\"x\",\"y\":");
    lines[5] = lines[5].replacen("\"key\":\"log_", "\"key\":\"gol_", 1);
    lines[7] = "\u{1}\u{2}\n".to_owned();
    lines[9] = lines[9].replacen("\"campaign\":\"", "\"campaign\":\"x", 1);
    folder.write_records("out", &lines);
    let contents = read_folder(&folder.path("out")).unwrap();
    assert_eq!((contents.present(), simulations(&contents).runs.len()), (7, 7));
    let expected = [
        (2, "cut off at line 1, column "),
        (4, "expected a file as Pliant writes it, found something else at line 1, column "),
        (6, "expected the key of a run, found `gol_"),
        (8, "expected a file as Pliant writes it, found something else at line 1, column 1"),
        (10, "expected a result of this campaign ("),
    ];
    assert_eq!(contents.damaged.len(), expected.len());
    for (DamagedLine { path, line, problem }, (at, start)) in contents.damaged.iter().zip(expected) {
        assert!(path.ends_with("records.jsonl") && *line == at && problem.starts_with(start), "{problem}");
    }
    let merged = folder.merge("whole", &["out"]).unwrap();
    assert_eq!((merged.damaged.len(), merged.missing.len()), (5, 5));
    assert_eq!(merged.damaged, contents.damaged);
    let finished = folder.try_run(&campaign, "out", 1, "1/1").unwrap();
    assert_eq!((finished.ran, finished.kept, finished.damaged), (5, 7, contents.damaged));
    assert_eq!((finished.contents.damaged.len(), folder.bytes("out")), (0, good));
}

#[test]
fn cells_aggregate_seeds() {
    let folder = Folder::new();
    folder.run(&folder.campaign(GOOD), "out", 2, "1/1");
    let contents = read_folder(&folder.path("out")).unwrap();
    let results = simulations(&contents);
    let cells = cells(results);
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

#[test]
fn errors_are_found_before_anything_is_written() {
    let folder = Folder::new();
    let check = |text: &str, threads: usize, expected: &str| {
        let error = folder.try_run(&folder.campaign(text), "out", threads, "1/1").unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(error.is_input() && error.hint().is_some() && !folder.path("out").exists());
    };
    check(GOOD, THREADS_MAX + 1, "expected at most 1024 threads, found 1025");
    let twice = MAPPING.replace("tasks = [8, 12]", "tasks = [8, 8]");
    check(&twice, 1, "expected each run once, found tasks-8_clusters-1-3_mcr-25_seed-1 twice");
}

#[test]
fn optional_workloads_without_a_file_are_skipped() {
    let folder = Folder::new();
    let more = |optional| {
        format!("[[workload]]\nname = \"more\"\nfile = \"more.swf\"\nplatform = \"three.toml\"\n{optional}")
    };
    let campaign = folder.campaign(GOOD);
    let with = |optional| folder.campaign(&format!("{GOOD}\n{}", more(optional)));
    for required in [with(""), with("optional = false")] {
        let mut asked = required.clone();
        assert_eq!((asked.skip_absent(), &asked), (vec![], &required));
        let error = folder.try_run(&asked, "out", 1, "1/1").unwrap_err();
        assert!(matches!(&error, CampaignError::NoLog(file) if file.ends_with("more.swf")), "{error}");
        assert!(error.hint().unwrap().contains("optional = true") && !error.is_input());
    }
    let mut optional = with("optional = true");
    let skipped = optional.skip_absent();
    assert_eq!((skipped.len(), skipped[0].workload.as_str()), (1, "more"));
    assert_eq!(optional, campaign);
    fs::copy(folder.path("log.swf"), folder.path("more.swf")).unwrap();
    let mut optional = with("optional = true");
    assert!(optional.skip_absent().is_empty());
    // The key does not change a workload whose file exists.
    assert_eq!(folder.run(&optional, "out", 1, "1/1"), (24, 0));
    assert_eq!(folder.run(&with(""), "out", 1, "1/1"), (0, 24));
    let Campaign::Simulations(simulations) = &mut optional else { panic!("expected simulations") };
    simulations.workloads.clear();
    assert!(matches!(folder.try_run(&optional, "out", 1, "1/1"), Err(CampaignError::NoWorkload)));
}

#[test]
fn shards_split_every_group_once() {
    let shards: Vec<Shard> = (1..=3).map(|index| format!("{index}/3").parse().unwrap()).collect();
    for position in 0..20 {
        assert_eq!(shards.iter().filter(|shard| shard.holds(position)).count(), 1);
    }
    assert!((0..20).all(|position| Shard::WHOLE.holds(position)));
}

#[test]
fn invalid_shards_are_refused() {
    for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "1/2/3", "-1/2"] {
        assert!(text.parse::<Shard>().is_err(), "{text}");
    }
    assert_eq!("2/16".parse::<Shard>().unwrap().to_string(), "2/16");
}
