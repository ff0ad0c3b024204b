//! Optional requests that wait until servers have answered the mandatory ones.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::Name;
use pliant_wire::Call;
use tokio::sync::mpsc::UnboundedSender;

use super::connection::ServerCommand;

/// The longest wait: a server may be unreachable.
const HELD: Duration = Duration::from_secs(1);

/// A waiting request, with its server and the connection to it.
struct WaitingRequest {
    server: Name,
    call: Call,
    line: UnboundedSender<ServerCommand>,
}

/// The requests that wait. They are sent in time even if the client polls nothing.
#[derive(Default)]
pub(super) struct WaitingRequests(Arc<Mutex<Vec<WaitingRequest>>>);

impl WaitingRequests {
    /// Adds a request.
    pub(super) fn hold(&self, server: Name, call: Call, line: UnboundedSender<ServerCommand>) {
        let mut held = self.0.lock();
        held.push(WaitingRequest { server, call, line });
        if held.len() > 1 {
            return;
        }
        // Requests that are added later leave a little early.
        let waiting = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(HELD).await;
            if let Some(waiting) = waiting.upgrade() {
                release(&waiting);
            }
        });
    }

    /// Sends all requests.
    pub(super) fn release(&self) {
        release(&self.0);
    }

    /// Removes a request; true if it waited.
    pub(super) fn forget(&self, server: &Name, number: u32) -> bool {
        self.forget_if(|waits| waits.server == *server && waits.call.number == number)
    }

    /// Removes all requests to a server.
    pub(super) fn forget_all(&self, server: &Name) {
        self.forget_if(|waits| waits.server == *server);
    }

    fn forget_if(&self, forgets: impl Fn(&WaitingRequest) -> bool) -> bool {
        let mut held = self.0.lock();
        let before = held.len();
        held.retain(|waits| !forgets(waits));
        held.len() < before
    }
}

fn release(held: &Mutex<Vec<WaitingRequest>>) {
    for WaitingRequest { call, line, .. } in held.lock().drain(..) {
        // The connection ends with its client.
        let _ = line.send(ServerCommand::Call(call));
    }
}
