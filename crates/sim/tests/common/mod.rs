//! Strategies for platforms, jobs and speedup models, shared by the tests of both speeds.

#[allow(dead_code, reason = "not every test draws nodes")]
pub(crate) mod needs;

use pliant_model::{Cluster, Job, LoggedMemory, Platform, Procs, Span, Speed, Speedup, Time};
use pliant_policy::batch;
use pliant_sim::SimJob;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn platform<B: Into<String>>(clusters: impl IntoIterator<Item = (u32, f64, B)>) -> Platform {
    let cluster = |(index, (procs, speed, batch)): (usize, (u32, f64, B))| Cluster {
        name: format!("cluster {index}"),
        procs: Procs(procs),
        speed: Speed::new(speed).unwrap(),
        batch: batch.into(),
        nodes: None,
    };
    Platform::new(clusters.into_iter().enumerate().map(cluster).collect()).unwrap()
}

/// Every local policy; in half of the cases with a queue order and an aging that has an effect within a test.
fn local_policies() -> impl Strategy<Value = String> {
    let ordered: Vec<String> = batch::local_names().into_iter().filter(|name| name.contains('/')).collect();
    let aging = select(&["none", "90s", "24h"][..]);
    prop_oneof![
        select(batch::names()).prop_map(str::to_owned),
        (select(ordered), aging).prop_map(|(name, aging)| format!("{name}/{aging}")),
    ]
}

/// Up to `most` clusters under any policy.
#[allow(dead_code, reason = "not every test draws platforms")]
pub(crate) fn platforms(
    procs: impl Strategy<Value = u32>,
    speed: impl Strategy<Value = f64>,
    most: usize,
) -> impl Strategy<Value = Platform> {
    prop::collection::vec((procs, speed, local_policies()), 1..=most).prop_map(platform)
}

/// A managed rigid job of one of three users.
pub(crate) fn job(log_id: u64, submit: i64, procs: u32, walltime: i64, runtime: i64) -> SimJob {
    let (submit, procs, walltime, runtime) = (Time(submit), Procs(procs), Span(walltime), Span(runtime));
    let job = Job {
        log_id,
        submit,
        procs,
        walltime,
        runtime,
        user: (log_id % 3) as i32,
        group: -1,
        executable: -1,
        origin: None,
        memory: LoggedMemory::default(),
        resources: None,
    };
    SimJob { job, speedup: Speedup::Rigid, true_speedup: None, managed: true }
}

#[allow(dead_code, reason = "not every test draws speedups")]
pub(crate) fn speedups() -> impl Strategy<Value = Speedup> {
    prop_oneof![
        2 => Just(Speedup::Rigid),
        2 => (0.5..=1.0, 1..40_u32).prop_map(|(parallel, limit)| Speedup::Amdahl { parallel, limit: Procs(limit) }),
        1 => Just(Speedup::Folding),
        1 => (1.0..30.0, 0.0..2.0)
            .prop_map(|(average_parallelism, sigma)| Speedup::Downey { average_parallelism, sigma }),
    ]
}
