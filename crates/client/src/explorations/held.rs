//! Optional requests that wait until servers have answered the mandatory ones, which so go first.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::Name;
use pliant_wire::Call;
use tokio::sync::mpsc::UnboundedSender;

use super::line::Order;

/// How long they wait at most: a server may be out of reach.
const HELD: Duration = Duration::from_secs(1);

/// A request, where it is to go, and its line.
struct Waits {
    server: Name,
    call: Call,
    line: UnboundedSender<Order>,
}

/// The requests that wait. They leave in time whether or not their client looks.
#[derive(Default)]
pub(super) struct WaitingRequests(Arc<Mutex<Vec<Waits>>>);

impl WaitingRequests {
    /// A request begins to wait.
    pub(super) fn hold(&self, server: Name, call: Call, line: UnboundedSender<Order>) {
        let mut held = self.0.lock();
        held.push(Waits { server, call, line });
        if held.len() > 1 {
            return;
        }
        // What is given up in between is called no more, and what began to wait after it leaves a little early.
        let waiting = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(HELD).await;
            if let Some(waiting) = waiting.upgrade() {
                release(&waiting);
            }
        });
    }

    /// All leave.
    pub(super) fn release(&self) {
        release(&self.0);
    }

    /// Takes a request back; true if it waited.
    pub(super) fn forget(&self, server: &Name, number: u32) -> bool {
        self.forget_if(|waits| waits.server == *server && waits.call.number == number)
    }

    /// Takes all requests back that are to go to a server.
    pub(super) fn forget_all(&self, server: &Name) {
        self.forget_if(|waits| waits.server == *server);
    }

    fn forget_if(&self, forgets: impl Fn(&Waits) -> bool) -> bool {
        let mut held = self.0.lock();
        let before = held.len();
        held.retain(|waits| !forgets(waits));
        held.len() < before
    }
}

fn release(held: &Mutex<Vec<Waits>>) {
    for Waits { call, line, .. } in held.lock().drain(..) {
        // A line ends with the client that gives it orders.
        let _ = line.send(Order::Call(call));
    }
}
