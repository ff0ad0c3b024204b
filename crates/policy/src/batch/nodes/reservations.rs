//! Conservative backfilling on nodes: `batch::cbf` where memory, GPUs and the nodes themselves matter too.
//!
//! Every job gets a reservation at submission, at the earliest time that delays no other, on named nodes. When a job ends
//! or is withdrawn, each waiting job in order of submission gives up its reservation and takes the earliest one left,
//! while the others stay: none starts later than it was promised. Under `cbf-replan` all waiting jobs are planned anew
//! instead when a job ends early or is withdrawn, in order of submission, and may start later. If a running job keeps what a
//! waiting one was to have, all waiting jobs are planned anew in either case.
//!
//! Costs, for `q` waiting jobs: a search for each of them at every end and withdrawal ([`super::search::earliest`]), one
//! at a submission.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_model::{ClusterNodes, Estimate, JobId, Procs, Resources, Span, Time, Walltimes};

use super::amounts::Part;
use super::catalogue::Catalogue;
use super::choice::choose;
use super::layout::Layout;
use super::rules::Rules;
use super::search::{self, NodesPlan};
use super::snapshot::Shape;
use super::timeline::Timeline;
use crate::batch::{
    BatchScheduler, Dump, Gaps, JobOnNodes, PlanBounds, RestoreError, RunningJob, Start, Submission, Waiting,
};
use crate::tuning::{self, OtherJobs, Present, Tuner};

/// A cluster of nodes under conservative backfilling.
#[derive(Clone, Debug)]
pub(crate) struct NodeReservations {
    catalogue: Arc<Catalogue>,
    layout: Layout,
    timeline: Timeline,
    running: BTreeMap<JobId, Reservation>,
    /// In order of submission.
    waiting: Vec<(JobId, Reservation)>,
    gaps: Gaps,
}

/// What a job has, or will have.
#[derive(Clone, Debug)]
struct Reservation {
    procs: Procs,
    walltime: Span,
    /// None if it does not fit on the cluster, or has started.
    start: Option<Time>,
    /// When it ends at the latest.
    end: Time,
    on: Vec<Part>,
    resources: Option<Arc<Resources>>,
}

impl Reservation {
    /// None yet.
    fn new(procs: Procs, walltime: Span, resources: Option<Arc<Resources>>) -> Reservation {
        Reservation { procs, walltime, start: None, end: Time::MAX, on: Vec::new(), resources }
    }

    fn plan(&self) -> Option<Estimate> {
        Some(Estimate { procs: self.procs, walltime: self.walltime, start: self.start? })
    }
}

impl NodeReservations {
    /// An empty cluster.
    pub(crate) fn new(cluster: &ClusterNodes, now: Time, gaps: Gaps) -> NodeReservations {
        let (nodes, catalogue) = Catalogue::declared(cluster);
        let layout = Layout::new(&nodes, &catalogue, &Rules::default());
        let timeline = Timeline::new(layout.rows.clone(), now);
        let (catalogue, running, waiting) = (Arc::new(catalogue), BTreeMap::new(), Vec::new());
        NodeReservations { catalogue, layout, timeline, running, waiting, gaps }
    }

    /// The earliest reservation.
    fn place(&mut self, now: Time, reservation: &mut Reservation) {
        let shape = self.catalogue.shape(reservation.procs, reservation.resources.as_deref());
        let (shape, rules) = (self.layout.shape(&shape), &self.layout.rules);
        let fit = search::earliest(&self.timeline, rules, &shape, reservation.walltime, now);
        reservation.start = fit.as_ref().map(|fit| fit.start);
        reservation.end = reservation.start.map_or(Time::MAX, |start| start + reservation.walltime);
        reservation.on = fit.map(|fit| fit.on).unwrap_or_default();
        if let Some(start) = reservation.start {
            self.timeline.take(start, reservation.end, &reservation.on);
        }
    }

    /// Fills the gaps that ends, withdrawals and moves of jobs behind others have left.
    fn fill_gaps(&mut self, now: Time) {
        match self.gaps {
            Gaps::Compressed => self.compress(now),
            Gaps::PlannedAnew => self.plan_anew(now, |one| one.start.is_some_and(|start| start <= now)),
        }
    }

    fn compress(&mut self, now: Time) {
        for index in 0..self.waiting.len() {
            let mut one = self.waiting[index].1.clone();
            if let Some(start) = one.start.filter(|start| *start > now) {
                self.timeline.give(start, one.end, &one.on);
                self.place(now, &mut one);
                self.waiting[index].1 = one;
            }
        }
    }

    /// Plans the waiting jobs again in order of submission, but for those that stay.
    fn plan_anew(&mut self, now: Time, stays: impl Fn(&Reservation) -> bool) {
        let mut timeline = Timeline::new(self.layout.rows.clone(), now);
        let staying = self.waiting.iter().map(|(_, one)| one).filter(|one| stays(one));
        for held in self.running.values().chain(staying) {
            timeline.take(held.start.map_or(now, |start| start.max(now)), held.end, &held.on);
        }
        self.timeline = timeline;
        for (index, mut one) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if !stays(&one.1) {
                self.place(now, &mut one.1);
            }
            self.waiting.insert(index, one);
        }
    }

    /// Takes what the jobs of a dump have whose nodes it knows.
    fn take_known(&mut self, now: Time) -> Result<(), RestoreError> {
        let waiting = self.waiting.iter().map(|(job, one)| (job, one));
        for (job, one) in self.running.iter().chain(waiting).filter(|(_, one)| !one.on.is_empty()) {
            if !self.layout.rows.are_parts_of(&one.on, one.procs) {
                let expected = "each job on nodes of this cluster, with as many cores as processors";
                return Err(RestoreError::OtherPolicy { job: *job, expected });
            }
            let from = one.start.map_or(now, |start| start.max(now));
            if !self.timeline.has(from, one.end, &one.on) {
                return Err(RestoreError::NodesTaken(*job));
            }
            self.timeline.take(from, one.end, &one.on);
        }
        Ok(())
    }

    /// Gives nodes to the running jobs that have none yet: with the memory of a request that says nothing, or else without any.
    fn seat_running(&mut self, now: Time) -> Result<(), RestoreError> {
        for (job, held) in self.running.iter_mut().filter(|(_, held)| held.on.is_empty()) {
            let free = &self.timeline.intervals()[0].free;
            let rows = self.timeline.rows();
            let usual = self.layout.shape(&self.catalogue.shape(held.procs, None));
            let chosen = choose(free, rows, &usual).or_else(|| choose(free, rows, &Shape::of(held.procs)));
            held.on = chosen.ok_or(RestoreError::NodesTaken(*job))?;
            self.timeline.take(now, held.end, &held.on);
        }
        Ok(())
    }

    fn find(&self, job: JobId) -> Option<usize> {
        self.waiting.iter().position(|(other, _)| *other == job)
    }
}

impl BatchScheduler for NodeReservations {
    fn submit(&mut self, now: Time, submission: Submission) {
        self.timeline.advance(now);
        let Submission { job, procs, walltime, resources, .. } = submission;
        let mut one = Reservation::new(procs, walltime, resources);
        self.place(now, &mut one);
        self.waiting.push((job, one));
    }

    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize {
        self.timeline.advance(now);
        let before = self.waiting.len();
        let leaves = |(job, one): &(JobId, Reservation)| {
            jobs.contains(job) && one.start.is_none_or(|start| start > now)
        };
        let (leaving, staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(leaves);
        self.waiting = staying;
        for (_, one) in &leaving {
            if let Some(start) = one.start {
                self.timeline.give(start, one.end, &one.on);
            }
        }
        if leaving.iter().any(|(_, one)| one.start.is_some()) {
            self.fill_gaps(now);
        }
        before - self.waiting.len()
    }

    fn finish(&mut self, now: Time, job: JobId) {
        self.timeline.advance(now);
        let Some(held) = self.running.remove(&job) else { return };
        self.timeline.give(now, held.end, &held.on);
        if held.end > now || self.gaps == Gaps::Compressed {
            self.fill_gaps(now);
        }
    }

    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]) {
        self.timeline.advance(now);
        let mut is_free = true;
        for (job, end) in jobs {
            let Some(held) = self.running.get_mut(job) else { continue };
            let from = held.end.max(now);
            is_free = is_free && self.timeline.has(from, *end, &held.on);
            if is_free {
                self.timeline.take(from, *end, &held.on);
            }
            held.end = held.end.max(*end);
        }
        if !is_free {
            self.plan_anew(now, |_| false);
        }
    }

    fn start_due(&mut self, now: Time, started: &mut Vec<Start>) {
        let is_due = |one: &(JobId, Reservation)| one.1.start.is_some_and(|start| start <= now);
        if !self.waiting.iter().any(is_due) {
            return;
        }
        let (mut due, staying): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(is_due);
        self.waiting = staying;
        due.sort_by_key(|(_, one)| one.start);
        for (job, one) in due {
            started.push(Start { job, procs: one.procs, walltime: one.walltime });
            self.running.insert(job, Reservation { start: None, ..one });
        }
    }

    fn next_start(&self) -> Option<Time> {
        self.waiting.iter().filter_map(|(_, one)| one.start).min()
    }

    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        self.timeline.advance(now);
        let shapes = |each: &mut dyn FnMut(Procs, Span)| {
            self.running.values().for_each(|held| each(held.procs, held.end - now));
            self.waiting.iter().for_each(|(_, one)| each(one.procs, one.walltime));
        };
        let others = OtherJobs { count: self.running.len() + self.waiting.len(), shapes: &shapes };
        let Self { catalogue, layout, timeline, .. } = self;
        let mut sizes = NodesPlan::new(catalogue, (layout, timeline), now, walltimes);
        tuning::choose(tuner, &mut sizes, &Present { now, others })
    }

    fn plan_bounds(&mut self, now: Time) -> Option<PlanBounds> {
        self.timeline.advance(now);
        Some(PlanBounds { free: self.timeline.free_plan(now), jobs: None })
    }

    /// Jobs that do not fit are omitted.
    fn list(&mut self, _now: Time, waiting: &mut Vec<Waiting>) {
        let planned = |(job, one): &(JobId, Reservation)| Some(Waiting { job: *job, plan: one.plan()? });
        waiting.extend(self.waiting.iter().filter_map(planned));
    }

    fn plan(&mut self, _now: Time, job: JobId) -> Option<Estimate> {
        self.waiting[self.find(job)?].1.plan()
    }

    fn counts_resources(&self) -> bool {
        true
    }

    fn allocation(&self, job: JobId) -> Option<&[Part]> {
        let held = self.running.get(&job).filter(|_| !self.layout.is_pool())?;
        Some(&held.on)
    }

    fn queue_length(&self) -> usize {
        self.waiting.len()
    }

    fn dump(&self) -> Dump {
        let running =
            |(job, held): (&JobId, &Reservation)| RunningJob { job: *job, procs: held.procs, end: held.end };
        let mut dump = Dump { running: self.running.iter().map(running).collect(), ..Dump::default() };
        for (job, one) in &self.waiting {
            let Reservation { procs, walltime, resources, .. } = one;
            match one.plan() {
                Some(plan) => dump.planned.push(Waiting { job: *job, plan }),
                None => {
                    let submission = Submission::new(*job, *procs, *walltime);
                    dump.queued.push(Submission { resources: resources.clone(), ..submission });
                }
            }
        }
        let on_nodes = |(job, one): (&JobId, &Reservation)| JobOnNodes {
            job: *job,
            on: one.on.clone(),
            resources: one.resources.clone(),
        };
        let planned = self.waiting.iter().filter(|(_, one)| one.start.is_some());
        let all = self.running.iter().chain(planned.map(|(job, one)| (job, one)));
        dump.on_nodes = all.map(on_nodes).collect();
        dump
    }

    /// Jobs whose nodes the dump does not know get some.
    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError> {
        dump.check(now, self.layout.rows.capacity())?;
        if let Some(head) = dump.head {
            return Err(RestoreError::OtherPolicy { job: head.job, expected: "no job with a kept shape" });
        }
        let known: BTreeMap<JobId, &JobOnNodes> = dump.on_nodes.iter().map(|one| (one.job, one)).collect();
        let (running, waiting) = (BTreeMap::new(), Vec::new());
        let mut restored = NodeReservations { running, waiting, ..self.clone() };
        restored.timeline = Timeline::new(self.layout.rows.clone(), now);
        let reservation = |job: JobId, procs: Procs, walltime: Span| {
            let resources = known.get(&job).and_then(|one| one.resources.clone());
            let on = known.get(&job).map(|one| one.on.clone()).unwrap_or_default();
            Reservation { on, ..Reservation::new(procs, walltime, resources) }
        };
        for RunningJob { job, procs, end } in &dump.running {
            let held = Reservation { end: *end, ..reservation(*job, *procs, Span(1)) };
            restored.running.insert(*job, held);
        }
        for Waiting { job, plan } in &dump.planned {
            let one = reservation(*job, plan.procs, plan.walltime);
            restored
                .waiting
                .push((*job, Reservation { start: Some(plan.start), end: plan.completion(), ..one }));
        }
        restored.take_known(now)?;
        restored.seat_running(now)?;
        for Submission { job, procs, walltime, resources, .. } in &dump.queued {
            restored.waiting.push((*job, Reservation::new(*procs, *walltime, resources.clone())));
        }
        for index in 0..restored.waiting.len() {
            let mut one = restored.waiting[index].1.clone();
            if one.on.is_empty() {
                restored.place(now, &mut one);
                restored.waiting[index].1 = one;
            }
        }
        *self = restored;
        Ok(())
    }

    fn boxed_clone(&self) -> Box<dyn BatchScheduler> {
        Box::new(self.clone())
    }
}
