//! Multi-jobs beside the jobs of other users (paper 002, sections 4 and 5; spec A.2.2, A.2.3).
//!
//! | file | holds |
//! |---|---|
//! | `background` | the jobs of other users on clusters, as a log has them |
//! | `frozen` | scenarios 1 and 2: the pending work of one moment, after which nobody else comes |
//! | `broker` | what a broker knows of clusters and how it spreads instances: `policy::allocation` on `policy::runtimes` |
//! | `sites` | clusters that start jobs first come, first served |
//! | `session` | scenarios 3 and 4: others go on submitting while the multi-job runs |
//! | `queued` | all instances are queued at once, as in the paper; idle processors may take waiting ones and copies |
//! | `sweep` | the state machine of live sweeps hands instances out |
//! | `errors` | how far predictions are off on a log |
//!
//! A job takes one processor, whatever its log says, as in the paper. All clusters have the same speed.

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
pub use broker::{Broker, Knowledge, Learned, RunningJobs};
pub use errors::errors;
pub use frozen::{Law, freeze, run_frozen};
pub use session::{MultiJob, Outcome, Session, View, settle};
