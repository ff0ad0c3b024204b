//! Data that stay at servers: the persistence modes of arguments, and the functions about data.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use super::super::data::data_of;
use super::super::entry::{guarded, null, run, text};
use super::{profile, wrong};
use crate::code::{Code, Outcome};

/// Where an argument is after a call (`diet_persistence_mode_t`). No data move between servers, so persistent ones stick, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mode(c_int);

impl Mode {
    /// `DIET_VOLATILE`: with the client.
    pub(super) const VOLATILE: Mode = Mode(0);
    const PERSISTENT_RETURN: c_int = 1;
    const PERSISTENT: c_int = 2;
    const STICKY: c_int = 3;
    const STICKY_RETURN: c_int = 4;

    /// The mode of that number.
    pub(super) fn of(number: c_int) -> Outcome<Mode> {
        match (0..=Mode::STICKY_RETURN).contains(&number) {
            true => Ok(Mode(number)),
            false => Err(wrong(format!("expected a persistence mode of DIET_client.h, found {number}"))),
        }
    }

    pub(super) fn number(self) -> c_int {
        self.0
    }

    /// At the server, and not with the client.
    pub(super) fn is_at_server_only(self) -> bool {
        [Mode::PERSISTENT, Mode::STICKY].contains(&self.0)
    }

    /// At the server, and with the client.
    pub(super) fn is_at_both(self) -> bool {
        [Mode::PERSISTENT_RETURN, Mode::STICKY_RETURN].contains(&self.0)
    }
}

/// `diet_use_data`.
#[unsafe(no_mangle)]
#[allow(clippy::missing_safety_doc, reason = "DIET_client.h says what pointers point to")]
pub unsafe extern "C" fn diet_use_data(argument: *mut c_void, id: *const c_char) -> c_int {
    guarded(|| {
        let (profile, position) = profile::located(argument.addr())?;
        // SAFETY: DIET_client.h asks for a string or a null pointer.
        let data = unsafe { text(id) }.ok_or_else(|| null("the ID of data"));
        let data = data.and_then(|id| data_of(&id.to_string_lossy()));
        profile.lock().use_data(position, data)
    })
}

/// `pliant_diet_data_id`.
#[unsafe(no_mangle)]
pub extern "C" fn pliant_diet_data_id(argument: *mut c_void) -> *const c_char {
    let mut id = std::ptr::null();
    guarded(|| {
        let (profile, position) = profile::located(argument.addr())?;
        id = profile.lock().data_id(position);
        Ok(())
    });
    id
}

/// `diet_free_persistent_data`: 1 if the data are gone, as in DIET.
#[unsafe(no_mangle)]
#[allow(clippy::missing_safety_doc, reason = "DIET_client.h says what pointers point to")]
pub unsafe extern "C" fn diet_free_persistent_data(id: *const c_char) -> c_int {
    let code = run(|library| {
        // SAFETY: DIET_client.h asks for a string.
        let id = unsafe { text(id) }.ok_or_else(|| null("the ID of data"))?;
        library.delete_data(&data_of(&id.to_string_lossy())?)
    });
    c_int::from(code == Code::NoError.number())
}
