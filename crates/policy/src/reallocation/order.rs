//! The next job to consider: MinMin, MaxMin, Sufferage, MaxGain and MaxRelGain over a window of the oldest jobs (paper
//! 000, sections 3.2.3 and 5.3).
//!
//! Each step compares the completions of all remaining jobs on all clusters: O(m^2) estimates per cluster for `m` jobs. An
//! estimate is computed again only after its cluster has changed.

use pliant_model::{ClusterId, Estimate, Procs, Request, Time};

use super::{Heuristic, HeuristicRule, JobOptions, Urgency};
use crate::completion::Earliest;
use crate::failure::{Failure, checked};
use crate::federation::Federation;

/// A job of the window.
pub(super) struct Candidate {
    pub(super) request: Request,
    /// The cluster where it waits, or waited before it was cancelled.
    pub(super) home: ClusterId,
    /// Its present or former completion; [`Time::MAX`] without a plan.
    pub(super) current: Time,
    /// True if it may stay with this completion.
    pub(super) may_stay: bool,
    estimates: Vec<Option<(u64, Option<Estimate>)>>,
}

/// A job's options at one step.
struct Options {
    /// The best cluster to submit it to.
    best: Option<(ClusterId, Estimate)>,
    /// The earliest and second-earliest completion over its options, including its present one if it may stay.
    first: Time,
    second: Time,
}

impl Candidate {
    pub(super) fn new(request: Request, home: ClusterId, current: Time, may_stay: bool) -> Candidate {
        Candidate { request, home, current, may_stay, estimates: Vec::new() }
    }

    /// Looks up its present completion, if it may stay.
    fn refresh(&mut self, federation: &mut Federation, now: Time) {
        if self.may_stay
            && let Some(plan) = federation.plan(now, self.request.id)
        {
            self.current = plan.completion();
        }
    }

    fn options(&mut self, federation: &mut Federation, now: Time) -> Options {
        self.estimates.resize(federation.len(), None);
        let mut options = Options { best: None, first: Time::MAX, second: Time::MAX };
        let mut best = Earliest::until(Time::MAX);
        for cluster in federation.ids() {
            let staying = self.may_stay && cluster == self.home;
            let estimate = if staying { None } else { self.estimate(federation, now, cluster) };
            let completion = if staying { Some(self.current) } else { estimate.map(|one| one.completion()) };
            let Some(completion) = completion else { continue };
            if let Some(estimate) = estimate {
                best.offer(cluster, estimate);
            }
            if completion < options.first {
                options.second = options.first;
                options.first = completion;
            } else {
                options.second = options.second.min(completion);
            }
        }
        options.best = best.taken();
        options
    }

    fn estimate(&mut self, federation: &mut Federation, now: Time, cluster: ClusterId) -> Option<Estimate> {
        let version = federation.version(cluster);
        match self.estimates[cluster.index()] {
            Some((known, estimate)) if known == version => estimate,
            _ => {
                let estimate = federation.estimate(now, &self.request, cluster);
                self.estimates[cluster.index()] = Some((version, estimate));
                estimate
            }
        }
    }
}

/// The most urgent job so far: its position in the window, and the best cluster for it.
struct Choice {
    urgency: f64,
    index: usize,
    best: Option<(ClusterId, Estimate)>,
}

/// Takes the next job out of the window, with the best cluster for it (none if only its own accepts it). Ties go to the oldest.
pub(super) fn take_next(
    by: Urgency<'_>,
    window: &mut Vec<Candidate>,
    federation: &mut Federation,
    now: Time,
) -> Option<(Candidate, Option<(ClusterId, Estimate)>)> {
    let heuristic = match by {
        Urgency::Named(heuristic) => heuristic,
        Urgency::Custom(rule, failure) => return take_next_by(rule, failure, window, federation, now),
    };
    let mut chosen: Option<Choice> = None;
    for (index, candidate) in window.iter_mut().enumerate() {
        candidate.refresh(federation, now);
        let options = candidate.options(federation, now);
        let value = urgency(heuristic, candidate, &options);
        if chosen.as_ref().is_none_or(|choice| value > choice.urgency) {
            chosen = Some(Choice { urgency: value, index, best: options.best });
        }
    }
    let Choice { index, best, .. } = chosen?;
    Some((window.remove(index), best))
}

/// The same by a custom heuristic, in one call for all jobs. After a failure no job is taken.
fn take_next_by(
    rule: &dyn HeuristicRule,
    failure: &Failure,
    window: &mut Vec<Candidate>,
    federation: &mut Federation,
    now: Time,
) -> Option<(Candidate, Option<(ClusterId, Estimate)>)> {
    let mut view = Vec::with_capacity(window.len());
    for candidate in window.iter_mut() {
        candidate.refresh(federation, now);
        let Options { best, first, second } = candidate.options(federation, now);
        let Candidate { request, home, current, .. } = &*candidate;
        view.push(JobOptions {
            job: request.id,
            procs: request.procs,
            home: *home,
            current: *current,
            best,
            first,
            second,
        });
    }
    if view.is_empty() {
        return None;
    }
    let urgencies = failure.decision(|| {
        checked("urgencies", now, view.iter().map(|one| one.job), rule.urgencies(now, &view)?)
    })?;
    let is_more = |best: usize, index: usize| if urgencies[index] > urgencies[best] { index } else { best };
    let index = (1..urgencies.len()).fold(0, is_more);
    Some((window.remove(index), view[index].best))
}

/// The urgency of a job: the largest goes first. Whole seconds are exact in an `f64`.
fn urgency(heuristic: Heuristic, candidate: &Candidate, options: &Options) -> f64 {
    let gain = || match options.best {
        Some((_, best)) => (candidate.current - best.completion()).0 as f64,
        None => f64::MIN,
    };
    match heuristic {
        Heuristic::Mct => 0.0,
        Heuristic::MinMin => -(options.first.0 as f64),
        Heuristic::MaxMin => options.first.0 as f64,
        // A job with a single option has an infinite sufferage.
        Heuristic::Sufferage if options.second == Time::MAX => f64::INFINITY,
        Heuristic::Sufferage => (options.second - options.first).0 as f64,
        Heuristic::MaxGain => gain(),
        Heuristic::MaxRelGain => gain() / f64::from(candidate.request.procs.max(Procs::ONE).0),
    }
}
