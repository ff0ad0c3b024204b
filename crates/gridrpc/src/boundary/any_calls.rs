//! Any bytes as a program in C: a sequence of calls of the functions of `grpc.h` and `DIET_client.h` over a simulated federation, with null
//! pointers, wrong counts, freed handles and profiles, and IDs that are none. Every function returns a code that is defined, and what C
//! promises of pointers is kept, so that a memory checker has no cause to complain.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use super::FunctionHandle;
use super::calls::*;
use super::data::*;
use super::diet::data::*;
use super::diet::*;
use super::errors::*;
use super::functions::*;
use crate::code::Code;
use crate::library;
use crate::simulated::{Behaviour, SimulatedFederation};

/// The functions of the federation; names of others, and of none.
const NAMES: [&CStr; 8] =
    [c"succ", c"vector", c"matrix", c"text", c"lie", c"fail", c"refuse", c"no-such-function"];
/// The bytes of each argument: more than any argument takes, whatever the function.
const ARGUMENT_BYTES: usize = 1024;
/// The most arguments of a call.
const ARGUMENTS: usize = 5;

/// Runs the program that the bytes are.
pub fn as_a_program(bytes: &[u8]) {
    let federation = || {
        SimulatedFederation::new(&[
            ("succ", "in int n, out int m", Behaviour::Succeed),
            ("vector", "in int n, inout double v[n]", Behaviour::Succeed),
            ("matrix", "in int n, inout double a[2][n]", Behaviour::Double),
            ("text", "in int n, in string s, inout string t[n+1], out string u[8]", Behaviour::Succeed),
            ("lie", "in int n, out int m", Behaviour::Lie),
            ("fail", "in int n, out int m", Behaviour::Fail),
            ("refuse", "in int n, out int m", Behaviour::Refuse),
        ])
    };
    let initialize = || drop(library::initialize(|| Ok(Box::new(federation()))));
    let mut program = Program::new(bytes);
    initialize();
    while let Some(step) = program.next() {
        match step {
            // Seldom, since all that there was is gone then.
            0..8 => _ = library::finalize(),
            8..20 => initialize(),
            _ => program.step(step),
        }
    }
    program.free_profiles();
    drop(library::finalize());
}

/// The memory of an argument: numbers, which are aligned.
type Memory = [u64; ARGUMENT_BYTES / 8];

/// What a program has in memory.
struct Program<'a> {
    bytes: &'a [u8],
    handles: Vec<FunctionHandle>,
    sessions: Vec<c_int>,
    profiles: Vec<*mut c_void>,
    ids: Vec<CString>,
    /// Those that were called without waiting. They are not called again: their outputs would have memory that none can free.
    called: Vec<*mut c_void>,
    /// The memory of arguments, with a zero at the end of each.
    arguments: Vec<*mut Memory>,
}

impl<'a> Program<'a> {
    fn new(bytes: &'a [u8]) -> Program<'a> {
        Program {
            bytes,
            handles: (0..3).map(|_| FunctionHandle::default()).collect(),
            sessions: vec![0, 1, -1, c_int::MAX],
            profiles: vec![null_mut(), std::ptr::without_provenance_mut(8)],
            ids: vec![c"".into(), c"lyon".into(), c"lyon/00000000000000000000000000000007".into()],
            called: Vec::new(),
            arguments: (0..ARGUMENTS).map(|_| Box::into_raw(Box::new([0; ARGUMENT_BYTES / 8]))).collect(),
        }
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn number(&mut self) -> usize {
        usize::from(self.next().unwrap_or_default())
    }

    /// A handle, or no address of one.
    fn handle(&mut self) -> *mut FunctionHandle {
        match self.number() % 4 {
            3 => null_mut(),
            index => &raw mut self.handles[index],
        }
    }

    fn session(&mut self) -> c_int {
        let index = self.number() % self.sessions.len();
        self.sessions[index]
    }

    fn profile(&mut self) -> *mut c_void {
        let index = self.number() % self.profiles.len();
        self.profiles[index]
    }

    fn id(&mut self) -> CString {
        let index = self.number() % self.ids.len();
        self.ids[index].clone()
    }

    /// A number of elements for which there is memory, or one that no call may have.
    fn count(&mut self) -> c_int {
        match self.number() {
            0 => -1,
            1 => c_int::MAX,
            2 => c_int::MIN,
            number => (number % 20) as c_int,
        }
    }

    /// The addresses of arguments, of which the first is a number.
    fn addresses(&mut self) -> [*mut c_void; ARGUMENTS] {
        let count = self.count();
        let is_null = self.number();
        let letter = [0, 7, b'x'][self.number() % 3];
        let mut content: Memory = [0; ARGUMENT_BYTES / 8];
        content[..2].fill(u64::from_ne_bytes([letter; 8]));
        let mut addresses = [null_mut(); ARGUMENTS];
        for (position, argument) in self.arguments.iter().enumerate() {
            let of_number = [u64::from(count.cast_unsigned()); ARGUMENT_BYTES / 8];
            // SAFETY: it is the program's own memory, of which there are no references.
            unsafe { argument.write(if position == 0 { of_number } else { content }) };
            // Most are addresses.
            if is_null < 200 || is_null >> position & 1 == 0 {
                addresses[position] = argument.cast();
            }
        }
        addresses
    }

    fn entries(&mut self) -> Vec<DataEntry> {
        let length = self.number() % 4;
        let entry = |_| {
            let (position, mode, id) = (self.number() % 4, self.number() % 4, self.id());
            DataEntry::new(position, mode as c_int, id.to_str().unwrap_or_default())
        };
        (0..length).map(entry).collect()
    }

    fn step(&mut self, step: u8) {
        let name = NAMES[usize::from(step) % NAMES.len()];
        let mut session = self.session();
        let all = self.sessions.clone();
        let few = all.len().min(self.number() % 6);
        // SAFETY: every address is null or that of memory that is large enough for what a function may find or write there; it lives until
        // the library is finalized. Handles, profiles and arguments of profiles are known by their addresses.
        let code = unsafe {
            match step % 24 {
                0..3 => grpc_function_handle_default(self.handle(), name.as_ptr()),
                3 => {
                    let server = [null(), c"lyon".as_ptr(), c"nancy".as_ptr()][few % 3];
                    grpc_function_handle_init(self.handle(), server, name.as_ptr())
                }
                4 => grpc_function_handle_destruct(self.handle()),
                5..7 => {
                    let (handle, addresses) = (self.handle(), self.addresses());
                    pliant_grpc_call_array(handle, addresses.as_ptr(), few)
                }
                7..9 => {
                    let (handle, addresses) = (self.handle(), self.addresses());
                    pliant_grpc_call_array_async(handle, &raw mut session, addresses.as_ptr(), few)
                }
                9..11 => {
                    let (handle, addresses, mut entries) = (self.handle(), self.addresses(), self.entries());
                    let (at, length) = (entries.as_mut_ptr(), entries.len());
                    let code = match step % 2 {
                        0 => pliant_grpc_call_data(handle, addresses.as_ptr(), few, at, length),
                        _ => {
                            let session = &raw mut session;
                            pliant_grpc_call_data_async(handle, session, addresses.as_ptr(), few, at, length)
                        }
                    };
                    self.ids.extend(entries.iter().filter_map(|entry| CString::new(entry.id()).ok()));
                    code
                }
                11 => pliant_grpc_data_delete(self.id().as_ptr()),
                12 => grpc_cancel(session),
                13 => grpc_wait(session),
                14 => grpc_wait_and(all.as_ptr(), few),
                15 => grpc_wait_or(all.as_ptr(), few, &raw mut session),
                16 => grpc_wait_any(&raw mut session),
                17 => match few {
                    0 => grpc_wait_all(),
                    1 => grpc_cancel_all(),
                    2 => grpc_get_failed_sessionid(&raw mut session),
                    3 => grpc_get_error(session),
                    _ => grpc_probe_or(all.as_ptr(), few, &raw mut session),
                },
                18 => {
                    let (size, mut text) = (few * 40, [1_u8; 201]);
                    pliant_grpc_last_error_text(text.as_mut_ptr().cast(), size);
                    pliant_grpc_error_text(session, text.as_mut_ptr().cast(), size);
                    assert_eq!(text[size..], [1_u8; 201][size..], "nothing is written behind a buffer");
                    0
                }
                19 => {
                    let last = [few as c_int - 2, self.number() as c_int % 4, self.number() as c_int % 5];
                    let profile = diet_profile_alloc(name.as_ptr(), last[0], last[1], last[2]);
                    if !profile.is_null() {
                        self.profiles.push(profile);
                    }
                    0
                }
                20..22 => self.set_argument(),
                22 => {
                    let profile = self.profile();
                    if self.called.contains(&profile) {
                        return;
                    }
                    self.free_data(profile);
                    diet_call(profile)
                }
                _ => match few {
                    0 => {
                        let profile = self.profile();
                        if self.called.contains(&profile) {
                            return;
                        }
                        self.free_data(profile);
                        diet_profile_free(profile)
                    }
                    1 => {
                        let profile = self.profile();
                        if self.called.contains(&profile) {
                            return;
                        }
                        self.free_data(profile);
                        self.called.push(profile);
                        diet_call_async(profile, &raw mut session)
                    }
                    2 => diet_free_persistent_data(self.id().as_ptr()),
                    _ => self.get_argument(),
                },
            }
        };
        assert!(
            (0..=Code::LastErrorCode.number()).contains(&code) || code == Code::NoData.number(),
            "{code}"
        );
        if session > 0 && !self.sessions.contains(&session) {
            self.sessions.push(session);
        }
    }

    /// The address of an argument of a profile, or none.
    fn argument(&mut self) -> *mut c_void {
        let (profile, position) = (self.profile(), self.number() as c_int % 5 - 1);
        diet_parameter(profile, position)
    }

    fn set_argument(&mut self) -> c_int {
        let (argument, how, mode) = (self.argument(), self.number(), self.number() as c_int % 6);
        diet_free_data(argument);
        let (rows, columns) = (self.count() as usize, self.count() as usize);
        let at = self.addresses()[1 + how % 2];
        // A text, and enough memory for so many elements. What does not fit into a call may have any size.
        let is_large = |size: usize| size > usize::MAX / 2;
        let (rows, columns) = if rows == c_int::MAX as usize || columns == c_int::MAX as usize {
            (usize::MAX, 2)
        } else {
            (rows, if is_large(columns) { usize::MAX } else { columns % 6 })
        };
        let base = how as c_int % 7;
        // SAFETY: as in `step`.
        unsafe {
            match how % 6 {
                0 | 1 => diet_scalar_set(argument, self.arguments[0].cast(), mode % 2, 2),
                2 => diet_vector_set(argument, at, mode, base, rows),
                3 => diet_matrix_set(argument, at, mode, base, rows, columns, how as c_int % 3),
                4 => diet_string_set(argument, at.cast::<c_char>(), mode),
                _ => diet_use_data(argument, self.id().as_ptr()),
            }
        }
    }

    fn get_argument(&mut self) -> c_int {
        let argument = self.argument();
        let id = pliant_diet_data_id(argument);
        if !id.is_null() {
            // SAFETY: it is the address of a text of the library, which is copied before the next function is called.
            self.ids.push(unsafe { CStr::from_ptr(id) }.to_owned());
        }
        let (mut at, mut sizes) = (null_mut::<c_void>(), [0_usize; 2]);
        let to = (&raw mut at).cast::<c_void>();
        // SAFETY: the variables are those that the functions ask for.
        unsafe {
            match self.number() % 4 {
                0 => diet_scalar_get(argument, to, null_mut()),
                1 => diet_vector_get(argument, to, null_mut(), &raw mut sizes[0]),
                2 => {
                    let (rows, columns) = (&raw mut sizes[0], &raw mut sizes[1]);
                    diet_matrix_get(argument, to, null_mut(), rows, columns, null_mut())
                }
                _ => diet_string_get(argument, to.cast(), null_mut()),
            }
        }
    }

    /// Frees what calls have allocated for a profile.
    fn free_data(&self, profile: *mut c_void) {
        for position in 0..8 {
            diet_free_data(diet_parameter(profile, position));
        }
    }

    fn free_profiles(&self) {
        for profile in &self.profiles {
            self.free_data(*profile);
            diet_profile_free(*profile);
        }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        for argument in &self.arguments {
            // SAFETY: it is a box of its own, which the library does not use any more.
            drop(unsafe { Box::from_raw(*argument) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::ONE_TEST;
    use super::*;

    /// Programs of made-up bytes; the fuzzer has more.
    #[test]
    fn any_program_gets_codes() {
        let _guard = ONE_TEST.lock();
        let programs = if cfg!(miri) { 20 } else { 4000 };
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = [0_u8; 240];
        for _ in 0..programs {
            for byte in &mut bytes {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                *byte = state.to_le_bytes()[3];
            }
            as_a_program(&bytes);
        }
    }
}
