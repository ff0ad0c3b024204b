//! What the library needs of a federation: [`live`](crate::live) asks a real one, tests a simulated one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pliant_calls::{Signature, Value};
use pliant_client::calls::{Keep, StoredData, TypedService};
use pliant_control::names::Name;

use crate::code::{Code, Failure, Outcome};

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
    /// The data at servers that it takes and leaves.
    pub(crate) data: CallData,
}

/// Data at servers that a call takes and leaves, by the positions of their parameters.
#[derive(Clone, PartialEq, Default, Debug)]
pub(crate) struct CallData {
    /// Inputs that are at a server. They have no value in the call.
    pub(crate) stored: BTreeMap<usize, StoredData>,
    /// Values that stay at the server.
    pub(crate) keep: BTreeMap<usize, Keep>,
}

impl CallData {
    /// True if the input at a position is at a server.
    pub(crate) fn is_stored(&self, position: usize) -> bool {
        self.stored.contains_key(&position)
    }

    /// True if the output at a position stays at the server and does not come back.
    pub(crate) fn is_left(&self, position: usize) -> bool {
        self.keep.get(&position).is_some_and(|keep| !keep.returned)
    }

    /// An error if a value cannot be data, or is no input and is to be taken.
    pub(crate) fn check(&self, signature: &Signature) -> Outcome {
        let parameters = signature.parameters();
        for (position, is_input) in
            self.stored.keys().map(|at| (*at, true)).chain(self.keep.keys().map(|at| (*at, false)))
        {
            let wrong = |text: String| Err(Failure::new(Code::OtherErrorCode, text));
            let Some(parameter) = parameters.get(position) else {
                let most = parameters.len();
                return wrong(format!(
                    "data: expected the position of one of {most} parameters, found {position}"
                ));
            };
            if !parameter.kind.can_stay() {
                return wrong(format!(
                    "data of argument `{}`: expected a vector, a matrix or a string with a capacity, found `{parameter}`: numbers and files do \
                     not stay at servers",
                    parameter.name
                ));
            }
            if is_input && !parameter.direction.is_input() {
                let name = &parameter.name;
                return wrong(format!("data of argument `{name}`: expected an input, found `{parameter}`"));
            }
        }
        Ok(())
    }
}

/// How the end of a call is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waiting {
    /// The program waits for it: the call may end before its start is reported.
    AtOnce,
    /// The program goes on as soon as a server has accepted the call.
    Later,
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
    fn start(&self, call: Call, waiting: Waiting, on_end: OnEnd) -> Outcome<Arc<dyn RunningCall>>;

    /// Deletes data at a server. It is no error if they are gone.
    fn delete_data(&self, data: &StoredData) -> Outcome;

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

    /// The data that the call leaves at its server once it has completed, by the positions of their parameters.
    fn stored_data(&self) -> BTreeMap<usize, StoredData>;
}
