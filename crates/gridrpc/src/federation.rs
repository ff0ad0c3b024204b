//! What the library needs of a federation: [`live`](crate::live) asks a real one, tests a simulated one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pliant_calls::{Signature, Value};
use pliant_client::calls::TypedService;
use pliant_control::names::Name;

use crate::code::{Failure, Outcome};

/// A function that a handle is bound to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Function {
    /// The service.
    pub(crate) service: TypedService,
    /// The only server that is called; the best one if it is none.
    pub(crate) server: Option<Name>,
}

impl Function {
    /// Its parameters.
    pub(crate) fn signature(&self) -> &Signature {
        &self.service.signature
    }
}

/// A call to start.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Call {
    /// What is called.
    pub(crate) function: Arc<Function>,
    /// One value for each parameter; none for outputs and files.
    pub(crate) arguments: Vec<Option<Value>>,
    /// The paths of files, by the position of their parameter: read if they are inputs, written if they are outputs.
    pub(crate) files: BTreeMap<usize, PathBuf>,
}

/// Values that came back, one for each parameter; none for inputs. Files are at their output paths already.
pub(crate) type Results = Vec<Option<Value>>;

/// How a call ended.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum CallOutcome {
    /// With these outputs.
    Completed(Results),
    /// Without outputs.
    Failed(Failure),
    /// It was cancelled, by this program or by another client.
    Cancelled,
}

/// What an exploration has completed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Explored {
    /// Mandatory requests that are completed.
    pub(crate) mandatory: u32,
    /// Optional requests that are completed.
    pub(crate) optional: u32,
    /// Requests that have failed.
    pub(crate) failed: u32,
    /// How long after the deadline the last mandatory request was completed, in seconds; 0 if it was in time.
    pub(crate) late_s: f64,
}

/// What is notified once a call has ended: once, on a thread of the federation.
pub(crate) type OnEnd = Box<dyn FnOnce(CallOutcome) + Send>;

/// A way into a federation. Its functions wait for answers, unless [`Federation::close`] was called.
pub(crate) trait Federation: Send + Sync {
    /// The function of that name, at the best server or at a named one.
    fn function(&self, name: &str, server: Option<&str>) -> Outcome<Function>;

    /// Starts a call, and returns once a server has accepted it.
    fn start(&self, call: Call, on_end: OnEnd) -> Outcome<Arc<dyn RunningCall>>;

    /// Runs the exploration of these options in a folder until it is over, on this thread.
    fn explore(&self, options: Vec<String>, folder: &Path) -> Outcome<Explored>;

    /// Cancels what is under way, for some seconds at most, and lets every function that waits return.
    fn close(&self);

    /// Ends the threads of the federation. Comes after [`Federation::close`], when all other functions have returned.
    fn shut_down(&self);
}

/// A call under way.
pub(crate) trait RunningCall: Send + Sync {
    /// Begins to cancel the call. The returned function waits until a server has accepted the cancellation, at most until `until`.
    fn cancel(&self, until: Instant) -> Box<dyn FnOnce() -> Outcome>;
}
