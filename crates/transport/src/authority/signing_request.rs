//! Requests for certificates (PKCS #10, RFC 2986): a holder makes a key, keeps it, and asks the authority to certify it.
//!
//! A request is signed with the key that it names, which shows that its sender has the key. It does not show who the sender is: that
//! is for the operator to find out.

use std::path::Path;

use rcgen::{
    CertificateSigningRequestParams, KeyPair, PKCS_ECDSA_P256_SHA256, PublicKey, PublicKeyData, SanType,
};
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::fingerprint;
use super::params::request_params;
use crate::error::{AuthorityError, io};
use crate::peer::{IdentityError, SCHEME, identity};
use crate::role::Identity;

/// A request whose signature is that of its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SigningRequest {
    /// Whose certificate it asks for.
    pub identity: Identity,
    /// The SHA-256 of the public key, as hexadecimal digits.
    pub fingerprint: String,
    pub(super) key: PublicKey,
}

impl SigningRequest {
    /// Reads a request (PEM).
    ///
    /// # Errors
    ///
    /// If it cannot be read, is no request, names no identity or more than one, is of a key other than ECDSA P-256, or is not
    /// signed with its key.
    pub fn read(path: &Path) -> Result<SigningRequest, AuthorityError> {
        let text = std::fs::read(path).map_err(io(path, "read"))?;
        let wrong = |problem: String| AuthorityError::Request { path: path.to_owned(), problem };
        let der =
            CertificateSigningRequestDer::from_pem_slice(&text).map_err(|error| wrong(error.to_string()))?;
        let request = CertificateSigningRequestParams::from_der(&der).map_err(|error| match error {
            rcgen::Error::InvalidCertificationRequestSignature => {
                wrong("it is not signed with the key that it names".to_owned())
            }
            error => wrong(error.to_string()),
        })?;
        let key = request.public_key;
        // The request's own bytes of the key: its type is otherwise concluded from the signature.
        let (_, parsed) =
            X509CertificationRequest::from_der(&der).map_err(|error| wrong(error.to_string()))?;
        let named = parsed.certification_request_info.subject_pki.raw;
        if *key.algorithm() != PKCS_ECDSA_P256_SHA256 || key.subject_public_key_info() != named {
            return Err(wrong("its key is not ECDSA P-256".to_owned()));
        }
        let uris: Vec<&str> = request
            .params
            .subject_alt_names
            .iter()
            .filter_map(|name| match name {
                SanType::URI(uri) if uri.as_str().starts_with(SCHEME) => Some(uri.as_str()),
                _ => None,
            })
            .collect();
        let identity = match uris[..] {
            [uri] => identity(uri),
            _ => Err(IdentityError::Count { found: uris.len() }),
        };
        let identity = identity.map_err(|error| wrong(error.to_string()))?;
        Ok(SigningRequest { identity, fingerprint: fingerprint(&key), key })
    }
}

/// A request (PEM) for a certificate of that key.
pub(crate) fn request(identity: &Identity, key: &KeyPair) -> Result<String, AuthorityError> {
    let made = request_params(identity)?.serialize_request(key).and_then(|request| request.pem());
    made.map_err(AuthorityError::Key)
}
