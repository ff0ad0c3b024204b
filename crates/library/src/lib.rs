//! A function of a shared library as a typed service: the process `pliant call-library`, a resident process that loads the library
//! and calls the function with the values of each call.
//!
//! The function returns an `int`, 0 for success, and takes one argument for each parameter of the signature:
//!
//! | parameter | C |
//! |---|---|
//! | `in` number | by value: `unsigned char`, `int32_t`, `int64_t`, `float`, `double` |
//! | `inout` or `out` number | a pointer to it |
//! | vector, matrix | a pointer to the elements, row by row |
//! | `in` string, file | `const char *`; a file is the path |
//! | `inout` or `out` string | `char *`, of the declared capacity |
//!
//! Arguments are passed as the C conventions of Linux on x86-64 and AArch64 have it: whole numbers and pointers in one sequence of
//! registers, then on the stack, and floating-point numbers in a sequence of registers of their own. So one type of function, with
//! [`FLOATS_MAX`] floating-point numbers and [`WORDS_MAX`] others, calls every such function, and no library that generates code for
//! each signature is needed. On other machines the library is refused.

mod buffers;
#[allow(unsafe_code)]
mod function;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use pliant_calls::frame::{self, FrameError, FrameKind, Header};
use pliant_calls::{Signature, SignatureError, Value, decode, encode};

use buffers::Buffers;
use function::Function;

pub use pliant_calls::{C_FLOATS_MAX as FLOATS_MAX, C_WORDS_MAX as WORDS_MAX};

/// Why a function does not answer calls.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The signature makes no sense.
    #[error("signature: {0}")]
    Signature(#[from] SignatureError),
    /// It has more parameters than can be passed.
    #[error(
        "expected at most {WORDS_MAX} arguments and {FLOATS_MAX} floating-point numbers by value, found {words} and {floats}"
    )]
    Parameters {
        /// Pointers and whole numbers.
        words: usize,
        /// Floating-point numbers.
        floats: usize,
    },
    /// The library cannot be loaded, or has no such function.
    #[error("{0}")]
    Load(String),
    /// Calls cannot be read, or answers not written.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// Standard input or output cannot be used.
    #[error("standard streams: {0}")]
    Output(#[from] io::Error),
}

/// Answers calls on standard input until it ends. What the library prints goes to standard error, and it reads nothing from standard
/// input: a function that does would take the next call.
///
/// # Errors
/// The library cannot be loaded, or the pipes break.
pub fn serve(library: &Path, function: &str, signature: &str) -> Result<(), LibraryError> {
    let mut out = File::from(rustix::io::dup(rustix::stdio::stdout()).map_err(io::Error::from)?);
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).map_err(io::Error::from)?;
    let mut calls = File::from(rustix::io::dup(rustix::stdio::stdin()).map_err(io::Error::from)?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?).map_err(io::Error::from)?;
    let signature: Signature = signature.parse()?;
    check(&signature)?;
    let function = Function::load(library, function).map_err(LibraryError::Load)?;
    answer_calls(&signature, &function, &mut calls, &mut out)
}

/// Whether every parameter can be passed.
fn check(signature: &Signature) -> Result<(), LibraryError> {
    let (words, floats) = signature.c_arguments();
    match floats > FLOATS_MAX || words > WORDS_MAX {
        true => Err(LibraryError::Parameters { words, floats }),
        false => Ok(()),
    }
}

fn answer_calls(
    signature: &Signature,
    function: &Function,
    calls: &mut impl Read,
    out: &mut impl Write,
) -> Result<(), LibraryError> {
    while let Some((header, payload)) = frame::read(calls)? {
        if header.kind != FrameKind::Call {
            continue;
        }
        let (kind, payload) = match answer(signature, function, &payload) {
            Ok(results) => (FrameKind::Result, results),
            Err(mut reason) => {
                reason.truncate(reason.floor_char_boundary(frame::REASON_BYTES_MAX));
                (FrameKind::Failure, reason.into_bytes())
            }
        };
        frame::write(out, Header::answer(kind, payload.len()), &payload)?;
    }
    Ok(())
}

fn answer(signature: &Signature, function: &Function, arguments: &[u8]) -> Result<Vec<u8>, String> {
    let values = decode(arguments).map_err(|error| error.to_string())?;
    let mut buffers = Buffers::of(signature, &values)?;
    match buffers.call(function) {
        0 => {}
        code => return Err(format!("the function returned {code}")),
    }
    let results: Vec<Option<Value>> = buffers.results()?;
    encode(&results).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
