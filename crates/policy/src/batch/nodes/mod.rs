//! Plans where nodes are distinguished, in cores, memory, GPUs, local disk space, features and licences: of clusters that declare
//! their nodes (`reservations.rs`), and of external clusters, with their jobs and the next starts of their batch systems.
//!
//! An external batch system cannot give estimates, so a server plans its queue as the batch system does, from listings
//! ([`ClusterSnapshot`]). [`Nodes`] is that plan. It is a [`BatchScheduler`], so that a federation can try moves on it, but it
//! plans on *sets of nodes*: eight free cores are not eight cores of one node, and a planned job may have exclusive nodes
//! ([`Rules`]).
//!
//! The model is Slurm's backfill: jobs in order of priority, each at its earliest start among those planned before it, none
//! moved for another (conservative backfilling, planned again at every change, without its promise that no job
//! is delayed, which real batch systems do not keep). [`Rules`] select one of two readings: the starts that Slurm
//! *announces* ([`Rules::slurm_announced`]) and those that it *makes* ([`Rules::slurm`]), which differ; estimates need the
//! second. Both were measured on real clusters (docs/research/validation.md). Announced starts can be used ([`Rules::published`]):
//! they respect limits that no snapshot shows, but are often late. Those announced for before the next pass are usually right.
//!
//! Costs, for `n` nodes and `q` running and waiting jobs: a plan is made on demand after a change, with one search per job,
//! O(q) steps each where totals of cores exclude a fit and O(t n) more for each remaining instant, `t` being the starts and
//! ends that the job overlaps. An estimate or a submission at the end of the queue is one such search; moves tried on a
//! clone cost a plan each. Simulating passes costs up to a plan per start, within a fixed budget.

mod amounts;
mod announced;
mod catalogue;
mod choice;
mod declared;
mod layout;
mod needs;
mod passes;
mod plan;
mod reservations;
mod rows;
mod rules;
mod search;
mod shares;
mod snapshot;
mod timeline;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pliant_model::{ClusterNodes, Estimate, JobId, Owner, Procs, Resources, Span, Time, Walltimes};

pub use amounts::{Amounts, Part};
pub use declared::DeclaredNodes;
pub use needs::{KindSet, Needs};
pub(crate) use reservations::NodeReservations;
pub use rules::{Reserve, Rules};
pub use snapshot::{
    AdvanceReservation, AllocatedJob, ClusterSnapshot, KINDS_MAX, Licence, Node, NodeKind, NodeShare,
    Pending, PublishedStart, Shape, SnapshotError,
};

use self::catalogue::Catalogue;
use self::passes::Running;
use self::plan::Plan;
use self::rows::Rows;
use self::search::{NodesPlan, rounded};
use crate::batch::{BatchScheduler, Dump, PlanBounds, RestoreError, RunningJob, Start, Submission, Waiting};
use crate::tuning::{self, OtherJobs, Present, Tuner};

/// What a declared cluster has: of each node, then of each licence.
pub(super) fn all_of(cluster: &ClusterNodes) -> Vec<Amounts> {
    let (nodes, catalogue) = Catalogue::declared(cluster);
    Rows::new(&nodes, &catalogue.licences).all
}

/// A running job with its allocation.
#[derive(Clone, Debug)]
struct RunningAllocation {
    cores: Procs,
    end: Time,
    expected: Option<Time>,
    on: Vec<Part>,
    needs: Needs,
}

/// A planned start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedStart {
    /// The job.
    pub job: JobId,
    /// When it starts.
    pub start: Time,
    /// Its part of each node; empty where any free nodes will do.
    pub on: Vec<NodeShare>,
    /// True if it lies within [`Rules::window`]: the batch system would announce it.
    pub near: bool,
}

/// The plan of an external cluster.
#[derive(Clone, Debug)]
pub struct Nodes {
    nodes: Vec<Node>,
    catalogue: Arc<Catalogue>,
    rules: Rules,
    running: BTreeMap<JobId, RunningAllocation>,
    /// By priority.
    pending: Vec<Pending>,
    /// Time of the last event.
    now: Time,
    plan: OnceCell<Plan>,
    /// Shapes of jobs that may be submitted later; for other jobs only the number of cores is known.
    shapes: Arc<BTreeMap<JobId, Shape>>,
}

impl RunningAllocation {
    /// When its cores become free. A job past its limit is stopped soon; a job past its expectation may end at any time.
    fn occupation(&self, now: Time, rules: &Rules) -> Running {
        let soon = Time(now.0 + 1);
        let limit = if self.end > now { self.end } else { (self.end + rules.grace).max(soon) };
        let expected = self.expected.map_or(limit, |expected| expected.max(soon).min(limit));
        let (limit, expected) = (limit + rules.pause, expected + rules.pause);
        Running { limit, expected, on: self.on.clone(), needs: self.needs.clone() }
    }
}

impl Nodes {
    /// The cluster of a snapshot made at `now`.
    pub fn from_snapshot(now: Time, snapshot: &ClusterSnapshot) -> Result<Nodes, SnapshotError> {
        snapshot.check()?;
        let shares = shares::bound(&snapshot.nodes, &snapshot.running);
        let held = |(one, on): (&AllocatedJob, _)| {
            let AllocatedJob { job, cores, end, expected, needs, .. } = one;
            let (cores, end, expected, needs) = (*cores, *end, *expected, needs.clone());
            (*job, RunningAllocation { cores, end, expected, on, needs })
        };
        Ok(Nodes {
            nodes: snapshot.nodes.clone(),
            catalogue: Arc::new(Catalogue::of(snapshot)),
            rules: snapshot.rules.clone(),
            running: snapshot.running.iter().zip(shares).map(held).collect(),
            pending: snapshot.pending.clone(),
            now,
            plan: OnceCell::new(),
            shapes: Arc::default(),
        })
    }

    /// Sets the shapes of jobs submitted later: a replay knows the shapes of local users' jobs.
    pub fn expect(&mut self, shapes: Arc<BTreeMap<JobId, Shape>>) {
        self.shapes = shapes;
    }

    /// Replaces the state by a new snapshot. An invalid one is refused without any change.
    pub fn set(&mut self, now: Time, snapshot: &ClusterSnapshot) -> Result<(), SnapshotError> {
        *self = Nodes::from_snapshot(now, snapshot)?;
        Ok(())
    }

    /// The present state as a snapshot for [`Nodes::from_snapshot`].
    pub fn snapshot(&self) -> ClusterSnapshot {
        let holder = |(job, held): (&JobId, &RunningAllocation)| {
            let RunningAllocation { cores, end, expected, on, needs } = held;
            let on = on.iter().map(|part| share(part, needs)).collect();
            let needs = needs.clone();
            AllocatedJob { job: *job, cores: *cores, on, end: *end, expected: *expected, needs }
        };
        let Catalogue { kinds, own_kinds, licences, .. } = &*self.catalogue;
        ClusterSnapshot {
            nodes: self.nodes.iter().map(|node| Node { taken: None, ..node.clone() }).collect(),
            running: self.running.iter().map(holder).collect(),
            pending: self.pending.clone(),
            rules: self.rules.clone(),
            kinds: kinds.clone(),
            own_kinds: *own_kinds,
            licences: licences.clone(),
            default_memory: self.catalogue.default_memory,
            default_memory_per_node: self.catalogue.default_memory_per_node,
            takes_all_memory: self.catalogue.takes_all_memory,
            reserved: self.catalogue.reserved.clone(),
        }
    }

    /// Appends the planned starts, by priority.
    pub fn planned(&mut self, now: Time, planned: &mut Vec<PlannedStart>) {
        self.advance(now);
        let until = Time(now.0.saturating_add(self.rules.window.0));
        let plan = self.current_plan();
        planned.extend(self.queue().filter_map(|Pending { job, shape, .. }| {
            let fit = plan.fits.get(job)?;
            let named = if plan.layout.is_pool() { &[] } else { &fit.on[..] };
            let on_nodes = named.iter().filter(|part| plan.layout.rows.is_node(part.node));
            let on = on_nodes.map(|part| share(part, &shape.needs)).collect();
            Some(PlannedStart { job: *job, start: fit.start, on, near: fit.start <= until })
        }));
    }

    /// The estimate of a request with a priority below exactly `ahead` of the waiting jobs. Costs a plan of these jobs.
    pub fn estimate_behind(
        &mut self,
        now: Time,
        walltimes: &Walltimes<'_>,
        tuner: Tuner,
        ahead: usize,
    ) -> Option<Estimate> {
        if ahead >= self.pending.len() {
            return self.estimate(now, walltimes, tuner);
        }
        self.advance(now);
        let plan = self.plan_for(&self.pending[..ahead]);
        self.size(&plan, walltimes, tuner)
    }

    /// The waiting jobs of these nodes, by priority.
    fn queue(&self) -> impl Iterator<Item = &Pending> {
        self.pending.iter().filter(|one| !one.shape.is_elsewhere())
    }

    /// Sets the time; discards a stale plan.
    fn advance(&mut self, now: Time) {
        self.now = now;
        if self.plan.get().is_some_and(|plan| plan.overtaken(now)) {
            self.plan.take();
        }
    }

    fn current_plan(&self) -> &Plan {
        self.plan.get_or_init(|| self.plan_for(&self.pending))
    }

    fn plan_for(&self, pending: &[Pending]) -> Plan {
        let running: Vec<Running> =
            self.running.values().map(|held| held.occupation(self.now, &self.rules)).collect();
        let held = running.iter().map(|one| (one.expected, &one.on[..], &one.needs));
        let cluster = (&self.nodes[..], &*self.catalogue);
        let mut plan = Plan::new(self.now, &self.rules, cluster, held);
        if self.rules.passes > 0 && self.rules.reserve == Reserve::Start {
            for (job, fit) in passes::play(self.now, &self.rules, cluster, running, pending) {
                if let Some(one) = pending.iter().find(|one| one.job == job) {
                    plan.reserve(one, fit);
                }
            }
        }
        plan.fill(self.now, pending);
        plan
    }

    /// The estimate of a request behind all planned jobs.
    fn size(&self, plan: &Plan, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        let shapes = |each: &mut dyn FnMut(Procs, Span)| {
            self.running.values().for_each(|held| each(held.cores, (held.end - self.now).max(Span(0))));
            self.queue().for_each(|one| each(one.shape.cores, one.walltime));
        };
        let others = OtherJobs { count: self.running.len() + self.queue().count(), shapes: &shapes };
        let Plan { layout, timeline, .. } = plan;
        let mut sizes = NodesPlan::new(&self.catalogue, (layout, timeline), self.now, walltimes);
        tuning::choose(tuner, &mut sizes, &Present { now: self.now, others })
    }

    /// The start of a job: one announced for before the next pass holds unless the job is planned earlier. Other jobs are
    /// planned as if it did not. An announced start at this very moment may be rounded or stale.
    fn corrected(&self, job: &Pending, start: Time) -> Time {
        let is_soon =
            |published: &Time| *published > self.now && *published <= self.now + self.rules.interval;
        let published = job.published.as_ref().map(|published| published.start).filter(is_soon);
        published.map_or(start, |published| published.min(start))
    }

    fn expected(&self, pending: &Pending) -> Option<Estimate> {
        let start = self.corrected(pending, self.current_plan().fits.get(&pending.job)?.start);
        Some(Estimate { procs: pending.shape.cores, walltime: pending.walltime, start })
    }
}

impl BatchScheduler for Nodes {
    fn submit(&mut self, now: Time, submission: Submission) {
        self.advance(now);
        let Submission { job, procs, walltime, resources, .. } = submission;
        let asked = || self.catalogue.shape(procs, resources.as_deref());
        let shape = self.shapes.get(&job).cloned().unwrap_or_else(asked);
        let pending = Pending::of(job, shape, walltime);
        if let Some(plan) = self.plan.get_mut() {
            plan.push(now, &pending);
        }
        self.pending.push(pending);
    }

    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize {
        self.advance(now);
        let due = |one: &Pending| self.expected(one).is_some_and(|plan| plan.start <= now);
        let leaves = |one: &&Pending| jobs.contains(&one.job) && !due(one);
        let leaving: BTreeSet<JobId> = self.pending.iter().filter(leaves).map(|one| one.job).collect();
        if !leaving.is_empty() {
            self.pending.retain(|one| !leaving.contains(&one.job));
            self.plan.take();
        }
        leaving.len()
    }

    fn finish(&mut self, now: Time, job: JobId) {
        self.advance(now);
        if self.running.remove(&job).is_some() {
            self.plan.take();
        }
    }

    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]) {
        self.advance(now);
        for (job, end) in jobs {
            if let Some(held) = self.running.get_mut(job) {
                held.end = held.end.max(*end);
                held.expected = held.expected.map(|_| *end);
            }
        }
        self.plan.take();
    }

    fn start_due(&mut self, now: Time, started: &mut Vec<Start>) {
        self.now = now;
        if self.next_start().is_none_or(|first| first > now) {
            return;
        }
        let Some(plan) = self.plan.take() else { return };
        let mut due: Vec<(Time, Pending)> = Vec::new();
        self.pending.retain(|one| match plan.fits.get(&one.job) {
            Some(fit) if fit.start <= now => {
                due.push((fit.start, one.clone()));
                false
            }
            _ => true,
        });
        due.sort_by_key(|(start, _)| *start);
        let mut is_used = vec![false; self.nodes.len()];
        for Part { node, taken } in self.running.values().flat_map(|held| &held.on) {
            is_used[*node as usize] |= taken.cores > 0;
        }
        for (start, Pending { job, shape, walltime, expected, .. }) in due {
            let fit = plan.fits.get(&job).map_or(&[][..], |fit| &fit.on);
            let on = plan.layout.parts(&shape, fit, &self.nodes, &is_used);
            on.iter().for_each(|part| is_used[part.node as usize] = true);
            let end = start + rounded(walltime, &self.rules);
            let expected = expected.map(|expected| start + expected);
            let Shape { cores, needs, .. } = shape;
            self.running.insert(job, RunningAllocation { cores, end, expected, on, needs });
            started.push(Start { job, procs: cores, walltime });
        }
    }

    fn next_start(&self) -> Option<Time> {
        self.current_plan().first
    }

    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        self.advance(now);
        self.size(self.current_plan(), walltimes, tuner)
    }

    /// None by announced starts, which are rounded.
    fn plan_bounds(&mut self, now: Time) -> Option<PlanBounds> {
        self.advance(now);
        let is_bounded = self.rules.reserve != Reserve::Nodes;
        is_bounded.then(|| PlanBounds { free: self.current_plan().timeline.free_plan(now), jobs: None })
    }

    /// Jobs without a plan, and those on nodes that are not in the snapshot, are omitted.
    fn list(&mut self, now: Time, waiting: &mut Vec<Waiting>) {
        self.advance(now);
        let one = |one: &Pending| Some(Waiting { job: one.job, plan: self.expected(one)? });
        waiting.extend(self.queue().filter_map(one));
    }

    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        self.advance(now);
        self.expected(self.pending.iter().find(|one| one.job == job)?)
    }

    fn counts_resources(&self) -> bool {
        true
    }

    fn queue_length(&self) -> usize {
        self.queue().count()
    }

    /// Only numbers of cores, as for other schedulers: planned jobs are `planned`, others `queued`. Nodes and shapes are in
    /// [`Nodes::snapshot`].
    fn dump(&self) -> Dump {
        let running = |(job, held): (&JobId, &RunningAllocation)| RunningJob {
            job: *job,
            procs: held.cores,
            end: held.end,
        };
        let mut dump = Dump { running: self.running.iter().map(running).collect(), ..Dump::default() };
        for one in self.queue() {
            match self.expected(one) {
                Some(plan) => dump.planned.push(Waiting { job: one.job, plan }),
                None => {
                    let (procs, walltime) = (one.shape.cores, one.walltime);
                    // External batch systems have their own priorities.
                    let (submit, owner) = (Time::ZERO, Owner::UNKNOWN);
                    dump.queued.push(Submission {
                        submit,
                        owner,
                        ..Submission::new(one.job, procs, walltime)
                    });
                }
            }
        }
        dump
    }

    /// The nodes stay. Known jobs keep their shapes and nodes; other running jobs get nodes by their size, and other waiting
    /// jobs get cores on any node.
    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError> {
        let capacity = Procs(self.nodes.iter().map(|node| node.cores.0).sum());
        dump.check(now, capacity)?;
        if let Some(head) = dump.head {
            return Err(RestoreError::OtherPolicy { job: head.job, expected: "no job with a kept shape" });
        }
        *self = restored(self, now, dump);
        Ok(())
    }

    fn boxed_clone(&self) -> Box<dyn BatchScheduler> {
        Box::new(self.clone())
    }
}

/// A part of a node as it is shown, of a job with these needs.
fn share(Part { node, taken }: &Part, needs: &Needs) -> NodeShare {
    let gpus = taken.gpus.saturating_sub(needs.on(taken.cores).gpus);
    NodeShare { node: *node, cores: Some(Procs(taken.cores)), gpus }
}

/// The cluster with the jobs of a dump.
fn restored(cluster: &Nodes, now: Time, dump: &Dump) -> Nodes {
    let mut running: BTreeMap<JobId, RunningAllocation> = BTreeMap::new();
    let rows = Rows::new(&cluster.nodes, &cluster.catalogue.licences);
    let mut free = rows.all.clone();
    let known = |one: &RunningJob| cluster.running.get(&one.job).filter(|held| held.cores == one.procs);
    let (old, new): (Vec<&RunningJob>, Vec<_>) = dump.running.iter().partition(|one| known(one).is_some());
    for one in old.into_iter().chain(new) {
        let fit = || choice::choose(&free, &rows, &Shape::of(one.procs)).unwrap_or_default();
        let on = known(one).map_or_else(fit, |held| held.on.clone());
        let expected = known(one).and_then(|held| held.expected);
        let needs = known(one).map(|held| held.needs.clone()).unwrap_or_default();
        for Part { node, taken } in &on {
            free[*node as usize] = free[*node as usize].without(*taken);
        }
        running.insert(one.job, RunningAllocation { cores: one.procs, end: one.end, expected, on, needs });
    }
    let asked: BTreeMap<JobId, &Resources> =
        dump.on_nodes.iter().filter_map(|one| Some((one.job, one.resources.as_deref()?))).collect();
    let waiting = dump
        .planned
        .iter()
        .map(|Waiting { job, plan }| (*job, plan.procs, plan.walltime, false, asked.get(job).copied()));
    let line =
        dump.queued.iter().map(|one| (one.job, one.procs, one.walltime, true, one.resources.as_deref()));
    let pending = waiting.chain(line).map(|(job, procs, walltime, blocked, resources)| {
        let known = cluster.pending.iter().find(|one| one.job == job && one.shape.cores == procs);
        let shape = || cluster.catalogue.shape(procs, resources);
        let fresh = || Pending { blocked, ..Pending::of(job, shape(), walltime) };
        Pending { walltime, ..known.cloned().unwrap_or_else(fresh) }
    });
    // A dump has none of those elsewhere, which stay.
    let elsewhere = cluster.pending.iter().filter(|one| one.shape.is_elsewhere()).cloned();
    let pending: Vec<Pending> = elsewhere.chain(pending).collect();
    let (nodes, catalogue, rules) = (cluster.nodes.clone(), cluster.catalogue.clone(), cluster.rules.clone());
    let shapes = cluster.shapes.clone();
    Nodes { nodes, catalogue, rules, running, pending, now, plan: OnceCell::new(), shapes }
}
