//! The faults of an external batch system: jobs of local users, actions of administrators, and outages.

use pliant_model::Procs;
use rand::Rng;

use super::controller::{self, ControllerRequest, JobEnd, Stage, Submission};
use super::folders::RunFolder;
use super::{EARLIER_JOURNAL, SiteEvent};
use crate::faults::resources::{draw_needs, draw_tasks};
use crate::faults::world::{World, WorldEvent};

/// The maximal time for which an administrator holds a job, in milliseconds.
const ADMIN_HOLD_MAX: u64 = 120_000;

impl World {
    pub(super) fn end_local_job(&mut self, index: usize, id: u64) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) else { return };
        let is_due = |job: &controller::QueueEntry| {
            job.folder.is_none()
                && matches!(job.stage, Stage::Runs { since, .. } if since + job.walltime <= now)
        };
        if site.controller.jobs.get(&id).is_some_and(is_due) {
            site.controller.end(id, JobEnd::Completed, now);
            self.schedule_jobs(index);
        }
    }

    /// Submits the job of a local user, perhaps a held one, or one with a tag of an earlier journal.
    pub(super) fn submit_local_job(&mut self, index: usize) {
        let now = self.queue.now();
        let plan = &self.sites[&index].plan;
        let (most, counts) = (plan.nodes.iter().sum(), plan.counted.is_some());
        let has_tasks = plan.has_tasks;
        let mut resources = counts.then(|| draw_needs(&mut self.rng)).flatten();
        let number = self.rng.random_bool(0.2).then(|| EARLIER_JOURNAL + self.rng.random_range(0..100));
        let mut cores = self.rng.random_range(1..=most);
        if has_tasks {
            cores = draw_tasks(&mut self.rng, &mut resources, Procs(cores), Procs(most)).0;
        }
        let submission = Submission {
            number,
            folder: None,
            cores,
            resources,
            walltime: self.rng.random_range(2_000..60_000),
            held: self.rng.random_bool(0.2),
            tentative: false,
        };
        let Some(site) = self.sites.get_mut(&index) else { return };
        let every = site.plan.local_job_every;
        if site.is_up {
            site.controller.submit(now, submission);
            self.schedule_jobs(index);
        }
        self.schedule_fault(every, WorldEvent::Site(index, SiteEvent::LocalJob));
    }

    /// Makes an administrator cancel or hold a job of the server.
    pub(super) fn act_as_admin(&mut self, index: usize) {
        let site = &self.sites[&index];
        let (every, is_up) = (site.plan.admin_every, site.is_up);
        let open = site.controller.jobs.iter().filter(|(_, job)| job.is_open());
        let jobs: Vec<(u64, RunFolder)> =
            open.filter_map(|(id, job)| Some((*id, job.folder.clone()?))).collect();
        if is_up && !jobs.is_empty() {
            let (id, folder) = jobs[self.rng.random_range(0..jobs.len())].clone();
            match self.rng.random_bool(0.5) {
                true => self.hold_by_admin(index, id, &folder),
                false => self.cancel_by_admin(index, id, &folder),
            }
        }
        self.schedule_fault(every, WorldEvent::Site(index, SiteEvent::Administrator));
    }

    /// Holds a pending job of the server for a while: it must neither start nor move.
    fn hold_by_admin(&mut self, index: usize, id: u64, folder: &RunFolder) {
        let held_for = self.rng.random_range(1_000..ADMIN_HOLD_MAX);
        let until = self.queue.now() + held_for;
        let job = self.sites.get_mut(&index).and_then(|site| site.controller.jobs.get_mut(&id));
        if let Some(job) = job.filter(|job| job.stage == Stage::Pending) {
            job.admin_held_until = until;
            let what =
                format!("an administrator of c{index} holds {folder}, its job {id}, for {held_for} ms");
            self.log(|_| what);
        }
    }

    fn cancel_by_admin(&mut self, index: usize, id: u64, folder: &RunFolder) {
        let now = self.queue.now();
        self.log(|_| format!("an administrator of c{index} cancels {folder}, its job {id}"));
        if let Some(site) = self.sites.get_mut(&index) {
            site.controller.execute(now, &ControllerRequest::Cancel(id.to_string()));
        }
        self.checks.cancelled_by_admin(&folder.job);
        self.signal_job(index, id, folder);
        self.schedule_jobs(index);
    }

    /// Makes a node fail under a job of the server: all processes of the job are gone, and the controller sees that.
    pub(super) fn fail_node(&mut self, index: usize) {
        let now = self.queue.now();
        let Some(site) = self.sites.get(&index) else { return };
        let (every, is_up) = (site.plan.node_failure_every, site.is_up);
        let running: Vec<(RunFolder, u64)> =
            site.folders.running().map(|(folder, id, _)| (folder.clone(), id)).collect();
        if is_up && !running.is_empty() {
            let (folder, id) = running[self.rng.random_range(0..running.len())].clone();
            self.log(|_| format!("a node of c{index} fails under {folder}, its job {id}"));
            self.checks.node_failed(&folder.job);
            // A controller that is killed now may forget it.
            self.checks.killed(&folder.job);
            let is_same = |entry: &controller::QueueEntry| entry.folder.as_ref() == Some(&folder);
            if let Some(site) = self.sites.get_mut(&index) {
                site.folders.kill(&folder);
                if site.controller.jobs.get(&id).is_some_and(is_same) {
                    site.controller.end(id, JobEnd::NodeFailed, now);
                }
            }
            self.schedule_jobs(index);
        }
        self.schedule_fault(every, WorldEvent::Site(index, SiteEvent::NodeFailure));
    }

    /// Makes the controller hang, or kills it.
    pub(super) fn start_outage(&mut self, index: usize) {
        let hangs = self.rng.random_bool(0.4);
        let most = if self.rng.random_bool(0.3) { 60_000 } else { 8_000 };
        let length = self.rng.random_range(500..most);
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        let every = site.plan.outage_every;
        if hangs {
            site.hangs_until = now + length;
        } else if site.is_up {
            site.is_up = false;
            site.generation += 1;
            self.after(length, WorldEvent::Site(index, SiteEvent::Restart));
        }
        let what = if hangs { "hangs" } else { "is killed" };
        self.log(|_| format!("the controller of c{index} {what} for {length} ms"));
        self.schedule_fault(every, WorldEvent::Site(index, SiteEvent::Outage));
    }

    /// Restarts the controller from its saved state. Nodes report what runs; a process that the controller does not know is
    /// killed, unless its node does not report it.
    pub(super) fn restart_controller(&mut self, index: usize) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.is_up = true;
        site.controller.restart();
        let runs = site.folders.running().map(|(job, id, _)| (job.clone(), id));
        let waits = site.start_gates.waiting.iter().map(|(id, wait)| (wait.folder.clone(), *id));
        let running: Vec<(RunFolder, u64)> = runs.chain(waits).collect();
        let mut orphans = Vec::new();
        for (job, id) in &running {
            let is_theirs = |entry: &controller::QueueEntry| {
                entry.folder.as_ref() == Some(job) && matches!(entry.stage, Stage::Runs { .. })
            };
            if !site.controller.jobs.get(id).is_some_and(is_theirs) {
                orphans.push((job.clone(), *id));
            }
        }
        let known: Vec<u64> = site.controller.jobs.keys().copied().collect();
        let mut local_jobs = Vec::new();
        for id in known {
            let Some(entry) = site.controller.jobs.get(&id) else { continue };
            match (&entry.folder, &entry.stage) {
                (Some(folder), Stage::Runs { .. }) if !running.contains(&(folder.clone(), id)) => {
                    // It has ended meanwhile, or never started.
                    site.controller.end(id, JobEnd::Failed, now);
                }
                (None, Stage::Runs { since, .. }) => {
                    local_jobs.push((id, (since + entry.walltime).saturating_sub(now)));
                }
                _ => {}
            }
        }
        for (id, pause) in local_jobs {
            self.after(pause, WorldEvent::Site(index, SiteEvent::LocalJobEnds(id)));
        }
        self.log(|_| format!("the controller of c{index} restarts without a record of {orphans:?}"));
        for (job, id) in orphans {
            let Some(site) = self.sites.get_mut(&index).filter(|_| self.rng.random_bool(0.5)) else {
                continue;
            };
            if !site.start_gates.signal(id, &job) {
                self.checks.killed(&job.job);
                site.folders.kill(&job);
            }
        }
        self.schedule_jobs(index);
    }
}
