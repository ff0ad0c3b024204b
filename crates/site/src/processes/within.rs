//! Entries of a folder that are on its file system. What is mounted in it is not touched: who serves a file system can keep its callers waiting
//! for ever.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, chmodat, fchmod, fstat, openat, openat2, statat,
};
use rustix::io::Errno;
use rustix::path::Arg;

/// How a folder is opened that is not a link.
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Linux before 5.6 has no `openat2`.
const NO_OPENAT2: Errno = Errno::NOSYS;

/// The metadata of an entry, links not followed.
pub(super) fn stat(folder: impl AsFd, name: impl Arg + Copy) -> Result<Stat, Errno> {
    match open(&folder, name, OFlags::PATH) {
        Ok(entry) => fstat(entry),
        // A link cannot be opened so; it is on the file system of its folder.
        Err(Errno::LOOP | NO_OPENAT2) => statat(folder, name, AtFlags::SYMLINK_NOFOLLOW),
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
        Err(NO_OPENAT2) => openat(folder, path, FOLDER | OFlags::RDONLY, Mode::empty()),
        opened => opened,
    }
}

/// Opens a folder in another one to read it. One of this user's that does not give its owner the rights in `needed` is changed first.
pub(super) fn open_usable(
    folder: impl AsFd,
    name: impl Arg + Copy,
    needed: Mode,
) -> Result<(OwnedFd, Stat), Errno> {
    let opened = match open_folder(&folder, name) {
        Err(Errno::ACCESS) => open_closed(&folder, name, needed),
        opened => opened,
    }?;
    let stat = fstat(&opened)?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if !mode.contains(needed) {
        fchmod(&opened, mode | needed)?;
    }
    Ok((opened, stat))
}

/// The same by the path of the folder; only what its last part names must not be a link.
pub(super) fn open_usable_path(path: &Path, needed: Mode) -> Result<(OwnedFd, Stat), Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL) };
    let parent = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    open_usable(&parent, name, needed)
}

/// Opens a folder that its owner has closed to itself.
fn open_closed(folder: impl AsFd, name: impl Arg + Copy, needed: Mode) -> Result<OwnedFd, Errno> {
    let handle = match open(&folder, name, OFlags::PATH | OFlags::DIRECTORY) {
        Err(NO_OPENAT2) => openat(&folder, name, FOLDER | OFlags::PATH, Mode::empty()),
        opened => opened,
    }?;
    // The link in /proc leads to this folder, wherever its name leads by now.
    let mode = Mode::from_raw_mode(fstat(&handle)?.st_mode) | needed;
    chmodat(CWD, format!("/proc/self/fd/{}", handle.as_raw_fd()), mode, AtFlags::empty())
        .map_err(|_| Errno::ACCESS)?;
    openat(&handle, ".", FOLDER | OFlags::RDONLY, Mode::empty())
}

fn open(folder: impl AsFd, path: impl Arg, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    openat2(folder, path, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty(), resolve)
}
