//! When the processors of a cluster come free, judging by the expected runtimes of what it has (paper 002,
//! Algorithm 2: the pre-load of a cluster is the expected work of its jobs).
//!
//! First come, first served: a waiting job starts when enough processors are free and all that came before it have
//! started. O(jobs log processors), and equal moments are one step, so an idle cluster is a single one.

use std::collections::BTreeMap;

use pliant_model::{Procs, Span};

use super::{ClusterState, Offer};

/// Processors that come free at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Free {
    /// From now.
    pub at: Span,
    /// How many.
    pub processors: u32,
}

/// A job that runs or waits: its processors, and how long it is expected to occupy them from now or from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expected {
    /// How many processors.
    pub procs: Procs,
    /// For how long.
    pub time: Span,
}

/// A job of a cluster as statistics see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingJob {
    /// How many processors.
    pub procs: Procs,
    /// How long it is expected to run, in all. Of one that runs that may be by those that have run as long
    /// ([`Runtimes::predict_running`](crate::runtimes::Runtimes::predict_running)).
    pub runtime: Span,
    /// The standard deviation of that.
    pub deviation: Span,
    /// For how long it has been running; none if it waits.
    pub elapsed: Option<Span>,
}

/// What is known of a cluster that has these jobs, in the order in which they will start, when a multi-job is to be
/// allocated whose instances take `job` there: Algorithm 2's expected pre-load. What runs longer than was expected is
/// expected to end at once. `deviations` standard deviations of the sum of the work are added, shared by the
/// processors that work it off; 0 is the paper's.
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

/// When the processors of a cluster come free. A job of more processors than there are counts as one of all.
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

fn add(free: &mut BTreeMap<i64, u32>, at: i64, processors: u32) {
    if processors > 0 {
        *free.entry(at.min(Span::MAX.0)).or_default() += processors;
    }
}

/// Takes the first processors that come free, and says when the last of them does.
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
