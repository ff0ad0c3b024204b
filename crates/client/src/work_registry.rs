//! The folders of work that commands of a user have begun, so that others find them: a link to each in a folder of the user's own.
//!
//! A link is made or renewed by one system call, so commands need no lock, and a folder that was removed leaves a link that leads
//! nowhere. A link is named by a checksum of the path of its folder.

use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// The hexadecimal digits of an ID.
const ID_DIGITS: usize = 16;

/// The registry of a user on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WorkRegistry {
    dir: PathBuf,
}

/// A folder of the registry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RegisteredFolder {
    /// When a command worked in it first or was begun again.
    pub begun: SystemTime,
    /// Its ID in the registry.
    pub id: String,
    /// Its path.
    pub dir: PathBuf,
}

impl WorkRegistry {
    /// The registry in that folder, which need not exist yet.
    pub fn new(dir: PathBuf) -> WorkRegistry {
        WorkRegistry { dir }
    }

    /// Adds a folder of work that exists, or makes it the newest.
    ///
    /// # Errors
    ///
    /// If the folder does not exist, or the registry cannot be written.
    pub fn add(&self, folder: &Path) -> io::Result<()> {
        let folder = fs::canonicalize(folder)?;
        fs::create_dir_all(&self.dir)?;
        let id = id_of(&folder);
        let part = self.dir.join(format!(".{id}.{}", std::process::id()));
        symlink(&folder, &part)?;
        fs::rename(&part, self.dir.join(id))
    }

    /// The folders, the newest first; those that are there no more are left out.
    ///
    /// # Errors
    ///
    /// If the registry cannot be read.
    pub fn folders(&self) -> io::Result<Vec<RegisteredFolder>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let of = |entry: fs::DirEntry| {
            let id = entry.file_name().into_string().ok()?;
            let begun = entry.metadata().and_then(|link| link.modified()).ok()?;
            Some(RegisteredFolder { begun, dir: self.find(&id)?, id })
        };
        let mut found: Vec<RegisteredFolder> = entries.flatten().filter_map(of).collect();
        found.sort();
        found.reverse();
        Ok(found)
    }

    /// The folder of that ID; none if it is not in the registry, or is there no more.
    pub fn find(&self, id: &str) -> Option<PathBuf> {
        let is_id = id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| fs::read_link(self.dir.join(id)).ok()).flatten().filter(|dir| dir.is_dir())
    }
}

fn id_of(folder: &Path) -> String {
    let digest = Sha256::digest(folder.as_os_str().as_encoded_bytes());
    digest.iter().take(ID_DIGITS / 2).fold(String::new(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_found_until_they_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let registry = WorkRegistry::new(dir.path().join("state/work"));
        assert_eq!(registry.folders().unwrap(), []);
        let (one, other) = (dir.path().join("one"), dir.path().join("other <b>"));
        assert!(registry.add(&one).is_err(), "there is no such folder");
        for folder in [&one, &other] {
            fs::create_dir(folder).unwrap();
            registry.add(folder).unwrap();
        }
        registry.add(&one.join("../one")).unwrap();
        let found = registry.folders().unwrap();
        let mut dirs: Vec<PathBuf> = found.iter().map(|folder| folder.dir.clone()).collect();
        dirs.sort();
        let canonical = |path: &Path| fs::canonicalize(path).unwrap();
        assert_eq!(dirs, [canonical(&one), canonical(&other)], "the same folder is there once");
        assert!(found.iter().all(|folder| registry.find(&folder.id).as_ref() == Some(&folder.dir)));
        fs::remove_dir(&other).unwrap();
        assert_eq!(registry.folders().unwrap().len(), 1);
        for id in ["", "..", "../one", "0123456789abcdeg", "0123456789abcdef0", "0123456789abcdef"] {
            assert_eq!(registry.find(id), None, "{id}");
        }
    }
}
