//! What a decision costs as queues and federations grow: `cargo bench -p pliant-policy`.
//! docs/research/performance.md quotes these figures.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use pliant_model::{
    Cluster, ClusterId, ClusterNodes, GpuCount, Gpus, JobId, MapReason, Mebibytes, Memory, NodeGroup,
    Platform, Procs, Reason, Request, Resources, Span, Speed, Speedup, Time,
};
use pliant_policy::allocation::{self, ClusterState, Free, Offer, Strategy, levels};
use pliant_policy::batch::{self, BatchScheduler, Submission};
use pliant_policy::federation::{Federation, Tracked};
use pliant_policy::profile::{Profile, StartBounds};
use pliant_policy::tuning::{OtherJobs, Present, Tuner, tune};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const PROCS: Procs = Procs(640);

fn shape(rng: &mut ChaCha8Rng) -> (Procs, Span) {
    let procs = if rng.random_bool(0.25) { 1 } else { 1 << rng.random_range(0..8) };
    (Procs(procs), Span(rng.random_range(60..36_000)))
}

/// A cluster with `queue` waiting jobs, and the jobs that run on it.
fn loaded(queue: usize) -> (Box<dyn BatchScheduler>, Vec<JobId>) {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut cluster = (batch::by_name("cbf").expect("registered").new)(PROCS, Time::ZERO);
    for job in 0..queue as u32 + 40 {
        let (procs, walltime) = shape(&mut rng);
        cluster.submit(Time::ZERO, Submission::new(JobId(job), procs, walltime));
    }
    let mut started = Vec::new();
    cluster.start_due(Time::ZERO, &mut started);
    (cluster, started.iter().map(|start| start.job).collect())
}

/// A profile with about `steps` steps.
fn profile(steps: usize) -> Profile {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut profile = Profile::new(PROCS, Time::ZERO);
    while profile.steps() < steps {
        let (procs, walltime) = shape(&mut rng);
        let start = profile.earliest_fit(Time::ZERO, procs, walltime).expect("it fits some time");
        profile.reserve(start, start + walltime, procs);
    }
    profile
}

fn request(id: u32, rng: &mut ChaCha8Rng) -> Request {
    let (procs, walltime) = shape(rng);
    let speedup = Speedup::Amdahl { parallel: 0.99, limit: Procs(256) };
    Request::new(JobId(id), Time::ZERO, procs, walltime, speedup)
}

/// A termination long before its walltime, with the compression of the queue behind it.
fn termination(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cbf_early_termination");
    group.sample_size(20);
    for queue in [100, 1_000, 10_000, 30_000] {
        let (cluster, running) = loaded(queue);
        group.bench_function(BenchmarkId::from_parameter(queue), |bencher| {
            bencher.iter_batched(
                || cluster.boxed_clone(),
                |mut cluster| {
                    cluster.finish(Time(30), running[0]);
                    cluster
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// So many nodes of 16 processors, 64 GiB and two GPUs each.
fn node_cluster(nodes: u32) -> ClusterNodes {
    let group = NodeGroup {
        count: nodes,
        procs: Procs(16),
        memory: Mebibytes(64 << 10),
        gpus: 2,
        gpu_kind: Some("a100".to_owned()),
        scratch: Mebibytes::ZERO,
        features: Vec::new(),
    };
    ClusterNodes { groups: vec![group], licences: BTreeMap::new(), default_memory: Mebibytes(1 << 10) }
}

/// Memory for each processor; every fourth request needs GPUs as well.
fn needs(id: u32, rng: &mut ChaCha8Rng) -> Resources {
    let gpus = id.is_multiple_of(4).then_some(Gpus { count: GpuCount::Total(2), kind: None });
    let memory = Some(Memory::PerProc(Mebibytes(rng.random_range(1..6) << 10)));
    Resources { memory, gpus, ..Resources::default() }
}

/// Conservative backfilling on nodes with a queue of 100 jobs: an estimate of a moldable request, and a termination long before its
/// walltime with the compression of the queue.
fn on_nodes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cbf_on_nodes");
    group.sample_size(20);
    for nodes in [10, 100, 1_000] {
        let declared = node_cluster(nodes);
        let policy = batch::by_name("cbf").expect("registered").on_nodes.expect("it plans nodes");
        let mut cluster = policy(&declared, Time::ZERO);
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let mut id = 0;
        // Jobs grow with the cluster, so that the queue does not.
        while cluster.queue_length() < 100 {
            let walltime = Span(rng.random_range(60..36_000));
            let procs = Procs(rng.random_range(1..=declared.procs().0 / 8));
            let resources = Some(Arc::new(needs(id, &mut rng)));
            cluster
                .submit(Time::ZERO, Submission { resources, ..Submission::new(JobId(id), procs, walltime) });
            cluster.start_due(Time::ZERO, &mut Vec::new());
            id += 1;
        }
        let running = cluster.dump().running[0].job;
        let requests: Vec<Request> =
            (0..16).map(|id| request(1_000_000 + id, &mut rng).needing(needs(id, &mut rng))).collect();
        let mut next = 0;
        group.bench_function(BenchmarkId::new("estimate", nodes), |bencher| {
            bencher.iter(|| {
                next = (next + 1) % requests.len();
                let walltimes = requests[next].on(declared.procs(), Speed::REFERENCE).expect("it fits");
                black_box(cluster.estimate(Time::ZERO, &walltimes, Tuner::Exact))
            });
        });
        group.bench_function(BenchmarkId::new("early_termination", nodes), |bencher| {
            bencher.iter_batched(
                || cluster.boxed_clone(),
                |mut cluster| {
                    cluster.finish(Time(30), running);
                    cluster
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// One moldable request of up to 256 processors tuned on one cluster.
fn tuning(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tune");
    for steps in [30, 300, 3_000, 30_000] {
        let profile = profile(steps);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let requests: Vec<Request> = (0..64).map(|id| request(id, &mut rng)).collect();
        let others = OtherJobs { count: steps / 2, shapes: &|_| {} };
        let present = Present { now: Time::ZERO, others };
        for tuner in [Tuner::default(), Tuner::Exact, Tuner::Binary, Tuner::Exhaustive] {
            if tuner == Tuner::Exhaustive && steps > 3_000 {
                continue;
            }
            let mut bounds = StartBounds::new(PROCS);
            let mut next = 0;
            group.bench_function(BenchmarkId::new(tuner.name(), steps), |bencher| {
                bencher.iter(|| {
                    next = (next + 1) % requests.len();
                    let walltimes = requests[next].on(PROCS, Speed::REFERENCE).expect("it fits");
                    black_box(tune(tuner, &profile, Some(&mut bounds), Time::ZERO, &present, &walltimes))
                });
            });
        }
    }
    group.finish();
}

/// The earliest completion over a federation, with a queue on every cluster.
fn earliest(criterion: &mut Criterion) {
    for tuner in [Tuner::Exact, Tuner::default()] {
        earliest_with(criterion, tuner);
    }
}

fn earliest_with(criterion: &mut Criterion, tuner: Tuner) {
    let mut group = criterion.benchmark_group(format!("earliest_completion_{tuner}"));
    for clusters in [3_u32, 30, 300] {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let all = (0..clusters).map(|index| Cluster {
            name: format!("c{index}"),
            procs: Procs(rng.random_range(100..1_500)),
            speed: Speed::new(f64::from(rng.random_range(8..17)) / 10.0).expect("positive"),
            batch: "cbf".to_owned(),
            nodes: None,
        });
        let platform = Platform::new(all.collect()).expect("a valid platform");
        let mut federation = Federation::new(&platform, tuner, Time::ZERO).expect("cbf is registered");
        for id in 0..clusters * 60 {
            let request = request(id, &mut rng);
            let cluster = ClusterId(id % clusters);
            if let Some(estimate) = federation.estimate(Time::ZERO, &request, cluster) {
                let reason = Reason::Mapped(MapReason::Drawn);
                federation.submit(
                    Time::ZERO,
                    Tracked { request, cluster, moves: 0, reason },
                    estimate.shape(),
                );
            }
        }
        let requests: Vec<Request> = (0..64).map(|id| request(1_000_000 + id, &mut rng)).collect();
        let mut next = 0;
        group.bench_function(BenchmarkId::from_parameter(clusters), |bencher| {
            bencher.iter(|| {
                next = (next + 1) % requests.len();
                black_box(federation.earliest(Time::ZERO, &requests[next], None, Time::MAX))
            });
        });
    }
    group.finish();
}

/// A multi-job of a million instances over 10,000 clusters: of one processor each by Algorithm 1, and by the earliest finish
/// also of several speeds whose processors come free at up to eight moments, or at 64 as where each has a job of its own.
fn allocation(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("allocate_1000000");
    let mut rng = ChaCha8Rng::seed_from_u64(13);
    let pending: Vec<Span> = (0..10_000).map(|_| Span(rng.random_range(0..100_000))).collect();
    group.bench_function("single_processors", |bencher| {
        bencher.iter(|| black_box(levels::fill(&pending, Span(1000), 1_000_000)));
    });
    let single = |at: &Span| Offer { free: vec![Free { at: *at, processors: 1 }], job: Span(1000) };
    let offer = |moments: usize, most: u32, rng: &mut ChaCha8Rng| {
        let free = (0..moments)
            .map(|_| Free { at: Span(rng.random_range(0..100_000)), processors: rng.random_range(1..=most) });
        Offer { free: free.collect(), job: Span(rng.random_range(500..2000)) }
    };
    let few = |rng: &mut ChaCha8Rng| {
        let moments = rng.random_range(1..=8);
        offer(moments, 63, rng)
    };
    let offers = [
        ("single_processors_by_finish", pending.iter().map(single).collect::<Vec<_>>()),
        ("several_processors", (0..10_000).map(|_| few(&mut rng)).collect()),
        ("64_moments", (0..10_000).map(|_| offer(64, 1, &mut rng)).collect()),
    ];
    for (name, offers) in offers {
        let all: Vec<&Offer> = offers.iter().collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(allocation::earliest::allocate(&all, 1_000_000)));
        });
        // With the expected makespan, as sweeps and campaigns ask.
        let clusters: Vec<ClusterState> =
            offers.into_iter().map(|offer| ClusterState { offer, jobs: 0, failures: 0 }).collect();
        group.bench_function(format!("{name}_with_makespan"), |bencher| {
            let strategy = Strategy::Statistics;
            bencher.iter(|| black_box(allocation::allocate(strategy, &clusters, 1_000_000, &mut rng)));
        });
    }
    group.finish();
}

criterion_group!(benches, termination, on_nodes, tuning, earliest, allocation);
criterion_main!(benches);
