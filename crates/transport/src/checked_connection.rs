//! A connection that ends when the certificate of the daemon is not valid any more, or the own one is about to expire and there is
//! a new one. A handshake shows them once, and connections stay open for weeks.

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

/// So long before the own certificate expires a connection with the new one takes over: more than clocks may differ.
const HANDS_OVER_S: i64 = 3_600;

/// A connection to a daemon.
pub(super) struct CheckedConnection {
    stream: TlsStream<TcpStream>,
    tls: Arc<ClientTls>,
    daemon: Peer,
    /// What was shown to it.
    own: Peer,
    /// The time of the last check.
    checked: Instant,
}

impl CheckedConnection {
    /// A connection whose handshake has just shown the certificates of `own` and `daemon`.
    pub(super) fn new(
        stream: TlsStream<TcpStream>,
        tls: Arc<ClientTls>,
        own: Peer,
        daemon: Peer,
    ) -> CheckedConnection {
        CheckedConnection { stream, tls, daemon, own, checked: Instant::now() }
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
        if self.tls.has_replaced(&self.own, HANDS_OVER_S) {
            tracing::info!(daemon = %self.daemon, serial = %self.own.serial, "connection ended: its certificate was renewed");
            let renewed = "the certificate of the connection was renewed";
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, renewed));
        }
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
