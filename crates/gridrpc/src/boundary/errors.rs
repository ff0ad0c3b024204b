//! The functions of `grpc.h` about errors.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "grpc.h says what pointers point to; null pointers give a code"
)]

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;

use super::entry::{last_error, void, with, write};
use crate::code::Code;
use crate::library;
use crate::sessions::{SessionId, VOID};

#[unsafe(no_mangle)]
/// `grpc_error_string`.
pub extern "C" fn grpc_error_string(error_code: c_int) -> *mut c_char {
    Code::name(error_code).as_ptr().cast_mut()
}

#[unsafe(no_mangle)]
/// `grpc_get_error`.
pub extern "C" fn grpc_get_error(session: SessionId) -> c_int {
    with(|library| library.sessions.failure(session)?.map_or(Ok(()), Err))
}

#[unsafe(no_mangle)]
/// `grpc_get_failed_sessionid`.
pub unsafe extern "C" fn grpc_get_failed_sessionid(session: *mut SessionId) -> c_int {
    with(|library| {
        // SAFETY: grpc.h asks for a variable.
        unsafe {
            // Before a failed session is taken, which is given once.
            void(session)?;
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

#[unsafe(no_mangle)]
/// `pliant_grpc_last_error_text`.
pub unsafe extern "C" fn pliant_grpc_last_error_text(buffer: *mut c_char, size: usize) -> usize {
    // SAFETY: grpc.h asks for a buffer of that size.
    unsafe { copy(&last_error(), buffer, size) }
}

#[unsafe(no_mangle)]
/// `pliant_grpc_error_text`.
pub unsafe extern "C" fn pliant_grpc_error_text(
    session: SessionId,
    buffer: *mut c_char,
    size: usize,
) -> usize {
    let find = || library::with(|library| library.sessions.failure(session));
    let found = catch_unwind(find).unwrap_or(Ok(None));
    let text = match found {
        Ok(Some(failure)) | Err(failure) => failure.text,
        Ok(None) => String::new(),
    };
    // SAFETY: grpc.h asks for a buffer of that size.
    unsafe { copy(&text, buffer, size) }
}
