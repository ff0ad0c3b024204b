//! Pliant's own batch system: any local policy of `policy`, on the processors of one host, which may count its memory, GPUs, local disk
//! space and licences as well (`host`). In simulations it may have several nodes.
//!
//! The policy plans with walltimes, which processes may exceed. A job that outlives its planned end no longer counts for the
//! policy, but keeps its processors until its process has ended. The next job on them waits that long.
//!
//! The size and the policy may change while there are jobs ([`BatchSystem::configure`]). Running jobs keep their processors
//! until they end, also processors that the cluster has no longer; the waiting jobs are planned again. A job that needs more
//! processors than there are waits outside the policy's queue until the cluster grows.

mod dump;
mod host;
mod planning;
mod priorities;
mod restore_error;
mod starting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use pliant_model::{Estimate, JobId, Procs, Resources, Span, Time, Walltimes};
use pliant_policy::UnknownName;
use pliant_policy::batch::order::{PriorityParts, PrioritySettings};
use pliant_policy::batch::{self, BatchScheduler, LocalPolicy, Start, Submission, Waiting};
use pliant_policy::nodes::ClusterSnapshot;
use pliant_policy::profile::ClassStarts;
use pliant_policy::tuning::Tuner;
use serde::{Deserialize, Serialize};

use crate::batch::{BatchSystem, Command, Effects, Event, Run, StatusUpdate, Usage};
use crate::explain::Shortage;
use crate::job::Exit;

use host::{CountedHost, Taken, held};
use priorities::Place;

pub use dump::Dump;
pub use host::HostResources;
pub use restore_error::RestoreError;

/// A job that the policy has started.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Started {
    /// The processors that it was sized for.
    asked: Procs,
    /// The processors that it gets.
    procs: Procs,
    walltime: Span,
    /// Its end at the latest, for the policy.
    planned_end: Time,
    /// The policy counts it as ended.
    overdue: bool,
    /// Its processors; empty while it waits for them.
    cores: Vec<u32>,
    /// What it asked for besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resources: Option<Arc<Resources>>,
    /// What it has of the host besides processors, if that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    taken: Option<Taken>,
    /// Its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gpus: Vec<String>,
}

/// The embedded batch system of one cluster.
pub struct Embedded {
    policy: LocalPolicy,
    /// What orders by usage depend on, whether the present policy has one or not.
    priority: PrioritySettings,
    procs: Procs,
    /// What the host has besides processors, if that is counted.
    host: Option<CountedHost>,
    scheduler: Box<dyn BatchScheduler>,
    /// The queued jobs as submitted, until they have processors: a policy may assign fewer than requested.
    queued: BTreeMap<JobId, Submission>,
    /// Jobs that need more than the cluster has now.
    too_large: BTreeMap<JobId, Submission>,
    /// Held jobs, which are not in the policy's queue.
    held: BTreeMap<JobId, Submission>,
    /// Queued jobs that do not start before they are released.
    tentative: BTreeSet<JobId>,
    /// The priorities that operators have given to waiting jobs, other than 0.
    priorities: BTreeMap<JobId, i64>,
    started: BTreeMap<JobId, Started>,
    /// Jobs that the policy has started and that wait for processors, in order.
    pending: VecDeque<JobId>,
    free: BTreeSet<u32>,
    /// Running jobs have more processors than the cluster, so the policy does not know all of them.
    is_overbooked: bool,
    start_buffer: Vec<Start>,
    /// An event came since the last [`BatchSystem::due`].
    changed: bool,
}

impl Embedded {
    /// An empty cluster under the policy of that name, on a host whose resources are counted or of processors alone.
    ///
    /// # Errors
    /// There is no such policy, or it does not distinguish nodes.
    pub fn new(
        policy: &str,
        procs: Procs,
        host: Option<Arc<HostResources>>,
        now: Time,
    ) -> Result<Embedded, UnknownName> {
        let policy: LocalPolicy = policy.parse()?;
        let scheduler = match &host {
            Some(host) => policy.scheduler_on(&host.nodes, now)?,
            None => policy.scheduler(procs, now),
        };
        Ok(Embedded {
            policy,
            priority: PrioritySettings::default(),
            procs,
            host: host.map(CountedHost::new),
            scheduler,
            queued: BTreeMap::new(),
            too_large: BTreeMap::new(),
            held: BTreeMap::new(),
            tentative: BTreeSet::new(),
            priorities: BTreeMap::new(),
            started: BTreeMap::new(),
            pending: VecDeque::new(),
            free: (0..procs.0).collect(),
            is_overbooked: false,
            start_buffer: Vec::new(),
            changed: false,
        })
    }

    /// Ends jobs at their planned ends for the policy.
    fn finish_overdue(&mut self, now: Time) {
        let mut is_any = false;
        for (job, started) in &mut self.started {
            if !started.overdue && started.planned_end <= now {
                started.overdue = true;
                self.scheduler.finish(now, *job);
                is_any = true;
            }
        }
        if is_any && self.is_overbooked {
            self.plan_again(now);
        }
    }

    /// Removes a job that waits or was not started yet; false if there is none.
    fn remove_unstarted(&mut self, now: Time, job: JobId) -> bool {
        if self.held.remove(&job).is_some() {
            return true;
        }
        if self.too_large.remove(&job).is_some() {
            self.tentative.remove(&job);
            return true;
        }
        self.changed = true;
        if self.scheduler.cancel(now, &[job]) == 1 {
            self.queued.remove(&job);
            self.tentative.remove(&job);
            return true;
        }
        // It may be due and not collected yet.
        self.collect_starts(now);
        let is_tentative = self.tentative.remove(&job);
        let has_not_run = |started: &Started| is_tentative || started.cores.is_empty();
        self.started.get(&job).is_some_and(has_not_run) && self.free_processors(now, job)
    }

    /// Frees the processors of a started job; false if there is none.
    fn free_processors(&mut self, now: Time, job: JobId) -> bool {
        let Some(started) = self.started.remove(&job) else { return false };
        if started.cores.is_empty() {
            self.pending.retain(|other| *other != job);
            self.queued.remove(&job);
        }
        self.free.extend(started.cores.into_iter().filter(|core| *core < self.procs.0));
        if !started.overdue {
            self.scheduler.finish(now, job);
        }
        if self.is_overbooked {
            self.plan_again(now);
        }
        self.changed = true;
        true
    }
}

impl Started {
    /// One that has no processors yet.
    fn new(asked: Procs, procs: Procs, walltime: Span, now: Time) -> Started {
        let (planned_end, cores, gpus) = (now + walltime, Vec::new(), Vec::new());
        let (resources, taken) = (None, None);
        Started { asked, procs, walltime, planned_end, overdue: false, cores, resources, taken, gpus }
    }

    /// Starts the job on its processors.
    fn run(&self, now: Time, job: JobId, effects: &mut Effects) {
        let Started { asked, procs, walltime, ref cores, .. } = *self;
        effects.updates.push(StatusUpdate::Started { job, procs, walltime, at: now });
        let held = held(self);
        effects.commands.push(Command::Run(Run { job, procs: asked, cores: cores.clone(), walltime, held }));
    }
}

impl BatchSystem for Embedded {
    fn estimate(
        &mut self,
        now: Time,
        _partition: Option<&str>,
        walltimes: &Walltimes<'_>,
        tuner: Tuner,
    ) -> Option<Estimate> {
        self.scheduler.estimate(now, walltimes, tuner)
    }

    fn class_starts(&mut self, now: Time) -> Option<ClassStarts> {
        self.scheduler.class_starts(now)
    }

    fn submit(&mut self, now: Time, submission: Submission, _effects: &mut Effects) {
        if !self.could_run(&submission) {
            // It was prepared for a larger cluster.
            self.too_large.insert(submission.job, submission);
            return;
        }
        let job = submission.job;
        self.queued.insert(job, submission.clone());
        self.scheduler.submit(now, submission);
        self.changed = true;
        if self.has_place_of_its_own(job) {
            self.plan_again_with(now, Some((job, Place::Last)));
        }
    }

    fn hold(&mut self, _now: Time, submission: Submission, effects: &mut Effects) {
        let job = submission.job;
        self.held.insert(job, submission);
        effects.updates.push(StatusUpdate::Held { job });
    }

    fn submit_tentatively(&mut self, now: Time, submission: Submission, effects: &mut Effects) {
        let job = submission.job;
        self.tentative.insert(job);
        self.submit(now, submission, effects);
        effects.updates.push(StatusUpdate::Held { job });
    }

    fn keep_back(&mut self, now: Time, submission: Submission) -> bool {
        let is_new = !self.held.contains_key(&submission.job);
        let is_kept = is_new && self.remove_unstarted(now, submission.job);
        if is_kept {
            self.held.insert(submission.job, submission);
        }
        is_kept
    }

    fn started_before(&mut self, now: Time, job: JobId, effects: &mut Effects) {
        self.start_anyway(now, job);
        if let Some(started) = self.started.get(&job) {
            started.run(now, job, effects);
        }
    }

    fn job_priority(&self, job: JobId) -> i64 {
        self.priorities.get(&job).copied().unwrap_or(0)
    }

    fn set_job_priority(&mut self, now: Time, job: JobId, priority: i64) -> bool {
        self.prioritise(now, job, priority)
    }

    fn held_jobs(&self) -> BTreeSet<JobId> {
        self.held.keys().copied().collect()
    }

    fn release(&mut self, now: Time, job: JobId, effects: &mut Effects) {
        if let Some(submission) = self.held.remove(&job) {
            return self.submit(now, submission, effects);
        }
        let has_cores = |started: &&Started| !started.cores.is_empty();
        if self.tentative.remove(&job)
            && let Some(started) = self.started.get(&job).filter(has_cores)
        {
            started.run(now, job, effects);
        }
    }

    fn withdraw(&mut self, now: Time, job: JobId, effects: &mut Effects) {
        let update = if self.remove_unstarted(now, job) {
            self.priorities.remove(&job);
            StatusUpdate::Withdrawn { job }
        } else {
            StatusUpdate::NotWithdrawn { job }
        };
        effects.updates.push(update);
    }

    fn cancel(&mut self, now: Time, job: JobId, effects: &mut Effects) {
        if self.remove_unstarted(now, job) {
            self.priorities.remove(&job);
            effects.updates.push(StatusUpdate::Ended { job, exit: Exit::Cancelled, elapsed_ms: None });
        } else if self.started.contains_key(&job) {
            effects.commands.push(Command::Terminate { job });
        }
    }

    fn configure(&mut self, now: Time, procs: Procs, policy: LocalPolicy, host: Option<Arc<HostResources>>) {
        (self.procs, self.policy, self.host) = (procs, policy, host.map(CountedHost::new));
        self.plan_again(now);
    }

    fn configuration(&self) -> Option<(Procs, String, Option<Arc<HostResources>>)> {
        let host = self.host.as_ref().map(|host| host.declared().clone());
        Some((self.procs, self.policy.to_string(), host))
    }

    /// It may run on another cluster.
    fn is_stuck(&self, _now: Time, job: JobId) -> bool {
        self.too_large.contains_key(&job)
    }

    fn counts_resources(&self) -> bool {
        self.host.is_some()
    }

    fn nodes(&mut self, _now: Time) -> Option<ClusterSnapshot> {
        let started = |job: JobId| self.started.get(&job);
        self.host.as_ref().map(|host| host.snapshot(&self.scheduler.dump(), started))
    }

    fn set_priority(&mut self, now: Time, priority: &PrioritySettings) {
        self.priority = priority.clone();
        self.plan_again(now);
    }

    fn priority_settings(&self) -> Option<&PrioritySettings> {
        Some(&self.priority)
    }

    fn priority(&mut self, now: Time, job: JobId) -> Option<PriorityParts> {
        self.scheduler.priority(now, job)
    }

    fn capacity(&self) -> Option<Procs> {
        Some(self.procs)
    }

    fn unplanned(&self, job: JobId) -> Option<String> {
        let Submission { procs, resources, .. } = self.too_large.get(&job)?;
        if let Some(needed) = resources.as_ref().filter(|_| *procs <= self.procs) {
            return Some(format!(
                "the cluster does not have what it needs since its configuration was changed: {needed}"
            ));
        }
        Some(format!(
            "it needs {} processors, and the cluster has only {} since its configuration was changed; it waits until the \
             cluster has more",
            procs.0, self.procs.0
        ))
    }

    fn shortages(&self, job: JobId, procs: Procs) -> Vec<Shortage> {
        match &self.host {
            Some(host) => {
                let resources = self.queued.get(&job).and_then(|submission| submission.resources.as_deref());
                host.shortages(procs, resources, self.started.values())
            }
            None => Shortage::of("processors", procs.0, self.free.len() as u32).into_iter().collect(),
        }
    }

    fn on(&mut self, now: Time, event: Event, effects: &mut Effects) {
        let (job, end, may_wait) = match event {
            Event::Ended { job, exit, elapsed_ms } => {
                (job, StatusUpdate::Ended { job, exit, elapsed_ms }, false)
            }
            // It may have been started by this node, which has lost the record of that.
            Event::NodeFailed { job, exit } => (job, StatusUpdate::NodeFailed { job, exit }, true),
            Event::External(_) => return,
        };
        if may_wait && self.queued.contains_key(&job) && self.remove_unstarted(now, job) {
            self.priorities.remove(&job);
            effects.updates.push(end);
        } else if self.free_processors(now, job) {
            // A repeated end is ignored.
            effects.updates.push(end);
        }
    }

    fn due(&mut self, now: Time, effects: &mut Effects) {
        self.changed = false;
        self.finish_overdue(now);
        self.collect_starts(now);
        self.run_pending(now, effects);
    }

    fn next_due(&self) -> Option<Time> {
        if self.changed {
            // At once, whatever the driver's origin of time.
            return Some(Time(i64::MIN));
        }
        let ends = self.started.values().filter(|one| !one.overdue).map(|one| one.planned_end);
        ends.chain(self.scheduler.next_start()).min()
    }

    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        self.scheduler.plan(now, job)
    }

    fn waiting(&mut self, now: Time) -> Vec<Waiting> {
        let plan_of = |job: &JobId| {
            let Started { procs, walltime, .. } = *self.started.get(job)?;
            Some(Waiting { job: *job, plan: Estimate { procs, walltime, start: now } })
        };
        let mut waiting: Vec<Waiting> = self.pending.iter().filter_map(plan_of).collect();
        self.scheduler.list(now, &mut waiting);
        waiting
    }

    fn usage(&self) -> Usage {
        let running = self.started.len() - self.pending.len();
        let waiting = self.scheduler.queue_length() + self.pending.len() + self.too_large.len();
        Usage { free: Procs(self.free.len() as u32), running: running as u32, waiting: waiting as u32 }
    }

    fn snapshot(&mut self, _now: Time) -> batch::Dump {
        self.scheduler.dump()
    }

    fn dump(&mut self, now: Time) -> crate::batch::Dump {
        crate::batch::Dump::Embedded(Box::new(self.state(now)))
    }
}
