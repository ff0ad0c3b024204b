//! Paper 002's campaigns: their files, equal results on any number of threads, and the paper's claims on a small generated
//! log.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "campaigns are files, and their results are folders"
)]

use std::fs;
use std::path::{Path, PathBuf};

use pliant_model::Span;
use pliant_sim::campaign::multi_job::{ArrivingCell, FrozenCell, LogSource, MultiJobCampaign, Results};
use pliant_sim::campaign::{Campaign, CampaignError, Measured, Options, Results as AnyResults, Shard};

fn campaign(name: &str) -> MultiJobCampaign {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../campaigns").join(name);
    let Campaign::MultiJob(campaign) = Campaign::read(&path, Vec::new()).unwrap() else {
        panic!("expected multi-jobs")
    };
    campaign
}

fn run(campaign: &MultiJobCampaign, dir: &Path, threads: usize) -> Result<Results, CampaignError> {
    let options = Options { threads, shard: Shard::WHOLE };
    let measure = |_: Measured<'_>| Err("expected no simulation".to_owned());
    let finished = Campaign::MultiJob(campaign.clone()).run(dir, options, &measure, &())?;
    let AnyResults::MultiJob(results) = finished.contents.results else { panic!("expected multi-jobs") };
    Ok(results)
}

/// A campaign of the paper on a small log.
fn small(name: &str) -> MultiJobCampaign {
    let mut campaign = campaign(name);
    campaign.logs.truncate(1);
    let LogSource::Generated(what) = &mut campaign.logs[0].source else { panic!("expected a generated log") };
    (what.jobs, what.days) = (6000, 6.0);
    campaign.draws = 4;
    for frozen in &mut campaign.frozen {
        frozen.logs = vec![0];
        frozen.starts = 10;
        frozen.delays = vec![Span(69_120)];
    }
    campaign.arriving.retain(|arriving| arriving.logs.contains(&0));
    for arriving in &mut campaign.arriving {
        arriving.logs = vec![0];
        (arriving.starts, arriving.draws) = (2, 4);
        arriving.delays = vec![Span(69_120)];
        arriving.instances = vec![20, 200];
    }
    campaign
}

/// The results on two threads, checked against those on one.
fn on_any_threads(campaign: &MultiJobCampaign) -> (tempfile::TempDir, Results) {
    let dir = tempfile::tempdir().unwrap();
    let folders: [PathBuf; 2] = ["one", "two"].map(|name| dir.path().join(name));
    run(campaign, &folders[0], 1).unwrap();
    let results = run(campaign, &folders[1], 2).unwrap();
    let [one, two] = folders.map(|folder| fs::read(folder.join("results.json")).unwrap());
    assert!(one == two, "the bytes differ");
    (dir, results)
}

#[test]
fn the_papers_campaign_in_small() {
    let (_dir, results) = on_any_threads(&small("paper-002.toml"));
    assert_eq!(results.logs[0].busy_processors.len(), 10);
    assert_eq!(results.logs[0].groups, 12);
    assert!((100..=144).contains(&results.logs[0].users));
    // C002-4: a few clusters have most of the work.
    let work = &results.logs[0].busy_processors;
    assert!(work[..3].iter().sum::<f64>() > work[3..].iter().sum::<f64>(), "{work:?}");
    // C002-3: Algorithm 1 before random, in every cell.
    for pair in results.frozen.chunks(2) {
        assert_eq!((pair[0].policy.as_str(), pair[1].policy.as_str()), ("statistics", "random"));
        // With the printed heavy tails, the draws decide.
        let slack = if pair[0].law == "pareto-printed" { 1.3 } else { 1.0 };
        assert!(pair[0].makespan_s.mean <= slack * pair[1].makespan_s.mean, "{pair:?}");
        assert!(pair[0].makespan_s.median <= pair[0].makespan_s.p95);
    }
    let (starts, laws) = (10, 4);
    let deterministic = results.frozen.iter().filter(|cell| cell.experiment == "2-log-times");
    assert_eq!(deterministic.clone().count(), 2 * laws * 4);
    assert!(
        deterministic
            .filter(|cell| cell.law == "deterministic" && cell.policy == "statistics")
            .all(|cell| cell.makespan_s.runs == starts)
    );
    // C002-8: the delay of random, over all numbers of jobs, grows with the pre-load.
    let later = ["100", "1000", "5000", "10000"].map(|time| {
        let cells: Vec<&FrozenCell> = results
            .frozen
            .iter()
            .filter(|cell| cell.experiment == format!("1-equal-times-{time}"))
            .filter(|cell| cell.law == "deterministic")
            .collect();
        let ratio = |pair: &[&FrozenCell]| (pair[1].makespan_s.mean / pair[0].makespan_s.mean).ln();
        let ratios: Vec<f64> = cells.chunks(2).map(ratio).collect();
        ratios.iter().sum::<f64>() / ratios.len() as f64
    });
    assert!(later.is_sorted_by(|one, next| one < next), "{later:?}");
    // C002-9: with many jobs every cluster gets some, so random ends with the most pending work plus about a tenth of them.
    for cell in &results.frozen {
        let is_meant = cell.policy == "random" && cell.law == "deterministic" && cell.job_time_s.is_none();
        if is_meant && cell.instances == 10_000 {
            let after = cell.makespan_s.mean - cell.largest_pending_s;
            assert!((0.9e6..1.2e6).contains(&after), "{cell:?}");
        }
    }
}

/// Mean makespan of a policy over the cells of an experiment.
fn mean(results: &Results, experiment: &str, policy: &str) -> f64 {
    let cells = results.arriving.iter();
    let cells: Vec<&ArrivingCell> =
        cells.filter(|cell| cell.experiment == experiment && cell.policy == policy).collect();
    assert!(!cells.is_empty(), "{policy} in {experiment}");
    cells.iter().map(|cell| cell.makespan_s.mean).sum::<f64>() / cells.len() as f64
}

/// C002-11 and C002-15: statistics before random in scenarios 3 and 4.
#[test]
fn statistics_end_before_random_in_scenarios_3_and_4() {
    let (_dir, results) = on_any_threads(&MultiJobCampaign { frozen: Vec::new(), ..small("paper-002.toml") });
    assert!(mean(&results, "3a", "STAT") < mean(&results, "3a", "RND"));
    for policy in ["STAT", "STAT-user", "STAT-group"] {
        assert!(mean(&results, "3b", policy) < mean(&results, "3b", "RND"), "{policy}");
    }
    // C002-15 in every cell.
    let of = |policy: &'static str| {
        let cells = results.arriving.iter().filter(|cell| cell.experiment.starts_with("4-R"));
        cells.filter(move |cell| cell.policy == policy)
    };
    assert_eq!(of("RND").count(), 8);
    for (random, statistics) in of("RND").zip(of("STAT-user")) {
        assert_eq!((&random.times, random.instances), (&statistics.times, statistics.instances));
        assert!(statistics.makespan_s.mean <= random.makespan_s.mean, "{statistics:?} {random:?}");
    }
}

/// The exact broker is the bound of brokers without moves, and every policy of the campaign behaves as its name says.
#[test]
fn the_campaign_beyond_the_paper_in_small() {
    let (_dir, results) = on_any_threads(&small("paper-002-beyond.toml"));
    let of = |policy: &str| mean(&results, "spread", policy);
    assert!(
        of("exact") < of("random") && of("mean") < of("random"),
        "{} {} {}",
        of("exact"),
        of("mean"),
        of("random")
    );
    let moved = |policy: &str| {
        results
            .arriving
            .iter()
            .filter(|cell| cell.policy == policy)
            .map(|cell| cell.moves + cell.copies)
            .sum::<f64>()
    };
    for policy in ["replicated", "two-choices-replicated", "random-replicated"] {
        assert!(moved(policy) > 0.0, "{policy}");
    }
    assert!(moved("mean") == 0.0 && moved("mean-by-elapsed") == 0.0 && moved("two-choices") == 0.0);
    assert!(of("random-replicated") < of("random"));
    // Calibration: about 80 % of the jobs stay below the quantile of 0.8 where the level has enough jobs.
    let row =
        results.errors.iter().find(|row| row.level == "all" && row.estimator == "quantile 0.8").unwrap();
    assert!((70.0..90.0).contains(&row.within_percent), "{row:?}");
}

/// The state machine of live sweeps runs every multi-job to its end and withdraws instances that wait where they would end last.
#[test]
fn sweeps_run_in_small() {
    let (_dir, results) = on_any_threads(&small("paper-002-sweep.toml"));
    let cells = |policy: &str| -> Vec<&ArrivingCell> {
        results.arriving.iter().filter(|cell| cell.policy == policy).collect()
    };
    let runs = |policy: &str| cells(policy).iter().map(|cell| cell.makespan_s.runs).sum::<usize>();
    assert!(runs("sweep") > 0 && runs("sweep") == runs("mean"));
    assert!(cells("sweep").iter().all(|cell| cell.makespan_s.mean > 0.0 && cell.copies == 0.0));
    assert!(cells("sweep").iter().any(|cell| cell.moves > 0.0), "nothing was withdrawn");
}

#[test]
fn absent_optional_logs_are_skipped_and_absent_required_ones_reported() {
    let mut campaign = campaign("paper-002.toml");
    campaign.base = PathBuf::from("nowhere");
    for log in &mut campaign.logs {
        if let LogSource::File { path, .. } = &mut log.source {
            *path = PathBuf::from("no-such-log.swf");
        }
    }
    let mut required = campaign.clone();
    let skipped = campaign.skip_absent();
    assert_eq!((skipped.len(), campaign.logs.len()), (6, 1));
    assert!(campaign.arriving.iter().all(|arriving| arriving.logs == [0]));
    let LogSource::File { optional, .. } = &mut required.logs[1].source else { panic!("expected a file") };
    *optional = false;
    let error = run(&required, &tempfile::tempdir().unwrap().path().join("out"), 1).unwrap_err();
    let expected = format!(
        "{}: cannot read this file: there is none",
        Path::new("nowhere").join("no-such-log.swf").display()
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn errors_in_a_file_have_their_position() {
    let check = |log: &str, more: &str, position: &str, problem: &str| {
        let text = format!("kind = \"multi-job\"\nname = \"c\"\nseed = 1\ndraws = 2\n[[log]]\n{log}\n{more}");
        let error = MultiJobCampaign::parse(&text, Path::new("c.toml")).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("c.toml:{position}: ")) && error.ends_with(problem),
            "{text}: {error}"
        );
    };
    let log = "name = \"l\"\nfile = \"l.swf\"\nclusters = 2";
    check("name = \"l\"\nclusters = 2", "", "5:1", "expected either `file` or `generate`");
    check(
        "name = \"l\"\nfile = \"l\"\nclusters = 0",
        "",
        "8:12",
        "expected a number of 1 to 100000, found 0",
    );
    let again = "[[log]]\nname = \"l\"\nfile = \"m\"\nclusters = 1";
    check(log, again, "10:8", "expected unique names, found `l` twice");
    let policy = "[[policy]]\nname = \"p\"\nquantile = 0.5";
    check(log, policy, "11:12", "expected `quantile` with `estimator = \"quantile\"` and nowhere else");
    let policy = "[[policy]]\nname = \"p\"\nrunning = \"by-elapsed\"";
    let problem = "expected `by-elapsed` with `knowledge = \"finished\"` and `estimator = \"mean\"` only";
    check(log, policy, "11:11", problem);
    let policy = "[[policy]]\nname = \"p\"\npoll_s = 60\ncopies = 2";
    check(log, policy, "12:10", "expected 1 copy with `poll_s`, as sweeps make no copies, found 2");
    let arriving = "[[arriving]]\nname = \"a\"\nlogs = [\"m\"]\nprocessors = [1]\nstarts = 1\ndelays_s = [1]\n\
                    instances = [1]\ntimes_s = [1]";
    check(log, arriving, "11:9", "expected the name of a [[log]], found `m`");
}

/// C002-13 and C002-14, on the public multi-site log instead of the paper's.
#[test]
fn categories_of_a_real_log_are_counted() {
    let Some(path) = pliant_testing::log("LCG.swf.gz") else { return };
    let log = pliant_trace::load(&path, &pliant_trace::LoadOptions::default()).unwrap();
    let division = pliant_sim::multi_job::Division { stretches: 1, skipped: 0, clusters: 10 };
    let divided = pliant_sim::multi_job::background(&log, division).unwrap();
    assert_eq!(divided.categories, [0, 216, 28]);
}

/// A log of three sites in both formats, each job with a user, a group and an executable, numbered in the order of appearance.
fn both_formats() -> [String; 2] {
    let (mut swf, mut gwf) = ("; MaxProcs: 3\n".to_owned(), "# MaxProcs: 3\n".to_owned());
    for number in 1..=300 {
        let (submit, runtime) = (number * 400, 100 + number * 37 % 900);
        let [executable, user, group, site] = [7, 5, 2, 3].map(|count| (number - 1) % count + 1);
        swf.push_str(&format!(
            "{number} {submit} 0 {runtime} 1 -1 -1 1 {runtime} -1 1 {user} {group} {executable} -1 {site} -1 -1\n"
        ));
        gwf.push_str(&format!(
            "{number} {submit} 0 {runtime} 1 -1 -1 1 {runtime} -1 1 U{user} G{group} X{executable} -1 -1 S{site} S{site} \
             UNITARY -1 -1 -1 -1 -1 -1 -1 -1 -1 -1\n"
        ));
    }
    [swf, gwf]
}

/// The paper's own logs are in the Grid Workload Format.
#[test]
fn logs_in_grid_workload_format_have_sites_and_categories() {
    let dir = tempfile::tempdir().unwrap();
    let [swf, gwf] = both_formats();
    fs::write(dir.path().join("log.swf"), swf).unwrap();
    fs::write(dir.path().join("log.gwf"), gwf).unwrap();
    let of = |log: &str| {
        let file = dir.path().join(format!("{log}.toml"));
        let text = format!(
            r#"
            kind = "multi-job"
            name = "formats"
            seed = 1
            draws = 3

            [[log]]
            name = "log"
            file = "log.{log}"
            clusters = 3

            [[arriving]]
            name = "user"
            logs = ["log"]
            processors = [1]
            starts = 2
            delays_s = [1000]
            instances = [20]
            categories = [{{ level = "user", rank = 1 }}]
            policies = ["STAT-group", "RND"]

            [[policy]]
            name = "STAT-group"
            strategy = "statistics"
            level = "group"

            [[policy]]
            name = "RND"
            strategy = "random"
            "#
        );
        fs::write(&file, text).unwrap();
        run(&MultiJobCampaign::read(&file).unwrap(), &dir.path().join(log), 1).unwrap()
    };
    let [swf, gwf] = ["swf", "gwf"].map(of);
    let log = &gwf.logs[0];
    assert_eq!((log.jobs, log.executables, log.users, log.groups), (300, 7, 5, 2));
    assert_eq!(log.busy_processors.len(), 3);
    assert_eq!((&swf.logs, &swf.arriving, &swf.errors), (&gwf.logs, &gwf.arriving, &gwf.errors));
}
