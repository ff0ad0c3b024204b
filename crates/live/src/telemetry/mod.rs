//! Logs, metrics and health of a daemon.
//!
//! - [`logging`] sends structured log lines to standard error; a [`RequestId`] ties the lines of all daemons that a
//!   request went through together.
//! - [`install_metrics`] makes the numbers of [`names`] countable; [`serve_http`] shows them on a loopback address,
//!   with whether the daemon lives and is ready. `docs/metrics.md` is the page for operators.

mod logs;
pub mod names;
mod pages;
mod recorder;
mod request;

pub use logs::{LogFormat, LoggingError, logging, subscriber};
pub use pages::{HttpError, Readiness, Reason, bind_http, serve_http};
pub use recorder::{MetricsError, install_metrics, recorder};
pub(crate) use request::spawn_of_call;
pub use request::{REQUEST_HEADER, RequestId};
