//! Accepts a connection: the handshake, and the identity of the peer.

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

/// Why a connection was refused.
#[derive(Debug)]
pub enum ConnectionRefusal {
    /// The handshake did not end in time.
    Timeout {
        /// How long it may take.
        limit: Duration,
    },
    /// The handshake failed: no TLS 1.3, or no valid certificate.
    Handshake(io::Error),
    /// The peer does not speak HTTP/2.
    Protocol,
    /// The peer's certificate has no identity of a federation.
    Identity(IdentityError),
    /// Too many handshakes were open, and this one was the oldest.
    HandshakeLimit {
        /// How many handshakes may go on at a time.
        limit: usize,
    },
    /// The daemon has the largest number of connections.
    ConnectionLimit {
        /// How many.
        limit: usize,
    },
    /// The peer has the largest number of connections.
    PeerLimit {
        /// Who.
        peer: Peer,
        /// How many.
        limit: usize,
    },
    /// The daemon's own files cannot be used.
    Own(TlsError),
}

impl ConnectionRefusal {
    /// The stable word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Timeout { .. } => "timeout",
            Self::Handshake(_) => "handshake",
            Self::Protocol => "protocol",
            Self::Identity(_) => "identity",
            Self::HandshakeLimit { .. } => "handshake-limit",
            Self::ConnectionLimit { .. } => "connection-limit",
            Self::PeerLimit { .. } => "peer-limit",
            Self::Own(_) => "own-files",
        }
    }
}

impl fmt::Display for ConnectionRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { limit } => {
                write!(f, "the handshake did not end within {} s", limit.as_secs_f64())
            }
            Self::Handshake(source) => write!(f, "the handshake failed: {source}"),
            Self::Protocol => write!(f, "expected HTTP/2, found another protocol"),
            Self::Identity(source) => write!(f, "{source}"),
            Self::HandshakeLimit { limit } => {
                write!(f, "more than {limit} handshakes at a time, and this one was the oldest")
            }
            Self::ConnectionLimit { limit } => write!(f, "all {limit} connections are in use"),
            Self::PeerLimit { peer, limit } => write!(f, "{peer} has {limit} connections already"),
            Self::Own(source) => write!(f, "{source}"),
        }
    }
}

impl std::error::Error for ConnectionRefusal {
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
    pub async fn accept(&self, socket: TcpStream) -> Result<(TlsStream<TcpStream>, Peer), ConnectionRefusal> {
        let config = self.tls.config().map_err(ConnectionRefusal::Own)?;
        let handshake = TlsAcceptor::from(config).accept(socket);
        let stream = match tokio::time::timeout(self.handshake, handshake).await {
            Ok(done) => done.map_err(ConnectionRefusal::Handshake)?,
            Err(_) => return Err(ConnectionRefusal::Timeout { limit: self.handshake }),
        };
        let (_, session) = stream.get_ref();
        if session.alpn_protocol() != Some(PROTOCOL) {
            return Err(ConnectionRefusal::Protocol);
        }
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let peer = certificate.ok_or(IdentityError::Absent).and_then(Peer::from_certificate);
        let peer = peer.map_err(ConnectionRefusal::Identity)?;
        Ok((stream, peer))
    }
}
