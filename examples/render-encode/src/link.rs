//! Messages between neighbours over TCP: a number and a body, each with its length. A stream ends between two messages.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::Failure;

/// How long a neighbour may take until it listens: all tasks of an application are started together.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The longest body, in bytes.
const BODY_MAX: u32 = 1 << 30;
/// What a receiver says when it wants the next message of somebody who waits for that.
const READY: u8 = b'+';

/// A numbered piece of the film.
pub(crate) struct Message {
    pub(crate) number: u32,
    pub(crate) body: Vec<u8>,
}

/// The way to a neighbour.
pub(crate) struct Outgoing {
    name: String,
    stream: BufWriter<TcpStream>,
}

impl Outgoing {
    /// Connects to a neighbour as soon as it listens, from the address `own` on which this task listens itself: a machine may be in
    /// several networks.
    pub(crate) fn connect(name: &str, own: &str, address: &str) -> Result<Outgoing, Failure> {
        let begun = Instant::now();
        loop {
            match connect_from(own, address) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Outgoing { name: name.to_owned(), stream: BufWriter::new(stream) });
                }
                Err(error) if begun.elapsed() > TIMEOUT => {
                    return Err(format!("{name} does not listen at {address}: {error}").into());
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), Failure> {
        let length = u32::try_from(message.body.len()).ok().filter(|length| *length <= BODY_MAX);
        let length = length.ok_or_else(|| format!("a body of {} bytes is too long", message.body.len()))?;
        let mut write = || {
            self.stream.write_all(&message.number.to_be_bytes())?;
            self.stream.write_all(&length.to_be_bytes())?;
            self.stream.write_all(&message.body)?;
            self.stream.flush()
        };
        write().map_err(|error| format!("{} takes no more: {error}", self.name).into())
    }

    /// Says that there will be no more.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        let end = self.stream.get_ref().shutdown(Shutdown::Write);
        end.map_err(|error| format!("{} takes no more: {error}", self.name).into())
    }

    /// What the neighbour says of when it wants the next one.
    pub(crate) fn wants(&self) -> Result<Wants, Failure> {
        Ok(Wants { name: self.name.clone(), stream: self.stream.get_ref().try_clone()? })
    }
}

/// A connection from the host of `own`; from any if that is a name, or no address in particular.
fn connect_from(own: &str, address: &str) -> io::Result<TcpStream> {
    let own = own.parse().ok().map(|own: SocketAddr| own.ip()).filter(|own| !own.is_unspecified());
    let to = address.to_socket_addrs()?.find(|to| own.is_none_or(|own| own.is_ipv4() == to.is_ipv4()));
    let (Some(own), Some(to)) = (own, to) else { return TcpStream::connect(address) };
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddr::new(own, 0))?;
    rustix::net::connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

/// When a neighbour wants the next message.
pub(crate) struct Wants {
    name: String,
    stream: TcpStream,
}

impl Wants {
    /// Waits until it does; none if it never will, since it has ended.
    pub(crate) fn next(&mut self) -> Result<Option<()>, Failure> {
        let mut byte = [0];
        let read = self.stream.read(&mut byte).map_err(|error| format!("{} is gone: {error}", self.name))?;
        match byte[0] {
            _ if read == 0 => Ok(None),
            READY => Ok(Some(())),
            other => {
                Err(format!("expected {} to say that it is ready, found byte {other}", self.name).into())
            }
        }
    }
}

/// The way from a neighbour.
pub(crate) struct Incoming {
    stream: BufReader<TcpStream>,
}

/// Listens, and takes as many neighbours as will come.
pub(crate) fn accept(address: &str, count: usize) -> Result<Vec<Incoming>, Failure> {
    let listener =
        TcpListener::bind(address).map_err(|error| format!("cannot listen at {address}: {error}"))?;
    let accept = |_| {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        Ok(Incoming { stream: BufReader::new(stream) })
    };
    (0..count).map(accept).collect()
}

impl Incoming {
    /// The next message; none once the neighbour has said all.
    pub(crate) fn receive(&mut self) -> Result<Option<Message>, Failure> {
        let mut head = [0; 8];
        // An end is one only before the first byte.
        if self.stream.read(&mut head[..1])? == 0 {
            return Ok(None);
        }
        self.stream.read_exact(&mut head[1..])?;
        let [a, b, c, d, e, f, g, h] = head;
        let (number, length) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        if length > BODY_MAX {
            return Err(format!("expected a body of at most {BODY_MAX} bytes, found one of {length}").into());
        }
        let mut body = Vec::new();
        let read = (&mut self.stream).take(u64::from(length)).read_to_end(&mut body)?;
        if read < length as usize {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(Some(Message { number, body }))
    }

    /// Says that the next one may come, to a neighbour that waits for that.
    pub(crate) fn ready(&mut self) -> Result<(), Failure> {
        Ok(self.stream.get_mut().write_all(&[READY])?)
    }
}
