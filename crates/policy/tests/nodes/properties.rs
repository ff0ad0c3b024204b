//! What holds for every plan on every cluster.

use std::collections::BTreeMap;

use pliant_model::{JobId, Procs, Request, Span, Speed, Speedup, Time};
use pliant_policy::batch::{BatchScheduler, Dump, RunningJob, Submission, Waiting, by_name};
use pliant_policy::nodes::{
    AllocatedJob, ClusterSnapshot, Node, NodeShare, Nodes, Pending, PlannedStart, PublishedStart, Reserve,
    Rules, Shape,
};
use pliant_policy::tuning::Tuner;
use proptest::prelude::*;

const NOW: Time = Time(1000);
const HYPOTHETICAL: JobId = JobId(10_000);

fn pending(job: u32, nodes: u32) -> impl Strategy<Value = Pending> {
    let shape = (1..12_u32, prop::option::of(1..=nodes), 1..4_u32, prop::bool::weighted(0.2));
    let shape = shape.prop_map(|(cores, nodes, per_node, exclusive)| {
        let per_node = Procs(if nodes.is_some() { per_node } else { 1 });
        let cores = Procs(cores.max(nodes.unwrap_or(1) * per_node.0));
        Shape { nodes, per_node, exclusive, ..Shape::of(cores) }
    });
    let begin = prop::option::weighted(0.2, (900..1500_i64).prop_map(Time));
    let published = prop::option::weighted(0.3, (950..1600_i64, prop::collection::vec(0..nodes, 0..3)));
    let parts = (shape, 1..300_i64, begin, prop::bool::weighted(0.1), published);
    parts.prop_map(move |(shape, walltime, begin, blocked, published)| Pending {
        job: JobId(job),
        shape,
        walltime: Span(walltime),
        expected: None,
        begin,
        blocked,
        published: published.map(|(start, nodes)| PublishedStart { start: Time(start), nodes }),
    })
}

/// Jobs that run on free cores, with incomplete information.
fn running(nodes: &[Node], jobs: Vec<(Vec<u32>, i64, bool)>) -> Vec<AllocatedJob> {
    let mut free: Vec<u32> = nodes.iter().map(|node| node.cores.0).collect();
    let mut holders = Vec::new();
    for (number, (wanted, end, is_known)) in jobs.into_iter().enumerate() {
        let mut on = Vec::new();
        for (node, (free, wanted)) in free.iter_mut().zip(wanted).enumerate() {
            let taken = wanted.min(*free);
            *free -= taken;
            if taken > 0 {
                on.push((node as u32, taken));
            }
        }
        if on.is_empty() {
            continue;
        }
        let cores = Procs(on.iter().map(|(_, cores)| cores).sum());
        let share =
            |(node, cores): (u32, u32)| NodeShare { node, cores: is_known.then_some(Procs(cores)), gpus: 0 };
        let (job, end) = (JobId(1000 + number as u32), Time(end));
        let on = on.into_iter().map(share).collect();
        holders.push(AllocatedJob { on, ..AllocatedJob::of(job, cores, end) });
    }
    holders
}

fn rules() -> impl Strategy<Value = Rules> {
    let reserve = prop::sample::select(Reserve::ALL);
    let parts = (reserve, any::<bool>(), any::<bool>(), any::<bool>(), prop::sample::select(vec![1, 60]));
    parts.prop_map(|(reserve, strict_holes, whole_nodes, published, unit)| Rules {
        reserve,
        strict_holes,
        whole_nodes,
        published,
        walltime_unit: Span(unit),
        grace: Span(30),
        interval: Span(20),
        passes: if strict_holes { 9 } else { 0 },
        ..Rules::default()
    })
}

fn snapshots() -> impl Strategy<Value = ClusterSnapshot> {
    (1..6_usize).prop_flat_map(|count| {
        let node = (1..5_u32, prop::bool::weighted(0.9));
        let nodes = prop::collection::vec(node, count).prop_map(|nodes| {
            let node = |(index, (cores, up))| Node { up, ..Node::of(&format!("n{index}"), Procs(cores)) };
            nodes.into_iter().enumerate().map(node).collect::<Vec<Node>>()
        });
        let job = (prop::collection::vec(0..4_u32, count), 950..1300_i64, any::<bool>());
        let waiting = (0..12_u32).map(|job| pending(job, count as u32)).collect::<Vec<_>>();
        (nodes, prop::collection::vec(job, 0..6), waiting, 0..12_usize, rules()).prop_map(
            |(nodes, jobs, mut pending, most, rules)| {
                pending.truncate(most);
                let running = running(&nodes, jobs);
                ClusterSnapshot { nodes, running, pending, rules, ..ClusterSnapshot::default() }
            },
        )
    })
}

fn plan(nodes: &mut Nodes) -> Vec<PlannedStart> {
    let mut planned = Vec::new();
    nodes.planned(NOW, &mut planned);
    planned
}

/// No core is given twice, and everyone gets what was asked for.
fn check(snapshot: &ClusterSnapshot, planned: &[PlannedStart]) {
    let rounded = |walltime: Span| {
        let unit = snapshot.rules.walltime_unit.0;
        Span((walltime.0 + unit - 1) / unit * unit)
    };
    // (node, from, until, cores, alone)
    let mut taken: Vec<(u32, Time, Time, u32, bool)> = Vec::new();
    // As bounded by the cluster itself.
    for holder in Nodes::from_snapshot(NOW, snapshot).unwrap().snapshot().running {
        let end = if holder.end > NOW { holder.end } else { (holder.end + Span(30)).max(NOW + Span(1)) };
        let least: u32 = holder.on.iter().map(|share| share.cores.unwrap().0).sum();
        assert!(least >= holder.cores.0, "{holder:?}");
        taken.extend(holder.on.iter().map(|share| (share.node, NOW, end, share.cores.unwrap().0, false)));
    }
    for one in planned.iter().filter(|one| !one.on.is_empty()) {
        let Pending { shape, walltime, begin, blocked, .. } =
            snapshot.pending.iter().find(|other| other.job == one.job).unwrap();
        assert!(!blocked && one.start >= NOW && begin.is_none_or(|begin| one.start >= begin));
        let on: Vec<(u32, Procs)> = one.on.iter().map(|share| (share.node, share.cores.unwrap())).collect();
        let cores: u32 = on.iter().map(|(_, cores)| cores.0).sum();
        let alone = shape.exclusive || snapshot.rules.whole_nodes;
        assert!(cores == shape.cores.0 || alone && cores > shape.cores.0, "{one:?} {shape:?}");
        assert!(shape.nodes.is_none_or(|nodes| nodes as usize == one.on.len()), "{one:?} {shape:?}");
        for (node, cores) in &on {
            assert!(*cores >= shape.per_node && snapshot.nodes[*node as usize].up);
            taken.push((*node, one.start, one.start + rounded(*walltime), cores.0, alone));
        }
    }
    for (node, at, ..) in &taken {
        let here = || taken.iter().filter(|one| one.0 == *node && one.1 <= *at && *at < one.2);
        let cores = snapshot.nodes[*node as usize].cores.0;
        let sum: u32 = here().map(|one| one.3).sum();
        // What is not known of running jobs may add up to more than there is.
        let bounded: u32 = here().filter(|one| one.1 == NOW).map(|one| one.3).sum();
        assert!(sum <= cores.max(bounded), "{sum} of {cores} cores of node {node} at {at}");
        assert!(!here().any(|one| one.4) || here().count() == 1, "node {node} is shared at {at}");
    }
}

/// Cores are distinguished only on nodes of one core, so that counting them is enough.
fn both(procs: u32, held: &[(u32, i64)], rules: &Rules) -> (Nodes, Box<dyn BatchScheduler>) {
    let node = |index| Node::of(&format!("n{index}"), Procs::ONE);
    let mut next = 0;
    let mut running = Vec::new();
    for (number, (cores, end)) in held.iter().enumerate() {
        let cores = (*cores).min(procs - next);
        if cores > 0 {
            let on = (next..next + cores).map(|node| NodeShare { node, cores: None, gpus: 0 }).collect();
            let job = JobId(1000 + number as u32);
            running.push(AllocatedJob { on, ..AllocatedJob::of(job, Procs(cores), Time(*end)) });
        }
        next += cores;
    }
    let dump = Dump {
        running: running
            .iter()
            .map(|one| RunningJob { job: one.job, procs: one.cores, end: one.end })
            .collect(),
        ..Dump::default()
    };
    let nodes = (0..procs).map(node).collect();
    let snapshot = ClusterSnapshot { nodes, running, rules: rules.clone(), ..ClusterSnapshot::default() };
    let mut counted = (by_name("cbf").unwrap().new)(Procs(procs), NOW);
    counted.restore(NOW, &dump).unwrap();
    (Nodes::from_snapshot(NOW, &snapshot).unwrap(), counted)
}

fn list(scheduler: &mut dyn BatchScheduler) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    scheduler.list(NOW, &mut waiting);
    waiting
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_core_is_allocated_twice(snapshot in snapshots()) {
        check(&snapshot, &plan(&mut Nodes::from_snapshot(NOW, &snapshot).unwrap()));
    }

    #[test]
    fn a_job_at_the_end_delays_no_other(snapshot in snapshots(), procs in 1..12_u32, walltime in 1..300_i64) {
        let mut nodes = Nodes::from_snapshot(NOW, &snapshot).unwrap();
        let before = plan(&mut nodes);
        let (job, procs, walltime) = (HYPOTHETICAL, Procs(procs), Span(walltime));
        nodes.submit(NOW, Submission::new(job, procs, walltime));
        let mut after = plan(&mut nodes);
        let mut fresh = Nodes::from_snapshot(NOW, &nodes.snapshot()).unwrap();
        // In passes, and before jobs that may not begin yet, the last one is not planned last.
        let begins = snapshot.pending.iter().any(|one| one.begin.is_some_and(|begin| begin > NOW));
        if !begins && snapshot.rules.passes == 0 {
            prop_assert_eq!(&after, &plan(&mut fresh), "planned again");
        }
        after.retain(|one| one.job != HYPOTHETICAL);
        prop_assert_eq!(before, after);
    }

    #[test]
    fn a_submission_gets_its_estimate(
        snapshot in snapshots(),
        procs in 1..12_u32,
        walltime in 1..300_i64,
        parallel in 0.0..1.0_f64,
    ) {
        let mut nodes = Nodes::from_snapshot(NOW, &snapshot).unwrap();
        let speedup = Speedup::Amdahl { parallel, limit: Procs(20) };
        let (id, procs, walltime) = (HYPOTHETICAL, Procs(procs), Span(walltime));
        let request = Request::new(id, NOW, procs, walltime, speedup);
        let Some(walltimes) = request.on(snapshot.cores(), Speed::REFERENCE) else { return Ok(()) };
        let exhaustive = nodes.estimate(NOW, &walltimes, Tuner::Exhaustive);
        prop_assert_eq!(nodes.estimate(NOW, &walltimes, Tuner::Exact), exhaustive);
        let ahead = snapshot.pending.len();
        prop_assert_eq!(nodes.estimate_behind(NOW, &walltimes, Tuner::Exact, ahead), exhaustive);
        if let Some(estimate) = exhaustive {
            let submission = Submission::new(id, estimate.procs, estimate.walltime);
            nodes.submit(NOW, submission);
            prop_assert_eq!(nodes.plan(NOW, id), Some(estimate));
            prop_assert_eq!(nodes.cancel(NOW, &[id]), usize::from(estimate.start > NOW));
        }
    }

    #[test]
    fn equals_conservative_backfilling_where_only_counts_matter(
        procs in 1..20_u32,
        held in prop::collection::vec((1..6_u32, 1001..1200_i64), 0..6),
        jobs in prop::collection::vec((1..20_u32, 1..200_i64), 0..25),
        ask in (1..20_u32, 1..300_i64, 0.0..1.0_f64),
    ) {
        let (mut nodes, mut counted) = both(procs, &held, &Rules::default());
        for (number, (width, walltime)) in jobs.iter().enumerate() {
            let job = JobId(number as u32);
            let one = Submission::new(job, Procs((*width).min(procs)), Span(*walltime));
            nodes.submit(NOW, one.clone());
            counted.submit(NOW, one);
        }
        prop_assert_eq!(list(&mut nodes), list(counted.as_mut()));
        let speedup = Speedup::Amdahl { parallel: ask.2, limit: Procs(16) };
        let (id, asked, walltime) = (HYPOTHETICAL, Procs(ask.0), Span(ask.1));
        let request = Request::new(id, NOW, asked, walltime, speedup);
        if let Some(walltimes) = request.on(Procs(procs), Speed::REFERENCE) {
            for tuner in Tuner::ALL {
                let expected = counted.estimate(NOW, &walltimes, *tuner);
                prop_assert_eq!(nodes.estimate(NOW, &walltimes, *tuner), expected, "{}", tuner);
            }
        }
    }

    #[test]
    fn the_queue_empties_without_losing_a_job(snapshot in snapshots()) {
        let mut nodes = Nodes::from_snapshot(NOW, &snapshot).unwrap();
        let mut ends: BTreeMap<JobId, Time> = snapshot.running.iter().map(|one| (one.job, one.end)).collect();
        let planned: Vec<JobId> = plan(&mut nodes).into_iter().map(|one| one.job).collect();
        let mut started = Vec::new();
        let mut now = NOW;
        // Each event starts or ends a job.
        for _ in 0..100 {
            let mut batch = Vec::new();
            nodes.start_due(now, &mut batch);
            ends.extend(batch.iter().map(|one| (one.job, now + one.walltime)));
            started.extend(batch.into_iter().map(|one| one.job));
            let first = ends.iter().map(|(job, end)| (*end, *job)).min();
            let next = [nodes.next_start(), first.map(|(end, _)| end)].into_iter().flatten().min();
            let Some(next) = next else { break };
            now = now.max(next);
            if let Some((_, job)) = first.filter(|(end, _)| *end <= now) {
                ends.remove(&job);
                nodes.finish(now, job);
            }
        }
        started.sort_unstable();
        let mut expected = planned;
        expected.sort_unstable();
        prop_assert_eq!(started, expected);
    }
}
