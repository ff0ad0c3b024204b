//! The results of ended jobs, and of tasks of launches, are summed up once, however many ask for them and however long it
//! takes. Users take turns, and one who makes it last keeps no other from results.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_control::names::User;
use pliant_staging::ResultLimits;
use pliant_wire::{self as wire, JobResults};
use tokio::sync::watch;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// What a job may leave behind to be fetched.
const RESULTS: ResultLimits = ResultLimits { files: 10_000, bytes: 64 << 30 };
/// How many jobs are summed up at the same time: each reads all that its job left, and more of them at once would read
/// no more from the same disk, but take memory and threads. A caller that asks for one more asks again.
const AT_ONCE: usize = 8;
/// How many of them may be of one user, who can make them last: the files of an account are read by a process of the account.
const AT_ONCE_OF_USER: usize = 2;
/// After this time one counts for its user alone: the files are many, or the user makes it last.
const LONG: Duration = Duration::from_secs(60);
/// How many there may be with those that take so long.
const AT_ONCE_WITH_LONG: usize = 64;
/// How long a user who does not ask again keeps the turn. Clients ask several times a second.
const ASKS_WITHIN: Duration = Duration::from_secs(5);

type Outcome = Result<Arc<JobResults>, Status>;
type Done = watch::Receiver<Option<Outcome>>;

/// What is being summed up, and how much of each job.
#[derive(Clone, Debug)]
pub(super) struct Sealing {
    turns: Arc<Mutex<Turns>>,
    limits: ResultLimits,
}

/// Who is served.
#[derive(Default, Debug)]
struct Turns {
    /// By the folders of jobs whose results are being summed up.
    running: BTreeMap<PathBuf, Running>,
    /// The users who are next, and when each asked last. None is named twice.
    waiting: VecDeque<(User, Instant)>,
}

#[derive(Debug)]
struct Running {
    owner: User,
    begun: Instant,
    done: Done,
}

/// A job that is being summed up, until this is dropped.
struct Begun(Sealing, PathBuf);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.turns.lock().running.remove(&self.1);
    }
}

impl Turns {
    /// Whether a job of a user may be begun now. A user who has to wait for the jobs of others gets a turn.
    fn admits(&mut self, owner: &User, now: Instant) -> bool {
        self.waiting.retain(|(_, asked)| now.saturating_duration_since(*asked) < ASKS_WITHIN);
        if self.running.values().filter(|running| running.owner == *owner).count() >= AT_ONCE_OF_USER {
            return false;
        }
        let is_short = |running: &&Running| now.saturating_duration_since(running.begun) < LONG;
        let short = self.running.values().filter(is_short).count();
        let turn = self.waiting.iter().position(|(user, _)| user == owner);
        let is_admitted =
            short + turn.unwrap_or(self.waiting.len()) < AT_ONCE && self.running.len() < AT_ONCE_WITH_LONG;
        match turn {
            Some(turn) if is_admitted => _ = self.waiting.remove(turn),
            Some(turn) => self.waiting[turn].1 = now,
            None if is_admitted => {}
            None => self.waiting.push_back((owner.clone(), now)),
        }
        is_admitted
    }
}

impl Sealing {
    /// Nothing is summed up yet. `disk_bytes` is what a job may have on the disk, if that is limited: what is larger has holes.
    pub(super) fn new(disk_bytes: Option<u64>) -> Sealing {
        let bytes = disk_bytes.map_or(RESULTS.bytes, |bytes| bytes.min(RESULTS.bytes));
        Sealing { turns: Arc::default(), limits: ResultLimits { bytes, ..RESULTS } }
    }

    /// How much of a job is summed up.
    pub(super) fn limits(&self) -> ResultLimits {
        self.limits
    }

    /// What `sum_up` finds of the job in a folder. If it does not end in that time, the caller has to repeat its request:
    /// it goes on, and is not begun twice. So has a caller that asks while [`AT_ONCE`] other jobs, or [`AT_ONCE_OF_USER`] of the same
    /// owner, are being summed up, or when other users come first.
    pub(super) async fn results(
        &self,
        (dir, owner): (&Path, &User),
        timeout: Duration,
        sum_up: impl FnOnce() -> Result<JobResults, Status> + Send + 'static,
    ) -> Outcome {
        let mut done = self.begun((dir, owner), Instant::now(), sum_up)?;
        match tokio::time::timeout(timeout, done.wait_for(Option::is_some)).await {
            Ok(Ok(outcome)) => outcome.clone().unwrap_or_else(|| Err(at_work())),
            Ok(Err(_)) => Err(Status::internal("a file operation failed")),
            Err(_) => Err(at_work()),
        }
    }

    fn begun(
        &self,
        (dir, owner): (&Path, &User),
        now: Instant,
        sum_up: impl FnOnce() -> Result<JobResults, Status> + Send + 'static,
    ) -> Result<Done, Status> {
        let mut turns = self.turns.lock();
        if let Some(running) = turns.running.get(dir) {
            return Ok(running.done.clone());
        }
        if !turns.admits(owner, now) {
            return Err(at_work());
        }
        let (tell, done) = watch::channel(None);
        let running = Running { owner: owner.clone(), begun: now, done: done.clone() };
        turns.running.insert(dir.to_owned(), running);
        drop(turns);
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
        let sealing = Sealing::new(None);
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
        let sealing = Sealing::new(None);
        let begin = |number| hold(&sealing, number, number, Instant::now());
        let mut running = (0..AT_ONCE as u32).map(begin).collect::<Option<Vec<_>>>().unwrap();
        let (another, their_user) = (job(99), user(99));
        let more = || sealing.results((&another, &their_user), LONG, || Ok(JobResults::default()));
        let refusal = more().await.unwrap_err();
        assert!(refusal.metadata().contains_key(wire::RESULTS_PENDING), "{refusal:?}");
        running.remove(0).end().await;
        assert!(more().await.is_ok(), "one has ended");
    }

    #[tokio::test]
    async fn a_user_whose_results_last_keeps_no_other_from_results() {
        let sealing = Sealing::new(None);
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

    /// A job that is being summed up until `end` is called.
    struct Held(mpsc::Sender<()>, Done);

    impl Held {
        async fn end(mut self) {
            drop(self.0);
            self.1.wait_for(Option::is_some).await.unwrap();
        }
    }

    fn hold(sealing: &Sealing, number: u32, owner: u32, now: Instant) -> Option<Held> {
        let (go, wait) = mpsc::channel::<()>();
        let slow = move || wait.recv().map(|()| JobResults::default()).map_err(|_| at_work());
        let done = sealing.begun((&job(number), &user(owner)), now, slow).ok()?;
        Some(Held(go, done))
    }

    #[tokio::test]
    async fn users_who_have_places_wait_for_those_who_have_none() {
        let (sealing, now) = (Sealing::new(None), Instant::now());
        let held = |number, owner| hold(&sealing, number, owner, now);
        let mut places: Vec<Held> = (0..8).map(|number| held(number, number / 2).unwrap()).collect();
        assert!(held(10, 10).is_none() && held(11, 11).is_none(), "all places are taken");
        places.remove(0).end().await;
        assert!(held(20, 0).is_none() && held(11, 11).is_none(), "another user is next");
        let first = held(10, 10).unwrap();
        places.remove(0).end().await;
        assert!(held(20, 0).is_none(), "another user is next");
        let second = held(11, 11).unwrap();
        first.end().await;
        let third = held(20, 0).unwrap();
        // One who does not ask again keeps no place free.
        assert!(held(12, 12).is_none());
        second.end().await;
        assert!(held(13, 13).is_none());
        assert!(hold(&sealing, 13, 13, now + ASKS_WITHIN).is_some());
        drop((places, third));
    }

    #[tokio::test]
    async fn users_who_make_it_last_keep_no_others_from_results() {
        let (sealing, now) = (Sealing::new(None), Instant::now());
        let places: Vec<Held> =
            (0..8).map(|number| hold(&sealing, number, number / 2, now).unwrap()).collect();
        assert!(hold(&sealing, 9, 9, now).is_none());
        let later = now + LONG;
        assert!(hold(&sealing, 9, 9, later).is_some());
        assert!(hold(&sealing, 10, 0, later).is_none(), "they count for their users");
        drop(places);
    }

    #[test]
    fn no_more_is_summed_up_than_a_job_may_have_on_the_disk() {
        let bytes = |disk_bytes| Sealing::new(disk_bytes).limits().bytes;
        assert_eq!([None, Some(7), Some(u64::MAX)].map(bytes), [RESULTS.bytes, 7, RESULTS.bytes]);
    }

    #[tokio::test]
    async fn what_failed_is_begun_anew() {
        let sealing = Sealing::new(None);
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
