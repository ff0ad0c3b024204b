//! What is reserved, in plans and in announced starts.

use pliant_model::{JobId, Procs, Span, Time};
use pliant_policy::nodes::{
    AdvanceReservation, AllocatedJob, ClusterSnapshot, KindSet, Licence, Needs, Node, NodeKind, NodeShare,
    Nodes, Pending, Reserve, Rules, Shape,
};

/// What is announced does not share reserved licences: two are there, a job on the second node has one of them from 100 s to
/// 200 s, and one that needs both for 50 s would have the first node from 60 s on.
#[test]
fn announced_starts_wait_for_reserved_licences() {
    let node = |kind| Node { kind, ..Node::of("n", Procs(1)) };
    let running = |job, node, end| {
        let share = NodeShare { node, cores: Some(Procs(1)), gpus: 0 };
        AllocatedJob { on: vec![share], ..AllocatedJob::of(JobId(job), Procs(1), Time(end)) }
    };
    let pending = |job, kind: u8, licences, walltime| {
        let needs = Needs { kinds: KindSet(1_u64 << kind), licences: vec![(0, licences)], ..Needs::NONE };
        Pending::of(JobId(job), Shape { needs, ..Shape::of(Procs(1)) }, Span(walltime))
    };
    let snapshot = ClusterSnapshot {
        nodes: vec![node(0), node(1)],
        kinds: vec![NodeKind::default(); 2],
        licences: vec![Licence { name: "matlab".to_owned(), count: 2 }],
        running: vec![running(0, 0, 60), running(1, 1, 100)],
        pending: vec![pending(2, 1, 1, 100), pending(3, 0, 2, 50)],
        rules: Rules { reserve: Reserve::Nodes, ..Rules::default() },
        ..ClusterSnapshot::default()
    };
    let mut planned = Vec::new();
    Nodes::from_snapshot(Time::ZERO, &snapshot).unwrap().planned(Time::ZERO, &mut planned);
    let starts: Vec<_> = planned.iter().map(|one| (one.job.0, one.start.0)).collect();
    assert_eq!(starts, [(2, 100), (3, 200)]);
}

/// Two nodes of four cores: the first is reserved from 100 s to 200 s, and two cores of the second from 50 s to 300 s.
#[test]
fn jobs_start_where_and_when_nothing_is_reserved() {
    let of = |from, until, node, cores: Option<u32>| AdvanceReservation {
        from: Time(from),
        until: Time(until),
        on: vec![NodeShare { node, cores: cores.map(Procs), gpus: 0 }],
        licences: Vec::new(),
    };
    let whole = |job, cores, walltime| {
        let shape = Shape { exclusive: true, ..Shape::of(Procs(cores)) };
        Pending::of(JobId(job), shape, Span(walltime))
    };
    let cluster = |rules: Rules, pending| ClusterSnapshot {
        nodes: vec![Node::of("n1", Procs(4)), Node::of("n2", Procs(4))],
        reserved: vec![of(100, 200, 0, None), of(50, 300, 1, Some(2))],
        pending,
        rules,
        ..ClusterSnapshot::default()
    };
    let jobs = [
        (Pending::of(JobId(1), Shape::of(Procs(4)), Span(100)), 0),
        (Pending::of(JobId(1), Shape::of(Procs(4)), Span(101)), 200),
        (Pending::of(JobId(1), Shape::of(Procs(2)), Span(1_000)), 0),
        (Pending::of(JobId(1), Shape::of(Procs(8)), Span(50)), 0),
        (Pending::of(JobId(1), Shape::of(Procs(8)), Span(51)), 300),
        (whole(1, 1, 150), 200),
        (whole(1, 5, 100), 300),
    ];
    for rules in [Rules::default(), Rules { reserve: Reserve::Start, ..Rules::default() }] {
        for (job, start) in jobs.clone() {
            let mut planned = Vec::new();
            let snapshot = cluster(rules.clone(), vec![job.clone()]);
            Nodes::from_snapshot(Time::ZERO, &snapshot).unwrap().planned(Time::ZERO, &mut planned);
            let starts: Vec<i64> = planned.iter().map(|one| one.start.0).collect();
            assert_eq!(starts, [start], "{job:?} by {rules:?}");
        }
    }
    let unknown = ClusterSnapshot { reserved: vec![of(0, 1, 2, None)], ..cluster(Rules::default(), vec![]) };
    assert!(unknown.check().is_err());
}
