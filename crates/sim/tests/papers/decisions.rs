//! Single decisions in a federation without reallocation: what the binary search misses, and which promises are kept.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Instant;

use pliant_model::{ClusterId, JobId, MapReason, Platform, Procs, Reason, Request, Time, runtime_at};
use pliant_policy::federation::{Federation, Tracked};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::tuning::Tuner;
use pliant_report::summarize;
use pliant_sim::campaign::{Generator, Moldable, Recipe, month, sim_jobs};
use pliant_sim::{NoObserver, Policies, SimJob, simulate};
use pliant_testing::claims;
use pliant_trace::{LoadOptions, load, platform};

/// What a run of decisions has counted.
#[derive(Default)]
struct Decisions {
    /// Sizes of moldable jobs that the binary search chose on a cluster.
    searched: usize,
    /// Those with a later completion than the exact tuner's.
    missed: usize,
    /// The sum of their relative losses: how much longer the response is than the best one.
    loss: f64,
    /// Those of `searched` and `missed` that were chosen while a job waited on the cluster.
    behind_others: (usize, usize),
    /// Jobs that ran.
    jobs: usize,
    /// Jobs that started later than their first plan said.
    delayed: usize,
}

impl Decisions {
    fn percent(part: usize, of: usize) -> f64 {
        100.0 * part as f64 / of as f64
    }
}

/// The jobs of paper 000's June, with their load changed to a share of the platform's capacity. A seed draws jobs and types.
fn june(load: Option<f64>, seed: u64) -> Vec<SimJob> {
    let recipe = Recipe {
        generator: Generator::Grid5000,
        month: Some(month("june").unwrap()),
        jobs: None,
        days: None,
        load,
        walltime_max_s: None,
    };
    let mut workload = recipe.generate(&grid5000("cbf"), seed);
    workload.resolve_origins(&grid5000("cbf"));
    sim_jobs(workload.jobs, Moldable::Paper, 1.0, seed)
}

fn grid5000(batch: &str) -> Platform {
    platform::built_in("grid5000").unwrap().with_batch(batch)
}

/// Runs the jobs with the binary search, and asks the exact tuner each time as well.
fn decide(jobs: &[SimJob], platform: &Platform) -> Decisions {
    let mut federation = Federation::new(platform, Tuner::Binary, Time::ZERO).unwrap();
    let mut decisions = Decisions::default();
    // The cluster of each waiting job, and the start that it was promised.
    let mut submitted: BTreeMap<JobId, (ClusterId, Time)> = BTreeMap::new();
    // By time; terminations of one instant in the order of the starts.
    let mut ends: BTreeMap<(Time, usize), (ClusterId, JobId)> = BTreeMap::new();
    let mut arriving = jobs.iter().enumerate().peekable();
    loop {
        let starts = federation.ids().collect::<Vec<_>>().into_iter();
        let start = starts.filter_map(|id| federation.scheduler(id).next_start()).min();
        let arrival = arriving.peek().map(|(_, job)| job.job.submit);
        let end = ends.first_key_value().map(|((at, _), _)| *at);
        let Some(now) = [start, arrival, end].into_iter().flatten().min() else { return decisions };
        while let Some(entry) = ends.first_entry().filter(|entry| entry.key().0 <= now) {
            let (cluster, job) = entry.remove();
            federation.scheduler(cluster).finish(now, job);
        }
        while let Some((index, one)) = arriving.next_if(|(_, job)| job.job.submit <= now) {
            let id = JobId(index as u32);
            let request = Request::new(id, now, one.job.procs, one.job.walltime, one.speedup.clone());
            decisions.compare(&mut federation, platform, now, &request);
            let Some((cluster, estimate)) = federation.earliest(now, &request, None, Time::MAX) else {
                continue;
            };
            let reason = Reason::Mapped(MapReason::EarliestCompletion);
            federation.submit(now, Tracked { request, cluster, moves: 0, reason }, estimate.shape());
            submitted.insert(id, (cluster, estimate.start));
        }
        for cluster in federation.ids() {
            let mut started = Vec::new();
            federation.scheduler(cluster).start_due(now, &mut started);
            for start in started {
                let (cluster, promised) = submitted.remove(&start.job).unwrap();
                decisions.jobs += 1;
                decisions.delayed += usize::from(now > promised);
                let end = now + runtime_at(&jobs[start.job.index()].job, start.walltime);
                ends.insert((end, decisions.jobs), (cluster, start.job));
                federation.started(start.job);
            }
        }
    }
}

impl Decisions {
    /// Compares both tuners on every cluster where the request may have several sizes.
    fn compare(&mut self, federation: &mut Federation, platform: &Platform, now: Time, request: &Request) {
        for (id, cluster) in federation.ids().zip(platform.clusters()) {
            let Some(walltimes) = request.on(cluster.procs, cluster.speed) else { continue };
            if walltimes.least() == walltimes.most() {
                continue;
            }
            let mut completion = |tuner| {
                let estimate = federation.scheduler(id).estimate(now, &walltimes, tuner);
                (estimate.unwrap().completion() - now).0 as f64
            };
            let (found, best) = (completion(Tuner::Binary), completion(Tuner::Exact));
            let is_behind_others = usize::from(federation.scheduler(id).queue_length() > 0);
            self.searched += 1;
            self.behind_others.0 += is_behind_others;
            if found > best {
                self.missed += 1;
                self.loss += found / best - 1.0;
                self.behind_others.1 += is_behind_others;
            }
        }
    }
}

#[test]
fn c000_4_the_binary_search_often_misses_the_best_size() {
    for (load, missed, loss, behind) in
        [(None, 48.0..=53.0, 90.0..=105.0, 68.0..=72.0), (Some(0.1), 14.0..=18.0, 60.0..=80.0, 11.0..=14.0)]
    {
        let load_name = load.map_or("own load".to_owned(), |load| format!("load {load}"));
        let found = decide(&june(load, 1), &grid5000("cbf"));
        check_missed(&found, &format!("June, {load_name}"), missed, loss, behind);
    }
}

#[test]
fn c000_4_on_real_logs() {
    check_logs(&LOGS);
}

#[test]
#[ignore = "takes two minutes: cargo nextest run -p pliant-sim -E 'test(c000_4_)' --run-ignored all"]
fn c000_4_on_two_overloaded_logs() {
    check_logs(&OVERLOADED_LOGS);
}

fn check_logs(logs: &[Log]) {
    for Log { name, file, procs, missed, loss, behind } in logs {
        let Some(log) = pliant_testing::log(file) else { continue };
        let jobs = sim_jobs(load(&log, &LoadOptions::default()).unwrap().jobs, Moldable::Paper, 1.0, 1);
        let found = decide(&jobs, &Platform::single(Procs(*procs), "cbf").unwrap());
        check_missed(&found, name, missed.clone(), loss.clone(), behind.clone());
    }
}

/// A log with the processors of its machine and the expected percentages.
struct Log {
    name: &'static str,
    file: &'static str,
    procs: u32,
    missed: RangeInclusive<f64>,
    loss: RangeInclusive<f64>,
    behind: RangeInclusive<f64>,
}

const LOGS: [Log; 3] = [
    Log {
        name: "KTH-SP2",
        file: "KTH-SP2-1996-2.1-cln.swf.gz",
        procs: 100,
        missed: 54.0..=60.0,
        loss: 105.0..=118.0,
        behind: 99.0..=100.0,
    },
    Log {
        name: "CTC-SP2",
        file: "CTC-SP2-1996-3.1-cln.swf.gz",
        procs: 338,
        missed: 66.0..=72.0,
        loss: 235.0..=255.0,
        behind: 99.0..=100.0,
    },
    Log {
        name: "SDSC-BLUE",
        file: "SDSC-BLUE-2000-4.2-cln.swf.gz",
        procs: 1152,
        missed: 28.0..=32.0,
        loss: 230.0..=250.0,
        behind: 50.0..=56.0,
    },
];

const OVERLOADED_LOGS: [Log; 2] = [
    Log {
        name: "SDSC-SP2",
        file: "SDSC-SP2-1998-4.2-cln.swf.gz",
        procs: 128,
        missed: 62.0..=68.0,
        loss: 480.0..=515.0,
        behind: 99.0..=100.0,
    },
    Log {
        name: "HPC2N",
        file: "HPC2N-2002-2.2-cln.swf.gz",
        procs: 240,
        missed: 64.0..=70.0,
        loss: 580.0..=620.0,
        behind: 99.0..=100.0,
    },
];

fn check_missed(
    found: &Decisions,
    name: &str,
    missed: RangeInclusive<f64>,
    loss: RangeInclusive<f64>,
    behind: RangeInclusive<f64>,
) {
    let missed_percent = Decisions::percent(found.missed, found.searched);
    let is_rare = missed_percent < 10.0;
    claims::judged("C000-4", &format!("missed % of the sizes, {name}"), missed_percent, missed, is_rare);
    let loss_percent = 100.0 * found.loss / found.missed as f64;
    claims::figure("C000-4", &format!("mean loss % of these, {name}"), loss_percent, loss);
    let (searched, missed) = found.behind_others;
    let behind_percent = Decisions::percent(searched, found.searched);
    claims::figure(
        "C000-4",
        &format!("% of the sizes chosen while a job waits, {name}"),
        behind_percent,
        behind,
    );
    let behind_missed_percent = Decisions::percent(missed, searched);
    claims::figure("C000-4", &format!("missed % of these, {name}"), behind_missed_percent, 48.0..=72.0);
}

#[test]
fn c000_26_only_planning_anew_delays_promised_starts() {
    for (batch, expected) in [("cbf", 0.0..=0.0), ("cbf-replan", 0.5..=1.2)] {
        let found = decide(&june(None, 1), &grid5000(batch));
        let percent = Decisions::percent(found.delayed, found.jobs);
        let what = format!("% of the jobs that start late, June, {batch}");
        claims::judged("C000-26", &what, percent, expected, percent == 0.0);
    }
}

/// The windows of MinMin that are compared.
const WINDOWS: [(&str, usize); 3] = [("20 jobs", 20), ("200 jobs", 200), ("all jobs", usize::MAX)];

/// The mean response with each window.
fn by_window(jobs: &[SimJob]) -> [f64; 3] {
    WINDOWS.map(|(_, window)| {
        let regular = Reallocation { window, ..Reallocation::new(Algorithm::Regular, Heuristic::MinMin) };
        let policies = Policies { tuner: Tuner::Binary, reallocation: Some(regular), ..Policies::default() };
        let run = simulate(&grid5000("cbf"), jobs, &policies, &mut NoObserver).unwrap();
        summarize(&run).mean_response_s
    })
}

/// Durations of simulations, of a build for tests: the least of three each.
#[test]
fn c000_22_durations() {
    let jobs = june(None, 1);
    let regular = |heuristic| Reallocation::new(Algorithm::Regular, heuristic);
    let mut settings =
        vec![("no moves".to_owned(), None), ("MCT-reg".to_owned(), Some(regular(Heuristic::Mct)))];
    for (name, window) in WINDOWS {
        let reallocation = Reallocation { window, ..regular(Heuristic::MinMin) };
        settings.push((format!("MinMin-reg, {name}"), Some(reallocation)));
    }
    for (name, reallocation) in settings {
        let policies = Policies { tuner: Tuner::Binary, reallocation, ..Policies::default() };
        let duration_ms = || {
            let begun = Instant::now();
            simulate(&grid5000("cbf"), &jobs, &policies, &mut NoObserver).unwrap();
            begun.elapsed().as_secs_f64() * 1000.0
        };
        let least = (0..3).map(|_| duration_ms()).fold(f64::INFINITY, f64::min);
        claims::timed("C000-22", &format!("ms to simulate June, {name}"), least);
    }
}

#[test]
fn c000_29_minmin_gains_with_the_window() {
    let found = by_window(&june(None, 1));
    for (((window, _), found), expected) in WINDOWS.into_iter().zip(found).zip([22_463.0, 21_538.0, 21_389.0])
    {
        let what = format!("mean response in s, June, MinMin-reg with a window of {window}");
        claims::figure("C000-29", &what, found, expected - 1.0..=expected + 1.0);
    }
    let ratios: Vec<[f64; 2]> = (1..=10)
        .map(|seed| by_window(&june(None, seed)))
        .map(|[few, more, all]| [more / few, all / few])
        .collect();
    for (index, window) in ["200", "all"].into_iter().enumerate() {
        let better = ratios.iter().filter(|ratios| ratios[index] < 1.0).count() as f64;
        let what = format!("of ten Junes, those with a lower mean response with {window} jobs than with 20");
        claims::figure("C000-29", &what, better, 10.0..=10.0);
        let mean = ratios.iter().map(|ratios| ratios[index]).sum::<f64>() / 10.0;
        let what =
            format!("mean response with a window of {window} jobs over that with 20, mean of ten Junes");
        claims::figure("C000-29", &what, mean, 0.94..=0.96);
    }
}
