//! The HTTP pages of a daemon.

use super::DaemonError;
use crate::config::HttpFile;
use crate::monitoring::{Readiness, bind_http, install_metrics, serve_http};

/// What serves metrics and health until `stopped`.
pub(super) async fn pages(
    http: &HttpFile,
    stopped: impl Future<Output = ()> + Send + 'static,
    ready: impl Fn() -> Readiness + Send + Sync + 'static,
) -> Result<impl Future<Output = ()> + Send + 'static, DaemonError> {
    let metrics = install_metrics()?;
    let listener = bind_http(http.listen).await?;
    Ok(serve_http(listener, metrics, ready, stopped))
}
