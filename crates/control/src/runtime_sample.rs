//! Runtime samples of ended jobs.

use pliant_policy::runtimes::Level;
use serde::{Deserialize, Serialize};

use crate::names::User;

/// How a job's runtime is learned from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RuntimeSample {
    /// The service, or [`script_category`].
    pub category: String,
    /// The scale of this request's arguments relative to the learned runtimes; positive.
    pub scale: f64,
    /// Whether the walltimes of the service are learned.
    pub promises: bool,
    /// Number of instances of a batch; 1 for other jobs.
    pub instances: u32,
    /// Whether the job is a batch of instances: then the longest one counts for walltimes.
    pub is_batch: bool,
}

impl RuntimeSample {
    /// The divisor of the runtime in statistics of `level`: the scale for a service, the number of instances for users and all.
    pub fn units(&self, level: Level) -> f64 {
        if level == Level::Executable { self.scale } else { f64::from(self.instances.max(1)) }
    }
}

/// The category of the runs of a script: those of the same name and user. Names of services have no colons.
pub fn script_category(owner: &User, name: &str) -> String {
    format!("script:{owner}/{name}")
}
