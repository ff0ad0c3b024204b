//! The folder of an execution that a batch system starts on another host: how it stands, asked for an end, taken out of the way. The
//! records are in the folder that its supervisor finds, which belongs to the account where it runs as one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use pliant_staging::StagingError;

use super::{Access, FilesError, JobFolder, client};
use crate::accounts::AccountRun;
use crate::processes::{self, Exit, FoundState, TaskEnd};

/// How much of a file is read for its last line, and how much of the line is kept.
const TAIL_BYTES: u64 = 4_096;
const LINE_LETTERS_MAX: usize = 300;

impl JobFolder {
    /// The folder where its supervisor finds it.
    pub fn run_folder(&self) -> &Path {
        match self.account_with_records() {
            Some(account) => &account.folder,
            None => &self.records,
        }
    }

    /// The account that has the records, too.
    pub(super) fn account_with_records(&self) -> Option<&AccountRun> {
        self.account().filter(|account| account.has_records)
    }

    /// How it stands. What is left of one whose supervisor died is killed, as far as it is on this host.
    ///
    /// # Errors
    /// Its folder cannot be read, or the account cannot be reached. Nothing may be concluded then.
    pub fn find(&self) -> Result<FoundState, FilesError> {
        match self.account_with_records() {
            // The folder that it is in belongs to the server.
            Some(account) if !account.has_folder()? => Ok(FoundState::NeverStarted),
            Some(account) => client::find(account),
            None => Ok(processes::find(&self.records)?.into()),
        }
    }

    /// How it ended, if that is recorded. Only once it is known to have ended.
    ///
    /// # Errors
    /// As for [`JobFolder::find`].
    pub fn recorded(&self) -> Result<Option<Exit>, FilesError> {
        match self.account_with_records() {
            Some(_) => Ok(match self.find()? {
                FoundState::Ended(exit) => Some(exit),
                FoundState::NeverStarted | FoundState::Running | FoundState::Lost(_) => None,
            }),
            None => Ok(processes::recorded(&self.records)?),
        }
    }

    /// Asks for the end of one that may run on another host. If there is no folder yet it is made if that is wanted: what is started
    /// later starts nothing then.
    ///
    /// # Errors
    /// The folder cannot be written, or the account cannot be reached.
    pub fn ask_end(&self, makes_folder: bool) -> Result<(), FilesError> {
        match self.account_with_records() {
            Some(account) => {
                if makes_folder {
                    client::make_folder(account)?;
                } else if !account.has_folder()? {
                    return Ok(());
                }
                client::ask_end(account)
            }
            None => {
                if makes_folder {
                    make_own(&self.records)?;
                } else if !self.records.exists() {
                    return Ok(());
                }
                Ok(processes::ask_end(&self.records)?)
            }
        }
    }

    /// Whether there is a folder in which a supervisor would find something.
    ///
    /// # Errors
    /// That cannot be seen.
    pub fn exists(&self) -> Result<bool, FilesError> {
        match self.account_with_records() {
            Some(account) => Ok(account.has_folder()?),
            None => {
                let seen = self.records.try_exists();
                Ok(seen.map_err(|source| StagingError::Io { path: self.records.clone(), source })?)
            }
        }
    }

    /// The last line of a file that the batch system has written there; none if there is none, or if it cannot be read.
    pub fn last_line(&self, file: &str) -> Option<String> {
        match self.account_with_records() {
            Some(account) if account.has_folder().ok()? => {
                client::last_line(account, file).unwrap_or_else(|error| {
                    tracing::warn!(%error, "cannot read what the batch system has written");
                    None
                })
            }
            Some(_) => None,
            None => last_line(&self.records.join(file)),
        }
    }

    /// How much is there of the ends of a subjob's tasks, in bytes, and the ends, if that is not as many as is known.
    ///
    /// # Errors
    /// They cannot be read, or the account cannot be reached.
    pub fn task_ends(&self, known: u64) -> Result<(u64, Option<Vec<TaskEnd>>), FilesError> {
        // An account has what its supervisor writes, wherever the records are.
        match self.account() {
            Some(account) if !account.has_folder()? => Ok((0, (known != 0).then(Vec::new))),
            Some(account) => client::task_ends(account, known),
            None => {
                let length = processes::task_ends_length(&self.records);
                let read = || processes::task_ends(&self.records);
                let ends = (length != known).then(read).transpose();
                let ends = ends.map_err(|source| StagingError::Io { path: self.records.clone(), source })?;
                Ok((length, ends))
            }
        }
    }

    /// Takes the folder of one that is not to run out of the way, under another name beside it, so that a supervisor finds nothing to run;
    /// then removes it. False if it was begun.
    ///
    /// # Errors
    /// Something cannot be looked at or renamed, or the account cannot be reached. May be called again then.
    pub fn remove_unclaimed(&self, aside: &str) -> Result<bool, FilesError> {
        let there = self.run_folder();
        let put = there.with_file_name(aside);
        let aside = match &self.access {
            Access::Account(account) if account.has_records => {
                let account = AccountRun { folder: put.clone(), ..account.clone() };
                JobFolder::of(&self.records, Some(account))
            }
            _ => JobFolder::of(&put, None),
        };
        let failed = |source| StagingError::Io { path: there.to_owned(), source };
        if self.exists()? {
            if self.find()? != FoundState::NeverStarted {
                return Ok(false);
            }
            std::fs::rename(there, &put).map_err(failed)?;
        }
        if aside.exists()? && aside.find()? != FoundState::NeverStarted {
            // In the instant before.
            std::fs::rename(&put, there).map_err(failed)?;
            return Ok(false);
        }
        if let Err(error) = aside.remove() {
            tracing::warn!(%error, dir = %put.display(), "cannot remove the files of a job");
        }
        Ok(true)
    }
}

/// The last line of a file; none if there is none, or it cannot be read.
pub(super) fn last_line(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    Some(last.chars().filter(|letter| !letter.is_control()).take(LINE_LETTERS_MAX).collect())
}

/// Makes a folder that only this user may enter.
pub(super) fn make_own(folder: &Path) -> Result<(), StagingError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| StagingError::Io { path: folder.to_owned(), source })
}
