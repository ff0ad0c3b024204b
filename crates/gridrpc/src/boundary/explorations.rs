//! The function of `grpc.h` for explorations.

#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "grpc.h says what pointers point to; null pointers give a code"
)]

use std::ffi::{OsStr, c_char, c_int, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::entry::{elements, null, run, text, write};
use crate::code::{Code, Failure, Outcome};
use crate::federation::Explored;

/// The most options of an exploration.
const OPTIONS_MAX: usize = 1 << 16;

/// `pliant_grpc_exploration_t`.
#[repr(C)]
pub struct Exploration {
    mandatory: c_uint,
    optional: c_uint,
    failed: c_uint,
    late_s: f64,
}

#[cfg(test)]
impl Exploration {
    /// All of its fields.
    pub(super) fn counts(&self) -> (c_uint, c_uint, c_uint, f64) {
        (self.mandatory, self.optional, self.failed, self.late_s)
    }
}

/// `pliant_grpc_explore`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pliant_grpc_explore(
    options: *const *const c_char,
    count: usize,
    folder: *const c_char,
    exploration: *mut Exploration,
) -> c_int {
    run(|library| {
        if count > OPTIONS_MAX {
            let text = format!("expected at most {OPTIONS_MAX} options, found {count}");
            return Err(Failure::new(Code::OtherErrorCode, text));
        }
        // SAFETY: grpc.h asks for an array of strings.
        let options = unsafe { elements(options, count, "options") }?;
        let option = |option: &*const c_char| -> Outcome<String> {
            // SAFETY: grpc.h asks for strings.
            let option = unsafe { text(*option) }.ok_or_else(|| null("an option"))?;
            let wrong =
                |_| Failure::new(Code::OtherErrorCode, "expected an option in UTF-8, found other bytes");
            option.to_str().map(str::to_owned).map_err(wrong)
        };
        let options = options.iter().map(option).collect::<Outcome<Vec<String>>>()?;
        // SAFETY: grpc.h asks for a string.
        let folder = unsafe { text(folder) }.ok_or_else(|| null("the path of a folder"))?;
        let folder = Path::new(OsStr::from_bytes(folder.to_bytes()));
        let Explored { mandatory, optional, failed, late_s } = library.explore(options, folder)?;
        if exploration.is_null() {
            return Ok(());
        }
        // SAFETY: grpc.h asks for a variable, or a null pointer.
        unsafe { write(exploration, "an exploration", Exploration { mandatory, optional, failed, late_s }) }
    })
}
