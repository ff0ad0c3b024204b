//! The thread that owns a daemon's machine, and how the daemon ends: because it is told to, or because the thread
//! cannot go on. Nothing of a daemon outlives its thread: without it, nobody would ever be answered.

use std::future::Future;
use std::pin::pin;
use std::thread::JoinHandle;

use pliant_control::replay::Machine;
use pliant_journal::Journal;
use tokio::sync::{oneshot, watch};

use super::mailbox::{Inbox, Mailbox};
use super::recovery::Recovered;
use super::runner::{Driver, RunnerError, Settings, run};
use super::{DaemonError, GRACE, stopped};

/// The thread of a machine.
pub(crate) struct MachineThread<M: Machine> {
    mailbox: Mailbox<M>,
    handle: JoinHandle<Result<(), RunnerError>>,
    /// Its other end is dropped when the thread ends, in whatever way.
    ended: oneshot::Receiver<()>,
}

impl<M> MachineThread<M>
where
    M: Machine + Send + 'static,
    M::Event: Send,
    M::Command: Send,
{
    /// Starts it.
    pub(crate) fn start<D: Driver<M> + 'static>(
        name: &str,
        recovered: Recovered<M>,
        journal: Box<dyn Journal>,
        driver: D,
        (mailbox, inbox): (Mailbox<M>, Inbox<M>),
        settings: Settings,
    ) -> Result<MachineThread<M>, DaemonError> {
        let (alive, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let handle = thread.spawn(move || {
            let _alive = alive;
            run(recovered, journal, driver, inbox, settings)
        });
        Ok(MachineThread { mailbox, handle: handle.map_err(DaemonError::Thread)?, ended })
    }

    /// Waits until the thread has ended by itself; for ever if there is none.
    pub(crate) async fn gone(thread: Option<&mut MachineThread<M>>) {
        match thread {
            Some(thread) => drop((&mut thread.ended).await),
            None => std::future::pending().await,
        }
    }

    /// Ends the thread, if it has not ended by itself.
    ///
    /// # Errors
    ///
    /// Why it could not go on.
    pub(crate) async fn end(self) -> Result<(), DaemonError> {
        self.mailbox.stop();
        let outcome = join(self.handle).await;
        if let Err(error) = &outcome {
            tracing::error!(%error, "a thread of the daemon did not end in order");
        }
        outcome
    }

    /// Serves until `stop` says so, the service ends, or the thread does. Then `halt` tells everything of the daemon
    /// to end, and open calls have [`GRACE`] for it.
    ///
    /// # Errors
    ///
    /// Why the thread could not go on, which is logged at once, or why connections could not be served.
    pub(crate) async fn serve(
        mut self,
        served: impl Future<Output = Result<(), tonic::transport::Error>>,
        stop: watch::Receiver<bool>,
        halt: &watch::Sender<bool>,
    ) -> Result<(), DaemonError> {
        let mut served = pin!(served);
        let mut early = None;
        let alive = tokio::select! {
            served = served.as_mut() => { early = Some(served); true }
            () = stopped(stop) => true,
            _ = &mut self.ended => false,
        };
        let mut outcome = Ok(());
        let mut handle = Some(self.handle);
        if !alive && let Some(handle) = handle.take() {
            outcome = join(handle).await.and(Err(DaemonError::Panicked));
        }
        if let Err(error) = &outcome {
            tracing::error!(%error, "the daemon cannot go on: it ends");
        }
        // Clients that stay connected do not keep a daemon.
        halt.send_replace(true);
        let served = match early {
            Some(served) => served,
            None => tokio::time::timeout(GRACE, served).await.unwrap_or(Ok(())),
        };
        self.mailbox.stop();
        if let Some(handle) = handle {
            outcome = join(handle).await;
            if let Err(error) = &outcome {
                tracing::error!(%error, "the daemon did not end in order");
            }
        }
        outcome?;
        served.map_err(DaemonError::Transport)
    }
}

/// How the thread ended.
async fn join(handle: JoinHandle<Result<(), RunnerError>>) -> Result<(), DaemonError> {
    let ended = tokio::task::spawn_blocking(move || handle.join()).await.expect("waiting does not panic");
    Ok(ended.map_err(|_| DaemonError::Panicked)??)
}
