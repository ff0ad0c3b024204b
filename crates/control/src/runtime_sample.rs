//! What the end of a job says of the runtimes of its service.

use pliant_policy::runtimes::Level;
use serde::{Deserialize, Serialize};

/// How the runtime of a job is learned from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RuntimeSample {
    /// The service.
    pub category: String,
    /// How much longer this request takes than the runtimes learned for the service; positive.
    pub scale: f64,
    /// Whether walltimes of the service are made of it.
    pub promises: bool,
    /// The instances of a batch; 1 of any other job.
    pub instances: u32,
    /// Whether it is a batch of instances, of which the longest counts for walltimes.
    pub is_batch: bool,
}

impl RuntimeSample {
    /// The unit in which statistics of `level` count the runtime: a service by what its arguments make of it, users and all by
    /// instances.
    pub fn units(&self, level: Level) -> f64 {
        if level == Level::Executable { self.scale } else { f64::from(self.instances.max(1)) }
    }
}
