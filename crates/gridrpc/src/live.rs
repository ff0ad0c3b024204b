//! A real federation, over the client library.
//!
//! The library owns a runtime. Everything that touches a socket is a task of it, and its threads take no signals: those go to the
//! threads of the program, which a connection that breaks must not end by SIGPIPE.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use pliant_client::{Client, ClientFile};
use pliant_config::ConfigError;
use pliant_request::{RequestError, client_file};
use tokio::runtime::{Builder, Runtime};

use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::{Call, Federation, Function, OnEnd, RunningCall};

/// How long the end of the runtime's threads is waited for.
const SHUTDOWN: Duration = Duration::from_secs(1);
/// The threads of the runtime. They wait for sockets most of the time.
const THREADS: usize = 2;

/// A user's way into a federation.
pub(crate) struct LiveFederation {
    /// Some until it is dropped.
    runtime: Option<Runtime>,
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
        Client::new(&file).map_err(|error| with_hint(Code::ConfigFileError, &error, error.hint()))?;
        drop(entered);
        Ok(LiveFederation { runtime: Some(runtime) })
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

impl Federation for LiveFederation {
    fn function(&self, name: &str, _server: Option<&str>) -> Outcome<Function> {
        Err(Failure::new(Code::FunctionNotFound, format!("{name}: typed services are not connected yet")))
    }

    fn start(&self, _call: Call, _on_end: OnEnd) -> Outcome<Arc<dyn RunningCall>> {
        Err(not_initialized())
    }

    fn close(&self) {}
}
