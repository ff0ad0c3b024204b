//! Signatures with the keys of certificates, outside of TLS: made with the own key, verified with the certificate that comes with
//! them.
//!
//! A certificate says which kind of key signs, so a signature names no algorithm, and there is one for each kind of key.

use std::fmt;

use pliant_model::Time;
use rustls::SignatureScheme;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, SignatureVerificationAlgorithm};
use rustls::sign::Signer;
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{
    OID_EC_P256, OID_KEY_TYPE_EC_PUBLIC_KEY, OID_NIST_EC_P384, OID_PKCS1_RSAENCRYPTION, OID_SIG_ED25519,
};
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

use super::clock::unix_now;
use super::peer::Peer;

/// Why a signature does not count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SignatureError {
    /// The certificate is not one of the federation, or was not valid at that time.
    Certificate {
        /// What is wrong.
        why: String,
    },
    /// The certificate has been revoked.
    Revoked {
        /// Its holder.
        peer: Peer,
    },
    /// The key of the certificate did not sign this.
    Signature {
        /// The holder of the certificate.
        peer: Peer,
    },
}

impl SignatureError {
    /// The stable word for metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Certificate { .. } => "certificate",
            Self::Revoked { .. } => "revoked",
            Self::Signature { .. } => "signature",
        }
    }
}

impl fmt::Display for SignatureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate { why } => {
                write!(f, "expected a signer with a certificate of this federation: {why}")
            }
            Self::Revoked { peer } => {
                write!(f, "the certificate {} of the signer, {peer}, has been revoked", peer.serial)
            }
            Self::Signature { peer } => write!(f, "the key of {peer} did not sign this"),
        }
    }
}

impl std::error::Error for SignatureError {}

/// What signs with the key of a certificate.
pub(super) fn signer(
    certificate: &CertificateDer<'_>,
    key: &PrivateKeyDer<'static>,
) -> Result<Box<dyn Signer>, rustls::Error> {
    let unusable = |why: &str| rustls::Error::General(why.to_owned());
    let scheme = X509Certificate::from_der(certificate).ok().and_then(|(_, read)| scheme(read.public_key()));
    let scheme = scheme.ok_or_else(|| unusable("the kind of key of the certificate cannot sign"))?;
    let signer = ring::sign::any_supported_type(key)?.choose_scheme(&[scheme]);
    signer.ok_or_else(|| unusable("the key is not that of the certificate"))
}

/// The key of a certificate, which verifies what the holder signed.
pub(super) struct VerifyingKey {
    scheme: SignatureScheme,
    bytes: Vec<u8>,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
}

impl VerifyingKey {
    /// The key, if one of its kind can sign.
    pub(super) fn of(key: &SubjectPublicKeyInfo<'_>) -> Option<VerifyingKey> {
        let scheme = scheme(key)?;
        let known = ring::default_provider().signature_verification_algorithms.mapping;
        let (_, algorithms) = known.iter().find(|(known, _)| *known == scheme)?;
        Some(VerifyingKey { scheme, bytes: key.subject_public_key.data.to_vec(), algorithms })
    }

    /// The number of its algorithm.
    pub(super) fn algorithm(&self) -> [u8; 2] {
        u16::from(self.scheme).to_be_bytes()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True if it signed these bytes.
    pub(super) fn has_signed(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.algorithms.iter().any(|one| one.verify_signature(&self.bytes, bytes, signature).is_ok())
    }
}

/// The one algorithm for a kind of key.
fn scheme(key: &SubjectPublicKeyInfo<'_>) -> Option<SignatureScheme> {
    let algorithm = &key.algorithm;
    if algorithm.algorithm == OID_KEY_TYPE_EC_PUBLIC_KEY {
        let curve = algorithm.parameters.as_ref()?.as_oid().ok()?;
        return match curve {
            curve if curve == OID_EC_P256 => Some(SignatureScheme::ECDSA_NISTP256_SHA256),
            curve if curve == OID_NIST_EC_P384 => Some(SignatureScheme::ECDSA_NISTP384_SHA384),
            _ => None,
        };
    }
    if algorithm.algorithm == OID_SIG_ED25519 {
        return Some(SignatureScheme::ED25519);
    }
    (algorithm.algorithm == OID_PKCS1_RSAENCRYPTION).then_some(SignatureScheme::RSA_PSS_SHA256)
}

/// Which revocations count for a signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Revocations {
    /// All of them.
    Count,
    /// None: what was signed before the revocation stays true.
    AreLater,
}

/// When a certificate has to be valid for its signature to count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValidAt {
    /// Now, by the system's clock, as in a handshake.
    Now,
    /// Then.
    Then(Time),
}

impl ValidAt {
    /// That second.
    pub(super) fn time(self) -> Time {
        match self {
            Self::Now => Time(unix_now()),
            Self::Then(at) => at,
        }
    }
}
