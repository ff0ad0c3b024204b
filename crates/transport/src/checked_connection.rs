//! A connection that ends when the certificate of the daemon is not valid any more. A handshake checks it once, and connections
//! stay open for weeks.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::peer::Peer;
use super::tls::ClientTls;

/// How often the certificate is checked. Keep-alive packets cause reads on silent connections.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// A connection to a daemon.
pub(super) struct CheckedConnection {
    stream: TlsStream<TcpStream>,
    tls: Arc<ClientTls>,
    daemon: Peer,
    /// The time of the last check.
    checked: Instant,
}

impl CheckedConnection {
    /// A connection whose handshake has just shown that certificate.
    pub(super) fn new(stream: TlsStream<TcpStream>, tls: Arc<ClientTls>, daemon: Peer) -> CheckedConnection {
        CheckedConnection { stream, tls, daemon, checked: Instant::now() }
    }

    fn check(&mut self) -> io::Result<()> {
        if self.checked.elapsed() < CHECK_EVERY {
            return Ok(());
        }
        // A lapsed certificate stays so: the next check finds the same.
        self.tls.check(&self.daemon).map_err(|lapsed| {
            tracing::warn!(daemon = %self.daemon, reason = %lapsed, "connection given up");
            io::Error::new(io::ErrorKind::ConnectionAborted, lapsed)
        })?;
        self.checked = Instant::now();
        Ok(())
    }
}

impl AsyncRead for CheckedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CheckedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
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
