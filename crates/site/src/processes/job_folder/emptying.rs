//! The account's side of the removal of a job's folder: everything in it is deleted, whatever the job has left there or does there
//! meanwhile.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use pliant_staging::StagingError;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, fchmod, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

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
    let failed = |source: io::Error| StagingError::Io { path: path.to_owned(), source };
    let folder = open_folder(CWD, path).map_err(|cause| failed(cause.into()))?;
    fchmod(&folder, Mode::RWXU).map_err(|cause| failed(cause.into()))?;
    let mut emptying = Emptying { top: &folder, outputs_max, moved: 0, failure: None };
    emptying.empty(&folder, 0);
    emptying.failure.map_or(Ok(()), |failure| Err(failed(failure)))
}

/// Opens a folder that is not a link. One of the user's own that the user cannot read is made readable first.
pub(super) fn open_folder(at: impl AsFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(&at, name, flags | OFlags::RDONLY, Mode::empty());
    if opened.as_ref().err() != Some(&Errno::ACCESS) {
        return opened;
    }
    let handle = openat(&at, name, flags | OFlags::PATH, Mode::empty())?;
    // The link in /proc leads to this folder, wherever its name leads by now.
    chmodat(CWD, format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU, AtFlags::empty())
        .map_err(|_| Errno::ACCESS)?;
    openat(&handle, ".", flags | OFlags::RDONLY, Mode::empty())
}

/// A folder that becomes empty.
struct Emptying<'a> {
    top: &'a OwnedFd,
    /// How many bytes a standard output may have that remains.
    outputs_max: Option<u64>,
    /// How many folders were moved up.
    moved: u64,
    /// The first reason why something remains.
    failure: Option<io::Error>,
}

impl Emptying<'_> {
    fn empty(&mut self, folder: &OwnedFd, depth: usize) {
        for _ in 0..PASSES_MAX {
            match self.pass(folder, depth) {
                Ok(true) if self.failure.is_none() => {}
                Ok(_) => return,
                Err(cause) => return self.failed("read a folder", cause),
            }
        }
        self.failed("empty a folder, into which something keeps writing", Errno::NOTEMPTY);
    }

    /// Deletes each entry once. False if there was none.
    fn pass(&mut self, folder: &OwnedFd, depth: usize) -> Result<bool, Errno> {
        let mut found = false;
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let remains =
                matches!(name.to_bytes(), b"." | b"..") || depth == 0 && self.is_output(folder, name);
            if !remains {
                found = true;
                self.delete(folder, name, depth);
            }
        }
        Ok(found)
    }

    /// True if that is a standard output that remains.
    fn is_output(&self, folder: &OwnedFd, name: &CStr) -> bool {
        let Some(most) = self.outputs_max.filter(|_| matches!(name.to_bytes(), b"stdout" | b"stderr")) else {
            return false;
        };
        statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|file| {
            FileType::from_raw_mode(file.st_mode) == FileType::RegularFile
                && u64::try_from(file.st_size).is_ok_and(|bytes| bytes <= most)
        })
    }

    fn delete(&mut self, folder: &OwnedFd, name: &CStr, depth: usize) {
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
            // What comes back is found by the next pass.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(cause) => self.failed(&format!("delete {name:?}"), cause),
        }
    }

    fn delete_folder(&mut self, folder: &OwnedFd, name: &CStr, depth: usize) -> Result<(), Errno> {
        let inner = open_folder(folder, name)?;
        let stat = fstat(&inner)?;
        if stat.st_mode & 0o700 != 0o700 {
            fchmod(&inner, Mode::RWXU)?;
        }
        if depth < DEPTH_MAX {
            self.empty(&inner, depth + 1);
            return unlinkat(folder, name, AtFlags::REMOVEDIR);
        }
        loop {
            self.moved += 1;
            match renameat(folder, name, self.top, format!("pliant-emptied-{}", self.moved)) {
                // The job has an entry of this name itself.
                Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::ISDIR) => {}
                moved => return moved,
            }
        }
    }

    fn failed(&mut self, action: &str, cause: Errno) {
        let cause = io::Error::from(cause);
        let named = || io::Error::new(cause.kind(), format!("cannot {action}: {cause}"));
        self.failure.get_or_insert_with(named);
    }
}

#[cfg(test)]
mod tests;
