//! Loading a workload from a file of any format.

use std::io::BufRead;
use std::path::Path;

use crate::error::{Problem, TraceError};
use crate::lines::{open, plain};
use crate::workload::{Format, LoadOptions, Workload};
use crate::{logs, scenario};

/// Loads a workload in any format.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Workload, TraceError> {
    let input = open(path).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
    load_from(path, input, options)
}

/// Loads a workload that is open already, compressed or not. The name decides the format and appears in errors.
pub fn load_from(
    path: &Path,
    input: impl BufRead + Send,
    options: &LoadOptions,
) -> Result<Workload, TraceError> {
    let input = plain(input).map_err(|error| TraceError::new(path, Problem::Io(error)))?;
    match Format::of(path) {
        Format::Scenario => scenario::load(path, input, options),
        Format::Swf | Format::Gwf | Format::Batsim => logs::load_from(path, input, options),
    }
}
