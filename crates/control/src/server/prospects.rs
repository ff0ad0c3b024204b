//! Prospects of multi-job instances on this server (paper 002, Algorithm 2): when its processors become free by
//! the *expected* runtimes of its jobs, and how long an instance takes. Brokers of the simulator that use runtime
//! statistics compute the same ([`pliant_policy::allocation::pending::state`] on [`pliant_policy::runtimes`]); the paper's
//! brokers expect a job that outlives its prediction to end at once.
//!
//! Runtimes are learned as jobs end and are part of the journaled state. They are in milliseconds, on a processor of speed 1
//! and on the fewest processors that the work takes. For a service, runtimes are divided by the scale of the arguments.
//! For users and for all jobs they are not, as scales of different services cannot be compared; a batch counts as the mean
//! of its instances. Scripts are grouped by user and name, and apart from services. O(jobs log processors).

use std::collections::BTreeSet;
use std::time::Duration;

use pliant_model::{Estimate, JobId, Procs, Span, SpanMs, Speed, Time};
use pliant_policy::allocation::ClusterState;
use pliant_policy::allocation::instances::{Expected, expected_before_samples, slots};
use pliant_policy::allocation::pending::{Free, PendingJob, least, state};
use pliant_policy::runtimes::{Categories, CategoryDump, Estimator, InShape, Level, Ran, Runtimes, Settings};

use super::deferring::within;
use super::{AdmissionRefusal, LimitKey, Server, ServerJob};
use crate::job::{JobRecord, JobState, Work};
use crate::multi_job::{Expectation, FreeSlots, InstanceProspects};
use crate::names::User;
use crate::runtime_sample::{RuntimeSample, script_category};

/// Empty statistics.
pub(super) fn empty() -> Runtimes<String> {
    Runtimes::new(Settings::FEDERATION)
}

/// The statistics of a dump.
pub(super) fn restore(dump: &[CategoryDump<String>]) -> Runtimes<String> {
    Runtimes::restore(Settings::FEDERATION, dump)
}

/// An instance of a multi-job.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// The service.
    pub service: String,
    /// The scale of its arguments; the mean, if it stands for several instances.
    pub scale: f64,
    /// Its processors and its mean walltime limit: rigid.
    pub work: Work,
    /// How much longer the walltime of a batch is than the sum of its instances, at speed 1.
    pub spare: Span,
    /// The runtime that the agents have learned from all servers, if the caller knows it.
    pub elsewhere: Option<Expectation>,
}

impl Server {
    /// The prospects of instances like this one, as if the user's waiting jobs in `without` were not here; an error if the
    /// cluster cannot run them, or completes none by their deadline. Slots that become free too late for one are left out.
    pub fn prospects(
        &mut self,
        now: Time,
        user: &User,
        instance: &Instance,
        without: &[u32],
    ) -> Result<InstanceProspects, AdmissionRefusal> {
        let fixed_time = instance.work.fixed_time;
        let speed = if fixed_time { Speed::REFERENCE } else { self.config.speed };
        let alone = Work { walltime: instance.work.walltime + instance.spare, ..instance.work.clone() };
        let request = alone.request(JobId(self.next), now).owned_by(user.owner());
        let planned = self.estimate_for(user, now, &request)?;
        let batch = planned.walltime;
        let spare = Span((instance.spare.0 as f64 / speed.get()).ceil() as i64);
        let walltime = Span((batch - spare).0.max(1));
        let from = instance.work.eligible(now);
        let left = instance.work.deadline.map(|deadline| deadline - from);
        let longest = self.batch.bounds(None).walltime.into_iter().chain(left).min();
        let batch_most = longest.map(|most| {
            let most = (most - spare).0 / walltime.0;
            u32::try_from(most.max(1)).unwrap_or(u32::MAX)
        });
        let Expected { time: length, source } =
            self.length(user, instance, SpanMs(walltime.0.saturating_mul(1_000)));
        let processors = self.procs();
        let is_withdrawable = |number: &u32| {
            let record = self.jobs.get(number).map(|entry| &entry.record);
            record.is_some_and(|record| record.state == JobState::Queued && record.owner == *user)
        };
        let waiting: Vec<u32> = without.iter().copied().filter(is_withdrawable).collect();
        let width = instance.work.procs.0;
        let without = waiting.iter().copied().collect();
        let mut pending = self.pending(now, &without);
        pending.extend(self.kept_jobs(user, &without));
        let limits = self.free_within_limits(user, &pending, width);
        let pending = pending.into_iter().map(|(_, job)| job);
        let ClusterState { offer, jobs, failures } =
            state(processors, pending, Span(length.0), 0.0, self.failures);
        let free = limits.iter().fold(slots(&offer.free, width), |free, limit| least(&free, limit));
        let free = free.into_iter().map(|step| FreeSlots { at: SpanMs(step.at.0), slots: step.processors });
        let free = in_time(now, &instance.work, planned, free.collect())?;
        let jobs = u32::try_from(jobs).unwrap_or(u32::MAX);
        let scale = instance.scale;
        let refused = Vec::new();
        Ok(InstanceProspects {
            free,
            instance: length,
            scale,
            source,
            jobs,
            failures,
            batch_most,
            waiting,
            refused,
        })
    }

    /// The expected runtime of an instance here, at most `most`.
    fn length(&self, user: &User, instance: &Instance, most: SpanMs) -> Expected {
        let of = Categories { executable: Some(instance.service.clone()), ..of_user(user) };
        let own = self.runtimes.predict(&of, Level::Executable, Estimator::Mean);
        expected_before_samples(own, instance.elsewhere, instance.scale, self.config.speed.get(), most)
    }

    /// The cluster's jobs in the order of their starts, without some waiting ones, with their expected runtimes in
    /// milliseconds: from statistics where there are any, else their walltimes.
    fn pending(&mut self, now: Time, without: &BTreeSet<u32>) -> Vec<(JobId, PendingJob)> {
        let counts = |job: JobId| !without.contains(&job.0);
        let ms = |span: Span| Span(span.0.saturating_mul(1_000));
        let mut pending = Vec::new();
        if let Some(snapshot) = self.batch.nodes(now) {
            for holder in &snapshot.running {
                let left = ms((holder.expected.unwrap_or(holder.end) - now).max(Span::ZERO));
                pending.push((holder.job, self.running_job(now, holder.job, holder.cores, left)));
            }
            let waiting = snapshot.pending.iter().filter(|waiting| !waiting.blocked && counts(waiting.job));
            for waiting in waiting {
                let walltime = ms(waiting.expected.unwrap_or(waiting.walltime));
                pending.push((waiting.job, self.waiting_job(waiting.job, waiting.shape.cores, walltime)));
            }
            return pending;
        }
        let queue = self.batch.snapshot(now);
        for job in &queue.running {
            pending.push((
                job.job,
                self.running_job(now, job.job, job.procs, ms((job.end - now).max(Span::ZERO))),
            ));
        }
        let mut placed = queue.planned;
        placed.sort_by_key(|waiting| (waiting.plan.start, waiting.job));
        for waiting in placed.iter().filter(|waiting| counts(waiting.job)) {
            pending.push((
                waiting.job,
                self.waiting_job(waiting.job, waiting.plan.procs, ms(waiting.plan.walltime)),
            ));
        }
        for waiting in queue.queued.iter().filter(|waiting| counts(waiting.job)) {
            pending.push((waiting.job, self.waiting_job(waiting.job, waiting.procs, ms(waiting.walltime))));
        }
        pending
    }

    /// When instances of `width` processors may run, by each limit of what the user may have running: as on a cluster of so many processors
    /// that has only the user's jobs. `pending` has all jobs.
    fn free_within_limits(&self, user: &User, pending: &[(JobId, PendingJob)], width: u32) -> Vec<Vec<Free>> {
        let Some(limits) = self.running_limits(user) else { return Vec::new() };
        let own: Vec<PendingJob> =
            pending.iter().filter(|(job, _)| self.owns(user, *job)).map(|(_, one)| *one).collect();
        let free = |most: u64, procs: fn(Procs) -> Procs| {
            let jobs = own.iter().map(|one| PendingJob { procs: procs(one.procs), ..*one });
            let most = Procs(u32::try_from(most).unwrap_or(u32::MAX));
            state(most, jobs, Span::ZERO, 0.0, 0).offer.free
        };
        let jobs = limits.of(LimitKey::RunningJobs).map(|most| free(most, |_| Procs(1)));
        let procs = limits.of(LimitKey::Processors).map(|most| slots(&free(most, |procs| procs), width));
        jobs.into_iter().chain(procs).collect()
    }

    /// True for jobs and subjobs of the user.
    fn owns(&self, user: &User, job: JobId) -> bool {
        let is_own = |entry: &ServerJob| entry.record.owner == *user;
        self.jobs
            .get(&job.0)
            .map_or_else(|| self.subjob(job.0).is_some_and(|(one, _)| one.owner == *user), is_own)
    }

    /// The user's jobs that wait for the user's limits, in order, without some waiting ones.
    fn kept_jobs(&self, user: &User, without: &BTreeSet<u32>) -> Vec<(JobId, PendingJob)> {
        let kept = self.kept_by_limits(user).into_iter().filter(|number| !without.contains(number));
        let pending = |number: u32| {
            let JobRecord { procs, walltime, .. } = &self.jobs.get(&number)?.record;
            let job = JobId(number);
            Some((job, self.waiting_job(job, *procs, Span(walltime.0.saturating_mul(1_000)))))
        };
        kept.filter_map(pending).collect()
    }

    /// A running job that has at most `left` to run.
    fn running_job(&self, now: Time, job: JobId, procs: Procs, left: Span) -> PendingJob {
        let entry = self.jobs.get(&job.0);
        let elapsed = entry.and_then(|entry| entry.record.started).map(|started| now - started);
        let elapsed = Span(elapsed.map_or(0, |elapsed| elapsed.0.max(0).saturating_mul(1_000)));
        let most = Span(left.0.saturating_add(elapsed.0));
        let (runtime, deviation) = self.expected_runtime(entry, procs, elapsed, most);
        PendingJob { procs, runtime, deviation, elapsed: Some(elapsed) }
    }

    fn waiting_job(&self, job: JobId, procs: Procs, walltime: Span) -> PendingJob {
        let (runtime, deviation) = self.expected_runtime(self.jobs.get(&job.0), procs, Span::ZERO, walltime);
        PendingJob { procs, runtime, deviation, elapsed: None }
    }

    /// The expected total runtime of a job on `procs` processors after it has run for `elapsed`, at most `most`, and its
    /// deviation.
    fn expected_runtime(
        &self,
        entry: Option<&ServerJob>,
        procs: Procs,
        elapsed: Span,
        most: Span,
    ) -> (Span, Span) {
        let expected_runtime = entry.and_then(|entry| {
            let ServerJob { number, record, sample, .. } = entry;
            let request = record.work.request(JobId(*number), Time::ZERO);
            let speed = self.config.speed;
            let walltimes = &request.on(self.procs(), speed)?;
            let shape = InShape { walltimes, procs, gpus: entry.gpus_of_size(speed), speed };
            let units = |level| sample.as_ref().map_or(1.0, |sample| sample.units(level));
            self.runtimes.predict_in_shape(&categories(record, sample.as_ref()), shape, units, elapsed)
        });
        expected_runtime.map_or((most, Span::ZERO), |found| (found.runtime.min(most), found.deviation))
    }

    /// Records the runtime of a job that succeeded, after `elapsed` if that was measured.
    pub(super) fn record_runtimes(&mut self, number: u32, elapsed: Option<Duration>, now: Time) {
        let speed = self.config.speed;
        let processors = self.procs();
        let Some(entry) = self.jobs.get_mut(&number) else { return };
        let gpus = entry.gpus_of_size(speed);
        let ServerJob { record, sample, run, .. } = entry;
        let Some(started) = record.started else { return };
        let elapsed = elapsed.unwrap_or(Duration::from_secs((now - started).0.max(0) as u64));
        let procs = run.as_ref().map_or(record.procs, |run| run.procs);
        let request = record.work.request(JobId(number), Time::ZERO);
        let Some(walltimes) = request.on(processors, speed) else { return };
        let shape = InShape { walltimes: &walltimes, procs, gpus, speed };
        let whole = Ran { shape, got: record.procs, elapsed };
        let unit = sample.as_ref().map(|sample| whole.unit_ms(sample.units(Level::Executable)));
        let ran = whole.unit_ms(sample.as_ref().map_or(1.0, |sample| sample.units(Level::All)));
        record.unit_runtime = unit.map(|unit| SpanMs(unit.0));
        record.runtime = Some(SpanMs(ran.0));
        let categories = categories(record, sample.as_ref());
        self.runtimes.record_scaled(&categories, unit.unwrap_or(ran), ran);
    }
}

/// The slots that become free in time for an instance to complete by its deadline; an error if there is none, and the plan has no time
/// for one either, for example between jobs that wait.
fn in_time(
    now: Time,
    work: &Work,
    planned: Estimate,
    mut free: Vec<FreeSlots>,
) -> Result<Vec<FreeSlots>, AdmissionRefusal> {
    if work.deadline.is_none() || free.is_empty() {
        return Ok(free);
    }
    let start = |at: SpanMs| now + Span(at.0.saturating_add(999) / 1_000);
    free.retain(|slots| within(work, Estimate { start: start(slots.at), ..planned }).is_ok());
    if free.is_empty() {
        let planned = within(work, planned)?;
        let at = SpanMs((planned.start - now).0.max(0).saturating_mul(1_000));
        free.push(FreeSlots { at, slots: 1 });
    }
    Ok(free)
}

/// The categories of a job.
fn categories(record: &JobRecord, sample: Option<&RuntimeSample>) -> Categories<String> {
    let JobRecord { owner, name, .. } = record;
    let executable = sample.map_or_else(|| script_category(owner, name), |sample| sample.category.clone());
    Categories { executable: Some(executable), ..of_user(owner) }
}

fn of_user(user: &User) -> Categories<String> {
    Categories { executable: None, user: Some(user.to_string()), group: None }
}
