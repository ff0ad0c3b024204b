//! A real federation, over the client library.
//!
//! The library owns a runtime. Everything that touches a socket is a task of it, and its threads take no signals: those go to the
//! threads of the program, which a connection that breaks must not end by SIGPIPE.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use parking_lot::Mutex;
use pliant_client::calls::{CallEnd, CallError, CallOrder, StartedCall};
use pliant_client::{Client, ClientFile};
use pliant_config::ConfigError;
use pliant_control::names::Name;
use pliant_request::{RequestError, client_file};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::{Call, Federation, Function, OnEnd, Results, RunningCall};

/// How long [`Federation::close`] waits for cancellations.
const CLOSING: Duration = Duration::from_secs(10);
/// How long the end of the runtime's threads is waited for.
const SHUTDOWN: Duration = Duration::from_secs(1);
/// How long the cancellation of a session is tried while no daemon answers.
const CANCELLING: Duration = Duration::from_secs(60);
/// How soon it is tried again.
const CANCEL_AGAIN: Duration = Duration::from_millis(500);
/// How many sessions are cancelled at once.
const CANCELLATIONS: usize = 64;
/// The threads of the runtime. They wait for sockets most of the time.
const THREADS: usize = 2;

/// A user's way into a federation.
pub(crate) struct LiveFederation {
    /// Some until it is dropped.
    runtime: Option<Runtime>,
    shared: Arc<Shared>,
    /// Disconnected once every call has ended: each holds a clone of the sender.
    calls: Mutex<Option<(Sender<Infallible>, Receiver<Infallible>)>>,
}

/// What calls need.
struct Shared {
    client: Client,
    runtime: Handle,
    is_closing: watch::Sender<bool>,
    cancellations: Semaphore,
}

impl LiveFederation {
    /// Reads the client's file: the given one, or the one that the command takes. Connects with the first call.
    pub(crate) fn open(path: Option<&Path>) -> Outcome<LiveFederation> {
        let file = client_file(path)?;
        let failed = |error| Failure::new(Code::OtherErrorCode, format!("cannot start threads: {error}"));
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("pliant-gridrpc")
            .on_thread_start(block_signals)
            .enable_all()
            .build()
            .map_err(failed)?;
        // Connections are tasks of the runtime.
        let entered = runtime.enter();
        let client =
            Client::new(&file).map_err(|error| with_hint(Code::ConfigFileError, &error, error.hint()))?;
        drop(entered);
        let shared = Shared {
            client,
            runtime: runtime.handle().clone(),
            is_closing: watch::Sender::new(false),
            cancellations: Semaphore::new(CANCELLATIONS),
        };
        let calls = Mutex::new(Some(mpsc::channel()));
        Ok(LiveFederation { runtime: Some(runtime), shared: Arc::new(shared), calls })
    }
}

impl Drop for LiveFederation {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(SHUTDOWN);
        }
    }
}

fn block_signals() {
    let mut signals = SigSet::all();
    // Those that a thread causes itself end the process, whether they are blocked or not; debuggers rather see them.
    for signal in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP] {
        signals.remove(signal);
    }
    // It fails for invalid arguments only.
    let _ = signals.thread_block();
}

fn client_file(path: Option<&Path>) -> Outcome<ClientFile> {
    let missing = |error: RequestError| with_hint(Code::ConfigFileNotFound, &error, error.hint_text());
    let path = client_file::path(path).map_err(missing)?;
    ClientFile::read(&path).map_err(|error| {
        let code = match error {
            ConfigError::Io { .. } => Code::ConfigFileNotFound,
            _ => Code::ConfigFileError,
        };
        with_hint(code, &error, error.hint())
    })
}

fn with_hint(code: Code, error: &impl std::fmt::Display, hint: Option<&str>) -> Failure {
    match hint {
        Some(hint) => Failure::new(code, format!("{error}\nhint: {hint}")),
        None => Failure::new(code, error),
    }
}

impl Shared {
    /// Runs a task of the runtime until it ends or the library is closed, and waits for that.
    fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = Outcome<T>> + Send + 'static,
    ) -> Box<dyn FnOnce() -> Outcome<T>> {
        let (sender, receiver) = mpsc::channel();
        let mut is_closing = self.is_closing.subscribe();
        self.runtime.spawn(async move {
            let outcome = tokio::select! {
                biased;
                outcome = task => outcome,
                _ = is_closing.wait_for(|is_closing| *is_closing) => Err(not_initialized()),
            };
            // The program may not wait any more.
            let _ = sender.send(outcome);
        });
        Box::new(move || receiver.recv().unwrap_or_else(|_| Err(without_answer())))
    }

    async fn closing(&self) {
        // The sender is ours.
        let _ = self.is_closing.subscribe().wait_for(|is_closing| *is_closing).await;
    }

    /// Cancels a call, also while its server starts again.
    async fn cancel(&self, started: &StartedCall) -> Outcome {
        let _permit = self.cancellations.acquire().await;
        let until = Instant::now() + CANCELLING;
        loop {
            match self.client.cancel_call(started).await {
                Ok(_) => return Ok(()),
                Err(error) if error.may_pass() && Instant::now() < until => {
                    tokio::time::sleep(CANCEL_AGAIN).await;
                }
                Err(error) => return Err(of_call(&error)),
            }
        }
    }
}

/// The service of a function. Programs for other GridRPC middleware have names with capitals and `_`, which no service has.
fn service_name(function: &str) -> String {
    function.to_ascii_lowercase().replace('_', "-")
}

/// The failure of a task that has not answered: the runtime has ended, or the task has panicked.
fn without_answer() -> Failure {
    Failure::new(Code::OtherErrorCode, "the library was finalized, or failed")
}

impl Federation for LiveFederation {
    fn function(&self, name: &str, server: Option<&str>) -> Outcome<Function> {
        let unknown = |server: &str| {
            Failure::new(Code::ServerNotFound, format!("expected the name of a server, found {server:?}"))
        };
        let server: Option<Name> =
            server.map(|server| server.parse().map_err(|_| unknown(server))).transpose()?;
        let (client, name) = (self.shared.client.clone(), service_name(name));
        let find = self.shared.run(async move {
            let service =
                client.typed_service(&name, server.as_ref()).await.map_err(|error| of_call(&error))?;
            Ok(Function { service, server })
        });
        find()
    }

    fn start(&self, call: Call, on_end: OnEnd) -> Outcome<Arc<dyn RunningCall>> {
        let alive = self.calls.lock().as_ref().map(|(sender, _)| sender.clone());
        let alive = alive.ok_or_else(not_initialized)?;
        let order = order(call);
        let (shared, (accepted, wait)) = (self.shared.clone(), mpsc::channel());
        self.shared.runtime.spawn(async move {
            follow(&shared, &order, accepted, on_end).await;
            drop(alive);
        });
        let started = wait.recv().unwrap_or_else(|_| Err(without_answer()))?;
        Ok(Arc::new(LiveCall { started, shared: self.shared.clone() }))
    }

    fn close(&self) {
        self.shared.is_closing.send_replace(true);
        let Some((sender, ended)) = self.calls.lock().take() else { return };
        drop(sender);
        // Nothing is ever sent: it is disconnected, or the time is over.
        let _ = ended.recv_timeout(CLOSING);
    }
}

/// Starts a call, says so, waits for its end, and says so; a call that is under way when the library is closed is cancelled.
async fn follow(shared: &Shared, order: &CallOrder, accepted: Sender<Outcome<StartedCall>>, on_end: OnEnd) {
    let mut starting = std::pin::pin!(shared.client.start_call(order));
    let started = tokio::select! {
        biased;
        started = &mut starting => started,
        () = shared.closing() => {
            let _ = accepted.send(Err(not_initialized()));
            // A server may accept it all the same.
            starting.await
        }
    };
    let started = match started {
        Ok(started) => started,
        Err(error) => {
            let _ = accepted.send(Err(of_call(&error)));
            return;
        }
    };
    let _ = accepted.send(Ok(started.clone()));
    tokio::select! {
        end = shared.client.wait_call(&started) => on_end(ended(end)),
        () = shared.closing() => {
            // It is said in the log of the server, and there is no one left who reads an error here.
            let _ = shared.cancel(&started).await;
        }
    }
}

fn order(call: Call) -> CallOrder {
    let Call { function, arguments, files } = call;
    // The program may change its folder before an output comes.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let files = files.into_iter().map(|(position, path)| (position, absolute(path))).collect();
    CallOrder {
        server: function.server.clone(),
        files,
        ..CallOrder::new(function.service.clone(), arguments)
    }
}

fn ended(end: Result<CallEnd, CallError>) -> Outcome<Results> {
    match end {
        Ok(CallEnd::Completed(results)) => Ok(results),
        Ok(CallEnd::Failed { exit, reason }) => {
            Err(Failure::new(Code::SessionFailed, format!("{exit}: {reason}")))
        }
        Ok(CallEnd::Cancelled) => Err(Failure::new(Code::SessionFailed, "the call was cancelled")),
        Err(error) => Err(of_call(&error)),
    }
}

fn of_call(error: &CallError) -> Failure {
    let code = match error {
        CallError::NoSuchServer(_) => Code::ServerNotFound,
        CallError::NoSuchService(_) | CallError::NotTyped(_) => Code::FunctionNotFound,
        CallError::Refused(_) => Code::RpcRefused,
        CallError::Unavailable(_) => Code::CommunicationFailed,
        _ => Code::OtherErrorCode,
    };
    with_hint(code, error, error.hint())
}

/// A call at a server.
struct LiveCall {
    started: StartedCall,
    shared: Arc<Shared>,
}

impl RunningCall for LiveCall {
    fn cancel(&self) -> Box<dyn FnOnce() -> Outcome> {
        let (shared, started) = (self.shared.clone(), self.started.clone());
        self.shared.run(async move { shared.cancel(&started).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_the_name_of_its_service() {
        let check = |function, service| assert_eq!(service_name(function), service);
        check("SUCC", "succ");
        check("matrix_Product2", "matrix-product2");
        check("mmul", "mmul");
    }
}
