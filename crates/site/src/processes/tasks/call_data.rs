//! Values that calls leave at the server, and get from there: each is a list of one value in a file.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use pliant_calls::{Signature, VALUES_BYTES_MAX, Value, decode, encode};

use super::call::{CallSpec, read_file};

/// The folder in that of a job with the values that stay at the server, each in the file of its parameter.
pub const KEPT: &str = "kept";

/// The value in a file.
pub(super) fn stored_value(file: &Path) -> Result<Value, String> {
    let bytes = read_file(file, VALUES_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "expected its data at the server, found none any more".to_owned(),
        _ => format!("its data at the server cannot be read: {error}"),
    })?;
    let values = decode(&bytes).map_err(|error| format!("its data at the server: {error}"))?;
    match <[Option<Value>; 1]>::try_from(values) {
        Ok([Some(value)]) => Ok(value),
        _ => Err("its data at the server: expected one value, found others".to_owned()),
    }
}

impl CallSpec {
    /// Leaves values in the folder of the job that are to stay at the server, and takes those from the results that do not come back.
    pub(in crate::processes) fn keep(
        &self,
        signature: &Signature,
        arguments: &[Option<Value>],
        mut results: Vec<Option<Value>>,
        work: &Path,
    ) -> Result<Vec<Option<Value>>, String> {
        if self.kept.is_empty() {
            return Ok(results);
        }
        let Some(job) = work.parent() else { return Err("its work folder is in no folder".to_owned()) };
        let folder = job.join(KEPT);
        let failed = |error: io::Error| format!("what stays at the server cannot be written: {error}");
        // A run before this one may have left something.
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        DirBuilder::new().mode(0o700).create(&folder).map_err(failed)?;
        for (name, returned) in &self.kept {
            let value = signature.position(name).and_then(|at| {
                let is_output = signature.parameters()[at].direction.is_output();
                match (is_output, returned) {
                    (false, _) => arguments[at].clone(),
                    (true, true) => results[at].clone(),
                    (true, false) => results[at].take(),
                }
            });
            if value.is_none() {
                return Err(format!("`{name}`: expected a value that stays at the server, found none"));
            }
            let bytes = encode(&[value]).map_err(|error| format!("`{name}`: {error}"))?;
            fs::write(folder.join(name), bytes).map_err(failed)?;
        }
        Ok(results)
    }
}
