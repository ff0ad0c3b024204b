//! The certificates of signers: each is verified once, and so is each signature.
//!
//! To verify a certificate takes longer than to verify the signature that comes with it, and the same people sign again and again.
//! So this remembers, for one set of roots, which certificates they have issued, by all their bytes, and which signatures
//! were good. New roots begin anew. Only acceptance is remembered:
//!
//! - A certificate that was not valid at the time in question is verified in full, which refuses it.
//! - Whether a certificate has been revoked is no part of this. Callers look into the present list each time.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_model::Time;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::peer::{IdentityError, Peer};
use super::recent::RecentMap;
use super::signing::{SignatureError, VerifyingKey};

/// How many certificates are remembered: 1 to 2 MB, as the authority makes them.
const CERTIFICATES_MAX: usize = 2_048;

/// How many signatures are remembered: about 1 MB.
const SIGNATURES_MAX: usize = 16_384;

/// What verifies that one set of roots has issued a certificate, whether or not it has been revoked.
pub(super) struct IssuedCertificates {
    verifier: Arc<dyn ClientCertVerifier>,
    known: Mutex<RecentMap<Vec<u8>, Arc<IssuedCertificate>>>,
    /// SHA-256 of a key with what it has signed.
    signed: Mutex<RecentMap<[u8; 32], ()>>,
}

/// A certificate that the authority has issued.
pub(super) struct IssuedCertificate {
    /// Its holder, and the last second in which it is valid.
    pub(super) peer: Peer,
    not_before: Time,
    /// None if keys of this kind cannot sign.
    key: Option<VerifyingKey>,
}

impl IssuedCertificates {
    pub(super) fn new(verifier: Arc<dyn ClientCertVerifier>) -> IssuedCertificates {
        IssuedCertificates::bounded(verifier, CERTIFICATES_MAX, SIGNATURES_MAX)
    }

    fn bounded(verifier: Arc<dyn ClientCertVerifier>, certificates: usize, signatures: usize) -> Self {
        let (known, signed) = (RecentMap::new(certificates), RecentMap::new(signatures));
        IssuedCertificates { verifier, known: Mutex::new(known), signed: Mutex::new(signed) }
    }

    /// Verifies that the authority has issued a certificate, which was valid at that time.
    pub(super) fn verified(&self, der: &[u8], at: Time) -> Result<Arc<IssuedCertificate>, SignatureError> {
        let at = at.max(Time(0));
        // The roots sign certificates themselves, and a root is trusted for as long as it is in the file: no dates count but those
        // of the certificate.
        let known = self.known.lock().get(der);
        if let Some(known) = known.filter(|known| known.is_valid_at(at)) {
            return Ok(known);
        }
        let wrong = |why: String| SignatureError::Certificate { why };
        let certificate = CertificateDer::from(der);
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at.0.unsigned_abs()));
        self.verifier.verify_client_cert(&certificate, &[], at).map_err(|error| wrong(error.to_string()))?;
        let issued = IssuedCertificate::read(der).map_err(|error| wrong(error.to_string()))?;
        let issued = Arc::new(issued);
        self.known.lock().insert(der.to_vec(), issued.clone());
        Ok(issued)
    }

    /// True if the key of that certificate signed these bytes.
    pub(super) fn is_signed(&self, signer: &IssuedCertificate, bytes: &[u8], signature: &[u8]) -> bool {
        let Some(key) = &signer.key else { return false };
        let digest = digest(key, bytes, signature);
        if self.signed.lock().get(&digest).is_some() {
            return true;
        }
        let is_signed = key.has_signed(bytes, signature);
        if is_signed {
            self.signed.lock().insert(digest, ());
        }
        is_signed
    }

    /// How many certificates and how many signatures are remembered.
    #[cfg(test)]
    fn remembered(&self) -> (usize, usize) {
        (self.known.lock().len(), self.signed.lock().len())
    }
}

impl IssuedCertificate {
    fn read(der: &[u8]) -> Result<IssuedCertificate, IdentityError> {
        let (_, certificate) = X509Certificate::from_der(der)
            .map_err(|error| IdentityError::Unreadable { problem: error.to_string() })?;
        let not_before = Time(certificate.validity().not_before.timestamp());
        let key = VerifyingKey::of(certificate.public_key());
        Ok(IssuedCertificate { peer: Peer::from_parsed(&certificate)?, not_before, key })
    }

    fn is_valid_at(&self, at: Time) -> bool {
        (self.not_before..=self.peer.not_after).contains(&at)
    }
}

/// A digest of the key with its algorithm, the signature and the bytes: each has its length before it, so that nothing else has the same.
fn digest(key: &VerifyingKey, bytes: &[u8], signature: &[u8]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in [&key.algorithm(), key.bytes(), signature, bytes] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}
