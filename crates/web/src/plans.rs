//! The present plans of waiting jobs. Agents list what was promised; what is planned now only the servers know, job by job, so the
//! jobs that start first are asked for, not too often.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pliant_client::Client;
use pliant_control::names::Handle;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::follow::Follower;
use crate::several::each;
use crate::types::EstimateView;

/// Of how many jobs the plan is asked for.
pub(crate) const PLANS_MAX: usize = 64;
/// How old plans may be.
const FRESH: Duration = Duration::from_secs(10);
/// How long servers may take to answer: plans make a chart better, and do not hold it up.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Plans by job ID.
pub(crate) type PlanTable = BTreeMap<String, Plan>;

/// What the server of a waiting job plans for it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// To run like this.
    Start(EstimateView),
    /// Nothing, until something else happens: an operator holds it, say.
    None,
}

/// The plans that were asked for last.
#[derive(Default)]
pub(crate) struct Plans {
    known: Mutex<(Option<Instant>, PlanTable)>,
}

impl Plans {
    /// The plans of the first of these jobs, as far as servers say them in time.
    pub(crate) async fn of(&self, follower: &Follower, mut waiting: Vec<Handle>) -> PlanTable {
        // Locked while servers are asked: several pages ask once.
        let mut known = self.known.lock().await;
        let (asked, plans) = &mut *known;
        if asked.is_some_and(|asked| asked.elapsed() < FRESH) {
            return plans.clone();
        }
        waiting.truncate(PLANS_MAX);
        let ask = |client: Client, handle: Handle| async move { client.explain(&handle).await };
        // After a timeout the old plans are better than none.
        if let Ok(answers) = timeout(TIMEOUT, each(follower.client(), waiting, ask)).await {
            plans.clear();
            for (handle, answer) in answers {
                let Ok(explanation) = answer else { continue };
                follower.learn(&explanation.record);
                let plan = match (&explanation.waits, &explanation.unplanned) {
                    (Some(wait), _) => Plan::Start((&wait.plan).into()),
                    (None, Some(_)) => Plan::None,
                    (None, None) => continue,
                };
                plans.insert(handle.to_string(), plan);
            }
        }
        *asked = Some(Instant::now());
        plans.clone()
    }
}
