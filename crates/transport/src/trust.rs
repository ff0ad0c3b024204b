//! Trust: the authority's certificate and its newest revocation list, which is read again when its file
//! changes.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::credentials::{Credentials, TlsError, authority, read};
use super::peer::{Peer, Serial};

/// The authority and what it has revoked.
pub(super) struct Trust {
    pub(super) roots: Arc<RootCertStore>,
    authority: CertificateDer<'static>,
    watched: Option<WatchedFile>,
}

/// A revocation list whose signature is the authority's.
#[derive(Debug)]
pub(super) struct RevocationList {
    number: u64,
    serials: BTreeSet<Serial>,
}

struct WatchedFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// The file that was read last, good or bad.
    stamp: Option<FileStamp>,
    /// The newest good list.
    list: Arc<RevocationList>,
}

impl Trust {
    pub(super) fn load(credentials: &Credentials) -> Result<Trust, TlsError> {
        let authority = authority(&credentials.ca)?;
        let mut roots = RootCertStore::empty();
        roots
            .add(authority.clone())
            .map_err(|source| TlsError::Unusable { path: credentials.ca.clone(), source })?;
        let watched =
            credentials.crl.as_deref().map(|path| WatchedFile::load(path, &authority)).transpose()?;
        Ok(Trust { roots: Arc::new(roots), authority, watched })
    }

    /// The newest list, after a check of its file. `None` if the configuration names none.
    pub(super) fn list(&self) -> Option<Arc<RevocationList>> {
        self.watched.as_ref().map(|watched| watched.list(&self.authority))
    }

    /// Whether the certificate is in the newest list.
    pub(super) fn is_revoked(&self, peer: &Peer) -> bool {
        self.list().is_some_and(|list| list.has(&peer.serial))
    }
}

impl WatchedFile {
    fn load(path: &Path, authority: &CertificateDer<'_>) -> Result<WatchedFile, TlsError> {
        let stamp = FileStamp::of(path);
        let list = Arc::new(RevocationList::read(path, authority)?);
        Ok(WatchedFile { path: path.to_owned(), state: Mutex::new(State { stamp, list }) })
    }

    /// A file that is gone, damaged or older than what is known changes nothing but the log: what was revoked stays
    /// revoked.
    fn list(&self, authority: &CertificateDer<'_>) -> Arc<RevocationList> {
        let mut state = self.state.lock();
        let stamp = FileStamp::of(&self.path);
        if stamp == state.stamp {
            return state.list.clone();
        }
        state.stamp = stamp;
        match RevocationList::read(&self.path, authority) {
            Ok(list) if list.number < state.list.number => tracing::error!(
                path = %self.path.display(),
                "revocation list not taken: expected number {} or more, found {}",
                state.list.number,
                list.number
            ),
            Ok(list) => {
                tracing::info!(
                    path = %self.path.display(),
                    number = list.number,
                    revoked = list.serials.len(),
                    "revocation list read"
                );
                state.list = Arc::new(list);
            }
            Err(error) => tracing::error!("revocation list not taken: {error}"),
        }
        state.list.clone()
    }
}

impl RevocationList {
    /// True if the certificate of that number has been revoked.
    pub(super) fn has(&self, serial: &Serial) -> bool {
        self.serials.contains(serial)
    }

    /// True if nothing has been revoked.
    pub(super) fn is_empty(&self) -> bool {
        self.serials.is_empty()
    }

    fn read(path: &Path, authority: &CertificateDer<'_>) -> Result<RevocationList, TlsError> {
        let wrong = |problem: String| TlsError::Content {
            path: path.to_owned(),
            expected: "a revocation list of the authority (PEM)",
            problem,
        };
        let der = CertificateRevocationListDer::from_pem_slice(&read(path)?)
            .map_err(|error| wrong(error.to_string()))?;
        let (_, list) =
            CertificateRevocationList::from_der(&der).map_err(|error| wrong(error.to_string()))?;
        let (_, signer) = X509Certificate::from_der(authority).map_err(|error| wrong(error.to_string()))?;
        if list.issuer().as_raw() != signer.subject().as_raw()
            || list.verify_signature(signer.public_key()).is_err()
        {
            return Err(wrong("the signature is of another authority".to_owned()));
        }
        let number = list.crl_number().map(|number| number.to_u64_digits());
        let number = match number.as_deref() {
            Some([]) => 0,
            Some([number]) => *number,
            _ => return Err(wrong("the list has no number".to_owned())),
        };
        let serials =
            list.iter_revoked_certificates().map(|entry| Serial::from_bytes(entry.raw_serial())).collect();
        Ok(RevocationList { number, serials })
    }
}

/// What identifies the version of a file.
#[derive(PartialEq, Eq)]
struct FileStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl FileStamp {
    fn of(path: &Path) -> Option<FileStamp> {
        std::fs::metadata(path).ok().map(|metadata: Metadata| FileStamp {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}
