//! A connection that ends when the certificate of the daemon at its other end is good no longer: a handshake looks at
//! it once, and connections stay open for weeks.

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

/// How often the certificate is looked at. Keep-alive packets see to it that something is read, however silent the
/// calls are.
const LOOK: Duration = Duration::from_secs(1);

/// A connection to a daemon.
pub(super) struct Checked {
    stream: TlsStream<TcpStream>,
    tls: Arc<ClientTls>,
    daemon: Peer,
    /// When the certificate was looked at last.
    looked: Instant,
}

impl Checked {
    /// A connection whose handshake has just shown that certificate.
    pub(super) fn new(stream: TlsStream<TcpStream>, tls: Arc<ClientTls>, daemon: Peer) -> Checked {
        Checked { stream, tls, daemon, looked: Instant::now() }
    }

    fn check(&mut self) -> io::Result<()> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        // One that has lapsed stays so: the time is not noted, and the next look finds the same.
        self.tls.check(&self.daemon).map_err(|lapsed| {
            tracing::warn!(daemon = %self.daemon, reason = %lapsed, "connection given up");
            io::Error::new(io::ErrorKind::ConnectionAborted, lapsed)
        })?;
        self.looked = Instant::now();
        Ok(())
    }
}

impl AsyncRead for Checked {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Checked {
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
