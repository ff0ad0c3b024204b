//! The threads of a daemon's machines, and the end of a daemon.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::thread::JoinHandle;

use tokio::sync::{oneshot, watch};

use super::error::MachineError;
use super::{DaemonError, GRACE, stopped};

/// The thread of a machine.
pub(crate) struct MachineThread {
    stop: Box<dyn Fn() + Send>,
    handle: JoinHandle<Result<(), MachineError>>,
    /// Its other end is dropped when the thread ends, in whatever way.
    ended: oneshot::Receiver<()>,
}

impl MachineThread {
    /// Starts it; `stop` has its loop end.
    pub(super) fn start(
        name: &str,
        machine_loop: impl FnOnce() -> Result<(), MachineError> + Send + 'static,
        stop: impl Fn() + Send + 'static,
    ) -> Result<MachineThread, DaemonError> {
        let (alive, ended) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name(name.to_owned());
        let handle = thread.spawn(move || {
            let _alive = alive;
            machine_loop()
        });
        Ok(MachineThread { stop: Box::new(stop), handle: handle.map_err(DaemonError::Thread)?, ended })
    }

    /// Stops the thread and waits for its end; gives why it could not go on.
    pub(crate) async fn end(self) -> Result<(), DaemonError> {
        (self.stop)();
        let handle = self.handle;
        let ended = tokio::task::spawn_blocking(move || handle.join()).await.expect("waiting does not panic");
        Ok(ended.map_err(|_| DaemonError::Panicked)??)
    }
}

/// Serves until `stop` says so, `served` ends, or one of the threads does. Then `halt` asks everything of the daemon to
/// end, open calls have [`GRACE`] for it, and the threads are stopped in their order.
///
/// # Errors
///
/// Why a thread could not go on, which is logged at once, or why connections could not be served.
pub(super) async fn supervise(
    served: impl Future<Output = Result<(), tonic::transport::Error>>,
    mut threads: Vec<MachineThread>,
    stop: watch::Receiver<bool>,
    halt: &watch::Sender<bool>,
) -> Result<(), DaemonError> {
    let mut served = pin!(served);
    let mut early = None;
    let gone = tokio::select! {
        served = served.as_mut() => { early = Some(served); None }
        () = stopped(stop) => None,
        index = first_to_end(&mut threads) => Some(index),
    };
    let mut outcome = Ok(());
    if let Some(index) = gone {
        outcome = threads.remove(index).end().await.and(Err(DaemonError::Panicked));
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
    for thread in threads {
        let ended = thread.end().await;
        if let Err(error) = &ended {
            tracing::error!(%error, "a thread of the daemon did not end in order");
        }
        outcome = outcome.and(ended);
    }
    outcome?;
    served.map_err(DaemonError::Transport)
}

/// Waits until one of the threads has ended, and gives its index.
async fn first_to_end(threads: &mut [MachineThread]) -> usize {
    poll_fn(|context| {
        let is_over = |thread: &mut MachineThread| Pin::new(&mut thread.ended).poll(context).is_ready();
        threads.iter_mut().position(is_over).map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
