//! When servers are looked at, and which of them get no packs for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use pliant_control::multi_job::Prospects;
use pliant_control::names::Name;
use pliant_control::reason::Cause;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;

use super::looks::{ProspectsFound, ProspectsRequest};
use crate::{Client, ClientError};

/// How often servers are looked at.
const LOOK: Duration = Duration::from_secs(10);
/// How soon after a look the next one may be.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// How long a server that refuses a pack gets none at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What a multi-job knows of when to look at servers.
pub(super) struct PollSchedule {
    looked: Sender<Result<ProspectsFound, ClientError>>,
    looks: Receiver<Result<ProspectsFound, ClientError>>,
    /// An answer is under way.
    looking: bool,
    at: Instant,
    /// Servers that have refused a pack: until when they get none, and the pause after the next time.
    pauses: BTreeMap<Name, (Instant, Duration)>,
    servers: usize,
    /// When an answer came last.
    answered: Instant,
    /// Somebody was there who takes nothing at the moment.
    has_busy: bool,
}

impl PollSchedule {
    /// Servers are to be looked at now.
    pub(super) fn new() -> PollSchedule {
        let (looked, looks) = mpsc::channel(1);
        let (now, pauses) = (Instant::now(), BTreeMap::new());
        PollSchedule {
            looked,
            looks,
            looking: false,
            at: now,
            pauses,
            servers: 0,
            answered: now,
            has_busy: false,
        }
    }

    /// When servers are to be looked at.
    pub(super) fn at(&self) -> Instant {
        self.at
    }

    /// How many servers took instances when they were looked at last.
    pub(super) fn servers(&self) -> usize {
        self.servers
    }

    /// How long ago they answered.
    pub(super) fn age(&self) -> Duration {
        self.answered.elapsed()
    }

    /// True if a server is there that takes nothing at the moment and may take something later.
    pub(super) fn expects_takers(&self) -> bool {
        let now = Instant::now();
        self.has_busy || self.pauses.values().any(|(until, _)| *until > now)
    }

    /// They are to be looked at now.
    pub(super) fn now(&mut self) {
        self.at = Instant::now();
    }

    /// They are to be looked at soon, if not sooner.
    pub(super) fn soon(&mut self) {
        self.at = self.at.min(Instant::now() + LOOK_SOON);
    }

    /// They are to be looked at soon, and not sooner.
    pub(super) fn again_soon(&mut self) {
        self.at = Instant::now() + LOOK_SOON;
    }

    /// Looks at the servers as if those jobs were not there, unless an answer is under way; then again after a while.
    pub(super) fn look(
        &mut self,
        client: &Client,
        asked: ProspectsRequest,
        without: BTreeMap<Name, Vec<u32>>,
    ) {
        self.at = Instant::now() + LOOK;
        if std::mem::replace(&mut self.looking, true) {
            return;
        }
        let (client, looked) = (client.clone(), self.looked.clone());
        tokio::spawn(async move {
            // Whoever asked may have stopped.
            let _ = looked.send(client.look(&asked, without).await).await;
        });
    }

    /// What the look found that is under way.
    pub(super) async fn found(&mut self) -> Option<Result<ProspectsFound, ClientError>> {
        let looked = self.looks.recv().await;
        self.looking = false;
        if let Some(Ok(looked)) = &looked {
            self.servers = looked.found.len();
            self.answered = Instant::now();
            let is_busy = |cause| matches!(cause, Cause::TooMany | Cause::Busy | Cause::BatchSystem);
            self.has_busy = looked.others.iter().any(|one| is_busy(one.reason.cause));
        }
        looked
    }

    /// A server takes no packs at the moment: it gets none for a while, and for longer the next time.
    pub(super) fn pause(&mut self, server: &Name) {
        let (_, pause) = self.pauses.get(server).copied().unwrap_or((Instant::now(), PAUSE.0));
        let next = (pause * 2).min(PAUSE.1);
        self.pauses.insert(server.clone(), (Instant::now() + pause, next));
    }

    /// A server has taken a pack.
    pub(super) fn goes_on(&mut self, server: &Name) {
        self.pauses.remove(server);
    }

    /// Leaves out who has just refused a pack; they are looked at when their pause is over.
    pub(super) fn leave_out_paused(&mut self, found: &mut Vec<(Name, Prospects)>) {
        let now = Instant::now();
        let until = |name: &Name| self.pauses.get(name).map(|(until, _)| *until).filter(|until| *until > now);
        let next = found.iter().filter_map(|(name, _)| until(name)).min();
        found.retain(|(name, _)| until(name).is_none());
        if let Some(next) = next {
            self.at = self.at.min(next);
        }
    }
}
