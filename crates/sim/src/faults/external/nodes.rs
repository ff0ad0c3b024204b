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
