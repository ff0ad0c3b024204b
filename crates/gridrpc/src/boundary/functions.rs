//! The functions of `grpc.h`, but for calls and errors. What each of them means is said there.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "grpc.h says what pointers point to; null pointers give a code"
)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::entry::{FunctionHandle, address, guarded, ids, run, set_to_none, text, write, write_ended};
use crate::code::{Code, Failure};
use crate::handles::HandleAddress;
use crate::library;
use crate::live::LiveFederation;
use crate::sessions::SessionId;

/// `grpc_initialize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_initialize(config_file: *const c_char) -> c_int {
    guarded(|| {
        // SAFETY: grpc.h asks for a string or a null pointer.
        let path = unsafe { text(config_file) }.map(|path| Path::new(OsStr::from_bytes(path.to_bytes())));
        library::initialize(|| Ok(Box::new(LiveFederation::open(path)?)))
    })
}

/// `grpc_finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_finalize() -> c_int {
    guarded(library::finalize)
}

/// `grpc_function_handle_default`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_default(
    handle: *mut FunctionHandle,
    function_name: *const c_char,
) -> c_int {
    // SAFETY: passed on.
    unsafe { grpc_function_handle_init(handle, std::ptr::null(), function_name) }
}

/// `grpc_function_handle_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_function_handle_init(
    handle: *mut FunctionHandle,
    server_name: *const c_char,
    function_name: *const c_char,
) -> c_int {
    run(|library| {
        let not_utf8 =
            |code, what| move |_| Failure::new(code, format!("expected {what} in UTF-8, found other bytes"));
        // SAFETY: grpc.h asks for strings or null pointers.
        let (server, name) = unsafe { (text(server_name), text(function_name)) };
        let missing =
            || Failure::new(Code::FunctionNotFound, "expected the name of a function, found a null pointer");
        let name = name.ok_or_else(missing)?.to_str();
        let name = name.map_err(not_utf8(Code::FunctionNotFound, "the name of a function"))?;
        let server = server.map(CStr::to_str).transpose();
        let server = server.map_err(not_utf8(Code::ServerNotFound, "the name of a server"))?;
        library.bind(address(handle), name, server)
    })
}

/// `grpc_function_handle_destruct`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_function_handle_destruct(handle: *mut FunctionHandle) -> c_int {
    run(|library| library.destruct(address(handle)))
}

/// `grpc_get_handle`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_get_handle(handle: *mut *mut FunctionHandle, session: SessionId) -> c_int {
    run(|library| {
        let HandleAddress(at) = library.handle(session)?;
        // The program gave this address before, and has it back.
        let pointer = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: grpc.h asks for a variable or a null pointer.
        unsafe { write(handle, "a pointer to a handle", pointer) }
    })
}

/// `grpc_cancel`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_cancel(session: SessionId) -> c_int {
    run(|library| library.sessions.cancel(session))
}

/// `grpc_cancel_all`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_cancel_all() -> c_int {
    run(|library| library.sessions.cancel_all())
}

/// `grpc_probe`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_probe(session: SessionId) -> c_int {
    run(|library| library.sessions.probe(session))
}

/// `grpc_probe_or`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_probe_or(
    sessions: *const SessionId,
    length: usize,
    ended: *mut SessionId,
) -> c_int {
    run(|library| {
        // SAFETY: grpc.h asks for an array and a variable.
        unsafe {
            // Before `ended` changes, which may be an element of the array.
            let ids = ids(sessions, length);
            set_to_none(ended)?;
            match library.sessions.probe_or(&ids?)? {
                Some(found) => write_ended(ended, found),
                None => Err(Failure::new(Code::NoneCompleted, "each of these sessions is under way")),
            }
        }
    })
}

/// `grpc_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_wait(session: SessionId) -> c_int {
    run(|library| library.sessions.wait_and(&[session]))
}

/// `grpc_wait_and`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_wait_and(sessions: *const SessionId, length: usize) -> c_int {
    // SAFETY: grpc.h asks for an array.
    run(|library| library.sessions.wait_and(&unsafe { ids(sessions, length) }?))
}

/// `grpc_wait_or`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_wait_or(
    sessions: *const SessionId,
    length: usize,
    ended: *mut SessionId,
) -> c_int {
    run(|library| {
        // SAFETY: grpc.h asks for an array and a variable.
        unsafe {
            // Before `ended` changes, which may be an element of the array.
            let ids = ids(sessions, length);
            set_to_none(ended)?;
            write_ended(ended, library.sessions.wait_or(&ids?)?)
        }
    })
}

/// `grpc_wait_all`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_wait_all() -> c_int {
    run(|library| library.sessions.wait_all())
}

/// `grpc_wait_any`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_wait_any(ended: *mut SessionId) -> c_int {
    run(|library| {
        // SAFETY: grpc.h asks for a variable.
        unsafe {
            set_to_none(ended)?;
            library.sessions.wait_any()?.map_or(Ok(()), |found| write_ended(ended, found))
        }
    })
}
