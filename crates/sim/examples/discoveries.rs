//! Messages of discoveries in federations of many servers, with summaries and without them.
//!
//! Each server has local jobs: as many as keep it busy at the beginning, then one every two minutes, so that a job starts or ends every
//! minute. Meanwhile jobs are submitted to the federation. Without summaries agents ask every server.
//!
//! ```console
//! $ cargo run --profile dist -p pliant-sim --example discoveries -- 1000 2 32
//! ```
//!
//! The arguments are the number of servers, the levels of agents, how many child agents each agent has, 0 to leave out asking every server,
//! how many seconds are simulated, 900 by default, and the tuner of the servers.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, that prints how long it takes"
)]

use std::time::Instant;

use pliant_model::{
    Cluster, ClusterId, Job, JobOutcome, LoggedMemory, Platform, Procs, Span, Speed, Speedup, Time,
};
use pliant_policy::discovery::ReportRule;
use pliant_policy::tuning::{Tuner, TunerError};
use pliant_sim::protocol::{Hierarchy, Network, ProtocolRun, simulate_protocol};
use pliant_sim::{Policies, SimJob};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How long the simulation goes on by default.
const LASTS_S: i64 = 900;
/// The first job is submitted to the federation after this part of it.
const FIRST_PART: i64 = 3;
/// Seconds between two of them.
const EVERY_S: i64 = 2;
/// Seconds between two local jobs of a server.
const LOCAL_EVERY_S: i64 = 120;

/// As daemons do by default.
const DEFAULT: ReportRule = ReportRule { every: Span(1), least_change: Span(10) };

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let [servers, levels, branching, more @ ..] = &given[..] else {
        return Err("expected three numbers: of servers, of levels of agents, of child agents of each; then 0 to leave out asking all, and the seconds".into());
    };
    let asks_all = more.first().is_none_or(|given| *given != 0);
    let lasts_s = more.get(1).map_or(LASTS_S, |given| *given as i64);
    let policies = Policies { tuner: tuner()?, ..Policies::default() };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let clusters = (0..*servers).map(|number| Cluster {
        name: format!("c{number}"),
        procs: Procs([16, 32, 64, 128, 256][rng.random_range(0..5)]),
        speed: Speed::new([0.8, 0.9, 1.0, 1.1, 1.2][rng.random_range(0..5)]).expect("it is positive"),
        batch: "cbf".to_owned(),
        nodes: None,
    });
    let platform = Platform::new(clusters.collect())?;
    let hierarchy = Hierarchy::regular(&platform, *branching, *levels);
    let jobs = workload(&platform, lasts_s, &mut rng);
    println!(
        "{servers} servers, {levels} levels of agents with {branching} children each, {} jobs",
        jobs.len()
    );
    let run = |summaries| {
        let begun = Instant::now();
        let network = Network { summaries, ..Network::default() };
        let run = simulate_protocol(&platform, &hierarchy, &jobs, &policies, &network)?;
        println!("  simulated in {:.1} s", begun.elapsed().as_secs_f64());
        Ok::<ProtocolRun, pliant_sim::SimError>(run)
    };
    let bounded = run(Some(DEFAULT))?;
    report("with summaries", &bounded, &jobs);
    let rate = bounded.traffic.summaries as f64 / (*servers as f64 * lasts_s as f64);
    println!("  summaries: {rate:.3} a second and server");
    if asks_all {
        let all = run(None)?;
        report("asking all", &all, &jobs);
        let (bounded, all) = (mean_response(&bounded), mean_response(&all));
        println!("  mean estimated response: {:+.3} % of asking all", (bounded / all - 1.0) * 100.0);
    }
    Ok(())
}

/// The last argument if it is no number.
fn tuner() -> Result<Tuner, TunerError> {
    let last = std::env::args().skip(1).last().filter(|last| last.parse::<usize>().is_err());
    last.map_or(Ok(Tuner::default()), |last| last.parse())
}

/// Local jobs of every server, and jobs of the federation.
fn workload(platform: &Platform, lasts_s: i64, rng: &mut ChaCha8Rng) -> Vec<SimJob> {
    let mut jobs = Vec::new();
    for (id, cluster) in platform.ids().zip(platform.clusters()) {
        let begin = rng.random_range(0..LOCAL_EVERY_S);
        // So much of the cluster is asked for by the jobs of each two minutes.
        let busy = rng.random_range(0.6..1.1);
        let first = (0..24).map(|_| 0);
        for submit in first.chain((begin..lasts_s).step_by(LOCAL_EVERY_S as usize)) {
            let runtime = log_uniform(rng, 300.0, 7_200.0);
            let mean_s = (7_200.0 - 300.0) / (7_200.0_f64 / 300.0).ln();
            let procs = f64::from(cluster.procs.0) * busy * LOCAL_EVERY_S as f64 / mean_s;
            let procs = (procs * rng.random_range(0.2..1.8)).round().clamp(1.0, f64::from(cluster.procs.0));
            let walltime = runtime * rng.random_range(1..4_i64);
            let job = job(submit, procs as u32, (walltime, runtime), Some(id));
            jobs.push(SimJob { speedup: Speedup::Rigid, managed: false, ..job });
        }
    }
    for submit in (lasts_s / FIRST_PART..lasts_s).step_by(EVERY_S as usize) {
        let procs = 1 << rng.random_range(0..7);
        let walltime = log_uniform(rng, 600.0, 14_400.0);
        let speedup = match rng.random_range(0..2) {
            0 => Speedup::Rigid,
            _ => Speedup::Amdahl { parallel: 0.98, limit: Procs(4 * procs) },
        };
        let job = job(submit, procs, (walltime, (walltime / 2).max(1)), None);
        jobs.push(SimJob { speedup, managed: true, ..job });
    }
    jobs.sort_by_key(|one| one.job.submit);
    for (number, one) in jobs.iter_mut().enumerate() {
        one.job.log_id = number as u64;
    }
    jobs
}

fn log_uniform(rng: &mut ChaCha8Rng, least: f64, most: f64) -> i64 {
    (least.ln() + rng.random::<f64>() * (most / least).ln()).exp() as i64
}

fn job(submit: i64, procs: u32, (walltime, runtime): (i64, i64), origin: Option<ClusterId>) -> SimJob {
    let job = Job {
        log_id: 0,
        submit: Time(submit),
        procs: Procs(procs),
        walltime: Span(walltime),
        runtime: Span(runtime),
        user: 1,
        group: -1,
        executable: -1,
        origin,
        memory: LoggedMemory::default(),
        resources: None,
    };
    SimJob { job, speedup: Speedup::Rigid, true_speedup: None, managed: true }
}

/// No two discoveries overlap: they are in the order of the jobs of the federation.
fn report(what: &str, run: &ProtocolRun, jobs: &[SimJob]) {
    let all = run.traffic.per_discovery.clone();
    let is_rigid = jobs.iter().filter(|one| one.managed).map(|one| one.speedup == Speedup::Rigid);
    let (mut rigid, mut moldable) = (Vec::new(), Vec::new());
    for (messages, is_rigid) in all.iter().zip(is_rigid) {
        if is_rigid { rigid.push(*messages) } else { moldable.push(*messages) }
    }
    println!("  {what}, messages of each discovery:");
    for (which, mut messages) in [("all", all), ("rigid", rigid), ("moldable", moldable)] {
        messages.sort_unstable();
        let at = |percent: usize| messages.get((messages.len() * percent).div_ceil(100).saturating_sub(1));
        let at = |percent: usize| at(percent).copied().unwrap_or(0);
        let mean = messages.iter().map(|one| f64::from(*one)).sum::<f64>() / messages.len().max(1) as f64;
        let (median, p99, most) = (at(50), at(99), at(100));
        println!("    {which} ({}): mean {mean:.1}, p50 {median}, p99 {p99}, most {most}", messages.len());
    }
}

/// The mean time from submission to the completion by walltime, of jobs of the federation.
fn mean_response(run: &ProtocolRun) -> f64 {
    let response = |one: &JobOutcome| (one.start + one.walltime - one.submit).0 as f64;
    let managed: Vec<f64> = run.run.jobs.iter().filter(|one| one.managed).map(response).collect();
    managed.iter().sum::<f64>() / managed.len().max(1) as f64
}
