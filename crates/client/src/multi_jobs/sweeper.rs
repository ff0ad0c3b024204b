//! A sweep as its user drives it: begun or resumed, run, cancelled.

use std::time::Duration;

use pliant_control::multi_job::Plan;
use pliant_control::names::Handle;

use super::executor::SweepExecutor;
use super::folder::Header;
use super::state::SweepState;
use super::wanted::plan;
use super::{Entry, MultiJobWanted, SweepFolder, SweepStatus};
use crate::driver::Driver;
use crate::work_folder::Work;
use crate::{Client, FolderError, WorkError};

/// A sweep in progress.
pub struct Sweeper {
    driver: Driver<SweepExecutor>,
    is_resumed: bool,
}

impl Sweeper {
    /// A sweep; one that goes on where it was if the folder has it.
    ///
    /// # Errors
    ///
    /// If the folder is of another one, or cannot be used.
    pub fn new(
        client: &Client,
        wanted: &MultiJobWanted,
        mut folder: SweepFolder,
    ) -> Result<Sweeper, FolderError> {
        let (header, state) = match folder.resume()? {
            Some((header, state)) => {
                folder.expect_sweep(&header, wanted)?;
                (header, state)
            }
            None => {
                let header = Header::new(&client.user(), wanted, plan(wanted));
                folder.begin(&header)?;
                let state = header.start();
                (header, state)
            }
        };
        Sweeper::with(client, header, state, folder, wanted.patience)
    }

    /// The sweep of a folder, whatever it is.
    ///
    /// # Errors
    ///
    /// If there is none, or the folder cannot be used.
    pub fn resume(
        client: &Client,
        mut folder: SweepFolder,
        patience: Duration,
    ) -> Result<Sweeper, FolderError> {
        let nothing = FolderError::Nothing { dir: folder.dir().to_owned() };
        let (header, state) = folder.resume()?.ok_or(nothing)?;
        Sweeper::with(client, header, state, folder, patience)
    }

    fn with(
        client: &Client,
        header: Header,
        mut state: SweepState,
        folder: SweepFolder,
        patience: Duration,
    ) -> Result<Sweeper, FolderError> {
        folder.expect_user(&header, &client.user())?;
        state.reseed();
        let executor = SweepExecutor::new(client, header, state, patience);
        Ok(Sweeper { is_resumed: executor.has_begun(), driver: Driver::new(executor, Some(folder)) })
    }

    /// True if it goes on where another client was.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// True if anything was handed out, now or by another client.
    pub fn has_begun(&self) -> bool {
        self.driver.executor.has_begun()
    }

    /// What is wanted.
    pub fn plan(&self) -> &Plan {
        self.driver.executor.state.machine.plan()
    }

    /// The jobs of packs that have not ended, as far as they are known.
    pub fn jobs(&self) -> Vec<Handle> {
        self.driver.executor.state.packs.values().filter_map(|open| open.job.clone()).collect()
    }

    /// Goes on until every instance is done or given up, or `interrupted`: then what is handed out goes on without it.
    /// `report` is called now and then, and in the end.
    ///
    /// # Errors
    ///
    /// If no server runs such instances, or the folder cannot be written. What was handed out goes on.
    pub async fn run(
        &mut self,
        interrupted: impl Future<Output = ()>,
        mut report: impl FnMut(&SweepStatus),
    ) -> Result<SweepStatus, WorkError> {
        self.driver.run(interrupted, |executor| report(&executor.status())).await?;
        Ok(self.driver.executor.status())
    }

    /// Gives up what is not done: nothing more is handed out, and what was is ended by [`run`](Sweeper::run). That is for
    /// good, also for a client that goes on.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn cancel(&mut self) -> Result<(), FolderError> {
        match self.driver.executor.state.machine.is_cancelled() {
            true => Ok(()),
            false => self.driver.record(Entry::Cancelled {}),
        }
    }

    /// The folder with the outcome of each instance; for when the sweep is over, or was stopped.
    pub fn into_folder(self) -> SweepFolder {
        self.driver.into_folder().expect("a sweep has a folder")
    }
}
