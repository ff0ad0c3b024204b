//! Numbers of certificates and keys.

use pliant_model::Time;
use rcgen::PublicKeyData;
use sha2::{Digest, Sha256};

use crate::peer::Serial;
use crate::register::Register;

/// The SHA-256 of a public key, as hexadecimal digits: what a holder and an operator compare.
pub(crate) fn fingerprint(key: &impl PublicKeyData) -> String {
    Sha256::digest(key.subject_public_key_info()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A number that no other certificate has, from the key, the time and the certificates so far: a key may have several
/// certificates, one after the other. Its first bit is clear and its second set, so that it is positive and as long in a
/// certificate as here.
pub(super) fn serial(fingerprint: &str, register: &Register, now: Time) -> Serial {
    let text = format!("{fingerprint} {} {}", register.certificates.len(), now.seconds());
    let mut digest = Sha256::digest(text);
    digest[0] = digest[0] & 0x3f | 0x40;
    Serial::from_bytes(&digest[..16])
}
