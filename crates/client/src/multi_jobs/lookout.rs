//! When servers are looked at, and which of them get no packs for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use pliant_control::multi_job::Prospects;
use pliant_control::names::Name;
use pliant_control::reason::Cause;
use tokio::time::Instant;

use super::looks::{ProspectsFound, ProspectsRequest};
use crate::poll::Poll;
use crate::{Client, ClientError};

/// How long a server that refuses a pack gets none at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// When servers are asked what instances may expect of them, and which servers get no packs for a while.
pub(super) struct PollSchedule {
    pub(super) poll: Poll<Result<ProspectsFound, ClientError>>,
    /// Servers that have refused a pack: until when they get none, and the pause after the next time.
    pauses: BTreeMap<Name, (Instant, Duration)>,
    servers: usize,
    /// When an answer came last.
    answered: Instant,
    /// A server is there that takes nothing at the moment.
    has_busy: bool,
}

impl PollSchedule {
    pub(super) fn new() -> PollSchedule {
        PollSchedule {
            poll: Poll::new(Instant::now()),
            pauses: BTreeMap::new(),
            servers: 0,
            answered: Instant::now(),
            has_busy: false,
        }
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

    /// Asks the servers, as if those jobs were not there.
    pub(super) fn look(
        &mut self,
        client: &Client,
        asked: ProspectsRequest,
        without: BTreeMap<Name, Vec<u32>>,
    ) {
        let client = client.clone();
        self.poll.ask(async move { client.look(&asked, without).await });
    }

    /// Waits for what servers answer. It may be dropped while it waits.
    pub(super) async fn found(&mut self) -> Result<ProspectsFound, ClientError> {
        let looked = self.poll.answer().await;
        if let Ok(looked) = &looked {
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
            self.poll.at_latest(next);
        }
    }
}
