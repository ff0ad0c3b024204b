//! The library between `grpc_initialize` and `grpc_finalize`: handles and sessions over a federation. What the functions of the standard do,
//! in safe code.

use std::collections::BTreeMap;
use std::mem;
use std::path::Path;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use pliant_client::calls::StoredData;

use crate::code::{Code, Failure, Outcome, not_initialized};
use crate::federation::{Call, CallOutcome, Explored, Federation, OnEnd, Waiting};
use crate::handles::{Binding, HandleAddress, Handles};
use crate::sessions::{Deliver, NewSession, SessionId, Sessions};

/// The library, if it is initialized.
static LIBRARY: Mutex<Option<Arc<Library>>> = Mutex::new(None);
/// The process that [`LIBRARY`] belongs to; 0 before the first initialization. A forked child has a copy of its parent's library without the
/// threads of it, and neither uses nor frees that copy.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// How long a forked child waits for the lock of [`LIBRARY`], which a thread of its parent may have held.
const FORKED_LOCK: Duration = Duration::from_secs(1);

/// An initialized library.
pub(crate) struct Library {
    federation: Box<dyn Federation>,
    handles: Mutex<Handles>,
    pub(crate) sessions: Arc<Sessions>,
    /// How many functions of the program are in it.
    inside: Mutex<usize>,
    /// Notified when one returns.
    left: Condvar,
}

/// A call with what is needed to write its outputs.
pub(crate) struct PreparedCall {
    pub(crate) handle: HandleAddress,
    pub(crate) binding: Binding,
    pub(crate) call: Call,
    pub(crate) deliver: Deliver,
    /// What is notified of the data that the call leaves at its server, once that has accepted it, in the thread that starts the call.
    pub(crate) accepted: Accepted,
}

/// Is notified of the data that a call leaves at its server, by the positions of their parameters.
pub(crate) type Accepted = Box<dyn FnOnce(&BTreeMap<usize, StoredData>)>;

/// Initializes the library with the federation that `open` opens.
pub(crate) fn initialize(open: impl FnOnce() -> Outcome<Box<dyn Federation>>) -> Outcome {
    let already = || {
        Failure::new(
            Code::AlreadyInitialized,
            "expected the first call of grpc_initialize, or one after grpc_finalize, found another one",
        )
    };
    if own()?.is_some() {
        return Err(already());
    }
    // Without the lock, since files are read.
    let library = Arc::new(Library::new(open()?));
    {
        let mut current = own()?;
        if current.is_none() {
            *current = Some(library);
            return Ok(());
        }
    }
    // Another thread has initialized the library in the meantime.
    library.close();
    Err(already())
}

/// The library of this process. In a forked child, the parent's is forgotten first.
fn own() -> Outcome<MutexGuard<'static, Option<Arc<Library>>>> {
    let held = || {
        let text = "expected the library to be free in a forked process, found that its parent used it during the fork";
        Failure::new(Code::OtherErrorCode, text)
    };
    let mut current = match OWNER.load(Ordering::Relaxed) {
        owner if owner == 0 || owner == process::id() => LIBRARY.lock(),
        _ => LIBRARY.try_lock_for(FORKED_LOCK).ok_or_else(held)?,
    };
    if OWNER.swap(process::id(), Ordering::Relaxed) != process::id() {
        // Not dropped: its threads are only in the parent, and would be waited for.
        mem::forget(current.take());
    }
    Ok(current)
}

/// An error in a process that has not initialized the library, without a lock that a thread of its parent may hold.
fn expect_own() -> Outcome {
    match OWNER.load(Ordering::Relaxed) == process::id() {
        true => Ok(()),
        false => Err(not_initialized()),
    }
}

/// Ends what [`initialize`] began, and returns once no other function is in the library.
pub(crate) fn finalize() -> Outcome {
    expect_own()?;
    let library = LIBRARY.lock().take().ok_or_else(not_initialized)?;
    library.close();
    Ok(())
}

/// Enters the initialized library, and runs a function there.
pub(crate) fn enter<T>(act: impl FnOnce(&Library) -> Outcome<T>) -> Outcome<T> {
    expect_own()?;
    let library = {
        let current = LIBRARY.lock();
        let library = current.clone().ok_or_else(not_initialized)?;
        // Under the lock: `finalize` waits for it.
        *library.inside.lock() += 1;
        library
    };
    let _inside = Inside(&library);
    act(&library)
}

/// Leaves the library when it is dropped, also during a panic.
struct Inside<'a>(&'a Library);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        *self.0.inside.lock() -= 1;
        self.0.left.notify_all();
    }
}

impl Library {
    pub(crate) fn new(federation: Box<dyn Federation>) -> Library {
        Library {
            federation,
            handles: Mutex::default(),
            sessions: Arc::new(Sessions::new()),
            inside: Mutex::new(0),
            left: Condvar::new(),
        }
    }

    /// Cancels everything, lets the functions of other threads return, waits until they have, and ends the threads of the library.
    pub(crate) fn close(&self) {
        self.sessions.close();
        self.federation.close();
        let mut inside = self.inside.lock();
        while *inside > 0 {
            self.left.wait(&mut inside);
        }
        drop(inside);
        // Not left to the last owner: a thread that has just returned may still hold the library for a moment.
        self.federation.shut_down();
    }

    /// Initializes a handle.
    pub(crate) fn bind(&self, at: HandleAddress, name: &str, server: Option<&str>) -> Outcome {
        if at.0 == 0 {
            return Err(Failure::new(
                Code::InvalidFunctionHandle,
                "expected the address of a handle, found a null pointer",
            ));
        }
        let function = self.federation.function(name, server)?;
        self.handles.lock().bind(at, function);
        Ok(())
    }

    /// Frees a handle.
    pub(crate) fn destruct(&self, at: HandleAddress) -> Outcome {
        self.handles.lock().destruct(at)
    }

    /// What a handle is bound to.
    pub(crate) fn binding(&self, at: HandleAddress) -> Outcome<Binding> {
        self.handles.lock().get(at)
    }

    /// The handle of a session.
    pub(crate) fn handle(&self, id: SessionId) -> Outcome<HandleAddress> {
        let (at, number) = self.sessions.handle(id)?;
        match self.handles.lock().is_bound(at, number) {
            true => Ok(at),
            false => Err(Failure::new(
                Code::InvalidFunctionHandle,
                format!("expected the handle of session {id}, found that it was destructed"),
            )),
        }
    }

    /// Calls a function, and waits for its outputs.
    pub(crate) fn call(&self, prepared: PreparedCall) -> Outcome {
        let id = self.start(prepared, Waiting::AtOnce)?;
        self.sessions.finish(id)
    }

    /// Starts a call.
    pub(crate) fn call_async(&self, prepared: PreparedCall) -> Outcome<SessionId> {
        self.start(prepared, Waiting::Later)
    }

    /// Deletes data at a server.
    pub(crate) fn delete_data(&self, data: &StoredData) -> Outcome {
        self.federation.delete_data(data)
    }

    /// Runs an exploration until it is over.
    pub(crate) fn explore(&self, options: Vec<String>, folder: &Path) -> Outcome<Explored> {
        self.federation.explore(options, folder)
    }

    fn start(&self, prepared: PreparedCall, waiting: Waiting) -> Outcome<SessionId> {
        let PreparedCall { handle, binding, call, deliver, accepted } = prepared;
        let is_asynchronous = waiting == Waiting::Later;
        let new = NewSession { handle: (handle, binding.number), is_asynchronous, deliver };
        let id = self.sessions.begin(new)?;
        let sessions = Arc::downgrade(&self.sessions);
        let on_end: OnEnd = Box::new(move |outcome: CallOutcome| {
            if let Some(sessions) = sessions.upgrade() {
                sessions.ended(id, outcome);
            }
        });
        match self.federation.start(call, waiting, on_end) {
            Ok(running) => {
                accepted(&running.stored_data());
                self.sessions.accepted(id, running).map(|()| id)
            }
            Err(failure) => {
                self.sessions.not_started(id);
                Err(failure)
            }
        }
    }
}

#[cfg(test)]
mod tests;
