//! The agent's view of its clusters, and the operations on it: estimate, submit, cancel while waiting, list.
//!
//! Grid policies ([`crate::mapping`], [`crate::reallocation`]) work on a [`Federation`] and return their decisions as data,
//! each with its reason. In a direct simulation the federation *is* the simulated clusters, and decisions apply at once. A live
//! agent builds the federation from snapshots of its servers' queues and carries the decisions out one by one; each is checked
//! again where it applies.

mod groups;
mod search;

use std::collections::BTreeMap;

use pliant_model::{
    ClusterId, Estimate, JobId, Platform, Procs, Reason, Request, Span, Speed, Time, Walltimes,
};

use self::groups::Groups;
use crate::UnknownName;
use crate::batch::order::PrioritySettings;
use crate::batch::{BatchScheduler, LocalPolicy, Submission};
use crate::discovery::BoundOrder;
use crate::tuning::Tuner;

/// A cluster and its batch system.
pub struct ClusterState {
    procs: Procs,
    speed: Speed,
    scheduler: Box<dyn BatchScheduler>,
    /// How it sizes moldable requests.
    tuner: Tuner,
    admission: Admission,
    /// Changes whenever an estimate may have changed.
    version: u64,
}

impl Clone for ClusterState {
    fn clone(&self) -> Self {
        let Self { procs, speed, tuner, admission, version, .. } = *self;
        Self { procs, speed, scheduler: self.scheduler.boxed_clone(), tuner, admission, version }
    }
}

impl ClusterState {
    /// The plan of a waiting job, unless the job is to leave the cluster before it starts.
    fn plan_to_keep(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        let plan = self.scheduler.plan(now, job)?;
        (self.admission != Admission::Drained || plan.start <= now).then_some(plan)
    }
}

/// Whether a cluster accepts requests at present. One that does not gives no estimate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Admission {
    /// It accepts requests.
    #[default]
    Open,
    /// It accepts none and keeps its waiting jobs, unless they gain elsewhere.
    Closed,
    /// It accepts none, and its waiting jobs go to the other cluster that completes them first, even if that is later.
    Drained,
}

/// The description of a cluster from which a federation is built.
pub struct FederatedCluster {
    /// Processors.
    pub procs: Procs,
    /// Their speed.
    pub speed: Speed,
    /// How it sizes moldable requests.
    pub tuner: Tuner,
    /// Its batch system, or the snapshot of one.
    pub scheduler: Box<dyn BatchScheduler>,
    /// Whether it accepts requests.
    pub admission: Admission,
}

/// A waiting request that the federation may move.
#[derive(Clone, PartialEq, Debug)]
pub struct Tracked {
    /// The request.
    pub request: Request,
    /// The cluster where it waits.
    pub cluster: ClusterId,
    /// Number of moves so far.
    pub moves: u32,
    /// The reason of its mapping or last move.
    pub reason: Reason,
}

impl Tracked {
    /// The submission in a shape on a cluster of that speed.
    fn submission(&self, speed: Speed, (procs, walltime): (Procs, Span)) -> Submission {
        let Request { id: job, submit, owner, .. } = self.request;
        let resources = self.request.resources_at(speed, procs, walltime);
        Submission { job, procs, walltime, submit, owner, resources }
    }
}

/// The clusters and the waiting requests that were submitted through the federation. Jobs of local users are visible
/// through the schedulers only and never moved.
#[derive(Clone)]
pub struct Federation {
    clusters: Vec<ClusterState>,
    /// By job ID, which is the order of submission.
    waiting: BTreeMap<JobId, Tracked>,
    /// The other clusters where a request has a sibling job ([`crate::reallocation::siblings`]).
    siblings: BTreeMap<JobId, Vec<ClusterId>>,
    /// The clusters that a request must not use.
    excluded: BTreeMap<JobId, Vec<ClusterId>>,
    /// Processors of the largest cluster.
    largest: Procs,
    /// None if there are few clusters.
    groups: Option<Groups>,
    order: BoundOrder<ClusterId, ClusterId>,
}

impl Federation {
    /// Empty clusters at `now`; fails if a batch policy is not registered.
    pub fn new(platform: &Platform, tuner: Tuner, now: Time) -> Result<Federation, UnknownName> {
        Federation::under(platform, tuner, now, &PrioritySettings::default())
    }

    /// The same, with queue orders by usage set by `priority`.
    pub fn under(
        platform: &Platform,
        tuner: Tuner,
        now: Time,
        priority: &PrioritySettings,
    ) -> Result<Federation, UnknownName> {
        let clusters = platform
            .clusters()
            .iter()
            .map(|cluster| {
                let local = cluster.batch.parse::<LocalPolicy>()?;
                let scheduler = match &cluster.nodes {
                    Some(nodes) => local.scheduler_on(nodes, now)?,
                    None => local.scheduler_under(cluster.procs, now, priority),
                };
                Ok(FederatedCluster {
                    procs: cluster.procs,
                    speed: cluster.speed,
                    tuner,
                    scheduler,
                    admission: Admission::Open,
                })
            })
            .collect::<Result<Vec<_>, UnknownName>>()?;
        Ok(Federation::from_clusters(clusters, []))
    }

    /// A federation of clusters with present queues, numbered in this order, and their movable waiting requests. Job IDs
    /// are unique over all clusters.
    pub fn from_clusters(
        clusters: Vec<FederatedCluster>,
        waiting: impl IntoIterator<Item = Tracked>,
    ) -> Federation {
        let state = |FederatedCluster { procs, speed, tuner, scheduler, admission }| ClusterState {
            procs,
            speed,
            scheduler,
            tuner,
            admission,
            version: 0,
        };
        let clusters: Vec<ClusterState> = clusters.into_iter().map(state).collect();
        let groups = Groups::of(&clusters);
        let largest = clusters.iter().map(|cluster| cluster.procs).max().unwrap_or_default();
        Federation {
            clusters,
            waiting: waiting.into_iter().map(|tracked| (tracked.request.id, tracked)).collect(),
            siblings: BTreeMap::new(),
            excluded: BTreeMap::new(),
            largest,
            groups,
            order: BoundOrder::default(),
        }
    }

    /// Number of clusters.
    pub fn len(&self) -> usize {
        self.clusters.len()
    }

    /// True if there are no clusters.
    pub fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// All clusters.
    pub fn ids(&self) -> impl Iterator<Item = ClusterId> + use<> {
        (0..self.clusters.len() as u32).map(ClusterId)
    }

    /// Processors of a cluster.
    pub fn procs(&self, cluster: ClusterId) -> Procs {
        self.clusters[cluster.index()].procs
    }

    /// The scheduler of a cluster, for the driver that delivers its events.
    pub fn scheduler(&mut self, cluster: ClusterId) -> &mut dyn BatchScheduler {
        self.touch(cluster);
        self.clusters[cluster.index()].scheduler.as_mut()
    }

    /// Replaces the scheduler of a cluster, for example by a newer snapshot of an external queue.
    pub fn replace(&mut self, cluster: ClusterId, scheduler: Box<dyn BatchScheduler>) {
        self.clusters[cluster.index()].scheduler = scheduler;
        self.touch(cluster);
        if let Some(groups) = &mut self.groups {
            groups.replaced(cluster);
        }
    }

    fn touch(&mut self, cluster: ClusterId) {
        self.clusters[cluster.index()].version += 1;
        if let Some(groups) = &mut self.groups {
            groups.touch(cluster);
        }
    }

    /// The next start on a cluster if no other event occurs, as far as its policy plans ahead.
    pub fn next_start(&self, cluster: ClusterId) -> Option<Time> {
        self.clusters[cluster.index()].scheduler.next_start()
    }

    /// Changes whenever an estimate on the cluster may change.
    pub fn version(&self, cluster: ClusterId) -> u64 {
        self.clusters[cluster.index()].version
    }

    /// The waiting requests, in order of submission.
    pub fn waiting(&self) -> &BTreeMap<JobId, Tracked> {
        &self.waiting
    }

    /// The estimate of a cluster for a request; none if the cluster accepts no requests or the request does not fit.
    pub fn estimate(&mut self, now: Time, request: &Request, cluster: ClusterId) -> Option<Estimate> {
        let walltimes = self.walltimes(request, cluster)?;
        let state = &mut self.clusters[cluster.index()];
        state.scheduler.estimate(now, &walltimes, state.tuner)
    }

    /// As [`Federation::estimate`], for a caller that has no use for completions after `latest`: the estimate may then be none.
    fn estimate_by(
        &mut self,
        now: Time,
        request: &Request,
        cluster: ClusterId,
        latest: Time,
    ) -> Option<Estimate> {
        let walltimes = self.walltimes(request, cluster)?;
        let state = &mut self.clusters[cluster.index()];
        state.scheduler.estimate_by(now, &walltimes, state.tuner, latest)
    }

    /// The shape that the cluster gives a request: that of its estimate. A request of one size needs no plan, which is worth
    /// much under policies without reservations.
    pub fn shape(&mut self, now: Time, request: &Request, cluster: ClusterId) -> Option<(Procs, Span)> {
        let walltimes = self.walltimes(request, cluster)?;
        let scheduler = &self.clusters[cluster.index()].scheduler;
        let needs_more = request.resources.is_some() || walltimes.gpu_sizes().is_some();
        let may_not_fit = needs_more && scheduler.counts_resources();
        if walltimes.least() == walltimes.most() && !may_not_fit {
            return Some((walltimes.least(), walltimes.at(walltimes.least())));
        }
        self.estimate(now, request, cluster).map(|estimate| estimate.shape())
    }

    /// The walltimes of a request on a cluster; none if the cluster accepts no requests, does not count what the request needs, or the
    /// request does not fit.
    fn walltimes<'a>(&self, request: &'a Request, cluster: ClusterId) -> Option<Walltimes<'a>> {
        let ClusterState { admission, procs, speed, ref scheduler, .. } = self.clusters[cluster.index()];
        let is_avoided = || self.excluded.get(&request.id).is_some_and(|avoided| avoided.contains(&cluster));
        let is_counted = scheduler.counts_resources() || request.needs_one_node(procs);
        if admission == Admission::Open && is_counted && !is_avoided() {
            request.where_counted(procs, speed, scheduler.counts_resources())
        } else {
            None
        }
    }

    /// Submits a request in the shape of a present estimate and tracks it while it waits.
    pub fn submit(&mut self, now: Time, tracked: Tracked, shape: (Procs, Span)) {
        let job = tracked.request.id;
        let submission = tracked.submission(self.clusters[tracked.cluster.index()].speed, shape);
        self.scheduler(tracked.cluster).submit(now, submission);
        self.waiting.insert(job, tracked);
    }

    /// The clusters with a sibling job of a waiting request, without the cluster of the request itself.
    pub fn siblings(&self, job: JobId) -> &[ClusterId] {
        self.siblings.get(&job).map_or(&[], Vec::as_slice)
    }

    /// Notes that the snapshot of the cluster's queue has a sibling job of a waiting request.
    pub fn add_sibling(&mut self, job: JobId, cluster: ClusterId) {
        self.siblings.entry(job).or_default().push(cluster);
    }

    /// Excludes a cluster for a request.
    pub fn exclude(&mut self, job: JobId, cluster: ClusterId) {
        self.excluded.entry(job).or_default().push(cluster);
    }

    /// Submits a sibling job of a waiting request in the shape of a present estimate.
    pub fn submit_sibling(&mut self, now: Time, job: JobId, cluster: ClusterId, estimate: Estimate) {
        let Some(tracked) = self.waiting.get(&job) else { return };
        let submission = tracked.submission(self.clusters[cluster.index()].speed, estimate.shape());
        self.scheduler(cluster).submit(now, submission);
        self.add_sibling(job, cluster);
    }

    /// Cancels a waiting request; returns false without any change if its start is due.
    pub fn cancel(&mut self, now: Time, job: JobId) -> bool {
        let Some(tracked) = self.waiting.get(&job) else { return false };
        let cluster = tracked.cluster;
        let cancelled = self.scheduler(cluster).cancel(now, &[job]) == 1;
        if cancelled {
            self.waiting.remove(&job);
        }
        cancelled
    }

    /// Cancels those of `jobs` that still wait, cluster by cluster, and returns them in order of submission with their expected
    /// completions, [`Time::MAX`] for a job without a plan. A job without a plan is cancelled only if another cluster accepts
    /// it, since its own could not take it back; likewise, jobs planned on a cluster that accepts no requests stay.
    pub fn cancel_all(&mut self, now: Time, jobs: &[JobId]) -> Vec<(Tracked, Time)> {
        let mut taken = Vec::with_capacity(jobs.len());
        let mut per_cluster: Vec<Vec<JobId>> = vec![Vec::new(); self.clusters.len()];
        for job in jobs {
            let Some(tracked) = self.waiting.get(job) else { continue };
            let cluster = tracked.cluster;
            let request = tracked.request.clone();
            let state = &mut self.clusters[cluster.index()];
            let completion = match state.plan_to_keep(now, *job) {
                Some(plan) if plan.start <= now || state.admission == Admission::Closed => continue,
                Some(plan) => {
                    per_cluster[cluster.index()].push(*job);
                    plan.completion()
                }
                None => {
                    let planned = state.scheduler.plan(now, *job).map_or(Time::MAX, |plan| plan.completion());
                    let is_taken = self.earliest(now, &request, Some(cluster), Time::MAX).is_some();
                    if !is_taken || self.scheduler(cluster).cancel(now, &[*job]) == 0 {
                        continue;
                    }
                    planned
                }
            };
            if let Some(tracked) = self.waiting.remove(job) {
                taken.push((tracked, completion));
            }
        }
        for cluster in self.ids() {
            let jobs = &per_cluster[cluster.index()];
            if !jobs.is_empty() {
                let cancelled = self.scheduler(cluster).cancel(now, jobs);
                debug_assert_eq!(cancelled, jobs.len(), "a waiting job refused to be cancelled");
            }
        }
        taken
    }

    /// The plan of a waiting request; none if its cluster has none (a partition that is down, a limit on its owner), or is drained
    /// and the start is not due.
    pub fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        let cluster = self.waiting.get(&job)?.cluster;
        self.clusters[cluster.index()].plan_to_keep(now, job)
    }

    /// The completion of a waiting request by the plan of its cluster, also of a drained one.
    pub(crate) fn completion(&mut self, now: Time, job: JobId) -> Option<Time> {
        let cluster = self.waiting.get(&job)?.cluster;
        self.clusters[cluster.index()].scheduler.plan(now, job).map(|plan| plan.completion())
    }

    /// True if the waiting requests of a cluster are to leave it.
    pub(crate) fn is_drained(&self, cluster: ClusterId) -> bool {
        self.clusters[cluster.index()].admission == Admission::Drained
    }

    /// Removes a request whose job has started: it can no longer be moved.
    pub fn started(&mut self, job: JobId) -> Option<Tracked> {
        self.siblings.remove(&job);
        self.waiting.remove(&job)
    }
}
