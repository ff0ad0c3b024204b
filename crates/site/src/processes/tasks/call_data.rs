//! Values that calls leave at the server, and get from there: each is a list of one value in a file.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use pliant_calls::{VALUES_BYTES_MAX, Value, decode, encode};

use rustix::fs::OFlags;

use super::call::{CallSpec, read_at_most};
use crate::call_values::{CallArguments, CallResults};

/// The folder in that of a job with the values that stay at the server, each in the file of its parameter.
pub const KEPT: &str = "kept";

/// The value in a file, which has at most `left` bytes: those that the other values of the call have left.
pub(super) fn stored_value(file: &Path, left: &mut usize) -> Result<Value, String> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(file);
    let bytes = opened.and_then(|file| {
        if file.metadata()?.len() > *left as u64 {
            let why = format!(
                "expected at most {VALUES_BYTES_MAX} bytes of values and data for a call, found more"
            );
            return Err(io::Error::other(why));
        }
        read_at_most(file, *left)
    });
    let bytes = bytes.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "expected its data at the server, found none any more".to_owned(),
        _ => format!("its data at the server cannot be read: {error}"),
    })?;
    *left -= bytes.len();
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
        arguments: &CallArguments,
        mut results: CallResults,
        work: &Path,
    ) -> Result<CallResults, String> {
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
            let signature = arguments.signature();
            let value = signature.position(name).and_then(|at| {
                let is_output = signature.parameters()[at].direction.is_output();
                match (is_output, returned) {
                    (false, _) => arguments.value(at).cloned(),
                    (true, true) => results.value(at).cloned(),
                    (true, false) => results.take(at),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]
    use super::*;

    #[test]
    fn data_are_read_within_what_a_call_may_have() {
        let root = tempfile::tempdir().unwrap();
        let (file, value) = (root.path().join("datum"), Value::String("x".repeat(100)));
        let bytes = encode(&[Some(value.clone())]).unwrap();
        fs::write(&file, &bytes).unwrap();
        let mut left = 2 * bytes.len() + 1;
        for _ in 0..2 {
            assert_eq!(stored_value(&file, &mut left), Ok(value.clone()));
        }
        let refused = stored_value(&file, &mut left).unwrap_err();
        assert!(refused.contains("expected at most 268435456 bytes of values and data"), "{refused}");
    }
}
