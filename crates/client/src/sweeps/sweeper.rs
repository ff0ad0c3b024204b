//! A sweep as its user sees it: begun or resumed, run, cancelled.

use std::time::Duration;

use pliant_control::multi_job::Plan;
use pliant_control::names::Handle;

use super::executor::SweepExecutor;
use super::folder::Header;
use super::spec::plan;
use super::state::SweepState;
use super::{Entry, SweepFolder, SweepSpec, SweepStatus};
use crate::driver::Driver;
use crate::work_folder::Work;
use crate::{Client, FolderError, WorkError};

/// A sweep in progress.
pub struct Sweeper {
    driver: Driver<SweepExecutor>,
    is_resumed: bool,
}

impl Sweeper {
    /// Begins a sweep, or resumes the one of the folder.
    ///
    /// # Errors
    ///
    /// If the folder is of another one, or cannot be used.
    pub fn new(client: &Client, spec: &SweepSpec, mut folder: SweepFolder) -> Result<Sweeper, FolderError> {
        let (header, state) = match folder.resume()? {
            Some((header, state)) => {
                folder.expect_sweep(&header, spec)?;
                (header, state)
            }
            None => {
                let header = Header::new(&client.user(), spec, plan(spec));
                folder.begin(&header)?;
                let state = header.start();
                (header, state)
            }
        };
        Sweeper::with(client, header, state, folder, spec.timeout)
    }

    /// Resumes the sweep of a folder.
    ///
    /// # Errors
    ///
    /// If there is none, or the folder cannot be used.
    pub fn resume(
        client: &Client,
        mut folder: SweepFolder,
        timeout: Duration,
    ) -> Result<Sweeper, FolderError> {
        let nothing = FolderError::Empty { dir: folder.dir().to_owned() };
        let (header, state) = folder.resume()?.ok_or(nothing)?;
        Sweeper::with(client, header, state, folder, timeout)
    }

    fn with(
        client: &Client,
        header: Header,
        mut state: SweepState,
        folder: SweepFolder,
        timeout: Duration,
    ) -> Result<Sweeper, FolderError> {
        folder.expect_user(&header, &client.user())?;
        state.reseed();
        let executor = SweepExecutor::new(client, header, state, timeout);
        Ok(Sweeper { is_resumed: executor.has_begun(), driver: Driver::new(executor, Some(folder)) })
    }

    /// True if an earlier client has submitted batches.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// True if batches were submitted, by this client or an earlier one.
    pub fn has_begun(&self) -> bool {
        self.driver.executor.has_begun()
    }

    /// What is wanted.
    pub fn plan(&self) -> &Plan {
        self.driver.executor.state.machine.plan()
    }

    /// The known jobs of open batches.
    pub fn jobs(&self) -> Vec<Handle> {
        self.driver.executor.state.batches.values().filter_map(|open| open.job.clone()).collect()
    }

    /// Runs until every instance has completed or failed, or until `interrupted`: then submitted jobs continue. `report` is
    /// called at least every 500 ms, and in the end.
    ///
    /// # Errors
    ///
    /// If no server runs such instances, or the folder cannot be written. Submitted jobs continue.
    pub async fn run(
        &mut self,
        interrupted: impl Future<Output = ()>,
        mut report: impl FnMut(&SweepStatus),
    ) -> Result<SweepStatus, WorkError> {
        self.driver.run(interrupted, |executor| report(&executor.status())).await?;
        Ok(self.driver.executor.status())
    }

    /// Cancels the sweep for good: no batch is submitted any more, and [`run`](Sweeper::run) ends the open ones.
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

    /// The folder with the results, once the sweep is over or interrupted.
    pub fn into_folder(self) -> SweepFolder {
        self.driver.into_folder().expect("a sweep has a folder")
    }
}
