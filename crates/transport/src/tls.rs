//! TLS 1.3 with certificates on both sides, and no resumption: every connection shows its certificate anew, so that
//! a revocation meets all of them.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use pliant_control::signed::Signature;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{CipherSuite, ClientConfig, ServerConfig};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::credentials::{CertifiedKey, Credentials, TlsError};
use super::dates::date;
use super::peer::Peer;
use super::revocation_verifier::RevocationVerifier;
use super::signing::{Revocations, SignatureError, ValidAt, is_signed, sign};
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
    /// Verifies that the authority issued a certificate.
    issued: Arc<dyn ClientCertVerifier>,
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
        if !side.holder.peer.role.is_daemon() {
            return Err(TlsError::NotADaemon { path: side.holder.path, found: side.holder.peer });
        }
        let issued = issued(&side.trust)
            .map_err(|source| TlsError::Unusable { path: side.holder.path.clone(), source })?;
        Ok(ServerTls { side, issued })
    }

    /// The own identity.
    pub fn own(&self) -> &Peer {
        &self.side.holder.peer
    }

    /// Checks that the certificate of an open connection is still valid. Costs a check of the list's file; to be called
    /// for every request.
    pub fn check(&self, peer: &Peer) -> Result<(), CertificateLapse> {
        self.side.check(peer)
    }

    /// The holder of the certificate that signed these bytes.
    ///
    /// # Errors
    ///
    /// The certificate is not the authority's or was not `valid` then, it is revoked if `revocations` count, or its key did
    /// not sign.
    pub fn signer(
        &self,
        bytes: &[u8],
        signature: &Signature,
        valid: ValidAt,
        revocations: Revocations,
    ) -> Result<Peer, SignatureError> {
        let trust = &self.side.trust;
        let certificate = CertificateDer::from(signature.certificate.as_slice());
        let wrong = |why: String| SignatureError::Certificate { why };
        let now = match valid {
            ValidAt::Now => UnixTime::now(),
            ValidAt::Then(at) => {
                UnixTime::since_unix_epoch(Duration::from_secs(at.0.try_into().unwrap_or(0)))
            }
        };
        let verified = self.issued.verify_client_cert(&certificate, &[], now);
        verified.map_err(|error| wrong(error.to_string()))?;
        let peer = Peer::from_certificate(&certificate).map_err(|error| wrong(error.to_string()))?;
        if revocations == Revocations::Count && trust.is_revoked(&peer) {
            return Err(SignatureError::Revoked { peer });
        }
        match is_signed(&certificate, bytes, &signature.bytes) {
            true => Ok(peer),
            false => Err(SignatureError::Signature { peer }),
        }
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

    /// The own identity.
    pub fn own(&self) -> &Peer {
        &self.side.holder.peer
    }

    /// Waits until a connection may be made. The turn is over when what is returned is dropped.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("it is never closed")
    }

    /// Signs some bytes with the own key.
    ///
    /// # Errors
    ///
    /// Keys of this kind cannot sign.
    pub fn sign(&self, bytes: &[u8]) -> Result<Signature, TlsError> {
        let CertifiedKey { path, chain, key, .. } = &self.side.holder;
        let certificate = chain.first().expect("a holder's first certificate was read for its identity");
        sign(certificate, key, bytes).map_err(|source| TlsError::Unusable { path: path.clone(), source })
    }

    /// Checks that a daemon's certificate is still valid; see [`ServerTls::check`].
    pub fn check(&self, peer: &Peer) -> Result<(), CertificateLapse> {
        self.side.check(peer)
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        self.side.config()
    }
}

/// A TLS configuration that follows the revocation list, of clients and servers.
struct ReloadingConfig<C> {
    trust: Trust,
    holder: CertifiedKey,
    build: Build<C>,
    built: Mutex<(Option<Arc<RevocationList>>, Arc<C>)>,
}

type Build<C> = fn(&Trust, Option<Arc<RevocationList>>, &CertifiedKey) -> Result<C, rustls::Error>;

impl<C> ReloadingConfig<C> {
    fn load(credentials: &Credentials, build: Build<C>) -> Result<ReloadingConfig<C>, TlsError> {
        let trust = Trust::load(credentials)?;
        let holder = CertifiedKey::read(credentials)?;
        let list = trust.list();
        let config = build(&trust, list.clone(), &holder)
            .map_err(|source| TlsError::Unusable { path: holder.path.clone(), source })?;
        Ok(ReloadingConfig { trust, holder, build, built: Mutex::new((list, Arc::new(config))) })
    }

    fn check(&self, peer: &Peer) -> Result<(), CertificateLapse> {
        // By the system's clock, as the handshake.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        if now.as_secs() as i64 > peer.not_after.0 {
            return Err(CertificateLapse::Expired { peer: peer.clone() });
        }
        if self.trust.is_revoked(peer) {
            Err(CertificateLapse::Revoked { peer: peer.clone() })
        } else {
            Ok(())
        }
    }

    /// The configuration with the newest list.
    fn config(&self) -> Result<Arc<C>, TlsError> {
        let list = self.trust.list();
        let mut built = self.built.lock();
        if built.0.as_ref().map(Arc::as_ptr) != list.as_ref().map(Arc::as_ptr) {
            let config = (self.build)(&self.trust, list.clone(), &self.holder)
                .map_err(|source| TlsError::Unusable { path: self.holder.path.clone(), source })?;
            *built = (list, Arc::new(config));
        }
        Ok(built.1.clone())
    }
}

/// Verifies that the authority issued a certificate.
fn issued(trust: &Trust) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
    WebPkiClientVerifier::builder_with_provider(trust.roots.clone(), provider())
        .build()
        .map_err(verifier_error)
}

fn server_config(
    trust: &Trust,
    list: Option<Arc<RevocationList>>,
    holder: &CertifiedKey,
) -> Result<ServerConfig, rustls::Error> {
    let provider = provider();
    let verifier = Arc::new(RevocationVerifier { verifier: issued(trust)?, list });
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
        WebPkiServerVerifier::builder_with_provider(trust.roots.clone(), provider.clone())
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
fn provider() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

fn verifier_error(error: VerifierBuilderError) -> rustls::Error {
    rustls::Error::General(error.to_string())
}
