//! The start gates of jobs that wait here ([`StartGate`]): what is decided there, and whether a supervisor has come.
//!
//! A listing shows that the batch system has started a sibling job: then it is ready to start. That must be known at once and
//! not when the period is over, since processors are kept meanwhile: so a supervisor that has come to its gate causes a new
//! listing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_control::batch::external::Event;
use pliant_model::JobId;
use pliant_site::accounts::AccountName;
use pliant_site::processes::StartPermit;
use pliant_site::{FilesError, JobGate};
use tokio::sync::{Notify, watch};

use super::folders::NotReady;
use super::{Cluster, Job};
use crate::host::stopped;
use crate::server::execution::{Failure, Host, Retry};

/// The polling interval for all gates.
const PERIOD: Duration = Duration::from_millis(250);
/// How many times rarer those of accounts are polled: each time by a process.
const RARER_OF_ACCOUNTS: u32 = 8;
/// A look that takes longer is slow: it takes some milliseconds.
const SLOW: Duration = Duration::from_secs(1);

/// Causes a new listing whenever a supervisor has come to its gate.
pub(super) async fn watch_gates(host: Arc<Host>, changed: Arc<Notify>, stop: watch::Receiver<bool>) {
    let (mut known, mut polls) = (BTreeSet::new(), 0_u32);
    loop {
        tokio::select! {
            () = stopped(stop.clone()) => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        let (host, before) = (host.clone(), std::mem::take(&mut known));
        polls = polls.wrapping_add(1);
        let looks_at_accounts = polls % RARER_OF_ACCOUNTS == 0;
        let looked = tokio::task::spawn_blocking(move || look(&host, before, looks_at_accounts)).await;
        let Ok((now_known, has_arrived)) = looked else { continue };
        known = now_known;
        if has_arrived {
            changed.notify_one();
        }
    }
}

/// The gates that need no further polling, and whether a supervisor has reached one of the others.
fn look(host: &Host, mut known: BTreeSet<u32>, looks_at_accounts: bool) -> (BTreeSet<u32>, bool) {
    let gates = host.gates();
    let mut any = false;
    // An account that fails or takes long is not asked again in this round: the others must not wait for it.
    let mut failing = BTreeSet::new();
    for number in gates.iter().filter(|number| !known.contains(*number)).copied().collect::<Vec<u32>>() {
        // What is wrong with a gate shows when it is decided.
        let Ok(gate) = host.gate(number, None) else { continue };
        let account = gate.account().map(|account| account.name.clone());
        let is_skipped = |account: &AccountName| !looks_at_accounts || failing.contains(account);
        if account.as_ref().is_some_and(is_skipped) {
            continue;
        }
        let begin = Instant::now();
        let arrived = gate.has_arrived();
        if arrived.is_err() || begin.elapsed() > SLOW {
            failing.extend(account);
        }
        if let Ok(Some(has_arrived)) = arrived {
            known.insert(number);
            any |= has_arrived;
        }
    }
    known.retain(|number| gates.contains(number));
    (known, any)
}

impl Cluster {
    pub(super) fn gate(&self, job: &Job) -> Result<JobGate, FilesError> {
        self.host.gate(job.number, job.account())
    }

    /// Makes the start gate of a job, and gives its folder and what runs there: a supervisor that waits.
    pub(super) async fn gated(&self, job: &Job, dir: &Path) -> Result<(PathBuf, Vec<OsString>), NotReady> {
        let gate = self.gate(job).map_err(|error| NotReady::failed(error.public_message()))?;
        let made = gate.clone();
        let reservation = job.execution.as_ref().and_then(|execution| execution.reservation());
        let create = move || {
            made.create(reservation.as_ref()).map_err(|error| Failure {
                reason: format!("its start gate cannot be made: {error}"),
                public: format!("its start gate cannot be made: {}", error.public_message()),
                may_pass: error.may_pass(),
                is_of_account: error.is_of_account(),
            })
        };
        self.until_ready(job, create).await?;
        let mut program: Vec<OsString> = self.host.supervisor.clone();
        program.extend([OsString::from("--gate"), gate.folder().into(), dir.into()]);
        Ok((gate.folder().to_owned(), program))
    }

    /// Permits a job to start, if its supervisor still waits for that or will.
    pub(super) async fn permit(&self, job: &Job) -> Event {
        let number = JobId(job.number);
        let mut retry = Retry::new("permit a job to start", &job.number);
        loop {
            match self.decide(job, StartPermit::Given).await {
                Ok(StartPermit::Given) => return Event::Released { job: number },
                Ok(StartPermit::Refused) => {
                    tracing::info!(job = job.number, "its start was permitted too late: queued anew");
                    return Event::ReleasedTooLate { job: number };
                }
                Err(error) => retry.after(&error).await,
            }
        }
    }

    /// Has a supervisor that waits at a job's gate give up, also one that comes later. Nothing waits for that: they do by
    /// themselves.
    pub(super) async fn refuse(&self, job: &Job) {
        if let Err(error) = self.decide(job, StartPermit::Refused).await {
            tracing::warn!(job = job.number, %error, "cannot have a supervisor give up: it does soon");
        }
    }

    async fn decide(&self, job: &Job, permit: StartPermit) -> Result<StartPermit, String> {
        let gate = self.gate(job).map_err(|error| error.to_string())?;
        self.mailbox.leads().await;
        let decided = tokio::task::spawn_blocking(move || gate.decide(permit)).await;
        let decided = decided.map_err(|error| error.to_string())?;
        decided.map_err(|error| error.to_string())
    }

    /// Removes the gate of a job that does not run here, if it has one.
    pub(super) async fn clear(&self, job: &Job) {
        let gate = self.gate(job);
        self.mailbox.leads().await;
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || gate?.remove()).await {
            tracing::warn!(job = job.number, %error, "cannot remove the start gate of a job");
        }
    }
}
