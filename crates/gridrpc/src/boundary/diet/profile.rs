//! Profiles: a function with its arguments, of which the program gives the addresses.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use pliant_calls::{
    Array, Direction, PARAMETERS_MAX, Parameter, ParameterType, ScalarType, Signature, VALUES_BYTES_MAX,
    Value,
};
use pliant_client::calls::{Keep, StoredData};

use super::data::Mode;
use crate::boundary::arguments::{Destination, read_array, read_number, read_text};
use crate::code::{Code, Failure, Outcome};
use crate::federation::{CallData, Results};

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// Counts the files that calls put into the folder for temporary files.
static FILES: AtomicU64 = AtomicU64::new(0);

/// All profiles of the program, by their addresses. So a pointer that is none, or that was freed, is an error and no crash.
static PROFILES: Mutex<BTreeMap<usize, Entry>> = Mutex::new(BTreeMap::new());

struct Entry {
    /// Its address is that of the profile. The addresses of the further bytes are those of the arguments; none of them is read.
    memory: Box<[u8]>,
    profile: Arc<Mutex<Profile>>,
}

/// A function with its arguments.
pub(super) struct Profile {
    pub(super) function: String,
    directions: Vec<Direction>,
    arguments: Vec<Argument>,
}

/// What an argument is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Unset,
    Scalar(ScalarType),
    Vector(ScalarType),
    Matrix { of: ScalarType, is_by_column: bool },
    Text,
    File,
}

impl Kind {
    /// That of a parameter, with matrices row by row.
    fn of(parameter: &ParameterType) -> Kind {
        match parameter {
            ParameterType::Scalar(of) => Kind::Scalar(*of),
            ParameterType::Vector { of, .. } => Kind::Vector(*of),
            ParameterType::Matrix { of, .. } => Kind::Matrix { of: *of, is_by_column: false },
            ParameterType::String { .. } => Kind::Text,
            ParameterType::File => Kind::File,
        }
    }

    /// True if a parameter of a signature is of this kind.
    fn is_of(self, parameter: &ParameterType) -> bool {
        match (self, parameter) {
            (Kind::Scalar(of), ParameterType::Scalar(expected))
            | (Kind::Vector(of), ParameterType::Vector { of: expected, .. })
            | (Kind::Matrix { of, .. }, ParameterType::Matrix { of: expected, .. }) => of == *expected,
            (Kind::Text, ParameterType::String { .. }) | (Kind::File, ParameterType::File) => true,
            _ => false,
        }
    }
}

/// An argument.
#[derive(Clone)]
pub(super) struct Argument {
    pub(super) kind: Kind,
    pub(super) at: *mut c_void,
    /// Of a vector its length, of a matrix its rows and columns; 1 if there is none.
    pub(super) sizes: [usize; 2],
    /// True if the memory was allocated by a call.
    pub(super) is_allocated: bool,
    /// Where it is after a call.
    pub(super) mode: Mode,
    /// The data that it is, if it is at a server.
    pub(super) stored: Option<StoredData>,
    /// The ID of the data that it is, or that the last call has left.
    pub(super) id: Option<CString>,
}

impl Default for Argument {
    fn default() -> Argument {
        let (at, sizes) = (ptr::null_mut(), [1, 1]);
        Argument {
            kind: Kind::Unset,
            at,
            sizes,
            is_allocated: false,
            mode: Mode::VOLATILE,
            stored: None,
            id: None,
        }
    }
}

// SAFETY: the addresses are used by the thread that calls the function, or that reports the end of its session. Until then the memory belongs to
// the library, as DIET_client.h says.
unsafe impl Send for Argument {}

/// The argument at an address: its profile and its position.
type Located = (Arc<Mutex<Profile>>, usize);

/// What a call of a profile takes.
pub(super) struct ReadArguments {
    pub(super) values: Vec<Option<Value>>,
    pub(super) files: BTreeMap<usize, PathBuf>,
    pub(super) data: CallData,
}

fn wrong(text: impl std::fmt::Display) -> Failure {
    Failure::new(Code::OtherErrorCode, text)
}

/// Adds a profile: its address.
pub(super) fn add(function: String, last: [c_int; 3]) -> Outcome<usize> {
    let [last_in, last_inout, last_out] = last;
    let most = PARAMETERS_MAX as c_int;
    if last_in < -1 || last_inout < last_in || last_out < last_inout || last_out >= most {
        return Err(wrong(format!(
            "expected the positions of the last arguments to rise from -1 to less than {most}, found {last:?}"
        )));
    }
    let direction = |position: c_int| match position {
        position if position <= last_in => Direction::In,
        position if position <= last_inout => Direction::InOut,
        _ => Direction::Out,
    };
    let directions: Vec<Direction> = (0..=last_out).map(direction).collect();
    let arguments = vec![Argument::default(); directions.len()];
    let memory = vec![0; directions.len() + 1].into_boxed_slice();
    let address = memory.as_ptr().expose_provenance();
    let profile = Arc::new(Mutex::new(Profile { function, directions, arguments }));
    PROFILES.lock().insert(address, Entry { memory, profile });
    Ok(address)
}

/// Removes a profile.
pub(super) fn remove(address: usize) -> Outcome {
    PROFILES.lock().remove(&address).map(drop).ok_or_else(|| unknown("profile", address))
}

/// The profile at an address.
pub(super) fn at(address: usize) -> Outcome<Arc<Mutex<Profile>>> {
    let profiles = PROFILES.lock();
    profiles.get(&address).map(|entry| entry.profile.clone()).ok_or_else(|| unknown("profile", address))
}

/// The address of an argument of a profile; none if there is no such position.
pub(super) fn argument_address(profile: usize, position: c_int) -> Option<usize> {
    let profiles = PROFILES.lock();
    let length = profiles.get(&profile)?.memory.len();
    let offset = usize::try_from(position).ok()?.checked_add(1)?;
    (offset < length).then(|| profile + offset)
}

/// The argument at an address.
pub(super) fn located(address: usize) -> Outcome<Located> {
    let profiles = PROFILES.lock();
    let found = profiles.range(..address).next_back();
    let found = found.filter(|(profile, entry)| address - **profile < entry.memory.len());
    let (profile, entry) = found.ok_or_else(|| unknown("argument", address))?;
    Ok((entry.profile.clone(), address - profile - 1))
}

fn unknown(what: &str, address: usize) -> Failure {
    wrong(format!("expected the address of {what} that diet_profile_alloc has returned, found {address:#x}"))
}

impl Profile {
    /// Sets an argument.
    pub(super) fn set(&mut self, position: usize, argument: Argument) -> Outcome {
        let is_input = self.directions[position].is_input();
        let bytes = match argument.kind {
            Kind::Scalar(of) | Kind::Vector(of) | Kind::Matrix { of, .. } => of.bytes() as usize,
            Kind::Unset | Kind::Text | Kind::File => 1,
        };
        let bytes = argument.sizes.iter().try_fold(bytes, |bytes, size| bytes.checked_mul(*size));
        if bytes.is_none_or(|bytes| bytes > VALUES_BYTES_MAX) {
            let sizes = argument.sizes;
            return Err(wrong(format!(
                "expected at most {VALUES_BYTES_MAX} bytes, found sizes of {sizes:?}"
            )));
        }
        let has_elements = argument.sizes[0] > 0 && argument.sizes[1] > 0;
        if is_input && argument.at.is_null() && has_elements {
            return Err(wrong(format!("expected an address for the input {position}, found a null pointer")));
        }
        self.arguments[position] = argument;
        Ok(())
    }

    pub(super) fn argument(&self, position: usize) -> Argument {
        self.arguments[position].clone()
    }

    /// Has an argument be data at a server, or nothing if the ID of the data is wrong.
    pub(super) fn use_data(&mut self, position: usize, data: Outcome<StoredData>) -> Outcome {
        let argument = &mut self.arguments[position];
        let data = match data {
            Ok(data) => data,
            Err(failure) => {
                *argument = Argument::default();
                return Err(failure);
            }
        };
        argument.id = id_of(&data);
        argument.stored = Some(data);
        Ok(())
    }

    /// The address of the ID of an argument's data; null if there is none.
    pub(super) fn data_id(&self, position: usize) -> *const c_char {
        self.arguments[position].id.as_ref().map_or(ptr::null(), |id| id.as_ptr())
    }

    /// A server has accepted a call, which leaves these data.
    pub(super) fn accepted(&mut self, data: &BTreeMap<usize, StoredData>) {
        for (position, data) in data {
            if let Some(argument) = self.arguments.get_mut(*position) {
                argument.id = id_of(data);
            }
        }
    }

    /// Frees what a call has allocated for an argument.
    pub(super) fn free(&mut self, position: usize) -> Outcome {
        let argument = &mut self.arguments[position];
        if !argument.is_allocated {
            return Err(wrong(format!("expected argument {position} to have memory of a call, found none")));
        }
        // SAFETY: a call has allocated it, and the program has not freed it by itself, as DIET_client.h says.
        unsafe { free(argument.at) };
        (argument.at, argument.is_allocated) = (ptr::null_mut(), false);
        Ok(())
    }

    /// Reads the inputs for a call of a function with this signature.
    ///
    /// # Safety
    ///
    /// The addresses are those of what was set.
    pub(super) unsafe fn read(&mut self, signature: &Signature) -> Outcome<ReadArguments> {
        let expected: Vec<Direction> =
            signature.parameters().iter().map(|parameter| parameter.direction).collect();
        if expected != self.directions {
            let names = |directions: &[Direction]| {
                let names: Vec<&str> = directions.iter().map(|direction| direction.name()).collect();
                names.join(", ")
            };
            return Err(wrong(format!(
                "expected the arguments of {} ({signature}), found a profile with: {}",
                self.function,
                names(&self.directions)
            )));
        }
        let values = vec![None; self.arguments.len()];
        let mut read = ReadArguments { values, files: BTreeMap::new(), data: CallData::default() };
        let arguments = self.arguments.iter_mut().zip(signature.parameters());
        for (position, (argument, parameter)) in arguments.enumerate() {
            let of_argument =
                |error: Failure| wrong(format!("argument {position} ({parameter}): {}", error.text));
            argument.read_data((position, parameter), &mut read.data).map_err(of_argument)?;
            if !argument.kind.is_of(&parameter.kind) {
                let found =
                    format!("expected an argument of the type in the signature, found {:?}", argument.kind);
                return Err(of_argument(wrong(found)));
            }
            if argument.kind == Kind::File {
                // SAFETY: passed on.
                let path = unsafe { argument.path() };
                read.files.insert(position, path.unwrap_or_else(temporary));
                read.values[position] =
                    parameter.direction.is_input().then(|| Value::File(parameter.name.clone()));
            } else if parameter.direction.is_input() && argument.stored.is_none() {
                // SAFETY: passed on.
                read.values[position] = Some(unsafe { argument.value() }.map_err(of_argument)?);
            }
        }
        let is_stored = |parameter: &Parameter| {
            signature.position(&parameter.name).is_some_and(|at| read.data.is_stored(at))
        };
        signature.check_arguments_but(&read.values, is_stored).map_err(wrong)?;
        read.data.check(signature)?;
        Ok(read)
    }

    /// Writes the results of a call; those of files are at these paths.
    ///
    /// # Safety
    ///
    /// As of [`Profile::read`].
    pub(super) unsafe fn write(&mut self, results: &Results, files: &BTreeMap<usize, PathBuf>) -> Outcome {
        for (position, direction) in self.directions.iter().enumerate() {
            let Some(value) =
                results.get(position).and_then(Option::as_ref).filter(|_| direction.is_output())
            else {
                continue;
            };
            let argument = &mut self.arguments[position];
            // SAFETY: passed on.
            unsafe {
                match (value, files.get(&position)) {
                    (Value::File(_), Some(path)) if argument.at.is_null() || argument.is_allocated => {
                        argument.allocate_text(path.clone().into_os_string().into_vec())?;
                    }
                    (Value::File(_), _) => {}
                    (Value::String(text), _) => argument.allocate_text(text.clone().into_bytes())?,
                    (value, _) => argument.write(value)?,
                }
            }
        }
        Ok(())
    }
}

/// The ID of data, for C.
fn id_of(data: &StoredData) -> Option<CString> {
    CString::new(data.to_string()).ok()
}

impl Argument {
    /// Notes what the argument takes from a server, and what it leaves there.
    fn read_data(&mut self, (position, parameter): (usize, &Parameter), data: &mut CallData) -> Outcome {
        if let Some(stored) = &self.stored {
            data.stored.insert(position, stored.clone());
            // It is known by its ID alone.
            if self.kind == Kind::Unset {
                self.kind = Kind::of(&parameter.kind);
            }
        }
        let can_stay = parameter.kind.can_stay();
        if self.mode.is_at_server_only() && !can_stay {
            return Err(wrong(
                "expected DIET_VOLATILE or a mode with _RETURN, since numbers, files and strings without a capacity do not stay at servers, \
                 found another mode",
            ));
        }
        let stays = self.mode.is_at_server_only() || self.mode.is_at_both() && can_stay;
        // What is at the server and does not change is there already.
        if stays && (self.stored.is_none() || parameter.direction.is_output()) {
            data.keep.insert(position, Keep::new(self.mode.is_at_both()));
            self.id = None;
        }
        Ok(())
    }

    /// The path of a file, if one was set by the program.
    ///
    /// # Safety
    ///
    /// The address is null or that of a path.
    unsafe fn path(&self) -> Option<PathBuf> {
        // SAFETY: passed on.
        (!self.at.is_null() && !self.is_allocated)
            .then(|| unsafe { PathBuf::from(OsStr::from_bytes(CStr::from_ptr(self.at.cast()).to_bytes())) })
    }

    /// The value of an input.
    ///
    /// # Safety
    ///
    /// The address is that of what the kind and the sizes say.
    unsafe fn value(&self) -> Outcome<Value> {
        let [rows, columns] = self.sizes.map(|size| size as u64);
        // The memory that a call had allocated for it was freed.
        if self.at.is_null() && rows > 0 && columns > 0 && self.kind != Kind::Unset {
            return Err(wrong("expected an address for an input, found a null pointer"));
        }
        // SAFETY: passed on.
        unsafe {
            Ok(match self.kind {
                Kind::Unset => return Err(wrong("expected an argument that is set, found none")),
                Kind::Scalar(of) => read_number(of, self.at),
                Kind::Vector(of) => Value::Vector(read_array(of, self.at, rows)),
                Kind::Matrix { of, is_by_column } => {
                    let elements = read_array(of, self.at, rows * columns);
                    let elements = match is_by_column {
                        true => transposed(&elements, self.sizes[1], self.sizes[0]),
                        false => elements,
                    };
                    Value::Matrix { rows, columns, elements }
                }
                Kind::Text | Kind::File => {
                    let text = read_text(self.at.cast(), None).unwrap_or_default();
                    let text =
                        String::from_utf8(text).map_err(|_| wrong("expected UTF-8, found other bytes"))?;
                    Value::String(text)
                }
            })
        }
    }

    /// Writes a number or elements: to the memory of the program, or to new memory.
    ///
    /// # Safety
    ///
    /// As of [`Argument::value`].
    unsafe fn write(&mut self, value: &Value) -> Outcome {
        let (of, is_by_column) = match self.kind {
            Kind::Scalar(of) | Kind::Vector(of) => (of, false),
            Kind::Matrix { of, is_by_column } => (of, is_by_column),
            Kind::Unset | Kind::Text | Kind::File => {
                return Err(wrong(format!("expected another type of output, found {}", value.describe())));
            }
        };
        let (sizes, elements) = match value {
            Value::Vector(elements) => ([elements.len(), 1], Some(elements.clone())),
            Value::Matrix { rows, columns, elements } => {
                let sizes = [*rows as usize, *columns as usize];
                let elements = match is_by_column {
                    true => transposed(elements, sizes[0], sizes[1]),
                    false => elements.clone(),
                };
                (sizes, Some(elements))
            }
            _ => ([1, 1], None),
        };
        let is_new = self.at.is_null() || self.is_allocated;
        if !is_new && sizes != self.sizes {
            return Err(wrong(format!("expected an output of size {:?}, found {sizes:?}", self.sizes)));
        }
        let count = sizes[0] * sizes[1];
        let at = match is_new {
            // SAFETY: a size is always allowed.
            true => unsafe { malloc((count * of.bytes() as usize).max(1)) },
            false => self.at,
        };
        if at.is_null() {
            return Err(wrong("no memory for an output"));
        }
        let destination = Destination::of(at, Some(of), count as u64);
        // SAFETY: either it was just allocated for so many elements, or the caller promises them.
        let written = unsafe { destination.write(&elements.map_or_else(|| value.clone(), Value::Vector)) };
        if is_new && written.is_err() {
            // SAFETY: it was just allocated.
            unsafe { free(at) };
            return written;
        }
        (self.at, self.sizes, self.is_allocated) = (at, sizes, is_new);
        written
    }

    /// Copies a text to new memory.
    fn allocate_text(&mut self, text: Vec<u8>) -> Outcome {
        let text = CString::new(text).map_err(|_| wrong("expected a text without NUL, found one"))?;
        let bytes = text.as_bytes_with_nul();
        // SAFETY: a size is always allowed.
        let at = unsafe { malloc(bytes.len()) };
        if at.is_null() {
            return Err(wrong("no memory for an output"));
        }
        // SAFETY: it was just allocated for so many bytes.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), at.cast::<u8>(), bytes.len()) };
        (self.at, self.is_allocated) = (at, true);
        Ok(())
    }
}

/// A path for an output of which the program has none.
fn temporary() -> PathBuf {
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("pliant-diet-{}-{number}", std::process::id()))
}

/// A matrix of so many rows and columns, given row by row, column by column.
fn transposed(elements: &Array, rows: usize, columns: usize) -> Array {
    fn transpose<T: Copy>(elements: &[T], rows: usize, columns: usize) -> Vec<T> {
        (0..columns).flat_map(|column| (0..rows).map(move |row| elements[row * columns + column])).collect()
    }
    match elements {
        Array::Char(elements) => Array::Char(transpose(elements, rows, columns)),
        Array::Int(elements) => Array::Int(transpose(elements, rows, columns)),
        Array::Long(elements) => Array::Long(transpose(elements, rows, columns)),
        Array::Float(elements) => Array::Float(transpose(elements, rows, columns)),
        Array::Double(elements) => Array::Double(transpose(elements, rows, columns)),
    }
}
