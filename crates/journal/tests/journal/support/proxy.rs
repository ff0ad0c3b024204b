//! A door between a journal and its database that breaks when it is told to.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// When the door breaks: at a `COMMIT`, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Breaks {
    /// Before the database hears of it.
    Before,
    /// After the database has done it, before the journal hears of that.
    After,
}

const WHOLE: u8 = 0;
const BEFORE: u8 = 1;
const AFTER: u8 = 2;

/// A door at a port of this machine. Its threads end with the connections.
pub(crate) struct Door {
    port: u16,
    state: Arc<AtomicU8>,
}

impl Door {
    /// Opens one to a socket.
    pub(crate) fn open(socket: PathBuf) -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(AtomicU8::new(WHOLE));
        let shared = state.clone();
        std::thread::spawn(move || {
            for outside in listener.incoming() {
                let (socket, state) = (socket.clone(), shared.clone());
                // Broken on purpose: that a connection ends is what is tested.
                std::thread::spawn(move || drop(outside.and_then(|outside| pass(outside, &socket, &state))));
            }
        });
        Door { port, state }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Breaks at the next `COMMIT`.
    pub(crate) fn will_break(&self, when: Breaks) {
        self.state.store(if when == Breaks::Before { BEFORE } else { AFTER }, Ordering::SeqCst);
    }

    /// True if it has not broken since it was told to.
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
            let told = &buffer[..length];
            let commits = told.windows(6).any(|word| word == b"COMMIT");
            let breaks = if commits { state.swap(WHOLE, Ordering::SeqCst) } else { WHOLE };
            if breaks == AFTER {
                // Nothing goes back any more; when the database hangs up, it has done what it was told.
                outside.shutdown(Shutdown::Both)?;
                inside.write_all(told)?;
            }
            if length == 0 || breaks != WHOLE {
                // To one side: the database still does what came before.
                let _ = inside.shutdown(Shutdown::Write);
                let _ = outside.shutdown(Shutdown::Both);
                return Ok(());
            }
            inside.write_all(told)?;
        }
    })
}
