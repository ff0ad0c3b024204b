//! Paper 001: its table on the whole NASA log (`pliant-policy` has it on sixteen jobs), and its synthetic workload.

use pliant_model::{Job, Platform, Procs, Run, Speedup};
use pliant_report::{JobGain, gained_before, summarize};
use pliant_sim::{NoObserver, Policies, SimJob, simulate};
use pliant_testing::claims::{figure, holds, judged};
use pliant_trace::generate::{UNIFORM_LONGEST_S, gaussian, uniform};
use pliant_trace::{LoadOptions, load};

fn rigid(jobs: Vec<Job>) -> Vec<SimJob> {
    let rigid = |job| SimJob { job, speedup: Speedup::Rigid, true_speedup: None, managed: true };
    jobs.into_iter().map(rigid).collect()
}

fn run(batch: &str, jobs: &[SimJob]) -> Run {
    let platform = Platform::single(Procs(128), batch).unwrap();
    let run = simulate(&platform, jobs, &Policies::default(), &mut NoObserver).unwrap();
    assert_eq!((run.jobs.len(), run.refused.len()), (jobs.len(), 0), "{batch}");
    run
}

fn makespan_s(run: &Run) -> i64 {
    run.jobs.iter().map(|ran| ran.end.0).max().unwrap()
}

#[test]
fn c001_2_to_8_the_whole_nasa_log() {
    let Some(log) = pliant_testing::log("NASA-iPSC-1993-3.1-cln.swf.gz") else { return };
    let jobs = rigid(load(&log, &LoadOptions::default()).unwrap().jobs);
    assert_eq!(jobs.len(), 18_066);
    let fifo = run("fcfs", &jobs);
    assert_eq!(makespan_s(&fifo), 7_949_022);
    // The paper's own figure for H1, 121,380 s, cannot be reproduced: no natural reading of the rule gives it.
    let table = [
        ("C001-4", "h1", 7, 132_138),
        ("C001-5", "h1-completion", 7, 132_138),
        ("C001-6", "h2", 7, 132_138),
        ("C001-7", "backfill", 4, 70_161),
        ("C001-8", "h3", 8, 135_145),
        ("C001-8", "h3-head", 8, 135_145),
    ];
    for (claim, batch, count, gained_s) in table {
        let ran = run(batch, &jobs);
        let gains = gained_before(&ran, &fifo).unwrap();
        assert_eq!((gains.jobs_earlier, gains.gained_s), (count, gained_s), "{batch}");
        assert_eq!(makespan_s(&ran), makespan_s(&fifo), "{batch}");
        holds(claim, &format!("whole log, {batch}: {count} jobs gain {gained_s} s"));
    }
    holds("C001-2", "whole log: 7,949,022 s under fcfs, h1, h1-completion, h2, backfill, h3 and h3-head");
    figure("C001-3", "days of the whole log", makespan_s(&fifo) as f64 / 86_400.0, 92.0..=92.01);
}

/// A policy on the synthetic workload, against FIFO.
struct Synthetic {
    gain_percent: f64,
    utilization: f64,
    mean_response_s: f64,
    gain: JobGain,
}

impl Synthetic {
    fn of(batch: &str, jobs: &[SimJob], fifo: &Run) -> Synthetic {
        let ran = run(batch, jobs);
        let (summary, gain) = (summarize(&ran), gained_before(&ran, fifo).unwrap());
        let gain_percent = 100.0 * gain.makespan_gain_s as f64 / makespan_s(fifo) as f64;
        let (utilization, mean_response_s) = (summary.utilization, summary.mean_response_s);
        Synthetic { gain_percent, utilization, mean_response_s, gain }
    }

    /// The paper's ratio of about one half: what jobs gain in the mean, over the gain in makespan.
    fn ratio(&self, jobs: u32) -> f64 {
        self.gain.gained_s as f64 / (f64::from(jobs) * self.gain.makespan_gain_s as f64)
    }
}

/// The mean of a figure of several seeds.
fn mean(runs: &[Synthetic], of: impl Fn(&Synthetic) -> f64) -> f64 {
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

const JOBS: u32 = 2_000;

/// Each policy on the jobs of seeds 1 to 5.
fn synthetic(policies: &[&str], jobs: impl Fn(u64) -> Vec<Job>) -> Vec<Vec<Synthetic>> {
    let workloads: Vec<Vec<SimJob>> = (1..=5).map(|seed| rigid(jobs(seed))).collect();
    let fifo: Vec<Run> = workloads.iter().map(|jobs| run("fcfs", jobs)).collect();
    let of = |batch: &&str| {
        let pairs = workloads.iter().zip(&fifo);
        pairs.map(|(jobs, fifo)| Synthetic::of(batch, jobs, fifo)).collect()
    };
    policies.iter().map(of).collect()
}

#[test]
fn c001_10_to_16_the_synthetic_workload() {
    let policies = ["h1", "h1-completion", "h2", "backfill", "h3", "cbf"];
    let runs = synthetic(&policies, |seed| uniform(JOBS, UNIFORM_LONGEST_S, seed).jobs);
    let [h1, h1_completion, h2, backfill, h3, cbf] = &runs[..] else { panic!("expected six policies") };
    let gain = |claim: &str, policy: &str, runs: &[Synthetic], interval| {
        figure(
            claim,
            &format!("% of makespan gained, {policy}"),
            mean(runs, |run| run.gain_percent),
            interval,
        );
    };
    gain("C001-10", "h1", h1, 2.8..=3.4);
    gain("C001-10", "h1-completion", h1_completion, 6.7..=7.3);
    gain("C001-11", "h2", h2, 11.7..=12.3);
    gain("C001-12", "backfill", backfill, 22.3..=22.9);
    gain("C001-12", "cbf", cbf, 20.9..=21.5);
    judged(
        "C001-13",
        "% of makespan gained, h3",
        mean(h3, |run| run.gain_percent),
        22.9..=23.4,
        h3.iter().all(|run| run.gain_percent > 0.0),
    );
    let fewest = runs.iter().flatten().map(|run| run.gain.jobs_earlier).min().unwrap();
    let mean_earlier = |runs: &Vec<Synthetic>| mean(runs, |run| run.gain.jobs_earlier as f64);
    let fewest_in_the_mean = runs.iter().map(mean_earlier).fold(f64::INFINITY, f64::min);
    let [fewest, in_the_mean] =
        [fewest as f64, fewest_in_the_mean].map(|jobs| 100.0 * jobs / f64::from(JOBS));
    figure("C001-14", "% of the jobs before FIFO, least policy in the mean", in_the_mean, 98.5..=99.5);
    figure("C001-14", "% of the jobs before FIFO, least run", fewest, 96.5..=97.5);
    for (name, runs, interval) in [
        ("h1", h1, 0.48..=0.52),
        ("h2", h2, 0.48..=0.52),
        ("backfill", backfill, 0.59..=0.64),
        ("h3", h3, 0.77..=0.82),
    ] {
        let what = format!("gained time over (jobs x gain in makespan), {name}");
        figure("C001-15", &what, mean(runs, |run| run.ratio(JOBS)), interval);
    }
    let gained = |runs: &Vec<Synthetic>| mean(runs, |run| run.gain.gained_s as f64);
    let ratio = gained(h3) / gained(backfill);
    figure("C001-15", "gained time of h3 over that of backfill", ratio, 1.2..=1.45);
    let ratio = gained(h1) / gained(h2);
    figure("C001-15", "gained time of h1 over that of h2", ratio, 0.2..=0.3);
    let utilization = |runs: &Vec<Synthetic>| 100.0 * mean(runs, |run| run.utilization);
    figure("C001-16", "% utilization under h1", utilization(h1), 72.0..=75.0);
    figure("C001-16", "% utilization under h2", utilization(h2), 79.0..=82.0);
    let response = |runs: &Vec<Synthetic>| mean(runs, |run| run.mean_response_s);
    let ratio = response(h2) / response(backfill);
    figure("C001-16", "mean response under h2 over that under backfill", ratio, 1.1..=1.3);
}

#[test]
fn c001_9_fifo_on_10_000_jobs() {
    let makespans =
        (1..=5).map(|seed| makespan_s(&run("fcfs", &rigid(uniform(10_000, UNIFORM_LONGEST_S, seed).jobs))));
    let mean = makespans.sum::<i64>() as f64 / 5.0;
    figure("C001-9", "makespan of FIFO in 10^8 s, the paper has 6.84", mean / 1e8, 5.5..=5.7);
}

/// With more jobs H3 falls behind backfilling, as in the whole campaign of 10,000.
#[test]
fn c001_13_more_jobs() {
    for seed in [1, 3] {
        let jobs = rigid(uniform(5_000, UNIFORM_LONGEST_S, seed).jobs);
        let [fifo, backfill, h3] =
            ["fcfs", "backfill", "h3"].map(|batch| makespan_s(&run(batch, &jobs)) as f64);
        let points = 100.0 * (backfill - h3) / fifo;
        let what = format!("points of makespan that h3 gains over backfill, 5,000 jobs, seed {seed}");
        judged("C001-13", &what, points, -0.8..=0.0, points > 0.0);
    }
}

/// The paper's future work. With Gaussian requests H3 is not the best policy.
#[test]
fn c001_13_gaussian_jobs() {
    let runs = synthetic(&["h3", "backfill"], |seed| gaussian(JOBS, UNIFORM_LONGEST_S, seed).jobs);
    let wins = runs[0].iter().zip(&runs[1]).filter(|(h3, backfill)| h3.gain_percent > backfill.gain_percent);
    figure(
        "C001-13",
        "of five Gaussian seeds in which h3 gains more than backfill",
        wins.count() as f64,
        2.0..=2.0,
    );
}
