//! A real federation, over the client library.
//!
//! The library owns a runtime. Everything that touches a socket is a task of it. Its threads block all signals: handlers of the program run in
//! threads of the program, and a connection that breaks does not end the program by SIGPIPE.

mod exploration;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use parking_lot::Mutex;
use pliant_client::calls::{CallEnd, CallError, CallOrder, StartedCall, StoredData};
use pliant_client::{Client, ClientFile};
use pliant_config::ConfigError;
use pliant_control::names::Name;
use pliant_request::client_file;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, watch};

use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::{Call, CallOutcome, Explored, Federation, Function, OnEnd, RunningCall, Waiting};

/// How long [`Federation::close`] waits for cancellations.
const CLOSING: Duration = Duration::from_secs(10);
/// How long the end of the runtime's threads is waited for.
const SHUTDOWN: Duration = Duration::from_secs(1);
/// How soon a cancellation is tried again while no daemon answers.
const CANCEL_AGAIN: Duration = Duration::from_millis(500);
/// How many sessions are cancelled at once.
const CANCELLATIONS: usize = 64;
/// The threads of the runtime. They wait for sockets most of the time.
const THREADS: usize = 2;
/// What to do without a client's file.
const FILE_HINT: &str = "pass the path of the client's file to grpc_initialize or set PLIANT_CONFIG; `pliant up` starts a federation on this \
                         machine, whose file is taken without either";

/// A user's way into a federation.
pub(crate) struct LiveFederation {
    /// Some until it is shut down.
    runtime: Mutex<Option<Runtime>>,
    shared: Arc<Shared>,
    /// Some until it is closed.
    calls: Mutex<Option<CallsUnderWay>>,
}

/// Notices when every call has ended: each holds a guard.
struct CallsUnderWay {
    guard: CallGuard,
    ended: Receiver<Infallible>,
}

/// Held by a call that is under way.
#[derive(Clone)]
struct CallGuard(
    #[expect(dead_code, reason = "the receiver notices when the last one is dropped")] Sender<Infallible>,
);

impl CallsUnderWay {
    fn new() -> CallsUnderWay {
        let (sender, ended) = mpsc::channel();
        CallsUnderWay { guard: CallGuard(sender), ended }
    }

    /// Waits until every call has ended, at most for a time.
    fn wait(self, limit: Duration) {
        let CallsUnderWay { guard, ended } = self;
        drop(guard);
        // Nothing is ever sent: either the last guard is dropped, or the time is over.
        let _ = ended.recv_timeout(limit);
    }
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
        // Threads inherit the signal mask of the thread that starts them: here the workers, which start the others.
        let _blocked = BlockedSignals::new();
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("pliant-gridrpc")
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
        Ok(LiveFederation {
            runtime: Mutex::new(Some(runtime)),
            shared: Arc::new(shared),
            calls: Mutex::new(Some(CallsUnderWay::new())),
        })
    }
}

impl Drop for LiveFederation {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Blocks signals in this thread until it is dropped.
struct BlockedSignals(Option<SigSet>);

impl BlockedSignals {
    fn new() -> BlockedSignals {
        let mut signals = SigSet::all();
        // Those that a thread causes itself end the process, whether they are blocked or not; debuggers handle them better unblocked.
        for signal in [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGFPE, Signal::SIGILL, Signal::SIGTRAP] {
            signals.remove(signal);
        }
        // It fails for invalid arguments only.
        BlockedSignals(signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok())
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            let _ = before.thread_set_mask();
        }
    }
}

fn client_file(path: Option<&Path>) -> Outcome<ClientFile> {
    // The hints of the command name options of the command.
    let path = client_file::path(path)
        .map_err(|error| with_hint(Code::ConfigFileNotFound, &error, Some(FILE_HINT)))?;
    ClientFile::read(&path).map_err(|error| match error {
        ConfigError::Io { .. } => with_hint(Code::ConfigFileNotFound, &error, Some(FILE_HINT)),
        _ => with_hint(Code::ConfigFileError, &error, error.hint()),
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
            // The receiver may be gone.
            let _ = sender.send(outcome);
        });
        Box::new(move || receiver.recv().unwrap_or_else(|_| Err(without_answer())))
    }

    async fn closing(&self) {
        // The sender is ours.
        let _ = self.is_closing.subscribe().wait_for(|is_closing| *is_closing).await;
    }

    /// Cancels a call, also while its server starts again. Its end is noticed by [`follow`].
    async fn cancel(&self, call: &StartedCall, until: Instant) -> Outcome {
        let attempts = async {
            let _permit = self.cancellations.acquire().await;
            loop {
                match self.client.cancel(&call.job).await.map_err(CallError::from) {
                    Ok(_) => return Ok(()),
                    Err(error) if error.may_pass() => tokio::time::sleep(CANCEL_AGAIN).await,
                    Err(error) => return Err(of_call(&error)),
                }
            }
        };
        let late = |_| {
            let text =
                format!("expected an answer to the cancellation of job {}, found none in time", call.job);
            Err(Failure::new(Code::CommunicationFailed, text))
        };
        tokio::time::timeout_at(until.into(), attempts).await.unwrap_or_else(late)
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

    fn start(&self, call: Call, waiting: Waiting, on_end: OnEnd) -> Outcome<Arc<dyn RunningCall>> {
        let guard = self.calls.lock().as_ref().map(|calls| calls.guard.clone());
        let guard = guard.ok_or_else(not_initialized)?;
        let order = order(call);
        let (shared, (accepted, wait)) = (self.shared.clone(), mpsc::channel());
        self.shared.runtime.spawn(async move {
            follow(&shared, (&order, waiting), accepted, EndNotice(Some(on_end))).await;
            drop(guard);
        });
        let started = wait.recv().unwrap_or_else(|_| Err(without_answer()))?;
        Ok(Arc::new(LiveCall { started, shared: self.shared.clone() }))
    }

    fn delete_data(&self, data: &StoredData) -> Outcome {
        let (client, data) = (self.shared.client.clone(), data.clone());
        let delete = self
            .shared
            .run(async move { client.delete_data(&data).await.map_err(|error| of_call(&error.into())) });
        delete()
    }

    fn explore(&self, options: Vec<String>, folder: &Path) -> Outcome<Explored> {
        self.shared.explore(options, folder)
    }

    fn close(&self) {
        self.shared.is_closing.send_replace(true);
        let calls = self.calls.lock().take();
        if let Some(calls) = calls {
            calls.wait(CLOSING);
        }
    }

    fn shut_down(&self) {
        let runtime = self.runtime.lock().take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(SHUTDOWN);
        }
    }
}

/// Notifies of the end of a call, also if the task that follows the call is dropped or panics.
struct EndNotice(Option<OnEnd>);

impl EndNotice {
    fn send(mut self, outcome: CallOutcome) {
        if let Some(on_end) = self.0.take() {
            on_end(outcome);
        }
    }
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        if let Some(on_end) = self.0.take() {
            on_end(CallOutcome::Failed(without_answer()));
        }
    }
}

/// Starts a call, reports that a server has accepted it, waits for its end and reports that. A call that is under way when the library is
/// closed is cancelled.
async fn follow(
    shared: &Shared,
    (order, waiting): (&CallOrder, Waiting),
    accepted: Sender<Outcome<StartedCall>>,
    notice: EndNotice,
) {
    let starting = async {
        match waiting {
            Waiting::AtOnce => shared.client.begin_call(order).await,
            Waiting::Later => shared.client.start_call(order).await.map(|started| (started, None)),
        }
    };
    let mut starting = std::pin::pin!(starting);
    let started = tokio::select! {
        biased;
        started = &mut starting => started,
        () = shared.closing() => {
            let _ = accepted.send(Err(not_initialized()));
            // A server may accept it all the same.
            starting.await
        }
    };
    let (started, end) = match started {
        Ok(started) => started,
        Err(error) => {
            let _ = accepted.send(Err(of_call(&error)));
            return;
        }
    };
    if let Some(end) = end {
        // Before the program goes on, which then need not wait for it.
        notice.send(ended(Ok(end)));
        let _ = accepted.send(Ok(started));
        return;
    }
    let _ = accepted.send(Ok(started.clone()));
    tokio::select! {
        end = shared.client.wait_call(&started) => notice.send(ended(end)),
        () = shared.closing() => {
            // The server logs the cancellation. The program gets no error: the functions that could return it have returned.
            let _ = shared.cancel(&started, Instant::now() + CLOSING).await;
        }
    }
}

fn order(call: Call) -> CallOrder {
    let Call { function, arguments, files, data } = call;
    // The program may change its folder before an output comes.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    let files = files.into_iter().map(|(position, path)| (position, absolute(path))).collect();
    CallOrder {
        server: function.server.clone(),
        files,
        stored: data.stored,
        keep: data.keep,
        ..CallOrder::new(function.service.clone(), arguments)
    }
}

fn ended(end: Result<CallEnd, CallError>) -> CallOutcome {
    match end {
        Ok(CallEnd::Completed(results)) => CallOutcome::Completed(results),
        Ok(CallEnd::Failed { exit, reason }) => {
            CallOutcome::Failed(Failure::new(Code::SessionFailed, format!("{exit}: {reason}")))
        }
        Ok(CallEnd::Cancelled) => CallOutcome::Cancelled,
        Err(error) => CallOutcome::Failed(of_call(&error)),
    }
}

fn of_call(error: &CallError) -> Failure {
    let code = match error {
        CallError::NoSuchServer(_) => Code::ServerNotFound,
        CallError::NoSuchService(_) | CallError::NotTyped(_) => Code::FunctionNotFound,
        CallError::Refused(_) | CallError::DataBounds(_) => Code::RpcRefused,
        CallError::NoData(_) => Code::NoData,
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
    fn cancel(&self, until: Instant) -> Box<dyn FnOnce() -> Outcome> {
        let (shared, started) = (self.shared.clone(), self.started.clone());
        self.shared.run(async move { shared.cancel(&started, until).await })
    }

    fn stored_data(&self) -> BTreeMap<usize, StoredData> {
        self.started.stored_data()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn the_end_of_a_call_is_notified_once_also_by_a_panic() {
        let notified = |act: fn(EndNotice)| {
            let (sender, ended) = mpsc::channel();
            let notice = EndNotice(Some(Box::new(move |outcome| sender.send(outcome).unwrap())));
            let _ = catch_unwind(AssertUnwindSafe(|| act(notice)));
            ended.into_iter().collect::<Vec<_>>()
        };
        let without_answer = vec![CallOutcome::Failed(without_answer())];
        assert_eq!(notified(|notice| notice.send(CallOutcome::Cancelled)), [CallOutcome::Cancelled]);
        assert_eq!(notified(drop), without_answer);
        assert_eq!(
            notified(|notice| {
                let _notice = notice;
                panic!("as the test asked")
            }),
            without_answer
        );
    }

    #[test]
    fn calls_are_under_way_until_the_last_guard_is_dropped() {
        let calls = CallsUnderWay::new();
        let guards = [calls.guard.clone(), calls.guard.clone()];
        let waiting = std::thread::spawn(move || calls.wait(Duration::from_secs(3600)));
        let [first, second] = guards;
        drop(first);
        assert!(!waiting.is_finished());
        drop(second);
        waiting.join().unwrap();
    }

    #[test]
    fn signals_are_blocked_in_threads_that_start_meanwhile() {
        let mask = || SigSet::thread_get_mask().unwrap();
        let before = mask();
        let blocked = BlockedSignals::new();
        let inherited = std::thread::spawn(mask).join().unwrap();
        drop(blocked);
        for (signal, is_blocked) in
            [(Signal::SIGPIPE, true), (Signal::SIGINT, true), (Signal::SIGSEGV, false)]
        {
            assert_eq!(inherited.contains(signal), is_blocked, "{signal}");
        }
        assert_eq!(mask(), before);
    }

    #[test]
    fn a_function_has_the_name_of_its_service() {
        let check = |function, service| assert_eq!(service_name(function), service);
        check("SUCC", "succ");
        check("matrix_Product2", "matrix-product2");
        check("mmul", "mmul");
    }
}
