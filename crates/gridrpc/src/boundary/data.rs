//! Data that stay at servers between calls: the functions of `grpc.h` about them.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "grpc.h says what pointers point to; null pointers give a code"
)]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;

use pliant_calls::{PARAMETERS_MAX, Signature};
use pliant_client::calls::{Keep, StoredData};

use super::calls::prepare;
use super::entry::{FunctionHandle, elements, null, run, set_to_none, text, write};
use crate::code::{Code, Failure, Outcome};
use crate::federation::CallData;
use crate::library::{Library, PreparedCall};
use crate::sessions::SessionId;

/// `PLIANT_GRPC_DATA_ID_SIZE`: a server has at most 63 letters, a key 32.
const ID_BYTES: usize = 128;
/// One to take and one to leave for each parameter.
const ENTRIES_MAX: usize = 2 * PARAMETERS_MAX;

/// The values of `pliant_grpc_data_mode_t`.
const USE: c_int = 0;
const KEEP: c_int = 1;
const KEEP_AND_RETURN: c_int = 2;

/// `pliant_grpc_data_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataEntry {
    position: usize,
    mode: c_int,
    id: [c_char; ID_BYTES],
}

#[cfg(any(test, feature = "fuzzing"))]
impl DataEntry {
    /// An entry with an ID.
    pub(super) fn new(position: usize, mode: c_int, id: &str) -> DataEntry {
        let mut entry = DataEntry { position, mode, id: [0; ID_BYTES] };
        for (to, from) in entry.id.iter_mut().zip(id.bytes()) {
            *to = from.cast_signed();
        }
        entry
    }

    /// Its ID.
    pub(super) fn id(&self) -> String {
        // A new entry has a zero at its end.
        read_id(&self.id).unwrap_or_default()
    }
}

/// The text of an ID, if there is a zero at its end.
fn read_id(id: &[c_char; ID_BYTES]) -> Option<String> {
    let length = id.iter().position(|byte| *byte == 0)?;
    // c_char has a sign on some machines.
    let bytes: Vec<u8> = id[..length].iter().map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8(bytes).ok()
}

/// The data with an ID.
pub(super) fn data_of(id: &str) -> Outcome<StoredData> {
    id.parse().map_err(|error| Failure::new(Code::OtherErrorCode, error))
}

/// Reads which data a call takes and leaves.
fn read(signature: &Signature, entries: &[DataEntry]) -> Outcome<CallData> {
    let mut data = CallData::default();
    for (index, entry) in entries.iter().enumerate() {
        let wrong =
            |why: String| Failure::new(Code::OtherErrorCode, format!("entry {index} of the data: {why}"));
        let is_new = match entry.mode {
            USE => {
                let id = read_id(&entry.id);
                let id = id.ok_or_else(|| wrong("expected an ID of data, found another text".to_owned()))?;
                let stored = data_of(&id).map_err(|error| wrong(error.text))?;
                data.stored.insert(entry.position, stored).is_none()
            }
            KEEP | KEEP_AND_RETURN => {
                data.keep.insert(entry.position, Keep::new(entry.mode == KEEP_AND_RETURN)).is_none()
            }
            mode => return Err(wrong(format!("expected a mode of grpc.h, found {mode}"))),
        };
        if !is_new {
            let at = entry.position;
            return Err(wrong(format!("expected one entry for the parameter {at} in this mode, found two")));
        }
    }
    data.check(signature)?;
    Ok(data)
}

/// The IDs in an array of the program.
#[derive(Clone, Copy)]
struct Ids {
    entries: *mut DataEntry,
    count: usize,
}

impl Ids {
    /// Writes the ID of an entry, with a zero at its end.
    ///
    /// # Safety
    ///
    /// There is such an entry.
    unsafe fn set(self, index: usize, id: &str) {
        let mut bytes = [0_u8; ID_BYTES];
        let length = id.len().min(ID_BYTES - 1);
        bytes[..length].copy_from_slice(&id.as_bytes()[..length]);
        // SAFETY: the entry is in the array, and the ID within it. Bytes need no alignment.
        unsafe {
            let at =
                self.entries.cast::<u8>().add(index * size_of::<DataEntry>() + offset_of!(DataEntry, id));
            at.copy_from_nonoverlapping(bytes.as_ptr(), ID_BYTES);
        }
    }
}

/// Prepares a call with data: the IDs of what stays are written once a server has accepted it.
///
/// # Safety
///
/// As of [`prepare`]; `entries` is null or the address of `entries_count` entries until the call is accepted.
unsafe fn prepare_with_data(
    library: &Library,
    handle: *mut FunctionHandle,
    (arguments, count): (*const *mut c_void, usize),
    (entries, entries_count): (*mut DataEntry, usize),
) -> Outcome<PreparedCall> {
    if entries_count > ENTRIES_MAX {
        let text = format!("expected at most {ENTRIES_MAX} entries of data, found {entries_count}");
        return Err(Failure::new(Code::OtherErrorCode, text));
    }
    // SAFETY: passed on.
    let read_entries = unsafe { elements(entries, entries_count, "data") }?;
    let ids = Ids { entries, count: entries_count };
    let kept: BTreeMap<usize, usize> = (0..ids.count)
        .filter(|index| matches!(read_entries[*index].mode, KEEP | KEEP_AND_RETURN))
        .map(|index| (read_entries[index].position, index))
        .collect();
    for index in kept.values() {
        // SAFETY: the index is less than the count.
        unsafe { ids.set(*index, "") };
    }
    // SAFETY: passed on.
    let prepared = unsafe {
        prepare(library, handle, None, (arguments, count), |signature| read(signature, &read_entries))
    }?;
    let accepted = move |stored: &BTreeMap<usize, StoredData>| {
        for (position, data) in stored {
            if let Some(index) = kept.get(position) {
                // SAFETY: the index is less than the count, and the function of the program that starts the call has not returned.
                unsafe { ids.set(*index, &data.to_string()) };
            }
        }
    };
    Ok(PreparedCall { accepted: Box::new(accepted), ..prepared })
}

/// `pliant_grpc_call_data`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_grpc_call_data(
    handle: *mut FunctionHandle,
    arguments: *const *mut c_void,
    count: usize,
    data: *mut DataEntry,
    data_count: usize,
) -> c_int {
    run(|library| {
        // SAFETY: grpc.h asks for the addresses of arguments, and for an array of entries.
        library.call(unsafe { prepare_with_data(library, handle, (arguments, count), (data, data_count)) }?)
    })
}

/// `pliant_grpc_call_data_async`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_grpc_call_data_async(
    handle: *mut FunctionHandle,
    session: *mut SessionId,
    arguments: *const *mut c_void,
    count: usize,
    data: *mut DataEntry,
    data_count: usize,
) -> c_int {
    run(|library| {
        // SAFETY: as of the call that waits, and grpc.h asks for a variable.
        unsafe {
            set_to_none(session)?;
            let call = prepare_with_data(library, handle, (arguments, count), (data, data_count))?;
            write(session, "a session ID", library.call_async(call)?)
        }
    })
}

/// `pliant_grpc_data_delete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_grpc_data_delete(id: *const c_char) -> c_int {
    run(|library| {
        // SAFETY: grpc.h asks for a string.
        let id = unsafe { text(id) }.ok_or_else(|| null("the ID of data"))?;
        library.delete_data(&data_of(&id.to_string_lossy())?)
    })
}
