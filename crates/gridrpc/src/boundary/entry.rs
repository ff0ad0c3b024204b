//! What the functions of the boundary share: codes from outcomes, and variables of the program.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use crate::code::{Code, Failure, Outcome};
use crate::handles::HandleAddress;
use crate::library::{self, Library};
use crate::sessions::{Ended, SessionId, VOID};

/// A function handle: known by its address, its memory is the program's.
#[repr(C)]
pub struct FunctionHandle {
    reserved: [*mut c_void; 2],
}

#[cfg(test)]
impl Default for FunctionHandle {
    fn default() -> FunctionHandle {
        FunctionHandle { reserved: [std::ptr::null_mut(); 2] }
    }
}

thread_local! {
    /// The text of the last error of this thread.
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs a function of the standard: its code, with the text kept. A panic is an error like others.
pub(super) fn guarded(act: impl FnOnce() -> Outcome) -> c_int {
    let panicked =
        |_| Err(Failure::new(Code::OtherErrorCode, "the library failed: this is a defect of Pliant"));
    match catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(panicked) {
        Ok(()) => Code::NoError.number(),
        Err(Failure { code, text }) => {
            // Without it when the thread is about to end.
            let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text);
            code.number()
        }
    }
}

/// Does something with the library.
pub(super) fn with(act: impl FnOnce(&Library) -> Outcome) -> c_int {
    guarded(|| library::with(act))
}

pub(super) fn null(what: &str) -> Failure {
    Failure::new(Code::OtherErrorCode, format!("expected the address of {what}, found a null pointer"))
}

pub(super) fn address(handle: *mut FunctionHandle) -> HandleAddress {
    HandleAddress(handle.addr())
}

/// Writes a result to where the program wants it.
///
/// # Safety
///
/// The pointer is null or that of such a variable.
pub(super) unsafe fn write<T>(to: *mut T, what: &str, value: T) -> Outcome {
    if to.is_null() {
        return Err(null(what));
    }
    // SAFETY: it is not null, so the caller promises a variable there.
    unsafe { to.write(value) };
    Ok(())
}

/// The text at a pointer; none if it is null.
///
/// # Safety
///
/// The pointer is null or that of a string, which stays unchanged as long as the text is used.
pub(super) unsafe fn text<'a>(from: *const c_char) -> Option<&'a CStr> {
    // SAFETY: it is not null, so the caller promises a string there.
    (!from.is_null()).then(|| unsafe { CStr::from_ptr(from) })
}

/// The session IDs of an array.
///
/// # Safety
///
/// The pointer is null or that of so many IDs, unless there are more than sessions.
pub(super) unsafe fn ids(
    library: &Library,
    from: *const SessionId,
    length: usize,
) -> Outcome<Vec<SessionId>> {
    let known = library.sessions.known()?;
    if length > known {
        let text =
            format!("expected at most {known} session IDs, since there are no more sessions, found {length}");
        return Err(Failure::new(Code::InvalidSessionId, text));
    }
    if from.is_null() && length > 0 {
        return Err(null("session IDs"));
    }
    let ids = match length {
        0 => &[],
        // SAFETY: it is not null, so the caller promises an array of that length, which is plausible.
        length => unsafe { slice::from_raw_parts(from, length) },
    };
    Ok(ids.to_vec())
}

/// Writes which session has ended, and returns its outcome.
///
/// # Safety
///
/// As of [`write`].
pub(super) unsafe fn write_ended(to: *mut SessionId, (id, outcome): Ended) -> Outcome {
    // SAFETY: passed on.
    unsafe { write(to, "a session ID", id) }?;
    outcome
}

/// Lets a variable for a session ID hold none until there is one.
///
/// # Safety
///
/// As of [`write`].
pub(super) unsafe fn void(to: *mut SessionId) -> Outcome {
    // SAFETY: passed on.
    unsafe { write(to, "a session ID", VOID) }
}

/// The text of the last error of this thread.
pub(super) fn last_error() -> String {
    LAST_ERROR.try_with(|last| last.borrow().clone()).unwrap_or_default()
}
