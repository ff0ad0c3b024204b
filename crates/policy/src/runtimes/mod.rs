//! Statistics of runtimes: predict jobs from ended jobs.
//!
//! | file | predicts |
//! |---|---|
//! | `categories` | the runtime of a job of an executable, a user or a group, with broader categories as fallback; also of running jobs |
//! | `calibration` | nothing: prediction errors by level |
//! | [`history`] | the walltime that one service needs, across sizes and speeds |
//! | [`limit_usage`] | the share of its time limit that a job uses, from listings of an external batch system |
//! | [`predicted`] | the planned runtime of a job, and its extension after it has run longer |
//! | `samples` | nothing: the units in which jobs of a federation are recorded |
//! | `window`, `choice` | nothing: the last values of a series, and an order statistic of them |
//!
//! Predictions depend only on ended jobs and the order in which they were recorded.

mod calibration;
mod categories;
mod choice;
pub mod history;
pub mod limit_usage;
pub mod predicted;
mod samples;
mod window;

pub use calibration::{CALIBRATED, CalibratedDump, CalibratedRuntimes, Calibration, Errors, Summary};
pub use categories::{Categories, CategoryDump, Estimator, Level, Predicted, Runtimes, Settings};
pub use choice::{Choice, ChoiceError};
pub use samples::{InShape, Ran, rounds};

#[cfg(test)]
mod tests;
