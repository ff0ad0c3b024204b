//! TLS 1.3 to the database, by libpq's options `sslmode` and `sslrootcert`.
//!
//! | `sslmode` | connection |
//! |---|---|
//! | `disable` | never TLS |
//! | `prefer`, or none | TLS if the server offers it and `sslrootcert` is given |
//! | `require`, `verify-ca` | TLS; the server's certificate is signed by `sslrootcert` |
//! | `verify-full` | TLS; the certificate also has the name of the host |
//!
//! A certificate is always checked, so all but the first two modes need `sslrootcert`; libpq's `require` would do without.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::{TlsConnector, client};

use crate::JournalError;

/// Makes TLS connections to the database.
#[derive(Clone)]
pub(super) struct Connector(TlsConnector);

/// Takes the options of TLS out of a connection string: gives the string for the driver, which knows fewer modes, and the connector; none
/// for connections without TLS.
pub(super) fn separated(connection: &str) -> Result<(String, Option<Connector>), JournalError> {
    let wrong = |why: String| JournalError::Connection { why };
    let (mut mode, mut root) = (None, None);
    let rest = without(connection, |key, value| match key {
        "sslmode" => mode = Some(value),
        "sslrootcert" => root = Some(value),
        _ => {}
    });
    // The driver says what is wrong with a string that cannot be read.
    let Some(rest) = rest else { return Ok((connection.to_owned(), None)) };
    let mode = mode.as_deref().unwrap_or("prefer");
    let connector = match (mode, &root) {
        ("disable", _) | ("prefer", None) => None,
        ("prefer" | "require" | "verify-ca", Some(root)) => Some(Connector::new(Path::new(root), false)?),
        ("verify-full", Some(root)) => Some(Connector::new(Path::new(root), true)?),
        ("require" | "verify-ca" | "verify-full", None) => {
            return Err(wrong(format!("expected sslrootcert=FILE with sslmode={mode}, found none")));
        }
        _ => {
            let modes = "disable, prefer, require, verify-ca or verify-full";
            return Err(wrong(format!("sslmode: expected {modes}, found {mode}")));
        }
    };
    let mode = match mode {
        "verify-ca" | "verify-full" => "require",
        "prefer" if connector.is_none() => "disable",
        mode => mode,
    };
    Ok((with_mode(&rest, mode), connector))
}

fn with_mode(connection: &str, mode: &str) -> String {
    let separator = match (is_url(connection), connection.contains('?')) {
        (false, _) => " ",
        (true, false) => "?",
        (true, true) => "&",
    };
    format!("{connection}{separator}sslmode={mode}")
}

fn is_url(connection: &str) -> bool {
    connection.starts_with("postgres://") || connection.starts_with("postgresql://")
}

/// A connection string without its options of TLS, which `found` gets. None if it cannot be read.
fn without(connection: &str, mut found: impl FnMut(&str, String)) -> Option<String> {
    let is_ours = |key: &str| matches!(key, "sslmode" | "sslrootcert");
    if is_url(connection) {
        let Some((address, query)) = connection.split_once('?') else { return Some(connection.to_owned()) };
        let mut kept = Vec::new();
        for pair in query.split('&') {
            match pair.split_once('=') {
                Some((key, value)) if is_ours(key) => found(key, decoded(value)?),
                _ => kept.push(pair),
            }
        }
        let query = kept.join("&");
        return Some(if query.is_empty() { address.to_owned() } else { format!("{address}?{query}") });
    }
    let (mut rest, mut kept) = (connection.trim(), Vec::new());
    while !rest.is_empty() {
        let (key, behind) = rest.split_once('=')?;
        let (value, tail) = value(behind.trim_start())?;
        match key.trim() {
            key if is_ours(key) => found(key, value),
            _ => kept.push(rest[..rest.len() - tail.len()].trim()),
        }
        rest = tail.trim_start();
    }
    Some(kept.join(" "))
}

/// A value and what stands behind it. It is a word, or a text in quotes; a backslash keeps the next letter.
fn value(text: &str) -> Option<(String, &str)> {
    let quoted = text.strip_prefix('\'');
    let body = quoted.unwrap_or(text);
    let mut value = String::new();
    let mut letters = body.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => value.push(letters.next()?.1),
            '\'' if quoted.is_some() => return Some((value, &body[at + 1..])),
            letter if quoted.is_none() && letter.is_whitespace() => return Some((value, &body[at..])),
            letter => value.push(letter),
        }
    }
    quoted.is_none().then_some((value, ""))
}

/// The text of `%2Fetc%2Fca.pem`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

impl Connector {
    /// Trusts the authorities of a file; `checks_name` says whether the server must have the name of the host.
    fn new(root: &Path, checks_name: bool) -> Result<Connector, JournalError> {
        let wrong = |why: String| JournalError::Connection { why: format!("{}: {why}", root.display()) };
        let mut roots = RootCertStore::empty();
        let found = CertificateDer::pem_file_iter(root).map_err(|error| wrong(error.to_string()))?;
        for certificate in found {
            let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
            roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
        }
        let provider = Arc::new(ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| wrong(format!("expected certificates of an authority: {error}")))?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(error.to_string()))?
            .dangerous();
        let verifier: Arc<dyn ServerCertVerifier> =
            if checks_name { verifier } else { Arc::new(AnyName(verifier)) };
        let config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Connector(TlsConnector::from(Arc::new(config))))
    }
}

/// Accepts a certificate of a trusted authority, whatever name it has.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        // The name is checked last.
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, InvalidDnsNameError> {
        Ok(Handshake { connector: self.0.clone(), name: ServerName::try_from(host)?.to_owned() })
    }
}

/// A handshake with the server of a host.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Stream) })
    }
}

/// A connection over TLS.
pub(super) struct Stream<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_tls_are_taken_out() {
        let check = |connection: &str, expected: &str, options: &[(&str, &str)]| {
            let mut found = Vec::new();
            let rest = without(connection, |key, value| found.push((key.to_owned(), value)));
            assert_eq!(rest.as_deref(), Some(expected), "{connection}");
            let found: Vec<(&str, &str)> =
                found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(found, options, "{connection}");
        };
        check("", "", &[]);
        check("host=db user=pliant", "host=db user=pliant", &[]);
        check(
            "host=db sslmode=verify-full  sslrootcert = '/etc/my \\'ca\\'.pem' user=pliant",
            "host=db user=pliant",
            &[("sslmode", "verify-full"), ("sslrootcert", "/etc/my 'ca'.pem")],
        );
        check("password='sslmode=disable' host=db", "password='sslmode=disable' host=db", &[]);
        check("postgresql://db/pliant", "postgresql://db/pliant", &[]);
        check(
            "postgresql://db/pliant?sslmode=verify-ca&application_name=a&sslrootcert=%2Fetc%2Fca.pem",
            "postgresql://db/pliant?application_name=a",
            &[("sslmode", "verify-ca"), ("sslrootcert", "/etc/ca.pem")],
        );
        for unreadable in ["host", "host='db", "password=a\\"] {
            assert_eq!(without(unreadable, |_, _| {}), None, "{unreadable}");
        }
    }

    #[test]
    fn a_certificate_is_never_left_unchecked() {
        let check = |connection: &str, expected: &str| match separated(connection) {
            Ok(_) => panic!("{connection} is refused"),
            Err(error) => assert!(error.to_string().contains(expected), "{error}"),
        };
        check("host=db sslmode=require", "expected sslrootcert=FILE with sslmode=require, found none");
        check("host=db sslmode=allow", "sslmode: expected disable, prefer, require");
        check("host=db sslmode=verify-full sslrootcert=/nowhere/ca.pem", "/nowhere/ca.pem: ");
        let plain = |connection: &str| {
            let (rest, connector) = separated(connection).unwrap_or_else(|error| panic!("{error}"));
            assert!(connector.is_none(), "{connection}");
            rest
        };
        assert_eq!(plain("host=db"), "host=db sslmode=disable");
        assert_eq!(plain("postgres://db/a?sslmode=disable"), "postgres://db/a?sslmode=disable");
    }
}
