//! Memory, GPUs, features and licences of nodes and of listed jobs in the plans of the mirror.

use std::collections::BTreeMap;

use pliant_model::{Constraint, GpuCount, Gpus, Mebibytes, Memory, Resources};

use super::*;
use crate::listing::{CountedResources, DefaultMemory, Node, RequestedResources, Reservation};

/// Two nodes of four cores and 1,000 MiB; the first has two GPUs and a feature.
fn nodes() -> Vec<Node> {
    let with_gpus = |node: Node| Node {
        gpus: 2,
        gpu_kind: Some("a100".to_owned()),
        features: vec!["fast".to_owned()],
        ..node
    };
    let of = |name: &str| Node { memory: Mebibytes(1000), ..node(name, 4) };
    vec![with_gpus(of("n1")), of("n2")]
}

fn mirror(default_memory: DefaultMemory, jobs: Vec<ListedJob>) -> Bench {
    let mut bench = Bench::new();
    let licences = BTreeMap::from([("matlab".to_owned(), 2)]);
    let counted = CountedResources { memory: true, default_memory, licences };
    let next = Listing { counted, ..Listing::new(bench.now + Span(1), nodes(), jobs) };
    let changes = next.changes(&bench.listing);
    bench.listing = next;
    bench.deliver(Event::Listed(changes));
    bench
}

const PER_CORE: DefaultMemory = DefaultMemory::PerCore(Mebibytes(100));

/// When a rigid request would start.
fn start(bench: &mut Bench, procs: u32, resources: Resources) -> Option<Time> {
    let plain = Request::new(JOB, bench.now, Procs(procs), Span(600), Speedup::Rigid);
    let request = Request { resources: Some(resources.into()), ..plain };
    let capacity = bench.external.capacity().unwrap();
    let walltimes = request.on(capacity, Speed::REFERENCE)?;
    Some(bench.external.estimate(bench.now, None, &walltimes, Tuner::Exact)?.start)
}

/// A local user's job with these resources on the first node, from 50 to 650.
fn running(requested: RequestedResources) -> ListedJob {
    ListedJob { requested, ..listed("40", None, State::Running) }
}

fn total(mib: u32) -> Resources {
    Resources { memory: Some(Memory::Total(Mebibytes(mib))), ..Resources::default() }
}

#[test]
fn memory_of_local_users_is_in_the_plan() {
    let taken = RequestedResources { memory_per_core: Mebibytes(400), ..RequestedResources::default() };
    let mut bench = mirror(PER_CORE, vec![running(taken)]);
    let now = bench.now;
    let on_first = |resources: Resources| Resources {
        constraint: Some(Constraint::All(vec!["fast".to_owned()])),
        ..resources
    };
    // 200 MiB are left on the first node until the job's walltime ends.
    assert_eq!(start(&mut bench, 1, on_first(total(200))), Some(now));
    assert_eq!(start(&mut bench, 1, on_first(total(201))), Some(Time(650)));
    assert_eq!(start(&mut bench, 1, total(201)), Some(now), "there is the other node");
    assert_eq!(start(&mut bench, 1, total(1001)), None, "no node has so much");
    // Two processors have 100 MiB each if they do not say.
    assert_eq!(start(&mut bench, 2, on_first(Resources::default())), Some(now));
    assert_eq!(start(&mut bench, 3, on_first(Resources::default())), Some(Time(650)));
}

#[test]
fn without_a_default_a_job_needs_all_memory_of_its_nodes() {
    let little = RequestedResources { memory_per_node: Mebibytes(1), ..RequestedResources::default() };
    let mut bench = mirror(DefaultMemory::All, vec![running(little)]);
    let now = bench.now;
    assert_eq!(start(&mut bench, 4, Resources::default()), Some(now));
    assert_eq!(start(&mut bench, 5, Resources::default()), Some(Time(650)));
    assert_eq!(start(&mut bench, 1, total(999)), Some(now));
}

#[test]
fn gpus_are_planned_where_they_are_and_as_long_as_they_are_free() {
    let gpus = |count, kind: Option<&str>| Resources {
        gpus: Some(Gpus { count: GpuCount::Total(count), kind: kind.map(str::to_owned) }),
        ..Resources::default()
    };
    let one = RequestedResources { gpus_per_node: 1, ..RequestedResources::default() };
    let mut bench = mirror(PER_CORE, vec![running(one)]);
    let now = bench.now;
    assert_eq!(start(&mut bench, 1, gpus(1, Some("a100"))), Some(now));
    assert_eq!(start(&mut bench, 1, gpus(2, None)), Some(Time(650)));
    assert_eq!(start(&mut bench, 1, gpus(3, None)), None);
    assert_eq!(start(&mut bench, 1, gpus(1, Some("v100"))), None);
}

#[test]
fn disk_space_is_a_size_of_nodes_that_no_job_takes() {
    let asks = RequestedResources { scratch_size: Mebibytes(500), ..RequestedResources::default() };
    let mut bench = mirror(PER_CORE, vec![running(asks)]);
    let scratch = |mib| Resources { scratch: Mebibytes(mib), ..Resources::default() };
    let now = bench.now;
    assert_eq!(start(&mut bench, 1, scratch(1)), None, "nodes have none");
    let nodes = nodes().into_iter().zip([500, 0]);
    let nodes = nodes.map(|(node, mib)| Node { scratch: Mebibytes(mib), ..node }).collect();
    let counted = bench.listing.counted.clone();
    let jobs = bench.listing.jobs.clone();
    let next = Listing { counted, ..Listing::new(now + Span(1), nodes, jobs) };
    let changes = next.changes(&bench.listing);
    bench.listing = next;
    bench.deliver(Event::Listed(changes));
    let now = bench.now;
    assert_eq!(start(&mut bench, 2, scratch(500)), Some(now), "the running job has none of it");
    assert_eq!(start(&mut bench, 4, scratch(500)), Some(Time(650)), "the other node has none");
    assert_eq!(start(&mut bench, 1, scratch(501)), None);
}

#[test]
fn licences_of_all_jobs_count() {
    let licences = |count| BTreeMap::from([("matlab".to_owned(), count)]);
    let one = RequestedResources { licences: licences(1), ..RequestedResources::default() };
    let mut bench = mirror(PER_CORE, vec![running(one)]);
    let needs = |count| Resources { licences: licences(count), ..Resources::default() };
    let now = bench.now;
    assert_eq!(start(&mut bench, 1, needs(1)), Some(now));
    assert_eq!(start(&mut bench, 1, needs(2)), Some(Time(650)));
    assert_eq!(start(&mut bench, 1, needs(3)), None);
}

#[test]
fn a_job_that_is_not_listed_yet_keeps_what_it_needs() {
    let mut bench = mirror(PER_CORE, vec![]);
    let submission = Submission { resources: Some(total(1800).into()), ..submission() };
    let (commands, _) = bench.act(|external, now, effects| external.submit(now, submission.clone(), effects));
    let Command::Queue(queue) = &commands[0] else { panic!("{commands:?}") };
    assert_eq!(queue.resources, submission.resources);
    let now = bench.now;
    assert_eq!(start(&mut bench, 1, total(100)), Some(now), "it has 900 MiB of each node");
    assert!(start(&mut bench, 1, total(101)) > Some(now));
}

#[test]
fn a_job_whose_memory_no_usable_node_has_is_stuck() {
    let mut bench = mirror(PER_CORE, vec![]);
    bench.act(|external, now, effects| external.submit(now, submission(), effects));
    bench.deliver(Event::Queued { job: JOB, ids: vec!["41".to_owned()] });
    let waiting = |mib| ListedJob {
        requested: RequestedResources { memory_per_core: Mebibytes(mib), ..RequestedResources::default() },
        ..listed("41", Some(JOB.0), State::Pending)
    };
    for (mib, is_stuck) in [(500, false), (1001, true)] {
        for _ in 0..80 {
            let next = Listing {
                counted: bench.listing.counted.clone(),
                ..Listing::new(bench.now + Span(1), nodes(), vec![waiting(mib)])
            };
            let changes = next.changes(&bench.listing);
            bench.listing = next;
            bench.deliver(Event::Listed(changes));
        }
        assert_eq!(bench.external.is_stuck(bench.now, JOB), is_stuck, "{mib} MiB");
    }
}

fn reservation(name: &str, (from, until): (i64, i64), nodes: Vec<NodeAllocation>) -> Reservation {
    let (name, from, until) = (name.to_owned(), Time(from), Time(until));
    Reservation { name, from, until, nodes, ours: false, licences: BTreeMap::new() }
}

/// The mirror of the two nodes with these reservations and jobs, where `reserved` are the nodes that are shown as such.
fn with_reservations(reserved: &[&str], reservations: Vec<Reservation>, jobs: Vec<ListedJob>) -> Bench {
    let mut bench = Bench::new();
    let shown = |node: Node| match reserved.contains(&node.name.as_str()) {
        true => Node { unusable: Some("reserved".to_owned()), reserved: true, ..node },
        false => node,
    };
    let nodes = nodes().into_iter().map(shown).collect();
    let next = Listing { reservations, ..Listing::new(bench.now + Span(1), nodes, jobs) };
    let changes = next.changes(&bench.listing);
    bench.listing = next;
    bench.deliver(Event::Listed(changes));
    bench
}

#[test]
fn a_reservation_is_kept_free_and_its_nodes_are_used_after_it() {
    let whole = |name: &str| NodeAllocation::new(name, None);
    let present = reservation("maintenance", (50, 900), vec![whole("n1")]);
    let later = reservation("course", (1_000, 2_000), vec![whole("n2")]);
    let mut bench = with_reservations(&["n1"], vec![present, later], Vec::new());
    let now = bench.now;
    // 600 s: on the second node before the course begins, on both together neither before nor between the two.
    assert_eq!(start(&mut bench, 4, Resources::default()), Some(now));
    assert_eq!(start(&mut bench, 8, Resources::default()), Some(Time(2_000)));
    // One that is shown as reserved without a reservation that says how long is not planned at all.
    let mut bench = with_reservations(&["n1"], Vec::new(), Vec::new());
    assert_eq!(start(&mut bench, 8, Resources::default()), None);
}

#[test]
fn jobs_of_a_reservation_have_no_more_than_that() {
    let within = |state: State| ListedJob {
        reservation: Some("course".to_owned()),
        ..listed(if state == State::Running { "40" } else { "41" }, None, state)
    };
    let two = vec![NodeAllocation::new("n1", Some(2))];
    let course = reservation("course", (50, 5_000), two);
    let jobs = vec![within(State::Running), within(State::Pending)];
    let mut bench = with_reservations(&["n1"], vec![course.clone()], jobs.clone());
    let now = bench.now;
    assert_eq!(start(&mut bench, 6, Resources::default()), Some(now));
    assert_eq!(start(&mut bench, 7, Resources::default()), Some(Time(5_000)));
}

#[test]
fn jobs_of_the_servers_own_reservation_have_its_nodes_while_it_lasts() {
    let of_jobs = || vec![NodeAllocation::new("n1", Some(3)), NodeAllocation::new("n2", None)];
    let own = |span| Reservation { ours: true, ..reservation("course", span, of_jobs()) };
    let on = |node: &str, cores: u32, listed: ListedJob| ListedJob {
        allocations: vec![NodeAllocation::new(node, Some(cores))],
        shape: CoreLayout { cores, ..CoreLayout::default() },
        ..listed
    };
    // A local job in the reservation has a core of n1 until 650. Another one has the core of n1 that is not reserved.
    let within =
        ListedJob { reservation: Some("other,course".to_owned()), ..listed("40", None, State::Running) };
    let outside = on("n1", 1, listed("41", None, State::Running));
    let jobs = vec![on("n1", 1, within), outside];
    let mut bench = with_reservations(&["n1", "n2"], vec![own((50, 5_000))], jobs);
    let now = bench.now;
    assert_eq!(bench.external.capacity(), Some(Procs(7)));
    assert_eq!(bench.external.bounds(None).walltime, Some(Time(5_000) - now));
    assert_eq!(start(&mut bench, 6, Resources::default()), Some(now));
    assert_eq!(start(&mut bench, 7, Resources::default()), Some(Time(650)));
    assert_eq!(start(&mut bench, 8, Resources::default()), None);
    // Local jobs that wait get nothing of it.
    let outside = on("", 8, ListedJob { allocations: Vec::new(), ..listed("42", None, State::Pending) });
    let mut bench = with_reservations(&[], vec![own((50, 5_000))], vec![outside]);
    assert_eq!(start(&mut bench, 7, Resources::default()), Some(bench.now));
    // It has not begun, or ends too early.
    let mut bench = with_reservations(&[], vec![own((1_000, 5_000))], Vec::new());
    assert_eq!(start(&mut bench, 1, Resources::default()), Some(Time(1_000)));
    let bench = with_reservations(&["n1", "n2"], vec![own((0, now.0 + 599))], Vec::new());
    assert_eq!(bench.external.bounds(None).walltime, Some(Span(599)));
}

#[test]
fn several_own_reservations_have_their_nodes_at_their_own_times() {
    let whole = |name: &str| vec![NodeAllocation::new(name, None)];
    let own = |name, span, nodes| Reservation { ours: true, ..reservation(name, span, nodes) };
    let all = vec![
        own("a", (50, 1_000), whole("n1")),
        own("b", (1_200, 3_000), [whole("n1"), whole("n2")].concat()),
    ];
    let mut bench = with_reservations(&[], all, Vec::new());
    let now = bench.now;
    assert_eq!(start(&mut bench, 4, Resources::default()), Some(now));
    assert_eq!(start(&mut bench, 5, Resources::default()), Some(Time(1_200)));
    assert_eq!(bench.external.bounds(None).walltime, Some(Span(1_800)));
}

#[test]
fn an_own_reservation_without_nodes_restricts_nothing_and_a_missing_one_closes_the_server() {
    let licences = Reservation { ours: true, ..reservation("lic", (50, 5_000), Vec::new()) };
    let mut bench = with_reservations(&[], vec![licences], Vec::new());
    let now = bench.now;
    assert_eq!(start(&mut bench, 8, Resources::default()), Some(now));
    assert_eq!(bench.external.closed(), None);
    let next = Listing { missing_reservations: vec!["course".to_owned()], ..bench.listing.clone() };
    let changes = next.changes(&bench.listing);
    bench.deliver(Event::Listed(changes));
    let why = "the batch system has no reservation course, which the server's file names";
    assert_eq!(bench.external.closed().as_deref(), Some(why));
}

#[test]
fn licences_of_jobs_on_other_nodes_count() {
    let requested = RequestedResources {
        licences: BTreeMap::from([("matlab".to_owned(), 2)]),
        ..RequestedResources::default()
    };
    let elsewhere = ListedJob { allocations: vec![NodeAllocation::new("n9", None)], ..running(requested) };
    let mut bench = mirror(PER_CORE, vec![elsewhere]);
    let now = bench.now;
    let needs = Resources { licences: BTreeMap::from([("matlab".to_owned(), 1)]), ..Resources::default() };
    assert_eq!(start(&mut bench, 1, needs), Some(Time(650)));
    assert_eq!(start(&mut bench, 8, Resources::default()), Some(now), "its cores are elsewhere");
}
