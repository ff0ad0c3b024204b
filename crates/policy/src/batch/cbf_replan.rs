//! Conservative backfilling that plans anew: at every early end and every cancellation all waiting jobs leave the plan and are
//! planned again, in order of submission, each at the earliest time that the running jobs and the jobs ahead leave.
//!
//! This is the rule of Simbatch (repository `frs69wq/Simbatch`, functions `generic_reschedule` and `cluster_clean`, 2010), the
//! simulator of the authors of paper 000. [`super::cbf`] moves one job at a time around the reservations of the others, and
//! never to a later time. Here a job that moves ahead may take the place of a job behind it, which is then planned later than
//! before. So a reservation is an expectation, not a promise: the first job of the queue is never delayed, the others may be.
//!
//! Jobs that are due stay: their start may be under way. Simbatch chooses nodes as well, and leaves a hole unused that has
//! exactly the length of a job; neither is done here.
//!
//! An event costs one search of the plan for each waiting job, so long queues are slow.

use pliant_model::{ClusterNodes, Procs, Time};

use super::BatchScheduler;
use super::cbf::{ConservativeBackfilling, Gaps};
use super::nodes::NodeReservations;

pub(super) fn new(procs: Procs, now: Time) -> Box<dyn BatchScheduler> {
    Box::new(ConservativeBackfilling::with_gaps(procs, now, Gaps::PlannedAnew))
}

pub(super) fn on_nodes(cluster: &ClusterNodes, now: Time) -> Box<dyn BatchScheduler> {
    Box::new(NodeReservations::new(cluster, now, Gaps::PlannedAnew))
}
