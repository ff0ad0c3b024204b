//! Simulates multi-jobs among background jobs of other users (paper 002, sections 4 and 5).
//!
//! | file | holds |
//! |---|---|
//! | `background` | the background jobs of clusters, from a log |
//! | `frozen` | scenarios 1 and 2: the pending work of one moment, without later submissions |
//! | `broker` | the broker's view of clusters and its allocation: `policy::allocation` on `policy::runtimes` |
//! | `sites` | clusters that start jobs first come, first served |
//! | `session` | scenarios 3 and 4: other users submit while the multi-job runs |
//! | `queued` | all instances are queued at once, as in the paper; idle processors may take waiting ones and replicas |
//! | `sweep` | the state machine of live sweeps submits instances |
//! | `errors` | prediction errors on a log |
//!
//! As in the paper, every job takes one processor, whatever its log has. All clusters have the same speed.

mod background;
mod broker;
mod errors;
mod frozen;
mod queued;
mod session;
mod sites;
mod sweep;
#[cfg(test)]
mod tests;

pub use background::{Background, BackgroundJob, Division, TooFewClusters, background};
pub use broker::{Broker, RunningJobs, RuntimeKnowledge, RuntimeStatistics};
pub use errors::errors;
pub use frozen::{RuntimeLaw, freeze, run_frozen};
pub use session::{BrokerView, MultiJob, Outcome, Session, settle};
