//! The functions of `grpc.h` about errors.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "grpc.h says what pointers point to; null pointers give a code"
)]

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;

use super::entry::{last_error, run, set_to_none, write};
use crate::code::Code;
use crate::library;
use crate::sessions::{SessionId, VOID};

/// `grpc_error_string`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_error_string(error_code: c_int) -> *mut c_char {
    Code::name(error_code).as_ptr().cast_mut()
}

/// `grpc_get_error`.
#[unsafe(no_mangle)]
pub extern "C" fn grpc_get_error(session: SessionId) -> c_int {
    run(|library| library.sessions.failure(session)?.map_or(Ok(()), Err))
}

/// `grpc_get_failed_sessionid`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn grpc_get_failed_sessionid(session: *mut SessionId) -> c_int {
    run(|library| {
        // SAFETY: grpc.h asks for a variable.
        unsafe {
            // Before a failed session is taken, which is given once.
            set_to_none(session)?;
            write(session, "a session ID", library.sessions.take_failed()?.unwrap_or(VOID))
        }
    })
}

/// Copies a text into a buffer, as `snprintf` does.
///
/// # Safety
///
/// The buffer is null or has so many bytes.
unsafe fn copy(text: &str, buffer: *mut c_char, size: usize) -> usize {
    if !buffer.is_null() && size > 0 {
        let length = text.floor_char_boundary(size - 1);
        // SAFETY: the caller promises `size` bytes, one more than the text has at most.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), length);
            buffer.add(length).write(0);
        }
    }
    text.len()
}

/// `pliant_grpc_last_error_text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_grpc_last_error_text(buffer: *mut c_char, size: usize) -> usize {
    // SAFETY: grpc.h asks for a buffer of that size.
    unsafe { copy(&last_error(), buffer, size) }
}

/// `pliant_grpc_error_text`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_grpc_error_text(
    session: SessionId,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    let find = || library::enter(|library| library.sessions.failure(session));
    let found = catch_unwind(find).unwrap_or(Ok(None));
    let text = match found {
        Ok(Some(failure)) | Err(failure) => failure.text,
        Ok(None) => String::new(),
    };
    // SAFETY: grpc.h asks for a buffer of that size.
    unsafe { copy(&text, buffer, size) }
}
