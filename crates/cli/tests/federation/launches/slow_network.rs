//! A door in front of a server that lets little through: so much per second, each way.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What is let through at a time, in bytes.
const PIECE: usize = 4 << 10;

/// A door at a port of this machine. Its threads end with the connections.
pub(super) struct SlowNetwork {
    pub(super) address: String,
    inside: Arc<OnceLock<String>>,
}

impl SlowNetwork {
    /// One that lets so many Mb/s through, and leads nowhere yet.
    pub(super) fn open(mbps: f64) -> SlowNetwork {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let inside = Arc::new(OnceLock::<String>::new());
        let there = inside.clone();
        std::thread::spawn(move || {
            for outside in listener.incoming().flatten() {
                let Some(inside) = there.get().and_then(|address| TcpStream::connect(address).ok()) else {
                    continue;
                };
                let (Ok(back), Ok(answers)) = (outside.try_clone(), inside.try_clone()) else { continue };
                std::thread::spawn(move || pass(outside, inside, mbps));
                std::thread::spawn(move || pass(answers, back, mbps));
            }
        });
        SlowNetwork { address, inside }
    }

    /// It leads there.
    pub(super) fn leads_to(&self, address: &str) {
        self.inside.set(address.to_owned()).unwrap();
    }
}

/// Lets bytes through, until one of both ends is gone.
fn pass(mut from: TcpStream, mut to: TcpStream, mbps: f64) {
    let mut piece = [0; PIECE];
    while let Ok(length @ 1..) = from.read(&mut piece) {
        std::thread::sleep(Duration::from_secs_f64(8.0 * length as f64 / (mbps * 1e6)));
        if to.write_all(&piece[..length]).is_err() {
            break;
        }
    }
    // Whatever failed, the other end is to hear that there is no more.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
