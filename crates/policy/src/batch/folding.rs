//! Task folding (paper 001, "Definitions"): a job that asked for `p` processors runs on `n <= p` of
//! them, each taking the place of up to `ceil(p / n)`, for `ceil(p / n)` times as long. Here: first come,
//! first served with folding, the frame of H1 and H2.
//!
//! The shape is chosen once, when the job comes to the head of the queue ("choose n ... wait until n"), from the processors
//! free then and the expected releases. The job then waits until that many are free.

use pliant_model::{Estimate, Procs, Span, Speedup, Time, Walltimes};

use super::event_driven::{EventDriven, EventDrivenCluster, Horizon, Rule};
use super::{BatchScheduler, Start, Submission};
use crate::tuning::{self, EverySize, Present, Tuner};

/// The processors given to a job, from a lower bound on its start, the expected start of a shape, and the requested
/// processors and walltime.
pub(super) type ChooseProcs = fn(Time, &dyn Fn(Procs, Span) -> Time, Procs, Span) -> Procs;

/// The walltime on `procs` processors of a job that requested `walltime` on `requested`.
pub(super) fn folded(requested: Procs, walltime: Span, procs: Procs) -> Span {
    let rounds = Speedup::Folding.relative_time(procs, requested) as i64;
    Span(walltime.0.saturating_mul(rounds).min(Span::MAX.0))
}

/// The size of a request if `estimate` returns the plan of a shape. The estimate has the shape to submit and its true
/// completion; its start is that of the folded job's last round.
///
/// Every size is tried, since completions of folded jobs are not monotonic.
pub(super) fn choose_size(
    tuner: Tuner,
    capacity: Procs,
    walltimes: &Walltimes<'_>,
    present: &Present<'_>,
    estimate: impl Fn(Procs, Span) -> Option<Estimate>,
) -> Option<Estimate> {
    let tuner = if tuner.is_greedy() { Tuner::Exhaustive } else { tuner };
    let estimate = |procs| {
        let walltime = walltimes.at(procs);
        let start = estimate(procs, walltime)?.completion() - walltime;
        Some(Estimate { procs, walltime, start })
    };
    tuning::choose(tuner, &mut EverySize { capacity, walltimes, estimate }, present)
}

/// First come, first served with folding.
#[derive(Clone, Debug)]
struct Folding {
    choose: ChooseProcs,
    /// The job at the head when a shape was last chosen, and the shape.
    head: Option<Start>,
}

/// A cluster of that many processors under first come, first served with folding.
pub(super) fn in_order(procs: Procs, choose: ChooseProcs) -> Box<dyn BatchScheduler> {
    EventDriven::boxed(procs, Folding { choose, head: None })
}

impl Folding {
    /// The shape of the job at the head, chosen when it becomes the head.
    fn shape(&mut self, now: Time, cluster: &EventDrivenCluster, head: Submission) -> (Procs, Span) {
        match self.head {
            Some(Start { job, procs, walltime }) if job == head.job => (procs, walltime),
            _ => {
                let start = |procs, _| cluster.processors.when_free(now, procs).0;
                let procs = (self.choose)(now, &start, head.procs, head.walltime);
                let walltime = folded(head.procs, head.walltime, procs);
                self.head = Some(Start { job: head.job, procs, walltime });
                (procs, walltime)
            }
        }
    }

    fn estimate_at(&self, horizon: &Horizon, procs: Procs, walltime: Span) -> Option<Estimate> {
        horizon.earliest(procs, walltime)?;
        let start = |procs, walltime| horizon.earliest(procs, walltime).map_or(Time::MAX, |one| one.start);
        let chosen = (self.choose)(horizon.from(), &start, procs, walltime);
        horizon.earliest(chosen, folded(procs, walltime, chosen))
    }
}

impl Rule for Folding {
    const IN_ORDER: bool = true;
    const SIZES_AS_ASKED: bool = false;

    fn submitted(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        self.freed(now, cluster);
    }

    fn freed(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        while let Some((slot, head)) = cluster.queue.head() {
            let (procs, walltime) = self.shape(now, cluster, head);
            if procs > cluster.processors.free(now) {
                return;
            }
            cluster.start(now, slot, procs, walltime);
        }
    }

    fn expect(&self, horizon: &Horizon, job: &Submission) -> Option<Estimate> {
        match self.head {
            Some(Start { job: head, procs, walltime }) if head == job.job => {
                horizon.earliest(procs, walltime)
            }
            _ => self.estimate_at(horizon, job.procs, job.walltime),
        }
    }

    fn tune(
        &self,
        horizon: &Horizon,
        tuner: Tuner,
        present: &Present<'_>,
        walltimes: &Walltimes<'_>,
    ) -> Option<Estimate> {
        let estimate = |procs, walltime| self.estimate_at(horizon, procs, walltime);
        choose_size(tuner, horizon.capacity(), walltimes, present, estimate)
    }

    fn chosen(&self) -> Option<Start> {
        self.head
    }

    fn keep(&mut self, head: Option<Start>) {
        self.head = head;
    }
}
