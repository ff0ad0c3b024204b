//! One connection accepted: the handshake, and who is at the other end.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::credentials::TlsError;
use super::peer::{IdentityError, Peer};
use super::tls::{PROTOCOL, ServerTls};

/// Makes accepted sockets into connections with a known peer.
#[derive(Clone)]
pub struct Acceptor {
    tls: Arc<ServerTls>,
    handshake: Duration,
}

/// A connection that was not taken.
#[derive(Debug)]
pub enum Refused {
    /// The handshake did not end in time.
    Slow {
        /// How long it may take.
        limit: Duration,
    },
    /// The handshake failed: no TLS 1.3, or no good certificate.
    Handshake(io::Error),
    /// The peer does not speak HTTP/2.
    Protocol,
    /// The peer's certificate is no participant's.
    Identity(IdentityError),
    /// Newer connections needed the place while the handshake went on.
    Crowded {
        /// How many handshakes may go on at a time.
        limit: usize,
    },
    /// The daemon has all the connections that it may have.
    Full {
        /// How many.
        limit: usize,
    },
    /// The peer has all the connections that it may have.
    Greedy {
        /// Who.
        peer: Peer,
        /// How many.
        limit: usize,
    },
    /// The daemon's own files cannot be used.
    Own(TlsError),
}

impl Refused {
    /// The stable word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Slow { .. } => "slow",
            Self::Handshake(_) => "handshake",
            Self::Protocol => "protocol",
            Self::Identity(_) => "identity",
            Self::Crowded { .. } => "crowded",
            Self::Full { .. } => "full",
            Self::Greedy { .. } => "greedy",
            Self::Own(_) => "own-files",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slow { limit } => write!(f, "the handshake did not end within {} s", limit.as_secs_f64()),
            Self::Handshake(source) => write!(f, "the handshake failed: {source}"),
            Self::Protocol => write!(f, "expected HTTP/2 to be asked for, found no such wish"),
            Self::Identity(source) => write!(f, "{source}"),
            Self::Crowded { limit } => {
                write!(f, "more than {limit} handshakes at a time, and this one was the oldest")
            }
            Self::Full { limit } => write!(f, "all {limit} connections are taken"),
            Self::Greedy { peer, limit } => write!(f, "{peer} has {limit} connections already"),
            Self::Own(source) => write!(f, "{source}"),
        }
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Handshake(source) => Some(source),
            Self::Identity(source) => Some(source),
            Self::Own(source) => Some(source),
            _ => None,
        }
    }
}

impl Acceptor {
    /// Handshakes that do not end within `handshake` are given up.
    pub fn new(tls: Arc<ServerTls>, handshake: Duration) -> Acceptor {
        Acceptor { tls, handshake }
    }

    /// Does the handshake. The revocation list is the one of this moment.
    pub async fn accept(&self, socket: TcpStream) -> Result<(TlsStream<TcpStream>, Peer), Refused> {
        let config = self.tls.config().map_err(Refused::Own)?;
        let handshake = TlsAcceptor::from(config).accept(socket);
        let stream = match tokio::time::timeout(self.handshake, handshake).await {
            Ok(done) => done.map_err(Refused::Handshake)?,
            Err(_) => return Err(Refused::Slow { limit: self.handshake }),
        };
        let (_, session) = stream.get_ref();
        if session.alpn_protocol() != Some(PROTOCOL) {
            return Err(Refused::Protocol);
        }
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let peer = certificate.ok_or(IdentityError::Absent).and_then(Peer::from_certificate);
        let peer = peer.map_err(Refused::Identity)?;
        Ok((stream, peer))
    }
}
