//! How requests read the archive: over a few connections, so that no user's questions hold up those of another.
//!
//! A short question reads single jobs, a long one a list or a statistic. Each kind has connections of its own. One long question
//! of a user is read at a time. The user's further ones wait without a connection, and those of other users pass them.

use std::sync::Arc;

use parking_lot::Mutex;
use pliant_control::names::User;
use pliant_journal::{Archive, JournalError};
use tokio::sync::Semaphore;
use tonic::Status;

use super::user_locks::UserLocks;

/// How many connections each kind of question has.
const CONNECTIONS: usize = 2;

/// The archive as requests read it.
#[derive(Clone)]
pub(crate) struct SharedArchive(Arc<Readers>);

struct Readers {
    short: Arc<Connections>,
    long: Arc<Connections>,
    /// The locks of those who ask long questions.
    user_locks: UserLocks,
}

/// Connections, and a permit for each.
struct Connections {
    permits: Arc<Semaphore>,
    archives: Vec<Mutex<Box<dyn Archive>>>,
}

impl SharedArchive {
    /// Opens the connections by `connect`.
    ///
    /// # Errors
    ///
    /// Those of `connect`.
    pub(crate) fn open(
        connect: impl Fn() -> Result<Box<dyn Archive>, JournalError>,
    ) -> Result<SharedArchive, JournalError> {
        let (short, long) = (Connections::open(&connect)?, Connections::open(&connect)?);
        Ok(SharedArchive(Arc::new(Readers { short, long, user_locks: UserLocks::default() })))
    }
}

/// Reads single jobs in the archive, on a thread where that may block.
pub(crate) async fn archived<A: Send + 'static>(
    archive: &SharedArchive,
    look: impl FnOnce(&mut dyn Archive) -> Result<A, JournalError> + Send + 'static,
) -> Result<A, Status> {
    archive.0.short.read((), look).await
}

/// Reads a list or a statistic for a user from the archive, on a thread where that may block, when it is the user's turn.
pub(crate) async fn listed<A: Send + 'static>(
    archive: &SharedArchive,
    user: &User,
    look: impl FnOnce(&mut dyn Archive) -> Result<A, JournalError> + Send + 'static,
) -> Result<A, Status> {
    let lock = archive.0.user_locks.take(user).await;
    archive.0.long.read(lock, look).await
}

impl Connections {
    fn open(
        connect: impl Fn() -> Result<Box<dyn Archive>, JournalError>,
    ) -> Result<Arc<Connections>, JournalError> {
        let archives = (0..CONNECTIONS).map(|_| Ok(Mutex::new(connect()?)));
        let archives = archives.collect::<Result<_, JournalError>>()?;
        Ok(Arc::new(Connections { permits: Arc::new(Semaphore::new(CONNECTIONS)), archives }))
    }

    /// Looks into the archive with the first connection that comes free. `turn` ends when that is over, even if the caller has
    /// gone by then.
    async fn read<A: Send + 'static>(
        self: &Arc<Connections>,
        turn: impl Send + 'static,
        look: impl FnOnce(&mut dyn Archive) -> Result<A, JournalError> + Send + 'static,
    ) -> Result<A, Status> {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let connections = self.clone();
        let found = tokio::task::spawn_blocking(move || {
            let _turn = (turn, permit);
            let free = connections.archives.iter().find_map(Mutex::try_lock);
            look(free.expect("there are as many connections as permits").as_mut())
        });
        let found = found.await.map_err(|_| Status::internal("looking into the archive failed"))?;
        found.map_err(|error| {
            tracing::error!(%error, "cannot read the archive");
            Status::unavailable("the archive cannot be read at the moment")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use pliant_journal::open_sqlite;
    use tokio::task::JoinHandle;

    use super::*;

    fn archive() -> (tempfile::TempDir, SharedArchive) {
        let dir = tempfile::tempdir().unwrap();
        let journal = open_sqlite(dir.path()).unwrap();
        let archive = SharedArchive::open(|| journal.archive()).unwrap();
        (dir, archive)
    }

    /// A long question of a user that is read until something is sent; says when its reading begins.
    fn endless(
        archive: &SharedArchive,
        user: &'static str,
        begun: &mpsc::Sender<&'static str>,
    ) -> (mpsc::Sender<()>, JoinHandle<Result<(), Status>>) {
        let (end, ended) = mpsc::channel();
        let (archive, begun) = (archive.clone(), begun.clone());
        let question = tokio::spawn(async move {
            let look = move |_: &mut dyn Archive| {
                begun.send(user).unwrap();
                // An error: the sender is gone.
                let _ = ended.recv();
                Ok(())
            };
            listed(&archive, &user.parse().unwrap(), look).await
        });
        (end, question)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn long_questions_of_a_user_leave_a_connection_to_others() {
        let (_dir, archive) = archive();
        let (begun, beginnings) = mpsc::channel();
        let (ends, questions): (Vec<_>, Vec<_>) =
            (0..100).map(|_| endless(&archive, "alice", &begun)).unzip();
        assert_eq!(beginnings.recv().unwrap(), "alice");
        // Both would wait for ever if alice had two connections or their line.
        let (end, question) = endless(&archive, "bob", &begun);
        assert_eq!(beginnings.recv().unwrap(), "bob");
        archived(&archive, |archive| archive.job("lyon", 1)).await.unwrap();
        drop(ends);
        for question in questions {
            question.await.unwrap().unwrap();
        }
        assert_eq!(beginnings.try_iter().collect::<Vec<_>>(), ["alice"; 99]);
        drop(end);
        question.await.unwrap().unwrap();
        archive.0.user_locks.of(&"carol".parse().unwrap());
        assert_eq!(archive.0.user_locks.users(), 1, "users without questions are not remembered");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn users_with_many_long_questions_take_turns() {
        let (_dir, archive) = archive();
        let (begun, beginnings) = mpsc::channel();
        let (first, _question) = endless(&archive, "alice", &begun);
        let (second, _question) = endless(&archive, "bob", &begun);
        for _ in 0..2 {
            beginnings.recv().unwrap();
        }
        // All connections are taken. Alice asks again and again, and then carol once.
        let more: Vec<_> = (0..100).map(|_| endless(&archive, "alice", &begun)).collect();
        while Arc::strong_count(&archive.0.user_locks.of(&"alice".parse().unwrap())) < 100 {
            tokio::task::yield_now().await;
        }
        let (_carol, _question) = endless(&archive, "carol", &begun);
        drop(second);
        assert_eq!(beginnings.recv().unwrap(), "carol", "none of alice's waits for a connection");
        drop((first, more));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_question_whose_caller_has_gone_keeps_its_turn() {
        let (_dir, archive) = archive();
        let (begun, beginnings) = mpsc::channel();
        let (end, question) = endless(&archive, "alice", &begun);
        beginnings.recv().unwrap();
        question.abort();
        assert!(question.await.unwrap_err().is_cancelled());
        let turn = archive.0.user_locks.of(&"alice".parse().unwrap());
        assert!(turn.try_lock().is_err(), "the archive is still read for alice");
        drop(end);
        let _after_it = turn.lock().await;
    }
}
