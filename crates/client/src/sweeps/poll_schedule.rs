//! When servers are asked for their prospects, and which servers get no batches for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use pliant_control::multi_job::InstanceProspects;
use pliant_control::names::Name;
use pliant_control::reason::Cause;
use tokio::time::Instant;

use super::prospects::{ProspectsFound, ProspectsRequest};
use crate::poll::Poll;
use crate::{Client, ClientError};

/// The first and the longest pause of a server that refuses a batch.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The polling of servers.
pub(super) struct PollSchedule {
    pub(super) poll: Poll<Result<ProspectsFound, ClientError>>,
    /// Servers that have refused a batch: the end of their pause, and the next pause.
    pauses: BTreeMap<Name, (Instant, Duration)>,
    servers: usize,
    /// When an answer came last.
    answered: Instant,
    /// A server is up and takes nothing at the moment.
    has_busy: bool,
    /// A server gives no answer, or takes nothing at the moment.
    are_some_away: bool,
}

impl PollSchedule {
    pub(super) fn new() -> PollSchedule {
        PollSchedule {
            poll: Poll::new(Instant::now()),
            pauses: BTreeMap::new(),
            servers: 0,
            answered: Instant::now(),
            has_busy: false,
            are_some_away: false,
        }
    }

    /// How many servers took instances at the last poll.
    pub(super) fn servers(&self) -> usize {
        self.servers
    }

    /// The age of the last answer.
    pub(super) fn age(&self) -> Duration {
        self.answered.elapsed()
    }

    /// True if a server takes nothing at the moment and may take instances later.
    pub(super) fn expects_takers(&self) -> bool {
        let now = Instant::now();
        self.has_busy || self.pauses.values().any(|(until, _)| *until > now)
    }

    /// True if a server gave no answer at the last poll, or takes nothing at the moment, and may take instances later.
    pub(super) fn are_some_away(&self) -> bool {
        self.are_some_away || self.expects_takers()
    }

    /// Asks the servers for their prospects without those jobs.
    pub(super) fn ask(
        &mut self,
        client: &Client,
        asked: ProspectsRequest,
        without: BTreeMap<Name, Vec<u32>>,
    ) {
        let client = client.clone();
        self.poll.ask(async move { client.all_prospects(&asked, without).await });
    }

    /// Waits for the answers. The future may be dropped while it waits.
    pub(super) async fn found(&mut self) -> Result<ProspectsFound, ClientError> {
        let found = self.poll.answer().await;
        if let Ok(found) = &found {
            self.servers = found.found.len();
            self.answered = Instant::now();
            let is_busy = |cause| matches!(cause, Cause::TooMany | Cause::Busy | Cause::BatchSystem);
            self.are_some_away = found.are_some_away();
            self.has_busy = found.others.iter().any(|one| is_busy(one.reason.cause));
        }
        found
    }

    /// A server has refused a batch: it gets none for a while, and longer each time.
    pub(super) fn pause(&mut self, server: &Name) {
        let (_, pause) = self.pauses.get(server).copied().unwrap_or((Instant::now(), PAUSE.0));
        let next = (pause * 2).min(PAUSE.1);
        self.pauses.insert(server.clone(), (Instant::now() + pause, next));
    }

    /// A server has accepted a batch.
    pub(super) fn unpause(&mut self, server: &Name) {
        self.pauses.remove(server);
    }

    /// Removes paused servers, and schedules the next poll at the end of a pause.
    pub(super) fn remove_paused(&mut self, found: &mut Vec<(Name, InstanceProspects)>) {
        let now = Instant::now();
        let until = |name: &Name| self.pauses.get(name).map(|(until, _)| *until).filter(|until| *until > now);
        let next = found.iter().filter_map(|(name, _)| until(name)).min();
        found.retain(|(name, _)| until(name).is_none());
        if let Some(next) = next {
            self.poll.at_latest(next);
        }
    }
}
