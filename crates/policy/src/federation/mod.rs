//! The agent's picture of its clusters, and what may be done with it: estimate, submit, cancel while
//! waiting, list.
//!
//! Grid policies ([`crate::mapping`], [`crate::reallocation`]) work on a [`Federation`] and return what they
//! did as data, each decision with its reason. In a direct simulation the federation *is* the simulated
//! clusters, so a decision is applied as it is made; a live agent hands in pictures of its servers' queues
//! and carries the returned decisions out one by one, each checked again where it lands.

mod groups;

use std::collections::BTreeMap;

use pliant_model::{ClusterId, Estimate, JobId, Platform, Procs, Reason, Request, Speed, Time};

use self::groups::Groups;
use crate::UnknownName;
use crate::batch::{BatchScheduler, LocalPolicy, Submission};
use crate::completion::Earliest;
use crate::tuning::{ClassTimes, Tuner};

/// One cluster as the agent sees it.
pub struct ClusterState {
    procs: Procs,
    speed: Speed,
    scheduler: Box<dyn BatchScheduler>,
    /// How it sizes moldable requests.
    tuner: Tuner,
    /// Whether it takes requests.
    open: bool,
    /// Grows whenever estimates may have changed for the worse or the better.
    version: u64,
}

impl Clone for ClusterState {
    fn clone(&self) -> Self {
        let Self { procs, speed, tuner, open, version, .. } = *self;
        Self { procs, speed, scheduler: self.scheduler.boxed_clone(), tuner, open, version }
    }
}

/// One cluster of a federation in the making.
pub struct FederatedCluster {
    /// Processors.
    pub procs: Procs,
    /// How fast they are.
    pub speed: Speed,
    /// How it sizes moldable requests.
    pub tuner: Tuner,
    /// Its batch system, or a picture of it.
    pub scheduler: Box<dyn BatchScheduler>,
    /// Whether it takes requests at the moment: one that does not keeps what waits there, and gives no estimate.
    pub open: bool,
}

/// A waiting request that is the federation's to move.
#[derive(Clone, PartialEq, Debug)]
pub struct Tracked {
    /// What was asked for.
    pub request: Request,
    /// Where it waits.
    pub cluster: ClusterId,
    /// How often it was moved.
    pub moves: u32,
    /// Why it waits there.
    pub reason: Reason,
}

impl Tracked {
    /// What is submitted to a cluster that gives that estimate.
    fn submission(&self, estimate: Estimate) -> Submission {
        let Request { id: job, submit, owner, .. } = self.request;
        Submission { job, procs: estimate.procs, walltime: estimate.walltime, submit, owner }
    }
}

/// The clusters, and the requests waiting on them that came through the federation. Jobs that local users
/// submitted are seen through the schedulers only, and never touched.
#[derive(Clone)]
pub struct Federation {
    clusters: Vec<ClusterState>,
    /// By job: in the order of submission, since drivers number jobs as they are submitted.
    waiting: BTreeMap<JobId, Tracked>,
    /// Where else than at their own cluster they are queued ([`crate::reallocation::siblings`]).
    siblings: BTreeMap<JobId, Vec<ClusterId>>,
    /// Where they are not to go.
    excluded: BTreeMap<JobId, Vec<ClusterId>>,
    /// Processors of the largest cluster.
    largest: Procs,
    groups: Groups,
    group_order: Vec<(Time, usize)>,
    member_order: Vec<(Time, ClusterId)>,
}

impl Federation {
    /// Empty clusters at `now`; fails if a batch policy is not registered.
    pub fn new(platform: &Platform, tuner: Tuner, now: Time) -> Result<Federation, UnknownName> {
        let clusters = platform
            .clusters()
            .iter()
            .map(|cluster| {
                let scheduler = cluster.batch.parse::<LocalPolicy>()?.scheduler(cluster.procs, now);
                Ok(FederatedCluster {
                    procs: cluster.procs,
                    speed: cluster.speed,
                    tuner,
                    scheduler,
                    open: true,
                })
            })
            .collect::<Result<Vec<_>, UnknownName>>()?;
        Ok(Federation::from_clusters(clusters, []))
    }

    /// Clusters as they are at the moment, numbered in this order, with the requests that wait on them and may be
    /// moved. A job has one number, and no other job of any cluster has it.
    pub fn from_clusters(
        clusters: Vec<FederatedCluster>,
        waiting: impl IntoIterator<Item = Tracked>,
    ) -> Federation {
        let state = |FederatedCluster { procs, speed, tuner, scheduler, open }| ClusterState {
            procs,
            speed,
            scheduler,
            tuner,
            open,
            version: 0,
        };
        let clusters: Vec<ClusterState> = clusters.into_iter().map(state).collect();
        let groups = Groups::new(&clusters);
        let largest = clusters.iter().map(|cluster| cluster.procs).max().unwrap_or_default();
        Federation {
            clusters,
            waiting: waiting.into_iter().map(|tracked| (tracked.request.id, tracked)).collect(),
            siblings: BTreeMap::new(),
            excluded: BTreeMap::new(),
            largest,
            groups,
            group_order: Vec::new(),
            member_order: Vec::new(),
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
        let state = &mut self.clusters[cluster.index()];
        state.version += 1;
        self.groups.touch(cluster);
        state.scheduler.as_mut()
    }

    /// Puts another scheduler in the place of a cluster's: the picture of a foreign queue, or a newer one.
    pub fn replace(&mut self, cluster: ClusterId, scheduler: Box<dyn BatchScheduler>) {
        let state = &mut self.clusters[cluster.index()];
        state.scheduler = scheduler;
        state.version += 1;
        self.groups.touch(cluster);
    }

    /// Changes whenever an estimate on the cluster may change.
    pub fn version(&self, cluster: ClusterId) -> u64 {
        self.clusters[cluster.index()].version
    }

    /// The waiting requests, in order of submission.
    pub fn waiting(&self) -> &BTreeMap<JobId, Tracked> {
        &self.waiting
    }

    /// What a cluster would give a request now; none if it takes none, or not this one.
    pub fn estimate(&mut self, now: Time, request: &Request, cluster: ClusterId) -> Option<Estimate> {
        let is_avoided = || self.excluded.get(&request.id).is_some_and(|avoided| avoided.contains(&cluster));
        if !self.clusters[cluster.index()].open || is_avoided() {
            return None;
        }
        let state = &mut self.clusters[cluster.index()];
        let walltimes = request.on(state.procs, state.speed)?;
        state.scheduler.estimate(now, &walltimes, state.tuner)
    }

    /// The cluster that completes a request first, and how (MCT); `except` is left out, and so is whatever
    /// completes after `latest`. Ties go to the first cluster.
    ///
    /// Groups of clusters, and clusters, whose completion bound is later than the best estimate so far are
    /// not asked: the bound is one that no estimate beats, so the answer is the same (a test compares with
    /// asking all).
    pub fn earliest(
        &mut self,
        now: Time,
        request: &Request,
        except: Option<ClusterId>,
        latest: Time,
    ) -> Option<(ClusterId, Estimate)> {
        let times = ClassTimes::new(&request.on(self.largest, Speed::REFERENCE)?);
        let mut groups = std::mem::take(&mut self.group_order);
        let mut members = std::mem::take(&mut self.member_order);
        groups.clear();
        let mut earliest = Earliest::until(latest);
        for (index, group) in self.groups.all.iter_mut().enumerate() {
            let bound = group.completion_bound(&self.clusters, now, &times);
            if earliest.may_take_from(bound) {
                groups.push((bound, index));
            }
        }
        groups.sort_unstable();
        for (bound, index) in groups.iter().copied() {
            if !earliest.may_take_from(bound) {
                break;
            }
            members.clear();
            for id in &self.groups.all[index].members {
                let state = &self.clusters[id.index()];
                let bounds = state.scheduler.start_bounds();
                let bound = times.completion_bound(bounds, now, state.speed, state.procs);
                if Some(*id) != except && earliest.may_take_from(bound) {
                    members.push((bound, *id));
                }
            }
            members.sort_unstable();
            for (bound, id) in members.iter().copied() {
                if !earliest.may_take(bound, id) {
                    break;
                }
                if let Some(estimate) = self.estimate(now, request, id) {
                    earliest.offer(id, estimate);
                }
            }
            self.groups.all[index].refresh(&self.clusters, &times);
        }
        (self.group_order, self.member_order) = (groups, members);
        earliest.taken()
    }

    /// Submits a request in the shape of an estimate just made, and keeps track of it while it waits.
    pub fn submit(&mut self, now: Time, tracked: Tracked, estimate: Estimate) {
        let job = tracked.request.id;
        let submission = tracked.submission(estimate);
        self.scheduler(tracked.cluster).submit(now, submission);
        self.waiting.insert(job, tracked);
    }

    /// The clusters that have a copy of a waiting request, beside the one where it waits itself.
    pub fn siblings(&self, job: JobId) -> &[ClusterId] {
        self.siblings.get(&job).map_or(&[], Vec::as_slice)
    }

    /// The cluster's queue, as it was from_clusters, has a copy of a waiting request.
    pub fn add_sibling(&mut self, job: JobId, cluster: ClusterId) {
        self.siblings.entry(job).or_default().push(cluster);
    }

    /// A request is not to go to a cluster, whatever that one would give it.
    pub fn exclude(&mut self, job: JobId, cluster: ClusterId) {
        self.excluded.entry(job).or_default().push(cluster);
    }

    /// Submits a copy of a waiting request in the shape of an estimate just made.
    pub fn submit_sibling(&mut self, now: Time, job: JobId, cluster: ClusterId, estimate: Estimate) {
        let Some(submission) = self.waiting.get(&job).map(|tracked| tracked.submission(estimate)) else {
            return;
        };
        self.scheduler(cluster).submit(now, submission);
        self.add_sibling(job, cluster);
    }

    /// Cancels a waiting request where it waits; false (and nothing happens) if it has come due.
    pub fn cancel(&mut self, now: Time, job: JobId) -> bool {
        let Some(tracked) = self.waiting.get(&job) else { return false };
        let cluster = tracked.cluster;
        let cancelled = self.scheduler(cluster).cancel(now, &[job]) == 1;
        if cancelled {
            self.waiting.remove(&job);
        }
        cancelled
    }

    /// Cancels all of `jobs` that still wait, cluster by cluster, and returns them in order of submission, each with the
    /// completion that was expected of it: [`Time::MAX`] of one that is not planned. Such a job is cancelled only if another
    /// cluster takes it, since its own has no place for it; one that is planned on a cluster that takes no requests keeps its
    /// place there, since it could not come back.
    pub fn cancel_all(&mut self, now: Time, jobs: &[JobId]) -> Vec<(Tracked, Time)> {
        let mut taken = Vec::with_capacity(jobs.len());
        let mut per_cluster: Vec<Vec<JobId>> = vec![Vec::new(); self.clusters.len()];
        for job in jobs {
            let Some(tracked) = self.waiting.get(job) else { continue };
            let cluster = tracked.cluster;
            let request = tracked.request.clone();
            let state = &mut self.clusters[cluster.index()];
            let completion = match state.scheduler.plan(now, *job) {
                Some(plan) if plan.start <= now || !state.open => continue,
                Some(plan) => {
                    per_cluster[cluster.index()].push(*job);
                    plan.completion()
                }
                None => {
                    let is_taken = self.earliest(now, &request, Some(cluster), Time::MAX).is_some();
                    if !is_taken || self.scheduler(cluster).cancel(now, &[*job]) == 0 {
                        continue;
                    }
                    Time::MAX
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

    /// The plan of a waiting request; none if its cluster has none for it (a partition that is down, a limit on its owner).
    pub fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        let cluster = self.waiting.get(&job)?.cluster;
        self.clusters[cluster.index()].scheduler.plan(now, job)
    }

    /// A job has started: if it was a request of the federation, it is nobody's to move any more.
    pub fn started(&mut self, job: JobId) -> Option<Tracked> {
        self.siblings.remove(&job);
        self.waiting.remove(&job)
    }
}
