//! The HTTP pages of a daemon.

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::DaemonError;
use crate::config::HttpFile;
use crate::monitoring::{Readiness, bind_http, install_metrics, serve_http};

/// Serves metrics and health, if the file says where, until `stop` says so.
pub(crate) async fn listen_pages(
    http: Option<&HttpFile>,
    mut stop: watch::Receiver<bool>,
    ready: impl Fn() -> Readiness + Send + Sync + 'static,
) -> Result<Option<JoinHandle<()>>, DaemonError> {
    let Some(http) = http else { return Ok(None) };
    let metrics = install_metrics()?;
    let listener = bind_http(http.listen).await?;
    let stopped = async move {
        // A daemon whose end nobody can tell any more has ended.
        let _ = stop.wait_for(|stop| *stop).await;
    };
    Ok(Some(tokio::spawn(serve_http(listener, metrics, ready, stopped))))
}
