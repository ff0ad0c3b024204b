//! One listing per period, of which the machine is notified of what has changed; and one at once when something was done that
//! a listing shows, or when a caller needs to know what others have done. Never are two under way, and however many want
//! one, they are a while apart.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_control::batch;
use pliant_control::batch::external::{self, Event};
use pliant_control::listing::Listing;
use pliant_control::names::Name;
use pliant_control::server::{self, Server};
use pliant_model::Procs;
use pliant_transport::Clock;
use tokio::sync::{Notify, watch};

use super::freshness::{AGE, LastListing};
use super::submitters::note;
use crate::host::{Mailbox, stopped};
use pliant_site::accounts::AccountName;
use pliant_site::{BatchSystem, BatchSystemError, BatchSystemSettings, ListedJobs, Submitters};

/// After this long the machine is notified that nothing has changed: it may wait for a job that never appears.
const NOTHING_NEW: Duration = Duration::from_secs(60);

/// Lists the jobs of a cluster.
pub(super) struct Listings {
    pub(super) settings: BatchSystemSettings,
    pub(super) server: Name,
    /// As whom jobs are submitted.
    pub(super) submitters: Submitters,
    /// The jobs of accounts that the machine knew when the server was started.
    pub(super) known: Vec<(u32, AccountName)>,
    pub(super) mailbox: Mailbox<Server>,
    pub(super) clock: Clock,
    /// What the machine knows.
    pub(super) mirror: Listing,
    /// What of the last one could not be read: said once.
    pub(super) unread: BTreeSet<String>,
    /// Where the cluster is left once its batch system has answered.
    pub(super) connected: watch::Sender<Option<Arc<BatchSystem>>>,
    /// The outcome of the last one.
    pub(super) last: watch::Sender<LastListing>,
    /// Wakes up before the period is over.
    pub(super) changed: Arc<Notify>,
}

impl Listings {
    /// Goes on until the daemon is to stop.
    pub(super) async fn keep(mut self, stop: watch::Receiver<bool>) {
        tokio::select! {
            () = stopped(stop) => {}
            () = self.list() => {}
        }
    }

    async fn list(&mut self) {
        // A listing must know which of the jobs are ours.
        for (number, account) in std::mem::take(&mut self.known) {
            if let Err(why) = note(&self.submitters, number, &account).await {
                tracing::warn!(
                    job = number,
                    why,
                    "its entry in the batch system is not taken for this server's"
                );
            }
        }
        let period = Duration::from_secs(self.settings.period_s().into());
        let mut silent_since: Option<Instant> = None;
        let mut reported = None;
        loop {
            let asked = Instant::now();
            match self.listed().await {
                Ok(listed) => {
                    if let Some(since) = silent_since.take() {
                        tracing::info!(seconds = since.elapsed().as_secs(), "the batch system answers again");
                    }
                    self.report(listed, &mut reported);
                    let procs = external::capacity(&self.mirror, self.settings.partition());
                    let took = asked.elapsed();
                    self.last.send_replace(LastListing { asked: Some(asked), took, silent: None, procs });
                }
                Err(error) => {
                    silent_since.get_or_insert_with(Instant::now);
                    let error = error.to_string();
                    if self.last.borrow().silent.as_ref() != Some(&error) {
                        tracing::warn!(error, "the batch system cannot be listed: tried again until it can");
                    }
                    self.last.send_modify(|last| last.silent = Some(error));
                }
            }
            tokio::time::sleep(AGE).await;
            tokio::select! {
                () = tokio::time::sleep(period.saturating_sub(AGE)) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    async fn listed(&self) -> Result<ListedJobs, BatchSystemError> {
        let known = self.connected.borrow().clone();
        let system = match known {
            Some(system) => system,
            None => {
                let system = Arc::new(
                    BatchSystem::connect(&self.settings, &self.server, self.submitters.clone()).await?,
                );
                self.send(system.describe());
                system
            }
        };
        let listed = system.list(self.clock.now()).await?;
        // Only now: nothing is done in a cluster that cannot be listed.
        self.connected.send_if_modified(|connected| {
            let is_new = connected.is_none();
            *connected = Some(system.clone());
            is_new
        });
        Ok(listed)
    }

    fn report(&mut self, listed: ListedJobs, reported: &mut Option<Instant>) {
        let ListedJobs { listing, unread } = listed;
        let unread: BTreeSet<String> = unread.iter().map(ToString::to_string).collect();
        for unread in unread.difference(&self.unread) {
            tracing::warn!(%unread, "left out of a listing, since it was not understood");
        }
        self.unread = unread;
        let changes = listing.changes(&self.mirror);
        if !changes.is_empty() || reported.is_none_or(|at| at.elapsed() >= NOTHING_NEW) {
            *reported = Some(Instant::now());
            self.send(Event::Listed(changes));
        }
        let partition = self.settings.partition();
        let procs = external::capacity(&listing, partition);
        if procs == Procs(0) && external::capacity(&self.mirror, partition) != procs {
            tracing::warn!(partition, "there are no nodes to run anything on");
        }
        self.mirror = listing;
    }

    fn send(&self, event: Event) {
        // A server that has stopped lists them when it starts again.
        let _ = self.mailbox.send(server::Event::Batch(batch::Event::External(event)));
    }
}
