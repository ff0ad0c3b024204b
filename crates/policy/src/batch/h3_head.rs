//! H3 without a table, another reading of paper 001's slide "Heuristic H3": at each release the job at the head of the
//! queue is folded by H1 for the present state and started if its processors are free; others may be backfilled unfolded
//! ([`aggressive`]). The shape of a head that does not start is not kept. Plans use the requested shapes.

use pliant_model::{Procs, Span, Time};

use super::event_driven::{EventDriven, EventDrivenCluster, Rule};
use super::folding::folded;
use super::{BatchScheduler, Submission, aggressive, h1};

#[derive(Clone, Debug)]
struct FoldedHead;

pub(super) fn new(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    EventDriven::boxed(procs, FoldedHead)
}

fn shape(now: Time, cluster: &EventDrivenCluster, head: Submission) -> (Procs, Span) {
    let start = |procs, _| cluster.processors.when_free(now, procs).0;
    let procs = h1::literal(now, &start, head.procs, head.walltime);
    (procs, folded(head.procs, head.walltime, procs))
}

impl Rule for FoldedHead {
    const IN_ORDER: bool = false;

    fn submitted(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        if cluster.queue.len() == 1 {
            self.freed(now, cluster);
        }
    }

    fn freed(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        aggressive::serve(now, cluster, shape);
    }

    fn not_before(&self, now: Time, cluster: &EventDrivenCluster) -> Time {
        cluster.next_release(now)
    }
}
