//! What daemons and clients report of themselves: [`logging`] sends structured log lines to standard error, a [`RequestId`]
//! connects the lines of all daemons that a request went through, and [`names`] are the names of all metrics
//! (`docs/metrics.md` is the page for operators).

mod logs;
pub mod names;
mod request;

pub use logs::{LogFormat, LoggingError, logging, subscriber};
pub use request::{REQUEST_HEADER, RequestId, spawn_of_call};
