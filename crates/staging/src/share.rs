//! Uploads that all batches of a multi-job use: they stay in the store, and each batch has links to them.
//!
//! A file is on the disk once, however many batches there are and whichever goes first. What was not asked for in as long as
//! uploads may rest is thrown away like any other: a client that learns that a file of its next batch is missing sends it again.

use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{Mode, fchmod};

use super::error::StagingError;
use super::folder::Folder;
use super::incoming::Incoming;
use super::manifest::{FileSpec, check_manifest};
use super::store::Store;
use super::upload_set::UploadSet;

/// The folder of shared files, in the job's folder.
pub const SHARED: &str = "inputs";

impl Store {
    /// Has uploads rest from now on, as if something had come just now.
    ///
    /// # Errors
    ///
    /// Whatever the disk refuses.
    pub fn renew(&self, of: &UploadSet) -> Result<(), StagingError> {
        self.uploads(of, |incoming| incoming.map_or(Ok(()), |incoming| incoming.touch(SystemTime::now())))
    }

    /// Links uploads into the folder of a job, and keeps them for other jobs. From then on they cannot be written. May be
    /// called again: what has its link stays, also if the upload is gone.
    ///
    /// # Errors
    ///
    /// [`StagingError::Missing`] if a file is neither here nor there; whatever the disk refuses.
    pub fn share(&self, of: &UploadSet, files: &[FileSpec], job_dir: &Path) -> Result<(), StagingError> {
        check_manifest(files)?;
        let job = Folder::create(job_dir)?.make_child(SHARED)?;
        self.uploads(of, |incoming| files.iter().try_for_each(|spec| put(incoming.as_ref(), spec, &job)))
    }
}

fn put(incoming: Option<&Incoming>, spec: &FileSpec, job: &Folder) -> Result<(), StagingError> {
    let mut folders = Vec::new();
    for name in spec.name.folders() {
        folders.push(folders.last().unwrap_or(job).make_child(name)?);
    }
    let folder = folders.last().unwrap_or(job);
    if folder.file(spec.name.last())?.is_some() {
        return Ok(());
    }
    let missing = || StagingError::Missing { name: spec.name.clone() };
    let done = incoming.map(|incoming| incoming.open_done(spec)).transpose()?.flatten();
    let (incoming, done) = incoming.zip(done).ok_or_else(missing)?;
    let unwritable = Mode::RUSR | Mode::RGRP | Mode::ROTH;
    fchmod(&done, unwritable).map_err(|error| StagingError::io(folder.path_of(spec.name.last()), error))?;
    incoming.link(&spec.name, folder)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

    use pliant_control::names::Key;
    use pliant_model::{Span, Time};

    use super::super::checksum::Checksum;
    use super::super::usage::Limits;
    use super::*;

    #[test]
    fn files_are_on_the_disk_once_for_all_batches() {
        let root = tempfile::tempdir().unwrap();
        let limits = Limits { unfinished_ttl: Span(100), ..Limits::default() };
        let store = Store::open(&root.path().join("staging"), limits).unwrap();
        let key = Key([1; 16]);
        let of = UploadSet::of_owner("alice".parse().unwrap(), key);
        let specs = ["a.txt", "in/b.txt"].map(|name| FileSpec {
            name: name.parse().unwrap(),
            size: name.len() as u64,
            sha256: Checksum::of(name.as_bytes()),
        });
        let job = |number: u32| root.path().join(format!("jobs/{number}"));
        let share = |number| store.share(&of, &specs, &job(number));
        assert!(matches!(share(1), Err(StagingError::Missing { name }) if name.as_str() == "a.txt"));
        for spec in &specs {
            let upload = store.begin(&of, spec.clone()).unwrap();
            upload.append(0, spec.name.as_str().as_bytes()).unwrap();
            upload.finish().unwrap();
        }
        for number in [1, 2, 2] {
            share(number).unwrap();
        }
        for name in ["a.txt", "in/b.txt"] {
            let of = |number| job(number).join(SHARED).join(name);
            assert_eq!(fs::read_to_string(of(1)).unwrap(), name);
            let [one, other] = [1, 2].map(|number| fs::metadata(of(number)).unwrap());
            assert_eq!((one.ino(), one.nlink(), one.mode() & 0o777), (other.ino(), 3, 0o444));
        }
        store.complete(&of, &specs).unwrap();

        // They rest from when they were asked for last, and a job that has its links needs them no more.
        let later = |seconds| {
            let now = SystemTime::now() + Duration::from_secs(seconds);
            Time(now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64)
        };
        let long_ago = SystemTime::now() - Duration::from_secs(1_000);
        let folder = root.path().join(format!("staging/incoming/alice/{key}"));
        for entry in fs::read_dir(folder).unwrap() {
            fs::File::open(entry.unwrap().path()).unwrap().set_modified(long_ago).unwrap();
        }
        assert!(store.rests(&of, later(0)).unwrap());
        store.renew(&of).unwrap();
        assert!(!store.rests(&of, later(0)).unwrap());
        assert!(store.collect(&of, later(200)).unwrap());
        share(2).unwrap();
        assert!(matches!(share(3), Err(StagingError::Missing { .. })));
    }
}
