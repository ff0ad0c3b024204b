//! The threads that serve a daemon's connections.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// After how many tasks timers and sockets are looked at. A step of a handshake is a task of up to half a millisecond, and
/// hundreds may be ready when clients come together: with tokio's default of 61 the end of a request would be noticed
/// late by all of those before it.
const TASKS_BETWEEN_LOOKS: u32 = 8;

/// The runtime of a daemon.
///
/// # Errors
///
/// If the system has no threads left.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().event_interval(TASKS_BETWEEN_LOOKS).build()
}
