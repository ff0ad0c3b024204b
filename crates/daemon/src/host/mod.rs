//! What agents and servers have in common: one thread owns the machine, journals what it is told, and carries
//! out what follows.

pub(crate) mod crash_points;
mod error;
mod mailbox;
mod pages;
mod records;
mod recovery;
mod replay;
mod runner;
mod runtime;
mod thread;
mod transport;

pub use error::DaemonError;
pub(crate) use mailbox::mailbox;
pub use mailbox::{Mailbox, Stopped, TurnedAway};
pub(crate) use pages::listen_pages;
pub(crate) use records::{SharedArchive, archived, json, no_such_job, observe_accuracy, record, row};
pub(crate) use recovery::recover;
pub use replay::{Retold, retell};
pub use runner::{Driver, Kept, RunnerError, Settings, digest};
pub use runtime::runtime;
pub(crate) use thread::MachineThread;
pub(crate) use transport::transport;

/// Waits until a daemon is to stop.
pub(crate) async fn stopped(mut stop: tokio::sync::watch::Receiver<bool>) {
    // A daemon whose end nobody can tell any more has ended.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// How long open calls have to end once a daemon is to stop.
const GRACE: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(test)]
mod tests;
