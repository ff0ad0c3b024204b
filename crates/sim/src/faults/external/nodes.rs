//! What the nodes of an external cluster do: supervisors begin jobs, and jobs end.

use pliant_control::job::Exit;
use pliant_control::names::Handle;

use super::Moment;
use super::controller::{self, How, Stage};
use super::folders::Finds;
use crate::faults::Bug;
use crate::faults::plan::Planned;
use crate::faults::world::{World, WorldEvent};

impl World {
    /// A node begins a job.
    pub(super) fn node_begins(&mut self, index: usize, id: u64, started: u64) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some(job) = site.controller.jobs.get(&id).cloned() else { return };
        let Stage::Runs { since, .. } = job.stage else { return };
        if since != started {
            return;
        }
        let Some(folder) = job.folder else {
            let end = since + job.walltime;
            return self.after(end.saturating_sub(now), WorldEvent::Site(index, Moment::StrangerEnds(id)));
        };
        if let (true, Some(number)) = (job.tentative, job.number) {
            if self.bug != Some(Bug::WaitsForNobody) {
                return self.waits(index, id, (number, folder), job.walltime, since);
            }
            site.folders.prepare(&folder);
        }
        self.node_claims(index, id, &folder, job.walltime);
    }

    /// A supervisor claims the folder of its job, and runs it.
    pub(super) fn node_claims(&mut self, index: usize, id: u64, folder: &Handle, walltime: u64) {
        let now = self.queue.now();
        let machine = &self.servers[index].daemon.node.machine;
        let record = machine.number_of(folder).and_then(|number| machine.job(number)).cloned();
        let planned =
            record.as_ref().and_then(|record| self.plan.jobs.iter().find(|one| one.key == record.key));
        let (length, exit) = length(planned, walltime);
        let claims = self.bug != Some(Bug::IgnoresClaims);
        let Some(site) = self.sites.get_mut(&index) else { return };
        let found = site.folders.claim(folder, id, now, (length, exit), claims);
        self.note(|_| format!("a supervisor of c{index} finds {found:?} for {folder} as {id}"));
        match found {
            Finds::Own => {
                match record {
                    Some(record) => self.checks.started(index, &record),
                    None => self.wrong("once", format!("c{index} runs {folder}, which it does not know")),
                }
                self.after(length, WorldEvent::Site(index, Moment::Ends(folder.clone())));
            }
            Finds::EndAsked | Finds::Nothing | Finds::Claimed => {
                let Some(site) = self.sites.get_mut(&index) else { return };
                let how = if found == Finds::EndAsked { How::Completed } else { How::Failed };
                let is_it = |entry: &controller::Entry| entry.folder.as_ref() == Some(folder);
                if site.is_up && site.controller.jobs.get(&id).is_some_and(is_it) {
                    site.controller.over(id, how, now);
                }
                self.pass(index);
            }
        }
    }

    /// The end of a job may have been moved.
    pub(super) fn look_at_end(&mut self, index: usize, job: &Handle) {
        let ends = self.sites[&index].folders.running().find(|(one, ..)| *one == job).map(|(.., ends)| ends);
        if let Some(ends) = ends {
            let pause = ends.saturating_sub(self.queue.now());
            self.after(pause, WorldEvent::Site(index, Moment::Ends(job.clone())));
        }
    }

    pub(super) fn node_ends(&mut self, index: usize, job: &Handle) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some((id, exit)) = site.folders.end(job, now) else { return };
        let how = if exit == Exit::Code(0) { How::Completed } else { How::Failed };
        // The id may be another's by now.
        let is_it = |entry: &controller::Entry| entry.folder.as_ref() == Some(job);
        if site.is_up && site.controller.jobs.get(&id).is_some_and(is_it) {
            site.controller.over(id, how, now);
        }
        self.note(|_| format!("{job} at c{index} is over: {exit}"));
        self.pass(index);
    }
}

/// How long a job takes, and how it ends then.
fn length(planned: Option<&Planned>, walltime: u64) -> (u64, Exit) {
    let (percent, code) = planned.map_or((50, 0), |planned| (planned.percent, planned.code));
    match percent {
        101.. => (walltime, Exit::OverWalltime),
        _ => ((walltime * percent / 100).max(10), Exit::Code(code)),
    }
}
