//! The launches that have processors or wait for some. Agents list them among all launches, and not among jobs.

use std::time::{Duration, Instant};

use pliant_client::Client;
use pliant_control::coallocation::LaunchRecord;
use pliant_wire::{LaunchesQuery, bounds};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How old they may be.
const FRESH: Duration = Duration::from_secs(2);
/// How long the agent may take to answer: a chart without launches is better than none.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The launches that were asked for last, among the newest 100.
#[derive(Default)]
pub(crate) struct OpenLaunches {
    known: Mutex<(Option<Instant>, Vec<LaunchRecord>)>,
}

impl OpenLaunches {
    /// The user's launches that have subjobs, for an operator those of all users; the last known ones if the agent does not say.
    pub(crate) async fn of(&self, client: &Client) -> Vec<LaunchRecord> {
        // Locked while the agent is asked: several pages ask once.
        let mut known = self.known.lock().await;
        let (asked, launches) = &mut *known;
        if asked.is_none_or(|asked| asked.elapsed() >= FRESH) {
            let query = LaunchesQuery { all: client.is_operator(), limit: bounds::JOBS_DEFAULT };
            if let Ok(Ok(mut found)) = timeout(TIMEOUT, client.launches(&query)).await {
                found.retain(|launch| !launch.open_subjobs.is_empty());
                *launches = found;
            }
            *asked = Some(Instant::now());
        }
        launches.clone()
    }
}
