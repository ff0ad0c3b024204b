//! Telemetry of daemons and clients: [`logging`] sends structured log lines to standard error, a [`RequestId`] connects
//! the log lines of one request across daemons, and [`names`] are the names of all metrics (`docs/reference/metrics.md`).

mod logs;
pub mod names;
mod request;

pub use logs::{LogFormat, LoggingError, logging, subscriber};
pub use request::{REQUEST_HEADER, RequestId, spawn_of_call};
