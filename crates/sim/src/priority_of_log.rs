//! The settings of queue orders by usage in a simulation: a file with the table `[priority]` alone.

use pliant_control::priority_file::PriorityFile;
use pliant_model::Platform;
use pliant_policy::batch::LocalPolicy;
use pliant_policy::batch::order::PrioritySettings;
use serde::Deserialize;

/// The content of the file. Users are numbers, as in a log.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriorityOfLog {
    priority: PriorityFile,
}

/// Why the file cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PriorityError {
    /// No cluster of the platform has a queue order by usage.
    NoOrder,
    /// A value is wrong.
    Value {
        /// Its key.
        key: &'static str,
        /// What was expected and what was found.
        problem: String,
    },
}

impl PriorityOfLog {
    /// The settings for a platform.
    ///
    /// # Errors
    ///
    /// If they would be ignored, or a value is wrong.
    pub fn settings(&self, platform: &Platform) -> Result<PrioritySettings, PriorityError> {
        let by_usage =
            |batch: &str| batch.parse::<LocalPolicy>().is_ok_and(|local| local.ordering().order.by_usage());
        if !platform.clusters().iter().any(|cluster| by_usage(&cluster.batch)) {
            return Err(PriorityError::NoOrder);
        }
        self.priority.of_log().map_err(|(key, problem)| PriorityError::Value { key, problem })
    }
}
