//! The target partition: the configured or the default one, its limits, and refusals.

use crate::payload::Payload;
use pliant_model::Speed;

use super::*;
use crate::job::Work;
use crate::listing::Partition;
use crate::names::Key;
use crate::names::Token;
use crate::reason::{Cause, DiscoverySummary};
use crate::server::{self, AdmissionRefusal, Answer, Server, ServerConfig, Submit, WaitingLimits};

fn partition(name: &str) -> Partition {
    Partition { name: name.to_owned(), is_default: name == "main", ..Partition::default() }
}

/// Two nodes of four cores in `main`, the second of them also in `night`, and one of eight in `large`.
fn listing(partitions: Vec<Partition>) -> Listing {
    let mut nodes = vec![node("n1", 4), node("n2", 4), node("n3", 8)];
    nodes[1].partitions.push("night".to_owned());
    nodes[2].partitions = vec!["large".to_owned()];
    Listing { partitions, ..Listing::new(Time(10), nodes, vec![]) }
}

fn all() -> Vec<Partition> {
    vec![partition("large"), partition("main"), partition("night")]
}

fn server(partition: Option<&str>, listing: Option<&Listing>) -> Server {
    let config = ServerConfig {
        name: "lyon".parse().unwrap(),
        address: "lyon:1".to_owned(),
        procs: Procs(0),
        speed: Speed::REFERENCE,
        policy: SLURM.to_owned(),
        tuner: Tuner::Exact,
        waiting: WaitingLimits::of_jobs(10),
        host: None,
    };
    let mut server = Server::new(config, Time(0)).unwrap();
    let configured = Event::Configured {
        interval: Span(30),
        partition: partition.map(str::to_owned),
        expect: Expect::Limits,
    };
    let changes = listing.map(|listing| Event::Listed(listing.changes(&Listing::default())));
    for event in [configured].into_iter().chain(changes) {
        server.on(Time(10), server::Event::Batch(batch::Event::External(event)), &mut Vec::new());
    }
    server
}

fn refused(server: &mut Server, procs: u32, walltime_s: i64, speedup: Speedup) -> Option<AdmissionRefusal> {
    let submit = Submit {
        key: Key((u128::from(procs) << 64 | walltime_s as u128).to_be_bytes()),
        owner: "ann".parse().unwrap(),
        name: "job".to_owned(),
        work: Work::new(Procs(procs), Span(walltime_s), speedup),
        own_time: false,
        pinned: false,
        latest: None,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        payload: Payload::default(),
        sample: None,
        claim: None,
    };
    let mut commands = Vec::new();
    let event = server::Event::Submit { reply: Token(1), submit: Box::new(submit) };
    server.on(Time(10), event, &mut commands);
    commands.into_iter().find_map(|command| match command {
        server::Command::Reply { answer: Answer::Refused(refused), .. } => Some(refused),
        _ => None,
    })
}

#[test]
fn without_a_configured_partition_the_default_one_counts() {
    let check = |named: Option<&str>, partitions: Vec<Partition>, procs: u32| {
        let server = server(named, Some(&listing(partitions)));
        assert_eq!(server.procs(), Procs(procs), "{named:?}");
    };
    check(None, all(), 8);
    check(Some("night"), all(), 4);
    check(Some("large"), all(), 8);
    check(Some("gone"), all(), 0);
    check(None, vec![partition("large")], 0);
    // A listing without partitions.
    check(None, vec![], 16);
    check(Some("night"), vec![], 4);
}

#[test]
fn jobs_of_other_partitions_are_not_planned() {
    let mut bench = Bench::new();
    bench.deliver(Event::Configured { interval: Span(30), partition: None, expect: Expect::Limits });
    let waiting = |partition: &str| ListedJob {
        partition: partition.to_owned(),
        shape: CoreLayout { cores: 8, ..CoreLayout::default() },
        ..listed("9", None, State::Pending)
    };
    for (partition, planned) in [("large", 0), ("main", 1), ("large,main", 1)] {
        let jobs = vec![waiting(partition)];
        let next = Listing { jobs, at: bench.now + Span(1), ..listing(all()) };
        let changes = next.changes(&bench.listing);
        bench.listing = next;
        bench.deliver(Event::Listed(changes));
        assert_eq!(bench.external.waiting(bench.now).len(), planned, "{partition}");
    }
}

#[test]
fn jobs_beyond_the_limits_of_a_partition_are_refused() {
    let limited = Partition { walltime: Some(Span(600)), nodes: Some(1), ..partition("main") };
    let mut lyon = server(None, Some(&listing(vec![limited])));
    assert_eq!(refused(&mut lyon, 4, 600, Speedup::Rigid), None);
    let too_long = AdmissionRefusal::TooLong { walltime: Span(601), most: Span(600) };
    assert_eq!(refused(&mut lyon, 4, 601, Speedup::Rigid), Some(too_long));
    // Two nodes have them; the partition allows one.
    let too_large = AdmissionRefusal::TooLarge { needed: Procs(5), available: Procs(4) };
    assert_eq!(refused(&mut lyon, 5, 60, Speedup::Rigid), Some(too_large));
    // 1200 s on one core, 300 s on four.
    let linear = Speedup::Amdahl { parallel: 1.0, limit: Procs(4) };
    let work = Work::new(Procs(1), Span(1200), linear);
    let found = lyon.estimate(Time(10), &work).unwrap();
    assert!(found.walltime <= Span(600) && found.procs <= Procs(4), "{found:?}");
}

#[test]
fn a_closed_partition_gives_its_reason() {
    let check = |named: Option<&str>, listing: Option<&Listing>, expected: &str| {
        let mut server = server(named, listing);
        let refused = refused(&mut server, 1, 60, Speedup::Rigid).unwrap();
        assert_eq!((refused.cause(), refused.to_string().as_str()), (Cause::BatchSystem, expected));
    };
    check(None, None, "the batch system has not answered yet");
    let down = Partition { closed: Some("down".to_owned()), ..partition("main") };
    check(None, Some(&listing(vec![down])), "partition main is down");
    check(Some("gone"), Some(&listing(all())), "the batch system has no partition gone");
    let none = "the batch system has no default partition, and the server's file names none";
    check(None, Some(&listing(vec![partition("large")])), none);
}

#[test]
fn the_early_end_of_a_local_job_frees_processors() {
    let mut server = server(None, Some(&listing(all())));
    let mut freed_by = |jobs: Vec<ListedJob>, before: &Listing, at: i64| {
        let next = Listing { partitions: all(), ..Listing::new(Time(at), listing(all()).nodes, jobs) };
        let event = server::Event::Batch(batch::Event::External(Event::Listed(next.changes(before))));
        let mut commands = Vec::new();
        server.on(Time(at), event, &mut commands);
        let freed = commands.iter().filter(|command| **command == server::Command::Freed).count();
        (next, freed)
    };
    // Both started at 50 with a time limit of 600 s.
    let runs = |id: &str| listed(id, None, State::Running);
    let (first, freed) = freed_by(vec![runs("1"), runs("2")], &listing(all()), 60);
    assert_eq!(freed, 0);
    let (second, freed) = freed_by(vec![runs("2")], &first, 300);
    assert_eq!(freed, 1, "one job has ended early");
    assert_eq!(freed_by(vec![], &second, 700).1, 0, "the other one at its time limit");
}

#[test]
fn no_job_is_planned_in_a_partition_that_is_down() {
    let mut bench = Bench::queued(false);
    let mut plan = |stopped| {
        let mut next = Listing::new(
            bench.now + Span(1),
            vec![node("n1", 4)],
            vec![listed("41", Some(7), State::Pending)],
        );
        next.partitions = vec![Partition { stopped, ..partition("main") }];
        let changes = next.changes(&bench.listing);
        bench.listing = next;
        bench.deliver(Event::Listed(changes));
        let now = bench.now;
        bench.external.plan(now, JOB)
    };
    assert!(plan(false).is_some());
    assert_eq!(plan(true), None);
    assert!(plan(false).is_some());
}

#[test]
fn nodes_of_an_exclusive_partition_have_one_job_each() {
    let exclusive = Partition { exclusive: true, ..partition("main") };
    for (partition, starts) in [(exclusive, [0, 0, 1]), (partition("main"), [0, 0, 0])] {
        let next = listing(vec![partition]);
        let mut external = External::new();
        external.on(
            Time(10),
            batch::Event::External(Event::Listed(next.changes(&Listing::default()))),
            &mut Effects::default(),
        );
        let later: Vec<i64> = (1..=3)
            .map(|number| {
                let submission = Submission::new(JobId(number), Procs(1), Span(60));
                external.submit(Time(10), submission, &mut Effects::default());
                i64::from(external.plan(Time(11), JobId(number)).unwrap().start > Time(11))
            })
            .collect();
        assert_eq!(later, starts);
    }
}
