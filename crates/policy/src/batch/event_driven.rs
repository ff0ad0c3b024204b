//! The common part of policies without reservations: at a submission, a termination or a cancellation their [`Rule`]
//! decides which waiting jobs start.
//!
//! A job counts as running from the decision on and is handed out with the driver's next call of `start_due`. Plans are
//! made on demand: the waiting jobs, in order, on the profile of the running jobs ([`Plan`]). A submission extends an
//! existing plan; a termination, a cancellation or a start that was planned differently discards it. So a plan costs
//! O(queue) searches after a change and O(1) otherwise, and a replay without queries makes no plan. In a queue order other
//! than that of submission every event discards the plan, since the next job may go before others ([`by_rank`]).

mod by_rank;

use pliant_model::{Estimate, JobId, Procs, Span, Time, Walltimes};
use rustc_hash::{FxHashMap, FxHashSet};

use super::occupancy::Occupancy;
use super::order::{PriorityParts, Ranking};
use super::queue::{Slot, WaitingQueue};
use super::{BatchScheduler, Dump, PlanBounds, RestoreError, RunningJob, Start, Submission, Waiting};
use crate::profile::{FreePlan, Profile};
use crate::tuning::{self, OtherJobs, Present, Tuner};

/// The decision at an event, and the expected starts of the other jobs.
pub(super) trait Rule: Clone + Send + 'static {
    /// True if no job starts before one that was submitted earlier.
    const IN_ORDER: bool;
    /// False if a job may start on fewer processors than its size has.
    const SIZES_AS_ASKED: bool = true;

    /// Decides after a submission: the job is at the end of the queue.
    fn submitted(&mut self, now: Time, cluster: &mut EventDrivenCluster);

    /// Decides after processors were freed or jobs left the queue.
    fn freed(&mut self, now: Time, cluster: &mut EventDrivenCluster);

    /// A running job has ended; the decision follows ([`Rule::freed`]).
    fn ended(&mut self, _now: Time, _job: JobId) {}

    /// A lower bound on the start of the waiting jobs and of the next submitted one.
    fn not_before(&self, now: Time, _cluster: &EventDrivenCluster) -> Time {
        now
    }

    /// The expected shape and start of the next job in the queue.
    fn expect(&self, horizon: &Horizon, job: &Submission) -> Option<Estimate> {
        horizon.earliest(job.procs, job.walltime)
    }

    /// The best size of a request at the end of the queue; the estimate has the shape to submit.
    fn tune(
        &self,
        horizon: &Horizon,
        tuner: Tuner,
        present: &Present<'_>,
        walltimes: &Walltimes<'_>,
    ) -> Option<Estimate> {
        tuning::tune(tuner, &horizon.profile, None, horizon.from, present, walltimes)
    }

    /// The last job for which a shape was chosen at the head of the queue, with that shape, if the rule keeps it. The only
    /// state of a rule.
    fn chosen(&self) -> Option<Start> {
        None
    }

    /// Restores a chosen shape ([`Rule::chosen`]).
    fn keep(&mut self, _head: Option<Start>) {}
}

/// A cluster with its queue.
#[derive(Clone, Debug)]
pub(super) struct EventDrivenCluster {
    pub(super) processors: Occupancy,
    pub(super) queue: WaitingQueue,
    /// Jobs started and not yet handed out.
    due: Vec<Waiting>,
}

impl EventDrivenCluster {
    fn empty(procs: Procs, queue: WaitingQueue) -> EventDrivenCluster {
        EventDrivenCluster { processors: Occupancy::new(procs), queue, due: Vec::new() }
    }

    fn is_head(&self, job: JobId) -> bool {
        self.queue.head().is_some_and(|(_, head)| head.job == job)
    }

    /// When the waiting jobs are next considered if only releases count. A job at the head of the queue is considered at once.
    pub(super) fn next_release(&self, now: Time) -> Time {
        let first = self.processors.releases().next();
        if self.queue.len() == 0 { now } else { first.map_or(now, |(end, _)| end.max(now)) }
    }

    /// Starts a waiting job on `procs` processors, for `walltime`.
    pub(super) fn start(&mut self, now: Time, slot: Slot, procs: Procs, walltime: Span) {
        let Some(Submission { job, owner, .. }) = self.queue.remove(slot) else { return };
        self.processors.start(job, procs, now + walltime);
        if let Some(queue) = self.queue.ranked_mut() {
            queue.ranking_mut().started(now, job, owner, procs);
        }
        self.due.push(Waiting { job, plan: Estimate { procs, walltime, start: now } });
    }
}

/// The profile left by the planned jobs, on which the next job is planned.
#[derive(Clone, Debug)]
pub(super) struct Horizon {
    profile: Profile,
    from: Time,
}

impl Horizon {
    /// A lower bound on the start of the next job.
    pub(super) fn from(&self) -> Time {
        self.from
    }

    /// Processors of the cluster.
    pub(super) fn capacity(&self) -> Procs {
        self.profile.capacity()
    }

    /// The earliest start of a shape.
    pub(super) fn earliest(&self, procs: Procs, walltime: Span) -> Option<Estimate> {
        let start = self.profile.earliest_fit(self.from, procs, walltime)?;
        Some(Estimate { procs, walltime, start })
    }
}

/// The expected starts of the waiting jobs.
#[derive(Clone, Debug)]
struct Plan {
    /// When the plan was made.
    at: Time,
    horizon: Horizon,
    estimates: FxHashMap<JobId, Estimate>,
}

impl Plan {
    fn new<R: Rule>(now: Time, rule: &R, cluster: &EventDrivenCluster) -> Plan {
        let mut plan = Plan::without_jobs(now, rule, cluster);
        for job in cluster.queue.iter() {
            plan.push(rule, &job);
        }
        plan
    }

    /// A plan of the running jobs alone.
    fn without_jobs<R: Rule>(now: Time, rule: &R, cluster: &EventDrivenCluster) -> Plan {
        let mut profile = Profile::new(cluster.processors.capacity(), now);
        for (end, procs) in cluster.processors.releases() {
            profile.reserve(now, end, procs);
        }
        let horizon = Horizon { profile, from: rule.not_before(now, cluster) };
        Plan { at: now, horizon, estimates: FxHashMap::default() }
    }

    fn push<R: Rule>(&mut self, rule: &R, job: &Submission) {
        let estimate = rule.expect(&self.horizon, job);
        let estimate = estimate.expect("a submission asks for at most the cluster's processors");
        let Horizon { profile, from } = &mut self.horizon;
        profile.reserve(estimate.start, estimate.completion(), estimate.procs);
        if R::IN_ORDER {
            *from = estimate.start;
            profile.advance(estimate.start);
        }
        self.estimates.insert(job.job, estimate);
    }

    /// Sets a lower bound on the start of the next job.
    fn advance(&mut self, from: Time) {
        self.horizon.from = self.horizon.from.max(from);
        self.horizon.profile.advance(self.horizon.from);
    }
}

/// A cluster under an event-driven policy.
#[derive(Clone, Debug)]
pub(super) struct EventDriven<R> {
    rule: R,
    cluster: EventDrivenCluster,
    plan: Option<Plan>,
}

impl<R: Rule> EventDriven<R> {
    pub(super) fn boxed(procs: Procs, rule: R) -> Box<dyn BatchScheduler> {
        let cluster = EventDrivenCluster::empty(procs, WaitingQueue::by_submission());
        Box::new(EventDriven { rule, cluster, plan: None })
    }

    /// A cluster that serves jobs in a queue order.
    pub(super) fn ordered(procs: Procs, ranking: Ranking, rule: R) -> Box<dyn BatchScheduler> {
        let queue = WaitingQueue::by_rank(ranking);
        Box::new(EventDriven { rule, cluster: EventDrivenCluster::empty(procs, queue), plan: None })
    }

    /// Jobs leave that may come back: then they have no chosen shape.
    fn forget_shapes(&mut self, jobs: &[JobId]) {
        if self.rule.chosen().is_some_and(|head| jobs.contains(&head.job)) {
            self.rule.keep(None);
        }
    }

    /// Lets the rule decide; keeps the plan if the started jobs were planned to start.
    fn decide(&mut self, now: Time, decision: impl FnOnce(&mut R, &mut EventDrivenCluster)) {
        if self.cluster.queue.ranked().is_some() {
            // Any event may change the order.
            self.plan = None;
            let free = self.cluster.processors.free(now);
            if self.cluster.queue.next_where(0, |procs, _| procs <= free).is_none() {
                return;
            }
            self.cluster.queue.arrange(now);
        }
        let before = self.cluster.due.len();
        decision(&mut self.rule, &mut self.cluster);
        let Some(plan) = &mut self.plan else { return };
        let as_planned = |one: &Waiting| plan.estimates.remove(&one.job) == Some(one.plan);
        if !self.cluster.due[before..].iter().all(as_planned) {
            self.plan = None;
        }
    }
}

/// The plan at `now`.
fn planned<'a, R: Rule>(
    now: Time,
    rule: &R,
    cluster: &mut EventDrivenCluster,
    plan: &'a mut Option<Plan>,
) -> &'a Plan {
    cluster.queue.arrange(now);
    // Ranks change with time, and with them the jobs planned to start at once.
    let has_other_ranks = plan.as_ref().is_some_and(|plan| plan.at < now && cluster.queue.ranked().is_some());
    // Starts are planned for the ends of jobs: with an overdue job the plan is stale.
    if has_other_ranks || cluster.processors.releases().next().is_some_and(|(end, _)| end < now) {
        *plan = None;
    }
    let plan = plan.get_or_insert_with(|| Plan::new(now, rule, cluster));
    plan.advance(rule.not_before(now, cluster));
    plan
}

impl<R: Rule> BatchScheduler for EventDriven<R> {
    fn submit(&mut self, now: Time, submission: Submission) {
        if let Some(plan) = &mut self.plan {
            plan.advance(self.rule.not_before(now, &self.cluster));
            plan.push(&self.rule, &submission);
        }
        self.cluster.queue.push(now, submission);
        self.decide(now, |rule, cluster| rule.submitted(now, cluster));
    }

    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize {
        let queue = &mut self.cluster.queue;
        let before = queue.len();
        for job in jobs {
            if let Some(slot) = queue.slot(*job) {
                queue.remove(slot);
            }
        }
        let cancelled = before - queue.len();
        if cancelled > 0 {
            self.forget_shapes(jobs);
            self.plan = None;
            self.decide(now, |rule, cluster| rule.freed(now, cluster));
        }
        cancelled
    }

    fn finish(&mut self, now: Time, job: JobId) {
        // Its user is charged even if it had processors that the cluster has no longer.
        if let Some(queue) = self.cluster.queue.ranked_mut() {
            queue.ranking_mut().finished(now, job);
        }
        if self.cluster.processors.finish(job).is_some() {
            // It may have been started and not run.
            self.forget_shapes(&[job]);
            self.plan = None;
            self.rule.ended(now, job);
            self.decide(now, |rule, cluster| rule.freed(now, cluster));
        }
    }

    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]) {
        for (job, end) in jobs {
            self.cluster.processors.extend(*job, *end);
        }
        self.plan = None;
        // The start of the head is delayed, so other jobs may be backfilled.
        self.decide(now, |rule, cluster| rule.freed(now, cluster));
    }

    fn start_due(&mut self, _now: Time, started: &mut Vec<Start>) {
        let handed_out = self.cluster.due.drain(..).map(|Waiting { job, plan }| {
            let Estimate { procs, walltime, .. } = plan;
            Start { job, procs, walltime }
        });
        started.extend(handed_out);
    }

    fn next_start(&self) -> Option<Time> {
        self.cluster.due.first().map(|one| one.plan.start)
    }

    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        if self.cluster.queue.ranked().is_some_and(|_| self.cluster.queue.len() > 0) {
            self.cluster.queue.arrange(now);
        }
        let plan = match self.cluster.queue.ranked() {
            Some(_) if self.cluster.queue.len() > 0 => None,
            _ => Some(planned(now, &self.rule, &mut self.cluster, &mut self.plan)),
        };
        // Due jobs occupy their processors already.
        let EventDrivenCluster { processors, queue, .. } = &self.cluster;
        let shapes = |each: &mut dyn FnMut(Procs, Span)| {
            processors.held().for_each(|held| each(held.procs, held.end - now));
            queue.iter().for_each(|job| each(job.procs, job.walltime));
        };
        let others = OtherJobs { count: processors.jobs() + queue.len(), shapes: &shapes };
        let present = Present { now, others };
        match plan {
            Some(plan) => self.rule.tune(&plan.horizon, tuner, &present, walltimes),
            None => by_rank::estimate(&self.rule, &self.cluster, walltimes, tuner, &present),
        }
    }

    fn plan_bounds(&mut self, now: Time) -> Option<PlanBounds> {
        // In another order the next job may go before jobs that wait.
        if !R::SIZES_AS_ASKED || self.cluster.queue.ranked().is_some() && self.cluster.queue.len() > 0 {
            return None;
        }
        let Horizon { profile, from } = &planned(now, &self.rule, &mut self.cluster, &mut self.plan).horizon;
        let free = FreePlan::of_steps(profile.capacity(), (now, *from), profile.iter());
        let jobs = Some(self.cluster.processors.jobs() + self.cluster.queue.len());
        Some(PlanBounds { free, jobs })
    }

    fn list(&mut self, now: Time, waiting: &mut Vec<Waiting>) {
        waiting.extend_from_slice(&self.cluster.due);
        let plan = planned(now, &self.rule, &mut self.cluster, &mut self.plan);
        let estimate = |job: Submission| Some(Waiting { job: job.job, plan: *plan.estimates.get(&job.job)? });
        waiting.extend(self.cluster.queue.iter().filter_map(estimate));
    }

    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        if let Some(due) = self.cluster.due.iter().find(|one| one.job == job) {
            return Some(due.plan);
        }
        self.cluster.queue.slot(job)?;
        planned(now, &self.rule, &mut self.cluster, &mut self.plan).estimates.get(&job).copied()
    }

    fn priority(&mut self, now: Time, job: JobId) -> Option<PriorityParts> {
        self.cluster.queue.arrange(now);
        self.cluster.queue.ranked()?.parts(now, job)
    }

    fn queue_length(&self) -> usize {
        self.cluster.due.len() + self.cluster.queue.len()
    }

    fn dump(&self) -> Dump {
        let EventDrivenCluster { processors, queue, due } = &self.cluster;
        let not_handed_out: FxHashSet<JobId> = due.iter().map(|one| one.job).collect();
        let mut running = processors.running();
        running.retain(|one| !not_handed_out.contains(&one.job));
        let head = self.rule.chosen().filter(|head| self.cluster.is_head(head.job));
        Dump {
            running,
            planned: due.clone(),
            queued: queue.submissions(),
            head,
            shares: queue.shares(),
            on_nodes: Vec::new(),
        }
    }

    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError> {
        let capacity = self.cluster.processors.capacity();
        dump.check(now, capacity)?;
        let other_policy = |job, expected| Err(RestoreError::OtherPolicy { job, expected });
        if let Some(later) = dump.planned.iter().find(|one| one.plan.start > now) {
            return other_policy(later.job, "reservations for started jobs only");
        }
        let queue = self.cluster.queue.emptied();
        let mut cluster =
            EventDrivenCluster { due: dump.planned.clone(), ..EventDrivenCluster::empty(capacity, queue) };
        if let (Some(queue), Some(shares)) = (cluster.queue.ranked_mut(), &dump.shares) {
            queue.ranking_mut().restore(shares);
        }
        for RunningJob { job, procs, end } in &dump.running {
            cluster.processors.start(*job, *procs, *end);
        }
        for Waiting { job, plan } in &dump.planned {
            cluster.processors.start(*job, plan.procs, plan.completion());
        }
        dump.queued.iter().for_each(|job| cluster.queue.push(now, job.clone()));
        let mut rule = self.rule.clone();
        rule.keep(dump.head);
        if let Some(head) = dump.head
            && !(cluster.is_head(head.job) && rule.chosen() == dump.head)
        {
            return other_policy(head.job, "a kept shape only for the head of a queue that is folded");
        }
        *self = EventDriven { rule, cluster, plan: None };
        Ok(())
    }

    fn boxed_clone(&self) -> Box<dyn BatchScheduler> {
        Box::new(self.clone())
    }
}
