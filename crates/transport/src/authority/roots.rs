//! The roots of an authority: one that signs, and a second one while the authority is being replaced.

use rcgen::{Issuer, KeyPair, PublicKeyData};
use x509_parser::pem::parse_x509_pem;

use super::{Authority, read};
use crate::error::AuthorityError;
use crate::register::Register;

/// A root: its certificate, and what it signs with.
pub(super) struct Root {
    /// The certificate (PEM).
    pub(super) certificate: String,
    /// The last second in which it is valid, since the Unix epoch.
    pub(super) not_after: i64,
    pub(super) issuer: Issuer<'static, KeyPair>,
}

impl Root {
    /// The one that signs certificates. The register names its key; of the certificates in `ca.pem` its own is the one of that key.
    pub(super) fn signing(authority: &Authority, register: &Register) -> Result<Root, AuthorityError> {
        let published = read(&authority.ca_path())?;
        // A rollover keeps the certificate of the other root in the register, in case `ca.pem` is of the time before.
        let candidates = blocks(&published);
        Root::of_key(authority, &register.key, &candidates, register.not_after)
    }

    /// Every root, first the one that signs certificates.
    pub(super) fn all(authority: &Authority, register: &Register) -> Result<Vec<Root>, AuthorityError> {
        let mut roots = vec![Root::signing(authority, register)?];
        if let Some(other) = &register.rollover {
            let candidates = [other.certificate.clone()];
            roots.push(Root::of_key(authority, &other.key, &candidates, other.not_after)?);
        }
        Ok(roots)
    }

    fn of_key(
        authority: &Authority,
        file: &str,
        candidates: &[String],
        not_after: i64,
    ) -> Result<Root, AuthorityError> {
        let key = KeyPair::from_pem(&read(&authority.key_path(file))?).map_err(authority.signing())?;
        let own = key.subject_public_key_info();
        let certificate =
            candidates.iter().find(|certificate| public_key(certificate).as_ref() == Some(&own));
        let certificate = certificate
            .cloned()
            .ok_or_else(|| AuthorityError::Keys { dir: authority.dir.clone(), key: file.to_owned() })?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(authority.signing())?;
        Ok(Root { certificate, not_after, issuer })
    }
}

fn public_key(certificate: &str) -> Option<Vec<u8>> {
    let (_, pem) = parse_x509_pem(certificate.as_bytes()).ok()?;
    Some(pem.parse_x509().ok()?.public_key().raw.to_vec())
}

/// The certificates of a PEM file, each for itself.
fn blocks(text: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    text.split_inclusive(END)
        .filter(|block| block.ends_with(END))
        .map(|block| format!("{}\n", block.trim_start()))
        .collect()
}
