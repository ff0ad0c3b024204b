//! One poll of the federation.

use std::time::Instant;

use pliant_client::{Client, ClientError};
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Handle;
use pliant_wire::{ChangePosition, ChangesQuery, JobsPage, JobsQuery, bounds};
use tokio::task::JoinSet;

use super::{Change, Follower};
use crate::types::{ClustersView, certificate_warning, now};

/// How many jobs are asked for by their ID in one poll.
const LOST_SIGHT_MAX: usize = 64;
/// How many of these questions are open at a time.
const AT_A_TIME: usize = 16;
/// How many jobs are asked for to find the new ones.
const NEWEST: u32 = 100;
/// How many pages of older jobs are read in one poll.
const OLDER_PAGES: usize = 5;

/// How many pages of changes are read in one poll; of more, all jobs that wait or run are read again.
const CHANGES_PAGES: usize = 20;

/// What one poll has found.
struct Found {
    clusters: ClustersView,
    agent_now_s: Option<i64>,
    jobs: FoundJobs,
    /// Up to which change of the agent this is; none if it does not know.
    position: Option<ChangePosition>,
}

/// The jobs that one poll has found.
enum FoundJobs {
    /// Those that wait or run, and the newest ones.
    All { open: Vec<JobRecord>, newest: Vec<JobRecord>, incomplete: Option<String> },
    /// Those that have changed since the last poll.
    Changed(Vec<JobRecord>),
}

impl Follower {
    /// Asks once, and sends what has changed.
    pub(super) async fn poll(&self) {
        match self.ask().await {
            Ok(found) => self.take(found).await,
            Err(error) => {
                let mut state = self.state.lock();
                let before = state.health();
                state.problem = Some(error);
                let health = state.health();
                drop(state);
                self.changes.send((!before.says_the_same(&health)).then_some(Change::Health(health)));
            }
        }
    }

    async fn ask(&self) -> Result<Found, ClientError> {
        let position = {
            let state = self.state.lock();
            // While children report again what the agent has lost, lists say what may be missing.
            state.position.filter(|_| state.incomplete.is_none())
        };
        if let Some(after) = position {
            let (federation, changed) = tokio::try_join!(self.client.servers(), self.changed_after(after))?;
            if let Some((jobs, position)) = changed {
                return Ok(Found {
                    clusters: (&federation).into(),
                    agent_now_s: federation.now.map(|now| now.0),
                    jobs: FoundJobs::Changed(jobs),
                    position: Some(position),
                });
            }
        }
        // Before the lists are read, so that no change is missed.
        let all = self.client.is_operator();
        let position =
            self.client.changes(&ChangesQuery { all, after: None }).await?.map(|page| page.position);
        let open = JobState::ALL.into_iter().filter(|state| !state.is_final()).collect();
        let (federation, open, newest) =
            tokio::try_join!(self.client.servers(), all_pages(&self.client, open), self.newest())?;
        let incomplete = incomplete(&open);
        Ok(Found {
            clusters: (&federation).into(),
            agent_now_s: federation.now.map(|now| now.0),
            jobs: FoundJobs::All { open: open.jobs, newest, incomplete },
            position,
        })
    }

    /// The jobs that changed after a position, and the position that was reached; none if the agent does not know them, or they are
    /// very many.
    async fn changed_after(
        &self,
        mut after: ChangePosition,
    ) -> Result<Option<(Vec<JobRecord>, ChangePosition)>, ClientError> {
        let (all, mut jobs) = (self.client.is_operator(), Vec::new());
        for _ in 0..CHANGES_PAGES {
            let page = self.client.changes(&ChangesQuery { all, after: Some(after) }).await?;
            let Some(page) = page.filter(|page| !page.forgotten) else { return Ok(None) };
            jobs.extend(page.jobs);
            after = page.position;
            if !page.more {
                return Ok(Some((jobs, after)));
            }
        }
        Ok(None)
    }

    /// Takes over what was found, then asks for jobs that neither wait nor run any more, and for older ones.
    async fn take(&self, found: Found) {
        let mut changes = Vec::new();
        let lost_sight = {
            let mut state = self.state.lock();
            let before = state.health();
            let is_first = state.answered.is_none();
            (state.answered, state.answered_s, state.problem) = (Some(Instant::now()), Some(now().0), None);
            state.clock_ahead_s = found.agent_now_s.map_or(0, |agent| agent - now().0);
            state.position = found.position;
            state.own_certificate.end = self.client.certificate_not_after();
            if state.clusters != found.clusters {
                state.clusters = found.clusters;
                changes.push(Change::Clusters(state.clusters.clone()));
            }
            // The agent lists the newest after the open ones, so a job in both is as it is there.
            let jobs: Vec<&JobRecord> = match &found.jobs {
                FoundJobs::All { open, newest, .. } => open.iter().chain(newest).collect(),
                FoundJobs::Changed(jobs) => jobs.iter().collect(),
            };
            let changed: Vec<_> = jobs.into_iter().filter_map(|job| state.jobs.list(job)).collect();
            changes.extend(changed.into_iter().map(|job| Change::Job(Box::new(job))));
            let lost_sight = match found.jobs {
                FoundJobs::All { open, incomplete, .. } => {
                    state.incomplete = incomplete;
                    state.jobs.lost_sight(&open, LOST_SIGHT_MAX)
                }
                FoundJobs::Changed(_) => Vec::new(),
            };
            let health = state.health();
            if !before.says_the_same(&health) {
                changes.push(Change::Health(health));
            }
            if lost_sight.len() >= LOST_SIGHT_MAX {
                // There may be more, which the next poll finds.
                state.position = None;
            }
            // Pages that were loaded before the first answer have nothing.
            self.changes.send(if is_first { vec![Change::Refresh] } else { changes });
            lost_sight
        };
        self.look_for(lost_sight).await;
        self.read_older().await;
    }

    /// Asks for jobs by their ID.
    async fn look_for(&self, handles: Vec<Handle>) {
        let mut waiting = handles.into_iter();
        let mut open = JoinSet::new();
        loop {
            while open.len() < AT_A_TIME
                && let Some(handle) = waiting.next()
            {
                let client = self.client.clone();
                open.spawn(async move {
                    let found = client.find(&handle).await.map(|located| located.record);
                    (handle, found)
                });
            }
            let Some(Ok((handle, found))) = open.join_next().await else { return };
            let mut state = self.state.lock();
            let change = match found {
                Ok(record) => state.jobs.list(&record).map(|job| Change::Job(Box::new(job))),
                Err(error) if error.is_missing() => {
                    state.jobs.remove(&handle).then(|| Change::Removed(handle.to_string()))
                }
                // The next poll asks again.
                Err(_) => {
                    state.position = None;
                    None
                }
            };
            self.changes.send(change);
        }
    }

    /// Jobs that were submitted since the last poll, whatever their state.
    async fn newest(&self) -> Result<Vec<JobRecord>, ClientError> {
        let mut query = JobsQuery { limit: NEWEST, ..every_job(&self.client) };
        let mut jobs = Vec::new();
        loop {
            let page = self.client.jobs(&query).await?;
            let is_new = {
                let state = self.state.lock();
                page.jobs.last().is_some_and(|job| !state.jobs.has(job))
            };
            jobs.extend(page.jobs);
            // At the beginning all are new; they are read in larger pages.
            let is_beginning = self.state.lock().answered.is_none();
            match page.next {
                Some(next) if is_new && !is_beginning => query.before = Some(next),
                _ => return Ok(jobs),
            }
        }
    }

    /// Reads some pages of older jobs, if there are more.
    async fn read_older(&self) {
        for _ in 0..OLDER_PAGES {
            let Some(before) = self.state.lock().jobs.older() else { return };
            let query = JobsQuery { limit: bounds::JOBS_MAX as u32, before, ..every_job(&self.client) };
            // The next poll asks again.
            let Ok(page) = self.client.jobs(&query).await else { return };
            let JobsPage { jobs, next, .. } = page;
            let is_complete = {
                let mut state = self.state.lock();
                jobs.iter().for_each(|job| drop(state.jobs.list(job)));
                state.jobs.read_until(next.filter(|_| !jobs.is_empty()))
            };
            if is_complete {
                self.changes.send([Change::Refresh]);
            }
        }
    }
}

/// Every job that the user may see.
fn every_job(client: &Client) -> JobsQuery {
    JobsQuery { all: client.is_operator(), ..JobsQuery::of_caller(Vec::new(), bounds::JOBS_MAX as u32) }
}

async fn all_pages(client: &Client, states: Vec<JobState>) -> Result<JobsPage, ClientError> {
    client.newest_jobs(JobsQuery { states, ..every_job(client) }, super::job_table::OPEN_MAX).await
}

/// Says that jobs may be missing, if that is so.
fn incomplete(page: &JobsPage) -> Option<String> {
    let first = page.reporting_again.first()?;
    let others = match page.reporting_again.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "jobs may be missing: the agent lost its journal, and {first}{others} still report their jobs again"
    ))
}

impl ClustersView {
    /// Agents that are down, and certificates of agents that end before that time.
    pub(super) fn agent_warnings(&self, at_s: i64) -> Vec<String> {
        let below = self.agents.iter().filter_map(|agent| agent.warning(at_s));
        below.chain(certificate_warning("the agent", self.certificate_not_after_s, at_s)).collect()
    }
}
