//! Telemetry of daemons and clients: [`logging`] sends structured log lines to standard error, a [`RequestId`] connects
//! the log lines of one request across daemons, [`LineLimit`] bounds the lines that others can cause, and [`names`] are the names of all
//! metrics (`docs/reference/metrics.md`).

mod line_limit;
mod logs;
pub mod names;
mod request;

pub use line_limit::{LeftOut, LineLimit};
pub use logs::{LogFormat, LoggingError, logging, subscriber};
pub use request::{REQUEST_HEADER, RequestId, spawn_of_call};
