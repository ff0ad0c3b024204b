//! What a holder does: makes a key and a request for its certificate, and puts the certificate into use.
//!
//! A renewal keeps its new key in `key.new.pem` until the certificate is there, so that the present pair stays in use.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::authority::fingerprint;
use super::authority::signing_request::request;
use super::credentials::{CertifiedKey, Credentials, TlsError, certificates};
use super::error::{AuthorityError, io};
use super::files::{FileReaders, replace};
use super::peer::{IdentityError, Peer};
use super::reloading::verify;
use super::role::Identity;
use super::trust::Trust;

/// The request of a folder.
const REQUEST: &str = "request.pem";
/// The key of a renewal.
const NEW_KEY: &str = "key.new.pem";

/// A request that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrittenRequest {
    /// Whose certificate it asks for.
    pub identity: Identity,
    /// The SHA-256 of the public key, as hexadecimal digits.
    pub fingerprint: String,
    /// Its file.
    pub request: PathBuf,
    /// The file of its key, which stays in the folder.
    pub key: PathBuf,
}

/// A certificate that was put into use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstalledCertificate {
    /// Its holder.
    pub peer: Peer,
    /// Its folder.
    pub files: Credentials,
}

/// Makes a key and a request for its first certificate in a folder, which is created if need be.
pub fn request_certificate(dir: &Path, identity: &Identity) -> Result<WrittenRequest, AuthorityError> {
    let files = Credentials::in_folder(dir);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(dir, "create the folder"))?;
    for path in [&files.key, &files.cert] {
        if path.exists() {
            return Err(AuthorityError::Occupied { path: path.clone() });
        }
    }
    let key = new_key(&files.key)?;
    written(dir, identity.clone(), &key, files.key)
}

/// Makes a request for the next certificate of a folder's holder, of a new key or of the present one. Asking again, before the
/// certificate is there, asks for the same key.
pub fn request_renewal(dir: &Path, with_same_key: bool) -> Result<WrittenRequest, AuthorityError> {
    let files = Credentials::in_folder(dir);
    let peer = CertifiedKey::read(&files).map_err(AuthorityError::Own)?.peer;
    let identity = Identity::new(peer.role, &peer.name)?;
    let path = if with_same_key { files.key } else { dir.join(NEW_KEY) };
    let key = if path.exists() { read_key(&path)? } else { new_key(&path)? };
    written(dir, identity, &key, path)
}

/// Puts a certificate into use: checks that it is the one that the folder's request asked for and that it is valid under the
/// authority's certificate, in `ca` or else the folder's, and then replaces the files of the folder.
pub fn install(
    dir: &Path,
    certificate: &Path,
    ca: Option<&Path>,
) -> Result<InstalledCertificate, AuthorityError> {
    let files = Credentials::in_folder(dir);
    let chain = certificates(certificate).map_err(AuthorityError::Own)?;
    let peer = chain.first().ok_or(IdentityError::Absent).and_then(Peer::from_certificate);
    let peer = peer.map_err(|source| TlsError::Identity { path: certificate.to_owned(), source });
    let peer = peer.map_err(AuthorityError::Own)?;
    if files.cert.exists() {
        let expected = CertifiedKey::read(&files).map_err(AuthorityError::Own)?.peer;
        if (expected.role, &expected.name) != (peer.role, &peer.name) {
            let (path, expected, peer) = (certificate.to_owned(), Box::new(expected), Box::new(peer));
            return Err(AuthorityError::Own(TlsError::Foreign { path, expected, found: peer }));
        }
    }
    let key = key_of(dir, &files, &chain[0], certificate)?;
    let candidate = Credentials {
        ca: ca.unwrap_or(&files.ca).to_owned(),
        cert: certificate.to_owned(),
        key: key.clone(),
        crl: files.crl.clone().filter(|path| path.exists()),
    };
    let holder = CertifiedKey::read(&candidate).map_err(AuthorityError::Own)?;
    let trust = Trust::load(&candidate).map_err(AuthorityError::Own)?;
    verify(&trust, &holder).map_err(AuthorityError::Own)?;
    if let Some(ca) = ca.filter(|ca| *ca != files.ca) {
        put(&files.ca, &read(ca)?)?;
    }
    let text = read(certificate)?;
    if key != files.key {
        fs::rename(&key, &files.key).map_err(io(&files.key, "replace"))?;
    }
    put(&files.cert, &text)?;
    Ok(InstalledCertificate { peer, files })
}

/// The file of the key that belongs to the certificate: that of a renewal, or the present one.
fn key_of(
    dir: &Path,
    files: &Credentials,
    certificate: &CertificateDer<'_>,
    path: &Path,
) -> Result<PathBuf, AuthorityError> {
    let public =
        X509Certificate::from_der(certificate).map(|(_, parsed)| parsed.public_key().raw.to_vec()).ok();
    for key in [dir.join(NEW_KEY), files.key.clone()] {
        if key.exists() && public == Some(read_key(&key)?.subject_public_key_info()) {
            return Ok(key);
        }
    }
    Err(AuthorityError::OtherKey { certificate: path.to_owned(), dir: dir.to_owned() })
}

fn written(
    dir: &Path,
    identity: Identity,
    key: &KeyPair,
    path: PathBuf,
) -> Result<WrittenRequest, AuthorityError> {
    let file = dir.join(REQUEST);
    put(&file, request(&identity, key)?.as_bytes())?;
    Ok(WrittenRequest { identity, fingerprint: fingerprint(key), request: file, key: path })
}

fn new_key(path: &Path) -> Result<KeyPair, AuthorityError> {
    let key = KeyPair::generate().map_err(AuthorityError::Key)?;
    replace(path, key.serialize_pem().as_bytes(), FileReaders::Owner).map_err(io(path, "write"))?;
    Ok(key)
}

fn read_key(path: &Path) -> Result<KeyPair, AuthorityError> {
    let text = fs::read_to_string(path).map_err(io(path, "read"))?;
    KeyPair::from_pem(&text).map_err(AuthorityError::Key)
}

fn read(path: &Path) -> Result<Vec<u8>, AuthorityError> {
    fs::read(path).map_err(io(path, "read"))
}

fn put(path: &Path, content: &[u8]) -> Result<(), AuthorityError> {
    replace(path, content, FileReaders::All).map_err(io(path, "write"))
}
