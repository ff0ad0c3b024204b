//! One interface to the batch systems that a server can submit to.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::Path;

use pliant_control::batch::foreign::Event;
use pliant_control::listing::{Listed, Listing, Shape};
use pliant_control::names::Name;
use pliant_model::{Procs, Span, Time};
use pliant_policy::alternatives::Alternative;
use pliant_policy::nodes::Rules;

use crate::oar::{self, HeldBack, Oar, OarError};
use crate::slurm::{self, Slurm, SlurmError};

/// Where a batch system is, and how Pliant uses it.
#[derive(Clone, Debug)]
pub enum BatchSystemSettings {
    /// Slurm.
    Slurm(slurm::Settings),
    /// OAR.
    Oar(oar::Settings),
}

/// A batch system that has answered.
#[derive(Debug)]
pub enum BatchSystem {
    /// Slurm.
    Slurm(Box<Slurm>),
    /// OAR.
    Oar(Box<Oar>),
}

/// A job to be submitted.
pub struct Submission<'a> {
    /// Its number at the server.
    pub number: u32,
    /// Its folder, on a file system that the nodes share.
    pub folder: &'a Path,
    /// The command that a node runs.
    pub program: &'a [OsString],
    /// Processors.
    pub procs: Procs,
    /// Walltime.
    pub walltime: Span,
    /// The sizes among which it chooses, if it can; empty if there is only the one.
    pub alternatives: &'a [Alternative],
    /// The one node where it is to run, if it is to run on one.
    pub node: Option<&'a str>,
    /// It does not start before [`BatchSystem::release`].
    pub held: bool,
    /// It may start before or after others that are submitted at the same time.
    pub in_any_order: bool,
}

/// The jobs and nodes that a batch system listed.
pub struct ListedJobs {
    /// The listing.
    pub listing: Listing,
    /// What was not understood of others' jobs.
    pub unread: Vec<String>,
}

/// What came of an attempt to prevent a job from starting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartPrevention {
    /// It does not start any more.
    Prevented,
    /// It has started, or somebody else decides when it does.
    Started,
}

/// Why a command failed, or why it is not known whether it succeeded.
#[derive(Debug)]
pub enum BatchSystemError {
    /// An error of Slurm.
    Slurm(SlurmError),
    /// An error of OAR.
    Oar(OarError),
}

impl BatchSystemSettings {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// A value is out of its range; the error names its key.
    pub fn check(&self) -> Result<(), String> {
        match self {
            BatchSystemSettings::Slurm(settings) => settings.check().map_err(|error| error.to_string()),
            BatchSystemSettings::Oar(settings) => settings.check().map_err(|error| error.to_string()),
        }
    }

    /// Seconds between two listings.
    pub fn period_s(&self) -> u32 {
        match self {
            BatchSystemSettings::Slurm(settings) => settings.period_s,
            BatchSystemSettings::Oar(settings) => settings.period_s,
        }
    }

    /// The partition that jobs are submitted to, if nodes belong to partitions.
    pub fn partition(&self) -> Option<&str> {
        match self {
            BatchSystemSettings::Slurm(settings) => settings.partition.as_deref(),
            BatchSystemSettings::Oar(_) => None,
        }
    }
}

impl BatchSystem {
    /// Connects to the batch system.
    ///
    /// # Errors
    ///
    /// It does not answer, or not as expected. The settings are not checked: see [`slurm::Settings::check`] and
    /// [`oar::Settings::check`].
    pub async fn connect(
        settings: &BatchSystemSettings,
        server: &Name,
    ) -> Result<BatchSystem, BatchSystemError> {
        Ok(match settings {
            BatchSystemSettings::Slurm(settings) => {
                BatchSystem::Slurm(Box::new(Slurm::connect(settings.clone(), server).await?))
            }
            BatchSystemSettings::Oar(settings) => {
                BatchSystem::Oar(Box::new(Oar::connect(settings.clone(), server).await?))
            }
        })
    }

    /// Logs what it is, and gives what the server's machine must know of how it plans.
    pub fn describe(&self) -> Event {
        match self {
            BatchSystem::Slurm(slurm) => {
                let about = slurm.about();
                if about.hides_jobs() {
                    tracing::warn!(private = ?about.private, "slurm hides others' jobs: estimates do not know of them");
                }
                if about.forgets_within(Span(slurm.settings().period_s.into())) {
                    tracing::warn!(
                        min_job_age = about.min_job_age.0,
                        period = slurm.settings().period_s,
                        "slurm forgets ended jobs (MinJobAge) within two listings and keeps no accounts: how jobs were ended from outside may not be seen; list more often or raise it"
                    );
                }
                if !about.scheduler.backfill {
                    tracing::warn!("slurm does not backfill: estimates reckon as if it did");
                }
                tracing::info!(
                    cluster = about.cluster,
                    version = about.version,
                    priority = about.priority,
                    interval = about.scheduler.interval.0,
                    accounts = about.accounts,
                    "slurm answers"
                );
                let slurm::Settings { partition, expect, .. } = slurm.settings().clone();
                Event::Described { interval: about.scheduler.interval, partition, expect }
            }
            BatchSystem::Oar(oar) => {
                tracing::info!("oar answers");
                Event::Plans { rules: Rules::oar(Span(oar.settings().security_s.into())) }
            }
        }
    }

    /// Submits a job; `again` if it may be in the queue already. Gives its identifiers in the batch system, one per copy.
    pub async fn submit(
        &self,
        submission: &Submission<'_>,
        again: bool,
    ) -> Result<Vec<String>, BatchSystemError> {
        let &Submission { number, folder, program, procs, walltime, alternatives, node, held, in_any_order } =
            submission;
        match self {
            BatchSystem::Slurm(slurm) => {
                let nodes = node.map(|_| 1);
                let shape = Shape { cores: procs.0, nodes, ..Shape::default() };
                let job = slurm::Submission { number, folder, program, shape, node, walltime, held };
                Ok(match again {
                    true => slurm.submit_unless_there(&job).await?,
                    false if in_any_order => vec![slurm.submit_joined(&job).await?],
                    false => vec![slurm.submit(&job).await?],
                })
            }
            BatchSystem::Oar(oar) => {
                let one = [Alternative { procs, walltime }];
                let alternatives = if alternatives.is_empty() { &one } else { alternatives };
                let job = oar::Submission { number, folder, program, alternatives, held };
                Ok(match again {
                    true => oar.submit_unless_there(&job).await?,
                    false => vec![oar.submit(&job).await?],
                })
            }
        }
    }

    /// Lets a held job start.
    pub async fn release(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        match self {
            BatchSystem::Slurm(slurm) => Ok(slurm.release(number, id).await?),
            BatchSystem::Oar(oar) => Ok(oar.release(number, id).await?),
        }
    }

    /// Prevents a waiting job from starting. Slurm cancels it; OAR holds it, which keeps it in the queue: see
    /// [`BatchSystem::remove_prevented`].
    pub async fn prevent_start(&self, number: u32, id: &str) -> Result<StartPrevention, BatchSystemError> {
        Ok(match self {
            BatchSystem::Slurm(slurm) => match slurm.withdraw(number, id).await? {
                slurm::Withdrawal::Withdrawn | slurm::Withdrawal::Gone => StartPrevention::Prevented,
                slurm::Withdrawal::Started(_) | slurm::Withdrawal::Kept => StartPrevention::Started,
            },
            BatchSystem::Oar(oar) => match oar.hold_back(number, id).await? {
                HeldBack::Held | HeldBack::Gone => StartPrevention::Prevented,
                HeldBack::Started(_) => StartPrevention::Started,
            },
        })
    }

    /// Removes a job whose start was prevented from the queue.
    pub async fn remove_prevented(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        match self {
            BatchSystem::Slurm(_) => Ok(()),
            BatchSystem::Oar(oar) => Ok(oar.delete(number, id).await?),
        }
    }

    /// Ends a job that may run.
    pub async fn terminate(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        match self {
            BatchSystem::Slurm(slurm) => Ok(slurm.terminate(number, id).await?),
            BatchSystem::Oar(oar) => Ok(oar.terminate(number, id).await?),
        }
    }

    /// Lists jobs and nodes.
    pub async fn list(&self, now: Time) -> Result<ListedJobs, BatchSystemError> {
        Ok(match self {
            BatchSystem::Slurm(slurm) => {
                let slurm::Seen { listing, unread } = slurm.list(now).await?;
                ListedJobs { listing, unread: unread.iter().map(ToString::to_string).collect() }
            }
            BatchSystem::Oar(oar) => {
                let oar::Seen { listing, unread } = oar.list(now).await?;
                ListedJobs { listing, unread }
            }
        })
    }

    /// The ends of these jobs, as far as the batch system still knows them.
    pub async fn ended(&self, ids: &[&str]) -> Result<BTreeMap<String, Listed>, BatchSystemError> {
        match self {
            BatchSystem::Slurm(slurm) => Ok(slurm.ended(ids).await?),
            BatchSystem::Oar(oar) => Ok(oar.ended(ids).await?),
        }
    }
}

impl BatchSystemError {
    /// True if the same command may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            BatchSystemError::Slurm(error) => error.may_pass(),
            BatchSystemError::Oar(error) => error.may_pass(),
        }
    }

    /// True if the command may have been carried out all the same.
    pub fn leaves_open(&self) -> bool {
        match self {
            BatchSystemError::Slurm(error) => error.may_pass() || matches!(error, SlurmError::Unreadable(_)),
            BatchSystemError::Oar(error) => error.leaves_open(),
        }
    }
}

impl fmt::Display for BatchSystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchSystemError::Slurm(error) => error.fmt(f),
            BatchSystemError::Oar(error) => error.fmt(f),
        }
    }
}

impl From<SlurmError> for BatchSystemError {
    fn from(error: SlurmError) -> BatchSystemError {
        BatchSystemError::Slurm(error)
    }
}

impl From<OarError> for BatchSystemError {
    fn from(error: OarError) -> BatchSystemError {
        BatchSystemError::Oar(error)
    }
}
