//! Metrics and health of a daemon: [`install_metrics`] counts the metrics of [`pliant_telemetry::names`], and [`serve_http`]
//! shows them on a loopback address, with whether the daemon is up and ready. `docs/reference/metrics.md` is the page for operators.

mod pages;
mod recorder;

pub use pages::{HttpError, Readiness, Reason, bind_http, serve_http};
pub use recorder::{MetricsError, install_metrics, recorder};
