//! What is tried until it works, off the threads that serve connections.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use pliant_site::JobFolder;
use pliant_site::processes::{self, FoundState, ProcessState};

/// The shortest and the longest pause before something is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));

/// The pauses before something is tried again: each longer than the one before. The first failure is logged.
pub(in crate::server) struct Retry {
    action: &'static str,
    job: String,
    next: Duration,
    is_logged: bool,
}

impl Retry {
    /// `action` is a verb with its object, tried for `job`.
    pub(in crate::server) fn new(action: &'static str, job: &(impl fmt::Display + ?Sized)) -> Retry {
        Retry { action, job: job.to_string(), next: PAUSES.0, is_logged: false }
    }

    /// Waits after a failure.
    pub(in crate::server) async fn after(&mut self, error: &(dyn fmt::Display + Sync)) {
        if !self.is_logged {
            tracing::warn!(job = self.job, %error, "cannot {} at the moment: tried again until it works", self.action);
            self.is_logged = true;
        }
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(PAUSES.1);
    }
}

/// Does something with a folder.
pub(in crate::server) async fn blocking<A: Send + 'static>(
    dir: &Path,
    act: impl FnOnce(&Path) -> A + Send + 'static,
) -> A {
    let dir = dir.to_owned();
    match tokio::task::spawn_blocking(move || act(&dir)).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down, and this task with it.
        Err(_) => std::future::pending().await,
    }
}

/// Finds out how the execution of a folder stands, once that can be seen. A failure proves nothing, least of all that it may be
/// started.
pub(in crate::server) async fn find(job: &(impl fmt::Display + ?Sized + Sync), dir: &Path) -> ProcessState {
    let mut retry = Retry::new("see how it stands", job);
    loop {
        match blocking(dir, processes::find).await {
            Ok(found) => return found,
            Err(error) => retry.after(&error).await,
        }
    }
}

/// The same of an execution that an external batch system has started.
pub(in crate::server) async fn find_in(
    job: &(impl fmt::Display + ?Sized + Sync),
    folder: &JobFolder,
) -> FoundState {
    let mut retry = Retry::new("see how it stands", job);
    loop {
        let there = folder.clone();
        match tokio::task::spawn_blocking(move || there.find()).await {
            Ok(Ok(found)) => return found,
            Ok(Err(error)) => retry.after(&error).await,
            // The runtime is shutting down, and this task with it.
            Err(error) => retry.after(&error).await,
        }
    }
}
