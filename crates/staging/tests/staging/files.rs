//! Files of users in a store of its own.

use std::fs;
use std::path::Path;

use pliant_control::names::{Key, User};
use pliant_staging::{Checksum, FileSpec, Limits, ResultLimits, Store, UploadSet};
use tempfile::TempDir;

pub(crate) const KEY: Key = Key([7; 16]);
pub(crate) const WIDE: ResultLimits = ResultLimits { files: 1000, bytes: 1 << 30 };

pub(crate) fn user(name: &str) -> User {
    name.parse().unwrap()
}

/// What a user sends under [`KEY`].
pub(crate) fn own(name: &str) -> UploadSet {
    own_of(name, KEY)
}

pub(crate) fn own_of(name: &str, key: Key) -> UploadSet {
    UploadSet::of_owner(user(name), key)
}

/// What a server sends for a user's submission under [`KEY`].
pub(crate) fn by_server(name: &str, server: &str) -> UploadSet {
    UploadSet::of_server(user(name), KEY, server.parse().unwrap())
}

pub(crate) fn spec(name: &str, content: &[u8]) -> FileSpec {
    FileSpec { name: name.parse().unwrap(), size: content.len() as u64, sha256: Checksum::of(content) }
}

pub(crate) fn store(root: &TempDir) -> Store {
    Store::open(&root.path().join("store"), Limits::default()).unwrap()
}

pub(crate) fn upload(store: &Store, of: &UploadSet, name: &str, content: &[u8]) -> FileSpec {
    let spec = spec(name, content);
    let upload = store.begin(of, spec.clone()).unwrap();
    upload.append(0, content).unwrap();
    upload.finish().unwrap();
    spec
}

/// How many files lie under a folder.
pub(crate) fn files_under(folder: &Path) -> usize {
    fs::read_dir(folder).into_iter().flatten().flatten().fold(0, |sum, entry| {
        sum + if entry.file_type().unwrap().is_dir() { files_under(&entry.path()) } else { 1 }
    })
}
