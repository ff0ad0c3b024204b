//! The cryptography of all TLS connections.

use std::sync::Arc;

use rustls::CipherSuite;
use rustls::crypto::{CryptoProvider, ring};
use rustls::server::VerifierBuilderError;

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
