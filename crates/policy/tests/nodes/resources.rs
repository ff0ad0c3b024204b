//! Jobs that need memory, GPUs, disk space, licences and certain nodes: none gets what another has, none is refused that
//! fits, and the exact tuner misses no size.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{
    BatchOptions, Constraint, GpuCount, Gpus, JobId, Mebibytes, Memory, Procs, Request, Resources, Span,
    Speed, Speedup, Time,
};
use pliant_policy::batch::{BatchScheduler, Submission};
use pliant_policy::nodes::{
    AdvanceReservation, Amounts, ClusterSnapshot, KindSet, Licence, Node, NodeKind, NodeShare, Nodes,
    PlannedStart, Reserve, Rules,
};
use pliant_policy::tuning::Tuner;
use proptest::prelude::*;

const ASKED: JobId = JobId(10_000);

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Plain nodes, and two kinds with features and GPUs of a kind.
fn kinds() -> Vec<NodeKind> {
    let kind = |features: &str, gpu: Option<&str>| NodeKind {
        features: words(features),
        gpu_kind: gpu.map(str::to_owned),
    };
    vec![kind("", None), kind("fast", Some("a100")), kind("fast large", Some("v100"))]
}

pub(crate) fn clusters() -> impl Strategy<Value = ClusterSnapshot> {
    let node = (1..5_u32, 0..9_u32, 0..4_u32, 0..3_u32, 0..3_u8, prop::bool::weighted(0.9));
    let node = node.prop_map(|(cores, memory, gpus, scratch, kind, up)| Node {
        memory: Mebibytes(memory),
        gpus: if kind == 0 { 0 } else { gpus },
        scratch: Mebibytes(scratch),
        kind,
        up,
        ..Node::of("n", Procs(cores))
    });
    // All alike at times: then they are planned as one pool, if jobs have whole nodes.
    let alike = (node.clone(), 1..5_usize).prop_map(|(node, count)| vec![node; count]);
    let nodes = prop_oneof![3 => prop::collection::vec(node, 1..5), 1 => alike];
    let reserve =
        prop_oneof![4 => Just(Reserve::Cores), 1 => Just(Reserve::Start), 1 => Just(Reserve::Nodes)];
    // As in front of Slurm and of OAR.
    let of_resources = [(); 3].map(|()| prop::bool::weighted(0.25));
    let rules = (prop::bool::weighted(0.2), prop::bool::weighted(0.2), reserve, of_resources);
    let rules = rules.prop_map(|(whole_nodes, strict_holes, reserve, of_resources)| Rules {
        whole_nodes,
        strict_holes,
        reserve,
        memory_in_parts: of_resources[0],
        resources_by_node: of_resources[1],
        scratch_by_size: of_resources[2],
        passes: if strict_holes { 5 } else { 0 },
        interval: Span(10),
        ..Rules::default()
    });
    (nodes, 0..3_u32, 0..2_u32, rules).prop_map(|(nodes, licences, default, rules)| ClusterSnapshot {
        nodes,
        kinds: kinds(),
        licences: vec![Licence { name: "matlab".to_owned(), count: licences }],
        default_memory: Mebibytes(default),
        rules,
        ..ClusterSnapshot::default()
    })
}

/// Clusters of which nodes, cores and licences are reserved for some time.
fn partly_reserved() -> impl Strategy<Value = ClusterSnapshot> {
    let share = (any::<prop::sample::Index>(), prop::option::of(1..4_u32));
    let shares = prop::collection::vec(share, 0..3);
    let reservation = (0..150_i64, 1..100_i64, shares, 0..2_u32);
    // At times requests can have only nodes of some kinds.
    let own_kinds = prop::sample::select(vec![u64::MAX, u64::MAX, 0b011, 0b101]);
    let reservations = prop::collection::vec(reservation, 0..3);
    (clusters(), reservations, own_kinds).prop_map(|(cluster, reservations, own_kinds)| {
        let nodes = cluster.nodes.len();
        let part = |(node, cores): (prop::sample::Index, Option<u32>)| NodeShare {
            node: node.index(nodes) as u32,
            cores: cores.map(Procs),
            gpus: 0,
        };
        let reserved = reservations.into_iter().map(|(from, length, shares, licences)| AdvanceReservation {
            from: Time(from),
            until: Time(from + length),
            on: shares.into_iter().map(part).collect(),
            licences: vec![(0, licences)],
        });
        ClusterSnapshot { reserved: reserved.collect(), own_kinds: KindSet(own_kinds), ..cluster }
    })
}

fn resources() -> impl Strategy<Value = Resources> {
    let memory = prop_oneof![
        (0..5_u32).prop_map(|each| Memory::PerProc(Mebibytes(each))),
        (0..12_u32).prop_map(|all| Memory::Total(Mebibytes(all))),
    ];
    let count = prop_oneof![(1..3_u32).prop_map(GpuCount::PerProc), (1..6_u32).prop_map(GpuCount::Total)];
    let kind = prop::sample::select(vec![None, Some("a100"), Some("v100")]);
    let gpus = (count, kind).prop_map(|(count, kind)| Gpus { count, kind: kind.map(str::to_owned) });
    let constraint = prop::sample::select(vec![
        Constraint::All(words("fast large")),
        Constraint::Any(words("fast large")),
        Constraint::All(words("unknown")),
    ]);
    let shape = (
        prop::option::weighted(0.3, 1..4_u32),
        prop::option::weighted(0.2, (1..3_u32).prop_map(Procs)),
        prop::option::weighted(0.3, (1..4_u32).prop_map(Procs)),
        prop::bool::weighted(0.1),
    );
    let needs = (
        prop::option::weighted(0.6, memory),
        prop::option::weighted(0.3, gpus),
        prop_oneof![4 => Just(0), 1 => 1..3_u32],
        prop::option::weighted(0.2, constraint),
        prop_oneof![4 => Just(0), 1 => 1..3_u32],
    );
    (needs, shape).prop_map(
        |(
            (memory, gpus, scratch, constraint, licences),
            (nodes, procs_per_node, procs_per_task, exclusive),
        )| Resources {
            memory,
            gpus,
            scratch: Mebibytes(scratch),
            nodes,
            procs_per_node: procs_per_node.map(|most| most.max(procs_per_task.unwrap_or(most))),
            procs_per_task,
            exclusive,
            constraint,
            batch: BatchOptions::default(),
            licences: (licences > 0).then(|| ("matlab".to_owned(), licences)).into_iter().collect(),
        },
    )
}

#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) procs: u32,
    pub(crate) walltime: i64,
    pub(crate) resources: Option<Resources>,
}

pub(crate) fn asked() -> impl Strategy<Value = Asked> {
    (1..9_u32, 1..100_i64, prop::option::weighted(0.8, resources()))
        // At times its processors are not those of whole tasks: it fits nowhere.
        .prop_flat_map(|(procs, walltime, resources)| {
            let task = resources.as_ref().map_or(1, |resources| resources.task_procs().0);
            let whole = procs.next_multiple_of(task);
            let procs = prop_oneof![9 => Just(whole), 1 => Just(procs)];
            procs.prop_map(move |procs| Asked { procs, walltime, resources: resources.clone() })
        })
}

/// A request of no fixed size, which has no tasks of several processors.
pub(crate) fn moldable() -> impl Strategy<Value = Asked> {
    asked().prop_map(|asked| {
        let resources = asked.resources.map(|resources| Resources { procs_per_task: None, ..resources });
        Asked { resources, ..asked }
    })
}

/// The processors of each task.
pub(crate) fn task_procs(asked: &Asked) -> u32 {
    asked.resources.as_ref().map_or(1, |resources| resources.task_procs().0)
}

pub(crate) fn request(now: Time, asked: &Asked, speedup: Speedup) -> Request {
    let procs = Procs(asked.procs);
    let request = Request::new(ASKED, now, procs, Span(asked.walltime), speedup);
    asked.resources.clone().map_or(request.clone(), |resources| request.needing(resources))
}

/// What a job on so many processors needs of a node with so many of them: memory, GPUs and disk space.
fn needed(asked: &Asked, cluster: &ClusterSnapshot, cores: u32) -> (u32, u32, u32) {
    let none = Resources::default();
    let Resources { memory, gpus, scratch, nodes, .. } = asked.resources.as_ref().unwrap_or(&none);
    let per_proc = memory.map_or(cluster.default_memory, |memory| memory.per_proc(Procs(asked.procs)));
    let gpus = match (gpus.as_ref().map(|gpus| gpus.count), nodes) {
        (Some(GpuCount::PerProc(each)), _) => each * cores,
        (Some(GpuCount::Total(all)), Some(nodes)) => all.div_ceil(*nodes),
        _ => 0,
    };
    let largest = cluster.nodes.iter().map(|node| node.cores).max().unwrap();
    let in_parts = cluster.rules.memory_in_parts;
    let of_whole_node = asked.resources.as_ref().filter(|resources| in_parts && resources.exclusive);
    let of_whole_node =
        of_whole_node.and_then(|resources| resources.memory_of_whole_node(Procs(asked.procs), largest));
    // Equal parts are rounded up, but all together are no more than was asked for, unless each core asks for its own.
    let memory = match (of_whole_node, memory) {
        (Some(each), _) => {
            if cores > 0 {
                each.0
            } else {
                0
            }
        }
        (None, Some(Memory::Total(all))) if !in_parts => (per_proc.0 * cores).min(all.0),
        (None, _) => per_proc.0 * cores,
    };
    (memory, gpus, scratch.0)
}

/// The GPUs that may be on any of a job's nodes.
fn anywhere(asked: &Asked) -> u32 {
    let resources = asked.resources.as_ref().filter(|resources| resources.nodes.is_none());
    match resources.and_then(|resources| resources.gpus.as_ref()).map(|gpus| gpus.count) {
        Some(GpuCount::Total(all)) => all,
        _ => 0,
    }
}

/// Whether a node is of a kind that will do.
fn will_do(asked: &Asked, cluster: &ClusterSnapshot, node: &Node) -> bool {
    if !cluster.own_kinds.has(node.kind) {
        return false;
    }
    let kind = &cluster.kinds[usize::from(node.kind)];
    let Some(Resources { constraint, gpus, .. }) = &asked.resources else { return true };
    constraint.as_ref().is_none_or(|one| one.admits(&kind.features))
        && gpus
            .as_ref()
            .and_then(|gpus| gpus.kind.as_ref())
            .is_none_or(|one| kind.gpu_kind.as_ref() == Some(one))
}

pub(crate) fn licences(asked: &Asked) -> u32 {
    asked.resources.as_ref().map_or(0, |resources| resources.licences.values().sum())
}

fn is_exclusive(asked: &Asked, cluster: &ClusterSnapshot) -> bool {
    let Some(Resources { memory, gpus, scratch, exclusive, .. }) = &asked.resources else {
        return cluster.rules.whole_nodes;
    };
    let has_part = memory.is_some() || gpus.is_some() || *scratch > Mebibytes::ZERO;
    cluster.rules.whole_nodes || *exclusive || cluster.rules.resources_by_node && has_part
}

/// What the nodes of an empty cluster have.
pub(crate) fn all(cluster: &ClusterSnapshot) -> Vec<Amounts> {
    let has = |node: &Node| Amounts {
        cores: if node.up { node.cores.0 } else { 0 },
        memory: node.memory,
        gpus: node.gpus,
        scratch: node.scratch,
    };
    cluster.nodes.iter().map(has).collect()
}

/// Whether a job fits on the empty cluster.
fn fits(asked: &Asked, cluster: &ClusterSnapshot) -> bool {
    licences(asked) <= cluster.licences[0].count && fits_on(asked, cluster, &all(cluster))
}

/// Whether a job fits on what is free of the nodes, by trying every number of its processors on each node.
pub(crate) fn fits_on(asked: &Asked, cluster: &ClusterSnapshot, free: &[Amounts]) -> bool {
    spread(asked, cluster, free, &mut Vec::new())
}

fn spread(asked: &Asked, cluster: &ClusterSnapshot, free: &[Amounts], on: &mut Vec<u32>) -> bool {
    let node = on.len();
    if node == cluster.nodes.len() {
        let (procs, count) = (on.iter().sum::<u32>(), on.iter().filter(|cores| **cores > 0).count());
        let nodes = asked.resources.as_ref().and_then(|resources| resources.nodes);
        let parts = on.iter().zip(free).filter(|(cores, _)| **cores > 0);
        let spare: u32 = parts.map(|(cores, free)| free.gpus - needed(asked, cluster, *cores).1).sum();
        return procs == asked.procs
            && nodes.is_none_or(|nodes| nodes as usize == count)
            && spare >= anywhere(asked);
    }
    let here = free[node];
    let is_usable = will_do(asked, cluster, &cluster.nodes[node])
        && (!is_exclusive(asked, cluster) || here == all(cluster)[node]);
    let most = asked.resources.as_ref().and_then(|resources| resources.procs_per_node);
    let cores = if is_usable { here.cores.min(most.map_or(u32::MAX, |most| most.0)) } else { 0 };
    (0..=cores).filter(|cores| cores.is_multiple_of(task_procs(asked))).any(|cores| {
        let (memory, gpus, scratch) = needed(asked, cluster, cores);
        let is_possible =
            cores == 0 || memory <= here.memory.0 && gpus <= here.gpus && scratch <= here.scratch.0;
        on.push(cores);
        let fits = is_possible && spread(asked, cluster, free, on);
        on.pop();
        fits
    })
}

/// A job that holds its parts of nodes from a time to another.
struct Holder<'a> {
    asked: &'a Asked,
    on: Vec<NodeShare>,
    times: (Time, Time),
}

/// Each job has what it asked for, and no node and no licence is given twice, or is reserved.
fn check(cluster: &ClusterSnapshot, holders: &[Holder<'_>]) {
    for Holder { asked, on, .. } in holders {
        let cores: u32 = on.iter().map(|share| share.cores.unwrap().0).sum();
        let nodes = asked.resources.as_ref().and_then(|resources| resources.nodes);
        assert!(
            cores == asked.procs || is_exclusive(asked, cluster) && cores >= asked.procs,
            "{asked:?} {on:?}"
        );
        assert!(nodes.is_none_or(|nodes| nodes as usize == on.len()), "{asked:?} {on:?}");
        if !is_exclusive(asked, cluster) {
            let is_split = |share: &NodeShare| !share.cores.unwrap().0.is_multiple_of(task_procs(asked));
            assert!(!on.iter().any(is_split), "a task is split: {asked:?} {on:?}");
        }
        assert_eq!(on.iter().map(|share| share.node).collect::<BTreeSet<_>>().len(), on.len());
        for share in on {
            let node = &cluster.nodes[share.node as usize];
            assert!(node.up && will_do(asked, cluster, node), "{asked:?} {node:?}");
        }
        let gpus: u32 = on.iter().map(|share| share.gpus).sum();
        assert!(is_exclusive(asked, cluster) || gpus == anywhere(asked), "{asked:?} {on:?}");
    }
    let begins = holders.iter().map(|holder| holder.times.0);
    for at in begins.chain(cluster.reserved.iter().map(|one| one.from)) {
        let reserved = || cluster.reserved.iter().filter(move |one| (one.from..one.until).contains(&at));
        let here: Vec<_> = holders.iter().filter(|one| one.times.0 <= at && at < one.times.1).collect();
        let held: u32 = here.iter().map(|one| licences(one.asked)).sum();
        let kept: u32 = reserved().map(|one| one.licences[0].1).sum();
        let is_within = held == 0 || held + kept <= cluster.licences[0].count;
        assert!(is_within, "{held} licences at {at}, where {kept} are reserved");
        for (number, node) in cluster.nodes.iter().enumerate() {
            let parts = || {
                here.iter().filter_map(|one| {
                    one.on.iter().find(|share| share.node as usize == number).map(|share| (one.asked, share))
                })
            };
            let kept: Vec<&NodeShare> =
                reserved().flat_map(|one| &one.on).filter(|share| share.node as usize == number).collect();
            let is_kept_whole = kept.iter().any(|share| share.cores.is_none() || cluster.rules.whole_nodes);
            assert!(!is_kept_whole || parts().count() == 0, "node {number} is reserved at {at}");
            if let Some((alone, _)) = parts().find(|(asked, _)| is_exclusive(asked, cluster)) {
                assert_eq!(parts().count() + kept.len(), 1, "node {number} of {alone:?} is shared at {at}");
                continue;
            }
            let mut taken = (0, 0, 0, 0);
            for (asked, share) in parts() {
                let cores = share.cores.unwrap().0;
                let (memory, gpus, scratch) = needed(asked, cluster, cores);
                assert!(scratch <= node.scratch.0, "{asked:?} {node:?}");
                let scratch = if cluster.rules.scratch_by_size { 0 } else { scratch };
                taken = (taken.0 + cores, taken.1 + memory, taken.2 + gpus + share.gpus, taken.3 + scratch);
            }
            let kept: u32 = kept.iter().filter_map(|share| share.cores).map(|cores| cores.0).sum();
            taken.0 += if taken.0 > 0 { kept } else { 0 };
            let has = (node.cores.0, node.memory.0, node.gpus, node.scratch.0);
            let is_within = taken.0 <= has.0 && taken.1 <= has.1 && taken.2 <= has.2 && taken.3 <= has.3;
            assert!(is_within, "{taken:?} of {has:?} of node {number} at {at}");
        }
    }
}

/// The waiting jobs that have a plan on named nodes.
fn planned<'a>(now: Time, nodes: &mut Nodes, jobs: &'a [Asked]) -> Vec<Holder<'a>> {
    let mut planned = Vec::new();
    nodes.planned(now, &mut planned);
    let named = planned.into_iter().filter(|one| !one.on.is_empty());
    let holder = |PlannedStart { job, start, on, .. }| {
        let asked = &jobs[job.index()];
        Holder { asked, on, times: (start, start + Span(asked.walltime)) }
    };
    named.map(holder).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_node_is_over_committed(
        cluster in partly_reserved(),
        jobs in prop::collection::vec((asked(), 0..30_i64, 0..100_i64), 1..20),
    ) {
        let mut nodes = Nodes::from_snapshot(Time::ZERO, &cluster).unwrap();
        let (asked, times): (Vec<Asked>, Vec<(i64, i64)>) =
            jobs.into_iter().map(|(asked, pause, early)| (asked, (pause, early))).unzip();
        let mut ends: BTreeMap<JobId, Time> = BTreeMap::new();
        let mut now = Time::ZERO;
        let mut settle = |nodes: &mut Nodes, until: Time| {
            loop {
                let first = ends.iter().map(|(job, end)| (*end, *job)).min();
                let next = [nodes.next_start(), first.map(|(end, _)| end)].into_iter().flatten().min();
                let Some(at) = next.filter(|at| *at <= until) else { break };
                if let Some((_, job)) = first.filter(|(end, _)| *end == at) {
                    nodes.finish(at, job);
                    ends.remove(&job);
                }
                let mut started = Vec::new();
                nodes.start_due(at, &mut started);
                ends.extend(started.iter().map(|one| {
                    let early = times[one.job.index()].1.min(one.walltime.0 - 1);
                    (one.job, at + Span(one.walltime.0 - early))
                }));
                let mut all = planned(at, nodes, &asked);
                let running = nodes.snapshot().running;
                let whole = |share: &NodeShare| cluster.nodes[share.node as usize].cores;
                all.extend(running.into_iter().map(|one| {
                    let asked = &asked[one.job.index()];
                    // Of whole nodes a job has all.
                    let shares = one.on.into_iter().map(|share| match is_exclusive(asked, &cluster) {
                        true => NodeShare { cores: Some(whole(&share)), ..share },
                        false => share,
                    });
                    Holder { asked, on: shares.collect(), times: (at, one.end) }
                }));
                check(&cluster, &all);
            }
        };
        for (number, one) in asked.iter().enumerate() {
            now += Span(times[number].0);
            settle(&mut nodes, now);
            let job = JobId(number as u32);
            let submission = Submission::new(job, Procs(one.procs), Span(one.walltime));
            let resources = one.resources.clone().map(std::sync::Arc::new);
            nodes.submit(now, Submission { resources, ..submission });
            prop_assert_eq!(nodes.plan(now, job).is_some(), fits(one, &cluster), "{:?}", one);
        }
        settle(&mut nodes, Time(1_000_000));
        let left = nodes.queue_length();
        prop_assert_eq!(left, asked.iter().filter(|one| !fits(one, &cluster)).count(), "jobs wait for ever");
    }

    #[test]
    fn the_exact_tuner_misses_no_size(
        cluster in partly_reserved(),
        jobs in prop::collection::vec(asked(), 0..8),
        one in moldable(),
        parallel in 0.0..1.0_f64,
    ) {
        let mut nodes = Nodes::from_snapshot(Time::ZERO, &cluster).unwrap();
        for (number, Asked { procs, walltime, resources }) in jobs.into_iter().enumerate() {
            let submission = Submission::new(JobId(number as u32), Procs(procs), Span(walltime));
            let resources = resources.map(std::sync::Arc::new);
            nodes.submit(Time::ZERO, Submission { resources, ..submission });
        }
        let request = request(Time::ZERO, &one, Speedup::Amdahl { parallel, limit: Procs(12) });
        let Some(walltimes) = request.on(cluster.cores(), Speed::REFERENCE) else { return Ok(()) };
        let exhaustive = nodes.estimate(Time::ZERO, &walltimes, Tuner::Exhaustive);
        prop_assert_eq!(nodes.estimate(Time::ZERO, &walltimes, Tuner::Exact), exhaustive);
        for tuner in Tuner::ALL {
            let found = nodes.estimate(Time::ZERO, &walltimes, *tuner);
            prop_assert_eq!(found.is_some(), exhaustive.is_some(), "{}", tuner);
        }
        if let Some(estimate) = exhaustive {
            let submission = Submission::new(ASKED, estimate.procs, estimate.walltime);
            nodes.submit(Time::ZERO, Submission { resources: request.resources.clone(), ..submission });
            prop_assert_eq!(nodes.plan(Time::ZERO, ASKED), Some(estimate));
            let again = Nodes::from_snapshot(Time::ZERO, &nodes.snapshot()).unwrap();
            prop_assert_eq!(again.snapshot(), nodes.snapshot());
        }
    }
}
