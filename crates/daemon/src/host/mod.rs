//! What all daemons have in common. A `MachineHost` recovers a machine from its journal and runs it on a thread that journals
//! its events and carries out what follows; `Replies` are the calls that wait for its answers; the `Front` listens,
//! guards calls, and ends everything of a daemon together.

mod certificate_watch;
pub(crate) mod crash_points;
mod digest;
mod disk_space;
mod durable_record;
mod error;
mod front;
mod health;
mod history;
mod leader_checks;
mod machine_host;
mod machine_loop;
mod mailbox;
mod pages;
mod pause;
mod readers;
mod records;
mod recovery;
mod replay;
mod replies;
mod runtime;
mod settings;
mod snapshots;
mod thread;
mod transport;
mod user_locks;

pub use digest::digest;
pub(crate) use disk_space::free_inodes_needed;
pub use durable_record::DurableRecord;
pub use error::{DaemonError, MachineError};
pub use front::certificate_warnings;
pub(crate) use front::{Certificates, Front};
pub(crate) use health::JournalHealth;
pub(crate) use machine_host::MachineHost;
pub use machine_loop::Driver;
#[cfg(test)]
pub(crate) use mailbox::mailbox;
pub use mailbox::{Mailbox, Rejected, Stopped};
pub(crate) use readers::{SharedArchive, archived, listed};
pub(crate) use records::{json, no_such_job, observe_accuracy, record, row};
pub use replay::{ReplayReport, replay_journal};
pub(crate) use replies::{NoReply, Replies, Reply};
pub use runtime::runtime;
pub use settings::Settings;
pub(crate) use thread::MachineThread;
pub(crate) use transport::{Routes, transport};

/// Waits until a daemon is to stop.
pub(crate) async fn stopped(mut stop: tokio::sync::watch::Receiver<bool>) {
    // A daemon whose sender is gone has ended.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// How long open calls have to end once a daemon is to stop.
const GRACE: std::time::Duration = std::time::Duration::from_secs(1);

#[cfg(test)]
mod tests;
