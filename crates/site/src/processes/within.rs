//! Entries of a folder that are on its file system. What is mounted in it is not touched: who serves a file system can keep its callers waiting
//! for ever.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat};
use rustix::io::Errno;
use rustix::path::Arg;

/// The metadata of an entry, links not followed.
pub(super) fn stat(folder: impl AsFd, name: impl Arg + Copy) -> Result<Stat, Errno> {
    match open(&folder, name, OFlags::PATH) {
        Ok(entry) => fstat(entry),
        // A link cannot be opened so; it is on the file system of its folder.
        Err(Errno::LOOP | Errno::NOSYS) => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW),
        Err(cause) => Err(cause),
    }
}

/// Opens a folder of the system's to read it.
pub(super) fn open_top(path: &Path) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a folder to read it, by a path below another one.
pub(super) fn open_folder(folder: impl AsFd, path: impl Arg + Copy) -> Result<OwnedFd, Errno> {
    match open(&folder, path, OFlags::RDONLY | OFlags::DIRECTORY) {
        // Linux before 5.6.
        Err(Errno::NOSYS) => openat(
            folder,
            path,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::empty(),
        ),
        opened => opened,
    }
}

fn open(folder: impl AsFd, path: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    openat2(folder, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve)
}
