//! Reallocation cycles with silent servers, and of several masters.

use pliant_model::{MoveReason, Procs, Speedup};
use pliant_policy::batch::Dump;
use pliant_policy::reallocation::Heuristic;
use pliant_policy::tuning::Tuner;

use super::*;
use crate::agent::tests::{info, name};
use crate::agent::{AgentConfig, ChildKind, Event};
use crate::job::Work;
use crate::masters::Masters;
use crate::names::Key;
use crate::server_info::ServerInfo;

fn proposal(from: &str, to: &str) -> (ProposedMove, MoveProposal) {
    let (job, from, to) = (Handle { server: name("a"), number: 1 }, name(from), name(to));
    let expected = Estimate { procs: Procs(1), walltime: Span(10), start: Time(0) };
    let proposal = MoveProposal {
        job: job.clone(),
        to: to.clone(),
        address: String::new(),
        expected,
        gain: None,
        reason: MoveReason::EarlierCompletion,
        timeout: TIMEOUT,
        sibling: false,
    };
    (ProposedMove { job, from, to, before: Time(20), expected, sibling: false, outcome: None }, proposal)
}

/// Runs a cycle of these proposals, in which every query gets this outcome or no answer; returns the queried servers.
fn asked(proposals: &[(&str, &str)], outcome: Option<MoveOutcome>) -> Vec<Name> {
    let config = AgentConfig { name: name("root"), root: true, timeout: Span(5), reallocation: None };
    let mut agent = Agent::new(config);
    let mut commands = Vec::new();
    for child in ["a", "b", "c"].map(name) {
        let servers = vec![info(child.as_str())];
        let event = Event::Attached { child, kind: ChildKind::Server, journal: 1, servers };
        agent.on(Time(0), event, &mut commands);
    }
    agent.cycle = Some(ReallocationCycle {
        reply: Some(Token(1)),
        dry_run: false,
        policy: Reallocation::new(Algorithm::Regular, Heuristic::Mct),
        again: false,
        left: Some(proposals.iter().map(|(from, to)| proposal(from, to)).collect()),
        current: None,
        silent: BTreeSet::new(),
        report: ReallocationReport::default(),
    });
    let mut asked = Vec::new();
    agent.propose_next(Time(0), &mut commands);
    while let Some(command) = commands.pop() {
        match command {
            Command::Query { child, query, .. } => {
                assert!(matches!(query.subject, DiscoverySubject::Move(_)));
                asked.push(child);
                let found = DiscoveryResult { outcome: outcome.clone(), ..DiscoveryResult::default() };
                agent.handle_cycle_answer(Time(0), found, &mut commands);
            }
            Command::ReportReallocation { report, .. } => {
                let outcome = Some(outcome.unwrap_or(MoveOutcome::Stays(StayReason::NoAnswer)));
                assert_eq!(report.proposals.len(), proposals.len());
                assert!(report.proposals.iter().all(|one| one.outcome == outcome));
                return asked;
            }
            _ => {}
        }
    }
    panic!("the cycle has no end")
}

#[test]
fn a_master_moves_the_jobs_of_its_own_users_only() {
    let masters = Masters::new(["north", "south"].map(name));
    let users: Vec<User> = (0..20).map(|number| format!("user{number}").parse().unwrap()).collect();
    let mut moved_by_any = 0;
    for master in ["north", "south"].map(name) {
        let config = AgentConfig { name: master.clone(), root: true, timeout: Span(5), reallocation: None };
        let share = masters.share(&master);
        let mut agent = Agent::new(config).with_share(share.clone());
        let movable = users.iter().zip(1..).map(|(user, number)| Movable {
            job: Handle { server: name("a"), number },
            number,
            key: Key([0; 16]),
            submitted: Time(0),
            owner: user.owner(),
            work: Work::new(Procs(1), Span(10), Speedup::Rigid),
            moves: 0,
            siblings: Vec::new(),
            avoids: Vec::new(),
        });
        agent.cycle = Some(ReallocationCycle {
            reply: Some(Token(1)),
            dry_run: true,
            policy: Reallocation::new(Algorithm::Regular, Heuristic::Mct),
            again: false,
            left: None,
            current: None,
            silent: BTreeSet::new(),
            report: ReallocationReport::default(),
        });
        let snapshot = ServerSnapshot {
            // A cluster that was not listed yet plans nothing.
            info: ServerInfo { procs: Procs(0), ..info("a") },
            tuner: Tuner::Exact,
            queue: Dump::default(),
            nodes: None,
            movable: movable.collect(),
            closed: None,
            drained: false,
        };
        let found = DiscoveryResult { snapshots: vec![snapshot], ..DiscoveryResult::default() };
        let mut commands = Vec::new();
        agent.handle_cycle_answer(Time(0), found, &mut commands);
        let report = commands.iter().find_map(|command| match command {
            Command::ReportReallocation { report, .. } => Some(report),
            _ => None,
        });
        let own = users.iter().filter(|user| share.has(user.owner())).count();
        assert_eq!(report.unwrap().movable as usize, own, "{master}");
        assert!((1..users.len()).contains(&own), "both have users");
        moved_by_any += own;
    }
    assert_eq!(moved_by_any, users.len(), "each job is moved by one master");
}

#[test]
fn a_cycle_waits_once_for_a_silent_server() {
    let proposals = [("a", "b"), ("a", "b"), ("b", "c"), ("c", "a")];
    let all = ["a", "a", "b", "c"].map(name);
    assert_eq!(asked(&proposals, Some(MoveOutcome::Stays(StayReason::NotWaiting))), all);
    // The target is silent: no further proposal involves b.
    let silent = Some(MoveOutcome::Stays(StayReason::NoAnswer));
    assert_eq!(asked(&proposals, silent), ["a", "c"].map(name));
    // The source is silent.
    assert_eq!(asked(&proposals, None), ["a", "b"].map(name));
}
