//! Both speeds of the simulator agree (ARCHITECTURE.md): the state machines of `pliant-control` over a network without delays
//! give the schedule of the direct engine, job for job.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use pliant_control::agent::{self, Agent, AgentConfig};
use pliant_control::batch::Command as BatchCommand;
use pliant_control::replay::{JournalEvent, Machine, replay};
use pliant_control::server::{self, Answer, Server, ServerConfig};
use pliant_model::{ClusterId, Platform, Span, Speedup, Time};
use pliant_policy::discovery::ReportRule;
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::tuning::Tuner;
use pliant_sim::campaign::{Moldable, sim_jobs};
use pliant_sim::protocol::{
    Hierarchy, HierarchyError, Latency, Network, Node, ProtocolRun, Unsupported, Watcher, simulate_protocol,
    simulate_watched,
};
use pliant_sim::{NoObserver, Policies, SimError, SimJob, Ties, simulate};
use pliant_trace::{LoadOptions, generate, load};
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::{platform, speedups};

/// A job of one of four users or of an unknown user.
fn job(log_id: u64, submit: i64, procs: u32, walltime: i64, runtime: i64) -> SimJob {
    let mut one = common::job(log_id, submit, procs, walltime, runtime);
    one.job.user = log_id as i32 % 5 - 1;
    one
}

/// Platforms with frequent equal clusters, which give equal completions.
fn platforms() -> impl Strategy<Value = Platform> {
    let speed = prop_oneof![2 => Just(1.0), 1 => 0.5..2.0];
    let procs = prop_oneof![1 => Just(16_u32), 2 => 1..=24_u32];
    common::platforms(procs, speed, 6)
}

/// Workloads with many jobs at one instant, many that run their full walltime, and some too large for every cluster; some start
/// before the origin of time. With coarse times many jobs also end at one instant before their walltimes.
fn workloads() -> impl Strategy<Value = Vec<SimJob>> {
    let gap = prop_oneof![2 => Just(0_i64), 3 => 1..20_i64, 1 => 20..400_i64];
    let percent = prop_oneof![1 => Just(100_i64), 3 => 1..100_i64];
    let one = (gap, 1..28_u32, 1..300_i64, percent, speedups(), prop::bool::weighted(0.7), 0..8_u32);
    let first = prop_oneof![3 => Just(0_i64), 1 => -100..100_i64];
    (first, any::<bool>(), prop::collection::vec(one, 1..70)).prop_map(|(first, coarse, drawn)| {
        let mut submit = first;
        type Drawn = (i64, u32, i64, i64, Speedup, bool, u32);
        let sim_job = |(index, drawn): (usize, Drawn)| {
            let (mut gap, procs, mut walltime, mut percent, speedup, managed, origin) = drawn;
            if coarse {
                (gap, walltime, percent) = (gap / 10 * 10, walltime / 40 * 40 + 40, percent / 50 * 50 + 50);
                percent = percent.min(100);
            }
            submit += gap;
            let runtime = (walltime * percent / 100).max(1);
            let mut one = job(1000 + index as u64, submit, procs, walltime, runtime);
            one.job.origin = Some(ClusterId(origin));
            SimJob { speedup, managed, ..one }
        };
        drawn.into_iter().enumerate().map(sim_job).collect()
    })
}

/// A hierarchy with up to three levels below the master agent, drawn from a list of numbers.
fn hierarchy(platform: &Platform, shape: &[u8]) -> Hierarchy {
    let mut draws = shape.iter().copied().cycle();
    let mut draw = |below: u8| draws.next().unwrap_or(0) % below;
    let clusters: Vec<Node> = platform.ids().map(Node::Cluster).collect();
    let mut nodes = clusters;
    for _ in 0..draw(4) {
        let mut above: Vec<Node> = Vec::new();
        for node in nodes {
            match (draw(3), above.last_mut()) {
                // With its neighbour, attached to the parent, or under an agent of its own.
                (1, Some(Node::Agent(siblings))) => siblings.push(node),
                (2, _) => above.push(node),
                _ => above.push(Node::Agent(vec![node])),
            }
        }
        nodes = above;
    }
    if draw(4) == 0 {
        nodes.push(Node::Agent(Vec::new()));
    }
    Hierarchy::new(nodes)
}

fn hierarchies() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..40)
}

fn policies() -> impl Strategy<Value = Policies> {
    let ties = prop_oneof![Just(Ties::FinishFirst), Just(Ties::SubmitFirst)];
    let algorithm = select(&[Algorithm::Regular, Algorithm::Siblings][..]);
    let reallocation = (algorithm, select(Heuristic::ALL), 1..300_i64, 1..90_i64, 1..30_usize);
    (select(Tuner::ALL), ties, prop::option::of(reallocation)).prop_map(|(tuner, ties, reallocation)| {
        let reallocation = reallocation.map(|(algorithm, heuristic, period, threshold, window)| {
            let (period, threshold) = (Span(period), Span(threshold));
            Reallocation { algorithm, heuristic, period, threshold, window }
        });
        Policies { tuner, ties, reallocation, ..Policies::default() }
    })
}

/// Every change of a summary is reported at once.
const FRESH: ReportRule = ReportRule { every: Span(0), least_change: Span(0) };

/// Checks that both speeds give the same run; returns that of the protocol.
fn check(platform: &Platform, hierarchy: &Hierarchy, jobs: &[SimJob], policies: &Policies) -> ProtocolRun {
    let direct = simulate(platform, jobs, policies, &mut NoObserver).unwrap();
    let protocol = simulate_protocol(platform, hierarchy, jobs, policies, &Network::default()).unwrap();
    let other = protocol.run.jobs.iter().zip(&direct.jobs).find(|(one, other)| one != other);
    assert_eq!(other, None, "the outcomes (protocol, direct) differ");
    assert_eq!(protocol.run, direct);
    assert_eq!(protocol.unplaced, []);
    protocol
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_speeds_agree_job_for_job(
        platform in platforms(), jobs in workloads(), policies in policies(), shape in hierarchies(),
    ) {
        check(&platform, &hierarchy(&platform, &shape), &jobs, &policies);
    }
}

/// The month of `pliant demo` on three clusters, with a flat and a deep hierarchy.
#[test]
fn both_speeds_agree_on_a_generated_month() {
    let platform = pliant_trace::platform::built_in("grid5000").unwrap().with_batch("cbf");
    let jobs = generate::grid5000(generate::month("june").unwrap(), 1).jobs;
    let jobs = sim_jobs(jobs, Moldable::Paper, 1.0, 1);
    assert_eq!(jobs.len(), 9_182);
    let by_height = [(1, Hierarchy::flat(&platform)), (3, Hierarchy::regular(&platform, 2, 3))];
    for (levels, hierarchy) in by_height {
        let run = check(&platform, &hierarchy, &jobs, &Policies::default());
        assert_eq!((run.run.jobs.len(), run.traffic.servers), (jobs.len(), 0));
        for heuristic in [Heuristic::Mct, Heuristic::MinMin] {
            let reallocation = Some(Reallocation::new(Algorithm::Regular, heuristic));
            let moved =
                check(&platform, &hierarchy, &jobs, &Policies { reallocation, ..Policies::default() });
            // A move has a prepare and a commit, each with an answer.
            assert!(moved.run.reallocations > 100, "{heuristic}: {}", moved.run.reallocations);
            assert_eq!(moved.traffic.servers, 4 * moved.run.reallocations, "{heuristic}");
        }
        let network = Network { summaries: Some(FRESH), ..Network::default() };
        let bounded =
            simulate_protocol(&platform, &hierarchy, &jobs, &Policies::default(), &network).unwrap();
        assert_eq!(bounded.run, run.run, "summaries on {levels} levels");
        let siblings = Some(Reallocation::new(Algorithm::Siblings, Heuristic::Mct));
        let policies = Policies { reallocation: siblings, ..Policies::default() };
        let with_siblings = check(&platform, &hierarchy, &jobs[..2_000], &policies);
        assert!(with_siblings.run.reallocations > 50, "{}", with_siblings.run.reallocations);
        let jobs = jobs.len() as u64;
        assert_eq!((run.traffic.clients_agent, run.traffic.clients_servers), (2 * jobs, 2 * jobs));
        assert_eq!(run.traffic.hierarchy.len(), levels);
    }
}

/// The first jobs of a real log, on its own machine and a smaller, faster one.
#[test]
fn both_speeds_agree_on_a_real_log() {
    let Some(log) = pliant_testing::log("KTH-SP2-1996-2.1-cln.swf.gz") else { return };
    let mut jobs = load(&log, &LoadOptions::default()).unwrap().jobs;
    jobs.truncate(4_000);
    for (batch, moldable) in [("cbf", Moldable::Paper), ("easy", Moldable::None), ("h1", Moldable::None)] {
        let platform = platform([(100, 1.0, batch), (40, 1.3, batch)]);
        let jobs = sim_jobs(jobs.clone(), moldable, 1.0, 1);
        let run = check(&platform, &Hierarchy::flat(&platform), &jobs, &Policies::default());
        assert_eq!((run.run.jobs.len(), run.run.refused.len()), (4_000, 0), "{batch}");
    }
}

/// The events and commands of a daemon without queries, as a live daemon journals them.
struct Journal<M: Machine> {
    events: Vec<JournalEvent<M::Event>>,
    commands: Vec<Vec<M::Command>>,
    /// The last event belonged to a query.
    is_question: bool,
}

impl<M: Machine> Default for Journal<M> {
    fn default() -> Self {
        Journal { events: Vec::new(), commands: Vec::new(), is_question: false }
    }
}

impl<M: Machine<Command: Clone>> Journal<M> {
    fn record_event(&mut self, at: Time, event: &M::Event) {
        self.is_question = M::is_question(event);
        if !self.is_question {
            self.events.push(JournalEvent { at, event: event.clone() });
        }
    }

    fn record_commands(&mut self, commands: &[M::Command]) {
        let lasting = || commands.iter().filter(|command| !M::is_of_question(command));
        if self.is_question {
            assert_eq!(lasting().count(), 0, "a query must not cause a command that is journaled");
        } else {
            self.commands.push(lasting().cloned().collect());
        }
    }
}

/// Records the journals of all daemons.
#[derive(Default)]
struct Recorder {
    origin: Time,
    agent_configs: Vec<AgentConfig>,
    server_configs: Vec<ServerConfig>,
    agents: Vec<Journal<Agent>>,
    servers: Vec<Journal<Server>>,
}

impl Watcher for Recorder {
    fn begin(&mut self, origin: Time, agents: &[AgentConfig], servers: &[ServerConfig]) {
        self.origin = origin;
        (self.agent_configs, self.server_configs) = (agents.to_vec(), servers.to_vec());
        self.agents.extend(agents.iter().map(|_| Journal::default()));
        self.servers.extend(servers.iter().map(|_| Journal::default()));
    }

    fn agent_event(&mut self, now: Time, agent: usize, event: &agent::Event) {
        self.agents[agent].record_event(now, event);
    }

    fn agent_commands(&mut self, _now: Time, agent: usize, commands: &[agent::Command]) {
        self.agents[agent].record_commands(commands);
    }

    fn server_event(&mut self, now: Time, server: usize, event: &server::Event) {
        self.servers[server].record_event(now, event);
    }

    fn server_commands(&mut self, _now: Time, server: usize, commands: &[server::Command]) {
        self.servers[server].record_commands(commands);
    }
}

impl Recorder {
    /// Counts the jobs that the servers accepted and ran, and checks that none was accepted or run twice.
    fn accepted_and_ran(&self) -> (usize, usize) {
        let (mut accepted, mut ran) = (BTreeMap::new(), BTreeSet::new());
        for (server, journal) in self.servers.iter().enumerate() {
            for command in journal.commands.iter().flatten() {
                match command {
                    server::Command::Reply { answer: Answer::Accepted(record), .. } => {
                        // A client that repeats its submission gets the same job.
                        let before = accepted.insert(record.key, record.handle.clone());
                        let twice = before.filter(|before| *before != record.handle);
                        assert_eq!(twice, None, "{} was accepted twice", record.handle);
                    }
                    server::Command::Batch(BatchCommand::Run(run)) => {
                        assert!(
                            ran.insert((server, run.job)),
                            "job {} of server {server} ran twice",
                            run.job
                        );
                    }
                    _ => {}
                }
            }
        }
        (accepted.len(), ran.len())
    }
}

fn latencies() -> impl Strategy<Value = Latency> {
    prop_oneof![
        1 => Just(Latency::Constant { seconds: 0 }),
        2 => (1..100_u32).prop_map(|seconds| Latency::Constant { seconds }),
        3 => (0..50_u32, 1..200_u32).prop_map(|(least, spread)| Latency::Drawn { least, spread }),
    ]
}

fn report_rules() -> impl Strategy<Value = ReportRule> {
    let rule = |(every, least)| ReportRule { every: Span(every), least_change: Span(least) };
    (0..30_i64, 0..60_i64).prop_map(rule)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// With summaries that are never stale, agents find what they would if they asked all children.
    #[test]
    fn with_fresh_summaries_both_speeds_agree_job_for_job(
        platform in platforms(), jobs in workloads(), policies in policies(), shape in hierarchies(),
    ) {
        let direct = simulate(&platform, &jobs, &policies, &mut NoObserver).unwrap();
        let hierarchy = hierarchy(&platform, &shape);
        let network = Network { summaries: Some(FRESH), ..Network::default() };
        let protocol = simulate_protocol(&platform, &hierarchy, &jobs, &policies, &network).unwrap();
        prop_assert_eq!(protocol.run, direct);
    }

    /// Queries are not in the journals: they change no persistent state.
    #[test]
    fn a_replayed_journal_gives_the_same_commands(
        platform in platforms(), jobs in workloads(), policies in policies(), shape in hierarchies(), latency in latencies(),
        summaries in prop::option::of(report_rules()),
    ) {
        let (hierarchy, jobs) = (hierarchy(&platform, &shape), jobs);
        let network = Network { latency, seed: 5, summaries, ..Network::default() };
        let mut seen = Recorder::default();
        simulate_watched(&platform, &hierarchy, &jobs, &policies, &network, &mut seen).unwrap();
        for (config, journal) in seen.agent_configs.into_iter().zip(seen.agents) {
            prop_assert_eq!(replay(&mut Agent::new(config), journal.events), journal.commands);
        }
        for (config, journal) in seen.server_configs.into_iter().zip(seen.servers) {
            let mut server = Server::new(config, seen.origin).unwrap();
            prop_assert_eq!(replay(&mut server, journal.events), journal.commands);
        }
    }

    #[test]
    fn over_a_slow_network_with_crashing_clients_every_accepted_job_runs_exactly_once(
        platform in platforms(), jobs in workloads(), policies in policies(), shape in hierarchies(),
        latency in latencies(), crashes in 0..60_u8, seed in any::<u64>(), summaries in prop::option::of(report_rules()),
    ) {
        let (hierarchy, jobs) = (hierarchy(&platform, &shape), jobs);
        let network = Network { latency, crashes, seed, summaries };
        let mut seen = Recorder::default();
        let delayed = simulate_watched(&platform, &hierarchy, &jobs, &policies, &network, &mut seen).unwrap();
        prop_assert_eq!(&delayed.unplaced, &[]);
        let direct = simulate(&platform, &jobs, &policies, &mut NoObserver).unwrap();
        prop_assert_eq!(&delayed.run.refused, &direct.refused);
        prop_assert_eq!(delayed.run.jobs.len(), direct.jobs.len());
        prop_assert_eq!(seen.accepted_and_ran(), (direct.jobs.len(), direct.jobs.len()));
        // A query and its answer through the agent, then the submission.
        let least = match latency {
            Latency::Constant { seconds } => Span(i64::from(seconds)),
            Latency::Drawn { least, .. } => Span(i64::from(least)),
        };
        for (ran, direct) in delayed.run.jobs.iter().zip(&direct.jobs) {
            prop_assert_eq!((ran.log_id, ran.submit, ran.managed), (direct.log_id, direct.submit, direct.managed));
            let messages = if ran.managed { 5 } else { 1 };
            prop_assert!(ran.wait() >= Span(messages * least.0), "{:?}", ran);
        }
        let again = simulate_protocol(&platform, &hierarchy, &jobs, &policies, &network).unwrap();
        prop_assert_eq!(again, delayed, "the same seed gave another run");
    }
}

/// One job on two clusters: the messages over each link.
#[test]
fn messages_are_counted_by_level() {
    let platform = platform([(4, 1.0, "cbf"), (4, 1.0, "cbf")]);
    let jobs = [job(1, 0, 2, 100, 100)];
    let check = |hierarchy: Hierarchy, expected: &[u64]| {
        let traffic = check(&platform, &hierarchy, &jobs, &Policies::default()).traffic;
        assert_eq!((traffic.clients_agent, traffic.clients_servers), (2, 2));
        assert_eq!(traffic.hierarchy, expected);
    };
    // Two attachments and their acknowledgements, two queries and answers, and three updates with acknowledgements.
    check(Hierarchy::flat(&platform), &[4 + 4 + 6]);
    // Each local agent attaches once more for its server.
    check(Hierarchy::regular(&platform, 2, 2), &[4 + 4 + 6, 4 + 4 + 6]);
    check(Hierarchy::regular(&platform, 1, 2), &[4 + 2 + 6, 4 + 4 + 6]);
}

#[test]
fn unsupported_policies_are_refused() {
    let platform = platform([(4, 2.0, "cbf"), (4, 1.0, "cbf")]);
    let jobs = [job(1, 0, 2, 100, 100), job(2, 5, 2, 100, 100)];
    let run = |hierarchy: Hierarchy, jobs: &[SimJob], policies: Policies| {
        simulate_protocol(&platform, &hierarchy, jobs, &policies, &Network::default()).unwrap_err()
    };
    let flat = || Hierarchy::flat(&platform);
    for mapping in [Mapping::Random, Mapping::Given] {
        let error = run(flat(), &jobs, Policies { mapping, ..Policies::default() });
        assert_eq!(error, SimError::Protocol(Unsupported::Mapping(mapping)));
    }
    let partial = Hierarchy::new(vec![Node::Cluster(ClusterId(1))]);
    let error = run(partial, &jobs, Policies::default());
    assert_eq!(error, SimError::Hierarchy(HierarchyError::Missing(ClusterId(0))));
    let unsorted = [jobs[1].clone(), jobs[0].clone()];
    assert_eq!(run(flat(), &unsorted, Policies::default()), SimError::Unsorted(1));
    let unknown = platform.with_batch("nobody");
    let error = simulate_protocol(&unknown, &flat(), &jobs, &Policies::default(), &Network::default());
    assert!(matches!(error, Err(SimError::Batch(_))), "{error:?}");
}
