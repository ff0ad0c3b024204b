//! Options that were not written on the command line: in a line of a script, on a page, or as arguments of a call in Python.

use std::ffi::OsString;

use clap::{Args, Command};

use crate::RequestError;
use crate::usage_error::usage_failure;

/// Parses words as the options of a command; `of` is its name in errors.
///
/// # Errors
///
/// If they are no such options.
pub fn parsed<T: Args>(of: &'static str, words: Vec<String>) -> Result<T, RequestError> {
    let command = T::augment_args(Command::new(of).disable_help_flag(true).no_binary_name(true));
    let arguments: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let failed = |error: &clap::Error| {
        let named: Vec<OsString> = std::iter::once(OsString::from(of)).chain(arguments.clone()).collect();
        usage_failure(&command, &named, error).unwrap_or_else(|| RequestError::input(error))
    };
    let matches = command.clone().try_get_matches_from(&arguments).map_err(|error| failed(&error))?;
    T::from_arg_matches(&matches).map_err(|error| failed(&error))
}
