//! What befalls an external batch system: other people's jobs, administrators, and outages.

use pliant_control::names::Handle;
use rand::Rng;

use super::controller::{self, Ask, How, Stage, Wish};
use super::{EARLIER, Moment};
use crate::faults::world::{World, WorldEvent};

/// How long an administrator holds a job back at most, in milliseconds.
const KEPT_FOR: u64 = 120_000;

impl World {
    pub(super) fn stranger_ends(&mut self, index: usize, id: u64) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) else { return };
        let is_due = |job: &controller::Entry| {
            job.folder.is_none()
                && matches!(job.stage, Stage::Runs { since, .. } if since + job.walltime <= now)
        };
        if site.controller.jobs.get(&id).is_some_and(is_due) {
            site.controller.over(id, How::Completed, now);
            self.pass(index);
        }
    }

    /// Somebody else submits a job, perhaps a held one, or one with a tag of an earlier journal.
    pub(super) fn stranger(&mut self, index: usize) {
        let now = self.queue.now();
        let most = self.sites[&index].controller.cores();
        let wish = Wish {
            number: self.rng.random_bool(0.2).then(|| EARLIER + self.rng.random_range(0..100)),
            folder: None,
            cores: self.rng.random_range(1..=most),
            walltime: self.rng.random_range(2_000..60_000),
            held: self.rng.random_bool(0.2),
            tentative: false,
        };
        let Some(site) = self.sites.get_mut(&index) else { return };
        let every = site.plan.stranger_every;
        if site.is_up {
            site.controller.submit(now, wish);
            self.pass(index);
        }
        self.next_fault(every, WorldEvent::Site(index, Moment::Stranger));
    }

    /// An administrator cancels a job of ours, or holds one back for a while.
    pub(super) fn admin(&mut self, index: usize) {
        let site = &self.sites[&index];
        let (every, is_up) = (site.plan.admin_every, site.is_up);
        let there = site.controller.jobs.iter().filter(|(_, job)| job.is_there());
        let ours: Vec<(u64, Handle)> =
            there.filter_map(|(id, job)| Some((*id, job.folder.clone()?))).collect();
        if is_up && !ours.is_empty() {
            let (id, folder) = ours[self.rng.random_range(0..ours.len())].clone();
            match self.rng.random_bool(0.5) {
                true => self.hold_back(index, id, &folder),
                false => self.cancel_of_others(index, id, &folder),
            }
        }
        self.next_fault(every, WorldEvent::Site(index, Moment::Admin));
    }

    /// A job of ours that waits for its turn does not start for a while, and is not to go anywhere.
    fn hold_back(&mut self, index: usize, id: u64, folder: &Handle) {
        let kept_for = self.rng.random_range(1_000..KEPT_FOR);
        let until = self.queue.now() + kept_for;
        let job = self.sites.get_mut(&index).and_then(|site| site.controller.jobs.get_mut(&id));
        if let Some(job) = job.filter(|job| job.stage == Stage::Pending) {
            job.kept_until = until;
            let what =
                format!("an administrator of c{index} holds {folder}, its job {id}, for {kept_for} ms");
            self.note(|_| what);
        }
    }

    fn cancel_of_others(&mut self, index: usize, id: u64, folder: &Handle) {
        let now = self.queue.now();
        self.note(|_| format!("an administrator of c{index} cancels {folder}, its job {id}"));
        if let Some(site) = self.sites.get_mut(&index) {
            site.controller.execute(now, &Ask::Cancel(id.to_string()));
        }
        self.checks.cancelled_by_others(folder);
        self.signals(index, id, folder);
        self.pass(index);
    }

    /// The controller hangs, or is killed.
    pub(super) fn outage(&mut self, index: usize) {
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
            self.after(length, WorldEvent::Site(index, Moment::Back));
        }
        let what = if hangs { "hangs" } else { "is killed" };
        self.note(|_| format!("the controller of c{index} {what} for {length} ms"));
        self.next_fault(every, WorldEvent::Site(index, Moment::Outage));
    }

    /// The controller is started again, as it was when it last saved its state. Nodes tell it what runs: what it does not
    /// know to run is killed, but for nodes that do not tell.
    pub(super) fn back(&mut self, index: usize) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.is_up = true;
        site.controller.begin_again();
        let runs = site.folders.running().map(|(job, id, _)| (job.clone(), id));
        let waits = site.rooms.waits.iter().map(|(id, wait)| (wait.folder.clone(), *id));
        let running: Vec<(Handle, u64)> = runs.chain(waits).collect();
        let mut orphans = Vec::new();
        for (job, id) in &running {
            let is_theirs = |entry: &controller::Entry| {
                entry.folder.as_ref() == Some(job) && matches!(entry.stage, Stage::Runs { .. })
            };
            if !site.controller.jobs.get(id).is_some_and(is_theirs) {
                orphans.push((job.clone(), *id));
            }
        }
        let known: Vec<u64> = site.controller.jobs.keys().copied().collect();
        let mut strangers = Vec::new();
        for id in known {
            let Some(entry) = site.controller.jobs.get(&id) else { continue };
            match (&entry.folder, &entry.stage) {
                (Some(folder), Stage::Runs { .. }) if !running.contains(&(folder.clone(), id)) => {
                    // It has ended meanwhile, or was never begun.
                    site.controller.over(id, How::Failed, now);
                }
                (None, Stage::Runs { since, .. }) => {
                    strangers.push((id, (since + entry.walltime).saturating_sub(now)));
                }
                _ => {}
            }
        }
        for (id, pause) in strangers {
            self.after(pause, WorldEvent::Site(index, Moment::StrangerEnds(id)));
        }
        self.note(|_| format!("the controller of c{index} is there again, without knowing of {orphans:?}"));
        for (job, id) in orphans {
            let Some(site) = self.sites.get_mut(&index).filter(|_| self.rng.random_bool(0.5)) else {
                continue;
            };
            if site.rooms.waits.remove(&id).is_none() {
                self.checks.killed(&job);
                site.folders.kill(&job);
            }
        }
        self.pass(index);
    }
}
