//! The jobs in an agent's memory, with the counts and orders that save a question a look at each.

use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::btree_set::Range;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::iter::Rev;
use std::ops::Bound;
use std::sync::Arc;

use pliant_model::Time;

use crate::job::{JobRecord, JobState};
use crate::names::{Handle, Name, User};

/// Jobs by server and number. A snapshot shares each record with the agent until that is replaced, so that it is taken in a moment.
#[derive(Default)]
pub(super) struct KnownJobs {
    jobs: BTreeMap<Handle, Arc<JobRecord>>,
    counts: BTreeMap<Name, JobCounts>,
    /// The jobs of each user in the order of submission.
    by_owner: BTreeMap<User, BTreeSet<(Time, Handle)>>,
    waiting: usize,
}

/// Jobs in memory whose present server is the same.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct JobCounts {
    /// Those that wait.
    pub queued: u32,
    /// Those that run.
    pub active: u32,
}

impl KnownJobs {
    /// Puts a job in; replaces its earlier record.
    pub(super) fn insert(&mut self, record: JobRecord) {
        self.insert_shared(Arc::new(record));
    }

    fn insert_shared(&mut self, record: Arc<JobRecord>) {
        self.remove(&record.handle);
        self.count(&record, |count| *count += 1);
        self.waiting += usize::from(record.state == JobState::Queued);
        let of_owner = self.by_owner.entry(record.owner.clone()).or_default();
        of_owner.insert((record.submitted, record.handle.clone()));
        self.jobs.insert(record.handle.clone(), record);
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, handle: &Handle) -> Option<Arc<JobRecord>> {
        let record = self.jobs.remove(handle)?;
        self.count(&record, |count| *count -= 1);
        self.waiting -= usize::from(record.state == JobState::Queued);
        if let Some(of_owner) = self.by_owner.get_mut(&record.owner) {
            of_owner.remove(&(record.submitted, handle.clone()));
            if of_owner.is_empty() {
                self.by_owner.remove(&record.owner);
            }
        }
        Some(record)
    }

    /// Changes the count of a job's server and state, if there is one.
    fn count(&mut self, record: &JobRecord, change: impl FnOnce(&mut u32)) {
        let counts = self.counts.entry(record.server().clone()).or_default();
        match record.state {
            JobState::Queued => change(&mut counts.queued),
            JobState::Active => change(&mut counts.active),
            _ => {}
        }
        if *counts == JobCounts::default() {
            self.counts.remove(record.server());
        }
    }

    pub(super) fn get(&self, handle: &Handle) -> Option<&JobRecord> {
        self.jobs.get(handle).map(Arc::as_ref)
    }

    /// How many jobs wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many jobs wait and run at a server.
    pub(super) fn counts(&self, server: &Name) -> JobCounts {
        self.counts.get(server).copied().unwrap_or_default()
    }

    /// The jobs that a server accepted, by number.
    pub(super) fn accepted_by(&self, server: &Name) -> impl DoubleEndedIterator<Item = &JobRecord> {
        let handle = |number| Handle { server: server.clone(), number };
        self.jobs.range(handle(0)..=handle(u32::MAX)).map(|(_, record)| record.as_ref())
    }

    /// The jobs of a user, the last to be submitted first, from those before a position on.
    pub(super) fn of_owner(
        &self,
        owner: &User,
        before: Option<(Time, Handle)>,
    ) -> impl Iterator<Item = &JobRecord> {
        let range = (Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded));
        let of_owner = self.by_owner.get(owner).map(|jobs| jobs.range(range).rev());
        of_owner.into_iter().flatten().filter_map(|(_, handle)| self.get(handle))
    }

    /// The jobs of all users, the last to be submitted first, from those before a position on: O(users) for the first one, then
    /// O(log users) for each.
    pub(super) fn newest(&self, before: Option<(Time, Handle)>) -> impl Iterator<Item = &JobRecord> {
        let range = (Bound::Unbounded, before.map_or(Bound::Unbounded, Bound::Excluded));
        let of_owners = self.by_owner.values().map(|jobs| jobs.range(range.clone()).rev());
        let mut heads: BinaryHeap<Newest<'_>> = of_owners.filter_map(Newest::of).collect();
        std::iter::from_fn(move || {
            let mut head = heads.peek_mut()?;
            let (_, handle) = head.newest;
            match head.jobs.next() {
                Some(next) => head.newest = next,
                None => drop(PeekMut::pop(head)),
            }
            Some(handle)
        })
        .filter_map(|handle| self.get(handle))
    }

    /// The jobs after one, by server and number.
    pub(super) fn after(&self, after: Option<&Handle>) -> impl Iterator<Item = &JobRecord> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.jobs.range((from, Bound::Unbounded)).map(|(_, record)| record.as_ref())
    }

    /// Every job, by server and number.
    pub(super) fn all(&self) -> impl Iterator<Item = &JobRecord> {
        self.jobs.values().map(Arc::as_ref)
    }

    /// Every job, by server and number, as it is now.
    pub(super) fn shared(&self) -> Vec<Arc<JobRecord>> {
        self.jobs.values().cloned().collect()
    }
}

/// The jobs of a user, of which one is the newest.
struct Newest<'a> {
    newest: &'a (Time, Handle),
    jobs: Rev<Range<'a, (Time, Handle)>>,
}

impl<'a> Newest<'a> {
    /// None if there are no jobs.
    fn of(mut jobs: Rev<Range<'a, (Time, Handle)>>) -> Option<Newest<'a>> {
        Some(Newest { newest: jobs.next()?, jobs })
    }
}

impl PartialEq for Newest<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.newest == other.newest
    }
}

impl Eq for Newest<'_> {}

impl PartialOrd for Newest<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Newest<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.newest.cmp(other.newest)
    }
}

impl FromIterator<Arc<JobRecord>> for KnownJobs {
    fn from_iter<I: IntoIterator<Item = Arc<JobRecord>>>(records: I) -> KnownJobs {
        let mut jobs = KnownJobs::default();
        records.into_iter().for_each(|record| jobs.insert_shared(record));
        jobs
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{hop, name, record};
    use super::*;

    /// A job of one of three users, at one of two servers.
    fn job(number: u32, owner: usize, submitted: i64, moved: bool, state: JobState) -> JobRecord {
        JobRecord {
            owner: ["alice", "bob", "carol"][owner].parse().unwrap(),
            submitted: Time(submitted),
            hops: if moved { vec![hop("a", "b", 1)] } else { Vec::new() },
            ..*record(number, state)
        }
    }

    proptest! {
        #[test]
        fn counts_and_orders_are_those_of_the_jobs(
            changes in prop::collection::vec(
                (0_u32..12, 0_usize..3, 0_i64..6, any::<bool>(), 0..JobState::ALL.len(), any::<bool>()),
                0..60,
            ),
            before in (0_i64..6, 0_u32..12),
        ) {
            let mut jobs = KnownJobs::default();
            let mut expected: BTreeMap<Handle, JobRecord> = BTreeMap::new();
            for (number, owner, submitted, moved, state, stays) in changes {
                let record = job(number, owner, submitted, moved, JobState::ALL[state]);
                if stays {
                    expected.insert(record.handle.clone(), record.clone());
                    jobs.insert(record);
                } else {
                    let removed = jobs.remove(&record.handle).map(Arc::unwrap_or_clone);
                    prop_assert_eq!(removed, expected.remove(&record.handle));
                }
            }
            prop_assert!(jobs.all().eq(expected.values()));
            let of = |state, server: &Name| {
                expected.values().filter(|job| job.state == state && job.server() == server).count() as u32
            };
            for server in [name("a"), name("b")] {
                let counts = JobCounts { queued: of(JobState::Queued, &server), active: of(JobState::Active, &server) };
                prop_assert_eq!(jobs.counts(&server), counts);
            }
            prop_assert_eq!(jobs.waiting(), expected.values().filter(|job| job.state == JobState::Queued).count());
            let before = (Time(before.0), Handle { server: name("a"), number: before.1 });
            let mut newest: Vec<&JobRecord> = expected.values().collect();
            newest.sort_by_key(|job| std::cmp::Reverse((job.submitted, &job.handle)));
            prop_assert_eq!(jobs.newest(None).collect::<Vec<_>>(), newest.clone());
            newest.retain(|job| (job.submitted, &job.handle) < (before.0, &before.1));
            prop_assert_eq!(jobs.newest(Some(before.clone())).collect::<Vec<_>>(), newest);
            for owner in ["alice", "bob", "carol"] {
                let owner = owner.parse().unwrap();
                let mut own: Vec<&JobRecord> = expected.values().filter(|job| job.owner == owner).collect();
                own.sort_by_key(|job| std::cmp::Reverse((job.submitted, &job.handle)));
                prop_assert_eq!(jobs.of_owner(&owner, None).collect::<Vec<_>>(), own.clone());
                own.retain(|job| (job.submitted, &job.handle) < (before.0, &before.1));
                prop_assert_eq!(jobs.of_owner(&owner, Some(before.clone())).collect::<Vec<_>>(), own);
            }
        }
    }
}
