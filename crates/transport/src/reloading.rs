//! A TLS configuration that follows its files: the revocation list, the certificate with its key, and the authority's
//! certificates. New files count for new connections.
//!
//! Files that do not fit together are not used, so that a renewal that is under way, a damaged file or the file of another participant
//! leaves everything as it was.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_model::{Span, Time};
use rustls::pki_types::UnixTime;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::certificate_lapse::CertificateLapse;
use super::clock::unix_now;
use super::credentials::{CertifiedKey, Credentials, TlsError};
use super::dates::date;
use super::issued_certificates::IssuedCertificates;
use super::peer::Peer;
use super::provider::{provider, verifier_error};
use super::revocation_verifier::RevocationVerifier;
use super::trust::{FileStamp, RevocationList, Trust};

/// After how long files that were refused are tried again: a certificate may become valid only now.
const TRY_AGAIN: Duration = Duration::from_secs(2);

/// A TLS configuration of clients or servers.
pub(super) struct ReloadingConfig<C> {
    credentials: Credentials,
    build: Build<C>,
    state: Mutex<State<C>>,
}

pub(super) type Build<C> = fn(&Trust, Option<Arc<RevocationList>>, &CertifiedKey) -> Result<C, rustls::Error>;

struct State<C> {
    used: Used<C>,
    /// The files that were refused last, and when.
    refused: Option<(Stamps, Instant)>,
}

/// The files in use, and what was made of them.
struct Used<C> {
    stamps: Stamps,
    trust: Arc<Trust>,
    holder: Arc<CertifiedKey>,
    list: Option<Arc<RevocationList>>,
    /// What the authority has issued. Belongs to the roots of `trust`, so that new roots accept nothing unseen.
    issued: Arc<IssuedCertificates>,
    config: Arc<C>,
}

/// Until when certificates are valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// The last second of the own certificate.
    pub own: Time,
    /// The last second of the authority's certificate; of two, that of the longer one.
    pub authority: Time,
}

/// How long certificates are still valid by the system's clock; below zero they have expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValidityLeft {
    /// The own certificate.
    pub own: Span,
    /// The authority's.
    pub authority: Span,
}

impl Validity {
    /// How long that is from now on.
    pub fn left(&self) -> ValidityLeft {
        let now = Time(unix_now());
        ValidityLeft { own: self.own - now, authority: self.authority - now }
    }
}

impl<C> ReloadingConfig<C> {
    pub(super) fn load(credentials: &Credentials, build: Build<C>) -> Result<ReloadingConfig<C>, TlsError> {
        let stamps = Stamps::of(credentials);
        let trust = Trust::load(credentials)?;
        let holder = CertifiedKey::read(credentials)?;
        let used = Used::build(stamps, trust, holder, build)?;
        let state = Mutex::new(State { used, refused: None });
        Ok(ReloadingConfig { credentials: credentials.clone(), build, state })
    }

    /// The own identity, with the certificate in use.
    pub(super) fn own(&self) -> Peer {
        self.state.lock().used.holder.peer.clone()
    }

    /// The newest own certificate with its key.
    pub(super) fn holder(&self) -> Arc<CertifiedKey> {
        let mut state = self.state.lock();
        self.refreshed(&mut state);
        state.used.holder.clone()
    }

    /// What the newest files trust, and what verifies that the authority issued a certificate.
    pub(super) fn verifier(&self) -> (Arc<Trust>, Arc<IssuedCertificates>) {
        let mut state = self.state.lock();
        self.refreshed(&mut state);
        (state.used.trust.clone(), state.used.issued.clone())
    }

    pub(super) fn validity(&self) -> Validity {
        let state = self.state.lock();
        Validity { own: state.used.holder.peer.not_after, authority: state.used.trust.roots().not_after }
    }

    /// Uses new files, if there are any and they are good.
    pub(super) fn refresh(&self) {
        self.refreshed(&mut self.state.lock());
    }

    pub(super) fn check(&self, peer: &Peer) -> Result<(), CertificateLapse> {
        if unix_now() > peer.not_after.0 {
            return Err(CertificateLapse::Expired { peer: peer.clone() });
        }
        let trust = self.state.lock().used.trust.clone();
        if trust.is_revoked(peer) { Err(CertificateLapse::Revoked { peer: peer.clone() }) } else { Ok(()) }
    }

    /// The configuration with the newest files.
    pub(super) fn config(&self) -> Result<Arc<C>, TlsError> {
        let mut state = self.state.lock();
        self.refreshed(&mut state);
        let used = &mut state.used;
        let list = used.trust.list();
        if used.list.as_ref().map(Arc::as_ptr) != list.as_ref().map(Arc::as_ptr) {
            let config = (self.build)(&used.trust, list.clone(), &used.holder)
                .map_err(|source| TlsError::Unusable { path: used.holder.path.clone(), source })?;
            (used.list, used.config) = (list, Arc::new(config));
        }
        Ok(used.config.clone())
    }

    fn refreshed(&self, state: &mut State<C>) {
        let stamps = Stamps::of(&self.credentials);
        if stamps == state.used.stamps {
            state.refused = None;
            return;
        }
        let known = state.refused.as_ref().filter(|(refused, _)| *refused == stamps);
        if known.is_some_and(|(_, at)| at.elapsed() < TRY_AGAIN) {
            return;
        }
        match self.read_again(&state.used, &stamps) {
            Ok(used) => {
                let peer = &used.holder.peer;
                tracing::info!(
                    path = %self.credentials.cert.display(),
                    serial = %peer.serial,
                    until = date(peer.not_after.0),
                    "certificate files read: used for new connections"
                );
                *state = State { used, refused: None };
            }
            Err(error) => {
                if known.is_none() {
                    let hint = error.hint();
                    tracing::warn!(
                        hint,
                        "new certificate files not taken, the earlier ones stay in use: {error}"
                    );
                }
                state.refused = Some((stamps, Instant::now()));
            }
        }
    }

    fn read_again(&self, used: &Used<C>, stamps: &Stamps) -> Result<Used<C>, TlsError> {
        let trust = used.trust.with_new_roots(&self.credentials)?;
        let holder = CertifiedKey::read(&self.credentials)?;
        let (expected, found) = (&used.holder.peer, &holder.peer);
        if (expected.role, &expected.name) != (found.role, &found.name) {
            let (expected, found) = (Box::new(expected.clone()), Box::new(found.clone()));
            return Err(TlsError::Foreign { path: holder.path, expected, found });
        }
        verify(&trust, &holder)?;
        Used::build(stamps.clone(), trust, holder, self.build)
    }
}

impl<C> Used<C> {
    fn build(
        stamps: Stamps,
        trust: Trust,
        holder: CertifiedKey,
        build: Build<C>,
    ) -> Result<Used<C>, TlsError> {
        let list = trust.list();
        let unusable = |source| TlsError::Unusable { path: holder.path.clone(), source };
        let issued = Arc::new(IssuedCertificates::new(issued(&trust).map_err(unusable)?));
        let config = Arc::new(build(&trust, list.clone(), &holder).map_err(unusable)?);
        Ok(Used { stamps, trust: Arc::new(trust), holder: Arc::new(holder), list, issued, config })
    }
}

/// Whether the own certificate is valid in the federation now. Every certificate may be shown by a client.
pub(super) fn verify(trust: &Trust, holder: &CertifiedKey) -> Result<(), TlsError> {
    let untrusted = |source| TlsError::Untrusted { path: holder.path.clone(), source };
    let verifier = RevocationVerifier { verifier: issued(trust).map_err(untrusted)?, list: trust.list() };
    // `read` has found at least one.
    let [own, others @ ..] = &holder.chain[..] else { return Ok(()) };
    verifier.verify_client_cert(own, others, UnixTime::now()).map(|_| ()).map_err(untrusted)
}

/// What verifies that the authority issued a certificate.
pub(super) fn issued(trust: &Trust) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
    WebPkiClientVerifier::builder_with_provider(trust.roots().store.clone(), provider())
        .build()
        .map_err(verifier_error)
}

/// The versions of the files, without the revocation list, which is followed by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamps([Option<FileStamp>; 3]);

impl Stamps {
    fn of(credentials: &Credentials) -> Stamps {
        Stamps([&credentials.ca, &credentials.cert, &credentials.key].map(|path| FileStamp::of(path)))
    }
}
