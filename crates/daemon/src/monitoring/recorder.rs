//! What counts: a Prometheus recorder with the buckets of [`names`].

use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use pliant_telemetry::names::{self, Kind};

/// Why numbers cannot be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MetricsError {
    /// Another recorder counts for this process.
    #[error("expected to count the metrics of this process, found another recorder")]
    Taken,
}

/// A recorder that knows every metric of [`names`]: its unit, its help, and its buckets if it is a histogram.
pub fn recorder() -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new();
    for metric in names::ALL {
        if let Kind::Histogram(buckets) = metric.kind {
            builder = builder
                .set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)
                .expect("buckets are constants, and a test sees that none are empty");
        }
    }
    let recorder = builder.build_recorder();
    metrics::with_local_recorder(&recorder, names::describe);
    recorder
}

/// Counts for this process from now on; until then nothing is counted and counting costs next to nothing. Called
/// again it gives the same numbers, which the daemons of one process thus share.
///
/// Samples of histograms pile up until they are read, so a daemon that installs it must serve ([`super::serve_http`]) or
/// call the handle's `run_upkeep` every few seconds.
///
/// # Errors
///
/// If another recorder counts for this process.
pub fn install_metrics() -> Result<PrometheusHandle, MetricsError> {
    static INSTALLED: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    let install = || {
        let recorder = recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).ok().map(|()| handle)
    };
    INSTALLED.get_or_init(install).clone().ok_or(MetricsError::Taken)
}
