//! Nodes that fail under jobs, and jobs that run again: each as often as it may, never twice at once, and none is lost before.

use pliant_control::job::{Exit, JobRecord};
use pliant_control::names::Handle;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::checks::Violation;
use super::world::World;

/// How a job ends whose node failed.
pub(super) const NODE_FAILED: &str = "a node failed";

/// Draws how often a job may run again.
pub(super) fn draw_requeue(rng: &mut ChaCha8Rng) -> u32 {
    let most = rng.random_range(1..=3);
    if rng.random_ratio(1, 2) { most } else { 0 }
}

impl World {
    /// Checks and records the start of a process of a job, of which so many runs are known by now, with this one or without it.
    pub(super) fn check_run(&mut self, index: usize, record: &JobRecord, known: usize) {
        let running = self.running(&record.handle);
        if running > known {
            let what = format!("c{index} starts {} while it runs", record.handle);
            self.report_violation("once", what);
        }
        self.checks.started(index, record);
    }

    /// Checks that a job which was lost with its node could not run again, or was to be ended.
    pub(super) fn check_lost(&self, record: &JobRecord) -> Result<(), Violation> {
        let is_of_node = matches!(&record.exit, Some(Exit::Lost(why)) if why == NODE_FAILED);
        let planned = self.plan.jobs.iter().find(|planned| planned.key == record.key);
        let is_cancelled = planned.is_some_and(|planned| planned.cancelled_after.is_some())
            || self.checks.is_cancelled_by_admin(&record.handle);
        if is_of_node && !is_cancelled && record.requeues < record.work.requeue {
            let (job, requeues, most) = (&record.handle, record.requeues, record.work.requeue);
            let what = format!("{job} was lost with its node after {requeues} requeues of {most}");
            return Err(Violation::new("requeued", what));
        }
        Ok(())
    }

    /// Drops how often the jobs of a server were queued again.
    pub(super) fn lose_requeues(&mut self, index: usize) {
        let now = self.queue.now();
        let changed = self.servers[index].daemon.change_state(now, |state| {
            let jobs = state.pointer_mut("/jobs").and_then(Value::as_array_mut);
            for job in jobs.into_iter().flatten() {
                if let Some(record) = job.pointer_mut("/record").and_then(Value::as_object_mut) {
                    record.remove("requeues");
                }
            }
        });
        if let Err(why) = changed {
            self.report_violation("journal", why);
        }
    }

    /// How often a job runs now, at all servers.
    fn running(&self, job: &Handle) -> usize {
        let processes = self.servers.iter().flat_map(|server| server.processes.values());
        let processes = processes.filter(|process| !process.over && process.handle == *job).count();
        let supervisors: usize = self.sites.values().map(|site| site.running(job)).sum();
        processes + supervisors
    }

    /// Restarts the host of a crashed server that has Pliant's own batch system, if that is drawn: no process on it is left.
    pub(super) fn restart_host(&mut self, index: usize) {
        if self.plan.faults.host_restarts == 0 || self.sites.contains_key(&index) {
            return;
        }
        if !self.draw_fault(self.plan.faults.host_restarts) {
            return;
        }
        let running = self.servers[index].processes.values_mut().filter(|process| !process.over);
        let mut lost = Vec::new();
        for process in running {
            (process.over, process.is_lost) = (true, true);
            lost.push(process.handle.clone());
        }
        self.log(|_| format!("the host of c{index} restarts under {lost:?}"));
        for job in lost {
            self.checks.node_failed(&job);
        }
    }
}
