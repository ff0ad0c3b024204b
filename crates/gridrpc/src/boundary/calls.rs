//! Calls: the functions that C reaches through `c/variadic.c`, and those that take an array of addresses.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "grpc.h says what pointers point to; null pointers give a code"
)]

use std::ffi::{c_int, c_uchar, c_ulonglong, c_void};

use pliant_calls::{PARAMETERS_MAX, ParameterType, ScalarType, Signature};

use super::arguments::{self, Arguments};
use super::entry::{FunctionHandle, address, elements, null, run, set_to_none, write};
use crate::code::{Code, Failure, Outcome};
use crate::federation::{Call, CallData, Results};
use crate::handles::Binding;
use crate::library::{Library, PreparedCall};
use crate::sessions::SessionId;

// The types that C and signatures must agree on, and the bound in c/variadic.c.
const _: () = assert!(size_of::<std::ffi::c_long>() == 8 && size_of::<c_int>() == 4 && PARAMETERS_MAX == 64);

/// How a variable argument is passed.
#[repr(u8)]
enum Passed {
    Char = 0,
    Int = 1,
    Long = 2,
    Float = 3,
    Double = 4,
    Address = 5,
}

/// How the arguments of a handle's function are passed, for `c/variadic.c`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_gridrpc_signature(
    handle: *mut FunctionHandle,
    binding: *mut c_ulonglong,
    passed: *mut c_uchar,
    count: *mut usize,
) -> c_int {
    run(|library| {
        let Binding { number, function } = library.binding(address(handle))?;
        let parameters = function.signature().parameters();
        if binding.is_null() || passed.is_null() || count.is_null() || parameters.len() > PARAMETERS_MAX {
            return Err(null("variables"));
        }
        for (position, parameter) in parameters.iter().enumerate() {
            let how = match parameter.kind {
                ParameterType::Scalar(_) if parameter.direction.is_output() => Passed::Address,
                ParameterType::Scalar(ScalarType::Char) => Passed::Char,
                ParameterType::Scalar(ScalarType::Int) => Passed::Int,
                ParameterType::Scalar(ScalarType::Long) => Passed::Long,
                ParameterType::Scalar(ScalarType::Float) => Passed::Float,
                ParameterType::Scalar(ScalarType::Double) => Passed::Double,
                _ => Passed::Address,
            };
            // SAFETY: variadic.c passes an array of PARAMETERS_MAX.
            unsafe { passed.add(position).write(how as u8) };
        }
        // SAFETY: variadic.c passes its own variables.
        unsafe {
            binding.write(number);
            count.write(parameters.len());
        }
        Ok(())
    })
}

/// Reads the arguments of a call, but those that are at a server. With a number, only if the handle still has this binding.
///
/// # Safety
///
/// `arguments` is null or the address of `count` addresses, each of which is null or what grpc.h says of its parameter.
pub(super) unsafe fn prepare(
    library: &Library,
    handle: *mut FunctionHandle,
    number: Option<u64>,
    (arguments, count): (*const *mut c_void, usize),
    data: impl FnOnce(&Signature) -> Outcome<CallData>,
) -> Outcome<PreparedCall> {
    let handle = address(handle);
    let binding = library.binding(handle)?;
    if number.is_some_and(|number| number != binding.number) {
        let text =
            "expected the handle to stay as it is during a call, found that another thread has changed it";
        return Err(Failure::new(Code::InvalidFunctionHandle, text));
    }
    let signature = binding.function.signature();
    let expected = signature.parameters().len();
    if count != expected {
        let text = format!("expected {expected} arguments ({signature}), found {count}");
        return Err(Failure::new(Code::OtherErrorCode, text));
    }
    let data = data(signature)?;
    // SAFETY: the count is that of the signature; the rest is passed on.
    let Arguments { values, files, destinations } = unsafe {
        let addresses = elements(arguments, count, "arguments")?;
        arguments::read(signature, &addresses, &data)
    }?;
    let call = Call { function: binding.function.clone(), arguments: values, files, data };
    // SAFETY: it is called once, within a function of the program that reports the end of the session. Until that function, grpc_cancel or
    // grpc_finalize has returned, the outputs belong to the library, as grpc.h says.
    let deliver = Box::new(move |results: Results| unsafe { destinations.write(&results) });
    Ok(PreparedCall { handle, binding, call, deliver, accepted: Box::new(|_| {}) })
}

/// A call takes and leaves no data at servers.
fn without_data(_: &Signature) -> Outcome<CallData> {
    Ok(CallData::default())
}

/// A call of `c/variadic.c`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_gridrpc_call(
    handle: *mut FunctionHandle,
    binding: c_ulonglong,
    arguments: *const *mut c_void,
    count: usize,
) -> c_int {
    run(|library| {
        // SAFETY: variadic.c has read as many arguments as the signature has parameters.
        let call = unsafe { prepare(library, handle, Some(binding), (arguments, count), without_data) }?;
        library.call(call)
    })
}

/// An asynchronous call of `c/variadic.c`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_gridrpc_call_async(
    handle: *mut FunctionHandle,
    binding: c_ulonglong,
    session: *mut SessionId,
    arguments: *const *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: as of the call that waits.
    unsafe { call_async(handle, Some(binding), session, arguments, count) }
}

/// Starts a call.
///
/// # Safety
///
/// As of [`prepare`] and [`write`].
unsafe fn call_async(
    handle: *mut FunctionHandle,
    binding: Option<u64>,
    session: *mut SessionId,
    arguments: *const *mut c_void,
    count: usize,
) -> c_int {
    run(|library| {
        // SAFETY: passed on.
        unsafe {
            // Before anything starts that could not be named.
            set_to_none(session)?;
            let id =
                library.call_async(prepare(library, handle, binding, (arguments, count), without_data)?)?;
            write(session, "a session ID", id)
        }
    })
}

/// `pliant_grpc_call_array`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_grpc_call_array(
    handle: *mut FunctionHandle,
    arguments: *const *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: grpc.h asks for the addresses of arguments.
    run(|library| library.call(unsafe { prepare(library, handle, None, (arguments, count), without_data) }?))
}

/// `pliant_grpc_call_array_async`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_grpc_call_array_async(
    handle: *mut FunctionHandle,
    session: *mut SessionId,
    arguments: *const *mut c_void,
    count: usize,
) -> c_int {
    // SAFETY: grpc.h asks for the addresses of arguments.
    unsafe { call_async(handle, None, session, arguments, count) }
}
