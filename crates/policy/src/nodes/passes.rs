//! The batch system's next passes, played through one after the other.
//!
//! What Slurm announces changes from pass to pass, since a job that has started keeps its cores only. When jobs
//! *really* start is found by playing the passes: whenever a job ends or may begin, the jobs start in order of
//! priority until the first that does not fit; half an interval later a backfill pass starts whatever it
//! would announce for at once ([`super::announced`]).
//!
//! That is a plan per event and per start. Only so many passes are played as [`BUDGET`] allows: near starts are
//! what an estimate gains from. The rest is planned in one go.

use pliant_model::{JobId, Span, Time};

use super::picture::{Node, Pending, Reserve, Rules};
use super::plan::Plan;
use super::search::{Place, rounded};

/// Most passes times waiting jobs times nodes.
const BUDGET: usize = 100_000;

/// What has not ended or started yet.
struct Play<'a> {
    rules: Rules,
    nodes: &'a [Node],
    running: Vec<(Time, Vec<(u32, u32)>)>,
    waiting: Vec<&'a Pending>,
}

/// The jobs that start in the passes played, in starting order. `running` are ends and places.
pub(super) fn play(
    now: Time,
    rules: &Rules,
    nodes: &[Node],
    running: Vec<(Time, Vec<(u32, u32)>)>,
    pending: &[Pending],
) -> Vec<(JobId, Place)> {
    let rules = Rules { reserve: Reserve::Nodes, published: false, ..rules.clone() };
    let waiting: Vec<&Pending> = pending.iter().filter(|one| !one.blocked).collect();
    let affordable = BUDGET / (waiting.len() * nodes.len()).max(1);
    let passes = affordable.min(rules.passes as usize);
    let delay = Span(rules.interval.0 / 2);
    let mut play = Play { rules, nodes, running, waiting };
    let mut started = Vec::new();
    let (mut at, mut backfill) = (now, Some(now));
    for _ in 0..passes {
        let is_pass = delay == Span::ZERO || backfill == Some(at);
        while let Some((job, place)) = play.next_start(at, is_pass) {
            play.running.push((at + rounded(job.walltime, &play.rules), place.on.clone()));
            play.waiting.retain(|one| one.job != job.job);
            started.push((job.job, place));
        }
        if is_pass {
            backfill = None;
        } else if backfill.is_none() {
            backfill = Some(at + delay);
        }
        let Some(next) = [play.next_event(at), backfill].into_iter().flatten().min() else { break };
        at = next;
        play.running.retain(|(end, _)| *end > at);
    }
    started
}

impl<'a> Play<'a> {
    /// The next job to start at `at`: in a backfill pass the first that would, else the first in line if
    /// it fits.
    fn next_start(&self, at: Time, backfill: bool) -> Option<(&'a Pending, Place)> {
        let held = self.running.iter().map(|(end, on)| (*end, &on[..]));
        let mut plan = Plan::new(at, &self.rules, self.nodes, held);
        let eligible = self.waiting.iter().filter(|one| one.begin.is_none_or(|begin| begin <= at));
        for one in eligible.take(if backfill { usize::MAX } else { 1 }) {
            plan.push(at, one);
            if let Some(place) = plan.places.get(&one.job).filter(|place| place.start <= at) {
                return Some((one, place.clone()));
            }
        }
        None
    }

    /// When a job ends or may begin next.
    fn next_event(&self, at: Time) -> Option<Time> {
        let ends = self.running.iter().map(|(end, _)| *end);
        let begins = self.waiting.iter().filter_map(|one| one.begin);
        ends.chain(begins).filter(|time| *time > at).min()
    }
}
