//! The event loop of a direct simulation.
//!
//! Events are ordered by (time, class, sequence). The classes of one instant are exceeded plans (`planning`), terminations,
//! submissions, starts and the reallocation event ([`Ties`] may put submissions before terminations). Terminations come in
//! the order in which the jobs were started. A job whose reservation starts now counts as started and is not reallocated.
//! Siblings (`siblings`) of the jobs that arrived at this instant and did not start are queued at the position of
//! the reallocation event.

pub(crate) mod episode;
mod planning;
mod processor_estimates;
mod siblings;

use pliant_model::{
    ClusterId, Estimate, Job, JobId, JobOutcome, MapReason, MoveRecord, Owner, PlannedJob, Platform, Reason,
    RefusalCause, Request, Run, Span, Speedup, Time, rng::stream_seed, runtime_at,
};
use pliant_policy::batch::{Start, Submission};
use pliant_policy::custom::{CustomPolicies, PolicyError};
use pliant_policy::federation::{Federation, Tracked};
use pliant_policy::mapping::{self, MappingDecision};
use pliant_policy::reallocation::{Algorithm, Move, reallocate, reallocate_by};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;
use std::borrow::{Borrow, Cow};

use self::planning::{Planning, StartedRun};
use self::processor_estimates::ProcessorEstimates;
use self::siblings::Siblings;
use crate::kernel::EventQueue;
use crate::needs::Needs;
use crate::ready::NextStarts;
use crate::{Estimates, Observer, Policies, SimError, SimJob, Ties, folding};

/// How many instants pass between two reports to the observer.
const REPORT_EVERY: u32 = 256;

/// A submitted job that has not started.
struct Submitted {
    job: Job,
    managed: bool,
    /// The job's real speedup, if the assumed one is wrong.
    true_speedup: Option<Speedup>,
}

pub(crate) struct Engine<'a, I: Iterator> {
    jobs: std::iter::Peekable<I>,
    /// The number of jobs as far as the iterator knows it.
    total: usize,
    last_submit: Time,
    submitted: FxHashMap<JobId, Submitted>,
    policies: Cow<'a, Policies>,
    /// The policies of the caller.
    custom: CustomPolicies,
    federation: Federation,
    rng: ChaCha8Rng,
    /// Terminations; those of one instant in the order of the starts.
    finishes: EventQueue<Time, (), (JobId, ClusterId)>,
    next_starts: NextStarts,
    siblings: Siblings,
    planning: Planning,
    needs: Needs,
    /// A batch policy of the platform that folds jobs, if there is one.
    folding: Option<&'static str>,
    next_event: Time,
    started: Vec<Start>,
    ended: usize,
    outcomes: Vec<Option<JobOutcome>>,
    run: Run,
}

impl<'a, I> Engine<'a, I>
where
    I: Iterator,
    I::Item: Borrow<SimJob>,
{
    pub(crate) fn new(
        platform: &Platform,
        jobs: I,
        policies: Cow<'a, Policies>,
        custom: CustomPolicies,
    ) -> Result<Self, SimError> {
        policies.check(platform)?;
        check_custom(&policies, &custom)?;
        let mut jobs = jobs.peekable();
        let origin = jobs.peek().map_or(Time::ZERO, |first| first.borrow().job.submit.min(Time::ZERO));
        let mut federation = Federation::under(platform, policies.tuner, origin, &policies.priority)
            .map_err(SimError::Batch)?;
        if policies.estimates == Estimates::Processors {
            ProcessorEstimates::put_before(&mut federation, platform, origin).map_err(SimError::Batch)?;
        }
        custom.put_into(&mut federation, platform, origin).map_err(SimError::Batch)?;
        Ok(Engine { custom, ..Engine::on(platform, federation, origin, jobs, policies) })
    }

    /// An engine on existing clusters at `origin`, those of the platform in the same order.
    pub(crate) fn on(
        platform: &Platform,
        federation: Federation,
        origin: Time,
        jobs: std::iter::Peekable<I>,
        policies: Cow<'a, Policies>,
    ) -> Self {
        let total = jobs.size_hint().1.unwrap_or(0);
        Engine {
            jobs,
            total,
            last_submit: origin,
            submitted: FxHashMap::default(),
            custom: CustomPolicies::default(),
            next_starts: NextStarts::new(federation.len()),
            siblings: Siblings::new(federation.len()),
            planning: Planning::new(policies.plan_by),
            needs: Needs::on(platform, &policies),
            folding: folding(platform).unwrap_or(None),
            federation,
            rng: ChaCha8Rng::seed_from_u64(stream_seed(policies.seed, "mapping")),
            finishes: EventQueue::new(origin),
            next_event: policies
                .reallocation
                .filter(|policy| policy.algorithm != Algorithm::Siblings)
                .map_or(Time::MAX, |policy| Time::ZERO + policy.period),
            started: Vec::new(),
            ended: 0,
            outcomes: Vec::with_capacity(total),
            run: Run {
                platform: platform.clone(),
                jobs: Vec::new(),
                refused: Vec::new(),
                moves: Vec::new(),
                reallocations: 0,
            },
            policies,
        }
    }

    pub(crate) fn run(mut self, observer: &mut dyn Observer) -> Result<Run, SimError> {
        let (mut instants, mut last) = (0_u32, Time::ZERO);
        while let Some(now) = self.next_instant() {
            self.pass(now, observer)?;
            last = now;
            instants += 1;
            if instants.is_multiple_of(REPORT_EVERY) && !observer.progress(self.ended, self.total, now) {
                return Err(SimError::Stopped);
            }
        }
        self.check_started(last)?;
        Ok(self.into_run())
    }

    /// Refuses the end of a run in which a custom batch policy leaves waiting jobs: the run would not hold them.
    fn check_started(&self, now: Time) -> Result<(), SimError> {
        match self.submitted.keys().min() {
            Some(&job) if self.custom.batch.is_some() => {
                Err(self.failed(PolicyError::NeverStarted { now, job, count: self.submitted.len() }))
            }
            _ => Ok(()),
        }
    }

    /// Lets everything happen that is due at an instant.
    fn pass(&mut self, now: Time, observer: &mut dyn Observer) -> Result<(), SimError> {
        self.extend_due_plans(now);
        match self.policies.ties {
            Ties::FinishFirst => {
                self.finish_due(now);
                self.submit_due(now, observer)?;
            }
            Ties::SubmitFirst => {
                self.submit_due(now, observer)?;
                self.finish_due(now);
            }
        }
        self.start_due(now);
        self.submit_siblings(now);
        self.reallocate_due(now);
        match self.custom.failure.get() {
            None => Ok(()),
            Some(error) => Err(self.failed(error.clone())),
        }
    }

    /// The failure of a custom policy, with the number of its job in the log.
    fn failed(&self, error: PolicyError) -> SimError {
        let waiting = |job: JobId| Some(self.submitted.get(&job)?.job.log_id);
        let started = |job: JobId| Some(self.outcomes.get(job.index())?.as_ref()?.log_id);
        let log_id = error.job().and_then(|job| waiting(job).or_else(|| started(job)));
        SimError::Custom { error, log_id }
    }

    /// The finished run.
    fn into_run(mut self) -> Run {
        // In place, because these are most of the memory of a long run and `flatten` would copy them.
        self.outcomes.retain(Option::is_some);
        self.run.jobs = self.outcomes.into_iter().map(|ran| ran.expect("the others were dropped")).collect();
        self.run
    }

    /// The next time at which something happens. Reallocation events count only while a job waits.
    fn next_instant(&mut self) -> Option<Time> {
        let submission = self.jobs.peek().map_or(Time::MAX, |next| next.borrow().job.submit);
        let finish = self.finishes.next_time().unwrap_or(Time::MAX);
        let next = submission.min(finish).min(self.next_starts.first()).min(self.planning.next());
        if next == Time::MAX {
            return None;
        }
        if self.next_event < Time::MAX
            && self.federation.waiting().is_empty()
            && let Some(policy) = self.policies.reallocation
        {
            // No job can move before the next submission: events until then do nothing.
            let periods = next.0.max(0).div_euclid(policy.period.0);
            let skipped = Time(periods * policy.period.0);
            let skipped = if skipped < next { skipped + policy.period } else { skipped };
            self.next_event = self.next_event.max(skipped);
        }
        Some(next.min(self.next_event))
    }

    fn finish_due(&mut self, now: Time) {
        while let Some((_, (job, cluster))) = self.finishes.pop_due(now) {
            self.ended += 1;
            self.planning.ended(job);
            self.federation.scheduler(cluster).finish(now, job);
            self.update_next_start(now, cluster);
        }
    }

    fn submit_due(&mut self, now: Time, observer: &mut dyn Observer) -> Result<(), SimError> {
        while let Some(next) = self.jobs.next_if(|next| next.borrow().job.submit <= now) {
            let next = next.borrow();
            let position = self.outcomes.len();
            if next.job.submit < self.last_submit {
                return Err(SimError::Unsorted(position));
            }
            self.last_submit = next.job.submit;
            let id = JobId(position as u32);
            self.outcomes.push(None);
            self.submitted.insert(id, self.submitted(next)?);
            let placed =
                if next.managed { self.map(now, id, next) } else { self.submit_locally(now, id, next) };
            match placed {
                Ok(cluster) => {
                    if let Some(plans) = observer.plans()
                        && let Some(plan) = self.federation.scheduler(cluster).plan(now, id)
                    {
                        plans.push(PlannedJob { log_id: next.job.log_id, plan });
                    }
                    self.update_next_start(now, cluster);
                }
                Err(cause) => {
                    self.ended += 1;
                    self.submitted.remove(&id);
                    self.run.refused.push((next.job.log_id, cause));
                }
            }
        }
        Ok(())
    }

    /// Checks an arriving job and keeps what the engine needs of it.
    fn submitted(&self, next: &SimJob) -> Result<Submitted, SimError> {
        let SimJob { job, managed, true_speedup, .. } = next;
        if let (Some(batch), Some(_)) = (self.folding, true_speedup) {
            return Err(SimError::FoldingMisjudged { batch });
        }
        Ok(Submitted { job: job.clone(), managed: *managed, true_speedup: true_speedup.clone() })
    }

    /// Tunes, maps and submits a request of a client.
    fn map(&mut self, now: Time, id: JobId, next: &SimJob) -> Result<ClusterId, RefusalCause> {
        let resources = self.needs.of(&next.job);
        let request = Request { resources, ..request(id, next, self.planning.planned(&next.job)) };
        let MappingDecision { cluster, shape, reason } = match &self.custom.mapping {
            None => mapping::map(self.policies.mapping, &mut self.federation, now, &request, &mut self.rng)?,
            Some(rule) => {
                mapping::map_by(rule.as_ref(), &self.custom.failure, &mut self.federation, now, &request)?
            }
        };
        let tracked = Tracked { request, cluster, moves: 0, reason: Reason::Mapped(reason) };
        self.federation.submit(now, tracked, shape);
        self.siblings.arrived(id, &self.policies);
        Ok(cluster)
    }

    /// Submits a local user's rigid job to its own cluster, with the shape and time of the log (paper 000, section 4.3.2).
    fn submit_locally(&mut self, now: Time, id: JobId, next: &SimJob) -> Result<ClusterId, RefusalCause> {
        let only = (self.federation.len() == 1).then_some(ClusterId(0));
        let known = next.job.origin.filter(|origin| origin.index() < self.federation.len());
        let cluster = known.or(only).ok_or(RefusalCause::NoOrigin)?;
        let available = self.federation.procs(cluster);
        if next.job.procs > available {
            return Err(RefusalCause::LargerThanCluster { cluster, requested: next.job.procs, available });
        }
        let walltime = self.planning.planned(&next.job);
        let (submit, owner) = (next.job.submit, Owner::numbered(next.job.user));
        let submission = Submission { submit, owner, ..Submission::new(id, next.job.procs, walltime) };
        let scheduler = self.federation.scheduler(cluster);
        // What its log says of a local job counts only where it ran.
        let resources = self.needs.of(&next.job).filter(|_| scheduler.counts_resources());
        let may_not_fit = resources.is_some();
        scheduler.submit(now, Submission { resources, ..submission });
        if may_not_fit && scheduler.plan(now, id).is_none() {
            scheduler.cancel(now, &[id]);
            return Err(RefusalCause::InsufficientResources);
        }
        Ok(cluster)
    }

    /// Updates the next start of a cluster whose state has changed.
    fn update_next_start(&mut self, now: Time, cluster: ClusterId) {
        let next = self.federation.next_start(cluster);
        let next = if self.siblings.is_due(cluster) { Some(now) } else { next };
        // Clusters that are due at the same instant start in their order.
        self.next_starts.set(cluster, next.map(|at| at.max(now)));
    }

    fn start_due(&mut self, now: Time) {
        while let Some(cluster) = self.next_starts.pop_due(now) {
            let mut started = std::mem::take(&mut self.started);
            self.siblings.take_early(cluster, &mut started);
            self.federation.scheduler(cluster).start_due(now, &mut started);
            if self.siblings.is_empty() {
                for start in started.drain(..) {
                    self.start(now, cluster, start, None);
                }
            } else {
                self.start_first(now, cluster, &mut started);
            }
            self.started = started;
            self.update_next_start(now, cluster);
        }
    }

    /// Starts a job, or `sibling`, its sibling on this cluster.
    fn start(&mut self, now: Time, cluster: ClusterId, start: Start, sibling: Option<&Move>) {
        let Some(submitted) = self.submitted.remove(&start.job) else {
            debug_assert!(false, "job {} started twice", start.job);
            return;
        };
        let tracked = self.federation.started(start.job);
        let limit = self.limit(&submitted, tracked.as_ref(), cluster, start);
        let Submitted { job, managed, .. } = submitted;
        let end = now + runtime_at(&job, limit);
        self.track_plan(now, start.job, cluster, &job, StartedRun { planned: start.walltime, limit, end });
        self.finishes.schedule(end, (), (start.job, cluster));
        let (moves, reason) = match (tracked, sibling) {
            (Some(Tracked { moves, .. }), Some(sibling)) => (moves + 1, Reason::Moved(sibling.reason)),
            (Some(Tracked { moves, reason, .. }), None) => (moves, reason),
            (None, _) => (0, Reason::Mapped(MapReason::Local)),
        };
        if let Some(sibling) = sibling {
            self.record_move(now, sibling, job.log_id);
        }
        self.outcomes[start.job.index()] = Some(JobOutcome {
            log_id: job.log_id,
            cluster,
            submit: job.submit,
            start: now,
            end,
            procs: start.procs,
            walltime: limit,
            moves,
            managed,
            reason,
        });
    }

    fn reallocate_due(&mut self, now: Time) {
        let Some(policy) = self.policies.reallocation else { return };
        if now < self.next_event {
            return;
        }
        self.next_event = now + policy.period;
        if self.federation.waiting().is_empty() {
            return;
        }
        let moves = match &self.custom.heuristic {
            None => reallocate(&policy, &mut self.federation, now),
            Some(rule) => {
                reallocate_by(&policy, rule.as_ref(), &self.custom.failure, &mut self.federation, now)
            }
        };
        for one in moves {
            let Some(Submitted { job, .. }) = self.submitted.get(&one.job) else { continue };
            let log_id = job.log_id;
            self.record_move(now, &one, log_id);
        }
        for cluster in self.federation.ids() {
            self.update_next_start(now, cluster);
        }
        self.start_due(now);
    }

    /// Counts and records a move.
    fn record_move(&mut self, now: Time, one: &Move, log_id: u64) {
        self.run.reallocations += 1;
        if self.policies.keep_moves {
            let Move { from, to, before, estimate: Estimate { procs, .. }, .. } = *one;
            let after = one.estimate.completion();
            self.run.moves.push(MoveRecord { at: now, log_id, from, to, before, after, procs });
        }
    }
}

/// Fails if a custom policy would be called for decisions that are then discarded.
fn check_custom(policies: &Policies, custom: &CustomPolicies) -> Result<(), SimError> {
    let tries = policies.reallocation.is_some_and(|policy| policy.algorithm == Algorithm::NoWorse);
    match custom.batch.is_some() && tries {
        true => Err(SimError::CustomOnTrial),
        false => Ok(()),
    }
}

fn request(id: JobId, next: &SimJob, walltime: Span) -> Request {
    let SimJob { job, speedup, .. } = next;
    let (speedup, owner) = (speedup.clone(), Owner::numbered(job.user));
    let request = Request::new(id, job.submit, job.procs, walltime, speedup).owned_by(owner);
    Request { origin: job.origin, ..request }
}
