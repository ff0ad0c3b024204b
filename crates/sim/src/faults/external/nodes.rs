//! The nodes of an external cluster: supervisors start jobs, and jobs end.

use pliant_control::job::Exit;

use super::SiteEvent;
use super::controller::{self, JobEnd, Stage};
use super::folders::{ClaimResult, RunFolder};
use crate::faults::Bug;
use crate::faults::plan::PlannedJob;
use crate::faults::world::{World, WorldEvent};

impl World {
    /// Starts a job of the queue on a node.
    pub(super) fn start_on_node(&mut self, index: usize, id: u64, started: u64) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some(job) = site.controller.jobs.get(&id).cloned() else { return };
        let Stage::Runs { since, .. } = job.stage else { return };
        if since != started {
            return;
        }
        let Some(folder) = job.folder else {
            let end = since + job.walltime;
            return self.after(end.saturating_sub(now), WorldEvent::Site(index, SiteEvent::LocalJobEnds(id)));
        };
        if let (true, Some(number)) = (job.tentative, job.number) {
            if self.bug != Some(Bug::SkipsStartGate) {
                return self.wait_at_gate(index, id, (number, folder), job.walltime, since);
            }
            site.folders.prepare(&folder);
        }
        self.claim_on_node(index, id, &folder, job.walltime);
    }

    /// Makes a supervisor claim the folder of its job and run it.
    pub(super) fn claim_on_node(&mut self, index: usize, id: u64, folder: &RunFolder, walltime: u64) {
        let now = self.queue.now();
        let machine = &self.servers[index].daemon.node.machine;
        let record = machine.number_of(&folder.job).and_then(|number| machine.job(number)).cloned();
        let planned =
            record.as_ref().and_then(|record| self.plan.jobs.iter().find(|one| one.key == record.key));
        let (length, exit) = length(planned, walltime);
        let claims = self.bug != Some(Bug::IgnoresClaims);
        let Some(site) = self.sites.get_mut(&index) else { return };
        let found = site.folders.claim(folder, id, now, (length, exit), claims);
        self.log(|_| format!("a supervisor of c{index} finds {found:?} for {folder} as {id}"));
        match found {
            ClaimResult::Claimed => {
                match record {
                    Some(record) => {
                        self.check_begin(index, &record);
                        self.check_run(index, &record, 1);
                        self.check_nodes_of(index, id, folder);
                    }
                    None => self.report_violation(
                        "once",
                        format!("c{index} runs {folder}, of which it has no record"),
                    ),
                }
                self.after(length, WorldEvent::Site(index, SiteEvent::JobEnds(folder.clone())));
            }
            ClaimResult::EndRequested | ClaimResult::NoFolder | ClaimResult::AlreadyClaimed => {
                let Some(site) = self.sites.get_mut(&index) else { return };
                let end = if found == ClaimResult::EndRequested { JobEnd::Completed } else { JobEnd::Failed };
                let is_same = |entry: &controller::QueueEntry| entry.folder.as_ref() == Some(folder);
                if site.is_up && site.controller.jobs.get(&id).is_some_and(is_same) {
                    site.controller.end(id, end, now);
                }
                self.schedule_jobs(index);
            }
        }
    }

    /// Checks that a job of the server has of its nodes and licences what it needs.
    fn check_nodes_of(&mut self, index: usize, id: u64, folder: &RunFolder) {
        let record = self.servers[index].daemon.node.machine.number_of(&folder.job);
        let record = record.and_then(|number| self.servers[index].daemon.node.machine.job(number));
        let planned = record.and_then(|record| self.plan.jobs.iter().find(|one| one.key == record.key));
        let needed = planned.and_then(|planned| planned.work.resources.clone());
        let Some(site) = self.sites.get(&index) else { return };
        // A controller that was killed may have forgotten it.
        let entry = site.controller.jobs.get(&id).filter(|entry| entry.folder.as_ref() == Some(folder));
        let Some((entry, Stage::Runs { on, .. })) = entry.map(|entry| (entry, &entry.stage)) else { return };
        if let Some(why) = site.controller.nodes().lacks(needed.as_deref(), &entry.requested, on) {
            self.report_violation("resources", format!("c{index} starts {folder} as {id}: {why}"));
        }
    }

    /// Checks that no node has jobs with more than it has, and no licence.
    pub(super) fn check_over_commitment(&mut self, index: usize) {
        if let Some(why) = self.sites.get(&index).and_then(|site| site.controller.over_commitment()) {
            self.report_violation("resources", format!("the nodes of c{index} are over-committed: {why}"));
        }
    }

    /// Schedules the end of a job again, after it may have changed.
    pub(super) fn reschedule_end(&mut self, index: usize, job: &RunFolder) {
        let ends = self.sites[&index].folders.running().find(|(one, ..)| *one == job).map(|(.., ends)| ends);
        if let Some(ends) = ends {
            let pause = ends.saturating_sub(self.queue.now());
            self.after(pause, WorldEvent::Site(index, SiteEvent::JobEnds(job.clone())));
        }
    }

    pub(super) fn end_on_node(&mut self, index: usize, job: &RunFolder) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some((id, exit)) = site.folders.end(job, now) else { return };
        let end = if exit == Exit::Code(0) { JobEnd::Completed } else { JobEnd::Failed };
        // The id may belong to another job by now.
        let is_same = |entry: &controller::QueueEntry| entry.folder.as_ref() == Some(job);
        if site.is_up && site.controller.jobs.get(&id).is_some_and(is_same) {
            site.controller.end(id, end, now);
        }
        self.log(|_| format!("{job} at c{index} ends: {exit}"));
        self.schedule_jobs(index);
    }
}

/// The runtime of a job in milliseconds, and its exit.
fn length(planned: Option<&PlannedJob>, walltime: u64) -> (u64, Exit) {
    let (percent, code) = planned.map_or((50, 0), |planned| (planned.percent, planned.code));
    match percent {
        101.. => (walltime, Exit::OverWalltime),
        _ => ((walltime * percent / 100).max(10), Exit::Code(code)),
    }
}
