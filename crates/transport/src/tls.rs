//! TLS 1.3 with certificates on both sides, and no resumption: every connection shows its certificate anew, so that
//! a revocation meets all of them.

use std::sync::Arc;

use pliant_control::signed::Signature;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::certificate_lapse::CertificateLapse;
use super::clock::unix_now;
use super::credentials::{CertifiedKey, Credentials, TlsError};
use super::peer::Peer;
use super::provider::{provider, verifier_error};
use super::reloading::{ReloadingConfig, Validity, issued};
use super::revocation_verifier::RevocationVerifier;
use super::signing::{Revocations, SignatureError, ValidAt};
use super::trust::{RevocationList, Trust};

/// The protocol inside TLS: HTTP/2.
pub(super) const PROTOCOL: &[u8] = b"h2";

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
        // The signer may have a certificate of a new root, which this daemon has not seen yet.
        let (trust, issued) = self.side.verifier();
        let signer = issued.verified(&signature.certificate, valid.time())?;
        let peer = signer.peer.clone();
        if revocations == Revocations::Count && trust.is_revoked(&peer) {
            return Err(SignatureError::Revoked { peer });
        }
        match issued.is_signed(&signer, bytes, &signature.bytes) {
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

    /// Signs some bytes with the newest own key and certificate.
    ///
    /// # Errors
    ///
    /// Keys of this kind cannot sign.
    pub fn sign(&self, bytes: &[u8]) -> Result<Signature, TlsError> {
        let holder = self.side.holder();
        holder.sign(bytes).map_err(|source| TlsError::Unusable { path: holder.path.clone(), source })
    }

    /// Checks that a daemon's certificate is still valid; see [`ServerTls::check`].
    pub fn check(&self, peer: &Peer) -> Result<(), CertificateLapse> {
        self.side.check(peer)
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        self.side.config()
    }
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
