//! Files that are either the old or the new ones, never half of each, and the lock of a folder.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Who may read a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FileReaders {
    /// Its owner alone.
    Owner,
    /// Everybody that the process's mask lets.
    All,
}

/// Replaces a file atomically.
pub(super) fn replace(path: &Path, content: &[u8], readers: FileReaders) -> io::Result<()> {
    let missing = || io::Error::new(io::ErrorKind::InvalidInput, "expected the path of a file");
    let name = path.file_name().ok_or_else(missing)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut draft_name = std::ffi::OsString::from(".");
    draft_name.push(name);
    draft_name.push(format!(".{}.draft", std::process::id()));
    let draft = folder.join(draft_name);
    // Left by a process of the same id that was ended while it wrote.
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let written = write_new(&draft, content, readers).and_then(|()| fs::rename(&draft, path));
    if let Err(error) = written {
        // The first failure is reported; the draft may stay.
        let _ = fs::remove_file(&draft);
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

fn write_new(path: &Path, content: &[u8], readers: FileReaders) -> io::Result<()> {
    let mode = match readers {
        FileReaders::Owner => 0o600,
        FileReaders::All => 0o644,
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Waits until no other process works in the folder. The lock ends with the value.
pub(super) fn lock(folder: &Path) -> io::Result<File> {
    let path = folder.join(".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.lock()?;
    Ok(file)
}
