//! The functions as C calls them, over a simulated federation.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use parking_lot::{Mutex, MutexGuard};

use super::FunctionHandle;
use super::calls::*;
use super::data::*;
use super::errors::*;
use super::explorations::{Exploration, pliant_grpc_explore};
use super::functions::*;
use crate::code::Code;
use crate::library;
use crate::simulated::{Behaviour, SimulatedFederation};

// As a program in C declares them.
unsafe extern "C" {
    fn grpc_call(handle: *mut FunctionHandle, ...) -> c_int;
    fn grpc_call_async(handle: *mut FunctionHandle, session: *mut c_int, ...) -> c_int;
}

/// There is one library in a process, and tests may be threads of one.
pub(super) static ONE_TEST: Mutex<()> = Mutex::new(());

const ALL: &str = "in char a, in int b, in long c, in float d, in double e, in string f, in int v[b], in double m[2][b], \
                   inout long g, out char o, out int p, out float q, out double r, out string s[8], out double w[b+1], \
                   inout string t[16]";

/// An initialized library, finalized at the end.
pub(super) struct Initialized<'a>(#[expect(dead_code, reason = "held until the end")] MutexGuard<'a, ()>);

impl Initialized<'_> {
    pub(super) fn new() -> Self {
        let guard = ONE_TEST.lock();
        let federation = SimulatedFederation::new(&[
            ("succ", "in int n, out int m", Behaviour::Succeed),
            ("all", ALL, Behaviour::Succeed),
            ("run", "in int n, out int m", Behaviour::Run),
            ("lie", "in int n, out int m", Behaviour::Lie),
            ("panic", "in int n, out int m", Behaviour::Panic),
            ("vector", "in int n, inout double v[n]", Behaviour::Succeed),
            ("double-matrix", "in int n, inout double a[2][n]", Behaviour::Double),
            ("file", "in file f, out int m", Behaviour::Succeed),
            ("nothing", "", Behaviour::Succeed),
        ]);
        library::initialize(|| Ok(Box::new(federation))).unwrap();
        Initialized(guard)
    }
}

impl Drop for Initialized<'_> {
    fn drop(&mut self) {
        drop(library::finalize());
    }
}

/// Memory of a handle, where it is not moved.
fn handle(name: &CStr) -> Box<FunctionHandle> {
    let mut handle = Box::<FunctionHandle>::default();
    // SAFETY: pointers to what the function asks for.
    assert_eq!(unsafe { grpc_function_handle_default(&raw mut *handle, name.as_ptr()) }, 0);
    handle
}

fn last_text() -> String {
    let mut buffer = [0_u8; 1000];
    // SAFETY: the buffer has so many bytes.
    unsafe { pliant_grpc_last_error_text(buffer.as_mut_ptr().cast(), buffer.len()) };
    CStr::from_bytes_until_nul(&buffer).unwrap().to_str().unwrap().to_owned()
}

#[test]
fn arguments_of_every_type_go_and_come_back() {
    let _library = Initialized::new();
    let mut handle = handle(c"all");
    let text = c"text";
    let (v, m) = ([7_i32, 8], [1.0_f64, 2.0, 3.0, 4.0]);
    let (mut g, mut o, mut p, mut q, mut r) = (5_i64, 0_u8, 0_i32, 0_f32, 0_f64);
    let (mut s, mut w, mut t) = ([1_u8; 9], [0.0_f64; 4], *b"inside\0.456789abcd");
    // SAFETY: the arguments are those of the signature.
    let code = unsafe {
        grpc_call(
            &raw mut *handle,
            c_int::from(3_u8),
            2,
            3_i64,
            4.5_f64,
            5.5_f64,
            text.as_ptr(),
            v.as_ptr(),
            m.as_ptr(),
            &raw mut g,
            &raw mut o,
            &raw mut p,
            &raw mut q,
            &raw mut r,
            s.as_mut_ptr(),
            w.as_mut_ptr(),
            t.as_mut_ptr(),
        )
    };
    assert_eq!(code, 0, "{}", last_text());
    // What the simulated function makes of its first argument.
    assert_eq!((g, o, p, q, r), (4, 4, 4, 4.0, 4.0));
    assert_eq!(&s, b"abababa\0\x01", "nothing is written behind the capacity");
    assert_eq!(w, [1.0, 1.0, 1.0, 0.0]);
    assert_eq!(&t, b"INSIDE\0.456789abcd");
}

#[test]
fn before_it_is_initialized_every_function_says_so() {
    let _guard = ONE_TEST.lock();
    let handle: *mut FunctionHandle = &raw mut *Box::<FunctionHandle>::default();
    let mut id = 5;
    let mut found = null_mut();
    // SAFETY: pointers to what the functions ask for; a handle is known by its address alone.
    let codes = unsafe {
        [
            grpc_finalize(),
            grpc_function_handle_default(handle, c"succ".as_ptr()),
            grpc_function_handle_init(handle, c"lyon".as_ptr(), c"succ".as_ptr()),
            grpc_function_handle_destruct(handle),
            grpc_get_handle(&raw mut found, 1),
            grpc_call(handle, 1, &raw mut id),
            grpc_call_async(handle, &raw mut id, 1, null_mut::<c_int>()),
            pliant_grpc_call_array(handle, null(), 0),
            pliant_grpc_call_array_async(handle, &raw mut id, null(), 0),
            grpc_cancel(1),
            grpc_cancel_all(),
            grpc_probe(1),
            grpc_probe_or(&raw const id, 1, &raw mut id),
            grpc_wait(1),
            grpc_wait_and(&raw const id, 1),
            grpc_wait_or(&raw const id, 1, &raw mut id),
            grpc_wait_all(),
            grpc_wait_any(&raw mut id),
            grpc_get_error(1),
            grpc_get_failed_sessionid(&raw mut id),
        ]
    };
    assert_eq!(codes, [Code::NotInitialized.number(); 20]);
    assert!(last_text().contains("grpc_initialize"), "{}", last_text());
}

#[test]
fn null_pointers_and_wrong_counts_give_codes() {
    let _library = Initialized::new();
    let mut succ = handle(c"succ");
    let succ: *mut FunctionHandle = &raw mut *succ;
    let mut vector = handle(c"vector");
    let vector: *mut FunctionHandle = &raw mut *vector;
    let mut file = handle(c"file");
    let never: *mut FunctionHandle = &raw mut *Box::<FunctionHandle>::default();
    let (mut id, mut out) = (0, 0);
    let mut numbers = [1_i32, 2];
    let (first, second) = (&raw mut numbers[0], &raw mut numbers[1]);
    let addresses: [*mut c_void; 3] = [first.cast(), second.cast(), null_mut()];
    let without_output: [*mut c_void; 2] = [first.cast(), null_mut()];
    let bytes = [b'x' as c_char, -1, 0];
    let check = |code: c_int, expected: Code, text: &str| {
        assert_eq!(code, expected.number(), "{text}: {}", last_text());
        assert!(last_text().contains(text), "expected {text:?}, found {:?}", last_text());
    };
    use Code::*;
    // SAFETY: the functions are made for these pointers; the others are to variables.
    unsafe {
        check(grpc_function_handle_default(null_mut(), c"succ".as_ptr()), InvalidFunctionHandle, "null");
        check(grpc_function_handle_default(never, null()), FunctionNotFound, "null");
        check(grpc_function_handle_default(never, bytes.as_ptr()), FunctionNotFound, "UTF-8");
        check(grpc_function_handle_init(never, bytes.as_ptr(), c"succ".as_ptr()), ServerNotFound, "UTF-8");
        check(grpc_function_handle_destruct(null_mut()), InvalidFunctionHandle, "null");
        check(grpc_function_handle_destruct(never), InvalidFunctionHandle, "not initialized");
        check(
            grpc_function_handle_destruct(std::ptr::without_provenance_mut(8)),
            InvalidFunctionHandle,
            "0x8",
        );
        check(grpc_get_handle(null_mut(), 1), InvalidSessionId, "found 1");
        check(grpc_call(null_mut(), 1, &raw mut out), InvalidFunctionHandle, "null");
        check(grpc_call(never, 1, &raw mut out), InvalidFunctionHandle, "address");
        check(grpc_call(succ, 1, null_mut::<c_int>()), OtherErrorCode, "`m` (out int m)");
        check(grpc_call(vector, 2, null_mut::<f64>()), OtherErrorCode, "`v`");
        check(grpc_call(vector, -2, null_mut::<f64>()), OtherErrorCode, "-2");
        check(grpc_call(vector, c_int::MAX, &raw mut out), OtherErrorCode, "at most");
        check(grpc_call(&raw mut *file, c"".as_ptr(), &raw mut out), OtherErrorCode, "the path of a file");
        check(grpc_call_async(succ, null_mut(), 1, &raw mut out), OtherErrorCode, "session ID");
        check(pliant_grpc_call_array(succ, null(), 2), OtherErrorCode, "arguments");
        check(pliant_grpc_call_array(succ, addresses.as_ptr(), 3), OtherErrorCode, "2 arguments (in int n");
        check(pliant_grpc_call_array(succ, addresses.as_ptr(), usize::MAX), OtherErrorCode, "2 arguments");
        check(pliant_grpc_call_array(succ, without_output.as_ptr(), 2), OtherErrorCode, "null");
        check(grpc_wait_and(null(), 1), OtherErrorCode, "null");
        check(grpc_wait_and(&raw const id, usize::MAX), InvalidSessionId, "at most");
        assert_eq!(grpc_wait_and(null(), 0), 0);
        check(grpc_wait_or(null(), 0, &raw mut id), InvalidSessionId, "at least one");
        check(grpc_wait_any(null_mut()), OtherErrorCode, "null");
        check(grpc_get_failed_sessionid(null_mut()), OtherErrorCode, "null");
        assert_eq!(grpc_call(vector, 0, null_mut::<f64>()), 0, "no elements need no memory");
        assert_eq!(pliant_grpc_call_array(succ, addresses.as_ptr(), 2), 0);
        assert_eq!(numbers[1], 2);
        assert_eq!(grpc_call_async(succ, &raw mut id, 1, &raw mut out), 0);
        check(grpc_wait_or(&raw const id, 1, null_mut()), OtherErrorCode, "null");
        check(grpc_probe_or(&raw const id, 1, null_mut()), OtherErrorCode, "null");
        check(grpc_get_handle(null_mut(), id), OtherErrorCode, "null");
        assert_eq!((grpc_wait(id), out), (0, 2));
    }
}

#[test]
fn arrays_may_hold_an_id_twice_receive_the_result_and_be_unaligned() {
    let _library = Initialized::new();
    let (mut succ, mut run) = (handle(c"succ"), handle(c"run"));
    let (mut done, mut running, mut out) = (0, 0, 0);
    // SAFETY: pointers to what the functions ask for.
    unsafe {
        assert_eq!(grpc_call_async(&raw mut *succ, &raw mut done, 4, &raw mut out), 0);
        // Only one session is known.
        assert_eq!(grpc_wait_and([done, done].as_ptr(), 2), 0);
        assert_eq!(grpc_call_async(&raw mut *run, &raw mut running, 4, &raw mut out), 0);
        let mut ids = [running, done];
        assert_eq!((grpc_wait_or(ids.as_ptr(), 2, &raw mut ids[0]), ids[0]), (0, done));
        let mut ids = [running, done];
        assert_eq!((grpc_probe_or(ids.as_ptr(), 2, &raw mut ids[1]), ids[1]), (0, done));
        let mut ids = [running];
        let code = grpc_probe_or(ids.as_ptr(), 1, &raw mut ids[0]);
        assert_eq!((code, ids[0]), (Code::NoneCompleted.number(), -1));

        // One byte behind where they would be aligned.
        let (mut ids, mut arguments) = ([0_u64; 2], [0_u64; 3]);
        let ids: *mut c_int = ids.as_mut_ptr().byte_add(1).cast();
        let arguments: *mut *mut c_void = arguments.as_mut_ptr().byte_add(1).cast();
        let mut input = 7;
        arguments.write_unaligned((&raw mut input).cast());
        arguments.add(1).write_unaligned((&raw mut out).cast());
        assert_eq!((pliant_grpc_call_array(&raw mut *succ, arguments, 2), out), (0, 8));
        assert_eq!(pliant_grpc_call_array_async(&raw mut *succ, ids, arguments, 2), 0);
        assert_eq!(grpc_wait_and(ids, 1), 0);
    }
}

#[test]
fn a_handle_that_another_library_has_bound_anew_is_not_called_with_earlier_arguments() {
    let mut handle = Box::<FunctionHandle>::default();
    let handle: *mut FunctionHandle = &raw mut *handle;
    let signature = || {
        let (mut binding, mut passed, mut count) = (0, [0; 64], 0);
        // SAFETY: the variables that c/variadic.c has, too.
        let code = unsafe {
            pliant_gridrpc_signature(handle, &raw mut binding, passed.as_mut_ptr(), &raw mut count)
        };
        assert_eq!((code, count), (0, 2));
        binding
    };
    let (mut out, mut number, mut vector) = (0.0_f64, 3_i32, [1.0_f64; 3]);
    let mut arguments: [*mut c_void; 2] = [(&raw mut number).cast(), (&raw mut out).cast()];
    let before = {
        let _library = Initialized::new();
        // SAFETY: the name is a string.
        assert_eq!(unsafe { grpc_function_handle_default(handle, c"succ".as_ptr()) }, 0);
        signature()
    };
    let _library = Initialized::new();
    // SAFETY: the arguments are those of the later function.
    unsafe {
        assert_eq!(grpc_function_handle_default(handle, c"vector".as_ptr()), 0);
        let code = pliant_gridrpc_call(handle, before, arguments.as_ptr(), 2);
        assert_eq!(code, Code::InvalidFunctionHandle.number());
        arguments[1] = vector.as_mut_ptr().cast();
        assert_eq!(pliant_gridrpc_call(handle, signature(), arguments.as_ptr(), 2), 0);
    }
}

#[test]
fn a_handle_is_its_address() {
    let _library = Initialized::new();
    let mut succ = handle(c"succ");
    let (mut id, mut out) = (0, 0);
    let mut found = null_mut();
    // SAFETY: pointers to what the functions ask for.
    unsafe {
        assert_eq!(grpc_call_async(&raw mut *succ, &raw mut id, 4, &raw mut out), 0);
        assert_eq!((grpc_wait(id), out), (0, 5));
        assert_eq!(grpc_get_handle(&raw mut found, id), 0);
        assert_eq!(found, &raw mut *succ);
        assert_eq!((grpc_call(found, 7, &raw mut out), out), (0, 8));
        assert_eq!(grpc_function_handle_destruct(found), 0);
        let address = &raw mut *succ;
        drop(succ);
        // Its memory is not read: it is freed.
        assert_eq!(grpc_call(address, 7, &raw mut out), Code::InvalidFunctionHandle.number());
        assert_eq!(grpc_function_handle_destruct(address), Code::InvalidFunctionHandle.number());
        assert_eq!(grpc_get_handle(&raw mut found, id), Code::InvalidFunctionHandle.number());
    }
}

#[test]
fn neither_a_wrong_result_nor_a_panic_touches_the_program() {
    let _library = Initialized::new();
    let (mut lie, mut panic, mut nothing) = (handle(c"lie"), handle(c"panic"), handle(c"nothing"));
    let mut out = [7_i32, 7];
    // SAFETY: pointers to what the functions ask for.
    unsafe {
        assert_eq!(grpc_call(&raw mut *lie, 1, &raw mut out), Code::OtherErrorCode.number());
        assert!(last_text().contains("found double"), "{}", last_text());
        assert_eq!(grpc_call(&raw mut *panic, 1, &raw mut out), Code::OtherErrorCode.number());
        assert!(last_text().contains("defect"), "{}", last_text());
        assert_eq!(grpc_call(&raw mut *nothing), 0);
        assert_eq!(pliant_grpc_call_array(&raw mut *nothing, null(), 0), 0);
    }
    assert_eq!(out, [7, 7]);
}

#[test]
fn data_stay_at_the_server_and_are_named_in_later_calls() {
    let _library = Initialized::new();
    let mut vector = handle(c"vector");
    let vector: *mut FunctionHandle = &raw mut *vector;
    let (mut n, mut v, mut id) = (2_i32, [5.0_f64, 6.0], 0);
    let arguments: [*mut c_void; 2] = [(&raw mut n).cast(), v.as_mut_ptr().cast()];
    let without: [*mut c_void; 2] = [(&raw mut n).cast(), null_mut()];
    let (keep, keep_and_return) = (DataEntry::new(1, 1, "?"), DataEntry::new(1, 2, ""));
    let call = |arguments: &[*mut c_void; 2], data: &mut [DataEntry]| {
        // SAFETY: the arguments are those of the signature.
        unsafe { pliant_grpc_call_data(vector, arguments.as_ptr(), 2, data.as_mut_ptr(), data.len()) }
    };
    let mut kept = [keep];
    assert_eq!(call(&arguments, &mut kept), 0, "{}", last_text());
    assert_eq!(v, [5.0, 6.0], "it stays at the server");
    let first = kept[0].id();
    assert!(first.starts_with("lyon/"), "{first}");
    // What the simulated function returns comes back, and stays, too.
    let mut both = [DataEntry::new(1, 0, &first), keep_and_return];
    // SAFETY: the arguments are those of the signature; the variable is one for a session.
    let code = unsafe {
        pliant_grpc_call_data_async(vector, &raw mut id, arguments.as_ptr(), 2, both.as_mut_ptr(), 2)
    };
    assert_eq!((code, grpc_wait(id), v), (0, 0, [1.0, 1.0]), "{}", last_text());
    let second = both[1].id();
    assert!(second.starts_with("lyon/") && second != first, "{second}");
    // Without an address of an argument that is neither read nor written.
    assert_eq!(call(&without, &mut [DataEntry::new(1, 0, &second), keep]), 0, "{}", last_text());

    let check = |arguments: &[*mut c_void; 2], data: &mut [DataEntry], expected: Code, text: &str| {
        assert_eq!(call(arguments, data), expected.number(), "{text}: {}", last_text());
        assert!(last_text().contains(text), "expected {text:?}, found {:?}", last_text());
    };
    use Code::*;
    let wrong = |data: &mut [DataEntry], text: &str| check(&arguments, data, OtherErrorCode, text);
    wrong(&mut [DataEntry::new(1, 3, "")], "a mode of grpc.h");
    wrong(&mut [DataEntry::new(1, 0, "lyon")], "expected the ID of data");
    wrong(&mut [DataEntry::new(1, 0, &"x".repeat(128))], "found another text");
    wrong(&mut [DataEntry::new(2, 1, "")], "the position of one of 2 parameters, found 2");
    wrong(&mut [DataEntry::new(usize::MAX, 1, "")], "found 18446744073709551615");
    wrong(&mut [DataEntry::new(0, 1, "")], "numbers and files do not stay");
    wrong(&mut [keep, keep_and_return], "found two");
    check(&without, &mut [DataEntry::new(1, 0, &second)], OtherErrorCode, "a null pointer");
    check(&without, &mut [keep], OtherErrorCode, "a null pointer");
    // SAFETY: the function is made for these pointers.
    unsafe {
        let call = |data, count| pliant_grpc_call_data(vector, arguments.as_ptr(), 2, data, count);
        assert_eq!(call(null_mut(), 1), OtherErrorCode.number());
        assert_eq!(call(kept.as_mut_ptr(), usize::MAX), OtherErrorCode.number());
        assert_eq!(call(null_mut(), 0), 0);
        assert_eq!(pliant_grpc_data_delete(null()), OtherErrorCode.number());
        assert_eq!(pliant_grpc_data_delete(c"lyon".as_ptr()), OtherErrorCode.number());
        let id = CString::new(second.clone()).unwrap();
        assert_eq!((pliant_grpc_data_delete(id.as_ptr()), pliant_grpc_data_delete(id.as_ptr())), (0, 0));
    }
    let mut gone = [DataEntry::new(1, 0, &second), keep];
    check(&arguments, &mut gone, NoData, &second);
    assert_eq!(gone[1].id(), "", "no server has accepted the call");
}

#[test]
fn an_exploration_has_options_and_a_folder() {
    let _library = Initialized::new();
    let options = [c"simulate".as_ptr(), c"--min".as_ptr(), null()];
    let bytes = [-1_i8 as c_char, 0];
    let mut explored = std::mem::MaybeUninit::<Exploration>::uninit();
    let to = explored.as_mut_ptr();
    // SAFETY: pointers to what the function asks for, and to a variable of its size.
    let explored = unsafe {
        assert_eq!(pliant_grpc_explore(options.as_ptr(), 2, c"out".as_ptr(), null_mut()), 0);
        assert_eq!(pliant_grpc_explore(options.as_ptr(), 2, c"out".as_ptr(), to), 0);
        for (options, count, folder) in [
            (options.as_ptr(), 3, c"out".as_ptr()),
            (options.as_ptr(), usize::MAX, c"out".as_ptr()),
            (null(), 1, c"out".as_ptr()),
            ([bytes.as_ptr()].as_ptr(), 1, c"out".as_ptr()),
            (options.as_ptr(), 2, null()),
        ] {
            assert_eq!(pliant_grpc_explore(options, count, folder, to), Code::OtherErrorCode.number());
        }
        to.read()
    };
    assert_eq!(explored.counts(), (2, 2, 1, 3.0));
}

#[test]
fn texts_fit_their_buffers() {
    let _library = Initialized::new();
    assert_eq!(grpc_wait(123_456), Code::InvalidSessionId.number());
    let whole = CString::new(last_text()).unwrap();
    for size in [0, 1, 2, 30, whole.count_bytes(), whole.count_bytes() + 1] {
        let mut buffer = vec![1_u8; size + 1];
        // SAFETY: the buffer has one byte more than it says.
        let length = unsafe { pliant_grpc_last_error_text(buffer.as_mut_ptr().cast(), size) };
        assert_eq!(length, whole.count_bytes());
        assert_eq!(buffer[size], 1, "nothing is written behind it");
        if size > 0 {
            let text = CStr::from_bytes_until_nul(&buffer).unwrap().to_bytes();
            assert_eq!(text, &whole.to_bytes()[..(size - 1).min(length)]);
        }
    }
    // SAFETY: a null pointer has no bytes.
    assert_eq!(unsafe { pliant_grpc_last_error_text(null_mut(), 10) }, whole.count_bytes());
    // SAFETY: the same.
    assert_eq!(unsafe { pliant_grpc_error_text(123_456, null_mut(), 0) }, whole.count_bytes());
}
