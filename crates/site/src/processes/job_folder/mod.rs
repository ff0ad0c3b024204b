//! The folders of an execution: one of the server's with its records, and one with its files. Where it runs as the server's own
//! user they are the same. Where it runs as an account, the second belongs to the account: the server has a process of the account
//! read and write it, `pliant job-folder DIR`, which is started by the launcher and gets one [`Call`].
//!
//! Where a batch system starts the supervisor as the account as well, the records are in the folder of the account, too, and the server
//! keeps a note of where that is ([`AccountRun::has_records`]).
//!
//! A call is a line of JSON on standard input and the bytes of files behind it; the answer is a line of JSON on standard output and
//! the bytes of a file behind it. The process has no right that the user has not. So nothing that it answers is trusted: the user can
//! control it.

mod call;
mod call_outcome;
mod client;
mod emptying;
mod gate;
mod leftovers;
mod outputs;
mod removal;
mod serve;
mod slots;
mod started_elsewhere;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pliant_staging::{
    FileSpec, ResultLimits, ResultName, ResultReader, SealedResults, StagingError, WORK, keep_sealed,
    open_result, seal, sealed,
};

use crate::accounts::{AccountName, AccountRun, LauncherError};
use crate::processes::{self, FileUsage, FolderError, Measured, RunSpec, account_of};

pub use client::AccountStream;
pub(crate) use client::{arguments, begin_usage, end_survivors, start_call};
pub use gate::JobGate;
pub(crate) use leftovers::remove_leftovers;
pub use leftovers::shows_message_queues;
pub(crate) use outputs::make_outputs;
pub use serve::serve_call;

/// The folder in the records of a subjob with a folder for each of its tasks.
const TASKS_OF_ACCOUNT: &str = "tasks";
/// The file that says that the account has all files of the job.
const GIVEN: &str = "given";

/// The folders of an execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobFolder {
    records: PathBuf,
    access: Access,
}

/// Who can open the files of an execution.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Access {
    /// This process: they are with the records.
    Own,
    /// An account, through the launcher.
    Account(AccountRun),
}

/// The files of an execution, to be given to its account.
#[derive(Clone, Default, Debug)]
pub struct JobFiles {
    /// What its supervisor runs, where the records are the account's: on that many processors, if several sizes will do.
    pub specs: Vec<(Option<u32>, RunSpec)>,
    /// Its script.
    pub script: Option<Vec<u8>>,
    /// What several programs it runs.
    pub tasks: Option<Vec<u8>>,
    /// What it finds in its work folder, each with where its content is.
    pub inputs: Vec<(FileSpec, PathBuf)>,
    /// What its tasks share.
    pub shared: Vec<(FileSpec, PathBuf)>,
}

/// Why something cannot be done with the files of an execution.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// A file cannot be read or written.
    #[error(transparent)]
    Staging(#[from] StagingError),
    /// The account cannot read or write a file.
    #[error(transparent)]
    OfAccount(StagingError),
    /// The records cannot be read or written.
    #[error(transparent)]
    Records(#[from] FolderError),
    /// The account cannot be reached.
    #[error(transparent)]
    Launcher(#[from] LauncherError),
    /// Too many files of the account are read already.
    #[error(
        "{limit} files of the account {account} are being read, which is the limit; try again once one of them was read"
    )]
    Busy {
        /// The account.
        account: AccountName,
        /// How many at once.
        limit: usize,
    },
}

impl FilesError {
    /// The same for the owner of the job: without the paths of files on this host.
    pub fn public_message(&self) -> String {
        match self {
            FilesError::Staging(error) | FilesError::OfAccount(error) => error.public_message(),
            FilesError::Records(error) => error.public_message(),
            FilesError::Launcher(error) => error.public_message(),
            FilesError::Busy { .. } => self.to_string(),
        }
    }

    /// True if the same may work later.
    pub fn may_pass(&self) -> bool {
        match self {
            FilesError::Staging(error) | FilesError::OfAccount(error) => error.may_pass(),
            FilesError::Records(error) => error.may_pass(),
            FilesError::Launcher(error) => error.may_pass(),
            FilesError::Busy { .. } => true,
        }
    }

    /// True if what runs as the account fails, which its user can cause.
    pub fn is_of_account(&self) -> bool {
        match self {
            FilesError::OfAccount(_) | FilesError::Busy { .. } => true,
            FilesError::Launcher(error) => error.is_of_account(),
            FilesError::Staging(_) | FilesError::Records(_) => false,
        }
    }
}

impl JobFolder {
    /// The folders of the execution that has its records there.
    ///
    /// # Errors
    /// The folder is there and cannot be read.
    pub fn at(records: &Path) -> Result<JobFolder, FilesError> {
        let access = account_of(records)?.map_or(Access::Own, Access::Account);
        Ok(JobFolder { records: records.to_owned(), access })
    }

    /// The folders of an execution of which that is known, whether there are records or not.
    pub fn of(records: &Path, account: Option<AccountRun>) -> JobFolder {
        let access = account.map_or(Access::Own, Access::Account);
        JobFolder { records: records.to_owned(), access }
    }

    /// The folder of its records.
    pub fn records(&self) -> &Path {
        &self.records
    }

    /// The account as which it runs; none if it is this process's user.
    pub fn account(&self) -> Option<&AccountRun> {
        match &self.access {
            Access::Own => None,
            Access::Account(account) => Some(account),
        }
    }

    /// Gives the account its folder and its files, once. Does nothing where it runs as this user.
    ///
    /// # Errors
    /// The account cannot be reached, or a file cannot be read or written. May be called again then.
    pub fn give(&self, files: &JobFiles) -> Result<(), FilesError> {
        let Access::Account(account) = &self.access else { return Ok(()) };
        let given = self.records.join(GIVEN);
        if given.exists() && (files.specs.is_empty() || account.has_folder()?) {
            return match files.specs.as_slice() {
                [] => Ok(()),
                // It may be to run on other processors by now.
                specs => client::put(account, &JobFiles { specs: specs.to_vec(), ..JobFiles::default() }),
            };
        }
        client::make_folder(account)?;
        client::put(account, files)?;
        let synced = File::create(&given).and_then(|file| file.sync_all());
        synced.map_err(|error| FilesError::Staging(StagingError::Io { path: given, source: error }))
    }

    /// The results, summed up once after its end.
    ///
    /// # Errors
    /// A folder cannot be read or written, or the account cannot be reached.
    pub fn results(&self, limits: ResultLimits) -> Result<SealedResults, FilesError> {
        let Access::Account(account) = &self.access else { return sealed_at(&self.records, limits) };
        if let Some(found) = kept(&self.records)? {
            return Ok(found);
        }
        let found = client::results(account, None, limits)?;
        keep_sealed(&self.records, &found)?;
        Ok(found)
    }

    /// The same of a task of a subjob.
    ///
    /// # Errors
    /// As for [`JobFolder::results`].
    pub fn task_results(&self, task: &str, limits: ResultLimits) -> Result<SealedResults, FilesError> {
        let Access::Account(account) = &self.access else {
            return sealed_at(&self.records.join(WORK).join(task), limits);
        };
        let own = self.records.join(TASKS_OF_ACCOUNT).join(task);
        if let Some(found) = kept(&own)? {
            return Ok(found);
        }
        let found = client::results(account, Some(task), limits)?;
        keep_sealed(&own, &found)?;
        Ok(found)
    }

    /// Whether a task of a subjob has begun, as far as this process can see.
    pub fn may_have_begun(&self, task: &str) -> bool {
        match &self.access {
            Access::Own => self.records.join(WORK).join(task).is_dir(),
            Access::Account(_) => true,
        }
    }

    /// Opens a result of the execution that has its records there, of a task if one is named, to be read from `offset` on. Eight files of an
    /// account are read at once; another one waits for one of them to be dropped, up to 20 s.
    ///
    /// # Errors
    /// There is none, it cannot be read, the account cannot be reached, or too many of its files are read.
    pub async fn open(
        records: &Path,
        task: Option<&str>,
        name: &ResultName,
        offset: u64,
    ) -> Result<FileStream, FilesError> {
        let dir = records.to_owned();
        if let Access::Account(account) = off_thread(move || JobFolder::at(&dir)).await?.access {
            return client::open(&account, task, name, offset).await.map(FileStream::Account);
        }
        let dir = task.map_or_else(|| records.to_owned(), |task| records.join(WORK).join(task));
        let name = name.clone();
        off_thread(move || Ok(FileStream::Own(open_result(&dir, &name, offset)?))).await
    }

    /// How long the longest instance of a batch took for each unit of its service, in milliseconds, if that is known.
    pub fn longest_of_batch(&self) -> Option<u64> {
        match &self.access {
            Access::Own => processes::longest_of_batch(&self.records),
            Access::Account(account) => client::longest(account).unwrap_or_else(|error| {
                tracing::warn!(%error, "no walltimes are learned from a batch");
                None
            }),
        }
    }

    /// What all files and records of an execution that has ended use of the disk, in bytes. The account can have it count too little.
    ///
    /// # Errors
    /// A folder cannot be read, or the account cannot be reached.
    pub fn disk_bytes(&self) -> Result<u64, FilesError> {
        let of_account = match &self.access {
            Access::Account(account) if account.has_folder()? => {
                let measured =
                    Measured { files_max: u64::MAX, files_of: None, memory_of: None, own_bytes: 0 };
                client::begin_usage(account, measured)?.answer()?.bytes
            }
            Access::Account(_) | Access::Own => 0,
        };
        let own = FileUsage::of(&self.records, u64::MAX)
            .map_err(|why| StagingError::Io { path: self.records.clone(), source: io::Error::other(why) })?;
        Ok(of_account.saturating_add(own.bytes))
    }

    /// Removes all files that the job has worked with or made but its standard outputs, as far as each has at most so many bytes. For
    /// a job that has ended, and whose other files are given to none.
    ///
    /// # Errors
    /// Something cannot be removed, or the account cannot be reached.
    pub fn keep_outputs(&self, most: u64) -> Result<(), FilesError> {
        if let Access::Account(account) = &self.access {
            return removal::keep_outputs(account, most);
        }
        let work = self.records.join(WORK);
        if !work.try_exists().map_err(|source| StagingError::Io { path: work.clone(), source })? {
            return Ok(());
        }
        emptying::empty(&work, None)?;
        std::fs::remove_dir(&work).map_err(|source| StagingError::Io { path: work, source }.into())
    }

    /// Sees to it that what is recorded of a run that has ended is not taken for that of a later one: removes everything, or, where an
    /// account has the files and its user could keep them from being removed, the records of the run.
    ///
    /// # Errors
    /// A folder of this user's cannot be written.
    pub fn discard(&self) -> Result<(), FilesError> {
        match self.account() {
            Some(_) if self.records.exists() => Ok(processes::forget_run(&self.records)?),
            Some(_) => Ok(()),
            None => self.remove(),
        }
    }

    /// Removes all files and records. The records go last: they say where the files are.
    ///
    /// # Errors
    /// Something cannot be removed, or the account cannot be reached.
    pub fn remove(&self) -> Result<(), FilesError> {
        if let Access::Account(account) = &self.access {
            removal::remove(account)?;
        }
        match std::fs::remove_dir_all(&self.records) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StagingError::Io { path: self.records.clone(), source: error }.into())
            }
            _ => Ok(()),
        }
    }
}

/// What is kept in a folder of this user's, summed up if it was not before.
fn sealed_at(dir: &Path, limits: ResultLimits) -> Result<SealedResults, FilesError> {
    Ok(match kept(dir)? {
        Some(found) => found,
        None => seal(dir, limits)?,
    })
}

/// What was summed up before.
fn kept(dir: &Path) -> Result<Option<SealedResults>, FilesError> {
    match sealed(dir) {
        // The job may have replaced it by anything.
        Err(StagingError::Damaged { .. } | StagingError::NotAFile { .. }) => Ok(None),
        found => Ok(found?),
    }
}

/// A result that is being read.
#[derive(Debug)]
pub enum FileStream {
    /// A file of this user's.
    Own(ResultReader),
    /// A file of an account's.
    Account(AccountStream),
}

impl FileStream {
    /// The next bytes, at most so many, and the stream behind them; none at the end of the file. Keeps no thread while it waits for an
    /// account.
    ///
    /// # Errors
    /// The file cannot be read, or what reads it as the account does not answer or fails.
    pub async fn piece(self, bytes_max: usize) -> io::Result<(Vec<u8>, FileStream)> {
        match self {
            FileStream::Own(mut file) => {
                let read = tokio::task::spawn_blocking(move || {
                    let mut piece = Vec::new();
                    file.by_ref().take(bytes_max as u64).read_to_end(&mut piece)?;
                    Ok((piece, FileStream::Own(file)))
                });
                read.await.map_err(io::Error::other)?
            }
            FileStream::Account(mut file) => Ok((file.piece(bytes_max).await?, FileStream::Account(file))),
        }
    }
}

/// Does something that blocks, off the threads that serve connections.
async fn off_thread<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, FilesError> + Send + 'static,
) -> Result<T, FilesError> {
    let done = tokio::task::spawn_blocking(act).await.map_err(io::Error::other);
    done.map_err(|source| LauncherError::Io { action: "open a file", source })?
}
