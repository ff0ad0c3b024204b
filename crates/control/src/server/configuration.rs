//! The size and the policy of a server's embedded batch system, and what a change of them does to its jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_model::{JobId, Procs, Time};
use pliant_policy::batch::order::PrioritySettings;

use super::{Server, ServerConfig};
use crate::batch::Usage;
use crate::batch::embedded::HostResources;

/// What a change of the size or the policy of an embedded batch system does to its jobs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ChangeEffect {
    /// Running jobs, which keep their processors.
    pub running: u32,
    /// Waiting jobs, those included that are counted below.
    pub waiting: u32,
    /// Waiting jobs with a later planned start than before.
    pub later: u32,
    /// Waiting jobs with an earlier planned start than before, or a first one.
    pub earlier: u32,
    /// Waiting jobs that need more than the cluster has: they have no planned start.
    pub too_large: u32,
}

impl Server {
    /// Changes the size, the policy and the host of an embedded batch system. Its jobs stay.
    pub(super) fn configure(
        &mut self,
        now: Time,
        procs: Procs,
        policy: &str,
        host: Option<Arc<HostResources>>,
    ) {
        // A program that does not know the policy does not read this journal either: its snapshot names the policy.
        let Ok(local) = policy.parse() else { return };
        self.batch.configure(now, procs, local, host.clone());
        (self.config.procs, self.config.policy, self.config.host) = (procs, policy.to_owned(), host);
    }

    /// The size, the policy and the host of the embedded batch system; none for an external one.
    pub fn configuration(&self) -> Option<(Procs, String, Option<Arc<HostResources>>)> {
        self.batch.configuration()
    }

    /// What orders by usage depend on; none for an external batch system.
    pub fn priority(&self) -> Option<&PrioritySettings> {
        self.batch.priority_settings()
    }

    /// Changes a server that is not used any more to the size, the policy and the host of a configuration, and says what that did to
    /// its jobs.
    pub fn try_configuration(
        mut self,
        now: Time,
        config: &ServerConfig,
        priority: &PrioritySettings,
    ) -> ChangeEffect {
        let before = self.planned_starts(now);
        self.configure(now, config.procs, &config.policy, config.host.clone());
        self.batch.set_priority(now, priority);
        let after = self.planned_starts(now);
        let Usage { running, waiting, .. } = self.usage();
        let count = |differs: fn(Option<Time>, Time) -> bool| {
            after.iter().filter(|(job, start)| differs(before.get(*job).copied(), **start)).count() as u32
        };
        ChangeEffect {
            running,
            waiting,
            later: count(|before, after| before.is_some_and(|before| after > before)),
            earlier: count(|before, after| before.is_none_or(|before| after < before)),
            too_large: waiting.saturating_sub(after.len() as u32),
        }
    }

    fn planned_starts(&mut self, now: Time) -> BTreeMap<JobId, Time> {
        self.batch.waiting(now).iter().map(|one| (one.job, one.plan.start)).collect()
    }
}
