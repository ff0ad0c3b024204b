//! Paper 002's campaigns: their files, equal results on any number of threads, and the paper's claims on a small generated
//! log.

use std::fs;
use std::path::{Path, PathBuf};

use pliant_model::Span;
use pliant_sim::campaign::multi_job::{ArrivingCell, FrozenCell, LogSource, MultiJobCampaign, Results};
use pliant_sim::campaign::{Campaign, CampaignError, Measured, Options, Results as AnyResults, Shard};
use pliant_testing::claims::figure;

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
fn c002_3_to_10_the_papers_campaign_in_small() {
    let (_dir, results) = on_any_threads(&small("paper-002.toml"));
    assert_eq!(results.logs[0].busy_processors.len(), 10);
    assert_eq!(results.logs[0].groups, 12);
    assert!((100..=144).contains(&results.logs[0].users));
    // A few clusters have most of the work: by construction on the generated log.
    assert!(share_of_three(&results.logs[0].busy_processors) > 50.0);
    let (mut cells, mut later) = (0, 0);
    for pair in results.frozen.chunks(2) {
        assert_eq!((pair[0].policy.as_str(), pair[1].policy.as_str()), ("statistics", "random"));
        // With the printed heavy tails, the draws decide.
        let slack = if pair[0].law == "pareto-printed" { 1.3 } else { 1.0 };
        assert!(pair[0].makespan_s.mean <= slack * pair[1].makespan_s.mean, "{pair:?}");
        assert!(pair[0].makespan_s.median <= pair[0].makespan_s.p95);
        if pair[0].law == "deterministic" {
            cells += 1;
            later += usize::from(pair[0].makespan_s.mean > pair[1].makespan_s.mean);
        }
    }
    figure(
        "C002-3",
        &format!("of {cells} cells with Algorithm 1 later than random"),
        f64::from(later as u32),
        0.0..=0.0,
    );
    let (starts, laws) = (10, 4);
    let log_times: Vec<&FrozenCell> =
        results.frozen.iter().filter(|cell| cell.experiment == "2-log-times").collect();
    assert_eq!(log_times.len(), 2 * laws * 4);
    let of = |policy: &str, law: &str| -> Vec<&FrozenCell> {
        log_times.iter().filter(|cell| cell.policy == policy && cell.law == law).copied().collect()
    };
    let equal = of("statistics", "deterministic");
    assert!(equal.iter().all(|cell| cell.makespan_s.runs == starts));
    let intervals = [5.5..=7.5, 1.8..=2.8, 0.6..=1.1, 0.3..=0.5];
    for ((equal, gaussian), interval) in equal.iter().zip(of("statistics", "gaussian")).zip(intervals) {
        let percent = 100.0 * (gaussian.makespan_s.mean / equal.makespan_s.mean - 1.0);
        let what =
            format!("% later with Gaussian than with equal jobs, {} jobs, log's pre-load", equal.instances);
        figure("C002-6", &what, percent, interval);
    }
    // With many jobs every cluster gets some, so random ends with the most pending work plus about a tenth of them.
    let many = of("random", "deterministic")[3];
    let after = (many.makespan_s.mean - many.largest_pending_s) / 1e6;
    figure("C002-9", "random after the largest pre-load, over a tenth of the jobs", after, 0.9..=1.1);
    let points: Vec<(f64, f64)> =
        equal.iter().map(|cell| (cell.instances as f64, cell.makespan_s.mean)).collect();
    figure("C002-10", "R² of the makespans of Algorithm 1 over the jobs", r_squared(&points), 0.995..=1.0);
}

/// The share of the busiest three in all, in %.
fn share_of_three(work: &[f64]) -> f64 {
    100.0 * work[..3].iter().sum::<f64>() / work.iter().sum::<f64>()
}

/// How much of the variance a straight line explains.
fn r_squared(points: &[(f64, f64)]) -> f64 {
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|point| of(point.0 - x, point.1 - y)).sum::<f64>();
    sum(&|x, y| x * y).powi(2) / (sum(&|x, _| x * x) * sum(&|_, y| y * y))
}

/// Figure 4 on the generated log: random over Algorithm 1 as the jobs of the pre-load become longer.
#[test]
fn c002_7_8_random_breaks_away_from_algorithm_1() {
    let whole = campaign("paper-002.toml");
    let mut campaign = small("paper-002.toml");
    campaign.arriving.clear();
    for (frozen, whole) in campaign.frozen.iter_mut().zip(&whole.frozen) {
        frozen.delays.clone_from(&whole.delays);
    }
    campaign.frozen.retain(|frozen| frozen.name.starts_with("1-equal-times-"));
    let dir = tempfile::tempdir().unwrap();
    let results = run(&campaign, dir.path(), 2).unwrap();
    let ratio = |time: i64, times: i64, instances: u64| {
        let of = |policy: &str| {
            let found = results.frozen.iter().find(|cell| {
                (cell.job_time_s, cell.delay_s, cell.instances) == (Some(time), time * times, instances)
                    && cell.policy == policy
            });
            found.unwrap().makespan_s.mean
        };
        of("random") / of("statistics")
    };
    // The jobs' time, how many times that the log ran, and what was found with 10 and with 10,000 instances.
    for (claim, time, times, expected) in [
        ("C002-7", 1_000, 1, [3.5, 1.05]),
        ("C002-7", 1_000, 10, [18.4, 1.06]),
        ("C002-8", 5_000, 1, [55.5, 1.14]),
        ("C002-8", 5_000, 10, [232.0, 1.85]),
        ("C002-8", 10_000, 1, [148.0, 1.46]),
        ("C002-8", 10_000, 10, [419.0, 4.24]),
    ] {
        for (instances, expected) in [10, 10_000].into_iter().zip(expected) {
            let what = format!(
                "random over Algorithm 1, pre-load jobs of {time} s for {times} times that, {instances} jobs"
            );
            figure(claim, &what, ratio(time, times, instances), 0.9 * expected..=1.1 * expected);
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

/// Makespans or responses of a policy over those of another one, in each cell of some experiments.
fn ratios(
    results: &Results,
    experiments: &[&str],
    policies: [&str; 2],
    of: fn(&ArrivingCell) -> f64,
) -> Vec<f64> {
    let [over, under] = policies.map(|policy| -> Vec<&ArrivingCell> {
        let cells = results.arriving.iter().filter(|cell| experiments.contains(&cell.experiment.as_str()));
        cells.filter(|cell| cell.policy == policy).collect()
    });
    assert!(!over.is_empty() && over.len() == under.len(), "{policies:?} in {experiments:?}");
    let key =
        |cell: &ArrivingCell| (cell.experiment.clone(), cell.times.clone(), cell.delay_s, cell.instances);
    over.iter()
        .zip(under)
        .map(|(over, under)| {
            assert_eq!(key(over), key(under));
            of(over) / of(under)
        })
        .collect()
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Scenarios 3 and 4 with the campaign's delays and instances, on the small log.
#[test]
fn c002_11_12_15_16_statistics_end_before_random_in_scenarios_3_and_4() {
    let mut campaign = MultiJobCampaign { frozen: Vec::new(), ..small("paper-002.toml") };
    let whole = self::campaign("paper-002.toml");
    for arriving in &mut campaign.arriving {
        let of_campaign = whole.arriving.iter().find(|whole| whole.name == arriving.name).unwrap();
        arriving.delays.clone_from(&of_campaign.delays);
        arriving.instances.clone_from(&of_campaign.instances);
        (arriving.starts, arriving.draws) = (6, 10);
    }
    let (_dir, results) = on_any_threads(&campaign);
    let makespan = |cell: &ArrivingCell| cell.makespan_s.mean;
    let response = |cell: &ArrivingCell| cell.response_s.mean;
    let count = |ratios: &[f64], is: fn(f64) -> bool| {
        f64::from(ratios.iter().filter(|ratio| is(**ratio)).count() as u32)
    };
    // What was found: random over statistics by executable, and those by user and by group over them.
    for (experiment, expected) in [
        ("3a", [1.86, 1.0, 1.0]),
        ("3b", [1.09, 1.0, 1.02]),
        ("3b-executable", [1.52, 1.02, 1.43]),
        ("3b-group", [1.13, 1.0, 1.04]),
    ] {
        let found = ratios(&results, &[experiment], ["RND", "STAT"], makespan);
        let what =
            format!("of {} cells with statistics by executable later than random, {experiment}", found.len());
        figure("C002-11", &what, count(&found, |ratio| ratio < 1.0), 0.0..=0.0);
        let note = |claim: &str, policies: [&str; 2], expected: f64| {
            let found = median(&ratios(&results, &[experiment], policies, makespan));
            let what = format!("{} over {}, median of makespans, {experiment}", policies[0], policies[1]);
            figure(claim, &what, found, 0.95 * expected..=1.05 * expected);
        };
        note("C002-11", ["RND", "STAT"], expected[0]);
        if experiment != "3a" {
            note("C002-12", ["STAT-user", "STAT"], expected[1]);
            note("C002-12", ["STAT-group", "STAT"], expected[2]);
        }
    }
    let scenario_4 = ["4-R1", "4-R2"];
    let found = ratios(&results, &scenario_4, ["RND", "STAT-user"], makespan);
    assert_eq!(found.len(), 16);
    figure(
        "C002-15",
        "of 16 cells with statistics later than random",
        count(&found, |ratio| ratio < 1.0),
        0.0..=0.0,
    );
    let found = ratios(&results, &scenario_4, ["RND", "STAT-user"], response);
    let least = found.iter().copied().fold(f64::INFINITY, f64::min);
    let most = found.iter().copied().fold(0.0, f64::max);
    figure("C002-16", "least ratio of responses", least, 1.15..=1.4);
    figure("C002-16", "greatest ratio of responses", most, 35.0..=60.0);
}

/// Jobs of one executable that differ by 0.1 and by 4 times their mean.
#[test]
fn c002_17_statistics_lose_what_a_category_spreads() {
    let mut campaign = campaign("paper-002-beyond.toml");
    campaign.logs = [0, 4].map(|at| campaign.logs[at].clone()).to_vec();
    for log in &mut campaign.logs {
        let LogSource::Generated(what) = &mut log.source else { panic!("expected a generated log") };
        (what.jobs, what.days) = (6000, 6.0);
    }
    campaign.policies.retain(|policy| ["exact", "mean", "random"].contains(&policy.name.as_str()));
    campaign.arriving.truncate(1);
    let spread = &mut campaign.arriving[0];
    (spread.logs, spread.policies, spread.reference) = (vec![0, 1], vec![0, 1, 2], None);
    (spread.starts, spread.draws) = (4, 4);
    let dir = tempfile::tempdir().unwrap();
    let results = run(&campaign, dir.path(), 2).unwrap();
    for (log, [mean, random]) in
        [("spread-0.1", [17.0..=25.0, 9.0..=11.5]), ("spread-4", [24.0..=33.0, 5.4..=7.0])]
    {
        let of = |policies: [&str; 2]| {
            let cells = results.arriving.iter().filter(|cell| cell.log == log).cloned().collect();
            let results = Results { arriving: cells, ..results.clone() };
            let ratios = ratios(&results, &["spread"], policies, |cell| cell.makespan_s.mean);
            (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
        };
        figure(
            "C002-17",
            &format!("% later than with exact runtimes, {log}"),
            100.0 * (of(["mean", "exact"]) - 1.0),
            mean,
        );
        figure("C002-17", &format!("random over statistics, {log}"), of(["random", "mean"]), random);
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

/// C002-13 and C002-14 on LCG-2005 instead of the paper's log; and how its load is spread.
#[test]
fn c002_4_13_categories_of_a_real_log_are_counted() {
    let Some(path) = pliant_testing::log("LCG.swf.gz") else { return };
    let log = pliant_trace::load(&path, &pliant_trace::LoadOptions::default()).unwrap();
    let division = pliant_sim::multi_job::Division { stretches: 1, skipped: 0, clusters: 10 };
    let divided = pliant_sim::multi_job::background(&log, division).unwrap();
    assert_eq!(divided.categories, [0, 216, 28]);
    figure("C002-13", "groups in LCG-2005", f64::from(divided.categories[2] as u32), 28.0..=28.0);
    let mut work = vec![0.0; 10];
    divided.jobs.iter().for_each(|job| work[job.cluster] += job.runtime.0 as f64);
    figure("C002-4", "% of the work of LCG's ten busiest sites on three", share_of_three(&work), 67.0..=69.0);
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
