//! Folders of jobs: made for an account, and emptied as an account.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, Stat, chmodat, fchmod, fstat, mkdirat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use crate::account::Account;
use crate::config::Config;
use crate::error::Error;
use crate::privileges;
use crate::protected::{self, Kind};

/// How many folders are open at once. What is deeper is moved up first, since a job can make folders as deep as it likes.
const DEPTH_MAX: usize = 32;
/// How often a folder is read from its beginning while it does not become empty.
const PASSES_MAX: usize = 10_000;

/// A folder of a job: its opened parent, which belongs to the caller or to root, and its name.
pub(crate) struct JobFolder<'a> {
    path: &'a Path,
    parent: OwnedFd,
    name: &'a OsStr,
}

impl<'a> JobFolder<'a> {
    /// Checks and opens the parent.
    ///
    /// # Errors
    /// The folder is not directly below one of the file's folders, or others than root and the caller can change what is in its parent.
    pub(crate) fn allowed(path: &'a Path, config: &Config, caller: u32) -> Result<JobFolder<'a>, Error> {
        let expected = || {
            let folders = &config.folders;
            let name = "and a name of letters, digits, `.`, `_` and `-`";
            Error::refused(
                "folder",
                path,
                format!("one of `folders` of the launcher's file ({folders:?}) {name}"),
            )
        };
        let bytes = path.as_os_str().as_bytes();
        let slash = bytes.iter().rposition(|byte| *byte == b'/').ok_or_else(expected)?;
        let (parent, name) = (Path::new(OsStr::from_bytes(&bytes[..slash])), &bytes[slash + 1..]);
        // Bytes are compared: `Path` takes several spellings for equal.
        if !config.folders.iter().any(|folder| folder.as_os_str() == parent.as_os_str()) || !is_name(name) {
            return Err(expected());
        }
        let parent = protected::open(parent, Kind::Folder(caller))?;
        Ok(JobFolder { path, parent, name: OsStr::from_bytes(name) })
    }

    /// Becomes the account and makes the folder; one that is there and belongs to the account is fine.
    ///
    /// The new folder is never root's, so that there is no moment in which the caller could put another one in its place.
    pub(crate) fn make(&self, account: &Account) -> Result<(), Error> {
        let made = privileges::make_as(account, || mkdirat(&self.parent, self.name, Mode::RWXU))?;
        match made {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => self.open(account).map(drop),
            Err(cause) => Err(Error::system(format!("make {:?}", self.path))(cause)),
        }
    }

    /// Becomes the account and deletes everything in the folder.
    pub(crate) fn empty(&self, account: &Account) -> Result<(), Error> {
        privileges::become_account(account)?;
        let folder = self.open(account)?;
        let mut emptying = Emptying { top: &folder, moved: 0, failure: None };
        emptying.empty(&folder, 0);
        emptying.failure.map_or(Ok(()), Err)
    }

    /// Opens the folder as the account, and closes it to others.
    fn open(&self, account: &Account) -> Result<OwnedFd, Error> {
        let cannot = || Error::system(format!("open {:?}, which has to be a folder", self.path));
        let folder = open_folder(&self.parent, self.name).map_err(cannot())?;
        let owner = stat(&folder)?.st_uid;
        if owner != account.uid {
            let expected = format!("a folder that belongs to {:?}", account.name);
            return Err(Error::refused("folder", self.path, format!("{expected} (found uid {owner})")));
        }
        fchmod(&folder, Mode::RWXU).map_err(cannot())?;
        Ok(folder)
    }
}

fn is_name(name: &[u8]) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.first().is_some_and(u8::is_ascii_alphanumeric)
        && name.len() <= 255
        && name.iter().all(|byte| is_letter(*byte))
}

fn stat(folder: &OwnedFd) -> Result<Stat, Error> {
    fstat(folder).map_err(Error::system("examine a folder"))
}

/// Opens a folder that is not a link. One of the account's own that it cannot read is made readable first.
fn open_folder(at: &OwnedFd, name: impl rustix::path::Arg + Copy) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(at, name, flags | OFlags::RDONLY, Mode::empty());
    if opened.as_ref().err() != Some(&Errno::ACCESS) {
        return opened;
    }
    let handle = openat(at, name, flags | OFlags::PATH, Mode::empty())?;
    // The link in /proc leads to this folder, wherever its name leads by now.
    chmodat(CWD, format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU, AtFlags::empty())
        .map_err(|_| Errno::ACCESS)?;
    openat(&handle, ".", flags | OFlags::RDONLY, Mode::empty())
}

/// A folder that becomes empty.
struct Emptying<'a> {
    top: &'a OwnedFd,
    /// How many folders were moved up.
    moved: u64,
    /// The first of those that remain.
    failure: Option<Error>,
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
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                found = true;
                self.delete(folder, entry.file_name(), depth);
            }
        }
        Ok(found)
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
        self.failure.get_or_insert_with(|| Error::system(action)(cause));
    }
}

/// Opens a descriptor's folder for the program that is run.
pub(crate) fn enter(folder: &Path) -> Result<(), Error> {
    if !folder.is_absolute() {
        return Err(Error::refused("folder", folder, "an absolute path"));
    }
    rustix::process::chdir(folder).map_err(Error::system(format!("change to {folder:?}")))
}
