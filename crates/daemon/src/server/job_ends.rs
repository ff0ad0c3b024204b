//! Who waits for the ends of jobs: each is woken by the end of its own job, and by no other.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Key, Name, User};
use tokio::sync::oneshot;

/// What is known of a job whose end is waited for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum WaitedJob {
    /// Its ID.
    Handle(Handle),
    /// The key of that user's submission: it may not be accepted yet. Another user may choose the same key, and is not to see this job.
    Key(User, Key),
}

/// The ends that are waited for.
#[derive(Clone)]
pub(super) struct JobEnds {
    server: Name,
    next: Arc<AtomicU64>,
    waiting: Arc<Mutex<Waiting>>,
}

type Waiting = HashMap<WaitedJob, Vec<(u64, oneshot::Sender<Arc<JobRecord>>)>>;

/// A wait for the end of a job. Dropped, it waits no more.
pub(super) struct JobEnd {
    ends: JobEnds,
    job: WaitedJob,
    number: u64,
    end: oneshot::Receiver<Arc<JobRecord>>,
}

impl JobEnds {
    /// Those of a server of that name.
    pub(super) fn new(server: Name) -> JobEnds {
        JobEnds { server, next: Arc::default(), waiting: Arc::default() }
    }

    /// Whether a job has ended, or has left this server.
    pub(super) fn is_over(&self, record: &JobRecord) -> bool {
        record.state.is_final() || *record.server() != self.server
    }

    /// How many jobs are waited for.
    pub(super) fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Begins to wait. An end that was reported before is not noticed.
    pub(super) fn wait(&self, job: WaitedJob) -> JobEnd {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, end) = oneshot::channel();
        self.waiting.lock().entry(job.clone()).or_default().push((number, sender));
        JobEnd { ends: self.clone(), job, number, end }
    }

    /// The record of a job has changed.
    pub(super) fn reported(&self, record: &Arc<JobRecord>) {
        if !self.is_over(record) {
            return;
        }
        let mut waiting = self.waiting.lock();
        let by_key = WaitedJob::Key(record.owner.clone(), record.key);
        for job in [WaitedJob::Handle(record.handle.clone()), by_key] {
            for (_, sender) in waiting.remove(&job).unwrap_or_default() {
                // The caller may have gone.
                let _ = sender.send(record.clone());
            }
        }
    }
}

impl JobEnd {
    /// The record of the job as soon as it has ended, or has left this server; none if the server stops before.
    pub(super) async fn record(&mut self) -> Option<Arc<JobRecord>> {
        (&mut self.end).await.ok()
    }
}

impl Drop for JobEnd {
    fn drop(&mut self) {
        let mut waiting = self.ends.waiting.lock();
        if let Some(of_job) = waiting.get_mut(&self.job) {
            of_job.retain(|(number, _)| *number != self.number);
            if of_job.is_empty() {
                waiting.remove(&self.job);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pliant_control::job::JobState;

    use super::*;
    use crate::test_job::waiting_job;

    #[tokio::test]
    async fn an_end_wakes_those_who_wait_for_that_job() {
        let ends = JobEnds::new("lyon".parse().unwrap());
        let one = waiting_job();
        let other = Handle { number: 2, ..one.handle.clone() };
        let mut by_handle = ends.wait(WaitedJob::Handle(one.handle.clone()));
        let mut by_key = ends.wait(WaitedJob::Key(one.owner.clone(), one.key));
        let of_other = ends.wait(WaitedJob::Key("mallory".parse().unwrap(), one.key));
        let dropped = ends.wait(WaitedJob::Handle(other));
        drop(dropped);
        assert_eq!(ends.waiting.lock().len(), 3);
        ends.reported(&Arc::new(JobRecord { state: JobState::Active, ..one.clone() }));
        assert_eq!(ends.waiting.lock().len(), 3, "it has not ended");
        let ended = Arc::new(JobRecord { state: JobState::Completed, ..one.clone() });
        ends.reported(&ended);
        assert_eq!(by_handle.record().await, Some(ended.clone()));
        assert_eq!(by_key.record().await, Some(ended));
        assert_eq!(ends.waiting.lock().len(), 1, "another user's submission with the same key");
        drop(of_other);
        assert!(ends.waiting.lock().is_empty());
    }
}
