//! Space on the disk that is kept for commits: blocks allocated to the write-ahead log and to its index beyond their ends. No other file
//! can use them, and the log grows into them when the disk is full.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rustix::fs::{FallocateFlags, StatVfs, fallocate, statvfs};
use rustix::io::Errno;

use super::schema::{AUTOCHECKPOINT_PAGES, LOG_LIMIT_BYTES};
use super::statements::failed;
use crate::{Inodes, JournalError};

/// Bytes of a page in the log, with its header, at the largest page size that is used.
const FRAME_BYTES: u64 = 4096 + 24;
/// The unit in which the system counts what is allocated to a file.
const BLOCK_BYTES: u64 = 512;
/// The index has 32 KiB for 4096 pages of the log, and never less.
const LOG_BYTES_PER_INDEX_BYTE: u64 = 512;
const INDEX_BYTES_MIN: u64 = 64 << 10;

/// What is kept for the commits of a journal.
pub(super) struct Reserve {
    path: PathBuf,
    /// The index of the log. Closing it would end the locks that SQLite has on it, so it is closed after all connections.
    index: Arc<File>,
}

impl Reserve {
    /// Nothing yet, for the journal at `path`, which is open.
    pub(super) fn new(path: &Path) -> Result<Reserve, JournalError> {
        let index = OpenOptions::new().read(true).write(true).open(companion(path, "-shm"));
        let index = index.map_err(|source| unusable(path, source))?;
        Ok(Reserve { path: path.to_owned(), index: Arc::new(index) })
    }

    /// The index of the log, to be kept by each connection.
    pub(super) fn index(&self) -> Arc<File> {
        self.index.clone()
    }

    /// Allocates so many bytes beyond what the log takes between two checkpoints: while the disk is full there are none. As much must
    /// be left for others.
    pub(super) fn allocate(&self, connection: &Connection, bytes: u64) -> Result<(), JournalError> {
        let log_bytes = u64::from(AUTOCHECKPOINT_PAGES) * FRAME_BYTES + bytes;
        let index_bytes = log_bytes / LOG_BYTES_PER_INDEX_BYTE + INDEX_BYTES_MIN;
        // SQLite has no locks on the log.
        let log = OpenOptions::new().write(true).open(companion(&self.path, "-wal"));
        let log = log.map_err(|source| unusable(&self.path, source))?;
        // Some file systems allocate what is left before they fail.
        let needed = self.missing(&log, log_bytes)? + self.missing(&self.index, index_bytes)? + bytes;
        if self.free_bytes()? < needed {
            return Err(JournalError::Full { why: format!("{needed} bytes are needed for its reserve") });
        }
        // A log that is cut shorter than that would give back what was allocated.
        let limit = log_bytes.max(LOG_LIMIT_BYTES);
        let limited = connection.pragma_update(None, "journal_size_limit", limit as i64);
        limited.map_err(|error| failed(&self.path, &error))?;
        self.extend(&self.index, index_bytes)?;
        self.extend(&log, log_bytes)
    }

    /// How many bytes have to be allocated to a file so that it has so many.
    fn missing(&self, file: &File, bytes: u64) -> Result<u64, JournalError> {
        let metadata = file.metadata().map_err(|source| unusable(&self.path, source))?;
        Ok(bytes.saturating_sub(metadata.blocks() * BLOCK_BYTES))
    }

    fn extend(&self, file: &File, bytes: u64) -> Result<(), JournalError> {
        fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes).map_err(|error| match error {
            Errno::NOSPC | Errno::DQUOT => {
                JournalError::Full { why: format!("{bytes} bytes for its reserve") }
            }
            _ => unusable(&self.path, error.into()),
        })
    }

    /// The bytes of the disk that this process may still use.
    pub(super) fn free_bytes(&self) -> Result<u64, JournalError> {
        let disk = self.disk()?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    /// The inodes of the disk; none if it has no limit of them.
    pub(super) fn inodes(&self) -> Result<Option<Inodes>, JournalError> {
        let disk = self.disk()?;
        Ok((disk.f_files > 0).then_some(Inodes { free: disk.f_favail, total: disk.f_files }))
    }

    fn disk(&self) -> Result<StatVfs, JournalError> {
        statvfs(&self.path).map_err(|error| unusable(&self.path, error.into()))
    }

    /// The bytes of the disk that are allocated to the database, its log and the index of the log.
    pub(super) fn stored_bytes(&self) -> Result<u64, JournalError> {
        let files = ["", "-wal", "-shm"].map(|suffix| companion(&self.path, suffix));
        files.iter().try_fold(0, |sum, file| {
            let metadata = file.metadata().map_err(|source| unusable(file, source))?;
            Ok(sum + metadata.blocks() * BLOCK_BYTES)
        })
    }
}

/// The file of the database that has this suffix.
fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn unusable(path: &Path, source: io::Error) -> JournalError {
    JournalError::Folder { path: path.to_owned(), source }
}
