//! How daemons take calls.

use std::time::Duration;

use tonic::transport::Server;
use tonic::transport::server::Router;
use tower::layer::util::{Identity, Stack};

use crate::gate::ArrivalLayer;

/// Calls over one connection at a time; a client's next ones wait until one has ended.
const CALLS_MAX: u32 = 128;
/// Bytes under way over one connection: four times what one call may have. HTTP/2 takes more than half of this in
/// overheads of small frames for an attack, and a child with status updates that waits for our journal must not be taken for one.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// How long the message of a call may take to arrive: enough for the largest one over a slow connection.
const MESSAGE_WITHIN: Duration = Duration::from_secs(30);
/// How long a caller may take nothing of an answer that is ready, as for a download.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// After how much silence a client is asked whether it is there, and how long it may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// What can be called at a daemon.
pub(crate) type Routes = Router<Stack<ArrivalLayer, Identity>>;

/// Takes calls, and ends connections whose other end has gone.
pub(crate) fn transport() -> Server<Stack<ArrivalLayer, Identity>> {
    Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .max_concurrent_streams(CALLS_MAX)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .layer(ArrivalLayer::new(MESSAGE_WITHIN, ANSWER_WITHIN))
}
