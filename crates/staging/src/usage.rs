//! How much is uploaded, and how much may be.

use std::collections::BTreeMap;

use pliant_control::names::{Key, User};
use pliant_model::Span;

use super::error::{QuotaKind, StagingError};
use super::names::FileName;

/// What a store takes. Of a job and of a user announced sizes count, from the announcement until the submission adopts its files.
/// Of all uploads what has come counts: who announces and sends nothing takes no space from others.
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
    /// Bytes of all uploads that have come.
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

/// What counts for a file, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counted {
    announced: u64,
    received: u64,
}

impl Counted {
    /// A file of that size, of which so much has come.
    pub(crate) fn new(size: u64, received: u64) -> Counted {
        Counted { announced: size.max(LEAST), received: received.max(LEAST) }
    }
}

/// What is announced and what has come, of whom.
#[derive(Default, Debug)]
pub(crate) struct Usage {
    jobs: BTreeMap<(User, Key), BTreeMap<FileName, Counted>>,
    /// Announced bytes.
    users: BTreeMap<User, u64>,
    /// Bytes that have come.
    total: u64,
}

impl Usage {
    /// Counts a file of which nothing more has come, in the place of one of the same name; what that one counted. Nothing changes on
    /// an error.
    pub(crate) fn reserve(
        &mut self,
        job: &(User, Key),
        name: &FileName,
        size: u64,
        limits: &Limits,
    ) -> Result<Option<Counted>, StagingError> {
        let of_job = self.jobs.get(job);
        let before = of_job.and_then(|files| files.get(name)).copied();
        let counted = Counted::new(size, before.unwrap_or_default().received.min(size));
        let Counted { announced, received } = before.unwrap_or_default();
        let others = |sum: u64| (sum - announced).saturating_add(counted.announced);
        let job_bytes = of_job.map_or(0, |files| files.values().map(|file| file.announced).sum());
        let job_files = of_job.map_or(0, BTreeMap::len) + usize::from(before.is_none());
        let user_bytes = self.users.get(&job.0).copied().unwrap_or_default();
        if job_files > limits.files_per_job {
            return refused(QuotaKind::FilesPerJob, limits.files_per_job as u64, job_files as u64);
        }
        for (kind, allowed, found) in [
            (QuotaKind::PerFile, limits.per_file, size),
            (QuotaKind::PerJob, limits.per_job, others(job_bytes)),
            (QuotaKind::PerUser, limits.per_user, others(user_bytes)),
            (QuotaKind::Total, limits.total, self.total - received + counted.received),
        ] {
            if found > allowed {
                return refused(kind, allowed, found);
            }
        }
        self.set(job, name, Some(counted));
        Ok(before)
    }

    /// Counts that so much of a file has come. Nothing changes on an error.
    pub(crate) fn receive(
        &mut self,
        job: &(User, Key),
        name: &FileName,
        length: u64,
        limits: &Limits,
    ) -> Result<(), StagingError> {
        let Some(before) = self.jobs.get(job).and_then(|files| files.get(name)).copied() else {
            return Ok(());
        };
        let counted = Counted { received: length.max(LEAST), ..before };
        let found = self.total - before.received + counted.received;
        if counted.received > before.received && found > limits.total {
            return refused(QuotaKind::Total, limits.total, found);
        }
        self.set(job, name, Some(counted));
        Ok(())
    }

    /// Counts a file, whatever the limits say: they may have been higher when it came. Not at all if none.
    pub(crate) fn set(&mut self, job: &(User, Key), name: &FileName, counted: Option<Counted>) {
        let files = self.jobs.entry(job.clone()).or_default();
        let before = match counted {
            Some(counted) => files.insert(name.clone(), counted),
            None => files.remove(name),
        };
        if files.is_empty() {
            self.jobs.remove(job);
        }
        let (before, now) = (before.unwrap_or_default(), counted.unwrap_or_default());
        let user = self.users.entry(job.0.clone()).or_default();
        // What was counted is subtracted: neither goes below 0.
        *user = *user - before.announced + now.announced;
        self.total = self.total - before.received + now.received;
        if *user == 0 {
            self.users.remove(&job.0);
        }
    }

    /// Counts nothing of a submission any more.
    pub(crate) fn release(&mut self, job: &(User, Key)) {
        let names: Vec<FileName> = self.jobs.get(job).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        for name in names {
            self.set(job, &name, None);
        }
    }

    /// Announced bytes that count for a user.
    pub(crate) fn of_user(&self, user: &User) -> u64 {
        self.users.get(user).copied().unwrap_or_default()
    }
}

fn refused<T>(kind: QuotaKind, allowed: u64, found: u64) -> Result<T, StagingError> {
    Err(StagingError::Quota { kind, allowed, found })
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

    /// The size and what has come of each file.
    type Slow = BTreeMap<(u8, u8, u8), (u64, u64)>;

    fn slow_fits(slow: &Slow) -> bool {
        let sum = |keep: &dyn Fn(&(u8, u8, u8)) -> bool| {
            slow.iter().filter(|(at, _)| keep(at)).map(|(_, (size, _))| *size.max(&LEAST)).sum::<u64>()
        };
        let files = |user, key| slow.keys().filter(|at| (at.0, at.1) == (user, key)).count();
        let received: u64 = slow.values().map(|(_, received)| *received.max(&LEAST)).sum();
        slow.iter().all(|(at, (size, _))| {
            *size <= LIMITS.per_file
                && files(at.0, at.1) <= LIMITS.files_per_job
                && sum(&|other| (other.0, other.1) == (at.0, at.1)) <= LIMITS.per_job
                && sum(&|other| other.0 == at.0) <= LIMITS.per_user
        }) && received <= LIMITS.total
    }

    proptest! {
        /// A plain table of all files, summed up anew each time, takes and refuses the same.
        #[test]
        fn what_is_taken_is_what_the_sums_allow(
            steps in prop::collection::vec((0..3u8, 0..2u8, 0..4u8, 0..60_000u64, 0..8u8), 1..80)
        ) {
            let (mut usage, mut slow) = (Usage::default(), Slow::new());
            for (user, key, file, size, what) in steps {
                let job = (format!("u{user}").parse::<User>().unwrap(), Key([key; 16]));
                let (at, name) = ((user, key, file), format!("f{file}").parse().unwrap());
                let mut tried = slow.clone();
                let taken = match what {
                    0 => {
                        usage.release(&job);
                        slow.retain(|at, _| (at.0, at.1) != (user, key));
                        continue;
                    }
                    1..=3 => {
                        let Some(found) = tried.get_mut(&at) else { continue };
                        found.1 = found.1.max(size.min(found.0));
                        usage.receive(&job, &name, found.1, &LIMITS)
                    }
                    _ => {
                        let received = slow.get(&at).map_or(0, |found| found.1.min(size));
                        tried.insert(at, (size, received));
                        usage.reserve(&job, &name, size, &LIMITS).map(drop)
                    }
                };
                prop_assert_eq!(taken.is_ok(), slow_fits(&tried), "{:?}", taken);
                if taken.is_ok() {
                    slow = tried;
                }
            }
        }
    }
}
