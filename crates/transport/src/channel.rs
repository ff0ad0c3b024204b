//! Connections to daemons: made when first needed, made again when lost, bound to a role and a name.
//!
//! A connection counts as made once the daemon's first bytes have come: in TLS 1.3 a client ends its handshake
//! before the daemon has judged its certificate, so only then is it known that nothing was refused. A call that
//! fails with a [`ConnectError`] was never sent, and may be made again without a thought; [`not_sent`] finds it.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::AlertDescription;
use rustls::pki_types::ServerName;
use tokio::io::AsyncBufReadExt;
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower::Service;

use super::checked_connection::CheckedConnection;
use super::credentials::TlsError;
use super::peer::{IdentityError, Peer};
use super::role::Identity;
use super::tls::ClientTls;

/// How long a connection may be silent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From the first packet until the daemon has accepted our certificate.
    pub connect: Duration,
    /// The silence after which a keep-alive packet is sent.
    pub keep_alive_every: Duration,
    /// The timeout of its answer.
    pub keep_alive_answer: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(5),
            keep_alive_every: Duration::from_secs(10),
            keep_alive_answer: Duration::from_secs(10),
        }
    }
}

/// A connection that could not be made. Nothing was sent over it.
#[derive(Debug)]
pub struct ConnectError {
    /// The address.
    pub address: String,
    /// The expected daemon.
    pub expected: Identity,
    /// Why not.
    pub reason: ConnectReason,
}

/// Why a connection could not be made.
#[derive(Debug)]
pub enum ConnectReason {
    /// The address cannot be resolved or reached.
    Unreachable(io::Error),
    /// It took too long.
    Timeout {
        /// How long it may take.
        limit: Duration,
    },
    /// The peer is not the expected daemon, or uses another protocol.
    Untrusted(io::Error),
    /// The daemon refused us.
    ConnectionRefusal(io::Error),
    /// The daemon's certificate says that it is another one.
    Identity(IdentityError),
    /// The daemon is another one.
    Other {
        /// The peer.
        found: Peer,
    },
    /// Our own files cannot be used.
    Own(TlsError),
}

/// A channel to the daemon of that role and name at `address` (`host:port`). Connects with the first call.
pub fn channel(address: &str, expected: &Identity, tls: Arc<ClientTls>, timeouts: &Timeouts) -> Channel {
    channel_from(None, address, expected, tls, timeouts)
}

/// The same, with connections that begin at an address of this machine, where the daemon has one of that kind.
pub fn channel_from(
    from: Option<IpAddr>,
    address: &str,
    expected: &Identity,
    tls: Arc<ClientTls>,
    timeouts: &Timeouts,
) -> Channel {
    let (address, expected, limit) = (address.to_owned(), expected.clone(), timeouts.connect);
    let connector = Connector { from, address, expected: expected.clone(), tls, limit };
    // A checked name has only characters that a URI's host may have.
    let origin: Uri = Uri::builder()
        .scheme("https")
        .authority(expected.domain())
        .path_and_query("/")
        .build()
        .expect("the domain of an identity is a host");
    Endpoint::from(origin)
        .http2_keep_alive_interval(timeouts.keep_alive_every)
        .keep_alive_timeout(timeouts.keep_alive_answer)
        .keep_alive_while_idle(true)
        .connect_with_connector_lazy(connector)
}

/// The reason why a call was never sent. `None`: it may have been, and may have been done.
pub fn not_sent<'a>(failure: &'a (dyn Error + 'static)) -> Option<&'a ConnectError> {
    let mut link = Some(failure);
    while let Some(error) = link {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        link = error.source();
    }
    None
}

impl ConnectError {
    /// Whether it is our own certificate with which something is wrong.
    pub fn is_about_us(&self) -> bool {
        matches!(self.reason, ConnectReason::ConnectionRefusal(_) | ConnectReason::Own(_))
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match &self.reason {
            ConnectReason::Unreachable(_) | ConnectReason::Timeout { .. } => {
                Some("check the address, and that the daemon runs")
            }
            ConnectReason::Untrusted(_) | ConnectReason::Identity(_) | ConnectReason::Other { .. } => {
                Some("check the address and the name, and that ca.pem is of the same federation")
            }
            ConnectReason::ConnectionRefusal(source) => match alert(source)? {
                AlertDescription::CertificateExpired | AlertDescription::CertificateRevoked => {
                    Some("ask an operator for a new certificate")
                }
                AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                    Some("use a certificate of the daemon's federation")
                }
                _ => None,
            },
            ConnectReason::Own(error) => error.hint(),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectError { address, expected, reason } = self;
        write!(f, "cannot connect to {expected} at {}: ", address.escape_debug())?;
        match reason {
            ConnectReason::Unreachable(source) => write!(f, "{source}"),
            ConnectReason::Timeout { limit } => write!(f, "no answer within {} s", limit.as_secs_f64()),
            ConnectReason::Untrusted(source) => write!(f, "it cannot prove who it is: {source}"),
            ConnectReason::ConnectionRefusal(source) => match alert(source) {
                Some(AlertDescription::CertificateExpired) => write!(f, "our certificate has expired"),
                Some(AlertDescription::CertificateRevoked) => write!(f, "our certificate has been revoked"),
                Some(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
                    write!(f, "our certificate is of another authority")
                }
                _ => write!(f, "the daemon refused us: {source}"),
            },
            ConnectReason::Identity(source) => write!(f, "{source}"),
            ConnectReason::Other { found } => write!(f, "expected {expected}, found {found}"),
            ConnectReason::Own(source) => write!(f, "{source}"),
        }
    }
}

impl Error for ConnectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.reason {
            ConnectReason::Unreachable(source)
            | ConnectReason::Untrusted(source)
            | ConnectReason::ConnectionRefusal(source) => Some(source),
            ConnectReason::Identity(source) => Some(source),
            ConnectReason::Own(source) => Some(source),
            ConnectReason::Timeout { .. } | ConnectReason::Other { .. } => None,
        }
    }
}

/// The alert that the other side sent, if that is what failed.
fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

#[derive(Clone)]
struct Connector {
    from: Option<IpAddr>,
    address: String,
    expected: Identity,
    tls: Arc<ClientTls>,
    limit: Duration,
}

type Connecting = Pin<Box<dyn Future<Output = Result<TokioIo<CheckedConnection>, ConnectError>> + Send>>;

impl Service<Uri> for Connector {
    type Response = TokioIo<CheckedConnection>;
    type Error = ConnectError;
    type Future = Connecting;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Connecting {
        let connector = self.clone();
        Box::pin(async move {
            let turn = connector.tls.turn().await;
            let made = match tokio::time::timeout(connector.limit, connector.connect()).await {
                Ok(made) => made,
                Err(_) => Err(ConnectReason::Timeout { limit: connector.limit }),
            };
            drop(turn);
            let Connector { address, expected, .. } = connector;
            made.map(TokioIo::new).map_err(|reason| ConnectError { address, expected, reason })
        })
    }
}

impl Connector {
    async fn socket(&self) -> io::Result<TcpStream> {
        let Some(from) = self.from else { return TcpStream::connect(&self.address).await };
        let found = lookup_host(&self.address).await?;
        let Some(to) = found.into_iter().find(|to| to.is_ipv4() == from.is_ipv4()) else {
            return TcpStream::connect(&self.address).await;
        };
        let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.bind(SocketAddr::new(from, 0))?;
        socket.connect(to).await
    }

    async fn connect(&self) -> Result<CheckedConnection, ConnectReason> {
        // If it is replaced between the two lines, the connection ends early rather than late.
        let own = self.tls.own();
        let config = self.tls.config().map_err(ConnectReason::Own)?;
        let socket = self.socket().await.map_err(ConnectReason::Unreachable)?;
        socket.set_nodelay(true).map_err(ConnectReason::Unreachable)?;
        let untrusted = |error| ConnectReason::Untrusted(error);
        let domain = ServerName::try_from(self.expected.domain())
            .map_err(|error| untrusted(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let handshake = TlsConnector::from(config).connect(domain, socket).await;
        let mut stream = handshake.map_err(|error| match alert(&error) {
            Some(_) => ConnectReason::ConnectionRefusal(error),
            None => ConnectReason::Untrusted(error),
        })?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let found = certificate.ok_or(IdentityError::Absent).and_then(Peer::from_certificate);
        let found = found.map_err(ConnectReason::Identity)?;
        if !found.is(&self.expected) {
            return Err(ConnectReason::Other { found });
        }
        // Looks at the first bytes without taking them: an HTTP/2 server speaks first, once it has accepted us.
        match stream.fill_buf().await {
            Ok([]) => Err(ConnectReason::ConnectionRefusal(io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(CheckedConnection::new(stream, self.tls.clone(), own, found)),
            Err(error) => Err(ConnectReason::ConnectionRefusal(error)),
        }
    }
}
