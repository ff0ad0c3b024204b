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
///
/// Files count from their announcement until they are adopted or removed, since a file that never comes takes inodes and memory, too. As
/// each set has a file, this bounds sets as well. A sender with more files than one submission may have gets none of the last half of
/// all, so that a few who announce files and send nothing leave half to others.
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
    /// Files of one user's uploads, of one sender.
    pub files_per_user: usize,
    /// Bytes of all uploads that have come. At most half of them have come from servers.
    pub total: u64,
    /// Files of all uploads. At most half of them are of servers, and a sender with more than `files_per_job` adds one to the first
    /// half only.
    pub files: usize,
    /// How long uploads may rest before they count as abandoned.
    pub unfinished_ttl: Span,
}

impl Default for Limits {
    /// 4 GiB a file, 16 GiB and 1000 files a submission, 64 GiB and 50,000 files a user, 256 GiB and 500,000 files together, a day of rest.
    fn default() -> Limits {
        const GIB: u64 = 1 << 30;
        Limits {
            per_file: 4 * GIB,
            per_job: 16 * GIB,
            files_per_job: 1000,
            per_user: 64 * GIB,
            files_per_user: FILES_PER_USER,
            total: 256 * GIB,
            files: FILES,
            unfinished_ttl: Span(86_400),
        }
    }
}

/// Files of a user that were announced, or whose job waits: some for each of the jobs that may wait. Announced, they take 150,000 inodes.
const FILES_PER_USER: usize = 50_000;

/// Files of all users. Announced, they take 1,500,000 inodes and about 2 GB of memory.
const FILES: usize = 500_000;

/// The least that a file counts, in bytes: a block each for the folder of its set, its announcement and its first piece, and its inodes.
/// Empty files are so not without bound.
const LEAST: u64 = 16 << 10;

/// What counts for a file, or for several.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counted {
    /// Bytes that were announced.
    announced: u64,
    /// Bytes that have come.
    received: u64,
    /// Files, until their job starts.
    files: usize,
}

impl Counted {
    /// A file of that size, of which so much has come.
    pub(crate) fn new(size: u64, received: u64) -> Counted {
        Counted { announced: counted_bytes(size), received: counted_bytes(received), files: 1 }
    }

    /// Adds what counts now in the place of what counted before.
    fn change(&mut self, before: Counted, now: Counted) {
        // What was counted is subtracted: none goes below 0.
        self.announced = self.announced - before.announced + now.announced;
        self.received = self.received - before.received + now.received;
        self.files = self.files - before.files + now.files;
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
    /// A user's uploads by a sender, with the bytes of files that were adopted and still count.
    users: BTreeMap<(User, Sender), Counted>,
    /// Those of users and servers, with the bytes of files that were adopted and still count.
    total: Counted,
    /// Those of servers.
    from_servers: Counted,
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
        let Counted { announced, received, .. } = before.unwrap_or_default();
        let others = |sum: u64| (sum - announced).saturating_add(counted.announced);
        let set_bytes = of_set.map_or(0, |files| files.values().map(|file| file.announced).sum());
        let set_files = of_set.map_or(0, BTreeMap::len) + usize::from(before.is_none());
        let user_bytes = self.of_user(&of.user, &of.sender);
        if set_files > limits.files_per_job {
            return refused(QuotaKind::FilesPerJob, limits.files_per_job as u64, set_files as u64);
        }
        if before.is_none() {
            self.check_files(of, limits)?;
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
        let counted = Counted { received: counted_bytes(length), ..before };
        if counted.received > before.received {
            self.check_total(&of.sender, (before.received, counted.received), limits)?;
        }
        self.set(of, name, Some(counted));
        Ok(())
    }

    /// Checks that a set may have one more file.
    fn check_files(&self, of: &UploadSet, limits: &Limits) -> Result<(), StagingError> {
        let user_files = self.counted_of(&of.user, &of.sender).files + 1;
        let has_many = user_files > limits.files_per_job;
        let of_user = (QuotaKind::FilesPerUser, limits.files_per_user, user_files);
        let files_max = if has_many { limits.files / 2 } else { limits.files };
        let total = (QuotaKind::Files, files_max, self.total.files + 1);
        let from_servers = (QuotaKind::FilesFromServers, limits.files / 2, self.from_servers.files + 1);
        let is_server = matches!(of.sender, Sender::Server(_));
        let bounds = [Some(of_user), Some(total), is_server.then_some(from_servers)];
        for (kind, allowed, found) in bounds.into_iter().flatten() {
            if found > allowed {
                return refused(kind, allowed as u64, found as u64);
            }
        }
        Ok(())
    }

    /// Checks that a file of that sender may count so much, in the place of so much before.
    fn check_total(
        &self,
        sender: &Sender,
        (before, now): (u64, u64),
        limits: &Limits,
    ) -> Result<(), StagingError> {
        let total = (QuotaKind::Total, limits.total, self.total.received);
        let from_servers = (QuotaKind::FromServers, limits.total / 2, self.from_servers.received);
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
        let counted = |bytes| Counted { announced: bytes, received: bytes, files: 0 };
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
        user.change(before, now);
        if *user == Counted::default() {
            self.users.remove(&whose);
        }
        self.total.change(before, now);
        if let Sender::Server(_) = of.sender {
            self.from_servers.change(before, now);
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
        self.counted_of(user, sender).announced
    }

    /// What counts for a user's uploads by a sender.
    fn counted_of(&self, user: &User, sender: &Sender) -> Counted {
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
        files_per_user: 5,
        total: 300_000,
        files: 12,
        unfinished_ttl: Span(1),
    };

    /// User, key, sender and name of a file.
    type Place = (u8, u8, u8, u8);
    /// The size and what has come of each file.
    type Slow = BTreeMap<Place, (u64, u64)>;

    /// Whether one more file may be announced there: whether all of them then are within the bounds of files.
    fn slow_has_room(slow: &Slow, at: Place) -> bool {
        let files = |keep: &dyn Fn(&Place) -> bool| slow.keys().filter(|at| keep(at)).count();
        let of_sender = files(&|other| (other.0, other.2) == (at.0, at.2));
        let all = if of_sender > LIMITS.files_per_job { LIMITS.files / 2 } else { LIMITS.files };
        of_sender <= LIMITS.files_per_user
            && files(&|_| true) <= all
            && (at.2 == 0 || files(&|other| other.2 > 0) <= LIMITS.files / 2)
    }

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
            steps in prop::collection::vec(
                ((0..3u8, 0..2u8, 0..3u8, 0..4u8), prop_oneof![0..20_000u64, 0..60_000u64], 0..9u8),
                1..80,
            )
        ) {
            let (mut usage, mut slow) = (Usage::default(), Slow::new());
            for (at, size, what) in steps {
                let (set, name) = (set_of(at), format!("f{}", at.3).parse().unwrap());
                let mut tried = slow.clone();
                let mut has_room = true;
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
                        let is_new = tried.insert(at, (size, received)).is_none();
                        has_room = !is_new || slow_has_room(&tried, at);
                        usage.reserve(&set, &name, size, &LIMITS).map(drop)
                    }
                };
                prop_assert_eq!(taken.is_ok(), has_room && slow_fits(&tried), "{:?}", taken);
                if taken.is_ok() {
                    slow = tried;
                }
            }
        }
    }

    /// Announces an empty file with a key of its own, and returns which limit refuses it, with what it allows and what was found.
    fn announced(
        usage: &mut Usage,
        sender: (&str, Option<&str>),
        number: u32,
    ) -> Result<(), (QuotaKind, u64, u64)> {
        let (user, mut key) = (sender.0.parse().unwrap(), Key([0; 16]));
        key.0[..4].copy_from_slice(&number.to_be_bytes());
        let of = match sender.1 {
            None => UploadSet::of_owner(user, key),
            Some(server) => UploadSet::of_server(user, key, server.parse().unwrap()),
        };
        let limits = Limits { files_per_user: 10_000, files: 100_000, ..Limits::default() };
        let refusal = |error| match error {
            StagingError::Quota { kind, allowed, found } => (kind, allowed, found),
            other => panic!("{other}"),
        };
        usage.reserve(&of, &"a".parse().unwrap(), 0, &limits).map(drop).map_err(refusal)
    }

    #[test]
    fn a_user_who_announces_files_without_end_is_refused() {
        let mut usage = Usage::default();
        let mut numbers = 0..20_000;
        let refused = numbers.find_map(|number| announced(&mut usage, ("alice", None), number).err());
        assert_eq!(refused, Some((QuotaKind::FilesPerUser, 10_000, 10_001)));
        assert!(numbers.all(|number| announced(&mut usage, ("alice", None), number).is_err()));
        assert_eq!((usage.sets.len(), usage.total.files), (10_000, 10_000));
        assert_eq!(usage.of_user(&"alice".parse().unwrap(), &Sender::Owner), 10_000 * LEAST);
        assert_eq!(announced(&mut usage, ("alice", None), 1), Ok(()), "what is announced already goes on");
        assert_eq!(announced(&mut usage, ("alice", Some("lyon")), 1), Ok(()), "servers count apart");
        assert_eq!(announced(&mut usage, ("bob", None), 1), Ok(()));
    }

    #[test]
    fn users_who_announce_many_files_leave_half_to_others() {
        let mut usage = Usage::default();
        for number in 0..50_000 {
            assert_eq!(announced(&mut usage, (&format!("many-{}", number % 5), None), number), Ok(()));
        }
        assert_eq!(
            announced(&mut usage, ("many-0", None), 50_000),
            Err((QuotaKind::FilesPerUser, 10_000, 10_001))
        );
        for number in 0..1_001 {
            let expected = if number < 1_000 { Ok(()) } else { Err((QuotaKind::Files, 50_000, 51_001)) };
            assert_eq!(announced(&mut usage, ("few", None), number), expected);
        }
        for number in 0..49_000 {
            assert_eq!(announced(&mut usage, (&format!("few-{}", number % 49), None), number), Ok(()));
        }
        assert_eq!(announced(&mut usage, ("last", None), 0), Err((QuotaKind::Files, 100_000, 100_001)));
        assert_eq!((usage.total.files, usage.sets.len()), (100_000, 100_000));
    }

    #[test]
    fn servers_announce_half_of_all_files_at_most() {
        let mut usage = Usage::default();
        for number in 0..50_000 {
            let user = format!("user-{}", number % 50);
            assert_eq!(announced(&mut usage, (&user, Some("lyon")), number), Ok(()));
        }
        let refused = announced(&mut usage, ("alice", Some("lyon")), 0);
        assert_eq!(refused, Err((QuotaKind::FilesFromServers, 50_000, 50_001)));
        assert_eq!(announced(&mut usage, ("alice", None), 0), Ok(()));
    }
}
