//! Folders of jobs, which are made for an account.

use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, chmodat, chownat, fstat, mkdirat, openat};
use rustix::io::Errno;

use crate::account::Account;
use crate::config::Config;
use crate::error::Error;
use crate::privileges;
use crate::protected;

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
            let allowed = format!("one of `folders` of the launcher's file ({:?})", config.folders);
            Error::refused(
                "folder",
                path,
                format!("{allowed} and a name of letters, digits, `.`, `_` and `-`"),
            )
        };
        let bytes = path.as_os_str().as_bytes();
        let slash = bytes.iter().rposition(|byte| *byte == b'/').ok_or_else(expected)?;
        let (parent, name) = (Path::new(OsStr::from_bytes(&bytes[..slash])), &bytes[slash + 1..]);
        // Bytes are compared: `Path` takes several spellings for equal.
        if !config.folders.iter().any(|folder| folder.as_os_str() == parent.as_os_str()) || !is_name(name) {
            return Err(expected());
        }
        let parent = protected::open(parent, FileType::Directory, caller)?;
        Ok(JobFolder { path, parent, name: OsStr::from_bytes(name) })
    }

    /// Becomes the account and makes the folder; one that is there and belongs to the account is fine.
    ///
    /// The new folder is never root's, so that there is no moment in which the caller could put another one in its place.
    pub(crate) fn make(&self, account: &Account) -> Result<(), Error> {
        let made = privileges::make_as(account, || mkdirat(&self.parent, self.name, Mode::RWXU))?;
        match made {
            // A parent with the set-group-ID bit hands its group and the bit on.
            Ok(()) | Err(Errno::EXIST) => self.close(account).map_err(Error::of_account),
            Err(cause) => Err(Error::system(format!("make {:?}", self.path))(cause).of_account()),
        }
    }

    /// Closes a folder of the account to others, and gives it the account's group.
    fn close(&self, account: &Account) -> Result<(), Error> {
        let cannot = || Error::system(format!("open {:?}, which has to be a folder", self.path));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(&self.parent, self.name, flags, Mode::empty()).map_err(cannot())?;
        let owner = fstat(&folder).map_err(cannot())?.st_uid;
        if owner != account.entry.uid {
            let expected = format!("a folder that belongs to {:?}", account.entry.name);
            return Err(Error::refused("folder", self.path, format!("{expected} (found uid {owner})")));
        }
        // The link in /proc leads to this folder, wherever its name leads by now.
        let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
        chownat(CWD, &link, None, Some(Gid::from_raw(account.entry.gid)), AtFlags::empty())
            .map_err(cannot())?;
        chmodat(CWD, link, Mode::RWXU, AtFlags::empty()).map_err(cannot())
    }
}

fn is_name(name: &[u8]) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.first().is_some_and(u8::is_ascii_alphanumeric)
        && name.len() <= 255
        && name.iter().all(|byte| is_letter(*byte))
}

/// Opens a descriptor's folder for the program that is run.
pub(crate) fn enter(folder: &Path) -> Result<(), Error> {
    if !folder.is_absolute() {
        return Err(Error::refused("folder", folder, "an absolute path"));
    }
    rustix::process::chdir(folder).map_err(Error::system(format!("change to {folder:?}")))
}
