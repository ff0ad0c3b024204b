//! A copy of a daemon's state folder, made while the daemon runs.
//!
//! The journal is copied first, in one transaction, and then what it refers to: the uploads of waiting jobs. An upload is durable before
//! the job that needs it is accepted, so none is missing; one that goes meanwhile belongs to a job that has started or gone.

use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pliant_journal::{JournalError, back_up_sqlite};

use crate::server::{ACCOUNTS_FOLDER, JOBS_FOLDER, RESTORED, SUBMITTERS};

/// The folder of uploads, in the state folder or in that of jobs.
const UPLOADS: &str = "staging";
/// The folder of an agent's journal of launches.
const LAUNCHES: &str = "launches";

/// A copy of a state folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// The daemon that owns the journal, by kind and name.
    pub owner: String,
    /// Whether the daemon is a server, whose next start with the copy asks its agent what has changed since.
    pub is_server: bool,
    /// The bytes of its files.
    pub bytes: u64,
}

/// Why a state folder cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is no journal.
    #[error("{}: expected the journal of a daemon, journal.db, found none", state.display())]
    NoJournal {
        /// The folder.
        state: PathBuf,
    },
    /// The folder of the copy is in use.
    #[error("{}: expected no such folder, or an empty one, found one with files", dir.display())]
    NotEmpty {
        /// The folder.
        dir: PathBuf,
    },
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file cannot be copied.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl BackupError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NoJournal { .. } => {
                Some("a journal in PostgreSQL is backed up with `pg_dump -n pliant`: docs/guides/backup.md")
            }
            Self::NotEmpty { .. } => Some("name another folder: a backup replaces none"),
            Self::Journal(error) => error.hint(),
            Self::File { .. } => None,
        }
    }
}

/// Copies the state folder of a daemon, which may run, to a folder that does not exist or is empty. The copy is there as a whole, and
/// durable, or not at all.
///
/// # Errors
///
/// There is no journal, the folder of the copy has files, or something cannot be read or written.
pub fn back_up(state: &Path, dir: &Path) -> Result<Backup, BackupError> {
    if !state.join("journal.db").try_exists().map_err(of(state))? {
        return Err(BackupError::NoJournal { state: state.to_owned() });
    }
    let is_used = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(of(dir)(error)),
    };
    if is_used {
        return Err(BackupError::NotEmpty { dir: dir.to_owned() });
    }
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    let partial = dir.with_file_name(name);
    let copied = copy_state(state, &partial).and_then(|backup| {
        fs::rename(&partial, dir).map_err(of(dir))?;
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        sync(parent)?;
        Ok(backup)
    });
    if copied.is_err() {
        // The first error is the reason.
        let _ = fs::remove_dir_all(&partial);
    }
    copied
}

fn copy_state(state: &Path, to: &Path) -> Result<Backup, BackupError> {
    make(to)?;
    let owner = copy_journal(state, to)?;
    let is_server = owner.starts_with("server ");
    if is_server {
        let mut folder = state.to_owned();
        for name in [SUBMITTERS, JOBS_FOLDER, ACCOUNTS_FOLDER] {
            copy_file(&state.join(name), &to.join(name))?;
        }
        match fs::read_to_string(state.join(JOBS_FOLDER)) {
            Ok(line) => folder = PathBuf::from(line.trim_end()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(of(&state.join(JOBS_FOLDER))(error)),
        }
        copy_folder(&folder.join(UPLOADS), &to.join(UPLOADS))?;
        // With the copy, the server must not go on as if nothing had happened since.
        let marker = to.join(RESTORED);
        File::create(&marker).and_then(|file| file.sync_all()).map_err(of(&marker))?;
    }
    let launches = state.join(LAUNCHES);
    if launches.join("journal.db").try_exists().map_err(of(&launches))? {
        make(&to.join(LAUNCHES))?;
        copy_journal(&launches, &to.join(LAUNCHES))?;
        sync(&to.join(LAUNCHES))?;
    }
    sync(to)?;
    Ok(Backup { owner, is_server, bytes: bytes_in(to)? })
}

/// Copies a journal, and returns its owner.
fn copy_journal(from: &Path, to: &Path) -> Result<String, BackupError> {
    let path = to.join("journal.db");
    // Not readable by others: it contains users' requests.
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path).map_err(of(&path))?;
    let owner = back_up_sqlite(from, &path)?;
    File::open(&path).and_then(|file| file.sync_all()).map_err(of(&path))?;
    Ok(owner.unwrap_or_else(|| "a daemon that has not started".to_owned()))
}

/// Copies a folder with its files and folders, without those that go meanwhile.
fn copy_folder(from: &Path, to: &Path) -> Result<(), BackupError> {
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(of(from)(error)),
    };
    make(to)?;
    for entry in entries {
        let entry = entry.map_err(of(from))?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => copy_folder(&from, &to)?,
            Ok(kind) if kind.is_file() => copy_file(&from, &to)?,
            // A server has no links there.
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(of(&from)(error)),
        }
    }
    sync(to)
}

/// Copies a file if there is one, with its time: by that the server removes uploads that no job takes.
fn copy_file(from: &Path, to: &Path) -> Result<(), BackupError> {
    let mut file = match File::open(from) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(of(from)(error)),
    };
    let modified = file.metadata().and_then(|metadata| metadata.modified()).map_err(of(from))?;
    let mut write = || {
        let mut copy = OpenOptions::new().create_new(true).write(true).mode(0o600).open(to)?;
        io::copy(&mut file, &mut copy)?;
        copy.set_times(FileTimes::new().set_modified(modified))?;
        copy.sync_all()
    };
    write().map_err(of(to))
}

fn bytes_in(folder: &Path) -> Result<u64, BackupError> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).map_err(of(folder))? {
        let entry = entry.map_err(of(folder))?;
        let metadata = entry.metadata().map_err(of(&entry.path()))?;
        bytes += if metadata.is_dir() { bytes_in(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

fn make(folder: &Path) -> Result<(), BackupError> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(of(folder))
}

fn sync(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(of(folder))
}

fn of(path: &Path) -> impl Fn(io::Error) -> BackupError {
    move |source| BackupError::File { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use pliant_journal::{Batch, Entry, open_sqlite};

    use super::*;

    #[test]
    fn a_copy_of_a_journal_in_use_is_whole_and_replaces_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let (state, dir) = (scratch.path().join("state"), scratch.path().join("copy"));
        let none = back_up(scratch.path(), &dir).unwrap_err();
        assert!(matches!(none, BackupError::NoJournal { .. }) && none.hint().unwrap().contains("pg_dump"));
        let mut journal = open_sqlite(&state).unwrap();
        journal.claim("server lyon").unwrap();
        let entry = |seq| Entry { seq, at: 1, event: "\"due\"".to_owned(), commands: 0 };
        journal.load().unwrap();
        journal.commit(&Batch { entries: vec![entry(1)], ..Batch::default() }).unwrap();
        let set = state.join("staging/incoming/alice");
        fs::create_dir_all(&set).unwrap();
        fs::write(set.join("data"), "content").unwrap();
        let backup = back_up(&state, &dir).unwrap();
        assert_eq!((backup.owner.as_str(), backup.is_server), ("server lyon", true));
        journal.commit(&Batch { entries: vec![entry(2)], ..Batch::default() }).unwrap();
        assert!(matches!(back_up(&state, &dir), Err(BackupError::NotEmpty { .. })));
        assert_eq!(fs::read_to_string(dir.join("staging/incoming/alice/data")).unwrap(), "content");
        assert!(dir.join(RESTORED).exists());
        let mut copy = open_sqlite(&dir).unwrap();
        assert_eq!(copy.id(), journal.id());
        copy.load().unwrap();
        assert_eq!(copy.entries(0, 10).unwrap(), [entry(1)]);
        // Nothing else is left.
        let names = fs::read_dir(scratch.path()).unwrap().count();
        assert_eq!(names, 2);
    }

    #[test]
    fn the_copy_of_an_agent_has_its_launches_and_no_marker() {
        let scratch = tempfile::tempdir().unwrap();
        let (state, dir) = (scratch.path().join("state"), scratch.path().join("copy"));
        open_sqlite(&state).unwrap().claim("agent master").unwrap();
        drop(open_sqlite(&state.join(LAUNCHES)).unwrap());
        fs::create_dir(&dir).unwrap();
        let backup = back_up(&state, &dir).unwrap();
        assert!(!backup.is_server && !dir.join(RESTORED).exists() && backup.bytes > 0);
        drop(open_sqlite(&dir.join(LAUNCHES)).unwrap());
        drop(open_sqlite(&dir).unwrap());
    }
}
