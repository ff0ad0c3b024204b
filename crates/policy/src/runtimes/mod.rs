//! Statistics of runtimes: how long jobs will run, judging by those that have ended.
//!
//! | file | says |
//! |---|---|
//! | `categories` | how long the next job of an executable, a user or a group is expected to run, with a broader category while too few are known; also one that has outlived that |
//! | `calibration` | how far that was off, by level |
//! | [`history`] | the walltime that one service needs, across sizes and speeds |
//! | [`limit_usage`] | how much of its limit a job uses, as far as listings of an external batch system show it |
//! | [`predicted`] | how long a job is planned for, and for how much longer once it has outlived its plan |
//! | `samples` | the units that jobs of a federation are counted in |
//! | `window`, `choice` | nothing: the last values of a series, and an order statistic of them |
//!
//! Nothing but jobs that have ended goes into a prediction, in the order in which they were told.

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
