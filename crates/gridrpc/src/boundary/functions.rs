//! The functions of `grpc.h`, but for calls and errors. What each of them means is said there.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "grpc.h says what pointers point to; null pointers give a code"
)]

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::entry::{FunctionHandle, address, guarded, ids, text, void, with, write, write_ended};
use crate::code::{Code, Failure};
use crate::handles::HandleAddress;
use crate::library;
use crate::live::LiveFederation;
use crate::sessions::SessionId;

#[unsafe(no_mangle)]
/// `grpc_initialize`.
pub unsafe extern "C" fn grpc_initialize(config_file: *const c_char) -> c_int {
    guarded(|| {
        // SAFETY: grpc.h asks for a string or a null pointer.
        let path = unsafe { text(config_file) }.map(|path| Path::new(OsStr::from_bytes(path.to_bytes())));
        library::initialize(|| Ok(Box::new(LiveFederation::open(path)?)))
    })
}

#[unsafe(no_mangle)]
/// `grpc_finalize`.
pub extern "C" fn grpc_finalize() -> c_int {
    guarded(library::finalize)
}

#[unsafe(no_mangle)]
/// `grpc_function_handle_default`.
pub unsafe extern "C" fn grpc_function_handle_default(
    handle: *mut FunctionHandle,
    function_name: *const c_char,
) -> c_int {
    // SAFETY: passed on.
    unsafe { grpc_function_handle_init(handle, std::ptr::null(), function_name) }
}

#[unsafe(no_mangle)]
/// `grpc_function_handle_init`.
pub unsafe extern "C" fn grpc_function_handle_init(
    handle: *mut FunctionHandle,
    server_name: *const c_char,
    function_name: *const c_char,
) -> c_int {
    with(|library| {
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

#[unsafe(no_mangle)]
/// `grpc_function_handle_destruct`.
pub extern "C" fn grpc_function_handle_destruct(handle: *mut FunctionHandle) -> c_int {
    with(|library| library.destruct(address(handle)))
}

#[unsafe(no_mangle)]
/// `grpc_get_handle`.
pub unsafe extern "C" fn grpc_get_handle(handle: *mut *mut FunctionHandle, session: SessionId) -> c_int {
    with(|library| {
        let HandleAddress(at) = library.handle(session)?;
        // The program gave this address before, and has it back.
        let pointer = std::ptr::with_exposed_provenance_mut(at);
        // SAFETY: grpc.h asks for a variable or a null pointer.
        unsafe { write(handle, "a pointer to a handle", pointer) }
    })
}

#[unsafe(no_mangle)]
/// `grpc_cancel`.
pub extern "C" fn grpc_cancel(session: SessionId) -> c_int {
    with(|library| library.sessions.cancel(session))
}

#[unsafe(no_mangle)]
/// `grpc_cancel_all`.
pub extern "C" fn grpc_cancel_all() -> c_int {
    with(|library| library.sessions.cancel_all())
}

#[unsafe(no_mangle)]
/// `grpc_probe`.
pub extern "C" fn grpc_probe(session: SessionId) -> c_int {
    with(|library| library.sessions.probe(session))
}

#[unsafe(no_mangle)]
/// `grpc_probe_or`.
pub unsafe extern "C" fn grpc_probe_or(
    sessions: *const SessionId,
    length: usize,
    ended: *mut SessionId,
) -> c_int {
    with(|library| {
        // SAFETY: grpc.h asks for an array and a variable.
        unsafe {
            void(ended)?;
            match library.sessions.probe_or(&ids(library, sessions, length)?)? {
                Some(found) => write_ended(ended, found),
                None => Err(Failure::new(Code::NoneCompleted, "each of these sessions is under way")),
            }
        }
    })
}

#[unsafe(no_mangle)]
/// `grpc_wait`.
pub extern "C" fn grpc_wait(session: SessionId) -> c_int {
    with(|library| library.sessions.wait_and(&[session]))
}

#[unsafe(no_mangle)]
/// `grpc_wait_and`.
pub unsafe extern "C" fn grpc_wait_and(sessions: *const SessionId, length: usize) -> c_int {
    // SAFETY: grpc.h asks for an array.
    with(|library| library.sessions.wait_and(&unsafe { ids(library, sessions, length) }?))
}

#[unsafe(no_mangle)]
/// `grpc_wait_or`.
pub unsafe extern "C" fn grpc_wait_or(
    sessions: *const SessionId,
    length: usize,
    ended: *mut SessionId,
) -> c_int {
    with(|library| {
        // SAFETY: grpc.h asks for an array and a variable.
        unsafe {
            void(ended)?;
            write_ended(ended, library.sessions.wait_or(&ids(library, sessions, length)?)?)
        }
    })
}

#[unsafe(no_mangle)]
/// `grpc_wait_all`.
pub extern "C" fn grpc_wait_all() -> c_int {
    with(|library| library.sessions.wait_all())
}

#[unsafe(no_mangle)]
/// `grpc_wait_any`.
pub unsafe extern "C" fn grpc_wait_any(ended: *mut SessionId) -> c_int {
    with(|library| {
        // SAFETY: grpc.h asks for a variable.
        unsafe {
            void(ended)?;
            library.sessions.wait_any()?.map_or(Ok(()), |found| write_ended(ended, found))
        }
    })
}
