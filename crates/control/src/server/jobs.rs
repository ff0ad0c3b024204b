//! The jobs in a server's memory, by number.

use std::collections::BTreeMap;
use std::ops::{Index, RangeBounds};
use std::sync::Arc;

use super::ServerJob;

/// Jobs by number. A snapshot shares each job with the server until that changes, so that it is taken in a moment.
#[derive(Default)]
pub(super) struct ServerJobs(BTreeMap<u32, Arc<ServerJob>>);

impl ServerJobs {
    /// Puts a job in; replaces its earlier state.
    pub(super) fn insert(&mut self, job: ServerJob) {
        self.0.insert(job.number, Arc::new(job));
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, number: &u32) -> Option<ServerJob> {
        self.0.remove(number).map(Arc::unwrap_or_clone)
    }

    pub(super) fn get(&self, number: &u32) -> Option<&ServerJob> {
        self.0.get(number).map(Arc::as_ref)
    }

    /// A job that is to be changed.
    pub(super) fn get_mut(&mut self, number: &u32) -> Option<&mut ServerJob> {
        self.0.get_mut(number).map(Arc::make_mut)
    }

    pub(super) fn contains_key(&self, number: &u32) -> bool {
        self.0.contains_key(number)
    }

    /// Every job with its number, in the order of the numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&u32, &ServerJob)> {
        self.0.iter().map(pair)
    }

    /// The jobs with numbers in a range, in their order.
    pub(super) fn range(
        &self,
        range: impl RangeBounds<u32>,
    ) -> impl DoubleEndedIterator<Item = (&u32, &ServerJob)> {
        self.0.range(range).map(pair)
    }

    /// Every job, in the order of the numbers.
    pub(super) fn values(&self) -> impl Iterator<Item = &ServerJob> {
        self.0.values().map(Arc::as_ref)
    }

    /// Every job, in the order of the numbers, as it is now.
    pub(super) fn shared(&self) -> Vec<Arc<ServerJob>> {
        self.0.values().cloned().collect()
    }
}

impl Index<&u32> for ServerJobs {
    type Output = ServerJob;

    fn index(&self, number: &u32) -> &ServerJob {
        &self.0[number]
    }
}

fn pair<'a>((number, job): (&'a u32, &'a Arc<ServerJob>)) -> (&'a u32, &'a ServerJob) {
    (number, job)
}

impl FromIterator<Arc<ServerJob>> for ServerJobs {
    fn from_iter<I: IntoIterator<Item = Arc<ServerJob>>>(jobs: I) -> ServerJobs {
        ServerJobs(jobs.into_iter().map(|job| (job.number, job)).collect())
    }
}
