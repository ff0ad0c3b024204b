//! The state of an embedded batch system, as data.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use pliant_model::{JobId, Procs, Time};
use pliant_policy::batch::order::{JobPriority, PrioritySettings};
use pliant_policy::batch::{self, Submission};
use serde::{Deserialize, Serialize};

use super::{Embedded, HostResources, RestoreError, Started};

/// The state of an embedded batch system.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dump {
    at: Time,
    policy: String,
    /// None in states of earlier versions, and for the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    priority: Option<PrioritySettings>,
    procs: Procs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<Arc<HostResources>>,
    scheduler: batch::Dump,
    queued: Vec<Submission>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    too_large: Vec<Submission>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    held: Vec<Submission>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    tentative: BTreeSet<JobId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    priorities: Vec<JobPriority>,
    started: Vec<(JobId, Started)>,
    pending: VecDeque<JobId>,
    changed: bool,
}

impl Embedded {
    /// Restores a batch system from its dump.
    pub fn restore(dump: Dump) -> Result<Embedded, RestoreError> {
        let Dump {
            at,
            policy,
            priority,
            procs,
            host,
            scheduler,
            queued,
            too_large,
            held,
            tentative,
            priorities,
            started,
            pending,
            changed,
        } = dump;
        let mut embedded = Embedded::new(&policy, procs, host, at).map_err(RestoreError::Policy)?;
        embedded.priority = priority.unwrap_or_default();
        embedded.scheduler.restore(at, &scheduler).map_err(RestoreError::Scheduler)?;
        let (mut taken, mut gpus) = (BTreeSet::new(), BTreeSet::new());
        for (job, started) in &started {
            if let Some(gpu) = started.gpus.iter().find(|gpu| !gpus.insert(*gpu)) {
                return Err(RestoreError::Gpu { job: *job, gpu: gpu.clone() });
            }
            if let Some(core) = started.cores.iter().copied().find(|core| !taken.insert(*core)) {
                return Err(RestoreError::Core { job: *job, core });
            }
        }
        let by_job = |jobs: Vec<Submission>| jobs.into_iter().map(|one| (one.job, one)).collect();
        embedded.queued = by_job(queued);
        embedded.too_large = by_job(too_large);
        embedded.held = by_job(held);
        embedded.tentative = tentative;
        // Earlier versions kept those of jobs that have ended.
        let waiting = priorities.into_iter().filter(|one| embedded.waits(one.job));
        embedded.priorities = waiting.map(|one| (one.job, one.priority)).collect();
        embedded.started = started.into_iter().collect();
        embedded.pending = pending;
        embedded.changed = changed;
        embedded.count_processors();
        Ok(embedded)
    }

    /// The state, from which [`Embedded::restore`] makes the same batch system.
    pub(super) fn state(&self, now: Time) -> Dump {
        let priorities = self.priorities.iter();
        let priorities = priorities.map(|(job, priority)| JobPriority { job: *job, priority: *priority });
        Dump {
            at: now,
            policy: self.policy.to_string(),
            priority: (self.priority != PrioritySettings::default()).then(|| self.priority.clone()),
            procs: self.procs,
            host: self.host.as_ref().map(|host| host.declared().clone()),
            scheduler: self.scheduler.dump(),
            queued: self.queued.values().cloned().collect(),
            too_large: self.too_large.values().cloned().collect(),
            held: self.held.values().cloned().collect(),
            tentative: self.tentative.clone(),
            priorities: priorities.collect(),
            started: self.started.iter().map(|(job, started)| (*job, started.clone())).collect(),
            pending: self.pending.clone(),
            changed: self.changed,
        }
    }
}
