//! When the processors of a cluster come free, judging by the expected runtimes of what it has (paper 002,
//! Algorithm 2: the pre-load of a cluster is the expected work of its jobs).
//!
//! First come, first served: a waiting job starts when enough processors are free and all that came before it have
//! started. O(jobs log processors), and equal moments are one step, so an idle cluster is a single one.

use std::collections::BTreeMap;

use pliant_model::{Procs, Span};

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

/// What is left of a job that runs since `elapsed` and was expected to take `expected`: nothing if it takes longer.
pub fn remaining(expected: Span, elapsed: Span) -> Span {
    (expected - elapsed).max(Span::ZERO)
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
