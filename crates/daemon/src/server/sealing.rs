//! The results of ended jobs, and of tasks of launches, are summed up once, however many ask for them and however long it
//! takes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::User;
use pliant_wire::{self as wire, JobResults};
use tokio::sync::watch;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// How many jobs are summed up at the same time: each reads all that its job left, and more of them at once would read
/// no more from the same disk, but take memory and threads. A caller that asks for one more asks again.
const AT_ONCE: usize = 8;
/// How many of them may be of one user, who can make them last: the files of an account are read by a process of the account.
const AT_ONCE_OF_USER: usize = 2;

type Outcome = Result<Arc<JobResults>, Status>;
type Done = watch::Receiver<Option<Outcome>>;

/// The folders of jobs whose results are being summed up, and whose jobs they are.
#[derive(Clone, Default, Debug)]
pub(super) struct Sealing(Arc<Mutex<BTreeMap<PathBuf, (User, Done)>>>);

/// A job that is being summed up, until this is dropped.
struct Begun(Sealing, PathBuf);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.lock().remove(&self.1);
    }
}

impl Sealing {
    /// What `sum_up` finds of the job in a folder. If it does not end in that time, the caller has to repeat its request:
    /// it goes on, and is not begun twice. So has a caller that asks while [`AT_ONCE`] other jobs, or [`AT_ONCE_OF_USER`] of the same
    /// owner, are being summed up.
    pub(super) async fn results(
        &self,
        (dir, owner): (&Path, &User),
        timeout: Duration,
        sum_up: impl FnOnce() -> Result<JobResults, Status> + Send + 'static,
    ) -> Outcome {
        let mut done = self.begun((dir, owner), sum_up)?;
        match tokio::time::timeout(timeout, done.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or_else(|| Err(at_work())),
            Ok(Err(_)) => Err(Status::internal("a file operation failed")),
            Err(_) => Err(at_work()),
        }
    }

    fn begun(
        &self,
        (dir, owner): (&Path, &User),
        sum_up: impl FnOnce() -> Result<JobResults, Status> + Send + 'static,
    ) -> Result<Done, Status> {
        let mut running = self.0.lock();
        if let Some((_, done)) = running.get(dir) {
            return Ok(done.clone());
        }
        let of_owner = running.values().filter(|(of, _)| of == owner).count();
        if running.len() >= AT_ONCE || of_owner >= AT_ONCE_OF_USER {
            return Err(at_work());
        }
        let (tell, done) = watch::channel(None);
        running.insert(dir.to_owned(), (owner.clone(), done.clone()));
        drop(running);
        let begun = Begun(self.clone(), dir.to_owned());
        // A thread of its own: it may take minutes, and a server that stops does not wait for it.
        let thread = std::thread::Builder::new().name("sealing".to_owned()).spawn(move || {
            let outcome = sum_up().map(Arc::new);
            // Before it is reported, so that a caller that asks after a failure begins anew.
            drop(begun);
            // The callers may have gone.
            let _ = tell.send(Some(outcome));
        });
        thread.map(|_| done).map_err(|error| {
            tracing::error!(%error, "cannot sum up results");
            Status::unavailable("the server has no thread for it at the moment")
        })
    }
}

fn at_work() -> Status {
    let mut metadata = MetadataMap::new();
    metadata.insert(wire::RESULTS_PENDING, MetadataValue::from_static("results"));
    Status::with_metadata(Code::Unavailable, "the results are being summed up; ask again", metadata)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn job(number: u32) -> PathBuf {
        PathBuf::from(format!("jobs/{number}"))
    }

    fn user(number: u32) -> User {
        format!("user-{number}").parse().unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn results_are_summed_up_once_while_other_callers_have_to_retry() {
        let sealing = Sealing::default();
        let (go, wait) = mpsc::channel::<()>();
        let first = move || {
            wait.recv().map_err(|_| Status::internal("never let go"))?;
            Ok(JobResults { left_out_count: 7, ..JobResults::default() })
        };
        let second = || Err(Status::internal("begun beside"));
        let refusal = sealing.results((&job(1), &user(1)), Duration::ZERO, first).await.unwrap_err();
        assert_eq!(refusal.code(), Code::Unavailable);
        assert!(refusal.metadata().contains_key(wire::RESULTS_PENDING), "{refusal:?}");
        assert!(
            sealing
                .results((&job(1), &user(1)), Duration::ZERO, second)
                .await
                .unwrap_err()
                .message()
                .contains("ask again")
        );
        let other = sealing.results((&job(2), &user(1)), LONG, || Ok(JobResults::default())).await.unwrap();
        assert_eq!(*other, JobResults::default(), "another job does not wait");
        go.send(()).unwrap();
        // It may have ended meanwhile: then none is under way.
        let (first_job, first_user) = (job(1), user(1));
        let again = sealing.results((&first_job, &first_user), LONG, || {
            Ok(JobResults { left_out_count: 8, ..JobResults::default() })
        });
        assert!(matches!(again.await.unwrap().left_out_count, 7 | 8));
    }

    #[tokio::test]
    async fn only_so_many_are_summed_up_at_once() {
        let sealing = Sealing::default();
        let mut running = Vec::new();
        for number in 0..AT_ONCE as u32 {
            let (go, wait) = mpsc::channel::<()>();
            let slow = move || wait.recv().map(|()| JobResults::default()).map_err(|_| at_work());
            assert!(sealing.results((&job(number), &user(number)), Duration::ZERO, slow).await.is_err());
            running.push(go);
        }
        let (another, their_user) = (job(99), user(99));
        let more = || sealing.results((&another, &their_user), LONG, || Ok(JobResults::default()));
        let refusal = more().await.unwrap_err();
        assert!(refusal.metadata().contains_key(wire::RESULTS_PENDING), "{refusal:?}");
        // One that has a slot is waited for as before, and frees its slot.
        running[0].send(()).unwrap();
        let first = sealing.results((&job(0), &user(0)), LONG, || Ok(JobResults::default())).await;
        assert!(first.is_ok(), "{first:?}");
        assert!(more().await.is_ok());
        running[1..].iter().for_each(|go| go.send(()).unwrap());
    }

    #[tokio::test]
    async fn a_user_whose_results_last_keeps_no_other_from_results() {
        let sealing = Sealing::default();
        let (jobs, owner, other) = ([1, 2, 3].map(job), user(1), user(2));
        let (gates, waits): (Vec<_>, Vec<_>) = (0..AT_ONCE_OF_USER).map(|_| mpsc::channel::<()>()).unzip();
        for (job, wait) in jobs.iter().zip(waits) {
            let slow = move || wait.recv().map(|()| JobResults::default()).map_err(|_| at_work());
            assert!(sealing.results((job, &owner), Duration::ZERO, slow).await.is_err());
        }
        let more =
            async |of: &User| sealing.results((&jobs[2], of), LONG, || Ok(JobResults::default())).await;
        assert!(more(&owner).await.unwrap_err().metadata().contains_key(wire::RESULTS_PENDING));
        assert!(more(&other).await.is_ok());
        drop(gates);
    }

    #[tokio::test]
    async fn what_failed_is_begun_anew() {
        let sealing = Sealing::default();
        let failed = sealing
            .results((&job(1), &user(1)), LONG, || Err(Status::unavailable("the disk")))
            .await
            .unwrap_err();
        assert_eq!(failed.message(), "the disk");
        let broken = sealing
            .results((&job(1), &user(1)), LONG, || panic!("a defect, for this test"))
            .await
            .unwrap_err();
        assert_eq!(broken.code(), Code::Internal);
        assert!(sealing.results((&job(1), &user(1)), LONG, || Ok(JobResults::default())).await.is_ok());
    }
}
