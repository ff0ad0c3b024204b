//! A folder of a user's own, on a file system that the user's machine and some clusters share.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::names::{Name, ParseIdError, parse_id_error};

/// A folder on a shared file system, written `FILE-SYSTEM:PATH`. Each server and each client says where it has that file system, so
/// that the folder may have another path on each of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SharedFolder {
    /// The name of the file system in the federation.
    pub file_system: Name,
    /// The path of the folder on it: components with `/` between them, none empty, `.` or `..`. Empty for its topmost folder.
    path: String,
}

/// Where a server or a client has the shared file systems: `[shared]` of its file, an absolute path and the name of the file system
/// that is there.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SharedFileSystems(BTreeMap<PathBuf, Name>);

/// The longest path, in bytes.
const PATH_BYTES_MAX: usize = 4096;

impl SharedFolder {
    /// A folder, by its path on the file system; none if the path is not of the form that is expected.
    pub fn new(file_system: Name, path: &str) -> Option<SharedFolder> {
        let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        let fits = path.is_empty() || path.split('/').all(is_plain);
        let fits = fits && path.len() <= PATH_BYTES_MAX && !path.contains(char::is_control);
        fits.then(|| SharedFolder { file_system, path: path.to_owned() })
    }

    /// Its path on the file system, relative.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl SharedFileSystems {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A path that is not absolute, or has `..` in it, if there is one.
    pub fn misplaced(&self) -> Option<&Path> {
        let is_plain = |path: &&Path| {
            path.is_absolute() && path.components().all(|part| !matches!(part, Component::ParentDir))
        };
        self.0.keys().map(PathBuf::as_path).find(|path| !is_plain(path))
    }

    /// The path of a folder here; none if its file system is not.
    pub fn path_of(&self, folder: &SharedFolder) -> Option<PathBuf> {
        let (at, _) = self.0.iter().find(|(_, name)| **name == folder.file_system)?;
        Some(if folder.path.is_empty() { at.clone() } else { at.join(&folder.path) })
    }

    /// The folder with an absolute path here; none if it is on no shared file system, or the path has another form. Of several
    /// file systems that contain it, the innermost.
    pub fn folder_at(&self, path: &Path) -> Option<SharedFolder> {
        let within =
            |(at, name): (&PathBuf, &Name)| Some((path.strip_prefix(at).ok()?.to_owned(), name.clone()));
        let (rest, name) = self.0.iter().rev().find_map(within)?;
        let parts: Option<Vec<&str>> = rest.components().map(|part| part.as_os_str().to_str()).collect();
        SharedFolder::new(name, &parts?.join("/"))
    }

    /// The names of the file systems, with the paths where they are.
    pub fn iter(&self) -> impl Iterator<Item = (&Path, &Name)> {
        self.0.iter().map(|(path, name)| (path.as_path(), name))
    }
}

impl fmt::Display for SharedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file_system, self.path)
    }
}

impl FromStr for SharedFolder {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<SharedFolder, ParseIdError> {
        let parts = text.split_once(':').and_then(|(name, path)| Some((name.parse().ok()?, path)));
        let folder = parts.and_then(|(name, path)| SharedFolder::new(name, path));
        folder.ok_or_else(|| parse_id_error("a folder on a shared file system like `site-a:alice/run`", text))
    }
}

impl TryFrom<String> for SharedFolder {
    type Error = ParseIdError;
    fn try_from(text: String) -> Result<SharedFolder, ParseIdError> {
        text.parse()
    }
}

impl From<SharedFolder> for String {
    fn from(folder: SharedFolder) -> String {
        folder.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_a_plain_path() {
        for text in ["site-a:alice/run", "site-a:", "s:with space/é", "s:a:b"] {
            assert_eq!(text.parse::<SharedFolder>().unwrap().to_string(), text);
        }
        for text in
            ["", "site-a", ":a", "Site:a", "s:/a", "s:a/", "s:a//b", "s:..", "s:a/../b", "s:./a", "s:a\nb"]
        {
            assert!(text.parse::<SharedFolder>().is_err(), "{text}");
        }
        let shared = |text: &str| -> SharedFileSystems {
            let lines = text.split_whitespace().map(|line| line.split_once('=').unwrap());
            SharedFileSystems(lines.map(|(path, name)| (path.into(), name.parse().unwrap())).collect())
        };
        let client = shared("/home=site-a /home/scratch=fast");
        let check = |path: &str, expected: Option<&str>| {
            let found = client.folder_at(Path::new(path));
            assert_eq!(found.map(|folder| folder.to_string()).as_deref(), expected, "{path}");
        };
        check("/home/alice/run", Some("site-a:alice/run"));
        check("/home/scratch/x/", Some("fast:x"));
        check("/home", Some("site-a:"));
        check("/homes/alice", None);
        check("/home/../etc", None);
        let server = shared("/net/a=site-a");
        let folder = client.folder_at(Path::new("/home/alice/run")).unwrap();
        assert_eq!(server.path_of(&folder), Some("/net/a/alice/run".into()));
        assert_eq!(server.path_of(&"fast:x".parse().unwrap()), None);
        assert_eq!(server.path_of(&"site-a:".parse().unwrap()), Some("/net/a".into()));
        assert_eq!(shared("home=a").misplaced(), Some(Path::new("home")));
        assert_eq!(shared("/a/../b=a").misplaced(), Some(Path::new("/a/../b")));
        assert_eq!(server.misplaced(), None);
        assert!(format!("s:{}", "x".repeat(PATH_BYTES_MAX + 1)).parse::<SharedFolder>().is_err());
    }
}
