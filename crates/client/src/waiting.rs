//! Waits for several jobs.

use std::collections::VecDeque;
use std::time::Duration;

use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Handle;
use tokio::task::JoinSet;

use super::{Client, ClientError};

/// How many jobs are followed at a time.
const AT_A_TIME: usize = 64;
/// How long a job is followed before another one is, if there are more than are followed at a time.
const SLICE: Duration = Duration::from_secs(2);

/// A job that is waited for.
struct Awaited {
    /// Its position among all jobs.
    index: usize,
    handle: Handle,
    /// The state that was reported last.
    reported: Option<JobState>,
}

impl Client {
    /// Waits until every one of these jobs has ended or failed to be found. `ended` gets each with its position, as it ends; `changed` each
    /// change of the state of a job.
    pub async fn wait_each(
        &self,
        handles: impl IntoIterator<Item = Handle>,
        changed: fn(&JobRecord),
        mut ended: impl FnMut(usize, Result<JobRecord, ClientError>),
    ) {
        let awaited = |(index, handle)| Awaited { index, handle, reported: None };
        let mut waiting: VecDeque<Awaited> = handles.into_iter().enumerate().map(awaited).collect();
        let mut open = JoinSet::new();
        loop {
            while open.len() < AT_A_TIME
                && let Some(job) = waiting.pop_front()
            {
                let slice = (waiting.len() + open.len() >= AT_A_TIME).then_some(SLICE);
                open.spawn(self.clone().followed(job, slice, changed));
            }
            match open.join_next().await {
                Some(Ok((job, Some(answer)))) => ended(job.index, answer),
                Some(Ok((job, None))) => waiting.push_back(job),
                // The call was not cancelled, so it panicked.
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
                None => return,
            }
        }
    }

    /// Follows a job until it has ended, at most for a slice of time.
    async fn followed(
        self,
        mut job: Awaited,
        slice: Option<Duration>,
        changed: fn(&JobRecord),
    ) -> (Awaited, Option<Result<JobRecord, ClientError>>) {
        let Awaited { handle, reported, .. } = &mut job;
        let wait = self.wait(handle, |record| {
            if reported.replace(record.state) != Some(record.state) {
                changed(record);
            }
        });
        let answer = match slice {
            Some(slice) => tokio::time::timeout(slice, wait).await.ok(),
            None => Some(wait.await),
        };
        (job, answer)
    }
}
