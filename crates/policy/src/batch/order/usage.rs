//! What users have used of a cluster lately: processor seconds, which halve every week.
//!
//! A running job counts with what it has used so far; what an ended one has used decays from its end on, by whole
//! hours. Everything is counted in integers, so that a restored cluster ranks exactly like the one that was dumped.

use std::collections::BTreeMap;

use pliant_model::{JobId, Owner, Procs, Time};

use super::Candidate;

/// What an hour leaves: `2^(-1/168)`, with 64 bits behind the point.
const HOURLY: u64 = 18_370_791_886_079_017_691;

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
    /// In which hour that was last added up.
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
    /// The jobs to which operators have given a priority, by ID.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub by_operators: Vec<JobPriority>,
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
    /// By jobs that have ended, as of `hour`.
    used: u128,
    hour: i64,
    /// Processors of the running jobs.
    procs: i128,
    /// The sum over the running jobs of processors times start.
    started: i128,
}

impl Account {
    fn used_at(&self, now: Time) -> u128 {
        let so_far = self.procs * i128::from(now.0) - self.started;
        decayed(self.used, hour(now).saturating_sub(self.hour)) + so_far.max(0) as u128 * FRACTION
    }
}

/// What all users have used.
#[derive(Clone, Default, Debug)]
pub(in crate::batch) struct Usages {
    accounts: BTreeMap<Owner, Account>,
    running: BTreeMap<JobId, Charge>,
    /// By all users, and how many have used something: as last settled.
    used_by_all: u128,
    users: u32,
}

impl Usages {
    /// Sums up the usage of all users until now.
    pub(super) fn settle(&mut self, now: Time) {
        let used = self.accounts.values().map(|account| account.used_at(now)).filter(|used| *used > 0);
        (self.used_by_all, self.users) = used.fold((0, 0), |(sum, users), used| (sum + used, users + 1));
    }

    /// The candidate with the usage of its user and of all users.
    pub(super) fn of(&self, owner: Owner, now: Time, job: Candidate) -> Candidate {
        let used = self.accounts.get(&owner).map_or(0, |account| account.used_at(now));
        let seconds = |used: u128| used as f64 / FRACTION as f64;
        Candidate {
            used: seconds(used),
            used_by_all: seconds(self.used_by_all),
            users: self.users.max(1),
            ..job
        }
    }

    pub(super) fn start(&mut self, charge: Charge) {
        let account = self.accounts.entry(charge.owner).or_default();
        account.procs += i128::from(charge.procs.0);
        account.started += i128::from(charge.procs.0) * i128::from(charge.start.0);
        self.running.insert(charge.job, charge);
    }

    pub(super) fn finish(&mut self, now: Time, job: JobId) {
        let Some(Charge { owner, procs, start, .. }) = self.running.remove(&job) else { return };
        let account = self.accounts.entry(owner).or_default();
        account.procs -= i128::from(procs.0);
        account.started -= i128::from(procs.0) * i128::from(start.0);
        let ran = u128::from(procs.0) * (now - start).0.max(0) as u128 * FRACTION;
        account.used = (decayed(account.used, hour(now).saturating_sub(account.hour)) + ran).min(USED_MAX);
        account.hour = hour(now);
    }

    pub(super) fn dump(&self, since: Time) -> Shares {
        let used = |(owner, account): (&Owner, &Account)| {
            let Account { used, hour, .. } = *account;
            (used > 0).then_some(UserUsage { owner: *owner, used: used as u64, hour })
        };
        let users = self.accounts.iter().filter_map(used).collect();
        let running = self.running.values().copied().collect();
        Shares { since, users, running, by_operators: Vec::new() }
    }

    pub(super) fn restored(shares: &Shares) -> Usages {
        let mut usages = Usages::default();
        for UserUsage { owner, used, hour } in &shares.users {
            let used = u128::from(*used).min(USED_MAX);
            usages.accounts.insert(*owner, Account { used, hour: *hour, ..Account::default() });
        }
        shares.running.iter().for_each(|charge| usages.start(*charge));
        usages
    }
}

fn hour(at: Time) -> i64 {
    at.0.div_euclid(3600)
}

/// Usage after so many hours of decay.
fn decayed(used: u128, hours: i64) -> u128 {
    let (mut left, mut factor) = (used, u128::from(HOURLY));
    // After this many nothing is left.
    let mut hours = hours.clamp(0, 1 << 14);
    while hours > 0 && left > 0 {
        if hours & 1 == 1 {
            left = (left * factor) >> 64;
        }
        factor = (factor * factor) >> 64;
        hours >>= 1;
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_halves_every_week() {
        let check = |hours: i64, expected: u128| {
            let found = decayed(1 << 50, hours);
            assert!(found.abs_diff(expected) <= 64, "{found} after {hours} hours, expected {expected}");
        };
        check(0, 1 << 50);
        check(168, 1 << 49);
        check(10 * 168, 1 << 40);
        check(50 * 168, 1);
        check(i64::MAX, 0);
        check(-5, 1 << 50);
    }

    #[test]
    fn running_jobs_count_with_what_they_have_used_so_far() {
        let (alice, job) = (Owner(1), JobId(4));
        let mut usages = Usages::default();
        usages.start(Charge { job, owner: alice, procs: Procs(3), start: Time(100) });
        let used = |usages: &Usages, at: i64| {
            usages.accounts.get(&alice).map_or(0, |account| account.used_at(Time(at)) / FRACTION)
        };
        assert_eq!((used(&usages, 100), used(&usages, 110)), (0, 30));
        usages.finish(Time(120), job);
        assert_eq!((used(&usages, 120), used(&usages, 130)), (60, 60), "within the hour");
        let decayed = used(&usages, 7 * 86_400);
        assert!((29..=30).contains(&decayed), "{decayed}");
        let again = Usages::restored(&usages.dump(Time::ZERO));
        assert_eq!(used(&again, 7 * 86_400), decayed);
    }
}
