//! The functions of `diet/DIET_client.h`: profiles over the functions of the standard.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "DIET_client.h says what pointers point to; null pointers give a code"
)]

pub mod data;
mod profile;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pliant_calls::ScalarType;
use pliant_client::calls::StoredData;

use super::entry::{guarded, run, set_to_none, text, write};
use super::errors::{grpc_error_string, grpc_get_error};
use super::functions::{
    grpc_cancel, grpc_cancel_all, grpc_finalize, grpc_initialize, grpc_probe, grpc_probe_or, grpc_wait,
    grpc_wait_all, grpc_wait_and, grpc_wait_any, grpc_wait_or,
};
use crate::code::{Code, Failure, Outcome};
use crate::federation::{Call, Results};
use crate::handles::HandleAddress;
use crate::library::{Library, PreparedCall};
use crate::sessions::SessionId;
use data::Mode;
use profile::{Argument, Kind, ReadArguments};

/// `diet_initialize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_initialize(
    config_file: *const c_char,
    _count: c_int,
    _arguments: *mut *mut c_char,
) -> c_int {
    // SAFETY: passed on.
    unsafe { grpc_initialize(config_file) }
}

/// `diet_finalize`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_finalize() -> c_int {
    grpc_finalize()
}

/// `diet_profile_alloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_profile_alloc(
    function_name: *const c_char,
    last_in: c_int,
    last_inout: c_int,
    last_out: c_int,
) -> *mut c_void {
    let mut address = 0;
    guarded(|| {
        // SAFETY: DIET_client.h asks for a string or a null pointer.
        let name = unsafe { text(function_name) }.and_then(|name| name.to_str().ok());
        let name =
            name.ok_or_else(|| wrong("expected the name of a function in UTF-8, found another pointer"))?;
        address = profile::add(name.to_owned(), [last_in, last_inout, last_out])?;
        Ok(())
    });
    std::ptr::with_exposed_provenance_mut(address)
}

/// `diet_profile_free`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_profile_free(profile: *mut c_void) -> c_int {
    guarded(|| {
        profile::remove(profile.addr())?;
        // It has a handle only if it was called since grpc_initialize.
        let _ = crate::library::enter(|library| library.destruct(HandleAddress(profile.addr())));
        Ok(())
    })
}

/// `diet_parameter`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_parameter(profile: *mut c_void, position: c_int) -> *mut c_void {
    let address = profile::argument_address(profile.addr(), position);
    std::ptr::without_provenance_mut(address.unwrap_or(0))
}

fn wrong(text: impl std::fmt::Display) -> Failure {
    Failure::new(Code::OtherErrorCode, text)
}

/// The type of numbers with that number in `DIET_client.h`.
fn scalar_type(number: c_int) -> Outcome<ScalarType> {
    match number {
        0 => Ok(ScalarType::Char),
        2 => Ok(ScalarType::Int),
        3 => Ok(ScalarType::Long),
        4 => Ok(ScalarType::Float),
        5 => Ok(ScalarType::Double),
        _ => Err(wrong(format!("expected a type of numbers of DIET_client.h, found {number}"))),
    }
}

/// Sets an argument.
fn set(
    argument: *mut c_void,
    at: *const c_void,
    mode: c_int,
    sizes: [usize; 2],
    kind: Outcome<Kind>,
) -> c_int {
    guarded(|| {
        let mode = Mode::of(mode)?;
        let (profile, position) = profile::located(argument.addr())?;
        let set = Argument { kind: kind?, at: at.cast_mut(), sizes, mode, ..Argument::default() };
        profile.lock().set(position, set)
    })
}

/// `diet_scalar_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_scalar_set(
    argument: *mut c_void,
    value: *mut c_void,
    mode: c_int,
    base: c_int,
) -> c_int {
    set(argument, value, mode, [1, 1], scalar_type(base).map(Kind::Scalar))
}

/// `diet_vector_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_vector_set(
    argument: *mut c_void,
    values: *mut c_void,
    mode: c_int,
    base: c_int,
    size: usize,
) -> c_int {
    set(argument, values, mode, [size, 1], scalar_type(base).map(Kind::Vector))
}

/// `diet_matrix_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_matrix_set(
    argument: *mut c_void,
    values: *mut c_void,
    mode: c_int,
    base: c_int,
    rows: usize,
    columns: usize,
    order: c_int,
) -> c_int {
    let kind = scalar_type(base).and_then(|of| match order {
        0 | 1 => Ok(Kind::Matrix { of, is_by_column: order == 0 }),
        _ => Err(wrong(format!("expected DIET_COL_MAJOR or DIET_ROW_MAJOR, found {order}"))),
    });
    set(argument, values, mode, [rows, columns], kind)
}

/// `diet_string_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_string_set(argument: *mut c_void, text: *mut c_char, mode: c_int) -> c_int {
    set(argument, text.cast(), mode, [1, 1], Ok(Kind::Text))
}

/// `diet_file_set`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_file_set(argument: *mut c_void, path: *const c_char, mode: c_int) -> c_int {
    set(argument, path.cast(), mode, [1, 1], Ok(Kind::File))
}

/// Writes the address of the data of an argument, then the rest that is asked for.
///
/// # Safety
///
/// The pointers are null or those of variables.
unsafe fn get(
    argument: *mut c_void,
    to: *mut c_void,
    mode: *mut c_int,
    is_kind: fn(Kind) -> bool,
    then: impl FnOnce(Argument) -> Outcome,
) -> c_int {
    guarded(|| {
        let (profile, position) = profile::located(argument.addr())?;
        let found = profile.lock().argument(position);
        if !is_kind(found.kind) {
            return Err(wrong(format!(
                "expected another type of argument {position}, found {:?}",
                found.kind
            )));
        }
        // SAFETY: passed on.
        unsafe {
            write_if_some(mode, found.mode.number());
            write(to.cast::<*mut c_void>(), "a pointer", found.at)?;
        }
        then(found)
    })
}

/// Writes a variable that the program may leave out.
///
/// # Safety
///
/// The pointer is null or that of a variable.
unsafe fn write_if_some<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: it is not null.
        unsafe { to.write_unaligned(value) };
    }
}

/// `diet_scalar_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_scalar_get(
    argument: *mut c_void,
    value: *mut c_void,
    mode: *mut c_int,
) -> c_int {
    // SAFETY: DIET_client.h asks for variables.
    unsafe { get(argument, value, mode, |kind| matches!(kind, Kind::Scalar(_)), |_| Ok(())) }
}

/// `diet_vector_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_vector_get(
    argument: *mut c_void,
    values: *mut c_void,
    mode: *mut c_int,
    size: *mut usize,
) -> c_int {
    // SAFETY: DIET_client.h asks for variables.
    unsafe {
        get(
            argument,
            values,
            mode,
            |kind| matches!(kind, Kind::Vector(_)),
            |found| {
                write_if_some(size, found.sizes[0]);
                Ok(())
            },
        )
    }
}

/// `diet_matrix_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_matrix_get(
    argument: *mut c_void,
    values: *mut c_void,
    mode: *mut c_int,
    rows: *mut usize,
    columns: *mut usize,
    order: *mut c_int,
) -> c_int {
    // SAFETY: DIET_client.h asks for variables.
    unsafe {
        get(
            argument,
            values,
            mode,
            |kind| matches!(kind, Kind::Matrix { .. }),
            |found| {
                write_if_some(rows, found.sizes[0]);
                write_if_some(columns, found.sizes[1]);
                write_if_some(
                    order,
                    c_int::from(!matches!(found.kind, Kind::Matrix { is_by_column: true, .. })),
                );
                Ok(())
            },
        )
    }
}

/// `diet_string_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_string_get(
    argument: *mut c_void,
    text: *mut *mut c_char,
    mode: *mut c_int,
) -> c_int {
    // SAFETY: DIET_client.h asks for variables.
    unsafe { get(argument, text.cast(), mode, |kind| kind == Kind::Text, |_| Ok(())) }
}

/// `diet_file_get`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_file_get(
    argument: *mut c_void,
    path: *mut *mut c_char,
    mode: *mut c_int,
    size: *mut usize,
) -> c_int {
    // SAFETY: DIET_client.h asks for variables; the path is that of the argument.
    unsafe {
        get(
            argument,
            path.cast(),
            mode,
            |kind| kind == Kind::File,
            |found| {
                let Some(path) = text(found.at.cast()).filter(|_| !size.is_null()) else {
                    return Ok(());
                };
                let path = Path::new(OsStr::from_bytes(path.to_bytes()));
                let found =
                    fs::metadata(path).map_err(|error| wrong(format!("{}: {error}", path.display())))?;
                write_if_some(size, found.len() as usize);
                Ok(())
            },
        )
    }
}

/// `diet_free_data`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_free_data(argument: *mut c_void) -> c_int {
    guarded(|| {
        let (profile, position) = profile::located(argument.addr())?;
        let mut profile = profile.lock();
        profile.free(position)
    })
}

/// Reads the arguments of a profile for a call.
///
/// # Safety
///
/// The addresses in the profile are those of what was set.
unsafe fn prepare(library: &Library, profile: *mut c_void) -> Outcome<PreparedCall> {
    let handle = HandleAddress(profile.addr());
    let profile = profile::at(profile.addr())?;
    let binding = match library.binding(handle) {
        Ok(binding) => binding,
        // The first call since grpc_initialize.
        Err(_) => {
            let function = profile.lock().function.clone();
            library.bind(handle, &function, None)?;
            library.binding(handle)?
        }
    };
    // SAFETY: passed on.
    let ReadArguments { values, files, data } = unsafe { profile.lock().read(binding.function.signature()) }?;
    let call = Call { function: binding.function.clone(), arguments: values, files: files.clone(), data };
    let kept = profile.clone();
    let accepted = Box::new(move |data: &BTreeMap<usize, StoredData>| kept.lock().accepted(data));
    // SAFETY: it is called once, within a function of the program that reports the end of the session; until then the data belong to the library.
    let deliver = Box::new(move |results: Results| unsafe { profile.lock().write(&results, &files) });
    Ok(PreparedCall { handle, binding, call, deliver, accepted })
}

/// `diet_call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_call(profile: *mut c_void) -> c_int {
    // SAFETY: DIET_client.h says what was set.
    run(|library| library.call(unsafe { prepare(library, profile) }?))
}

/// `diet_call_async`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_call_async(profile: *mut c_void, session: *mut SessionId) -> c_int {
    run(|library| {
        // SAFETY: DIET_client.h says what was set, and asks for a variable.
        unsafe {
            set_to_none(session)?;
            let id = library.call_async(prepare(library, profile)?)?;
            write(session, "a session ID", id)
        }
    })
}

/// `diet_probe`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_probe(session: SessionId) -> c_int {
    grpc_probe(session)
}

/// `diet_probe_or`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_probe_or(
    sessions: *const SessionId,
    length: usize,
    ended: *mut SessionId,
) -> c_int {
    // SAFETY: passed on.
    unsafe { grpc_probe_or(sessions, length, ended) }
}

/// `diet_cancel`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_cancel(session: SessionId) -> c_int {
    grpc_cancel(session)
}

/// `diet_cancel_all`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_cancel_all() -> c_int {
    grpc_cancel_all()
}

/// `diet_wait`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_wait(session: SessionId) -> c_int {
    grpc_wait(session)
}

/// `diet_wait_and`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_wait_and(sessions: *const SessionId, length: usize) -> c_int {
    // SAFETY: passed on.
    unsafe { grpc_wait_and(sessions, length) }
}

/// `diet_wait_or`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_wait_or(
    sessions: *const SessionId,
    length: usize,
    ended: *mut SessionId,
) -> c_int {
    // SAFETY: passed on.
    unsafe { grpc_wait_or(sessions, length, ended) }
}

/// `diet_wait_all`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_wait_all() -> c_int {
    grpc_wait_all()
}

/// `diet_wait_any`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn diet_wait_any(ended: *mut SessionId) -> c_int {
    // SAFETY: passed on.
    unsafe { grpc_wait_any(ended) }
}

/// `diet_error_string`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_error_string(error_code: c_int) -> *mut c_char {
    grpc_error_string(error_code)
}

/// `diet_get_error`.
#[unsafe(no_mangle)]
pub extern "C" fn diet_get_error(session: SessionId) -> c_int {
    grpc_get_error(session)
}
