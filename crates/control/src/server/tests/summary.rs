//! The summary of a server bounds its answers, whatever the server's users and operators have done.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_model::{
    ClusterNodes, Constraint, GpuCount, GpuPoint, Gpus, Mebibytes, Memory, NodeGroup, Resources,
};
use pliant_policy::discovery::{BoundedRequest, GROUPS_MAX, Summary};
use proptest::prelude::*;

use super::*;
use crate::batch::embedded::HostResources;
use crate::server_info::ServerInfo;

/// A host of up to 16 processors in one or several nodes with memory and GPUs.
fn hosts() -> impl Strategy<Value = HostResources> {
    (1..5_u32, 1..5_u32, 1..9_u32, 0..3_u32).prop_map(|(count, procs, memory, gpus)| {
        let group = NodeGroup {
            count,
            procs: Procs(procs),
            memory: Mebibytes(memory * 1024),
            gpus,
            gpu_kind: Some("a100".to_owned()),
            scratch: Mebibytes(100),
            features: vec!["fast".to_owned()],
        };
        let licences = BTreeMap::from([("matlab".to_owned(), 1)]);
        let nodes = ClusterNodes { groups: vec![group], licences, default_memory: Mebibytes(256) };
        HostResources { nodes, gpus: (0..gpus).map(|gpu| gpu.to_string()).collect() }
    })
}

fn resources() -> impl Strategy<Value = Resources> {
    let memory = prop_oneof![
        (1..5_u32).prop_map(|gib| Memory::Total(Mebibytes(gib * 1024))),
        (1..5_u32).prop_map(|part| Memory::PerProc(Mebibytes(part * 256))),
    ];
    let gpus = (1..3_u32, any::<bool>()).prop_map(|(count, each)| {
        let count = if each { GpuCount::PerProc(count) } else { GpuCount::Total(count) };
        Gpus { count, kind: None }
    });
    let feature = prop::sample::select(vec!["fast", "slow"]);
    let constraint = feature.prop_map(|feature| Constraint::All(vec![feature.to_owned()]));
    let rare = |share| prop::option::weighted(share, Just(()));
    (
        prop::option::of(memory),
        prop::option::weighted(0.2, gpus),
        prop::option::weighted(0.3, 1..3_u32),
        prop::option::weighted(0.3, (1..6_u32).prop_map(Procs)),
        prop::option::weighted(0.2, constraint),
        (rare(0.2), rare(0.2)),
    )
        .prop_map(|(memory, gpus, nodes, procs_per_node, constraint, (exclusive, licence))| Resources {
            memory,
            gpus,
            nodes,
            procs_per_node,
            constraint,
            exclusive: exclusive.is_some(),
            licences: licence.map(|()| ("matlab".to_owned(), 1)).into_iter().collect(),
            ..Resources::default()
        })
}

fn speedups() -> impl Strategy<Value = Speedup> {
    let points = |points: &[(u32, u32, f64)]| {
        let point = |(procs, gpus, time): &(u32, u32, f64)| GpuPoint {
            procs: Procs(*procs),
            gpus: *gpus,
            time: *time,
        };
        Speedup::GpuTable(points.iter().map(point).collect())
    };
    prop_oneof![
        2 => Just(Speedup::Rigid),
        1 => Just(Speedup::Folding),
        2 => (0.3..1.0_f64, 1..30_u32)
            .prop_map(|(parallel, limit)| Speedup::Amdahl { parallel, limit: Procs(limit) }),
        1 => Just(Speedup::Downey { average_parallelism: 6.0, sigma: 0.7 }),
        1 => Just(Speedup::Table([(Procs(2), 1e300), (Procs(3), 9.0), (Procs(7), 4.0)].into())),
        1 => Just(points(&[(1, 0, 20.0), (1, 1, 4.0), (4, 0, 7.0), (4, 2, 1.0)])),
    ]
}

fn works() -> impl Strategy<Value = Work> {
    let resources = prop::option::weighted(0.4, resources());
    let begin = prop::option::weighted(0.2, 0..400_i64);
    let nice = prop_oneof![4 => Just(0), 1 => 1..3_u32];
    let instants = (begin, prop::option::weighted(0.2, 100..900_i64));
    (1..12_u32, 1..300_i64, speedups(), resources, any::<bool>(), instants, nice).prop_map(
        |(procs, walltime, speedup, resources, fixed_time, (begin, deadline), nice)| Work {
            fixed_time,
            resources: resources.filter(|resources| resources.check().is_ok()).map(Arc::new),
            begin: begin.map(Time),
            deadline: deadline.map(Time),
            nice,
            ..Work::new(Procs(procs), Span(walltime), speedup)
        },
    )
}

const USERS: [&str; 3] = ["alice", "bob", "carol"];

/// What happens at a server.
#[derive(Clone, Debug)]
enum Act {
    Submit(usize, Box<Work>),
    Wait(i64),
    End(usize),
    Cancel(usize),
    Prioritise(usize, i64),
    Ban(usize),
    Drain,
    Resume,
    Configure(Option<HostResources>),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        12 => (0..3_usize, works()).prop_map(|(user, work)| Act::Submit(user, Box::new(work))),
        4 => (0..120_i64).prop_map(Act::Wait),
        4 => any::<usize>().prop_map(Act::End),
        1 => any::<usize>().prop_map(Act::Cancel),
        1 => (any::<usize>(), -5..5_i64).prop_map(|(job, priority)| Act::Prioritise(job, priority)),
        1 => (0..3_usize).prop_map(Act::Ban),
        1 => Just(Act::Drain),
        2 => Just(Act::Resume),
        1 => prop::option::of(hosts()).prop_map(Act::Configure),
    ];
    prop::collection::vec(act, 0..40)
}

/// A job of those in memory.
fn chosen(bench: &Bench, at: usize) -> Option<u32> {
    let jobs: Vec<u32> = bench.server.jobs_after(0).map(|(number, _)| number).collect();
    jobs.get(at.checked_rem(jobs.len())?).copied()
}

impl Bench {
    fn carry_out(&mut self, number: usize, act: Act) {
        let (by, why) = (user("root"), String::new());
        match act {
            Act::Submit(owner, work) => {
                let key = Key([number as u8; 16]);
                let submit = Submit { key, owner: user(USERS[owner]), work: *work, ..rigid(0, 1, 1) };
                self.submit(submit);
            }
            Act::Wait(seconds) => {
                self.at(self.now.0 + seconds);
            }
            Act::End(at) => {
                if let Some(job) = chosen(self, at).filter(|job| self.state(*job) == JobState::Active) {
                    self.ended(job, Exit::Code(0));
                }
            }
            Act::Cancel(at) => {
                if let Some(job) = chosen(self, at) {
                    self.cancel(job, "root");
                }
            }
            Act::Prioritise(at, priority) => {
                if let Some(number) = chosen(self, at) {
                    self.deliver(Event::Prioritise { reply: Token(0), number, priority, by, why });
                }
            }
            Act::Ban(banned) => {
                self.deliver(Event::Ban { reply: Token(0), user: user(USERS[banned]), by, why });
            }
            Act::Drain => {
                self.deliver(Event::Drain { reply: Token(0), by, why });
            }
            Act::Resume => {
                self.deliver(Event::Resume { reply: Token(0), by, why });
            }
            Act::Configure(host) => {
                let ServerConfig { procs, policy, .. } = self.server.config().clone();
                let procs = host.as_ref().map_or(procs, |host| host.nodes.procs());
                let policy = if host.is_some() { "cbf".to_owned() } else { policy };
                self.deliver(Event::Configured { procs, policy, host: host.map(Arc::new) });
            }
        }
    }

    /// The completion that a user is offered.
    fn offered(&mut self, who: &str, work: &Work) -> Option<Time> {
        let info = ServerInfo {
            name: "lyon".parse().unwrap(),
            address: String::new(),
            rank: 0,
            procs: self.server.procs(),
            speed: self.server.config().speed,
            policy: String::new(),
            services: Vec::new(),
            scripts: true,
            optional_cores: 0,
            optional_per_core: 0,
        };
        let found = self.server.answer(self.now, &info, &user(who), work);
        found.vectors.first().map(|vector| vector.estimate.completion())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    /// No answer completes before the bound of the server's summary, alone or joined with that of a larger cluster, while no event happens.
    #[test]
    fn no_answer_is_better_than_the_bound_of_the_summary(
        policy in prop::sample::select(pliant_policy::batch::local_names()),
        procs in 1..16_u32,
        speed in prop_oneof![Just(1.0), 0.5..2.0],
        host in prop::option::of(hosts()),
        tuner in prop::sample::select(vec![Tuner::Exact, Tuner::default()]),
        acts in acts(),
        wait in 0..200_i64,
        asked in prop::collection::vec((0..3_usize, works()), 1..6),
    ) {
        let config = Bench::new("cbf", 1).server.config().clone();
        let procs = host.as_ref().map_or(Procs(procs), |host| host.nodes.procs());
        let speed = Speed::new(speed).unwrap();
        let policy = if host.is_some() { "cbf".to_owned() } else { policy };
        let waiting = WaitingLimits::of_jobs(100);
        let config = ServerConfig { procs, speed, policy, tuner, waiting, host: host.map(Arc::new), ..config };
        let server = Server::new(config, Time(100)).unwrap();
        let mut bench = Bench { server, now: Time(100), commands: Vec::new(), calls: 0 };
        for (number, act) in acts.into_iter().enumerate() {
            bench.carry_out(number, act);
            bench.at(bench.now.0);
        }
        let summary = bench.server.summary(bench.now);
        // Time passes until the next event at most.
        let due = bench.server.next_due().unwrap_or(Time::MAX);
        let ends = bench.server.running().map(|(job, ..)| job.started.unwrap() + job.walltime);
        let until = ends.fold(due, Time::min).max(bench.now);
        bench.now = (bench.now + Span(wait)).min(until);
        let mut larger = Bench::new("cbf", 500);
        let other = larger.server.summary(bench.now);
        let joined = Summary::joined([&summary, &other]);
        // So many that they are one group of those that are alike.
        let one = Summary::joined(std::iter::repeat_n(&other, GROUPS_MAX).chain([&summary]));
        for (who, work) in asked {
            let Some(completion) = bench.offered(USERS[who], &work) else { continue };
            let request = work.request(JobId(0), bench.now);
            let bounded = BoundedRequest::new(&request, bench.now, work.eligible(bench.now));
            let bounded = if work.deadline.is_some() { bounded.in_any_size() } else { bounded };
            for summary in [&summary, &joined, &one] {
                let bound = summary.completion_bound(&bounded);
                prop_assert!(bound <= completion, "bound {bound}, answer {completion} for {work:?}");
            }
        }
    }
}

#[test]
fn a_server_that_accepts_nothing_reports_no_clusters() {
    let mut bench = Bench::new("cbf", 4);
    assert_eq!(bench.server.summary(bench.now).groups.len(), 1);
    bench.carry_out(0, Act::Drain);
    assert_eq!(bench.server.summary(bench.now), Summary::default());
    bench.carry_out(0, Act::Resume);
    assert_eq!(bench.server.summary(bench.now).largest(), Procs(4));
}

/// A job on one node with few processors is too large for the larger of two joined clusters, and fits on the smaller one.
#[test]
fn joined_clusters_take_what_one_of_them_takes() {
    let mut bench = Bench::new("cbf", 4);
    let resources = Resources { nodes: Some(1), procs_per_node: Some(Procs(4)), ..Resources::default() };
    let speedup = Speedup::Amdahl { parallel: 1.0, limit: Procs(8) };
    let work = Work { resources: Some(Arc::new(resources)), ..Work::new(Procs(4), Span(60), speedup) };
    assert_eq!(bench.offered("alice", &work), Some(Time(160)));
    let summaries = [4, 64].map(|procs| Bench::new("cbf", procs).server.summary(Time(100)));
    let joined = Summary::joined(&summaries);
    let request = work.request(JobId(0), Time(100));
    let bounded = BoundedRequest::new(&request, Time(100), Time(100));
    assert_eq!(joined.completion_bound(&bounded), Time(130));
    let one = Summary::joined(std::iter::repeat_n(&summaries[1], GROUPS_MAX).chain([&summaries[0]]));
    assert_eq!((one.groups.len(), one.completion_bound(&bounded)), (2, Time(130)));
}
