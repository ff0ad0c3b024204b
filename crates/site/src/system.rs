//! One interface to the batch systems that a server can submit to.

use std::collections::BTreeMap;

use pliant_control::batch::external::Event;
use pliant_control::listing::ListedJob;
use pliant_control::names::Name;
use pliant_model::{Span, Time};
use pliant_policy::nodes::Rules;

use crate::batch_system::{
    BatchSystemError, ListedJobs, SettingError, StartPrevention, Submission, Submitters,
};
use crate::oar::{self, Oar};
use crate::slurm::{self, Slurm};

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

impl BatchSystemSettings {
    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// A value is out of its range; the error names its key.
    pub fn check(&self) -> Result<(), SettingError> {
        match self {
            BatchSystemSettings::Slurm(settings) => settings.check(),
            BatchSystemSettings::Oar(settings) => settings.check(),
        }
    }

    /// Seconds between two listings.
    pub fn period_s(&self) -> u32 {
        match self {
            BatchSystemSettings::Slurm(settings) => settings.period_s,
            BatchSystemSettings::Oar(settings) => settings.period_s,
        }
    }

    /// What the batch system hides from a server with these settings that submits jobs as these accounts, for operators; none if it hides
    /// nothing or does not answer. The server's user has to be that of this process.
    pub async fn hidden(&self, server: &Name, accounts: Submitters) -> Option<String> {
        match BatchSystem::connect(self, server, accounts).await {
            Ok(BatchSystem::Slurm(slurm)) if slurm.about().hides_any() && rustix::process::geteuid().is_root() => {
                Some(
                    "slurm hides others' jobs or reservations (PrivateData), and this process is root's, which sees them: run it as the server's user to \
                     see whether that is an operator"
                        .to_owned(),
                )
            }
            Ok(system) => system.hidden().map(str::to_owned),
            Err(error @ BatchSystemError::Hidden(_)) => Some(error.to_string()),
            Err(_) => None,
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
    /// Connects to the batch system, for a server that submits jobs as these accounts.
    ///
    /// # Errors
    ///
    /// It does not answer, or not as expected. The settings are not checked: see [`slurm::Settings::check`] and
    /// [`oar::Settings::check`].
    pub async fn connect(
        settings: &BatchSystemSettings,
        server: &Name,
        accounts: Submitters,
    ) -> Result<BatchSystem, BatchSystemError> {
        Ok(match settings {
            BatchSystemSettings::Slurm(settings) => {
                BatchSystem::Slurm(Box::new(Slurm::connect_as(settings.clone(), server, accounts).await?))
            }
            BatchSystemSettings::Oar(settings) => {
                BatchSystem::Oar(Box::new(Oar::connect_as(settings.clone(), server, accounts).await?))
            }
        })
    }

    /// Logs what it is, and gives what the server's machine must know of how it plans.
    pub fn describe(&self) -> Event {
        match self {
            BatchSystem::Slurm(slurm) => {
                let about = slurm.about();
                if let Some(hidden) = self.hidden() {
                    tracing::warn!(private = ?about.private, "{hidden}");
                }
                if !about.is_documented() {
                    tracing::warn!(
                        version = about.version,
                        "expected slurm 21.08 to 24.11, whose documentation the commands follow: output that is not understood is an error"
                    );
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
                if let Some(preemption) = slurm.preemption() {
                    tracing::warn!(
                        preemption,
                        "slurm may stop running jobs of this server for others: they may start or end later than planned"
                    );
                }
                tracing::info!(
                    cluster = about.cluster,
                    version = about.version,
                    priority = about.priority,
                    interval = about.scheduler.interval.0,
                    accounts = about.accounts,
                    "slurm answers"
                );
                let slurm::Settings { partition, more_partitions, allow: allowed, expect, .. } =
                    slurm.settings().clone();
                let interval = about.scheduler.interval;
                Event::Configured { interval, partition, more_partitions, allowed, expect }
            }
            BatchSystem::Oar(oar) => {
                tracing::info!("oar answers");
                Event::PlanningRules { rules: Rules::oar(Span(oar.settings().security_s.into())) }
            }
        }
    }

    /// What the batch system hides from the server's user, for operators.
    pub fn hidden(&self) -> Option<&'static str> {
        match self {
            BatchSystem::Slurm(slurm) if !slurm.sees_all() => Some(
                "slurm hides others' jobs (PrivateData): estimates do not know of them until the server's user is an operator",
            ),
            BatchSystem::Slurm(slurm) if !slurm.sees_reservations() => Some(
                "slurm hides reservations (PrivateData): estimates do not know of them until the server's user is an operator",
            ),
            BatchSystem::Slurm(_) | BatchSystem::Oar(_) => None,
        }
    }

    /// Submits a job; `again` if it may be in the queue already. Gives its identifiers in the batch system: several if it was submitted twice.
    pub async fn submit(
        &self,
        submission: &Submission<'_>,
        again: bool,
    ) -> Result<Vec<String>, BatchSystemError> {
        match (self, again) {
            (BatchSystem::Slurm(slurm), true) => slurm.submit_unless_there(submission).await,
            (BatchSystem::Slurm(slurm), false) if submission.in_any_order => {
                Ok(vec![slurm.submit_joined(submission).await?])
            }
            (BatchSystem::Slurm(slurm), false) => Ok(vec![slurm.submit(submission).await?]),
            (BatchSystem::Oar(oar), true) => oar.submit_unless_there(submission).await,
            (BatchSystem::Oar(oar), false) => Ok(vec![oar.submit(submission).await?]),
        }
    }

    /// Lets a held job start.
    pub async fn release(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        match self {
            BatchSystem::Slurm(slurm) => slurm.release(number, id).await,
            BatchSystem::Oar(oar) => oar.release(number, id).await,
        }
    }

    /// Prevents a waiting job from starting. Slurm cancels it; OAR holds it, which keeps it in the queue: see
    /// [`BatchSystem::remove_prevented`].
    pub async fn prevent_start(&self, number: u32, id: &str) -> Result<StartPrevention, BatchSystemError> {
        match self {
            BatchSystem::Slurm(slurm) => slurm.prevent_start(number, id).await,
            BatchSystem::Oar(oar) => oar.prevent_start(number, id).await,
        }
    }

    /// Removes a job whose start was prevented from the queue.
    pub async fn remove_prevented(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        match self {
            BatchSystem::Slurm(_) => Ok(()),
            BatchSystem::Oar(oar) => oar.delete(number, id).await,
        }
    }

    /// Ends a job that may run.
    pub async fn terminate(&self, number: u32, id: &str) -> Result<(), BatchSystemError> {
        match self {
            BatchSystem::Slurm(slurm) => slurm.terminate(number, id).await,
            BatchSystem::Oar(oar) => oar.terminate(number, id).await,
        }
    }

    /// Lists jobs and nodes.
    pub async fn list(&self, now: Time) -> Result<ListedJobs, BatchSystemError> {
        match self {
            BatchSystem::Slurm(slurm) => slurm.list(now).await,
            BatchSystem::Oar(oar) => oar.list(now).await,
        }
    }

    /// The ends of these jobs, as far as the batch system still knows them.
    pub async fn ended(&self, ids: &[&str]) -> Result<BTreeMap<String, ListedJob>, BatchSystemError> {
        match self {
            BatchSystem::Slurm(slurm) => slurm.ended(ids).await,
            BatchSystem::Oar(oar) => oar.ended(ids).await,
        }
    }
}
