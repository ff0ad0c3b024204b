//! What the functions of the boundary share: codes from outcomes, and variables of the program.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::code::{Code, Failure, Outcome};
use crate::handles::HandleAddress;
use crate::library::{self, Library};
use crate::sessions::{Ended, SessionId, VOID};

/// The longest array of session IDs. A longer one has a wrong length, such as -1, and is not read.
const IDS_MAX: usize = 1 << 24;

/// A function handle: known by its address, its memory is the program's.
#[repr(C)]
pub struct FunctionHandle {
    reserved: [*mut c_void; 2],
}

#[cfg(any(test, feature = "fuzzing"))]
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

/// Runs a function of the standard in the initialized library.
pub(super) fn run(act: impl FnOnce(&Library) -> Outcome) -> c_int {
    guarded(|| library::enter(act))
}

pub(super) fn null(what: &str) -> Failure {
    Failure::new(Code::OtherErrorCode, format!("expected the address of {what}, found a null pointer"))
}

/// The address of a handle. Its provenance is exposed, since `grpc_get_handle` makes a pointer of the address again.
pub(super) fn address(handle: *mut FunctionHandle) -> HandleAddress {
    HandleAddress(handle.expose_provenance())
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
    // SAFETY: it is not null, so the caller promises a variable there, which may not be aligned.
    unsafe { to.write_unaligned(value) };
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
/// The pointer is null or that of so many IDs, unless there are more than [`IDS_MAX`].
pub(super) unsafe fn ids(from: *const SessionId, length: usize) -> Outcome<Vec<SessionId>> {
    if length > IDS_MAX {
        let text = format!("expected at most {IDS_MAX} session IDs, found {length}");
        return Err(Failure::new(Code::InvalidSessionId, text));
    }
    // SAFETY: passed on.
    unsafe { elements(from, length, "session IDs") }
}

/// A copy of an array of the program.
///
/// # Safety
///
/// The pointer is null or that of so many elements.
pub(super) unsafe fn elements<T: Copy>(from: *const T, length: usize, name: &str) -> Outcome<Vec<T>> {
    if length == 0 {
        return Ok(Vec::new());
    }
    if from.is_null() {
        return Err(null(name));
    }
    let mut elements: Vec<T> = Vec::with_capacity(length);
    // SAFETY: it is not null, so the caller promises an array of that length; bytes need no alignment, and the new vector has the capacity,
    // all of which is written.
    unsafe {
        let bytes = length * size_of::<T>();
        ptr::copy_nonoverlapping(from.cast::<u8>(), elements.as_mut_ptr().cast::<u8>(), bytes);
        elements.set_len(length);
    }
    Ok(elements)
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

/// Sets a variable for a session ID to none, until there is one.
///
/// # Safety
///
/// As of [`write`].
pub(super) unsafe fn set_to_none(to: *mut SessionId) -> Outcome {
    // SAFETY: passed on.
    unsafe { write(to, "a session ID", VOID) }
}

/// The text of the last error of this thread.
pub(super) fn last_error() -> String {
    LAST_ERROR.try_with(|last| last.borrow().clone()).unwrap_or_default()
}
