//! First come, first served: the job at the head of the queue starts as soon as enough processors are free, and no job
//! overtakes it (paper 001's FIFO). In another queue order ([`super::order`]) the head is the job with the lowest
//! rank.
//!
//! A decision costs O(1) per started job. In a plan each job starts at the earliest time, not before its
//! predecessor's start, at which its processors are free by the walltimes.

use pliant_model::{Procs, Time};

use super::BatchScheduler;
use super::event_driven::{EventDriven, EventDrivenCluster, Rule};
use super::order::Ranking;

#[derive(Clone, Debug)]
struct FirstComeFirstServed;

pub(super) fn new(procs: Procs, _now: Time) -> Box<dyn BatchScheduler> {
    EventDriven::boxed(procs, FirstComeFirstServed)
}

pub(super) fn ordered(procs: Procs, ranking: Ranking) -> Box<dyn BatchScheduler> {
    EventDriven::ordered(procs, ranking, FirstComeFirstServed)
}

impl Rule for FirstComeFirstServed {
    const IN_ORDER: bool = true;

    fn submitted(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        self.freed(now, cluster);
    }

    fn freed(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        while let Some((slot, head)) = cluster.queue.head()
            && head.procs <= cluster.processors.free(now)
        {
            cluster.start(now, slot, head.procs, head.walltime);
        }
    }
}
