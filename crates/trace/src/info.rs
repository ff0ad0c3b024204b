//! Statistics of a workload.

use std::collections::BTreeMap;

use pliant_model::Time;
use serde::Serialize;

use crate::workload::{Workload, offered_load};

/// Statistics of a workload.
#[derive(Clone, PartialEq, Serialize, Debug)]
pub struct Info {
    /// Its source.
    pub name: String,
    /// Jobs read.
    pub jobs_read: u64,
    /// Jobs kept.
    pub jobs: u64,
    /// Repairs by reason: how many jobs.
    pub repairs: BTreeMap<&'static str, u64>,
    /// Lines with extra columns.
    pub extra_columns: u64,
    /// Processors of the machine, if known.
    pub max_procs: Option<i64>,
    /// Unix time of the first submission, if known.
    pub unix_start: Option<i64>,
    /// First to last submission, s.
    pub span_s: i64,
    /// Offered load on `max_procs` processors of speed 1.0 up to the last submission; logs contain no speeds.
    pub load: Option<f64>,
    /// Sequential jobs.
    pub sequential: u64,
    /// Jobs that ask for more than `max_procs`.
    pub larger_than_machine: u64,
    /// Different users.
    pub users: usize,
    /// Different groups.
    pub groups: usize,
    /// Different applications.
    pub executables: usize,
    /// Different partitions or sites.
    pub partitions: usize,
    /// Processors per job.
    pub procs: Quantiles,
    /// Runtimes, s.
    pub runtime_s: Quantiles,
    /// Requested walltimes, s.
    pub walltime_s: Quantiles,
    /// Walltime over runtime.
    pub overestimate: Quantiles,
}

/// Quantiles of a quantity over the jobs (nearest rank).
#[derive(Clone, Copy, PartialEq, Serialize, Debug, Default)]
pub struct Quantiles {
    /// Least.
    pub min: f64,
    /// A quarter is at most this.
    pub q25: f64,
    /// Half is at most this.
    pub median: f64,
    /// Three quarters are at most this.
    pub q75: f64,
    /// 95 % are at most this.
    pub p95: f64,
    /// Most.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl Quantiles {
    fn of(mut values: Vec<f64>) -> Quantiles {
        if values.is_empty() {
            return Quantiles::default();
        }
        values.sort_by(f64::total_cmp);
        let rank = |q: f64| values[((q * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1];
        Quantiles {
            min: values[0],
            q25: rank(0.25),
            median: rank(0.5),
            q75: rank(0.75),
            p95: rank(0.95),
            max: values[values.len() - 1],
            mean: values.iter().sum::<f64>() / values.len() as f64,
        }
    }
}

/// Computes the statistics.
pub fn info(workload: &Workload) -> Info {
    let jobs = &workload.jobs;
    let different = |value: &dyn Fn(usize) -> i32| {
        let mut all: Vec<i32> = (0..jobs.len()).map(value).filter(|value| *value >= 0).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let spread = |value: &dyn Fn(usize) -> f64| Quantiles::of((0..jobs.len()).map(value).collect());
    let machine = workload.max_procs.and_then(|procs| u32::try_from(procs).ok()).filter(|procs| *procs > 0);
    Info {
        name: workload.name.clone(),
        jobs_read: workload.report.read,
        jobs: jobs.len() as u64,
        repairs: workload.report.counts.iter().map(|(repair, count)| (repair.word(), *count)).collect(),
        extra_columns: workload.report.extra_columns,
        max_procs: workload.max_procs,
        unix_start: workload.unix_start,
        span_s: workload.last_submit().0,
        load: machine.map(|procs| offered_load(jobs, f64::from(procs), workload.last_submit() - Time::ZERO)),
        sequential: jobs.iter().filter(|job| job.procs.0 == 1).count() as u64,
        larger_than_machine: machine
            .map_or(0, |procs| jobs.iter().filter(|job| job.procs.0 > procs).count() as u64),
        users: different(&|index| jobs[index].user),
        groups: different(&|index| jobs[index].group),
        executables: different(&|index| jobs[index].executable),
        partitions: different(&|index| workload.partitions[index]),
        procs: spread(&|index| f64::from(jobs[index].procs.0)),
        runtime_s: spread(&|index| jobs[index].runtime.0 as f64),
        walltime_s: spread(&|index| jobs[index].walltime.0 as f64),
        overestimate: spread(&|index| jobs[index].walltime.0 as f64 / jobs[index].runtime.0 as f64),
    }
}
