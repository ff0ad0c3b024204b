//! Simulation of the batch system's next passes.
//!
//! Slurm's announced starts change from pass to pass, since a started job keeps only its cores. The *actual* starts are found
//! by simulating the passes: whenever a job ends or may begin, jobs start in order of priority until the first that does
//! not fit; half an interval later a backfill pass starts the jobs that it would announce for now
//! ([`super::announced`]).
//!
//! A pass plans with walltimes, as the batch system does; jobs end when they are *expected* to.
//!
//! The cost is a plan per event and per start, so [`BUDGET`] limits the simulated passes: estimates gain from near starts.
//! The rest is planned in one go.

use pliant_model::{JobId, Span, Time};

use super::amounts::Part;
use super::catalogue::Catalogue;
use super::needs::Needs;
use super::plan::Plan;
use super::rules::{Reserve, Rules};
use super::search::{NodeFit, duration, occupied};
use super::snapshot::{Node, Pending};

/// The largest product of passes, waiting jobs and nodes.
const BUDGET: usize = 100_000;

/// A running job: its nodes, its walltime's end, and its expected end.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) limit: Time,
    pub(super) expected: Time,
    pub(super) on: Vec<Part>,
    pub(super) needs: Needs,
}

/// A waiting job as the batch system sees it, with its expected runtime.
struct Waiting {
    seen: Pending,
    duration: Span,
}

/// The jobs that have not ended or started yet.
struct PassSimulation<'a> {
    rules: Rules,
    nodes: &'a [Node],
    catalogue: &'a Catalogue,
    running: Vec<Running>,
    waiting: Vec<Waiting>,
}

/// The jobs that start in the simulated passes, in starting order.
pub(super) fn play(
    now: Time,
    rules: &Rules,
    (nodes, catalogue): (&[Node], &Catalogue),
    running: Vec<Running>,
    pending: &[Pending],
) -> Vec<(JobId, NodeFit)> {
    let rules = Rules { reserve: Reserve::Nodes, published: false, ..rules.clone() };
    let waiting: Vec<Waiting> = pending
        .iter()
        .filter(|one| !one.blocked)
        .map(|one| Waiting {
            seen: Pending { expected: None, ..one.clone() },
            duration: duration(one, &rules),
        })
        .collect();
    let affordable = BUDGET / (waiting.len() * nodes.len()).max(1);
    let passes = affordable.min(rules.passes as usize);
    let delay = Span(rules.interval.0 / 2);
    let mut play = PassSimulation { rules, nodes, catalogue, running, waiting };
    let mut started = Vec::new();
    let (mut at, mut backfill) = (now, Some(now));
    for _ in 0..passes {
        let is_pass = delay == Span::ZERO || backfill == Some(at);
        while let Some((index, fit)) = play.next_start(at, is_pass) {
            let Waiting { seen, duration } = play.waiting.remove(index);
            let limit = at + occupied(seen.walltime, &play.rules);
            let on = fit.on.iter().copied().filter(|part| (part.node as usize) < nodes.len()).collect();
            let needs = seen.shape.needs.clone();
            play.running.push(Running { limit, expected: at + duration, on, needs });
            started.push((seen.job, fit));
        }
        if is_pass {
            backfill = None;
        } else if backfill.is_none() {
            backfill = Some(at + delay);
        }
        let Some(next) = [play.next_event(at), backfill].into_iter().flatten().min() else { break };
        at = next;
        play.running.retain(|one| one.expected > at);
    }
    started
}

impl PassSimulation<'_> {
    /// The next job to start at `at`: in a backfill pass the first one planned for now, else the first in priority if it
    /// fits. Jobs on nodes that are not in the snapshot wait in other partitions, and keep no other from starting. Its
    /// position among the waiting jobs.
    fn next_start(&self, at: Time, backfill: bool) -> Option<(usize, NodeFit)> {
        let held = self.running.iter().map(|one| (one.limit, &one.on[..], &one.needs));
        let mut plan = Plan::new(at, &self.rules, (self.nodes, self.catalogue), held);
        let waiting = self.waiting.iter().map(|one| &one.seen).enumerate();
        let eligible = waiting.filter(|(_, one)| one.begin.is_none_or(|begin| begin <= at));
        for (index, one) in eligible {
            plan.push(at, one);
            if let Some(fit) = plan.fits.get(&one.job).filter(|fit| fit.start <= at) {
                return Some((index, fit.clone()));
            }
            if !backfill && !one.shape.is_elsewhere() {
                return None;
            }
        }
        None
    }

    /// The next time at which a job or a reservation ends, or a job may begin.
    fn next_event(&self, at: Time) -> Option<Time> {
        let reserved = self.catalogue.reserved.iter().map(|one| one.until);
        let ends = self.running.iter().map(|one| one.expected);
        let begins = self.waiting.iter().filter_map(|one| one.seen.begin);
        ends.chain(begins).chain(reserved).filter(|time| *time > at).min()
    }
}
