//! What users have used of a cluster lately: processor seconds, which halve in a half-life, a week unless another one is set.
//!
//! A running job counts with what it has used so far; what an ended one has used decays from its end on, in 168 steps
//! a half-life: hours of a week. Everything is counted in integers, so that a restored cluster ranks exactly like the one that was dumped.

use std::collections::BTreeMap;
use std::sync::Arc;

use pliant_model::{JobId, Owner, Procs, Span, Time};

use super::{Entitlement, PrioritySettings, UserPriority};

/// The steps of decay in a half-life.
const STEPS: i128 = 168;

/// What a step leaves: `2^(-1/168)`, with 64 bits behind the point.
const STEP: u64 = 18_370_791_886_079_017_691;

/// What is used is counted in this part of a processor second, so that decay has something to round.
const FRACTION: u128 = 1 << 10;

/// More than any cluster can do.
const USED_MAX: u128 = 1 << 63;

/// A running job that its user is charged for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Charge {
    /// The job.
    pub job: JobId,
    /// Its user.
    pub owner: Owner,
    /// The processors it holds.
    pub procs: Procs,
    /// Since when.
    pub start: Time,
}

/// What a user's ended jobs have used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UserUsage {
    /// The user.
    pub owner: Owner,
    /// Usage in 1/1024 processor seconds.
    pub used: u64,
    /// In which step of the decay that was last added up: the hour since 1970, with a half-life of a week.
    pub hour: i64,
}

/// What a queue order remembers, as data.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Shares {
    /// When the cluster was set up.
    pub since: Time,
    /// Usage of users, if the order depends on it.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub users: Vec<UserUsage>,
    /// The running jobs by ID, if the order depends on usage.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub running: Vec<Charge>,
    /// What the order is set by; none is the default.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub priority: Option<PrioritySettings>,
    /// The jobs to which operators have given a priority, by ID.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub by_operators: Vec<JobPriority>,
}

impl Shares {
    /// The same under other settings: what was used is kept, and decays with the new half-life from now on.
    #[must_use]
    pub fn under(mut self, now: Time, priority: &PrioritySettings) -> Shares {
        let before = self.priority.take().unwrap_or_default();
        if before.half_life != priority.half_life {
            for user in &mut self.users {
                let steps = step(now, before.half_life).saturating_sub(user.hour);
                user.used = decayed(user.used.into(), steps) as u64;
                user.hour = step(now, priority.half_life);
            }
        }
        self.priority = (*priority != PrioritySettings::default()).then(|| priority.clone());
        self
    }
}

/// The priority that an operator has given to a waiting job: the highest is served first, before all ranks. Others have 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobPriority {
    /// The job.
    pub job: JobId,
    /// Its priority.
    pub priority: i64,
}

/// What one user has used.
#[derive(Clone, Copy, Default, Debug)]
struct Account {
    /// By jobs that have ended, as of `step`.
    used: u128,
    step: i64,
    /// Processors of the running jobs.
    procs: i128,
    /// The sum over the running jobs of processors times start.
    started: i128,
}

impl Account {
    fn used_at(&self, now: Time, step: i64) -> u128 {
        let so_far = self.procs * i128::from(now.0) - self.started;
        decayed(self.used, step.saturating_sub(self.step)) + so_far.max(0) as u128 * FRACTION
    }
}

/// A group of users.
#[derive(Clone, Copy, Debug)]
struct Group {
    shares: u32,
    /// The shares together of its users who have used something, as last settled.
    active: u64,
    /// What its users have used, as last settled.
    used: u128,
}

/// What all users have used.
#[derive(Clone, Default, Debug)]
pub(in crate::batch) struct Usages {
    priority: Arc<PrioritySettings>,
    accounts: BTreeMap<Owner, Account>,
    running: BTreeMap<JobId, Charge>,
    groups: Vec<Group>,
    /// By all users, and the shares of those users and groups who have used something: as last settled.
    used_by_all: u128,
    shares_of_all: u64,
}

impl Usages {
    fn under(priority: PrioritySettings) -> Usages {
        let group = |shares: &u32| Group { shares: *shares, active: 0, used: 0 };
        let groups = priority.groups.iter().map(group).collect();
        Usages { groups, priority: Arc::new(priority), ..Usages::default() }
    }

    pub(super) fn priority(&self) -> &PrioritySettings {
        &self.priority
    }

    /// Sums up the usage of all users until now.
    pub(super) fn settle(&mut self, now: Time) {
        let step = step(now, self.priority.half_life);
        (self.used_by_all, self.shares_of_all) = (0, 0);
        self.groups.iter_mut().for_each(|group| (group.active, group.used) = (0, 0));
        for (owner, account) in &self.accounts {
            let used = account.used_at(now, step);
            if used == 0 {
                continue;
            }
            self.used_by_all += used;
            let UserPriority { shares, group, .. } = self.priority.of(*owner);
            match group.and_then(|group| self.groups.get_mut(group as usize)) {
                Some(group) => {
                    group.used += used;
                    group.active += u64::from(shares);
                }
                None => self.shares_of_all += u64::from(shares),
            }
        }
        let active = self.groups.iter().filter(|group| group.used > 0);
        self.shares_of_all += active.map(|group| u64::from(group.shares)).sum::<u64>();
    }

    /// What counts of a user, with the sums as last settled.
    pub(super) fn of(&self, owner: Owner, now: Time) -> Entitlement {
        let step = step(now, self.priority.half_life);
        let used = self.accounts.get(&owner).map_or(0, |account| account.used_at(now, step));
        let seconds = |used: u128| used as f64 / FRACTION as f64;
        let UserPriority { shares, group, bonus, .. } = self.priority.of(owner);
        let all = Entitlement {
            used: seconds(used),
            used_by_all: seconds(self.used_by_all),
            shares: f64::from(shares.max(1)),
            shares_of_all: self.shares_of_all.max(1) as f64,
            bonus,
        };
        let Some(group) = group.and_then(|group| self.groups.get(group as usize)) else { return all };
        // Users who have used nothing have no part of what the others divide.
        let own = if used == 0 { all.shares } else { 0.0 };
        let part = all.shares / (group.active as f64 + own).max(all.shares);
        let used = (all.used + seconds(group.used) * part) / 2.0;
        Entitlement { used, shares: f64::from(group.shares.max(1)) * part, ..all }
    }

    pub(super) fn start(&mut self, charge: Charge) {
        let account = self.accounts.entry(charge.owner).or_default();
        account.procs += i128::from(charge.procs.0);
        account.started += i128::from(charge.procs.0) * i128::from(charge.start.0);
        self.running.insert(charge.job, charge);
    }

    pub(super) fn finish(&mut self, now: Time, job: JobId) {
        let Some(Charge { owner, procs, start, .. }) = self.running.remove(&job) else { return };
        let step = step(now, self.priority.half_life);
        let account = self.accounts.entry(owner).or_default();
        account.procs -= i128::from(procs.0);
        account.started -= i128::from(procs.0) * i128::from(start.0);
        let ran = u128::from(procs.0) * (now - start).0.max(0) as u128 * FRACTION;
        account.used = (decayed(account.used, step.saturating_sub(account.step)) + ran).min(USED_MAX);
        account.step = step;
    }

    pub(super) fn dump(&self, since: Time) -> Shares {
        let used = |(owner, account): (&Owner, &Account)| {
            let Account { used, step, .. } = *account;
            (used > 0).then_some(UserUsage { owner: *owner, used: used as u64, hour: step })
        };
        let users = self.accounts.iter().filter_map(used).collect();
        let priority =
            (*self.priority != PrioritySettings::default()).then(|| PrioritySettings::clone(&self.priority));
        let running = self.running.values().copied().collect();
        Shares { since, users, running, priority, by_operators: Vec::new() }
    }

    pub(super) fn restored(shares: &Shares) -> Usages {
        let mut usages = Usages::under(shares.priority.clone().unwrap_or_default());
        for UserUsage { owner, used, hour } in &shares.users {
            let used = u128::from(*used).min(USED_MAX);
            usages.accounts.insert(*owner, Account { used, step: *hour, ..Account::default() });
        }
        shares.running.iter().for_each(|charge| usages.start(*charge));
        usages
    }
}

/// The step of the decay at a time; always the same one without a half-life.
fn step(at: Time, half_life: Option<Span>) -> i64 {
    let Some(Span(half_life)) = half_life else { return 0 };
    let steps = (i128::from(at.0) * STEPS).div_euclid(i128::from(half_life.max(1)));
    steps.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// Usage after so many steps of decay.
fn decayed(used: u128, steps: i64) -> u128 {
    let (mut left, mut factor) = (used, u128::from(STEP));
    // After this many nothing is left.
    let mut steps = steps.clamp(0, 1 << 14);
    while steps > 0 && left > 0 {
        if steps & 1 == 1 {
            left = (left * factor) >> 64;
        }
        factor = (factor * factor) >> 64;
        steps >>= 1;
    }
    left
}

#[cfg(test)]
mod tests;
