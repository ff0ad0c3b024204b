//! All connections of a daemon, as tonic takes them. No client can keep another one waiting: handshakes go on side
//! by side, the oldest gives way when there are too many, and a peer has a bounded share of the open connections.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_telemetry::{LineLimit, names};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_rustls::server::TlsStream;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Interceptor;
use tonic::transport::server::Connected;
use tonic::{Request, Status};

use super::accept::{Acceptor, ConnectionRefusal};
use super::peer::Peer;
use super::role::Role;
use super::tls::ServerTls;

/// How many connections a daemon takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How many handshakes are open at a time, at least 1; a new one ends the oldest.
    pub handshakes_max: usize,
    /// How many connections are open at a time.
    pub connections_max: usize,
    /// How many of them one peer has.
    pub connections_per_peer_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            handshake: Duration::from_secs(10),
            handshakes_max: 256,
            connections_max: 4_096,
            connections_per_peer_max: 256,
        }
    }
}

/// The caller of a request, with its address. In the extensions of every request that came over a [`Connection`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The identity in the certificate.
    pub peer: Peer,
    /// From where.
    pub address: SocketAddr,
}

/// An open connection of a known peer.
pub struct Connection {
    stream: TlsStream<TcpStream>,
    caller: Caller,
    _slot: ConnectionSlot,
}

/// The connections that arrive at a listener, until the stream is dropped, which closes the listener. Refusals are
/// logged with their reason, as many as [`LineLimit`] admits, and do not show in the stream. Runs on the present tokio runtime.
pub fn incoming(
    listener: TcpListener,
    tls: Arc<ServerTls>,
    limits: Limits,
) -> impl Stream<Item = io::Result<Connection>> + Send + Unpin + 'static {
    let (sender, receiver) = mpsc::channel(16);
    let acceptor = Acceptor::new(tls, limits.handshake);
    let slots = Arc::new(ConnectionCounts { limits, taken: Mutex::default() });
    let (under_way, lines) = (VecDeque::new(), LineLimit::new());
    tokio::spawn(Arrivals { acceptor, limits, slots, sender, under_way, lines }.take(listener));
    ReceiverStream::new(receiver)
}

/// Refuses requests over connections whose certificate has been revoked, or has expired, since they were opened.
pub fn guard(tls: Arc<ServerTls>) -> impl Interceptor + Clone + Send + Sync + 'static {
    let lines = Arc::new(LineLimit::new());
    move |request: Request<()>| {
        let caller = request.extensions().get::<Caller>();
        let caller = caller
            .ok_or_else(|| Status::unauthenticated("expected a caller with a certificate, found none"))?;
        if let Err(lapsed) = tls.check(&caller.peer) {
            if let Some(left_out) = lines.admit(&caller.peer.to_string(), Instant::now()) {
                tracing::warn!(remote = %caller.address, reason = %lapsed, left_out, "request refused");
            }
            return Err(Status::unauthenticated(lapsed.to_string()));
        }
        Ok(request)
    }
}

impl Connection {
    /// The peer.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Connected for Connection {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

type Handshake = Result<(TlsStream<TcpStream>, Peer), ConnectionRefusal>;

struct Arrivals {
    acceptor: Acceptor,
    limits: Limits,
    slots: Arc<ConnectionCounts>,
    sender: mpsc::Sender<io::Result<Connection>>,
    /// The handshakes that go on, oldest first.
    under_way: VecDeque<(Id, SocketAddr, AbortHandle)>,
    /// Which refusals are logged, by address.
    lines: LineLimit,
}

impl Arrivals {
    /// How long to wait before the next try when the system refuses to accept (out of file descriptors).
    const PAUSE: Duration = Duration::from_millis(100);

    async fn take(mut self, listener: TcpListener) {
        let mut handshakes: JoinSet<Handshake> = JoinSet::new();
        loop {
            tokio::select! {
                () = self.sender.closed() => return,
                Some(ended) = handshakes.join_next_with_id() => self.ended(ended).await,
                accepted = listener.accept() => match accepted {
                    Ok((socket, address)) => self.begin(&mut handshakes, socket, address).await,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept connections");
                        tokio::time::sleep(Self::PAUSE).await;
                    }
                },
            }
        }
    }

    async fn begin(&mut self, handshakes: &mut JoinSet<Handshake>, socket: TcpStream, address: SocketAddr) {
        while handshakes.len() >= self.limits.handshakes_max.max(1) {
            if let Some((_, _, oldest)) = self.under_way.front() {
                oldest.abort();
            }
            if let Some(ended) = handshakes.join_next_with_id().await {
                self.ended(ended).await;
            }
        }
        // Requests and answers are small; waiting to fill segments would only delay them.
        if let Err(error) = socket.set_nodelay(true) {
            tracing::debug!(remote = %address, %error, "cannot send small segments at once");
        }
        let acceptor = self.acceptor.clone();
        let handle = handshakes.spawn(async move { acceptor.accept(socket).await });
        self.under_way.push_back((handle.id(), address, handle));
    }

    async fn ended(&mut self, ended: Result<(Id, Handshake), JoinError>) {
        let (id, handshake) = match ended {
            Ok((id, handshake)) => (id, handshake),
            // Given up in `begin`, the only code where a handshake is ended from outside.
            Err(error) => {
                (error.id(), Err(ConnectionRefusal::HandshakeLimit { limit: self.limits.handshakes_max }))
            }
        };
        let Some(position) = self.under_way.iter().position(|(one, ..)| *one == id) else { return };
        let Some((_, address, _)) = self.under_way.remove(position) else { return };
        let opened = handshake.and_then(|(stream, peer)| {
            let slot = ConnectionCounts::take(&self.slots, &peer)?;
            Ok(Connection { stream, caller: Caller { peer, address }, _slot: slot })
        });
        match opened {
            // Only a dropped stream fails this, and the loop sees it next.
            Ok(connection) => drop(self.sender.send(Ok(connection)).await),
            Err(refused) => {
                metrics::counter!(names::CONNECTIONS_REFUSED, "reason" => refused.word()).increment(1);
                if let Some(left_out) = self.lines.admit(&address.ip().to_string(), Instant::now()) {
                    tracing::warn!(remote = %address, reason = %refused, left_out, "connection refused");
                }
            }
        }
    }
}

/// The open connections, counted by peer.
struct ConnectionCounts {
    limits: Limits,
    taken: Mutex<BTreeMap<(Role, String), usize>>,
}

/// A counted connection; dropping it decreases the count.
struct ConnectionSlot {
    slots: Arc<ConnectionCounts>,
    holder: (Role, String),
}

impl ConnectionCounts {
    fn take(slots: &Arc<ConnectionCounts>, peer: &Peer) -> Result<ConnectionSlot, ConnectionRefusal> {
        let Limits { connections_max, connections_per_peer_max, .. } = slots.limits;
        let holder = (peer.role, peer.name.clone());
        let mut taken = slots.taken.lock();
        if taken.values().sum::<usize>() >= connections_max {
            return Err(ConnectionRefusal::ConnectionLimit { limit: connections_max });
        }
        if taken.get(&holder).is_some_and(|count| *count >= connections_per_peer_max) {
            return Err(ConnectionRefusal::PeerLimit { peer: peer.clone(), limit: connections_per_peer_max });
        }
        *taken.entry(holder.clone()).or_default() += 1;
        metrics::gauge!(names::OPEN_CONNECTIONS).increment(1.0);
        Ok(ConnectionSlot { slots: slots.clone(), holder })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        metrics::gauge!(names::OPEN_CONNECTIONS).decrement(1.0);
        let mut taken = self.slots.taken.lock();
        if let Some(count) = taken.get_mut(&self.holder) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.holder);
            }
        }
    }
}
