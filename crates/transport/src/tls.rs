//! TLS 1.3 with certificates on both sides, and no resumption: every connection shows its certificate anew, so that
//! a revocation meets all of them.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, ServerConfig};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::credentials::{CertifiedKey, Credentials, TlsError};
use super::dates::date;
use super::peer::Peer;
use super::reloading::{ReloadingConfig, Validity};
use super::revocation_verifier::RevocationVerifier;
use super::trust::{RevocationList, Trust};

/// The protocol inside TLS: HTTP/2.
pub(super) const PROTOCOL: &[u8] = b"h2";

/// The certificate of an open connection is not valid any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateLapse {
    /// It has been revoked.
    Revoked {
        /// Its holder.
        peer: Peer,
    },
    /// Its time is over.
    Expired {
        /// Its holder.
        peer: Peer,
    },
}

impl fmt::Display for CertificateLapse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Revoked { peer } => {
                write!(f, "the certificate {} of {peer} has been revoked", peer.serial)
            }
            Self::Expired { peer } => {
                write!(
                    f,
                    "the certificate {} of {peer} has expired on {}",
                    peer.serial,
                    date(peer.not_after.0)
                )
            }
        }
    }
}

impl std::error::Error for CertificateLapse {}

/// The side that accepts connections. Cheap to share.
pub struct ServerTls {
    side: ReloadingConfig<ServerConfig>,
}

/// The side that makes connections. Cheap to share.
pub struct ClientTls {
    side: ReloadingConfig<ClientConfig>,
    turns: Semaphore,
}

/// How many connections one participant makes at a time. A client with many (an exploration with hundreds of
/// servers) has the first ones soon in this way, and none that takes too long because all are made together.
const CONNECTING_MAX: usize = 4;

impl ServerTls {
    /// Reads a daemon's files.
    pub fn load(credentials: &Credentials) -> Result<ServerTls, TlsError> {
        let side = ReloadingConfig::load(credentials, server_config)?;
        let own = side.own();
        if !own.role.is_daemon() {
            return Err(TlsError::NotADaemon { path: credentials.cert.clone(), found: own });
        }
        Ok(ServerTls { side })
    }

    /// The own identity, with the certificate in use.
    pub fn own(&self) -> Peer {
        self.side.own()
    }

    /// Until when the own certificate and the authority's are valid.
    pub fn validity(&self) -> Validity {
        self.side.validity()
    }

    /// Looks whether the files have changed, and uses the new ones for new connections. Each new connection does so, too.
    pub fn refresh(&self) {
        self.side.refresh();
    }

    /// Checks that the certificate of an open connection is still valid. Costs a check of the list's file; to be called
    /// for every request.
    pub fn check(&self, peer: &Peer) -> Result<(), CertificateLapse> {
        self.side.check(peer)
    }

    pub(super) fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        self.side.config()
    }
}

impl ClientTls {
    /// Reads a participant's files.
    pub fn load(credentials: &Credentials) -> Result<ClientTls, TlsError> {
        let side = ReloadingConfig::load(credentials, client_config)?;
        Ok(ClientTls { side, turns: Semaphore::new(CONNECTING_MAX) })
    }

    /// The own identity, with the certificate in use.
    pub fn own(&self) -> Peer {
        self.side.own()
    }

    /// See [`ServerTls::refresh`].
    pub fn refresh(&self) {
        self.side.refresh();
    }

    /// Whether there is a newer certificate than that one, which expires within so many seconds.
    pub(super) fn has_replaced(&self, own: &Peer, within_s: i64) -> bool {
        self.refresh();
        let expires_soon = unix_now() > own.not_after.0.saturating_sub(within_s);
        expires_soon && self.own().serial != own.serial
    }

    /// Waits until a connection may be made. The turn is over when what is returned is dropped.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("it is never closed")
    }

    /// Checks that a daemon's certificate is still valid; see [`ServerTls::check`].
    pub fn check(&self, peer: &Peer) -> Result<(), CertificateLapse> {
        self.side.check(peer)
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        self.side.config()
    }
}

/// The system's time, by which handshakes judge certificates, in seconds since the Unix epoch.
pub(super) fn unix_now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_secs() as i64
}

fn server_config(
    trust: &Trust,
    list: Option<Arc<RevocationList>>,
    holder: &CertifiedKey,
) -> Result<ServerConfig, rustls::Error> {
    let provider = provider();
    let verifier: Arc<dyn ClientCertVerifier> =
        WebPkiClientVerifier::builder_with_provider(trust.roots().store.clone(), provider.clone())
            .build()
            .map_err(verifier_error)?;
    let verifier = Arc::new(RevocationVerifier { verifier, list });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(holder.chain.clone(), holder.key.clone_key())?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn client_config(
    trust: &Trust,
    list: Option<Arc<RevocationList>>,
    holder: &CertifiedKey,
) -> Result<ClientConfig, rustls::Error> {
    let provider = provider();
    let verifier: Arc<dyn ServerCertVerifier> =
        WebPkiServerVerifier::builder_with_provider(trust.roots().store.clone(), provider.clone())
            .build()
            .map_err(verifier_error)?;
    let verifier = Arc::new(RevocationVerifier { verifier, list });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(holder.chain.clone(), holder.key.clone_key())?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Of the suites of TLS 1.3 the one with SHA-256 comes first, which processors compute themselves: in a handshake keys are
/// derived some twenty times, and SHA-384 takes several times as long.
pub(super) fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

pub(super) fn verifier_error(error: VerifierBuilderError) -> rustls::Error {
    rustls::Error::General(error.to_string())
}
