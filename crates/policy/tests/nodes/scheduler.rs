//! Single rules, one snapshot each, and the scheduler's own verbs.

use pliant_model::{
    Cluster, ClusterId, Estimate, JobId, MapReason, Platform, Procs, Reason, Request, Span, Speed, Speedup,
    Time,
};
use pliant_policy::batch::{BatchScheduler, Submission, by_name};
use pliant_policy::federation::{Federation, Tracked};
use pliant_policy::nodes::{
    AllocatedJob, ClusterSnapshot, NodeShare, Nodes, PlannedStart, Reserve, Rules, Shape, SnapshotError,
};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation, reallocate};
use pliant_policy::tuning::Tuner;

use super::situation;

/// The snapshot that the lines describe, planned under `rules`.
fn cluster(text: &str, rules: Rules) -> Nodes {
    let snapshot = ClusterSnapshot { rules, ..situation::parse(text).snapshot };
    Nodes::from_snapshot(Time::ZERO, &snapshot).unwrap()
}

fn planned(nodes: &mut Nodes) -> Vec<PlannedStart> {
    let mut planned = Vec::new();
    nodes.planned(Time::ZERO, &mut planned);
    planned
}

/// `job@start on node:cores ...`, one a line.
fn shown(planned: &[PlannedStart]) -> String {
    let line = |one: &PlannedStart| {
        let on: Vec<String> =
            one.on.iter().map(|share| format!("{}:{}", share.node, share.cores.unwrap())).collect();
        format!("{}@{} {}", one.job, one.start, on.join(" "))
    };
    planned.iter().map(line).collect::<Vec<_>>().join(", ")
}

/// Two nodes, one of them half taken.
const HALF: &str = "node a 4 up\nnode b 4 up\nrun 1 cores=2 end=100 on a:2\n";

#[test]
fn a_planned_start_reserves_by_the_rules() {
    let check = |reserve, strict_holes, waiting: &str, expected: &str| {
        let rules = Rules { reserve, strict_holes, ..Rules::default() };
        let mut nodes = cluster(&format!("{HALF}{waiting}"), rules);
        assert_eq!(shown(&planned(&mut nodes)), expected, "{reserve} {strict_holes}");
    };
    // Eight cores are free at 100 only; until then there are holes on both nodes.
    let wide = "wait 2 cores=8 walltime=60\nwait 3 cores=2 walltime=100\nwait 4 cores=2 walltime=150\n";
    check(Reserve::Cores, false, wide, "2@100 0:4 1:4, 3@0 0:2, 4@160 0:2");
    check(Reserve::Cores, true, wide, "2@100 0:4 1:4, 3@160 0:2, 4@160 1:2");
    // A planned job with one core of a node keeps the others from holding the node when it starts, ...
    let narrow = "wait 2 cores=7 walltime=60\nwait 3 cores=1 walltime=120\nwait 4 cores=1 walltime=30\n";
    check(Reserve::Cores, false, narrow, "2@100 0:4 1:3, 3@0 1:1, 4@0 0:1");
    check(Reserve::Start, false, narrow, "2@100 0:4 1:3, 3@100 1:1, 4@0 0:1");
    // ... or from using it at all until it ends.
    check(Reserve::Nodes, false, narrow, "2@100 0:4 1:3, 3@160 0:1, 4@0 0:1");
    // Shapes.
    check(Reserve::Start, false, "wait 2 cores=2 walltime=9 nodes=2", "2@0 0:1 1:1");
    check(Reserve::Start, false, "wait 2 cores=6 walltime=9 nodes=2 per=3", "2@100 0:3 1:3");
    check(Reserve::Start, false, "wait 2 cores=5 walltime=9 nodes=2", "2@0 0:2 1:3");
    check(Reserve::Start, false, "wait 2 cores=1 walltime=9 exclusive", "2@0 1:4");
    check(Reserve::Start, false, "wait 2 cores=1 walltime=9 begin=7", "2@7 0:1");
    // Neighbours would come first, but have too few.
    let unequal = "node a 1 up\nnode b 1 up\nnode c 3 up\nwait 2 cores=3 walltime=9 nodes=2\n";
    assert_eq!(shown(&planned(&mut cluster(unequal, Rules::default()))), "2@0 0:1 2:2");
    check(Reserve::Start, false, "wait 2 cores=1 walltime=9 blocked\nwait 3 cores=9 walltime=1", "");
}

#[test]
fn announced_starts_count_ends_in_groups() {
    let text = "node a 1 up\nnode b 1 up\nnode c 1 up\nrun 1 cores=1 end=40 on a:1\n\
                run 2 cores=1 end=85 on b:1\nrun 3 cores=1 end=300 on c:1\nwait 4 cores=1 walltime=60\n";
    // The first end counts up to the next multiple of 30 s, and everything within 30 s of that.
    let mut announced = cluster(text, Rules::slurm_announced(Span(1), Span(3600)));
    assert_eq!(shown(&planned(&mut announced)), "4@85 0:1");
    let mut done = cluster(text, Rules::slurm(Span(30)));
    assert_eq!(shown(&planned(&mut done)), "4@40 0:1");
}

#[test]
fn announced_starts_are_taken_over_where_they_are_possible() {
    let check = |plan: &str, expected: &str| {
        let text = format!("{HALF}wait 2 cores=8 walltime=60\nwait 3 cores=4 walltime=50 plan={plan}\n");
        let mut nodes = cluster(&text, Rules::default());
        assert_eq!(shown(&planned(&mut nodes)), expected, "{plan}");
    };
    check("100@b", "2@150 0:4 1:4, 3@100 1:4");
    check("100@", "2@150 0:4 1:4, 3@100 0:4");
    // On a node without free cores: on any node with some.
    check("50@a", "2@100 0:4 1:4, 3@50 0:2 1:2");
    // In the past.
    check("-1@b", "2@100 0:4 1:4, 3@0 0:2 1:2");
}

#[test]
fn unknown_shares_of_running_jobs_are_bounded() {
    let check = |nodes: &str, jobs: &[(u32, &[u32])], expected: &[&[u32]]| {
        let mut snapshot = situation::parse(nodes).snapshot;
        for (number, (cores, on)) in jobs.iter().enumerate() {
            let on = on.iter().map(|node| NodeShare { node: *node, ..NodeShare::default() }).collect();
            let (job, cores) = (JobId(number as u32), Procs(*cores));
            snapshot.running.push(AllocatedJob { on, ..AllocatedJob::of(job, cores, Time(9)) });
        }
        let known = Nodes::from_snapshot(Time::ZERO, &snapshot).unwrap().snapshot();
        let cores = |share: &NodeShare| share.cores.unwrap().0;
        let found: Vec<Vec<u32>> =
            known.running.iter().map(|one| one.on.iter().map(cores).collect()).collect();
        assert_eq!(found, expected, "{jobs:?}");
    };
    let free = "node a 4 up\nnode b 4 up\n";
    check(free, &[(3, &[0])], &[&[3]]);
    check(free, &[(8, &[0, 1])], &[&[4, 4]]);
    check(free, &[(5, &[0, 1])], &[&[4, 4]]);
    check(free, &[(2, &[0, 1])], &[&[1, 1]]);
    // The nodes' own counts settle it.
    check("node a 4 up taken=2\nnode b 4 up taken=3\n", &[(5, &[0, 1])], &[&[2, 3]]);
    check("node a 4 up taken=4\nnode b 4 up taken=3\n", &[(5, &[0, 1]), (2, &[0])], &[&[2, 3], &[2]]);
}

fn request(procs: u32, walltime: i64) -> Request {
    let speedup = Speedup::Amdahl { parallel: 1.0, limit: Procs(8) };
    let (id, procs, walltime) = (JobId(99), Procs(procs), Span(walltime));
    Request::new(id, Time::ZERO, procs, walltime, speedup)
}

#[test]
fn a_request_may_stand_before_others() {
    let text = format!("{HALF}wait 2 cores=8 walltime=60\nwait 3 cores=8 walltime=60\n");
    let mut nodes = cluster(&text, Rules { walltime_unit: Span(60), ..Rules::default() });
    let request = request(8, 120);
    let walltimes = request.on(Procs(8), Speed::REFERENCE).unwrap();
    let mut check = |ahead, start, procs| {
        let found = nodes.estimate_behind(Time::ZERO, &walltimes, Tuner::Exact, ahead).unwrap();
        assert_eq!((found.start, found.procs), (Time(start), Procs(procs)), "{ahead} ahead");
    };
    check(0, 0, 6);
    check(1, 160, 8);
    check(2, 220, 8);
    check(9, 220, 8);
}

/// Otherwise a job would seem to gain wherever it does not wait yet, by the seconds that are rounded off there.
#[test]
fn a_request_is_estimated_with_the_walltime_that_is_listed_once_it_waits() {
    for tuner in [Tuner::Exact, Tuner::Binary, Tuner::Exhaustive] {
        let text = format!("{HALF}wait 2 cores=8 walltime=60\n");
        let mut nodes = cluster(&text, Rules::slurm(Span(30)));
        let request = request(8, 95);
        let walltimes = request.on(Procs(8), Speed::REFERENCE).unwrap();
        let estimate = nodes.estimate(Time::ZERO, &walltimes, tuner).unwrap();
        // 760 core-seconds: in two minutes on seven cores.
        let expected = Estimate { procs: Procs(7), walltime: Span(120), start: Time(160) };
        assert_eq!(estimate, expected, "{tuner}");
        let Estimate { procs, walltime, .. } = estimate;
        nodes.submit(Time::ZERO, Submission::new(JobId(3), procs, walltime));
        assert_eq!(nodes.plan(Time::ZERO, JobId(3)), Some(estimate), "{tuner}");
    }
}

#[test]
fn the_verbs_of_a_batch_system() {
    let waiting =
        "wait 2 cores=8 walltime=60\nwait 3 cores=2 walltime=60 exclusive\nwait 4 cores=1 walltime=9 blocked";
    let mut nodes = cluster(&format!("{HALF}{waiting}"), Rules::slurm(Span(30)));
    let mut started = Vec::new();
    nodes.submit(Time(10), Submission::new(JobId(5), Procs(2), Span(30)));
    assert_eq!(nodes.queue_length(), 4);
    assert_eq!(nodes.next_start(), Some(Time(10)));
    // What is due stays, what is blocked goes.
    assert_eq!(nodes.cancel(Time(10), &[JobId(3), JobId(5), JobId(4), JobId(77)]), 1);
    nodes.start_due(Time(10), &mut started);
    assert_eq!(started.iter().map(|one| one.job.0).collect::<Vec<_>>(), [3, 5]);
    // Its walltime counts as a whole minute; the exclusive job has its node to itself.
    assert_eq!(nodes.plan(Time(10), JobId(2)).unwrap().start, Time(100));
    nodes.finish(Time(20), JobId(1));
    assert_eq!(nodes.plan(Time(20), JobId(2)).unwrap().start, Time(70));
    // The ends of 3 and 5 are not reported: they are given half a minute.
    assert_eq!(nodes.plan(Time(80), JobId(2)).unwrap().start, Time(100));
    let snapshot = nodes.snapshot();
    let mut copy = Nodes::from_snapshot(Time(80), &snapshot).unwrap();
    assert_eq!(copy.plan(Time(80), JobId(2)), nodes.plan(Time(80), JobId(2)));
    let mut restored = nodes.boxed_clone();
    restored.restore(Time(80), &nodes.dump()).unwrap();
    assert_eq!(restored.dump(), nodes.dump());
    nodes.set(Time(90), &ClusterSnapshot::default()).unwrap();
    assert_eq!((nodes.queue_length(), nodes.next_start()), (0, None));
}

#[test]
fn a_dump_of_counts_finds_nodes_again() {
    let text = format!("{HALF}wait 2 cores=3 walltime=60 nodes=3\nwait 3 cores=5 walltime=60\n");
    let source = cluster(&text, Rules::default());
    let mut other = cluster("node a 4 up\nnode b 4 up\n", Rules::default());
    other.restore(Time::ZERO, &source.dump()).unwrap();
    assert_eq!(other.dump(), source.dump());
    // What has no plan keeps none.
    assert_eq!(other.plan(Time::ZERO, JobId(2)), None);
    assert_eq!(other.snapshot().running[0].on, [NodeShare { node: 0, cores: Some(Procs(2)), gpus: 0 }]);
    let mut counted = (by_name("cbf").unwrap().new)(Procs(1), Time::ZERO);
    assert!(counted.restore(Time::ZERO, &source.dump()).is_err());
    assert!(cluster("node a 1 up\n", Rules::default()).restore(Time::ZERO, &source.dump()).is_err());
}

#[test]
fn an_invalid_snapshot_is_refused() {
    let check = |change: &dyn Fn(&mut ClusterSnapshot), expected: &str| {
        let mut snapshot = situation::parse(&format!("{HALF}wait 2 cores=1 walltime=9 plan=5@b")).snapshot;
        change(&mut snapshot);
        let error: SnapshotError = Nodes::from_snapshot(Time::ZERO, &snapshot).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check(&|snapshot| snapshot.pending[0].job = JobId(1), "expected every job once, found job 1 twice");
    check(
        &|snapshot| snapshot.running[0].on[0].node = 2,
        "expected one of 2 nodes, counted from 0, found 2 for job 1",
    );
    check(
        &|snapshot| snapshot.pending[0].walltime = Span(0),
        "expected a walltime of 1 s to 2305843009213693951 s, found 0 s for job 2",
    );
    check(
        &|snapshot| snapshot.pending[0].shape = Shape::of(Procs(0)),
        "expected at least one core on one node, or a licence, found none for job 2",
    );
    check(
        &|snapshot| snapshot.rules.resolution = Span(0),
        "expected a resolution of at least 1 s, found 0 s",
    );
}

/// Two clusters as seen by an agent: the request waits on the full one.
#[test]
fn a_federation_moves_jobs_between_snapshots() {
    let cluster = |name: &str| Cluster {
        name: name.to_owned(),
        procs: Procs(8),
        speed: Speed::REFERENCE,
        batch: "cbf".to_owned(),
        nodes: None,
    };
    let platform = Platform::new(vec![cluster("full"), cluster("free")]).unwrap();
    let mut federation = Federation::new(&platform, Tuner::Exact, Time::ZERO).unwrap();
    let (full, free) = (ClusterId(0), ClusterId(1));
    let text = "node a 4 up\nnode b 4 up\nrun 1 cores=8 end=6000 on a:4 b:4\nwait 2 cores=8 walltime=600\n";
    federation.replace(full, Box::new(self::cluster(text, Rules::slurm(Span(30)))));
    federation.replace(free, Box::new(self::cluster(HALF, Rules::slurm(Span(30)))));
    let request = request(8, 600);
    let estimate = federation.estimate(Time::ZERO, &request, full).unwrap();
    assert_eq!((estimate.start, estimate.procs), (Time(6600), Procs(8)));
    let reason = Reason::Mapped(MapReason::Given);
    let tracked = Tracked { request: request.clone(), cluster: full, moves: 0, reason };
    federation.submit(Time::ZERO, tracked, estimate.shape());
    let regular = Reallocation::new(Algorithm::Regular, Heuristic::Mct);
    assert_eq!(reallocate(&regular, &mut federation, Time(60)).len(), 1);
    assert_eq!(federation.waiting()[&request.id].cluster, free);
    // All eight cores as soon as they are there.
    let plan = federation.plan(Time(60), request.id).unwrap();
    assert_eq!((plan.start, plan.procs), (Time(100), Procs(8)));
    assert_eq!(federation.scheduler(full).queue_length(), 1);
}
