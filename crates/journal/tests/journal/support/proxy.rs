//! A proxy between a journal and its database that breaks the connection at a commit.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The moment at which the proxy breaks the connection, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BreakAt {
    /// Before the database receives the `COMMIT`.
    Before,
    /// After the database has executed the `COMMIT`, before the journal receives the answer.
    After,
}

const WHOLE: u8 = 0;
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

/// A proxy on a local port. Its threads end with the connections.
pub(crate) struct BreakingProxy {
    port: u16,
    state: Arc<AtomicU8>,
}

impl BreakingProxy {
    /// Opens a proxy to a socket.
    pub(crate) fn open(socket: PathBuf) -> BreakingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(AtomicU8::new(WHOLE));
        let shared = state.clone();
        std::thread::spawn(move || {
            for outside in listener.incoming() {
                let (socket, state) = (socket.clone(), shared.clone());
                // Errors are expected: the test breaks connections.
                std::thread::spawn(move || drop(outside.and_then(|outside| pass(outside, &socket, &state))));
            }
        });
        BreakingProxy { port, state }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Breaks the connection at the next `COMMIT`.
    pub(crate) fn break_at_commit(&self, when: BreakAt) {
        self.state.store(if when == BreakAt::Before { BEFORE } else { AFTER }, Ordering::SeqCst);
    }

    /// True if the break is still to come.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.load(Ordering::SeqCst) != WHOLE
    }
}

fn pass(mut outside: TcpStream, socket: &Path, state: &AtomicU8) -> io::Result<()> {
    let mut inside = UnixStream::connect(socket)?;
    let (mut answers, mut back) = (inside.try_clone()?, outside.try_clone()?);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = io::copy(&mut answers, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = outside.read(&mut buffer).unwrap_or(0);
            let sent = &buffer[..length];
            let commits = sent.windows(6).any(|word| word == b"COMMIT");
            let breaks = if commits { state.swap(WHOLE, Ordering::SeqCst) } else { WHOLE };
            if breaks == AFTER {
                // Answers are dropped; the database closes the connection after it has executed the commit.
                outside.shutdown(Shutdown::Both)?;
                inside.write_all(sent)?;
            }
            if length == 0 || breaks != WHOLE {
                // The database still executes what was sent before.
                let _ = inside.shutdown(Shutdown::Write);
                let _ = outside.shutdown(Shutdown::Both);
                return Ok(());
            }
            inside.write_all(sent)?;
        }
    })
}
