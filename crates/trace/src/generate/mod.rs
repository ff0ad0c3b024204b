//! Seeded workload generators. The same seed gives the same jobs on every machine.
//!
//! What each is fitted to, and what is invented, is in docs/reference/files/generators.md.

mod diurnal;
mod grid_log;
mod law;
mod lublin;
mod site;
mod uniform;
mod walltime;

use std::collections::BTreeMap;

use pliant_model::rng::stream_seed;
use pliant_model::{ClusterId, Job, LoggedMemory, Platform, Procs, Span, Time};

pub use diurnal::{diurnal_arrivals, diurnal_rate};
pub use grid_log::{GridLog, grid_log};
pub use law::JobLaw;
pub use lublin::lublin;
pub use site::{Site, site};
pub use uniform::{LONGEST_S as UNIFORM_LONGEST_S, gaussian, uniform};

use crate::repair::RepairReport;
use crate::workload::{Workload, offered_load};

/// The most jobs that are generated: more would not fit in memory.
pub const JOBS_MAX: u32 = 20_000_000;
/// The most days over which jobs are generated: a century.
pub const DAYS_MAX: f64 = 36_500.0;
/// The largest offered load that is generated.
pub const LOAD_MAX: f64 = 1_000.0;

/// A month of paper 000's Table 1: name, days, and jobs at Bordeaux, Lyon and Toulouse.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Month {
    /// Its name.
    pub name: &'static str,
    /// Its length in 2008.
    pub days: u32,
    /// Jobs per cluster: Bordeaux, Lyon, Toulouse.
    pub jobs: [u32; 3],
    /// Work of each cluster's own jobs over that of its processors at speed 1.0. Invented: the paper gives none.
    pub load: [f64; 3],
}

/// Paper 000, Table 1: the first six months of 2008.
pub const MONTHS: [Month; 6] = [
    Month { name: "january", days: 31, jobs: [13_084, 583, 488], load: [0.75, 0.50, 0.40] },
    Month { name: "february", days: 29, jobs: [5_822, 2_695, 1_123], load: [0.70, 0.75, 0.55] },
    Month { name: "march", days: 31, jobs: [11_673, 8_315, 949], load: [0.75, 0.90, 0.60] },
    Month { name: "april", days: 30, jobs: [33_250, 1_330, 1_461], load: [0.90, 0.65, 0.60] },
    Month { name: "may", days: 31, jobs: [6_765, 2_179, 1_573], load: [0.75, 0.65, 0.60] },
    Month { name: "june", days: 30, jobs: [4_094, 3_540, 1_548], load: [0.75, 0.85, 0.65] },
];

/// The month of that name.
pub fn month(name: &str) -> Option<&'static Month> {
    MONTHS.iter().find(|month| month.name == name)
}

/// Jobs of paper 000's seventh workload: Bordeaux, CTC and SDSC over six months.
pub const PWA_G5K_JOBS: [u32; 3] = [74_647, 42_873, 15_615];

/// A month like one of Grid'5000's: the jobs of three sites, each as many as the table says.
pub fn grid5000(month: &Month, seed: u64) -> Workload {
    let platform = crate::platform::built_in("grid5000").expect("a built-in platform");
    let sites = platform.clusters().iter().zip(month.jobs).zip(month.load).map(|((cluster, jobs), load)| {
        Site { name: cluster.name.clone(), procs: cluster.procs, jobs, days: f64::from(month.days), load }
    });
    // Each month draws its own numbers: with the same ones, months would be variants of each other.
    join(&format!("grid5000-{}", month.name), sites.collect(), stream_seed(seed, month.name))
}

/// A stand-in for paper 000's PWA-G5K workload: six months (182 days) of three sites.
pub fn pwa_g5k(seed: u64) -> Workload {
    let platform = crate::platform::built_in("pwa-g5k").expect("a built-in platform");
    let loads = [0.60, 0.65, 0.75];
    let sites = platform.clusters().iter().zip(PWA_G5K_JOBS).zip(loads).map(|((cluster, jobs), load)| Site {
        name: cluster.name.clone(),
        procs: cluster.procs,
        jobs,
        days: 182.0,
        load,
    });
    join("pwa-g5k", sites.collect(), seed)
}

/// Any number of jobs on any platform, for scale and overload: every cluster gets a share of the jobs in
/// proportion to its processors, and all the same [`offered_load`] over `days`.
pub fn federation(platform: &Platform, jobs: u32, days: f64, load: f64, seed: u64) -> Workload {
    let total = platform.total_procs() as f64;
    let (mut given, mut before) = (0_u32, 0.0);
    let sites = platform.clusters().iter().map(|cluster| {
        before += f64::from(cluster.procs.0);
        let until = (before / total * f64::from(jobs)).round() as u32;
        let share = until - given;
        given = until;
        // Runtimes are those of the reference speed: a faster cluster is offered more of them.
        let load = load * cluster.speed.get();
        Site { name: cluster.name.clone(), procs: cluster.procs, jobs: share, days, load }
    });
    join("federation", sites.collect(), seed)
}

/// Merges the jobs of several sites on a common clock, each starting at 0, and numbers them from 1.
fn join(name: &str, sites: Vec<Site>, seed: u64) -> Workload {
    let mut jobs: Vec<Job> = Vec::new();
    let mut partition_names = BTreeMap::new();
    let mut procs = 0;
    for (index, one) in sites.iter().enumerate() {
        partition_names.insert(index as i32 + 1, one.name.clone());
        procs += i64::from(one.procs.0);
        let origin = Some(ClusterId(index as u32));
        let users = index as i32 * 1_000;
        jobs.extend(site(one, seed).into_iter().map(|mut job| {
            job.origin = origin;
            job.user += users;
            job.executable += users * 10;
            job
        }));
    }
    jobs.sort_by_key(|job| job.submit);
    let mut workload = finish(name, jobs, Some(procs));
    workload.partition_names = partition_names;
    for (partition, job) in workload.partitions.iter_mut().zip(&workload.jobs) {
        *partition = job.origin.map_or(-1, |origin| origin.0 as i32 + 1);
    }
    workload
}

/// JobNumbers sorted jobs from 1 and shifts them to begin at 0.
fn finish(name: &str, mut jobs: Vec<Job>, max_procs: Option<i64>) -> Workload {
    let first = jobs.first().map_or(Time::ZERO, |job| job.submit);
    for (index, job) in jobs.iter_mut().enumerate() {
        job.log_id = index as u64 + 1;
        job.submit = Time(job.submit.0 - first.0);
    }
    let count = jobs.len() as u64;
    Workload {
        name: name.to_owned(),
        partitions: vec![-1; jobs.len()],
        jobs,
        partition_names: BTreeMap::new(),
        max_procs,
        unix_start: None,
        report: RepairReport { read: count, kept: count, ..RepairReport::default() },
    }
}

/// A job of unknown owner.
fn job(submit: f64, procs: u32, walltime: i64, runtime: i64) -> Job {
    let walltime = walltime.max(1);
    Job {
        log_id: 0,
        submit: Time(submit as i64),
        procs: Procs(procs),
        walltime: Span(walltime),
        runtime: Span(runtime.clamp(1, walltime)),
        user: -1,
        group: -1,
        executable: -1,
        origin: None,
        memory: LoggedMemory::default(),
        resources: None,
    }
}

/// Multiplies runtimes and walltimes so that the [`offered_load`] up to the last submission becomes `load`.
pub fn rescale(workload: &mut Workload, capacity: f64, load: f64) {
    let span = workload.last_submit() - Time::ZERO;
    for _ in 0..8 {
        let factor = load / offered_load(&workload.jobs, capacity, span).max(1e-12);
        if (factor - 1.0).abs() < 1e-4 {
            break;
        }
        let scaled = |span: Span| Span(((span.0 as f64 * factor).round() as i64).clamp(1, 1_000_000_000));
        for job in &mut workload.jobs {
            job.walltime = scaled(job.walltime);
            job.runtime = scaled(job.runtime).min(job.walltime);
        }
    }
}
