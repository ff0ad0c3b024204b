//! An exploration as its user drives it: begun or resumed, and run.

use std::time::Duration;

use pliant_control::names::Key;
use pliant_control::optional::explore::{Dispatch, Plan};
use pliant_model::{Time, TimeMs};
use pliant_staging::FileSpec;
use pliant_transport::Clock;

use super::ExplorationFolder;
use super::executor::{ExplorationExecutor, moment};
use super::folder::Header;
use super::spec::{ExplorationSpec, ExplorationStatus, ExplorationUpdate};
use crate::driver::Driver;
use crate::work_folder::{FolderError, Work};
use crate::{Client, WorkError};

/// An exploration in progress.
pub struct Explorer {
    driver: Driver<ExplorationExecutor>,
}

impl Explorer {
    /// Begins an exploration, or resumes the one of the folder.
    ///
    /// # Errors
    ///
    /// If the folder is of another one, or cannot be used.
    pub fn new(
        client: &Client,
        spec: &ExplorationSpec,
        mut folder: Option<ExplorationFolder>,
    ) -> Result<Explorer, WorkError> {
        let clock = Clock::start(Time::ZERO);
        let now = moment(&clock);
        let inputs: Vec<FileSpec> = spec.inputs.iter().map(|(spec, _)| spec.clone()).collect();
        let plan = plan(spec, now);
        let found = folder.as_mut().map(ExplorationFolder::resume_begun).transpose()?.flatten();
        let is_resumed = found.is_some();
        let (header, machine) = match found {
            Some((header, machine)) => {
                if let Some(folder) = &folder {
                    folder.expect_exploration(&header, &spec.executable, &spec.parameters, &inputs, &plan)?;
                }
                (header, machine)
            }
            None => {
                let (executable, parameters) = (spec.executable.clone(), spec.parameters.clone());
                let exploration = Key(rand::random());
                let header = Header { exploration, executable, parameters, inputs, began: now, plan };
                if let Some(folder) = &folder {
                    folder.begin(&header)?;
                }
                let machine = header.start();
                (header, machine)
            }
        };
        let (executable, deadline) = (header.executable.clone(), Some(machine.plan().deadline));
        let calls = client.calls(header.exploration, executable, deadline, spec.timeout);
        let calls = calls.with_inputs(spec.inputs.clone());
        let executor =
            ExplorationExecutor::new(client, header, machine, is_resumed, calls, clock, spec.timeout);
        Ok(Explorer { driver: Driver::new(executor, folder) })
    }

    /// Resumes the exploration of a folder without its input files, in order to end it: it can submit no request that has
    /// some.
    ///
    /// # Errors
    ///
    /// If there is none, or the folder cannot be used.
    pub fn resume(
        client: &Client,
        mut folder: ExplorationFolder,
        timeout: Duration,
    ) -> Result<Explorer, WorkError> {
        let nothing = FolderError::Empty { dir: folder.dir().to_owned() };
        let (header, machine) = folder.resume_begun()?.ok_or(nothing)?;
        let (executable, deadline) = (header.executable.clone(), Some(machine.plan().deadline));
        let calls = client.calls(header.exploration, executable, deadline, timeout);
        let clock = Clock::start(Time::ZERO);
        let executor = ExplorationExecutor::new(client, header, machine, true, calls, clock, timeout);
        Ok(Explorer { driver: Driver::new(executor, Some(folder)) })
    }

    /// True if an earlier client began it.
    pub fn is_resumed(&self) -> bool {
        self.driver.executor.is_resumed
    }

    /// What is wanted.
    pub fn plan(&self) -> &Plan {
        self.driver.executor.machine.plan()
    }

    /// True if an earlier client completed it.
    pub fn is_over(&self) -> bool {
        self.driver.executor.machine.is_over()
    }

    /// Explores until it is over. `interrupted` ends it early: open requests are cancelled, results are kept. `report` is called
    /// at least every 500 ms, and in the end.
    ///
    /// # Errors
    ///
    /// If no server takes its requests, or its folder cannot be written. What was done is kept.
    pub async fn run(
        mut self,
        interrupted: impl Future<Output = ()>,
        mut report: impl FnMut(ExplorationUpdate<'_>),
    ) -> Result<ExplorationStatus, WorkError> {
        let report_warnings = |executor: &mut ExplorationExecutor,
                               report: &mut dyn FnMut(ExplorationUpdate<'_>)| {
            executor.warnings.drain(..).for_each(|warning| report(ExplorationUpdate::Warning(&warning)));
        };
        let result = self.driver.run(interrupted, |executor| {
            report_warnings(executor, &mut report);
            report(ExplorationUpdate::Progress(&executor.explored()));
        });
        let result = result.await;
        report_warnings(&mut self.driver.executor, &mut report);
        result?;
        let explored = self.driver.executor.explored();
        report(ExplorationUpdate::Progress(&explored));
        Ok(explored)
    }
}

fn plan(spec: &ExplorationSpec, now: TimeMs) -> Plan {
    Plan {
        mandatory: spec.mandatory,
        most: spec.most.min(spec.parameters.combinations().unwrap_or(u32::MAX)),
        deadline: now + spec.deadline,
        // Servers know their users' weights.
        weight: 1,
        dispatch: spec.legacy.map_or(Dispatch::Window(1), Dispatch::Guess),
        reallocation: spec.reallocation,
        seed: rand::random(),
    }
}
