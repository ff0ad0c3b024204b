//! How much is uploaded, and how much may be.

use std::collections::BTreeMap;

use pliant_control::names::{Key, User};
use pliant_model::Span;

use super::error::{QuotaKind, StagingError};
use super::names::FileName;

/// What a store takes. Announced sizes count, from the announcement until the submission adopts its files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of one file.
    pub per_file: u64,
    /// Bytes of one submission's files.
    pub per_job: u64,
    /// Files of one submission.
    pub files_per_job: usize,
    /// Bytes of one user's uploads.
    pub per_user: u64,
    /// Bytes of all uploads.
    pub total: u64,
    /// How long uploads may rest before they count as abandoned.
    pub unfinished_ttl: Span,
}

impl Default for Limits {
    /// 4 GiB a file, 16 GiB and 1000 files a submission, 64 GiB a user, 256 GiB together, a day of rest.
    fn default() -> Limits {
        const GIB: u64 = 1 << 30;
        Limits {
            per_file: 4 * GIB,
            per_job: 16 * GIB,
            files_per_job: 1000,
            per_user: 64 * GIB,
            total: 256 * GIB,
            unfinished_ttl: Span(86_400),
        }
    }
}

/// The least that a file counts, in bytes: what it takes on disk, so that empty files are not without bound.
const LEAST: u64 = 4096;

/// What is announced, of whom.
#[derive(Default, Debug)]
pub(crate) struct Usage {
    jobs: BTreeMap<(User, Key), BTreeMap<FileName, u64>>,
    users: BTreeMap<User, u64>,
    total: u64,
}

impl Usage {
    /// Counts a file, in the place of one of the same name; what that one counted. Nothing changes on an error.
    pub(crate) fn reserve(
        &mut self,
        job: &(User, Key),
        name: &FileName,
        size: u64,
        limits: &Limits,
    ) -> Result<Option<u64>, StagingError> {
        let refuse = |kind, allowed, found| Err(StagingError::Quota { kind, allowed, found });
        let counts = size.max(LEAST);
        let of_job = self.jobs.get(job);
        let before = of_job.and_then(|files| files.get(name)).copied();
        let others = |sum: u64| sum.saturating_sub(before.unwrap_or_default()).saturating_add(counts);
        let job_bytes = of_job.map_or(0, |files| files.values().sum());
        let job_files = of_job.map_or(0, BTreeMap::len) + usize::from(before.is_none());
        let user_bytes = self.users.get(&job.0).copied().unwrap_or_default();
        if size > limits.per_file {
            return refuse(QuotaKind::PerFile, limits.per_file, size);
        }
        if job_files > limits.files_per_job {
            return refuse(QuotaKind::FilesPerJob, limits.files_per_job as u64, job_files as u64);
        }
        for (kind, allowed, found) in [
            (QuotaKind::PerJob, limits.per_job, others(job_bytes)),
            (QuotaKind::PerUser, limits.per_user, others(user_bytes)),
            (QuotaKind::Total, limits.total, others(self.total)),
        ] {
            if found > allowed {
                return refuse(kind, allowed, found);
            }
        }
        self.set(job, name, Some(counts));
        Ok(before)
    }

    /// Counts a file as `counts` bytes, whatever the limits say; not at all if none.
    pub(crate) fn set(&mut self, job: &(User, Key), name: &FileName, counts: Option<u64>) {
        let files = self.jobs.entry(job.clone()).or_default();
        let before = match counts {
            Some(counts) => files.insert(name.clone(), counts),
            None => files.remove(name),
        };
        if files.is_empty() {
            self.jobs.remove(job);
        }
        let (before, now) = (before.unwrap_or_default(), counts.unwrap_or_default());
        let user = self.users.entry(job.0.clone()).or_default();
        // What was counted is subtracted: neither goes below 0.
        *user = *user - before + now;
        self.total = self.total - before + now;
        if *user == 0 {
            self.users.remove(&job.0);
        }
    }

    /// Counts a file that is there already: the limits may have been higher when it came.
    pub(crate) fn found(&mut self, job: &(User, Key), name: &FileName, size: u64) {
        self.set(job, name, Some(size.max(LEAST)));
    }

    /// Counts nothing of a submission any more.
    pub(crate) fn release(&mut self, job: &(User, Key)) {
        let names: Vec<FileName> = self.jobs.get(job).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        for name in names {
            self.set(job, &name, None);
        }
    }

    /// Bytes that count for a user.
    pub(crate) fn of_user(&self, user: &User) -> u64 {
        self.users.get(user).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        per_file: 50_000,
        per_job: 80_000,
        files_per_job: 3,
        per_user: 120_000,
        total: 200_000,
        unfinished_ttl: Span(1),
    };

    type Slow = BTreeMap<(u8, u8, u8), u64>;

    fn slow_fits(slow: &Slow) -> bool {
        let sum = |keep: &dyn Fn(&(u8, u8, u8)) -> bool| {
            slow.iter().filter(|(at, _)| keep(at)).map(|(_, size)| *size.max(&LEAST)).sum::<u64>()
        };
        let files = |user, key| slow.keys().filter(|at| (at.0, at.1) == (user, key)).count();
        slow.iter().all(|(at, size)| {
            *size <= LIMITS.per_file
                && files(at.0, at.1) <= LIMITS.files_per_job
                && sum(&|other| (other.0, other.1) == (at.0, at.1)) <= LIMITS.per_job
                && sum(&|other| other.0 == at.0) <= LIMITS.per_user
        }) && sum(&|_| true) <= LIMITS.total
    }

    proptest! {
        /// A plain table of all files, summed up anew each time, takes and refuses the same.
        #[test]
        fn what_is_taken_is_what_the_sums_allow(
            steps in prop::collection::vec((0..3u8, 0..2u8, 0..4u8, 0..60_000u64, 0..6u8), 1..60)
        ) {
            let (mut usage, mut slow) = (Usage::default(), Slow::new());
            for (user, key, file, size, what) in steps {
                let job = (format!("u{user}").parse::<User>().unwrap(), Key([key; 16]));
                if what == 0 {
                    usage.release(&job);
                    slow.retain(|at, _| (at.0, at.1) != (user, key));
                    continue;
                }
                let mut tried = slow.clone();
                tried.insert((user, key, file), size);
                let taken = usage.reserve(&job, &format!("f{file}").parse().unwrap(), size, &LIMITS);
                prop_assert_eq!(taken.is_ok(), slow_fits(&tried), "{:?}", taken);
                if taken.is_ok() {
                    slow = tried;
                }
            }
        }
    }
}
