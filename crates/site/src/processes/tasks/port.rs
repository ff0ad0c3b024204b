//! The port of a task, which another process of the host may take in the moment before the task binds it.
//!
//! Other tasks would send that process their data. So the port is kept until right before the task starts, and from then on
//! looked at often, until the task listens there: a listener of another user ends the task, and with it the launch.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use tokio::net::TcpSocket;

use crate::processes::listeners::Listener;
use crate::processes::ports::{anywhere, bound, resolved};

/// How often a port is looked at until its task listens there, in the first minute and later.
const SOON: Duration = Duration::from_millis(50);
const LATER: Duration = Duration::from_secs(1);
const FIRST: Duration = Duration::from_secs(60);

/// The port of a task that does not listen yet.
pub(super) struct TaskPort {
    address: SocketAddr,
    kept: Option<TcpSocket>,
    /// Listeners that were there while the port was kept: they do not get what is sent to it.
    others: Vec<u64>,
    begin: Instant,
    look_at: Instant,
}

impl TaskPort {
    /// Keeps the port of an address, `host:port`, by which others reach this host.
    ///
    /// # Errors
    /// Another process has taken it, or the address is not known here.
    pub(super) fn keep(address: &str) -> io::Result<TaskPort> {
        let named = resolved(address)?;
        let (address, kept) = match bound(named) {
            // Others reach this host by an address that is translated on the way.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                (anywhere(named), bound(anywhere(named)))
            }
            kept => (named, kept),
        };
        let kept = kept.map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => io::Error::new(error.kind(), taken(address)),
            _ => error,
        })?;
        let others = Listener::all_at(address).unwrap_or_default().iter().map(|other| other.inode).collect();
        let now = Instant::now();
        Ok(TaskPort { address, kept: Some(kept), others, begin: now, look_at: now })
    }

    /// Lets go of it: its task takes it.
    pub(super) fn free(&mut self) {
        self.kept = None;
        (self.begin, self.look_at) = (Instant::now(), Instant::now());
    }

    /// Looks, if it is time to, who listens. None if it need not be looked at any more, since the task does, else in how much time to
    /// look again.
    ///
    /// # Errors
    /// A process of another user listens there.
    pub(super) fn look(&mut self, now: Instant) -> Result<Option<Duration>, String> {
        if now < self.look_at {
            return Ok(Some(self.look_at - now));
        }
        // Tables that cannot be read now are read the next time.
        let found = Listener::all_at(self.address).unwrap_or_default();
        let own = geteuid().as_raw();
        let mut listening = found.iter().filter(|found| !self.others.contains(&found.inode)).peekable();
        if listening.peek().is_some() {
            return if listening.all(|found| found.uid == own) { Ok(None) } else { Err(taken(self.address)) };
        }
        let period = if now.duration_since(self.begin) < FIRST { SOON } else { LATER };
        self.look_at = now + period;
        Ok(Some(period))
    }
}

fn taken(address: SocketAddr) -> String {
    format!("another process of this host has taken {address}, where it was to listen")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_port_is_kept_until_it_is_let_go_of_and_looked_at_until_its_task_listens() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut port = TaskPort::keep(&address.to_string()).unwrap();
        assert!(TcpListener::bind(address).is_err());
        assert!(TaskPort::keep(&address.to_string()).is_err());
        port.free();
        let soon = Instant::now() + SOON;
        assert_eq!(port.look(soon), Ok(Some(SOON)));
        let listener = TcpListener::bind(address).unwrap();
        // Not yet, then again.
        assert_eq!(port.look(soon), Ok(Some(SOON)));
        assert_eq!(port.look(soon + SOON), Ok(None));
        drop(listener);
        assert!(TaskPort::keep("no-such-host.invalid:1").is_err());
    }
}
