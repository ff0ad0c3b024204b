//! A queue whose head is picked from outside, as learning agents do (Zhang et al., "RLScheduler", SC 2020): the picked job is the next one
//! to start. While it does not fit it stays the head, and other jobs may be backfilled behind it by EASY's rule ([`aggressive`]). When it has
//! started, nothing starts until another job is picked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pliant_model::{JobId, Procs, Time};

use super::aggressive::BackfillWindow;
use super::event_driven::{EventDriven, EventDrivenCluster, Rule};
use super::{BatchScheduler, Submission};

/// The waiting jobs of a cluster whose head is picked, and the pick. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct Picks(Arc<Mutex<State>>);

#[derive(Default, Debug)]
struct State {
    head: Option<JobId>,
    /// By ID, which is the order of submission.
    waiting: BTreeMap<JobId, Submission>,
    free: Procs,
}

impl Picks {
    /// True if a job waits and none is picked.
    pub fn is_due(&self) -> bool {
        let state = self.state();
        state.head.is_none() && !state.waiting.is_empty()
    }

    /// Picks a waiting job; returns false without any change if it does not wait, or another one is picked. The caller then lets the
    /// cluster decide.
    pub fn pick(&self, job: JobId) -> bool {
        let mut state = self.state();
        let is_possible = state.head.is_none() && state.waiting.contains_key(&job);
        if is_possible {
            state.head = Some(job);
        }
        is_possible
    }

    /// Calls `each` for the oldest waiting jobs, at most so many of them.
    pub fn oldest(&self, most: usize, mut each: impl FnMut(&Submission)) {
        self.state().waiting.values().take(most).for_each(&mut each);
    }

    /// The processors that are free.
    pub fn free(&self) -> Procs {
        self.state().free
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rule of one cluster.
#[derive(Clone)]
struct Picked {
    picks: Picks,
    backfills: bool,
}

/// An empty cluster of that many processors whose head is picked, with or without backfilling behind it.
pub fn picked(procs: Procs, backfills: bool) -> (Box<dyn BatchScheduler>, Picks) {
    let picks = Picks::default();
    picks.state().free = procs;
    (EventDriven::boxed(procs, Picked { picks: picks.clone(), backfills }), picks)
}

impl Rule for Picked {
    const IN_ORDER: bool = false;

    fn submitted(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        if let Some((_, job)) = cluster.queue.last() {
            self.picks.state().waiting.insert(job.job, job);
        }
        self.freed(now, cluster);
    }

    fn freed(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        let mut state = self.picks.state();
        serve(now, cluster, &mut state, self.backfills);
        state.free = cluster.processors.free(now);
    }
}

/// Starts the head if it fits, else the jobs that do not delay it, in order of submission.
fn serve(now: Time, cluster: &mut EventDrivenCluster, state: &mut State, backfills: bool) {
    let Some(head) = state.head.and_then(|head| state.waiting.get(&head)).cloned() else { return };
    let Some(slot) = cluster.queue.slot(head.job) else { return };
    if head.procs <= cluster.processors.free(now) {
        cluster.start(now, slot, head.procs, head.walltime);
        state.waiting.remove(&head.job);
        state.head = None;
    } else if backfills {
        let mut window = BackfillWindow::behind(now, &cluster.processors, head.procs);
        let mut next = 0;
        // The head itself is not admitted: it does not fit.
        while let Some((slot, job)) = cluster.queue.next_where(next, |procs, span| window.admits(procs, span))
        {
            cluster.start(now, slot, job.procs, job.walltime);
            window.take(job.procs, job.walltime);
            state.waiting.remove(&job.job);
            next = slot + 1;
        }
    }
}
