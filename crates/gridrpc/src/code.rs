//! The codes of the standard, and failures: a code with its full text.

use std::ffi::{CStr, c_int};
use std::fmt;

/// A code of the standard, or of its extensions (`grpc_error_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Code {
    /// The call succeeded.
    NoError = 0,
    /// The library is not initialized.
    NotInitialized = 1,
    /// The client's file does not exist or cannot be read.
    ConfigFileNotFound = 2,
    /// The client's file is not valid.
    ConfigFileError = 3,
    /// The federation has no such server.
    ServerNotFound = 4,
    /// No server offers such a function.
    FunctionNotFound = 5,
    /// Not a function handle.
    InvalidFunctionHandle = 6,
    /// Not the ID of a session.
    InvalidSessionId = 7,
    /// Servers refuse the call.
    RpcRefused = 8,
    /// No agent or server answers.
    CommunicationFailed = 9,
    /// The call ended without a result.
    SessionFailed = 10,
    /// The call is under way.
    NotCompleted = 11,
    /// All of these calls are under way.
    NoneCompleted = 12,
    /// Another error.
    OtherErrorCode = 13,
    /// What an undefined code is known as.
    UnknownErrorCode = 14,
    /// The library is initialized already.
    AlreadyInitialized = 15,
    /// The largest code.
    LastErrorCode = 16,
    /// Data of an earlier call are gone. It is none of the standard's.
    NoData = 31,
}

/// The names of the standard's codes, by number.
const NAMES: [&CStr; 17] = [
    c"GRPC_NO_ERROR",
    c"GRPC_NOT_INITIALIZED",
    c"GRPC_CONFIGFILE_NOT_FOUND",
    c"GRPC_CONFIGFILE_ERROR",
    c"GRPC_SERVER_NOT_FOUND",
    c"GRPC_FUNCTION_NOT_FOUND",
    c"GRPC_INVALID_FUNCTION_HANDLE",
    c"GRPC_INVALID_SESSION_ID",
    c"GRPC_RPC_REFUSED",
    c"GRPC_COMMUNICATION_FAILED",
    c"GRPC_SESSION_FAILED",
    c"GRPC_NOT_COMPLETED",
    c"GRPC_NONE_COMPLETED",
    c"GRPC_OTHER_ERROR_CODE",
    c"GRPC_UNKNOWN_ERROR_CODE",
    c"GRPC_ALREADY_INITIALIZED",
    c"GRPC_LAST_ERROR_CODE",
];

impl Code {
    /// The number of the code.
    pub fn number(self) -> c_int {
        self as c_int
    }

    /// The name of the code of that number; that of `GRPC_UNKNOWN_ERROR_CODE` if there is none.
    pub fn name(number: c_int) -> &'static CStr {
        if number == Code::NoData.number() {
            return c"PLIANT_GRPC_NO_DATA";
        }
        let known = usize::try_from(number).ok().and_then(|number| NAMES.get(number));
        known.copied().unwrap_or(NAMES[Code::UnknownErrorCode as usize])
    }
}

/// A code with its full text: what was expected, what was found, what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The code.
    pub code: Code,
    /// The text.
    pub text: String,
}

impl Failure {
    /// A failure with that text.
    pub fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure { code, text: text.to_string() }
    }

    /// The same text with another code: what a function reports of a session that failed.
    pub(crate) fn with_code(self, code: Code) -> Failure {
        Failure { code, ..self }
    }
}

/// What functions of the library end with.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

pub(crate) fn not_initialized() -> Failure {
    Failure::new(
        Code::NotInitialized,
        "expected a call of grpc_initialize first, found none, or grpc_finalize after it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_name_and_others_that_of_the_unknown_code() {
        let check = |number, name: &CStr| assert_eq!(Code::name(number), name);
        check(Code::NoError.number(), c"GRPC_NO_ERROR");
        check(Code::SessionFailed.number(), c"GRPC_SESSION_FAILED");
        check(Code::LastErrorCode.number(), c"GRPC_LAST_ERROR_CODE");
        check(Code::NoData.number(), c"PLIANT_GRPC_NO_DATA");
        for undefined in [-1, 17, 30, 32, c_int::MAX, c_int::MIN] {
            check(undefined, c"GRPC_UNKNOWN_ERROR_CODE");
        }
        assert_eq!(NAMES.len(), Code::LastErrorCode as usize + 1);
    }
}
