//! The start gate of a job, which belongs to the account where a batch system starts the supervisor as that.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pliant_staging::StagingError;

use super::started_elsewhere::{last_line, make_own};
use super::{FilesError, client, removal};
use crate::accounts::AccountRun;
use crate::processes::{Reservation, StartGate, StartPermit, TaskAddresses};

/// The file in the server's own folder that says whose the gate is.
const ACCOUNT: &str = "account.json";

/// A start gate, by the server's folder for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobGate {
    own: PathBuf,
    account: Option<AccountRun>,
}

impl JobGate {
    /// The gate of that folder, of an account if it is to be that or the folder says so.
    ///
    /// # Errors
    /// What the folder says cannot be read.
    pub fn at(own: &Path, account: Option<AccountRun>) -> Result<JobGate, FilesError> {
        let account = match account {
            Some(account) => Some(account),
            None => recorded(own).map_err(failed(own))?,
        };
        Ok(JobGate { own: own.to_owned(), account })
    }

    /// The account that it belongs to; none if it is this process's user.
    pub fn account(&self) -> Option<&AccountRun> {
        self.account.as_ref()
    }

    /// The folder where a supervisor waits.
    pub fn folder(&self) -> &Path {
        self.account.as_ref().map_or(&self.own, |account| &account.folder)
    }

    /// Makes it. Doing it again does no harm.
    ///
    /// # Errors
    /// A folder cannot be written, or the account cannot be reached.
    pub fn create(&self, reservation: Option<&Reservation>) -> Result<(), FilesError> {
        let Some(account) = &self.account else {
            return StartGate::at(&self.own)
                .create(reservation)
                .map_err(|error| failed(&self.own)(error).into());
        };
        make_own(&self.own)?;
        record(&self.own, account).map_err(failed(&self.own))?;
        client::make_folder(account)?;
        client::gate_create(account, reservation.cloned())
    }

    /// Decides, unless that was done before: returns what is decided. A gate that is gone refuses.
    ///
    /// # Errors
    /// Its folder cannot be written or read, or the account cannot be reached.
    pub fn decide(&self, permit: StartPermit) -> Result<StartPermit, FilesError> {
        match &self.account {
            Some(account) if !account.has_folder()? => Ok(StartPermit::Refused),
            Some(account) => client::gate_decide(account, permit),
            None => StartGate::at(&self.own).decide(permit).map_err(|error| failed(&self.own)(error).into()),
        }
    }

    /// Whether a supervisor waits for a decision: none if none has come yet, and false if it is decided.
    ///
    /// # Errors
    /// The account cannot be reached.
    pub fn has_arrived(&self) -> Result<Option<bool>, FilesError> {
        match &self.account {
            Some(account) if !account.has_folder()? => Ok(Some(false)),
            Some(account) => client::gate_has_arrived(account),
            None => Ok(StartGate::at(&self.own).has_arrived()),
        }
    }

    /// Where the tasks will listen whose supervisor waits here; none if none has come yet.
    ///
    /// # Errors
    /// Its folder cannot be read, or the account cannot be reached.
    pub fn addresses(&self) -> Result<Option<TaskAddresses>, FilesError> {
        match &self.account {
            Some(account) if !account.has_folder()? => Ok(None),
            Some(account) => client::gate_addresses(account),
            None => StartGate::at(&self.own).addresses().map_err(|error| failed(&self.own)(error).into()),
        }
    }

    /// The last line of a file there.
    pub fn last_line(&self, file: &str) -> Option<String> {
        match &self.account {
            Some(account) if account.has_folder().ok()? => client::last_line(account, file).ok()?,
            Some(_) => None,
            None => last_line(&self.own.join(file)),
        }
    }

    /// Removes it. A supervisor that looks meanwhile finds it decided or gone.
    ///
    /// # Errors
    /// Its folder cannot be removed, or the account cannot be reached.
    pub fn remove(&self) -> Result<(), FilesError> {
        if let Some(account) = &self.account {
            self.decide(StartPermit::Refused)?;
            removal::remove(account)?;
        }
        StartGate::at(&self.own).remove().map_err(|error| failed(&self.own)(error).into())
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> StagingError {
    move |source| StagingError::Io { path: path.to_owned(), source }
}

fn recorded(own: &Path) -> io::Result<Option<AccountRun>> {
    match fs::read(own.join(ACCOUNT)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn record(own: &Path, account: &AccountRun) -> io::Result<()> {
    let temporary = own.join(format!("{ACCOUNT}.tmp"));
    fs::write(&temporary, serde_json::to_vec(account)?)?;
    File::open(&temporary)?.sync_all()?;
    fs::rename(temporary, own.join(ACCOUNT))
}
