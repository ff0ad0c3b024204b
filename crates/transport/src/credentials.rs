//! The certificate and key files of a participant.

use std::fmt;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pliant_control::signed::Signature;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::Signer;
use serde::{Deserialize, Serialize};

use super::peer::{IdentityError, Peer};
use super::signing::signer;

/// The paths of a participant's files.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// The certificate of the federation's authority; two while it is being replaced.
    pub ca: PathBuf,
    /// Its own certificate.
    pub cert: PathBuf,
    /// The key of its certificate; only its owner (and group) may read it.
    pub key: PathBuf,
    /// The revocation list, read again whenever it changes. `None`: nothing counts as revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crl: Option<PathBuf>,
}

impl Credentials {
    /// The files as `pliant ca issue` names them in a folder, the revocation list among them.
    pub fn in_folder(dir: &Path) -> Credentials {
        Credentials {
            ca: dir.join("ca.pem"),
            cert: dir.join("cert.pem"),
            key: dir.join("key.pem"),
            crl: Some(dir.join("crl.pem")),
        }
    }

    /// Makes paths that are relative to the folder of `file`, which names them, absolute.
    pub fn beside(&mut self, file: &Path) {
        let Credentials { ca, cert, key, crl } = self;
        for path in [Some(ca), Some(cert), Some(key), crl.as_mut()].into_iter().flatten() {
            pliant_config::resolve_relative(file, path);
        }
    }
}

/// Files with which no connection can be made.
#[derive(Debug)]
pub enum TlsError {
    /// A file cannot be read.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not hold what it should.
    Content {
        /// Which.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// Everybody on the host may read a key.
    Exposed {
        /// The key.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The own certificate has no identity of a federation.
    Identity {
        /// The certificate.
        path: PathBuf,
        /// Why.
        source: IdentityError,
    },
    /// Connections are to be accepted with the certificate of a user or operator.
    NotADaemon {
        /// The certificate.
        path: PathBuf,
        /// Its holder.
        found: Peer,
    },
    /// The new files are those of another participant.
    Foreign {
        /// The certificate.
        path: PathBuf,
        /// Whose it should be.
        expected: Box<Peer>,
        /// Its holder.
        found: Box<Peer>,
    },
    /// The new certificate is not valid in the federation.
    Untrusted {
        /// The certificate.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// A revocation list is older than one that was read before.
    OldList {
        /// Which.
        path: PathBuf,
        /// The number of that one.
        known: u64,
        /// The number of this one.
        found: u64,
    },
    /// A revocation list has the number of one that was read before, and not its content.
    OtherList {
        /// Which.
        path: PathBuf,
        /// The number.
        number: u64,
    },
    /// The files do not fit together.
    Unusable {
        /// The certificate.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

impl TlsError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { .. } | Self::Content { .. } => {
                Some("`pliant ca issue` writes all files of a participant")
            }
            Self::Exposed { .. } => Some(
                "run `chmod 600` on the key; if another person may have read it, issue a new certificate",
            ),
            Self::Identity { .. } => Some("use a certificate that `pliant ca issue` made"),
            Self::NotADaemon { .. } => Some("issue a certificate for the role agent or server"),
            Self::Foreign { .. } => Some("put this participant's own files there"),
            Self::Untrusted { .. } => Some("`ca` must name the authority that signed the certificate"),
            Self::OldList { .. } | Self::OtherList { .. } => {
                Some("if the authority was restored from a copy, revoke again what the copy lacks")
            }
            Self::Unusable { .. } => {
                Some("use the key.pem that `pliant ca issue` wrote with the certificate")
            }
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, source } => write!(f, "{}: cannot read: {source}", path.display()),
            Self::Content { path, expected, problem } => {
                write!(f, "{}: expected {expected}: {problem}", path.display())
            }
            Self::Exposed { path, mode } => {
                write!(
                    f,
                    "{}: expected a key that only its owner can read, found mode {mode:03o}",
                    path.display()
                )
            }
            Self::Identity { path, source } => write!(f, "{}: {source}", path.display()),
            Self::NotADaemon { path, found } => {
                write!(
                    f,
                    "{}: expected the certificate of an agent or server, found that of {found}",
                    path.display()
                )
            }
            Self::Foreign { path, expected, found } => {
                write!(f, "{}: expected a certificate of {expected}, found one of {found}", path.display())
            }
            Self::Untrusted { path, source } => {
                write!(
                    f,
                    "{}: expected a certificate that is valid in the federation: {source}",
                    path.display()
                )
            }
            Self::OldList { path, known, found } => {
                write!(f, "{}: expected number {known} or more, found {found}", path.display())
            }
            Self::OtherList { path, number } => write!(
                f,
                "{}: expected the content of list {number} as it was read before, found another one",
                path.display()
            ),
            Self::Unusable { path, source } => write!(f, "{}: cannot be used: {source}", path.display()),
        }
    }
}

impl std::error::Error for TlsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Identity { source, .. } => Some(source),
            Self::Unusable { source, .. } | Self::Untrusted { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A certificate with its key.
pub(super) struct CertifiedKey {
    pub(super) path: PathBuf,
    pub(super) peer: Peer,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
    /// Signs with the key, or says why that cannot be. To read a key for each signature would take as long as to sign.
    signer: Result<Box<dyn Signer>, rustls::Error>,
}

impl CertifiedKey {
    pub(super) fn read(credentials: &Credentials) -> Result<CertifiedKey, TlsError> {
        let path = credentials.cert.clone();
        let chain = certificates(&path)?;
        let peer = chain.first().ok_or(IdentityError::Absent).and_then(Peer::from_certificate);
        let peer = peer.map_err(|source| TlsError::Identity { path: path.clone(), source })?;
        let key = &credentials.key;
        let mode = std::fs::metadata(key).map_err(|source| TlsError::Io { path: key.clone(), source })?;
        let mode = mode.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(TlsError::Exposed { path: key.clone(), mode });
        }
        let key = PrivateKeyDer::from_pem_slice(&read(key)?)
            .map_err(|error| content(key, "a private key (PEM)", error))?;
        let signer = signer(&chain[0], &key);
        Ok(CertifiedKey { path, peer, chain, key, signer })
    }

    /// Signs some bytes, outside of TLS.
    pub(super) fn sign(&self, bytes: &[u8]) -> Result<Signature, rustls::Error> {
        let bytes = self.signer.as_ref().map_err(Clone::clone)?.sign(bytes)?;
        // It was read for the identity.
        Ok(Signature { bytes, certificate: self.chain[0].to_vec() })
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Io { path: path.to_owned(), source })
}

/// The certificates of a file, at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(content(path, "a certificate (PEM)", pem::Error::NoItemsFound)),
        Err(error) => Err(content(path, "a certificate (PEM)", error)),
    }
}

fn content(path: &Path, expected: &'static str, error: pem::Error) -> TlsError {
    TlsError::Content { path: path.to_owned(), expected, problem: error.to_string() }
}
