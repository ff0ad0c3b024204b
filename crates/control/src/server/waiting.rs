//! What waits at a server: jobs, and the bytes of their names and of what they run. Both are bounded. Subjobs of launches are not counted.
//!
//! Counts are kept up to date with each change. A prepared job of another server has bytes too, but is no job of this one.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{AdmissionRefusal, Server, ServerJob};
use crate::handoff::Handoff;
use crate::job::JobState;
use crate::names::{Name, User};
use crate::payload::Payload;

/// The bounds of what waits at a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WaitingLimits {
    /// The most waiting jobs of one user.
    pub jobs_per_user: u32,
    /// The most bytes of one user's waiting jobs.
    pub bytes_per_user: u64,
    /// The most bytes of all waiting jobs.
    pub bytes: u64,
}

impl WaitingLimits {
    /// So many jobs of each user, of any size.
    pub fn of_jobs(jobs_per_user: u32) -> WaitingLimits {
        WaitingLimits { jobs_per_user, bytes_per_user: u64::MAX, bytes: u64::MAX }
    }
}

/// What a user has waiting.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct UserUsage {
    jobs: u32,
    /// Bytes of these jobs, and of prepared ones.
    bytes: u64,
}

/// What a user has waiting at a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingOfUser {
    /// The user.
    pub user: User,
    /// The number of waiting jobs.
    pub jobs: u32,
    /// Bytes of these jobs, and of those that are prepared here for other servers.
    pub bytes: u64,
}

/// What waits at a server.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Waiting {
    users: FxHashMap<User, UserUsage>,
    bytes: u64,
}

impl Waiting {
    /// Counts what waits by a pass over all jobs of the server `own`: for a recovery.
    pub(super) fn of<'a>(
        own: &Name,
        jobs: impl Iterator<Item = &'a ServerJob>,
        prepared: impl Iterator<Item = &'a Handoff>,
    ) -> Waiting {
        let mut waiting = Waiting::default();
        jobs.filter(|entry| entry.record.server() == own).for_each(|entry| waiting.add_job(entry));
        prepared.for_each(|handoff| waiting.add_prepared(handoff));
        waiting
    }

    /// Counts a job in if it waits.
    pub(super) fn add_job(&mut self, entry: &ServerJob) {
        if entry.record.state == JobState::Queued {
            self.add(&entry.record.owner, 1, bytes_of_job(entry));
        }
    }

    /// Counts a job out that starts or leaves, if it waits.
    pub(super) fn remove_job(&mut self, entry: &ServerJob) {
        if entry.record.state == JobState::Queued {
            self.remove(&entry.record.owner, 1, bytes_of_job(entry));
        }
    }

    /// Counts a job in that was prepared for another server.
    pub(super) fn add_prepared(&mut self, handoff: &Handoff) {
        self.add(&handoff.owner, 0, bytes_of_handoff(handoff));
    }

    /// Counts a prepared job out.
    pub(super) fn remove_prepared(&mut self, handoff: &Handoff) {
        self.remove(&handoff.owner, 0, bytes_of_handoff(handoff));
    }

    /// The number of a user's waiting jobs.
    pub(super) fn jobs_of(&self, user: &User) -> u32 {
        self.users.get(user).map_or(0, |usage| usage.jobs)
    }

    fn bytes_of(&self, user: &User) -> u64 {
        self.users.get(user).map_or(0, |usage| usage.bytes)
    }

    fn add(&mut self, user: &User, jobs: u32, bytes: u64) {
        let usage = self.users.entry(user.clone()).or_default();
        usage.jobs += jobs;
        usage.bytes += bytes;
        self.bytes += bytes;
    }

    fn remove(&mut self, user: &User, jobs: u32, bytes: u64) {
        let Some(usage) = self.users.get_mut(user) else { return };
        usage.jobs -= jobs;
        usage.bytes -= bytes;
        self.bytes -= bytes;
        if *usage == UserUsage::default() {
            self.users.remove(user);
        }
    }
}

/// The bytes of what a user writes in a job: what it runs, with its arguments and files, and its name.
pub(super) fn bytes_of(name: &str, payload: &Payload) -> u64 {
    (name.len() + payload.bytes()) as u64
}

fn bytes_of_job(entry: &ServerJob) -> u64 {
    bytes_of(&entry.record.name, &entry.payload)
}

pub(super) fn bytes_of_handoff(handoff: &Handoff) -> u64 {
    bytes_of(&handoff.name, &handoff.payload)
}

impl Server {
    /// Checks that one more job of so many bytes may wait, and that its owner is not banned, which is final.
    pub(super) fn check_waiting(&self, owner: &User, bytes: u64) -> Result<(), AdmissionRefusal> {
        if let Some(reason) = self.refuses(owner) {
            return Err(AdmissionRefusal::Other(reason));
        }
        let waiting_bytes = self.waiting.bytes_of(owner).saturating_add(bytes);
        self.check_user_limits(owner, self.waiting.jobs_of(owner).saturating_add(1), waiting_bytes)?;
        let WaitingLimits { jobs_per_user, bytes_per_user, bytes: bytes_max } = self.config.waiting;
        if self.waiting.jobs_of(owner) >= jobs_per_user {
            return Err(AdmissionRefusal::TooMany { limit: jobs_per_user });
        }
        if waiting_bytes > bytes_per_user {
            return Err(AdmissionRefusal::TooManyBytes { needed: waiting_bytes, limit: bytes_per_user });
        }
        let needed = self.waiting.bytes.saturating_add(bytes);
        if needed > bytes_max {
            return Err(AdmissionRefusal::QueueFull { needed, limit: bytes_max });
        }
        Ok(())
    }

    /// The bounds of what waits. An [`Event::WaitingLimits`](super::Event::WaitingLimits) changes them.
    pub fn waiting_limits(&self) -> WaitingLimits {
        self.config.waiting
    }

    /// Number of a user's waiting jobs.
    pub fn waiting_of(&self, owner: &User) -> usize {
        self.waiting.jobs_of(owner) as usize
    }

    /// The bytes of a user's waiting jobs, and of those that are prepared here for other servers.
    pub fn waiting_bytes_of(&self, owner: &User) -> u64 {
        self.waiting.bytes_of(owner)
    }

    /// What each user with waiting or prepared jobs has waiting, in no order.
    pub fn waiting_by_user(&self) -> impl Iterator<Item = WaitingOfUser> {
        let of = |(user, usage): (&User, &UserUsage)| WaitingOfUser {
            user: user.clone(),
            jobs: usage.jobs,
            bytes: usage.bytes,
        };
        self.waiting.users.iter().map(of)
    }

    /// The bytes of all waiting jobs, and of those that are prepared here for other servers.
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting.bytes
    }

    /// The same by a pass over all jobs: for tests.
    #[cfg(test)]
    pub(super) fn counted_waiting(&self) -> Waiting {
        Waiting::of(&self.config.name, self.jobs.values(), self.prepared())
    }
}
