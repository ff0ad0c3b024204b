//! EASY, aggressive backfilling (Lifka 1995; Mu'alem and Feitelson 2001): at every submission and termination
//! heads start while they fit, then any job that does not delay the head ([`aggressive`]).
//!
//! Only the head has a guarantee, and only until another job becomes the head. Estimates and plans are those of
//! conservative backfilling over the present queue; they are not promises, and jobs may start earlier or later.
//!
//! In a queue order other than that of submission ([`super::order`]) the head is the job with the lowest rank, and the
//! others are backfilled by rank. Another job may become the head whenever ranks change. In `easy-sjbf` the order decides
//! the head only, and the shortest of the others is backfilled first. With plans by predictions that is EASY++ (Tsafrir,
//! Etsion and Feitelson, IEEE TPDS 18(6), 2007).

use pliant_model::{Procs, Time};

use super::BatchScheduler;
use super::aggressive;
use super::event_driven::{EventDriven, EventDrivenCluster, Rule};
use super::order::Ranking;

/// Which of the jobs that do not delay the head is backfilled first.
#[derive(Clone, Copy, Debug)]
enum Easy {
    FirstInQueue,
    Shortest,
}

pub(super) fn new(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    EventDriven::boxed(procs, Easy::FirstInQueue)
}

pub(super) fn ordered(procs: Procs, ranking: Ranking) -> Box<dyn BatchScheduler> {
    EventDriven::ordered(procs, ranking, Easy::FirstInQueue)
}

pub(super) fn shortest_first(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    EventDriven::boxed(procs, Easy::Shortest)
}

pub(super) fn ordered_shortest_first(procs: Procs, ranking: Ranking) -> Box<dyn BatchScheduler> {
    EventDriven::ordered(procs, ranking, Easy::Shortest)
}

impl Rule for Easy {
    const IN_ORDER: bool = false;

    fn submitted(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        if cluster.processors.awaits_end(now) || cluster.queue.ranked().is_some() {
            self.freed(now, cluster);
        } else {
            aggressive::serve_last(now, cluster);
        }
    }

    fn freed(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        match self {
            Easy::FirstInQueue => aggressive::serve(now, cluster, aggressive::as_submitted),
            Easy::Shortest => aggressive::serve_shortest_behind_head(now, cluster),
        }
    }
}
