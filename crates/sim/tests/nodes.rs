//! Simulations of clusters whose nodes and memory are counted.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_model::{
    Cluster, ClusterId, ClusterNodes, Job, LoggedMemory, Mebibytes, NodeGroup, PlannedJob, Platform, Procs,
    RefusalCause, Run, Span, Speed, Speedup, Time,
};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::tuning::Tuner;
use pliant_sim::protocol::{Hierarchy, Network, Unsupported, simulate_protocol};
use pliant_sim::{
    Estimates, MoldableMemory, NoObserver, Observer, Policies, SimError, SimJob, Ties, simulate,
};
use proptest::prelude::*;

use crate::common::needs;

/// So many nodes of two processors and 4 GiB.
fn cluster(name: &str, count: u32, batch: &str) -> Cluster {
    let group = NodeGroup {
        count,
        procs: Procs(2),
        memory: Mebibytes(4096),
        gpus: 0,
        gpu_kind: None,
        scratch: Mebibytes::ZERO,
        features: Vec::new(),
    };
    let nodes =
        ClusterNodes { groups: vec![group], licences: BTreeMap::new(), default_memory: Mebibytes(1024) };
    Cluster {
        name: name.to_owned(),
        procs: nodes.procs(),
        speed: Speed::REFERENCE,
        batch: batch.to_owned(),
        nodes: Some(Arc::new(nodes)),
    }
}

fn job(log_id: u64, submit: i64, procs: u32, walltime: i64, memory: Option<u32>) -> SimJob {
    let job = common::job(log_id, submit, procs, walltime, walltime);
    let memory = LoggedMemory { requested: memory.map(Mebibytes), used: None };
    SimJob { job: Job { memory, ..job.job }, ..job }
}

fn run(clusters: Vec<Cluster>, jobs: &[SimJob], policies: &Policies) -> Run {
    simulate(&Platform::new(clusters).unwrap(), jobs, policies, &mut NoObserver).unwrap()
}

/// Jobs that memory keeps waiting on two nodes, though processors are free.
fn short_of_memory() -> [SimJob; 5] {
    [
        job(1, 0, 1, 100, Some(3000)),
        job(2, 1, 1, 100, Some(3000)),
        job(3, 2, 1, 50, Some(3000)),
        // A job that says nothing has 1 GiB for each processor: it fits on the node of the first one.
        job(4, 3, 1, 10, None),
        // On two nodes, one processor each, once both have 3 GiB.
        job(5, 4, 2, 10, Some(2500)),
    ]
}

#[test]
fn jobs_wait_for_memory_though_processors_are_free() {
    let two = || vec![cluster("a", 2, "cbf")];
    let jobs = short_of_memory();
    let starts = |run: &Run| run.jobs.iter().map(|job| job.start.0).collect::<Vec<_>>();
    for mapping in [Mapping::Mct, Mapping::Given] {
        let policies = Policies { mapping, ..Policies::default() };
        assert_eq!(starts(&run(two(), &jobs, &policies)), [0, 1, 100, 3, 150]);
        let local: Vec<SimJob> = jobs.iter().map(|one| SimJob { managed: false, ..one.clone() }).collect();
        assert_eq!(starts(&run(two(), &local, &policies)), [0, 1, 100, 3, 150], "jobs of local users");
    }
    let plain = Cluster { nodes: None, ..cluster("a", 2, "cbf") };
    let pooled = run(vec![plain], &jobs, &Policies::default());
    assert_eq!(starts(&pooled), [0, 1, 2, 3, 52], "without nodes memory is not counted");
}

/// Records when each job is planned to start right after its submission.
struct PlannedStarts(Vec<PlannedJob>);

impl Observer for PlannedStarts {
    fn progress(&mut self, _: usize, _: usize, _: Time) -> bool {
        true
    }

    fn plans(&mut self) -> Option<&mut Vec<PlannedJob>> {
        Some(&mut self.0)
    }
}

#[test]
fn estimates_by_processors_plan_starts_that_memory_prevents() {
    let jobs = short_of_memory();
    let platform = Platform::new(vec![cluster("a", 2, "cbf")]).unwrap();
    let started = [0, 1, 100, 3, 150];
    // By processors the third job is planned at once, whenever a plan is made, and the fifth one behind it.
    for (estimates, planned) in [(Estimates::Nodes, started), (Estimates::Processors, [0, 1, 2, 3, 54])] {
        for managed in [true, false] {
            let jobs = jobs.iter().map(|one| SimJob { managed, ..one.clone() });
            let policies = Policies { estimates, ..Policies::default() };
            let mut plans = PlannedStarts(Vec::new());
            let found = simulate(&platform, jobs, &policies, &mut plans).unwrap();
            assert_eq!(found.jobs.iter().map(|job| job.start.0).collect::<Vec<_>>(), started);
            let starts: Vec<_> = plans.0.iter().map(|one| (one.log_id, one.plan.start.0)).collect();
            assert_eq!(starts, (1..6).zip(planned).collect::<Vec<_>>(), "{estimates:?}");
        }
    }
}

#[test]
fn estimates_by_processors_may_map_a_job_to_the_worse_cluster() {
    // The second job fits at once on the second cluster only. By processors it fits on both.
    let platform = Platform::new(vec![cluster("a", 1, "cbf"), cluster("b", 1, "cbf")]).unwrap();
    let jobs = [job(1, 0, 1, 100, Some(3000)), job(2, 1, 1, 50, Some(3000))];
    let run = |estimates| {
        let policies = Policies { estimates, ..Policies::default() };
        let found = simulate(&platform, &jobs, &policies, &mut NoObserver).unwrap();
        found.jobs.iter().map(|job| (job.cluster.0, job.start.0)).collect::<Vec<_>>()
    };
    assert_eq!(run(Estimates::Nodes), [(0, 0), (1, 1)]);
    assert_eq!(run(Estimates::Processors), [(0, 0), (0, 100)]);
}

#[test]
fn on_fewer_processors_a_job_may_need_as_much_memory_in_all() {
    // 8 GiB in the requested size. On its two processors it needs 4 GiB, or still 8 GiB: both nodes.
    let amdahl = Speedup::Amdahl { parallel: 0.5, limit: Procs(2) };
    let moldable = SimJob { speedup: amdahl, ..job(1, 0, 4, 100, Some(2048)) };
    let jobs = [moldable, job(2, 1, 1, 10, Some(1024))];
    let run = |memory| {
        let policies = Policies { memory, ..Policies::default() };
        let found = run(vec![cluster("a", 2, "cbf")], &jobs, &policies);
        found.jobs.iter().map(|job| (job.procs.0, job.start.0)).collect::<Vec<_>>()
    };
    let (each, total) = (run(MoldableMemory::PerProcessor), run(MoldableMemory::Total));
    assert!(each[1] == (1, 1), "a smaller job leaves memory: {each:?}");
    assert!(total[0] == (2, 0) && total[1].1 > 100, "no size leaves memory: {total:?}");
}

#[test]
fn a_job_that_no_nodes_can_run_is_refused() {
    let jobs = [job(1, 0, 1, 10, Some(5000)), job(2, 0, 4, 10, Some(2048)), job(3, 0, 4, 10, Some(2049))];
    for (managed, estimates) in [
        (true, Estimates::Nodes),
        (false, Estimates::Nodes),
        (true, Estimates::Processors),
        (false, Estimates::Processors),
    ] {
        let jobs: Vec<SimJob> = jobs.iter().map(|one| SimJob { managed, ..one.clone() }).collect();
        let policies = Policies { estimates, ..Policies::default() };
        let found = run(vec![cluster("a", 2, "cbf")], &jobs, &policies);
        assert_eq!(
            found.refused,
            [(1, RefusalCause::InsufficientResources), (3, RefusalCause::InsufficientResources)]
        );
        assert_eq!(found.jobs.len(), 1);
    }
}

#[test]
fn used_memory_counts_where_none_was_requested() {
    let used = |log_id, memory| {
        let SimJob { job, .. } = job(log_id, 0, 1, 10, None);
        let memory = LoggedMemory { requested: None, used: Some(Mebibytes(memory)) };
        SimJob { job: Job { memory, ..job }, speedup: Speedup::Rigid, true_speedup: None, managed: true }
    };
    let found = run(
        vec![cluster("a", 1, "cbf")],
        &[used(1, 3000), used(2, 1000), used(3, 1200)],
        &Policies::default(),
    );
    assert_eq!(found.jobs.iter().map(|job| job.start.0).collect::<Vec<_>>(), [0, 0, 10]);
}

#[test]
fn policies_that_do_not_distinguish_nodes_are_refused() {
    for batch in ["easy", "h1"] {
        let platform = Platform::new(vec![cluster("a", 1, batch)]).unwrap();
        let Err(SimError::Batch(error)) = simulate(&platform, &[], &Policies::default(), &mut NoObserver)
        else {
            panic!("{batch} does not distinguish nodes")
        };
        assert_eq!(
            error.to_string(),
            format!("expected a local policy for a cluster with nodes (cbf, cbf-replan), found `{batch}`")
        );
    }
}

#[test]
fn servers_estimate_as_their_clusters_plan() {
    let platform = Platform::new(vec![cluster("a", 1, "cbf")]).unwrap();
    let (hierarchy, network) = (Hierarchy::flat(&platform), Network::default());
    let jobs: [SimJob; 0] = [];
    let policies = Policies { estimates: Estimates::Processors, ..Policies::default() };
    let found = simulate_protocol(&platform, &hierarchy, &jobs, &policies, &network);
    assert_eq!(found, Err(SimError::Protocol(Unsupported::Estimates)));
}

fn workloads() -> impl Strategy<Value = Vec<SimJob>> {
    // Most jobs wait, and many end early: then plans that keep promises and plans made anew differ.
    let gap = prop_oneof![4 => Just(0_i64), 4 => 1..10_i64, 1 => 10..60_i64];
    let percent = prop_oneof![1 => Just(100_i64), 3 => 1..100_i64];
    let walltime = prop_oneof![2 => 1..300_i64, 1 => (1..6_i64).prop_map(|tens| tens * 50)];
    let logged = prop::option::weighted(0.3, 1..2000_u32);
    let shape = (gap, prop_oneof![3 => 1..5_u32, 1 => 1..14_u32], walltime, percent, logged);
    let speedups = prop_oneof![4 => common::speedups(), 1 => needs::gpu_tables()];
    let one = (
        shape,
        speedups,
        prop::bool::weighted(0.7),
        0..5_u32,
        prop_oneof![1 => Just(None), 1 => needs::needs()],
    );
    prop::collection::vec(one, 1..90).prop_map(|drawn| {
        let mut submit = 0;
        let mut jobs = Vec::new();
        for (number, ((gap, procs, walltime, percent, logged), speedup, managed, origin, resources)) in
            drawn.into_iter().enumerate()
        {
            submit += gap;
            let one = job(number as u64, submit, procs, walltime, logged);
            let runtime = Span((walltime * percent / 100).max(1));
            let origin = Some(ClusterId(origin));
            jobs.push(SimJob { job: Job { runtime, origin, resources, ..one.job }, speedup, managed, ..one });
        }
        jobs
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_speeds_agree_on_nodes_job_for_job(
        platform in needs::platforms(4),
        jobs in workloads(),
        tuner in prop::sample::select(Tuner::ALL),
        submit_first in any::<bool>(),
        memory in prop::sample::select(vec![MoldableMemory::PerProcessor, MoldableMemory::Total]),
        moves in prop::option::of((
            prop::sample::select(&[Algorithm::Regular, Algorithm::Siblings][..]),
            prop::sample::select(Heuristic::ALL), 1..200_i64, 1..60_i64, 1..30_usize,
        )),
        depth in 1..=3_usize,
    ) {
        let reallocation = moves.map(|(algorithm, heuristic, period, threshold, window)| {
            let (period, threshold) = (Span(period), Span(threshold));
            Reallocation { algorithm, heuristic, period, threshold, window }
        });
        let ties = if submit_first { Ties::SubmitFirst } else { Ties::FinishFirst };
        let policies = Policies { tuner, ties, memory, reallocation, ..Policies::default() };
        let direct = simulate(&platform, &jobs, &policies, &mut NoObserver).unwrap();
        let hierarchy = Hierarchy::regular(&platform, 2, depth);
        let protocol = simulate_protocol(&platform, &hierarchy, &jobs, &policies, &Network::default()).unwrap();
        let other = protocol.run.jobs.iter().zip(&direct.jobs).find(|(one, other)| one != other);
        prop_assert_eq!(other, None, "the outcomes (protocol, direct) differ");
        prop_assert_eq!(protocol.run, direct);
        prop_assert_eq!(protocol.unplaced, []);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// On one node the jobs that run at a time are all that takes of it.
    #[test]
    fn no_node_is_over_committed_with_moves(
        asked in prop::collection::vec((0..30_i64, 1..3_u32, 1..60_i64, prop::option::of(1..2500_u32), any::<bool>()), 1..40),
        batches in prop::array::uniform2(prop::sample::select(vec!["cbf", "cbf-replan"])),
        moves in prop::option::of(prop::sample::select(Algorithm::ALL)),
        estimates in prop::sample::select(vec![Estimates::Nodes, Estimates::Processors]),
    ) {
        let mut at = 0;
        let mut jobs = Vec::new();
        for (number, (pause, procs, walltime, memory, moldable)) in asked.into_iter().enumerate() {
            at += pause;
            let one = job(number as u64, at, procs, walltime, memory);
            let amdahl = Speedup::Amdahl { parallel: 0.9, limit: Procs(2) };
            jobs.push(SimJob { speedup: if moldable { amdahl } else { Speedup::Rigid }, ..one });
        }
        let reallocation = |algorithm| {
            Reallocation { period: Span(20), ..Reallocation::new(algorithm, Heuristic::MinMin) }
        };
        let policies = Policies { reallocation: moves.map(reallocation), estimates, ..Policies::default() };
        let clusters = vec![cluster("a", 1, batches[0]), cluster("b", 1, batches[1])];
        let found = run(clusters, &jobs, &policies);
        prop_assert_eq!(found.jobs.len() + found.refused.len(), jobs.len());
        for (number, cluster) in found.jobs.iter().map(|job| (job.start, job.cluster)) {
            let here = found.jobs.iter().filter(|job| job.cluster == cluster && job.start <= number && number < job.end);
            let memory = |log_id: u64| jobs[log_id as usize].job.memory.requested.unwrap_or(Mebibytes(1024)).0;
            let taken: u32 = here.map(|job| memory(job.log_id) * job.procs.0).sum();
            prop_assert!(taken <= 4096, "{} MiB of a node", taken);
        }
    }
}
