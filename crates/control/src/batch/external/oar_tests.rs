//! Features of OAR: moldable jobs, and published starts.

use std::collections::BTreeMap;

use pliant_model::{Estimate, Mebibytes, Memory, Procs, Request, Resources, Span, Speed, Speedup, Time};
use pliant_policy::alternatives::Alternative;
use pliant_policy::tuning::Tuner;

use super::*;
use crate::batch::{BatchSystem, Command as Outer};
use crate::listing::{
    self, CoreLayout, CountedResources, DefaultMemory, NodeAllocation, PlannedStart, State,
};

const JOB: JobId = JobId(7);
const NOW: Time = Time(1_000);
/// The time for which OAR keeps cores free after a job.
const PAUSE: Span = Span(5);

fn nodes() -> Vec<listing::Node> {
    let node = |name: &str| listing::Node { name: name.to_owned(), cores: 2, ..listing::Node::default() };
    vec![node("n1"), node("n2")]
}

fn listed(id: &str, job_number: Option<u32>, state: State, cores: u32, walltime: i64) -> ListedJob {
    let runs = state.phase() == Phase::Running;
    let allocation = |(node, cores): (&str, u32)| NodeAllocation::new(node, Some(cores));
    let allocations = [("n1", cores.min(2)), ("n2", cores.saturating_sub(2))];
    let allocations =
        allocations.into_iter().filter(|(_, cores)| *cores > 0 && runs).map(allocation).collect();
    ListedJob {
        id: id.to_owned(),
        job_number,
        state,
        shape: CoreLayout { cores, nodes: None, exclusive: false },
        allocations,
        walltime: Some(Span(walltime)),
        started: runs.then_some(Time(990)),
        ..ListedJob::default()
    }
}

fn planned(start: i64, job: ListedJob) -> ListedJob {
    ListedJob { planned: Some(PlannedStart { start: Time(start), nodes: Vec::new() }), ..job }
}

fn deliver(external: &mut External, event: Event) -> Vec<StatusUpdate> {
    let mut effects = Effects::default();
    external.on(NOW, batch::Event::External(event), &mut effects);
    effects.updates
}

fn list(external: &mut External, jobs: Vec<ListedJob>) -> Vec<StatusUpdate> {
    let listing = Listing::new(NOW, nodes(), jobs);
    let changes = listing.changes(external.mirror().unwrap());
    deliver(external, Event::Listed(changes))
}

fn cluster(jobs: Vec<ListedJob>) -> External {
    let mut external = External::of(System::Oar);
    deliver(&mut external, Event::PlanningRules { rules: Rules::oar(PAUSE) });
    list(&mut external, jobs);
    external
}

/// A job of 400 s on one core, with a linear speedup on up to eight.
fn request(procs: u32) -> Request {
    let (procs, walltime) = (Procs(procs), Span(400 / i64::from(procs)));
    let speedup = Speedup::Amdahl { parallel: 1.0, limit: Procs(8) };
    Request::new(JOB, NOW, procs, walltime, speedup)
}

fn estimate(external: &mut External) -> Option<Estimate> {
    let request = request(1);
    let walltimes = request.on(Procs(4), Speed::REFERENCE).unwrap();
    external.estimate(NOW, None, &walltimes, Tuner::Exhaustive)
}

fn size(procs: u32, walltime: i64) -> Alternative {
    Alternative { procs: Procs(procs), walltime: Span(walltime) }
}

#[test]
fn a_moldable_job_is_offered_in_its_sizes_and_adopts_the_chosen_one() {
    let mut external = cluster(vec![]);
    let request = request(1);
    let walltimes = request.on(Procs(4), Speed::REFERENCE).unwrap();
    let submission = Submission::new(JOB, Procs(1), Span(400));
    let mut effects = Effects::default();
    external.submit_moldable(NOW, submission, &walltimes, &mut effects);
    let [Outer::External(Command::Queue(queue))] = effects.commands.as_slice() else { panic!("{effects:?}") };
    assert_eq!((queue.procs, queue.walltime), (Procs(1), Span(400)));
    assert_eq!(queue.alternatives, [size(1, 400), size(2, 200), size(3, 134), size(4, 100)]);

    // A restored mirror offers the same sizes.
    let batch::Dump::External(dump) = external.dump(NOW) else { panic!("expected an external dump") };
    assert!(dump.is_of(OAR) && !dump.is_of(SLURM));
    let written = serde_json::to_string(&dump).unwrap();
    let mut external = External::restore(serde_json::from_str(&written).unwrap());
    let resubmission = Queue { resubmitted: true, ..queue.clone() };
    assert_eq!(external.unanswered(), [Outer::External(Command::Queue(resubmission))]);

    deliver(&mut external, Event::Queued { job: JOB, ids: vec!["41".to_owned()] });
    let waiting = planned(1_100, listed("41", Some(7), State::Pending, 4, 100));
    assert_eq!(list(&mut external, vec![waiting]), []);
    let plan = Estimate { procs: Procs(4), walltime: Span(100), start: Time(1_100) };
    assert_eq!(external.plan(NOW, JOB), Some(plan), "the size that OAR plans it in");
    let updates = list(&mut external, vec![listed("41", Some(7), State::Running, 3, 134)]);
    let started = StatusUpdate::Started { job: JOB, procs: Procs(3), walltime: Span(134), at: Time(990) };
    assert_eq!(updates, [started]);
}

#[test]
fn a_job_that_no_listing_showed_running_adopts_the_chosen_size() {
    let mut external = cluster(vec![]);
    let request = request(1);
    let walltimes = request.on(Procs(4), Speed::REFERENCE).unwrap();
    let submission = Submission::new(JOB, Procs(1), Span(400));
    external.submit_moldable(NOW, submission, &walltimes, &mut Effects::default());
    deliver(&mut external, Event::Queued { job: JOB, ids: vec!["41".to_owned()] });
    let ran = listed("41", Some(7), State::Running, 3, 134);
    assert_eq!(list(&mut external, vec![ListedJob { state: State::Completed, ..ran }]), []);
    let (exit, started) = (Exit::Code(0), Some(Time(995)));
    let updates = deliver(
        &mut external,
        Event::Ended { job: JOB, exit: exit.clone(), started, elapsed_ms: Some(1_500) },
    );
    let started = StatusUpdate::Started { job: JOB, procs: Procs(3), walltime: Span(134), at: Time(995) };
    assert_eq!(updates, [started, StatusUpdate::Ended { job: JOB, exit, elapsed_ms: Some(1_500) }]);
}

#[test]
fn a_held_job_keeps_its_sizes_until_it_is_released() {
    let mut external = cluster(vec![]);
    let request = request(2);
    let walltimes = request.on(Procs(4), Speed::REFERENCE).unwrap();
    let submission = Submission::new(JOB, Procs(2), Span(200));
    let mut effects = Effects::default();
    external.hold_moldable(NOW, submission.clone(), &walltimes, &mut effects);
    deliver(&mut external, Event::Queued { job: JOB, ids: vec!["41".to_owned()] });
    external.release(NOW, JOB, &mut effects);
    let Some(Outer::External(Command::Release { alternatives, .. })) = effects.commands.last() else {
        panic!("{effects:?}")
    };
    assert_eq!(alternatives.len(), 4);

    // Slurm does not choose among sizes.
    let mut slurm = External::new();
    slurm.submit_moldable(NOW, submission, &walltimes, &mut effects);
    let Some(Outer::External(Command::Queue(queue))) = effects.commands.last() else { panic!("{effects:?}") };
    assert_eq!(queue.alternatives, []);
}

#[test]
fn estimates_follow_the_starts_that_oar_publishes() {
    let check = |jobs: Vec<ListedJob>, expected: (u32, i64)| {
        let found = estimate(&mut cluster(jobs)).unwrap();
        assert_eq!((found.procs, found.start), (Procs(expected.0), Time(expected.1)));
    };
    // Runs until 1190; its cores stay free for the pause.
    let running = |cores| listed("1", None, State::Running, cores, 200);
    check(vec![], (4, 1_000));
    check(vec![running(2)], (2, 1_000));
    check(vec![running(4)], (4, 1_195));
    // A job waits for all cores: a hole of two cores from 1000 to 1195 is too short for 200 s.
    let next = |start| planned(start, listed("2", None, State::Pending, 4, 50));
    check(vec![running(2), next(1_195)], (4, 1_250));
    // The published start is later than necessary, for a reason that is not listed: the hole is long enough.
    check(vec![running(2), next(1_210)], (2, 1_000));
    // A published start in the past is ignored: the job starts as early as possible.
    check(vec![running(2), next(900)], (4, 1_250));
}

/// When a job of one processor that needs so much memory starts, on nodes of 1,000 MiB.
fn start_with_memory(jobs: Vec<ListedJob>, mib: u32) -> Option<Time> {
    let mut external = cluster(Vec::new());
    let with_memory = |node: listing::Node| listing::Node { memory: Mebibytes(1_000), ..node };
    let default_memory = DefaultMemory::PerCore(Mebibytes::ZERO);
    let counted = CountedResources { memory: true, default_memory, ..CountedResources::default() };
    let nodes = nodes().into_iter().map(with_memory).collect();
    let listing = Listing { counted, ..Listing::new(NOW, nodes, jobs) };
    let changes = listing.changes(external.mirror().unwrap());
    deliver(&mut external, Event::Listed(changes));
    let rigid = Request::new(JOB, NOW, Procs(1), Span(100), Speedup::Rigid);
    let memory = Some(Memory::Total(Mebibytes(mib)));
    let request = rigid.needing(Resources { memory, ..Resources::default() });
    let walltimes = request.on(Procs(1), Speed::REFERENCE).unwrap();
    Some(external.estimate(NOW, None, &walltimes, Tuner::Exact)?.start)
}

#[test]
fn a_job_that_needs_memory_waits_for_a_node_without_jobs() {
    let on_both = ListedJob {
        allocations: ["n1", "n2"].map(|node| NodeAllocation::new(node, Some(1))).to_vec(),
        ..listed("1", None, State::Running, 2, 300)
    };
    assert_eq!(start_with_memory(Vec::new(), 1_000), Some(NOW));
    // A processor of each node is free. The job ends at 1,290, and its processors rest for 5 s.
    assert_eq!(start_with_memory(vec![on_both], 1), Some(Time(1_295)));
    assert_eq!(
        start_with_memory(vec![listed("1", None, State::Running, 1, 300)], 1),
        Some(NOW),
        "n2 is free"
    );
    assert_eq!(start_with_memory(Vec::new(), 1_001), None);
}

#[test]
fn a_moldable_job_that_needs_memory_is_submitted_in_one_size() {
    let mut external = cluster(Vec::new());
    let memory = Some(Memory::PerProc(Mebibytes(1)));
    let needing = request(1).needing(Resources { memory, ..Resources::default() });
    let walltimes = needing.on(Procs(4), Speed::REFERENCE).unwrap();
    let submission = Submission::new(JOB, Procs(2), Span(200));
    let mut effects = Effects::default();
    let submission = Submission { resources: needing.resources.clone(), ..submission };
    external.submit_moldable(NOW, submission, &walltimes, &mut effects);
    let [Outer::External(Command::Queue(queue))] = effects.commands.as_slice() else {
        panic!("{:?}", effects.commands)
    };
    assert_eq!((queue.procs, queue.alternatives.len()), (Procs(2), 0));
}

#[test]
fn a_job_that_waits_for_licences_alone_takes_them_when_oar_starts_it() {
    let matlab = |count| BTreeMap::from([("matlab".to_owned(), count)]);
    let alone = |start| {
        let requested = listing::RequestedResources { licences: matlab(2), ..Default::default() };
        planned(start, ListedJob { requested, ..listed("9", None, State::Pending, 0, 300) })
    };
    let start_with = |jobs, count| {
        let mut external = cluster(vec![]);
        let counted =
            CountedResources { memory: false, default_memory: DefaultMemory::default(), licences: matlab(2) };
        let listing = Listing { counted, ..Listing::new(NOW, nodes(), jobs) };
        let changes = listing.changes(external.mirror().unwrap());
        deliver(&mut external, Event::Listed(changes));
        let resources = Resources { licences: matlab(count), ..Resources::default() };
        let request = Request { resources: Some(resources.into()), ..request(4) };
        let walltimes = request.on(Procs(4), Speed::REFERENCE).unwrap();
        external.estimate(NOW, None, &walltimes, Tuner::Exhaustive).unwrap().start
    };
    // The request runs for 100 s.
    assert_eq!(start_with(vec![alone(1_000)], 1), Time(1_305), "the pause after the job counts");
    assert_eq!(start_with(vec![alone(1_050)], 1), Time(1_355));
    assert_eq!(start_with(vec![alone(1_200)], 1), NOW);
    assert_eq!(start_with(vec![alone(1_000)], 0), NOW, "it has no processors");
}
