//! How much is uploaded, and how much may be.

use std::collections::BTreeMap;

use pliant_control::names::User;
use pliant_model::Span;

use super::error::{QuotaKind, StagingError};
use super::names::FileName;
use super::upload_set::{Sender, UploadSet};

/// What a store takes. Of a submission and of a user announced sizes count, from the announcement until the submission adopts its
/// files ([`Store::keep`](crate::Store::keep) has them count longer), and for each sender apart: what a server sends for a user takes nothing from what the user may send.
/// Of all uploads what has come counts: who announces and sends nothing takes no space from others. Servers may take half of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of one file.
    pub per_file: u64,
    /// Bytes of one submission's files, of one sender.
    pub per_job: u64,
    /// Files of one submission, of one sender.
    pub files_per_job: usize,
    /// Bytes of one user's uploads, of one sender.
    pub per_user: u64,
    /// Bytes of all uploads that have come. At most half of them have come from servers.
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
        Counted { announced: counted_bytes(size), received: counted_bytes(received) }
    }
}

/// The bytes that a file of that size counts for the limits of uploads.
pub fn counted_bytes(size: u64) -> u64 {
    size.max(LEAST)
}

/// What is announced and what has come, of whom.
#[derive(Default, Debug)]
pub(crate) struct Usage {
    sets: BTreeMap<UploadSet, BTreeMap<FileName, Counted>>,
    /// Files that were adopted and still count, in bytes.
    kept: BTreeMap<UploadSet, u64>,
    /// Announced bytes of a user's uploads by a sender, with those of files that were adopted and still count.
    users: BTreeMap<(User, Sender), u64>,
    /// Bytes that have come, from users and servers, with those of files that were adopted and still count.
    total: u64,
    /// Bytes that have come from servers.
    from_servers: u64,
}

impl Usage {
    /// Counts a file of which nothing more has come, in the place of one of the same name; what that one counted. Nothing changes on
    /// an error.
    pub(crate) fn reserve(
        &mut self,
        of: &UploadSet,
        name: &FileName,
        size: u64,
        limits: &Limits,
    ) -> Result<Option<Counted>, StagingError> {
        let of_set = self.sets.get(of);
        let before = of_set.and_then(|files| files.get(name)).copied();
        let counted = Counted::new(size, before.unwrap_or_default().received.min(size));
        let Counted { announced, received } = before.unwrap_or_default();
        let others = |sum: u64| (sum - announced).saturating_add(counted.announced);
        let set_bytes = of_set.map_or(0, |files| files.values().map(|file| file.announced).sum());
        let set_files = of_set.map_or(0, BTreeMap::len) + usize::from(before.is_none());
        let user_bytes = self.of_user(&of.user, &of.sender);
        if set_files > limits.files_per_job {
            return refused(QuotaKind::FilesPerJob, limits.files_per_job as u64, set_files as u64);
        }
        for (kind, allowed, found) in [
            (QuotaKind::PerFile, limits.per_file, size),
            (QuotaKind::PerJob, limits.per_job, others(set_bytes)),
            (QuotaKind::PerUser, limits.per_user, others(user_bytes)),
        ] {
            if found > allowed {
                return refused(kind, allowed, found);
            }
        }
        self.check_total(&of.sender, (received, counted.received), limits)?;
        self.set(of, name, Some(counted));
        Ok(before)
    }

    /// Counts that so much of a file has come. Nothing changes on an error.
    pub(crate) fn receive(
        &mut self,
        of: &UploadSet,
        name: &FileName,
        length: u64,
        limits: &Limits,
    ) -> Result<(), StagingError> {
        let Some(before) = self.sets.get(of).and_then(|files| files.get(name)).copied() else {
            return Ok(());
        };
        let counted = Counted { received: length.max(LEAST), ..before };
        if counted.received > before.received {
            self.check_total(&of.sender, (before.received, counted.received), limits)?;
        }
        self.set(of, name, Some(counted));
        Ok(())
    }

    /// Checks that a file of that sender may count so much, in the place of so much before.
    fn check_total(
        &self,
        sender: &Sender,
        (before, now): (u64, u64),
        limits: &Limits,
    ) -> Result<(), StagingError> {
        let total = (QuotaKind::Total, limits.total, self.total);
        let from_servers = (QuotaKind::FromServers, limits.total / 2, self.from_servers);
        let is_server = matches!(sender, Sender::Server(_));
        for (kind, allowed, sum) in [Some(total), is_server.then_some(from_servers)].into_iter().flatten() {
            let found = sum - before + now;
            if found > allowed {
                return refused(kind, allowed, found);
            }
        }
        Ok(())
    }

    /// Counts a file, whatever the limits say: they may have been higher when it came. Not at all if none.
    pub(crate) fn set(&mut self, of: &UploadSet, name: &FileName, counted: Option<Counted>) {
        let files = self.sets.entry(of.clone()).or_default();
        let before = match counted {
            Some(counted) => files.insert(name.clone(), counted),
            None => files.remove(name),
        };
        if files.is_empty() {
            self.sets.remove(of);
        }
        self.change(of, before.unwrap_or_default(), counted.unwrap_or_default());
    }

    /// Counts so many bytes of a set that was adopted, in the place of those before, whatever the limits say.
    pub(crate) fn keep(&mut self, of: &UploadSet, bytes: u64) {
        let before = match bytes {
            0 => self.kept.remove(of),
            bytes => self.kept.insert(of.clone(), bytes),
        };
        let [before, now] = [before.unwrap_or_default(), bytes];
        let counted = |bytes| Counted { announced: bytes, received: bytes };
        self.change(of, counted(before), counted(now));
    }

    /// The bytes of a set that was adopted and still count.
    pub(crate) fn kept_by(&self, of: &UploadSet) -> u64 {
        self.kept.get(of).copied().unwrap_or_default()
    }

    /// What was adopted and still counts.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &UploadSet> {
        self.kept.keys()
    }

    /// Adds to the sums what counts now in the place of what counted before.
    fn change(&mut self, of: &UploadSet, before: Counted, now: Counted) {
        let whose = (of.user.clone(), of.sender.clone());
        let user = self.users.entry(whose.clone()).or_default();
        // What was counted is subtracted: none goes below 0.
        *user = *user - before.announced + now.announced;
        if *user == 0 {
            self.users.remove(&whose);
        }
        self.total = self.total - before.received + now.received;
        if let Sender::Server(_) = of.sender {
            self.from_servers = self.from_servers - before.received + now.received;
        }
    }

    /// Counts nothing of a set any more.
    pub(crate) fn release(&mut self, of: &UploadSet) {
        let names: Vec<FileName> = self.sets.get(of).into_iter().flat_map(BTreeMap::keys).cloned().collect();
        for name in names {
            self.set(of, &name, None);
        }
    }

    /// Announced bytes that count for a user's uploads by a sender.
    pub(crate) fn of_user(&self, user: &User, sender: &Sender) -> u64 {
        self.users.get(&(user.clone(), sender.clone())).copied().unwrap_or_default()
    }
}

fn refused<T>(kind: QuotaKind, allowed: u64, found: u64) -> Result<T, StagingError> {
    Err(StagingError::Quota { kind, allowed, found })
}

#[cfg(test)]
mod tests {
    use pliant_control::names::Key;
    use proptest::prelude::*;

    use super::*;

    const LIMITS: Limits = Limits {
        per_file: 50_000,
        per_job: 80_000,
        files_per_job: 3,
        per_user: 120_000,
        total: 200_000,
        unfinished_ttl: Span(1),
    };

    /// User, key, sender and name of a file.
    type Place = (u8, u8, u8, u8);
    /// The size and what has come of each file.
    type Slow = BTreeMap<Place, (u64, u64)>;

    fn slow_fits(slow: &Slow) -> bool {
        let sum = |keep: &dyn Fn(&Place) -> bool| {
            slow.iter().filter(|(at, _)| keep(at)).map(|(_, (size, _))| *size.max(&LEAST)).sum::<u64>()
        };
        let received = |keep: &dyn Fn(&Place) -> bool| {
            slow.iter()
                .filter(|(at, _)| keep(at))
                .map(|(_, (_, received))| *received.max(&LEAST))
                .sum::<u64>()
        };
        let of = |at: &Place| (at.0, at.1, at.2);
        let files = |set| slow.keys().filter(|at| of(at) == set).count();
        slow.iter().all(|(at, (size, _))| {
            *size <= LIMITS.per_file
                && files(of(at)) <= LIMITS.files_per_job
                && sum(&|other| of(other) == of(at)) <= LIMITS.per_job
                && sum(&|other| (other.0, other.2) == (at.0, at.2)) <= LIMITS.per_user
        }) && received(&|_| true) <= LIMITS.total
            && received(&|at| at.2 > 0) <= LIMITS.total / 2
    }

    fn set_of((user, key, sender, _): Place) -> UploadSet {
        let (user, key) = (format!("u{user}").parse().unwrap(), Key([key; 16]));
        match sender {
            0 => UploadSet::of_owner(user, key),
            server => UploadSet::of_server(user, key, format!("s{server}").parse().unwrap()),
        }
    }

    proptest! {
        /// A plain table of all files, summed up anew each time, takes and refuses the same.
        #[test]
        fn what_is_taken_is_what_the_sums_allow(
            steps in prop::collection::vec(((0..3u8, 0..2u8, 0..3u8, 0..4u8), 0..60_000u64, 0..8u8), 1..80)
        ) {
            let (mut usage, mut slow) = (Usage::default(), Slow::new());
            for (at, size, what) in steps {
                let (set, name) = (set_of(at), format!("f{}", at.3).parse().unwrap());
                let mut tried = slow.clone();
                let taken = match what {
                    0 => {
                        usage.release(&set);
                        slow.retain(|other, _| (other.0, other.1, other.2) != (at.0, at.1, at.2));
                        continue;
                    }
                    1..=3 => {
                        let Some(found) = tried.get_mut(&at) else { continue };
                        found.1 = found.1.max(size.min(found.0));
                        usage.receive(&set, &name, found.1, &LIMITS)
                    }
                    _ => {
                        let received = slow.get(&at).map_or(0, |found| found.1.min(size));
                        tried.insert(at, (size, received));
                        usage.reserve(&set, &name, size, &LIMITS).map(drop)
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
