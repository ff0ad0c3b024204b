//! The rooms of tentative jobs: supervisors wait there to be told whether they may go on. They outlive the server and the
//! batch system.

use std::collections::BTreeMap;

use pliant_control::names::Handle;

use super::Moment;
use super::controller::{How, Stage};
use crate::faults::world::{World, WorldEvent};

/// How long a supervisor waits, and how often it looks, in milliseconds.
const WAITS: u64 = 25_000;
const LOOKS_EVERY: u64 = 500;

/// A supervisor that waits.
pub(super) struct Wait {
    number: u32,
    pub(super) folder: Handle,
    walltime: u64,
    /// When the batch system started it.
    since: u64,
    until: u64,
}

/// All rooms of a cluster.
#[derive(Default)]
pub(super) struct Rooms {
    /// What was decided: whether to go on.
    decided: BTreeMap<u32, bool>,
    /// Those who wait, by which job of the queue they are.
    pub(super) waits: BTreeMap<u64, Wait>,
}

impl Rooms {
    /// Decides, unless that was done before: returns what is decided.
    pub(super) fn decide(&mut self, number: u32, goes_on: bool) -> bool {
        *self.decided.entry(number).or_insert(goes_on)
    }

    /// Nobody who comes to it goes on from now on.
    pub(super) fn remove(&mut self, number: u32) {
        self.decided.insert(number, false);
    }

    /// The batch system signals who waits as that job of the queue.
    pub(super) fn signal(&mut self, id: u64, folder: &Handle) {
        if self.waits.get(&id).is_some_and(|wait| wait.folder == *folder) {
            self.waits.remove(&id);
        }
    }
}

impl World {
    /// The supervisor of a tentative job begins to wait.
    pub(super) fn waits(
        &mut self,
        index: usize,
        id: u64,
        (number, folder): (u32, Handle),
        walltime: u64,
        since: u64,
    ) {
        let until = self.queue.now() + WAITS;
        self.note(|_| format!("a supervisor of c{index} waits for word about {folder}, as {id}"));
        let Some(site) = self.sites.get_mut(&index) else { return };
        site.rooms.waits.insert(id, Wait { number, folder, walltime, since, until });
        self.room(index, id, since);
    }

    /// One that waits looks whether something is decided.
    pub(super) fn room(&mut self, index: usize, id: u64, since: u64) {
        let now = self.queue.now();
        let Some(site) = self.sites.get_mut(&index) else { return };
        let Some(wait) = site.rooms.waits.get(&id).filter(|wait| wait.since == since) else { return };
        let (number, is_over) = (wait.number, wait.until <= now);
        let decided = match site.rooms.decided.get(&number) {
            None if !is_over => {
                return self.after(LOOKS_EVERY, WorldEvent::Site(index, Moment::Room { id, since }));
            }
            None => site.rooms.decide(number, false),
            Some(decided) => *decided,
        };
        let Some(Wait { folder, walltime, .. }) = site.rooms.waits.remove(&id) else { return };
        if decided {
            return self.node_claims(index, id, &folder, walltime);
        }
        self.note(|_| format!("a supervisor of c{index} gives {folder} up, as {id}"));
        if let Some(site) = self.sites.get_mut(&index).filter(|site| site.is_up) {
            let is_it = |stage: &Stage| matches!(stage, Stage::Runs { since: began, .. } if *began == since);
            if site.controller.jobs.get(&id).is_some_and(|job| is_it(&job.stage)) {
                site.controller.over(id, How::Completed, now);
            }
        }
        self.pass(index);
    }
}
