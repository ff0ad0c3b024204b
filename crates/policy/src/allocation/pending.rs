//! When the processors of a cluster become free, from the expected runtimes of its jobs (paper 002, Algorithm 2: the
//! pre-load of a cluster is the expected work of its jobs).
//!
//! First come, first served: a waiting job starts when enough processors are free and all earlier jobs have started.
//! O(jobs log processors); equal moments are one step, so an idle cluster is a single step.

use std::collections::BTreeMap;

use pliant_model::{Procs, Span};

use super::{ClusterState, Offer};

/// Processors that become free at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Free {
    /// The moment, from now.
    pub at: Span,
    /// Number of processors.
    pub processors: u32,
}

/// A running or waiting job: its processors and its expected remaining runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Processors.
    pub procs: Procs,
    /// Remaining runtime, from now or from its start.
    pub time: Span,
}

/// A job of a cluster for statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingJob {
    /// Processors.
    pub procs: Procs,
    /// Expected total runtime. For a running job it may come from jobs that ran as long
    /// ([`Runtimes::predict_running`](crate::runtimes::Runtimes::predict_running)).
    pub runtime: Span,
    /// Standard deviation of the runtime.
    pub deviation: Span,
    /// Time since its start; none if it waits.
    pub elapsed: Option<Span>,
}

/// The state of a cluster with these jobs, in starting order, for a multi-job whose instances take `job`: Algorithm 2's
/// expected pre-load. A job that has exceeded its expectation is expected to end at once. `deviations` standard deviations of
/// the total work are added, divided by the processors; the paper uses 0.
pub fn state(
    processors: Procs,
    jobs: impl IntoIterator<Item = PendingJob>,
    job: Span,
    deviations: f64,
    failures: u64,
) -> ClusterState {
    let (mut running, mut waiting, mut variance) = (Vec::new(), Vec::new(), 0.0);
    for PendingJob { procs, runtime, deviation, elapsed } in jobs {
        variance += f64::from(procs.0) * (deviation.0 as f64).powi(2);
        match elapsed {
            Some(elapsed) => running.push(Expected { procs, time: (runtime - elapsed).max(Span::ZERO) }),
            None => waiting.push(Expected { procs, time: runtime }),
        }
    }
    let jobs = (running.len() + waiting.len()) as u64;
    let mut free = free_times(processors, running, waiting);
    let more = Span((deviations * variance.sqrt() / f64::from(processors.0.max(1))).round() as i64);
    free.iter_mut().filter(|free| free.at > Span::ZERO).for_each(|free| free.at = free.at + more);
    ClusterState { offer: Offer { free, job: job.max(Span(1)) }, jobs, failures }
}

/// When the processors of a cluster become free. A job wider than the cluster counts as one of all processors.
pub fn free_times(
    processors: Procs,
    running: impl IntoIterator<Item = Expected>,
    waiting: impl IntoIterator<Item = Expected>,
) -> Vec<Free> {
    let mut free: BTreeMap<i64, u32> = BTreeMap::new();
    let mut idle = processors.0;
    for Expected { procs, time } in running {
        let taken = procs.0.min(idle);
        idle -= taken;
        add(&mut free, time.0.max(0), taken);
    }
    add(&mut free, 0, idle);
    let mut started = 0;
    for Expected { procs, time } in waiting {
        let wanted = procs.0.min(processors.0);
        let start = take(&mut free, wanted).max(started);
        started = start;
        add(&mut free, start + time.0.max(0), wanted);
    }
    free.into_iter().map(|(at, processors)| Free { at: Span(at), processors }).collect()
}

/// The lesser of two capacities: at each moment as many have become free as in the one that has fewer by then.
pub fn least(one: &[Free], other: &[Free]) -> Vec<Free> {
    let mut moments: Vec<Span> = one.iter().chain(other).map(|step| step.at).collect();
    moments.sort_unstable();
    moments.dedup();
    let (mut one, mut other) = (FreeUntil::of(one), FreeUntil::of(other));
    let mut before = 0;
    let step = |at: Span| {
        let least = one.until(at).min(other.until(at));
        let processors = u32::try_from(least - std::mem::replace(&mut before, least)).unwrap_or(u32::MAX);
        (processors > 0).then_some(Free { at, processors })
    };
    moments.into_iter().filter_map(step).collect()
}

/// Sums up steps in the order of time.
struct FreeUntil<'a> {
    steps: std::iter::Peekable<std::slice::Iter<'a, Free>>,
    processors: u64,
}

impl FreeUntil<'_> {
    fn of(steps: &[Free]) -> FreeUntil<'_> {
        FreeUntil { steps: steps.iter().peekable(), processors: 0 }
    }

    fn until(&mut self, at: Span) -> u64 {
        while let Some(step) = self.steps.next_if(|step| step.at <= at) {
            self.processors += u64::from(step.processors);
        }
        self.processors
    }
}

fn add(free: &mut BTreeMap<i64, u32>, at: i64, processors: u32) {
    if processors > 0 {
        *free.entry(at.min(Span::MAX.0)).or_default() += processors;
    }
}

/// Takes the first processors that become free, and returns when the last of them does.
fn take(free: &mut BTreeMap<i64, u32>, mut wanted: u32) -> i64 {
    let mut at = 0;
    while wanted > 0
        && let Some(mut first) = free.first_entry()
    {
        at = *first.key();
        if *first.get() > wanted {
            *first.get_mut() -= wanted;
            break;
        }
        wanted -= first.remove();
    }
    at
}
