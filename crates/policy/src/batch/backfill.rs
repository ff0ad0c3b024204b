//! Paper 001's backfilling baseline: EASY's rule, applied only when processors are released (confirmed by the
//! exact match of the paper's NASA figures). A job that arrives while others wait is considered at the next release; a
//! job that arrives at an empty queue starts at once if it fits. A cancellation counts as a release. Estimates and plans
//! are those of conservative backfilling from the next expected release on; they are not promises.

use pliant_model::{Procs, Time};

use super::BatchScheduler;
use super::aggressive;
use super::event_driven::{EventDriven, EventDrivenCluster, Rule};
use super::order::Ranking;

#[derive(Clone, Debug)]
struct ReleaseDriven;

pub(super) fn new(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    EventDriven::boxed(procs, ReleaseDriven)
}

pub(super) fn ordered(procs: Procs, ranking: Ranking) -> Box<dyn BatchScheduler> {
    EventDriven::ordered(procs, ranking, ReleaseDriven)
}

impl Rule for ReleaseDriven {
    const IN_ORDER: bool = false;

    fn submitted(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        if cluster.queue.len() == 1 {
            self.freed(now, cluster);
        }
    }

    fn freed(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        aggressive::serve(now, cluster, aggressive::as_submitted);
    }

    fn not_before(&self, now: Time, cluster: &EventDrivenCluster) -> Time {
        cluster.next_release(now)
    }
}
