//! A federation of real daemons and what is done with it: started, killed and started again at will, and all ended at
//! the end of the test.

mod clusters;
mod command_line;
mod federation;
mod jobs;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pliant_model::Time;

pub(crate) use clusters::{Cluster, MASTER, Oar, SERVICES, TLS};
pub(crate) use command_line::{CommandUser, pliant, said};
pub(crate) use federation::Federation;
pub(crate) use jobs::*;

pub(crate) use crate::schemas::document;

/// How long anything that must happen may take: long, for machines that do much else.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// How often is looked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The present, as certificates count it.
pub(crate) fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64)
}

/// Looks until there is something to see.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
