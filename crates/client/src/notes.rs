//! What the folders in which clients keep what they are at have in common: one client at a time, and what can be wrong with
//! them.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use pliant_staging::FileSpec;
use rustix::fs::{FlockOperation, flock};

/// A folder that cannot be used.
#[derive(Debug)]
pub enum NotesError {
    /// A file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another client is at work on it.
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// What was noted cannot be understood.
    Unreadable {
        /// The file, with the number of the line if it has many.
        place: String,
        /// Why.
        source: serde_json::Error,
    },
    /// It is of something else.
    Other {
        /// The folder.
        dir: PathBuf,
        /// What differs.
        what: &'static str,
        /// What was asked for.
        expected: String,
        /// What was noted.
        found: String,
    },
    /// There is nothing in it to go on with.
    Nothing {
        /// The folder.
        dir: PathBuf,
    },
}

impl fmt::Display for NotesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Self::InUse { dir } => write!(f, "{}: another client is at work on it", dir.display()),
            Self::Unreadable { place, source } => write!(f, "{place}: cannot be understood: {source}"),
            Self::Other { dir, what, expected, found } => {
                write!(f, "{}: {what}: expected {expected}, found {found}", dir.display())
            }
            Self::Nothing { dir } => {
                write!(f, "{}: expected something to go on with, found nothing", dir.display())
            }
        }
    }
}

impl std::error::Error for NotesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Unreadable { source, .. } => Some(source),
            Self::InUse { .. } | Self::Other { .. } | Self::Nothing { .. } => None,
        }
    }
}

/// An error at a file.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> NotesError {
    move |source| NotesError::Io { path: path.to_owned(), source }
}

/// Takes a folder for as long as the file is open.
///
/// # Errors
///
/// If its file `lock` cannot be made, or somebody else has it.
pub(super) fn lock(dir: &Path) -> Result<File, NotesError> {
    let path = dir.join("lock");
    let lock = File::options().create(true).append(true).open(&path).map_err(at(&path))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| NotesError::InUse { dir: dir.to_owned() })?;
    Ok(lock)
}

/// Input files by what tells them apart.
pub(super) fn named<'a>(files: impl Iterator<Item = &'a FileSpec>) -> String {
    let file =
        |file: &FileSpec| format!("{} ({} bytes, SHA-256 {})", file.name.as_str(), file.size, file.sha256);
    let files: Vec<String> = files.map(file).collect();
    if files.is_empty() { "none".to_owned() } else { files.join(", ") }
}
