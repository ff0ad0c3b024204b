//! Atomic files: written under a temporary name in the same folder, then renamed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::FileError;

/// Larger than the default, which costs a system call every hundred rows.
const BUFFER_BYTES: usize = 1 << 18;

/// Writes `path` through `fill`.
pub(super) fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> Result<(), FileError> {
    let temporary = temporary(path);
    let failed = |source| FileError::io(path, "write this file", source);
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, File::create(&temporary).map_err(failed)?);
    fill(&mut out).and_then(|()| out.flush()).map_err(failed)?;
    drop(out);
    rename(&temporary, path)
}

/// Whether `path` could be written.
pub(super) fn try_out(path: &Path) -> Result<(), FileError> {
    let temporary = temporary(path);
    File::create(&temporary).map_err(|source| FileError::io(path, "write this file", source))?;
    remove(&temporary)
}

/// The name that `path` has while it is written.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    path.with_file_name(name)
}

/// Gives a finished file its name.
pub(super) fn rename(temporary: &Path, path: &Path) -> Result<(), FileError> {
    std::fs::rename(temporary, path).map_err(|source| FileError::io(path, "rename this file", source))
}

/// Removes a file if it is there.
pub(super) fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(FileError::io(path, "replace this file", source))
        }
        _ => Ok(()),
    }
}
