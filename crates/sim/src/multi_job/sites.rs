//! Clusters that start jobs of one processor first come, first served.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use pliant_model::{Span, Time};
use pliant_policy::runtimes::Categories;

/// A job of another user, or an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Task {
    /// How long it runs.
    pub(super) runtime: Span,
    pub(super) categories: Categories<i32>,
    /// Which instance, if it is one.
    pub(super) instance: Option<usize>,
}

/// A job that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Running {
    pub(super) task: Task,
    pub(super) cluster: usize,
    pub(super) start: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) processors: u32,
    busy: u32,
    pub(super) waiting: VecDeque<Task>,
    /// How many of those that wait are instances.
    pub(super) instances: u64,
}

/// All clusters.
#[derive(Clone, Debug)]
pub(super) struct Sites {
    clusters: Vec<Cluster>,
    /// By the order of their starts.
    running: BTreeMap<u64, Running>,
    ends: BinaryHeap<Reverse<(Time, u64)>>,
    started: u64,
}

impl Sites {
    /// Idle ones.
    pub(super) fn new(processors: &[u32]) -> Sites {
        let cluster =
            |count: &u32| Cluster { processors: *count, busy: 0, waiting: VecDeque::new(), instances: 0 };
        let clusters = processors.iter().map(cluster).collect();
        Sites { clusters, running: BTreeMap::new(), ends: BinaryHeap::new(), started: 0 }
    }

    pub(super) fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Running> {
        self.running.values()
    }

    /// Queues a job, and starts what can.
    pub(super) fn submit(&mut self, now: Time, cluster: usize, task: Task) {
        let queue = &mut self.clusters[cluster];
        queue.instances += u64::from(task.instance.is_some());
        queue.waiting.push_back(task);
        self.start_due(now, cluster);
    }

    fn start_due(&mut self, now: Time, at: usize) {
        let cluster = &mut self.clusters[at];
        while cluster.busy < cluster.processors
            && let Some(task) = cluster.waiting.pop_front()
        {
            cluster.busy += 1;
            cluster.instances -= u64::from(task.instance.is_some());
            self.ends.push(Reverse((now + task.runtime, self.started)));
            self.running.insert(self.started, Running { task, cluster: at, start: now });
            self.started += 1;
        }
    }

    /// When the next job ends.
    pub(super) fn next_end(&mut self) -> Time {
        while let Some(Reverse((at, start))) = self.ends.peek() {
            if self.running.contains_key(start) {
                return *at;
            }
            // It was ended before its time.
            self.ends.pop();
        }
        Time::MAX
    }

    /// Ends the next job that is due, and starts what waits behind it.
    pub(super) fn end_next(&mut self, now: Time) -> Option<Running> {
        if self.next_end() > now {
            return None;
        }
        let Reverse((_, start)) = self.ends.pop()?;
        self.leave(now, start)
    }

    /// Ends the copies of an instance that still run.
    pub(super) fn end_copies(&mut self, now: Time, instance: usize) {
        let copy = |(_, run): &(&u64, &Running)| run.task.instance == Some(instance);
        let copies: Vec<u64> = self.running.iter().filter(copy).map(|(start, _)| *start).collect();
        copies.into_iter().for_each(|start| {
            self.leave(now, start);
        });
    }

    fn leave(&mut self, now: Time, start: u64) -> Option<Running> {
        let run = self.running.remove(&start)?;
        self.clusters[run.cluster].busy -= 1;
        self.start_due(now, run.cluster);
        Some(run)
    }

    /// A cluster with a processor for which nobody waits.
    pub(super) fn idle(&self) -> Option<usize> {
        self.clusters.iter().position(|cluster| cluster.busy < cluster.processors)
    }

    /// Takes back the last instance of a queue.
    pub(super) fn withdraw(&mut self, cluster: usize) -> Option<Task> {
        let cluster = &mut self.clusters[cluster];
        let at = cluster.waiting.iter().rposition(|task| task.instance.is_some())?;
        cluster.instances -= 1;
        cluster.waiting.remove(at)
    }
}
