//! Files and folders that only root can change.
//!
//! A path is walked from `/`, one component at a time, and each folder on the way belongs to root and is not writable by its group or by others.
//! Links are followed if they belong to root, since only root can have put them into such a folder. Other users
//! cannot change what was checked, so that the path can be opened later without a race.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat};

use crate::error::Error;

/// As many links as Linux follows in a path.
const LINKS_MAX: usize = 40;

/// The file or folder that a path leads to, opened with `O_PATH`. It belongs to root or to `owner`, and what leads there to root.
pub(crate) fn open(path: &Path, expected: FileType, owner: u32) -> Result<OwnedFd, Error> {
    let mut rest: VecDeque<OsString> = VecDeque::new();
    push_front(&mut rest, path);
    let mut links = 0;
    let (mut at, mut stat) = root()?;
    while let Some(name) = rest.pop_front() {
        let (next, found) = open_at(&at, &name, path)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            // An owner is checked by the last component too: what a link leads to may be anything.
            let owner = if rest.is_empty() { owner } else { 0 };
            is_protected(&found, owner).map_err(|found| unprotected(path, &name, &found))?;
            (at, stat) = (next, found);
            continue;
        }
        links += 1;
        if found.st_uid != 0 || links > LINKS_MAX {
            let found = "is a link that does not belong to root; name what it leads to";
            return Err(unprotected(path, &name, found));
        }
        let target =
            readlinkat(&next, "", Vec::new()).map_err(Error::system(format!("read a link of {path:?}")))?;
        let target = OsString::from_vec(target.into_bytes());
        if Path::new(&target).is_absolute() {
            (at, stat) = root()?;
        }
        push_front(&mut rest, Path::new(&target));
    }
    if FileType::from_raw_mode(stat.st_mode) != expected {
        let expected = if expected == FileType::Directory { "folder" } else { "file" };
        return Err(Error::lasting(format!("{path:?}: expected a {expected}, found another kind of file")));
    }
    Ok(at)
}

fn open_at(folder: impl AsFd, name: &OsStr, path: &Path) -> Result<(OwnedFd, Stat), Error> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened =
        openat(folder, name, flags, Mode::empty()).map_err(Error::system(format!("open {path:?}")))?;
    let stat = fstat(&opened).map_err(Error::system(format!("examine {path:?}")))?;
    Ok((opened, stat))
}

fn root() -> Result<(OwnedFd, Stat), Error> {
    let (name, path) = (OsStr::new("/"), Path::new("/"));
    let (root, stat) = open_at(CWD, name, path)?;
    is_protected(&stat, 0).map_err(|found| unprotected(path, name, &found))?;
    Ok((root, stat))
}

/// Puts the components of a path before those that are still to be walked.
fn push_front(rest: &mut VecDeque<OsString>, path: &Path) {
    for component in path.components().rev() {
        if matches!(component, Component::Normal(_) | Component::ParentDir) {
            rest.push_front(component.as_os_str().to_owned());
        }
    }
}

fn is_protected(stat: &Stat, owner: u32) -> Result<(), String> {
    if stat.st_uid != 0 && stat.st_uid != owner {
        let who = if owner == 0 { String::new() } else { format!(" or to uid {owner}") };
        return Err(format!("has to belong to root{who}, and belongs to uid {}", stat.st_uid));
    }
    if stat.st_mode & 0o022 != 0 {
        let mode = stat.st_mode & 0o7777;
        return Err(format!("is writable by its group or by others (mode {mode:04o}); `chmod go-w` it"));
    }
    Ok(())
}

fn unprotected(path: &Path, name: &OsStr, found: &str) -> Error {
    Error::lasting(format!("{path:?}: {name:?} {found}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_modes() {
        let check = |uid: u32, mode: u32, owner: u32, expected: bool| {
            let mut stat = fstat(std::io::stdin()).unwrap();
            (stat.st_uid, stat.st_mode) = (uid, mode);
            assert_eq!(is_protected(&stat, owner).is_ok(), expected, "{uid} {mode:o} {owner}");
        };
        check(0, 0o100_644, 0, true);
        check(0, 0o100_664, 0, false);
        check(0, 0o100_646, 0, false);
        check(0, 0o041_777, 0, false);
        check(7, 0o040_755, 0, false);
        check(7, 0o040_711, 7, true);
        check(0, 0o040_711, 7, true);
        check(8, 0o040_711, 7, false);
    }

    #[test]
    fn a_path_is_walked_by_its_components() {
        let check = |path: &str, expected: &[&str]| {
            let mut rest = VecDeque::from([OsString::from("z")]);
            push_front(&mut rest, Path::new(path));
            assert_eq!(rest, [expected, &["z"]].concat());
        };
        check("/a/b", &["a", "b"]);
        check("../c/./d", &["..", "c", "d"]);
        check("/", &[]);
    }

    #[test]
    fn links_of_roots_are_followed() {
        // `/proc/self` would be a link of this user's; `/proc/mounts` is one of root's, and leads to `self/mounts`.
        let opens = |path: &str, kind: FileType| open(Path::new(path), kind, 0).is_ok();
        let (file, folder) = (FileType::RegularFile, FileType::Directory);
        assert!(opens("/proc/version", file) && opens("/proc", folder) && opens("/", folder));
        assert!(!opens("/proc/version", folder) && !opens("/proc", file) && !opens("/", file));
        assert!(!opens("/tmp/any", file));
        assert!(!opens("/proc/no-such-file", file));
    }
}
