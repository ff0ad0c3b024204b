//! The target partition: the configured or the default one, its limits, and refusals.

use crate::payload::Payload;
use pliant_model::{BatchOptions, Resources, Speed};

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
    configured(Event::configured(Span(30), partition.map(str::to_owned), Expect::Limits), listing)
}

fn configured(configured: Event, listing: Option<&Listing>) -> Server {
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
    let changes = listing.map(|listing| Event::Listed(listing.changes(&Listing::default())));
    for event in [configured].into_iter().chain(changes) {
        server.on(Time(10), server::Event::Batch(batch::Event::External(event)), &mut Vec::new());
    }
    server
}

fn submit(work: Work) -> Submit {
    Submit {
        key: Key([0; 16]),
        owner: "ann".parse().unwrap(),
        name: "job".to_owned(),
        work,
        own_time: false,
        pinned: false,
        latest: None,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        payload: Payload::default(),
        sample: None,
        claim: None,
    }
}

fn refused(server: &mut Server, procs: u32, walltime_s: i64, speedup: Speedup) -> Option<AdmissionRefusal> {
    let key = Key((u128::from(procs) << 64 | walltime_s as u128).to_be_bytes());
    let submit = Submit { key, ..submit(Work::new(Procs(procs), Span(walltime_s), speedup)) };
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
    bench.deliver(Event::configured(Span(30), None, Expect::Limits));
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

/// A server whose jobs may name `large` and `night`; those that name none are in `main` or in what is compared with it.
fn choosing(more: &[&str], listing: &Listing) -> Server {
    let words = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<String>>();
    let event = Event::Configured {
        interval: Span(30),
        partition: None,
        more_partitions: words(more),
        allowed: AllowedOptions {
            partitions: words(&["large", "night", "main"]),
            accounts: words(&["p1"]),
            ..AllowedOptions::default()
        },
        expect: Expect::Limits,
    };
    configured(event, Some(listing))
}

/// The work of a rigid job that names these partitions and this account.
fn named(procs: u32, partitions: &[&str], account: Option<&str>) -> Work {
    let batch = BatchOptions {
        partitions: partitions.iter().map(ToString::to_string).collect(),
        account: account.map(str::to_owned),
        qos: None,
    };
    let resources = Some(Resources { batch, ..Resources::default() }.into());
    Work { resources, ..Work::new(Procs(procs), Span(600), Speedup::Rigid) }
}

/// A local user's job that takes all of `main` from 50 to 650.
fn busy() -> Listing {
    let on = ["n1", "n2"].map(|node| NodeAllocation::new(node, Some(4))).to_vec();
    let shape = CoreLayout { cores: 8, ..CoreLayout::default() };
    let job = ListedJob { allocations: on, shape, ..super::listed("40", None, State::Running) };
    Listing { jobs: vec![job], ..listing(all()) }
}

fn queue(server: &mut Server, number: u8, work: Work) -> Result<Queue, AdmissionRefusal> {
    let mut commands = Vec::new();
    let submit = Submit { key: Key([number; 16]), ..submit(work) };
    let submit = server::Event::Submit { reply: Token(u64::from(number)), submit: Box::new(submit) };
    server.on(Time(11), submit, &mut commands);
    let queued = commands.iter().find_map(|command| match command {
        server::Command::Batch(batch::Command::External(Command::Queue(queue))) => Some(queue.clone()),
        _ => None,
    });
    let refused = || {
        commands.iter().find_map(|command| match command {
            server::Command::Reply { answer: Answer::Refused(why), .. } => Some(why.clone()),
            _ => None,
        })
    };
    queued.ok_or_else(|| refused().unwrap())
}

#[test]
fn a_job_names_its_partition_and_account_if_the_operator_allows_it() {
    let mut server = choosing(&[], &busy());
    let in_large = queue(&mut server, 1, named(8, &["large"], Some("p1"))).unwrap();
    assert_eq!(in_large.partition.as_deref(), Some("large"));
    assert_eq!(in_large.resources.unwrap().batch.account.as_deref(), Some("p1"));
    let own = queue(&mut server, 2, named(1, &["main"], None)).unwrap();
    assert_eq!(own.partition, None, "it is the server's own one");
    for (number, work, why) in [
        (3, named(1, &["debug"], None), "jobs may not name partition debug here"),
        (4, named(1, &[], Some("p2")), "jobs may not name account p2 here; allowed accounts: p1"),
        (5, named(9, &["large"], None), "9 processors"),
    ] {
        let refused = queue(&mut server, number, work).unwrap_err().reason().to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn of_several_partitions_a_job_is_in_the_one_where_it_completes_first() {
    let mut server = choosing(&[], &busy());
    // One of four cores in `night` is free at once in no case, since `main` has its only node.
    let first = queue(&mut server, 1, named(4, &["night", "large"], None)).unwrap();
    assert_eq!(first.partition.as_deref(), Some("large"));
    let second = queue(&mut server, 2, named(8, &["night", "large"], None)).unwrap();
    assert_eq!(second.partition.as_deref(), Some("large"), "it fits nowhere else");
    // `large` is promised to the second from 611 to 1211, and the node of `night` is free at 650.
    let third = queue(&mut server, 3, named(4, &["night", "large"], None)).unwrap();
    assert_eq!(third.partition.as_deref(), Some("night"));
    let fourth = queue(&mut server, 4, named(4, &["night", "large"], None)).unwrap();
    assert_eq!(fourth.partition.as_deref(), Some("large"), "before the third ends");
}

#[test]
fn jobs_that_name_none_are_compared_in_all_that_the_operator_lists() {
    let work = || Work::new(Procs(4), Span(600), Speedup::Rigid);
    let mut alone = choosing(&[], &busy());
    assert_eq!(alone.estimate(Time(11), &work()).unwrap().start, Time(650));
    let mut choosing = choosing(&["large"], &busy());
    assert_eq!(choosing.estimate(Time(11), &work()).unwrap().start, Time(11));
    // Two at once in `large`, and two behind them at 611; then `main` is free earlier, at 650.
    for number in 1..=4 {
        assert_eq!(queue(&mut choosing, number, work()).unwrap().partition.as_deref(), Some("large"));
    }
    assert_eq!(queue(&mut choosing, 5, work()).unwrap().partition, None);
    let starts = [1, 2, 3, 4, 5].map(|number| choosing.job(number).unwrap().expected.start);
    assert_eq!(starts, [11, 11, 611, 611, 650].map(Time));
}

#[test]
fn a_partition_that_is_closed_leaves_the_others() {
    let shut = Partition { closed: Some("down".to_owned()), ..partition("main") };
    let mut listing = listing(vec![partition("large"), shut, partition("night")]);
    listing.at = Time(10);
    let mut server = choosing(&["large"], &listing);
    let queued = queue(&mut server, 1, Work::new(Procs(1), Span(60), Speedup::Rigid)).unwrap();
    assert_eq!(queued.partition.as_deref(), Some("large"));
    let refused = queue(&mut server, 2, named(1, &["main"], None)).unwrap_err().reason().to_string();
    assert!(refused.contains("partition main is down"), "{refused}");
}

#[test]
fn a_partition_that_is_too_small_for_a_job_is_not_chosen() {
    let small = Partition { nodes: Some(1), ..partition("main") };
    let mut server = choosing(&[], &listing(vec![partition("large"), small, partition("night")]));
    // Both are idle, and the first has eight cores, of which a job may have four.
    let queued = queue(&mut server, 1, named(5, &["main", "large"], None)).unwrap();
    assert_eq!(queued.partition.as_deref(), Some("large"));
}

#[test]
fn a_job_that_may_start_later_is_where_it_starts_then() {
    let mut server = choosing(&[], &busy());
    let later = Work { begin: Some(Time(5000)), ..named(4, &["main", "large"], None) };
    assert_eq!(queue(&mut server, 1, later).unwrap().partition, None, "both are free by then");
}

#[test]
fn needs_that_no_node_has_that_is_up_may_pass() {
    let mut listing = listing(all());
    listing.nodes[2].unusable = Some("down".to_owned());
    let mut server = choosing(&[], &listing);
    let refused = queue(&mut server, 1, named(1, &["large"], Some("p1"))).unwrap_err().reason();
    assert_eq!(refused.cause, Cause::BatchSystem, "{refused}");
}
