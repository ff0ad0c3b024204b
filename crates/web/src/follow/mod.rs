//! What the federation is now, read again and again while a page is open, and what has changed.
//!
//! Agents answer questions and send no notices, so one task asks for everyone: the clusters, and at first the jobs that wait or run and
//! the newest jobs. Older jobs are read page by page after that. From then on the agent is asked which jobs have changed, which takes no
//! longer with very many jobs. Agents of earlier versions are asked for all jobs that wait or run each time; a job that neither waits
//! nor runs any more is then asked for by its ID.

mod changes;
mod job_columns;
mod job_table;
mod poll;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_client::{Client, ClientError};
use pliant_control::job::JobRecord;
use pliant_model::Time;
use pliant_wire::ChangePosition;
use tokio::sync::{Notify, watch};

pub(crate) use changes::{Change, Changes, Subscription};
pub(crate) use job_table::{GroupKey, JobFilter, JobOrder, JobTable, SortKey};

use crate::types::{ClustersView, HealthView, certificate_warning, now};

/// The shortest pause between two polls.
const PAUSE: Duration = Duration::from_millis(500);
/// A poll takes at most this share of the time: with very many open jobs, polls are further apart.
const PAUSE_FACTOR: u32 = 4;
/// How long polls go on after the last question of a page.
const INTEREST: Duration = Duration::from_secs(30);
/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(3);
/// How long a question waits for the first answer of the agent.
const FIRST_ANSWER: Duration = Duration::from_secs(20);
/// The difference between clocks that is a warning.
const CLOCK_WARNING_S: i64 = 5;

/// Follows the federation for all pages.
pub(crate) struct Follower {
    client: Client,
    /// What is known; locked for moments only.
    state: Mutex<FollowedState>,
    changes: Changes,
    wake: Notify,
    polls: watch::Sender<u64>,
}

/// What is known of the federation.
struct FollowedState {
    jobs: JobTable,
    clusters: ClustersView,
    /// When the agent answered last.
    answered: Option<Instant>,
    answered_s: Option<i64>,
    problem: Option<ClientError>,
    /// Up to which change of the agent the jobs are known; none if all that wait or run are to be read.
    position: Option<ChangePosition>,
    own_certificate: OwnCertificate,
    /// What may be missing in lists of jobs.
    incomplete: Option<String>,
    /// The clock of the agent minus ours.
    clock_ahead_s: i64,
    /// When a page last asked.
    asked: Instant,
}

/// The certificate of the calls.
struct OwnCertificate {
    end: Time,
    /// How long before its end there is a warning.
    warning_s: i64,
}

impl OwnCertificate {
    fn warning(&self, at: i64) -> Option<String> {
        let left = self.end.0 - at;
        let hint = "ask the operators of the federation for another one";
        match (left / 3600, left / 86_400) {
            _ if left >= self.warning_s => None,
            _ if left <= 0 => Some(format!("your certificate has ended: {hint}")),
            (hours, ..2) => Some(format!("your certificate ends within {} hours: {hint}", hours + 1)),
            (_, days) => Some(format!("your certificate ends within {} days: {hint}", days + 1)),
        }
    }
}

impl Follower {
    /// Follows with that client; [`Follower::run`] does the work.
    ///
    /// The end of the client's own certificate is a warning so many seconds before.
    pub(crate) fn new(client: Client, warning_s: i64) -> Arc<Follower> {
        let own_certificate = OwnCertificate { end: client.certificate_not_after(), warning_s };
        Arc::new(Follower {
            client,
            state: Mutex::new(FollowedState {
                jobs: JobTable::default(),
                clusters: ClustersView::default(),
                answered: None,
                answered_s: None,
                problem: None,
                position: None,
                own_certificate,
                incomplete: None,
                clock_ahead_s: 0,
                asked: Instant::now(),
            }),
            changes: Changes::default(),
            wake: Notify::new(),
            polls: watch::Sender::new(0),
        })
    }

    /// The client of all calls.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The changes, for streams.
    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    /// Reads the federation while someone is interested; never returns.
    pub(crate) async fn run(self: Arc<Follower>) -> Infallible {
        loop {
            while !self.is_wanted() {
                self.wake.notified().await;
            }
            let begun = Instant::now();
            self.poll().await;
            self.polls.send_modify(|polls| *polls += 1);
            tokio::time::sleep(PAUSE.max(begun.elapsed() * PAUSE_FACTOR)).await;
        }
    }

    /// What is known of jobs now, at most a few seconds old unless the agent does not answer.
    ///
    /// # Errors
    ///
    /// If the agent has never answered.
    pub(crate) async fn with_jobs<T>(&self, read: impl FnOnce(&JobTable) -> T) -> Result<T, ClientError> {
        self.fresh().await?;
        Ok(read(&self.state.lock().jobs))
    }

    /// What is known of jobs, without waiting for an answer of the agent.
    pub(crate) fn with_known_jobs<T>(&self, read: impl FnOnce(&JobTable) -> T) -> T {
        read(&self.state.lock().jobs)
    }

    /// The clusters now, as above.
    ///
    /// # Errors
    ///
    /// As above.
    pub(crate) async fn clusters(&self) -> Result<ClustersView, ClientError> {
        self.fresh().await?;
        Ok(self.state.lock().clusters.clone())
    }

    /// Whether the agent answers, and what is not as it should be.
    pub(crate) async fn health(&self) -> HealthView {
        // The problem is in the answer.
        let _ = self.fresh().await;
        self.state.lock().health()
    }

    /// Puts the record of a job that a server has just answered into the table.
    pub(crate) fn learn(&self, record: &JobRecord) {
        // Sent while the table is locked, so that pages get the states of a job in the order in which it has them.
        let mut state = self.state.lock();
        let changed = state.jobs.learn(record);
        self.changes.send(changed.map(|job| Change::Job(Box::new(job))));
    }

    /// Begins to poll, if that has stopped.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until the answers are not older than they may be.
    async fn fresh(&self) -> Result<(), ClientError> {
        let mut polls = self.polls.subscribe();
        let mut waited = false;
        loop {
            {
                let mut state = self.state.lock();
                state.asked = Instant::now();
                if state.answered.is_some_and(|answered| answered.elapsed() < FRESH) {
                    return Ok(());
                }
                match (&state.problem, state.answered) {
                    // What was known before the agent went down is better than nothing; the page shows that it is down.
                    (Some(_), Some(_)) => return Ok(()),
                    (Some(error), None) if waited => return Err(error.clone()),
                    _ if waited => return Ok(()),
                    _ => {}
                }
            }
            self.wake.notify_one();
            // If no poll ends in time, what is known is taken.
            let _ = tokio::time::timeout(FIRST_ANSWER, polls.changed()).await;
            waited = true;
        }
    }

    /// Whether a page asked recently, or follows changes.
    fn is_wanted(&self) -> bool {
        self.changes.is_followed() || self.state.lock().asked.elapsed() < INTEREST
    }
}

impl FollowedState {
    fn health(&self) -> HealthView {
        let mut warnings: Vec<String> = self.incomplete.iter().cloned().collect();
        let at = now().0;
        if self.clock_ahead_s.abs() > CLOCK_WARNING_S {
            let direction = if self.clock_ahead_s > 0 { "behind" } else { "ahead of" };
            warnings.push(format!(
                "the clock of this machine is {} s {direction} the agent's",
                self.clock_ahead_s.abs()
            ));
        }
        warnings.extend(self.own_certificate.warning(at));
        for cluster in &self.clusters.clusters {
            let server = &cluster.server;
            match cluster.state {
                "down" => warnings.push(format!("server {server} is down")),
                "drained" => warnings.push(format!("server {server} is drained: it takes no new jobs")),
                _ => {}
            }
            if let Some(ahead) = cluster.clock_ahead_s {
                warnings.push(format!("the clock of server {server} differs from the agent's by {ahead} s"));
            }
            warnings.extend(certificate_warning(
                &format!("server {server}"),
                cluster.certificate_not_after_s,
                at,
            ));
        }
        warnings.extend(self.clusters.agent_warnings(at));
        HealthView {
            reachable: self.problem.is_none(),
            problem: self.problem.as_ref().map(ToString::to_string),
            answered_s: self.answered_s,
            warnings,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
