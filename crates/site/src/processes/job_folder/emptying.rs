//! The account's side of the removal of a job's folder, and of what a job has left elsewhere: everything in a folder is deleted, whatever the
//! job has left there or does there meanwhile.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use pliant_staging::StagingError;
use rustix::fs::{AtFlags, Dir, FileType, Mode, fchmod, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::processes::within;

/// How many folders are open at once. What is deeper is moved up first, since a job can make folders as deep as it likes.
const DEPTH_MAX: usize = 32;
/// How often a folder is read from its beginning while it does not become empty.
const PASSES_MAX: usize = 10_000;

/// Deletes everything in a folder of this process's user, without following links and without leaving its file system. The empty folder
/// remains: its parent belongs to the server. With `outputs_max`, the files of the standard outputs remain, too, if they have at most so
/// many bytes.
///
/// # Errors
/// The folder cannot be opened, or something remains.
pub(super) fn empty(path: &Path, outputs_max: Option<u64>) -> Result<(), StagingError> {
    let emptied = || -> io::Result<()> {
        let (folder, _) = within::open_usable_path(path, Mode::RWXU)?;
        fchmod(&folder, Mode::RWXU)?;
        empty_opened(&folder, &mut |folder, name, depth| depth == 0 && is_output(folder, name, outputs_max))
    };
    emptied().map_err(|source| StagingError::Io { path: path.to_owned(), source })
}

/// Whether an entry of a folder of that depth remains.
type Remains<'a> = dyn FnMut(&OwnedFd, &CStr, usize) -> bool + 'a;

/// Deletes the same in an open folder, but for what a function says to remain: an entry, with what is below it, if it is a folder.
///
/// # Errors
/// Something else remains.
pub(super) fn empty_opened(folder: &OwnedFd, remains: &mut Remains<'_>) -> io::Result<()> {
    let mut emptying = Emptying { top: folder, remains, moved: 0, tried: 0, remaining: 0, failure: None };
    emptying.empty(folder, 0);
    emptying.failure.map_or(Ok(()), Err)
}

/// Whether an entry is a standard output of at most so many bytes.
fn is_output(folder: &OwnedFd, name: &CStr, outputs_max: Option<u64>) -> bool {
    let Some(most) = outputs_max.filter(|_| matches!(name.to_bytes(), b"stdout" | b"stderr")) else {
        return false;
    };
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|file| {
        FileType::from_raw_mode(file.st_mode) == FileType::RegularFile
            && u64::try_from(file.st_size).is_ok_and(|bytes| bytes <= most)
    })
}

/// A folder that becomes empty.
struct Emptying<'a, 'b> {
    top: &'a OwnedFd,
    remains: &'a mut Remains<'b>,
    /// How many folders were moved up, and how many names were tried for them.
    moved: u64,
    tried: u64,
    /// How many entries remain, again in each pass.
    remaining: u64,
    /// The first reason why something remains that should not.
    failure: Option<io::Error>,
}

impl Emptying<'_, '_> {
    fn empty(&mut self, folder: &OwnedFd, depth: usize) {
        for _ in 0..PASSES_MAX {
            let moved = self.moved;
            match self.pass(folder, depth) {
                Ok(true) => {}
                // What was moved up is here now.
                Ok(false) if depth == 0 && self.moved > moved => {}
                Ok(false) => return,
                Err(cause) => return self.failed("read a folder", cause),
            }
        }
        self.failed("empty a folder, into which something keeps writing", Errno::NOTEMPTY);
    }

    /// Deletes each entry once. True if another pass may find what can be deleted.
    fn pass(&mut self, folder: &OwnedFd, depth: usize) -> Result<bool, Errno> {
        let mut again = false;
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
            } else if (self.remains)(folder, name, depth) {
                self.remaining += 1;
            } else {
                again |= self.delete(folder, name, depth);
            }
        }
        Ok(again)
    }

    /// Deletes an entry. False if it remains for a reason that stays.
    fn delete(&mut self, folder: &OwnedFd, name: &CStr, depth: usize) -> bool {
        let remaining = self.remaining;
        let deleted = unlinkat(folder, name, AtFlags::empty());
        let deleted = match deleted {
            // What is mounted here is busy, and is not entered.
            Err(Errno::ISDIR | Errno::PERM) => unlinkat(folder, name, AtFlags::REMOVEDIR),
            deleted => deleted,
        };
        let deleted = match deleted {
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.delete_folder(folder, name, depth),
            deleted => deleted,
        };
        match deleted {
            Ok(()) | Err(Errno::NOENT) => true,
            // What comes back is found by the next pass.
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.remaining == remaining,
            Err(cause) => {
                self.failed(&format!("delete {name:?}"), cause);
                false
            }
        }
    }

    fn delete_folder(&mut self, folder: &OwnedFd, name: &CStr, depth: usize) -> Result<(), Errno> {
        let (inner, _) = within::open_usable(folder, name, Mode::RWXU)?;
        if depth < DEPTH_MAX {
            self.empty(&inner, depth + 1);
            return unlinkat(folder, name, AtFlags::REMOVEDIR);
        }
        loop {
            self.tried += 1;
            match renameat(folder, name, self.top, format!("pliant-emptied-{}", self.tried)) {
                // The job has an entry of this name itself.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR) => {}
                moved => {
                    self.moved += u64::from(moved.is_ok());
                    return moved;
                }
            }
        }
    }

    fn failed(&mut self, action: &str, cause: Errno) {
        self.remaining += 1;
        let cause = io::Error::from(cause);
        let named = || io::Error::new(cause.kind(), format!("cannot {action}: {cause}"));
        self.failure.get_or_insert_with(named);
    }
}

#[cfg(test)]
mod tests;
