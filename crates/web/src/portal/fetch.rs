//! Calls to the provider: one connection for each, over TLS, with bounds of time and size.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::file::is_protected;

/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
const BYTES_MAX: usize = 1 << 20;

/// Why the provider could not be asked.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The URL is not one that may be asked.
    #[error("expected an https URL, found `{0}`")]
    Url(String),
    /// No connection, or a broken one.
    #[error("cannot reach {host}: {why}")]
    Connection {
        /// The host.
        host: String,
        /// Why not.
        why: String,
    },
    /// It took too long.
    #[error("{host} did not answer within {} s", TIMEOUT.as_secs())]
    Timeout {
        /// The host.
        host: String,
    },
}

/// Makes calls.
pub(super) struct Fetcher {
    tls: TlsConnector,
}

/// A form to send, with the credentials of the header.
pub(super) struct Form {
    /// The encoded form.
    pub(super) body: String,
    /// The value of the header `Authorization`.
    pub(super) authorization: Option<String>,
}

impl Fetcher {
    /// Trusts the authorities in a PEM file, or those of the system.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(super) fn new(ca: Option<&Path>) -> Result<Fetcher, String> {
        let mut roots = RootCertStore::empty();
        match ca {
            Some(path) => {
                let failed = |error: &dyn fmt::Display| format!("{}: {error}", path.display());
                let certificates = CertificateDer::pem_file_iter(path).map_err(|error| failed(&error))?;
                for certificate in certificates {
                    let certificate = certificate.map_err(|error| failed(&error))?;
                    roots.add(certificate).map_err(|error| failed(&error))?;
                }
                if roots.is_empty() {
                    return Err(failed(&"expected at least one certificate, found none"));
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Fetcher { tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Reads a document.
    pub(super) async fn get(&self, url: &str) -> Result<(StatusCode, Bytes), FetchError> {
        self.ask(url, None).await
    }

    /// Sends a form.
    pub(super) async fn post(&self, url: &str, form: Form) -> Result<(StatusCode, Bytes), FetchError> {
        self.ask(url, Some(form)).await
    }

    async fn ask(&self, url: &str, form: Option<Form>) -> Result<(StatusCode, Bytes), FetchError> {
        let refused = || FetchError::Url(url.escape_debug().to_string());
        let uri: Uri = url.parse().ok().filter(|_| is_protected(url)).ok_or_else(refused)?;
        let host = uri.host().ok_or_else(refused)?.to_owned();
        match timeout(TIMEOUT, self.exchange(&uri, &host, form)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(why)) => Err(FetchError::Connection { host, why }),
            Err(_) => Err(FetchError::Timeout { host }),
        }
    }

    async fn exchange(
        &self,
        uri: &Uri,
        host: &str,
        form: Option<Form>,
    ) -> Result<(StatusCode, Bytes), String> {
        let is_tls = uri.scheme_str() == Some("https");
        let name = host.trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = TcpStream::connect((name, port)).await.map_err(|error| error.to_string())?;
        let request = request(uri, form)?;
        if !is_tls {
            return answer(stream, request).await;
        }
        let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let stream = self.tls.connect(server, stream).await.map_err(|error| error.to_string())?;
        answer(stream, request).await
    }
}

fn request(uri: &Uri, form: Option<Form>) -> Result<Request<Body>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let mut request = Request::builder().uri(path).header(HOST, host).header(ACCEPT, "application/json");
    let body = match form {
        None => Body::empty(),
        Some(Form { body, authorization }) => {
            request = request.method(Method::POST).header(CONTENT_TYPE, "application/x-www-form-urlencoded");
            if let Some(authorization) = authorization {
                request = request.header(AUTHORIZATION, authorization);
            }
            Body::from(body)
        }
    };
    request.body(body).map_err(|error| error.to_string())
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Body>,
) -> Result<(StatusCode, Bytes), String> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(Body::new(body), BYTES_MAX).await.map_err(|error| error.to_string())?;
        Ok((parts.status, bytes))
    };
    let mut answered = std::pin::pin!(answered);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        answer = &mut answered => answer,
        // The last piece may have come with the end of the connection.
        ended = &mut connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error.to_string()),
        },
    }
}
