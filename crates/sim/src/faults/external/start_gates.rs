//! The start gates of tentative jobs: supervisors wait at them for a start permit. Gates outlive the server and the batch
//! system.

use std::collections::BTreeMap;

use super::SiteEvent;
use super::controller::{JobEnd, Stage};
use super::folders::RunFolder;
use crate::faults::world::{World, WorldEvent};

/// How long a supervisor waits, and how often it checks its gate, in milliseconds.
const WAITS_MAX: u64 = 25_000;
const CHECK_EVERY: u64 = 500;

/// A supervisor that waits at a start gate.
pub(super) struct WaitingSupervisor {
    number: u32,
    pub(super) folder: RunFolder,
    walltime: u64,
    /// When the batch system started it.
    since: u64,
    until: u64,
}

/// All start gates of a cluster.
#[derive(Default)]
pub(super) struct StartGates {
    /// The decisions: whether a job may start.
    decided: BTreeMap<u32, bool>,
    /// The waiting supervisors, by their job in the queue.
    pub(super) waiting: BTreeMap<u64, WaitingSupervisor>,
}

impl StartGates {
    /// Decides, unless there is a decision already. Returns the decision in force.
    pub(super) fn decide(&mut self, number: u32, may_start: bool) -> bool {
        *self.decided.entry(number).or_insert(may_start)
    }

    /// Closes a gate: no supervisor passes it from now on.
    pub(super) fn remove(&mut self, number: u32) {
        self.decided.insert(number, false);
    }

    /// Ends the supervisor that waits as that job of the queue, by a signal of the batch system; false if none of that folder does: a
    /// controller that has lost its state gives an ID again.
    pub(super) fn signal(&mut self, id: u64, folder: &RunFolder) -> bool {
        let waits = self.waiting.get(&id).is_some_and(|wait| wait.folder == *folder);
        if waits {
            self.waiting.remove(&id);
        }
        waits
    }
}

impl World {
    /// Makes the supervisor of a tentative job wait at its start gate.
    pub(super) fn wait_at_gate(
        &mut self,
        index: usize,
        id: u64,
        (number, folder): (u32, RunFolder),
        walltime: u64,
        since: u64,
    ) {
        let until = self.queue.now() + WAITS_MAX;
        self.log(|_| format!("a supervisor of c{index} waits at the start gate of {folder}, as {id}"));
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.start_gates.waiting.insert(id, WaitingSupervisor { number, folder, walltime, since, until });
        self.check_gate(index, id, since);
    }

    /// Checks the decision for a waiting supervisor.
    pub(super) fn check_gate(&mut self, index: usize, id: u64, since: u64) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some(wait) = site.start_gates.waiting.get(&id).filter(|wait| wait.since == since) else { return };
        let (number, is_over) = (wait.number, wait.until <= now);
        let decided = match site.start_gates.decided.get(&number) {
            None if !is_over => {
                return self.after(CHECK_EVERY, WorldEvent::Site(index, SiteEvent::CheckGate { id, since }));
            }
            None => site.start_gates.decide(number, false),
            Some(decided) => *decided,
        };
        let Some(WaitingSupervisor { folder, walltime, .. }) = site.start_gates.waiting.remove(&id) else {
            return;
        };
        if decided {
            return self.claim_on_node(index, id, &folder, walltime);
        }
        self.log(|_| format!("a supervisor of c{index} does not run {folder}, as {id}"));
        if let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) {
            let is_same = |stage: &Stage| matches!(stage, Stage::Runs { since: started_at, .. } if *started_at == since);
            if site.controller.jobs.get(&id).is_some_and(|job| is_same(&job.stage)) {
                site.controller.end(id, JobEnd::Completed, now);
            }
        }
        self.schedule_jobs(index);
    }
}
