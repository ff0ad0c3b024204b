//! What the instances of a multi-job may expect of this server (paper 002, Algorithm 2; spec A.2.1): when its processors
//! come free by the *expected* runtimes of what it has, and how long an instance takes. The simulator's brokers that
//! expect running jobs by what they have run make the same of the same ([`pliant_policy::allocation::pending::state`] of what
//! [`pliant_policy::runtimes`] predicts); the paper's expect a job to end at once that has outlived its prediction.
//!
//! Runtimes are learned as jobs end, and are part of the server's state: journaled, and kept over restarts. They are in
//! milliseconds, for a processor of speed 1 and the fewest processors that the work takes. What is told of a service is
//! divided by what the arguments make of it; what is told of users and of all jobs is not, as these quotients are each in a
//! unit of its service's own, but of a batch it is the mean of its instances. A script is like others of its name by its user, and like
//! no service. O(jobs log processors).

use std::collections::BTreeSet;
use std::time::Duration;

use pliant_model::{JobId, Procs, Span, SpanMs, Time};
use pliant_policy::allocation::ClusterState;
use pliant_policy::allocation::instances::{Expected, expected_before_samples, places};
use pliant_policy::allocation::pending::{PendingJob, state};
use pliant_policy::runtimes::{Categories, CategoryDump, Estimator, InShape, Level, Ran, Runtimes, Settings};

use super::{Refused, Server, ServerJob};
use crate::job::{JobRecord, JobState, Work};
use crate::multi_job::{Expectation, FreeSlots, InstanceProspects};
use crate::names::User;
use crate::runtime_sample::RuntimeSample;

/// Statistics of nothing yet.
pub(super) fn empty() -> Runtimes<String> {
    Runtimes::new(Settings::FEDERATION)
}

/// Statistics that go on like the dumped ones.
pub(super) fn restore(dump: &[CategoryDump<String>]) -> Runtimes<String> {
    Runtimes::restore(Settings::FEDERATION, dump)
}

/// An instance of a multi-job.
#[derive(Clone, PartialEq, Debug)]
pub struct Instance {
    /// What it runs.
    pub service: String,
    /// How much longer its arguments make it; the mean over several, if it stands for those.
    pub scale: f64,
    /// On how many processors, and for how long at most, at the mean: rigid.
    pub work: Work,
    /// What the walltime of a batch is longer than those of its instances, on processors of speed 1.
    pub spare: Span,
    /// What all servers together have seen of such jobs, as far as whoever asks has heard.
    pub elsewhere: Option<Expectation>,
}

impl Server {
    /// What instances like this one may expect, as if those of the user's jobs that wait and are `without` were not here;
    /// an error if the cluster cannot run them.
    pub fn prospects(
        &mut self,
        now: Time,
        user: &User,
        instance: &Instance,
        without: &[u32],
    ) -> Result<InstanceProspects, Refused> {
        let speed = self.config.speed;
        let Work { procs, walltime, speedup } = instance.work.clone();
        let alone = Work { procs, walltime: walltime + instance.spare, speedup };
        let request = alone.request(JobId(self.next), now).owned_by(user.owner());
        let batch = self.estimate_at(now, &request, speed)?.walltime;
        let spare = Span((instance.spare.0 as f64 / speed.get()).ceil() as i64);
        let walltime = Span((batch - spare).0.max(1));
        let batch_most = self.batch.bounds().walltime.map(|most| {
            let most = (most - spare).0 / walltime.0;
            u32::try_from(most.max(1)).unwrap_or(u32::MAX)
        });
        let Expected { time: length, source } =
            self.length(user, instance, SpanMs(walltime.0.saturating_mul(1_000)));
        let processors = self.procs();
        let is_withdrawable = |number: &u32| {
            let record = self.jobs.get(number).map(|kept| &kept.record);
            record.is_some_and(|record| record.state == JobState::Queued && record.owner == *user)
        };
        let waiting: Vec<u32> = without.iter().copied().filter(is_withdrawable).collect();
        let pending = self.pending(now, &waiting.iter().copied().collect());
        let ClusterState { offer, jobs, failures } =
            state(processors, pending, Span(length.0), 0.0, self.failures);
        let free = places(&offer.free, instance.work.procs.0).into_iter();
        let free = free.map(|step| FreeSlots { at: SpanMs(step.at.0), slots: step.processors }).collect();
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

    /// How long an instance is expected to take here, `most` at most.
    fn length(&self, user: &User, instance: &Instance, most: SpanMs) -> Expected {
        let of = Categories { executable: Some(instance.service.clone()), ..of_user(user) };
        let own = self.runtimes.predict(&of, Level::Executable, Estimator::Mean);
        expected_before_samples(own, instance.elsewhere, instance.scale, self.config.speed.get(), most)
    }

    /// The jobs of the cluster in the order in which they start, without some that wait, with how long they are expected
    /// to run, in milliseconds: by statistics where there are some, by their walltimes otherwise.
    fn pending(&mut self, now: Time, without: &BTreeSet<u32>) -> Vec<PendingJob> {
        let counts = |job: JobId| !without.contains(&job.0);
        let ms = |span: Span| Span(span.0.saturating_mul(1_000));
        let mut pending = Vec::new();
        if let Some(snapshot) = self.batch.nodes(now) {
            for holder in &snapshot.running {
                let left = ms((holder.expected.unwrap_or(holder.end) - now).max(Span::ZERO));
                pending.push(self.runs(now, holder.job, holder.cores, left));
            }
            let waiting = snapshot.pending.iter().filter(|waiting| !waiting.blocked && counts(waiting.job));
            for waiting in waiting {
                let walltime = ms(waiting.expected.unwrap_or(waiting.walltime));
                pending.push(self.waits(waiting.job, waiting.shape.cores, walltime));
            }
            return pending;
        }
        let queue = self.batch.snapshot(now);
        for job in &queue.running {
            pending.push(self.runs(now, job.job, job.procs, ms((job.end - now).max(Span::ZERO))));
        }
        let mut placed = queue.planned;
        placed.sort_by_key(|waiting| (waiting.plan.start, waiting.job));
        for waiting in placed.iter().filter(|waiting| counts(waiting.job)) {
            pending.push(self.waits(waiting.job, waiting.plan.procs, ms(waiting.plan.walltime)));
        }
        for waiting in queue.queued.iter().filter(|waiting| counts(waiting.job)) {
            pending.push(self.waits(waiting.job, waiting.procs, ms(waiting.walltime)));
        }
        pending
    }

    /// A job that has at most `left` to run.
    fn runs(&self, now: Time, job: JobId, procs: Procs, left: Span) -> PendingJob {
        let kept = self.jobs.get(&job.0);
        let elapsed = kept.and_then(|kept| kept.record.started).map(|started| now - started);
        let elapsed = Span(elapsed.map_or(0, |elapsed| elapsed.0.max(0).saturating_mul(1_000)));
        let most = Span(left.0.saturating_add(elapsed.0));
        let (runtime, deviation) = self.foreseen(kept, procs, elapsed, most);
        PendingJob { procs, runtime, deviation, elapsed: Some(elapsed) }
    }

    fn waits(&self, job: JobId, procs: Procs, walltime: Span) -> PendingJob {
        let (runtime, deviation) = self.foreseen(self.jobs.get(&job.0), procs, Span::ZERO, walltime);
        PendingJob { procs, runtime, deviation, elapsed: None }
    }

    /// How long a job is expected to run in all on so many processors that has run for so long there, at most so long, and the
    /// deviation of that.
    fn foreseen(&self, kept: Option<&ServerJob>, procs: Procs, elapsed: Span, most: Span) -> (Span, Span) {
        let foreseen = kept.and_then(|ServerJob { number, record, sample, .. }| {
            let request = record.work.request(JobId(*number), Time::ZERO);
            let speed = self.config.speed;
            let shape = InShape { walltimes: &request.on(self.procs(), speed)?, procs, speed };
            let units = |level| sample.as_ref().map_or(1.0, |sample| sample.units(level));
            self.runtimes.predict_in_shape(&categories(record, sample.as_ref()), shape, units, elapsed)
        });
        foreseen.map_or((most, Span::ZERO), |found| (found.runtime.min(most), found.deviation))
    }

    /// A job has ended well, after `elapsed` if that was measured.
    pub(super) fn tell_runtimes(&mut self, number: u32, elapsed: Option<Duration>, now: Time) {
        let speed = self.config.speed;
        let processors = self.procs();
        let Some(ServerJob { record, sample, run, .. }) = self.jobs.get_mut(&number) else { return };
        let Some(started) = record.started else { return };
        let elapsed = elapsed.unwrap_or(Duration::from_secs((now - started).0.max(0) as u64));
        let procs = run.as_ref().map_or(record.procs, |run| run.procs);
        let request = record.work.request(JobId(number), Time::ZERO);
        let Some(walltimes) = request.on(processors, speed) else { return };
        let shape = InShape { walltimes: &walltimes, procs, speed };
        let whole = Ran { shape, got: record.procs, elapsed };
        let unit = sample.as_ref().map(|sample| whole.unit_ms(sample.units(Level::Executable)));
        let ran = whole.unit_ms(sample.as_ref().map_or(1.0, |sample| sample.units(Level::All)));
        record.unit_runtime = unit.map(|unit| SpanMs(unit.0));
        record.runtime = Some(SpanMs(ran.0));
        let categories = categories(record, sample.as_ref());
        self.runtimes.record_scaled(&categories, unit.unwrap_or(ran), ran);
    }
}

/// What a job has in common with others. Services have names without colons.
fn categories(record: &JobRecord, sample: Option<&RuntimeSample>) -> Categories<String> {
    let JobRecord { owner, name, .. } = record;
    let executable =
        sample.map_or_else(|| format!("script:{owner}/{name}"), |sample| sample.category.clone());
    Categories { executable: Some(executable), ..of_user(owner) }
}

fn of_user(user: &User) -> Categories<String> {
    Categories { executable: None, user: Some(user.to_string()), group: None }
}
