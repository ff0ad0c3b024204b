//! Rounds in which somebody is silent.

use pliant_model::{MoveReason, Procs};
use pliant_policy::reallocation::Heuristic;

use super::*;
use crate::agent::tests::{info, name};
use crate::agent::{AgentConfig, ChildKind, Event};

fn proposal(from: &str, to: &str) -> (Proposal, MoveProposal) {
    let (job, from, to) = (Handle { server: name("a"), number: 1 }, name(from), name(to));
    let expected = Estimate { procs: Procs(1), walltime: Span(10), start: Time(0) };
    let order = MoveProposal {
        job: job.clone(),
        to: to.clone(),
        address: String::new(),
        expected,
        gain: None,
        reason: MoveReason::EarlierCompletion,
        timeout: TIMEOUT,
        sibling: false,
    };
    (Proposal { job, from, to, before: Time(20), expected, copy: false, outcome: None }, order)
}

/// A round of those proposals, in which every question is answered so, or by nobody: what is asked.
fn asked(proposals: &[(&str, &str)], outcome: Option<MoveOutcome>) -> Vec<Name> {
    let config = AgentConfig { name: name("root"), root: true, timeout: Span(5), moving: None };
    let mut agent = Agent::new(config);
    let mut commands = Vec::new();
    for child in ["a", "b", "c"].map(name) {
        let servers = vec![info(child.as_str())];
        let event = Event::Attached { child, kind: ChildKind::Server, journal: 1, servers };
        agent.on(Time(0), event, &mut commands);
    }
    agent.round = Some(ReallocationCycle {
        reply: Some(Token(1)),
        dry_run: false,
        policy: Reallocation::new(Algorithm::Regular, Heuristic::Mct),
        again: false,
        left: Some(proposals.iter().map(|(from, to)| proposal(from, to)).collect()),
        current: None,
        silent: BTreeSet::new(),
        report: Report::default(),
    });
    let mut asked = Vec::new();
    agent.next_proposal(Time(0), &mut commands);
    while let Some(command) = commands.pop() {
        match command {
            Command::Ask { child, ask, .. } => {
                assert!(matches!(ask.what, DiscoverySubject::Order(_)));
                asked.push(child);
                let found = DiscoveryResult { outcome: outcome.clone(), ..DiscoveryResult::default() };
                agent.round_found(Time(0), found, &mut commands);
            }
            Command::Report { report, .. } => {
                let outcome = Some(outcome.unwrap_or(MoveOutcome::Stays(StayReason::Silent)));
                assert_eq!(report.proposals.len(), proposals.len());
                assert!(report.proposals.iter().all(|one| one.outcome == outcome));
                return asked;
            }
            _ => {}
        }
    }
    panic!("the round has no end")
}

#[test]
fn who_is_silent_is_waited_for_once_in_a_round() {
    let proposals = [("a", "b"), ("a", "b"), ("b", "c"), ("c", "a")];
    let all = ["a", "a", "b", "c"].map(name);
    assert_eq!(asked(&proposals, Some(MoveOutcome::Stays(StayReason::NotWaiting))), all);
    // The target is: nothing more goes to b, or from there.
    let silent = Some(MoveOutcome::Stays(StayReason::Silent));
    assert_eq!(asked(&proposals, silent), ["a", "c"].map(name));
    // The source is.
    assert_eq!(asked(&proposals, None), ["a", "b"].map(name));
}
