//! EASY, aggressive backfilling (Lifka 1995; Mu'alem and Feitelson 2001): at every submission and termination
//! heads start while they fit, then any job that does not delay the head ([`aggressive`]).
//!
//! Only the head has a guarantee, and only until another job becomes the head. Estimates and plans are those of
//! conservative backfilling over the present queue; they are not promises, and jobs may start earlier or later.
//!
//! In a queue order other than that of submission ([`super::order`]) the head is the job with the lowest rank, and the
//! others are backfilled by rank. Another job may become the head whenever ranks change.

use pliant_model::{Procs, Time};

use super::BatchScheduler;
use super::aggressive;
use super::event_driven::{EventDriven, EventDrivenCluster, Rule};
use super::order::Ordering;

#[derive(Clone, Debug)]
struct Easy;

pub(super) fn new(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    EventDriven::boxed(procs, Easy)
}

pub(super) fn ordered(procs: Procs, now: Time, ordering: Ordering) -> Box<dyn BatchScheduler> {
    EventDriven::ordered(procs, now, ordering, Easy)
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
        aggressive::serve(now, cluster, aggressive::as_submitted);
    }
}
