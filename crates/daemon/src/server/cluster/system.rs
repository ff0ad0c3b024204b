//! The batch systems that a server can stand in front of, behind one face: what the driver asks of them, and what they
//! say in their own words.

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
use pliant_site::oar::{self, HeldBack, Oar, OarError};
use pliant_site::slurm::{self, Slurm, SlurmError};

/// Where a batch system is, and how it is used.
#[derive(Clone, Debug)]
pub(crate) enum Settings {
    Slurm(slurm::Settings),
    Oar(oar::Settings),
}

/// A batch system that has answered.
#[derive(Debug)]
pub(super) enum System {
    Slurm(Box<Slurm>),
    Oar(Box<Oar>),
}

/// A job to be submitted.
pub(super) struct Order<'a> {
    pub(super) number: u32,
    pub(super) folder: &'a Path,
    pub(super) program: &'a [OsString],
    pub(super) procs: Procs,
    pub(super) walltime: Span,
    /// The sizes among which it chooses, if it can; empty if there is only the one.
    pub(super) alternatives: &'a [Alternative],
    /// The one node where it is to run, if it is to run on one.
    pub(super) node: Option<&'a str>,
    pub(super) held: bool,
    /// It may start before or after others that are submitted at the same time.
    pub(super) in_any_order: bool,
}

/// What it listed.
pub(super) struct Seen {
    pub(super) listing: Listing,
    /// What was not understood of others' jobs.
    pub(super) unread: Vec<String>,
}

/// What came of keeping a job from starting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// It does not start any more.
    Back,
    /// It has started, or somebody else says when it does.
    Started,
}

/// Why something was not done, or is not known to be.
#[derive(Debug)]
pub(super) enum Fault {
    Slurm(SlurmError),
    Oar(OarError),
}

impl Settings {
    pub(super) fn period_s(&self) -> u32 {
        match self {
            Settings::Slurm(settings) => settings.period_s,
            Settings::Oar(settings) => settings.period_s,
        }
    }

    /// The partition that jobs are submitted to, if nodes belong to partitions.
    pub(super) fn partition(&self) -> Option<&str> {
        match self {
            Settings::Slurm(settings) => settings.partition.as_deref(),
            Settings::Oar(_) => None,
        }
    }
}

impl System {
    pub(super) async fn connect(settings: &Settings, server: &Name) -> Result<System, Fault> {
        Ok(match settings {
            Settings::Slurm(settings) => {
                System::Slurm(Box::new(Slurm::connect(settings.clone(), server).await?))
            }
            Settings::Oar(settings) => System::Oar(Box::new(Oar::connect(settings.clone(), server).await?)),
        })
    }

    /// Notes what it is, and what has to be known of how it plans.
    pub(super) fn describe(&self) -> Event {
        match self {
            System::Slurm(slurm) => {
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
            System::Oar(oar) => {
                tracing::info!("oar answers");
                Event::Plans { rules: Rules::oar(Span(oar.settings().security_s.into())) }
            }
        }
    }

    /// Submits a job; `again` if it may be there already. Gives what it is called.
    pub(super) async fn submit(&self, order: &Order<'_>, again: bool) -> Result<Vec<String>, Fault> {
        let &Order { number, folder, program, procs, walltime, alternatives, node, held, in_any_order } =
            order;
        match self {
            System::Slurm(slurm) => {
                let nodes = node.map(|_| 1);
                let shape = Shape { cores: procs.0, nodes, ..Shape::default() };
                let job = slurm::Submission { number, folder, program, shape, node, walltime, held };
                Ok(match again {
                    true => slurm.submit_unless_there(&job).await?,
                    false if in_any_order => vec![slurm.submit_joined(&job).await?],
                    false => vec![slurm.submit(&job).await?],
                })
            }
            System::Oar(oar) => {
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

    pub(super) async fn release(&self, number: u32, id: &str) -> Result<(), Fault> {
        match self {
            System::Slurm(slurm) => Ok(slurm.release(number, id).await?),
            System::Oar(oar) => Ok(oar.release(number, id).await?),
        }
    }

    /// Sees to it that a job does not start any more. Slurm cancels it; in OAR it is still there, held: see
    /// [`System::take_out`].
    pub(super) async fn keep_back(&self, number: u32, id: &str) -> Result<Kept, Fault> {
        Ok(match self {
            System::Slurm(slurm) => match slurm.withdraw(number, id).await? {
                slurm::Withdrawal::Withdrawn | slurm::Withdrawal::Gone => Kept::Back,
                slurm::Withdrawal::Started(_) | slurm::Withdrawal::Kept => Kept::Started,
            },
            System::Oar(oar) => match oar.hold_back(number, id).await? {
                HeldBack::Held | HeldBack::Gone => Kept::Back,
                HeldBack::Started(_) => Kept::Started,
            },
        })
    }

    /// Takes what was kept back out of the queue, once nothing of it can run.
    pub(super) async fn take_out(&self, number: u32, id: &str) -> Result<(), Fault> {
        match self {
            System::Slurm(_) => Ok(()),
            System::Oar(oar) => Ok(oar.delete(number, id).await?),
        }
    }

    pub(super) async fn terminate(&self, number: u32, id: &str) -> Result<(), Fault> {
        match self {
            System::Slurm(slurm) => Ok(slurm.terminate(number, id).await?),
            System::Oar(oar) => Ok(oar.terminate(number, id).await?),
        }
    }

    pub(super) async fn list(&self, now: Time) -> Result<Seen, Fault> {
        Ok(match self {
            System::Slurm(slurm) => {
                let slurm::Seen { listing, unread } = slurm.list(now).await?;
                Seen { listing, unread: unread.iter().map(ToString::to_string).collect() }
            }
            System::Oar(oar) => {
                let oar::Seen { listing, unread } = oar.list(now).await?;
                Seen { listing, unread }
            }
        })
    }

    pub(super) async fn ended(&self, ids: &[&str]) -> Result<BTreeMap<String, Listed>, Fault> {
        match self {
            System::Slurm(slurm) => Ok(slurm.ended(ids).await?),
            System::Oar(oar) => Ok(oar.ended(ids).await?),
        }
    }
}

impl Fault {
    /// Whether it is worth asking the same again later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Fault::Slurm(error) => error.may_pass(),
            Fault::Oar(error) => error.may_pass(),
        }
    }

    /// Whether what was asked may have been done all the same.
    pub(super) fn leaves_open(&self) -> bool {
        match self {
            Fault::Slurm(error) => error.may_pass() || matches!(error, SlurmError::Unreadable(_)),
            Fault::Oar(error) => error.leaves_open(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Slurm(error) => error.fmt(f),
            Fault::Oar(error) => error.fmt(f),
        }
    }
}

impl From<SlurmError> for Fault {
    fn from(error: SlurmError) -> Fault {
        Fault::Slurm(error)
    }
}

impl From<OarError> for Fault {
    fn from(error: OarError) -> Fault {
        Fault::Oar(error)
    }
}
