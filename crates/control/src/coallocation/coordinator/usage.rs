//! What launches take up in the memory and the journal of an agent: bounded for each user and for all users together.
//!
//! Launches count until the agent forgets them, an hour after their end: as long as they are in memory.

use std::collections::BTreeMap;

use super::launch::Launch;
use crate::coallocation::{Application, TaskEdge};
use crate::names::User;

/// The most launches of one user, and their bytes.
const OF_USER_MAX: Usage = Usage { launches: 10_000, bytes: 64 << 20 };
/// The same of all users.
const OF_ALL_MAX: Usage = Usage { launches: 100_000, bytes: 1 << 30 };
/// What a launch or a task counts, at least: names, states and records.
const ENTRY_BYTES: u64 = 500;

/// Launches and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Usage {
    launches: u64,
    bytes: u64,
}

/// What the launches in memory take up.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct UsageByUser {
    users: BTreeMap<User, Usage>,
    all: Usage,
}

impl Usage {
    /// What a launch of an application takes up.
    pub(super) fn of(application: &Application) -> Usage {
        let programs: u64 = application.tasks.iter().map(|task| task.payload.bytes() as u64).sum();
        let entries = ENTRY_BYTES * (1 + application.tasks.len() as u64);
        let edges = (size_of::<TaskEdge>() * application.edges.len()) as u64;
        Usage { launches: 1, bytes: programs + entries + edges }
    }

    /// What an application takes up that tasks were added to, and its launch took up that before.
    pub(super) fn added(extended: &Application, before: &Application) -> Usage {
        let bytes = Usage::of(extended).bytes.saturating_sub(Usage::of(before).bytes);
        Usage { launches: 0, bytes }
    }

    fn with(self, other: Usage) -> Usage {
        Usage { launches: self.launches + other.launches, bytes: self.bytes + other.bytes }
    }

    fn without(self, other: Usage) -> Usage {
        let Usage { launches, bytes } = other;
        Usage { launches: self.launches.saturating_sub(launches), bytes: self.bytes.saturating_sub(bytes) }
    }

    /// What exceeds a limit, and the limit.
    fn beyond(self, most: Usage) -> Option<String> {
        let beyond = |found: u64, most: u64, what: &str| {
            (found > most).then(|| format!("{found} {what}, at most {most} are accepted"))
        };
        beyond(self.launches, most.launches, "launches")
            .or_else(|| beyond(self.bytes, most.bytes, "bytes of launches"))
    }
}

impl UsageByUser {
    /// That of these launches.
    pub(super) fn of<'a>(launches: impl IntoIterator<Item = &'a Launch>) -> UsageByUser {
        let mut usage = UsageByUser::default();
        for launch in launches {
            usage.add(&launch.owner, Usage::of(&launch.application));
        }
        usage
    }

    /// Checks that a user may have so much more.
    ///
    /// # Errors
    /// What would be too much, for the user.
    pub(super) fn check(&self, user: &User, more: Usage) -> Result<(), String> {
        let own = self.users.get(user).copied().unwrap_or_default();
        let refused = |whose: &str, beyond: String| {
            format!("{whose} would have {beyond}; launches count until an hour after their end")
        };
        if let Some(beyond) = own.with(more).beyond(OF_USER_MAX) {
            return Err(refused("this user", beyond));
        }
        match self.all.with(more).beyond(OF_ALL_MAX) {
            Some(beyond) => Err(refused("all users together", beyond)),
            None => Ok(()),
        }
    }

    /// Counts what a user has more.
    pub(super) fn add(&mut self, user: &User, more: Usage) {
        let own = self.users.entry(user.clone()).or_default();
        *own = own.with(more);
        self.all = self.all.with(more);
    }

    /// Counts a launch no more.
    pub(super) fn remove(&mut self, launch: &Launch) {
        let used = Usage::of(&launch.application);
        self.all = self.all.without(used);
        if let Some(own) = self.users.get_mut(&launch.owner) {
            *own = own.without(used);
            if own.launches == 0 {
                self.users.remove(&launch.owner);
            }
        }
    }
}
