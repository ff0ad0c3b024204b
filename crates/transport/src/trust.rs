//! Trust: the authority's certificates and its newest revocation list, which is read again when its file changes.
//!
//! An authority that is being replaced has two certificates for a while, its old and its new root, and signs each list with both.
//! Its numbers of certificates and lists go on, so that a list counts for certificates of both roots, whichever signed it.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use pliant_model::Time;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::{CertificateError, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::credentials::{Credentials, TlsError, certificates, read};
use super::peer::{Peer, Serial};

/// The authority and what it has revoked.
pub(super) struct Trust {
    roots: Arc<Roots>,
    watched: Option<Arc<WatchedFile>>,
}

/// The certificates of an authority: one, or two while it is being replaced.
pub(super) struct Roots {
    pub(super) store: Arc<RootCertStore>,
    certificates: Vec<CertificateDer<'static>>,
    /// The last second in which one of them is valid.
    pub(super) not_after: Time,
}

/// A revocation list whose signature is the authority's.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct RevocationList {
    number: u64,
    serials: BTreeSet<Serial>,
}

struct WatchedFile {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    /// The file that was read last, good or bad, and whose signatures were accepted.
    stamp: Option<FileStamp>,
    roots: Arc<Roots>,
    /// The newest good list.
    list: Arc<RevocationList>,
}

impl Trust {
    pub(super) fn load(credentials: &Credentials) -> Result<Trust, TlsError> {
        let roots = Arc::new(Roots::read(&credentials.ca)?);
        let watched = credentials
            .crl
            .as_deref()
            .map(|path| WatchedFile::load(path, &roots).map(Arc::new))
            .transpose()?;
        Ok(Trust { roots, watched })
    }

    /// The same with the certificates that the authority has now. What was revoked stays revoked.
    pub(super) fn with_new_roots(&self, credentials: &Credentials) -> Result<Trust, TlsError> {
        Ok(Trust { roots: Arc::new(Roots::read(&credentials.ca)?), watched: self.watched.clone() })
    }

    pub(super) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The newest list, after a check of its file. `None` if the configuration names none.
    pub(super) fn list(&self) -> Option<Arc<RevocationList>> {
        self.watched.as_ref().map(|watched| watched.list(&self.roots))
    }

    /// Whether the certificate is in the newest list.
    pub(super) fn is_revoked(&self, peer: &Peer) -> bool {
        self.list().is_some_and(|list| list.has(&peer.serial))
    }
}

impl Roots {
    pub(super) fn read(path: &Path) -> Result<Roots, TlsError> {
        let certificates = certificates(path)?;
        let (mut store, mut not_after) = (RootCertStore::empty(), Time(i64::MIN));
        for certificate in &certificates {
            let unusable = |source| TlsError::Unusable { path: path.to_owned(), source };
            store.add(certificate.clone()).map_err(unusable)?;
            let (_, parsed) = X509Certificate::from_der(certificate)
                .map_err(|_| unusable(CertificateError::BadEncoding.into()))?;
            not_after = not_after.max(Time(parsed.validity().not_after.timestamp()));
        }
        Ok(Roots { store: Arc::new(store), certificates, not_after })
    }

    /// Whether one of them has signed that list.
    fn have_signed(&self, list: &CertificateRevocationList<'_>) -> bool {
        self.certificates.iter().any(|certificate| {
            let Ok((_, root)) = X509Certificate::from_der(certificate) else { return false };
            list.issuer().as_raw() == root.subject().as_raw()
                && list.verify_signature(root.public_key()).is_ok()
        })
    }
}

impl WatchedFile {
    fn load(path: &Path, roots: &Arc<Roots>) -> Result<WatchedFile, TlsError> {
        let stamp = FileStamp::of(path);
        let list = Arc::new(RevocationList::read(path, roots)?);
        let state = Mutex::new(State { stamp, roots: roots.clone(), list });
        Ok(WatchedFile { path: path.to_owned(), state })
    }

    /// A file that is gone, damaged or older than what is known changes nothing but the log: what was revoked stays
    /// revoked.
    fn list(&self, roots: &Arc<Roots>) -> Arc<RevocationList> {
        let mut state = self.state.lock();
        let stamp = FileStamp::of(&self.path);
        if stamp == state.stamp && Arc::ptr_eq(roots, &state.roots) {
            return state.list.clone();
        }
        (state.stamp, state.roots) = (stamp, roots.clone());
        match RevocationList::read(&self.path, roots).and_then(|list| list.after(&state.list, &self.path)) {
            Ok(list) if list == *state.list => {}
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

    /// What counts once this list has come after that one. An authority adds to its lists and counts them, so anything else comes
    /// from an authority that was restored from an old copy, and would undo revocations.
    fn after(mut self, known: &RevocationList, path: &Path) -> Result<RevocationList, TlsError> {
        let number = self.number;
        if number < known.number {
            return Err(TlsError::OldList { path: path.to_owned(), known: known.number, found: number });
        }
        if number == known.number && self.serials != known.serials {
            return Err(TlsError::OtherList { path: path.to_owned(), number });
        }
        let missing: Vec<Serial> = known.serials.difference(&self.serials).cloned().collect();
        if !missing.is_empty() {
            let serials: Vec<&str> = missing.iter().map(Serial::as_str).collect();
            tracing::error!(
                path = %path.display(),
                number,
                serials = serials.join(" "),
                "the revocation list lacks certificates that an earlier one has: they stay revoked until this daemon restarts"
            );
            self.serials.extend(missing);
        }
        Ok(self)
    }

    /// Reads a file with one list, or with one of each root of an authority that is being replaced.
    fn read(path: &Path, roots: &Roots) -> Result<RevocationList, TlsError> {
        let wrong = |problem: String| TlsError::Content {
            path: path.to_owned(),
            expected: "a revocation list of the authority (PEM)",
            problem,
        };
        let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&read(path)?).collect();
        let found = found.map_err(|error| wrong(error.to_string()))?;
        if found.is_empty() {
            return Err(wrong("found none".to_owned()));
        }
        let mut newest: Option<RevocationList> = None;
        for der in &found {
            let (_, list) =
                CertificateRevocationList::from_der(der).map_err(|error| wrong(error.to_string()))?;
            // That of the other root, whose certificate this daemon has not got yet or not any more.
            if !roots.have_signed(&list) {
                continue;
            }
            let list =
                RevocationList::parsed(&list).ok_or_else(|| wrong("the list has no number".to_owned()))?;
            newest = Some(match newest {
                Some(other) => list.and(other),
                None => list,
            });
        }
        newest.ok_or_else(|| wrong("the signature is of another authority".to_owned()))
    }

    fn parsed(list: &CertificateRevocationList<'_>) -> Option<RevocationList> {
        let number = match list.crl_number()?.to_u64_digits().as_slice() {
            [] => 0,
            [number] => *number,
            _ => return None,
        };
        let serials =
            list.iter_revoked_certificates().map(|entry| Serial::from_bytes(entry.raw_serial())).collect();
        Some(RevocationList { number, serials })
    }

    /// What is revoked by at least one of two lists.
    fn and(mut self, other: RevocationList) -> RevocationList {
        self.number = self.number.max(other.number);
        self.serials.extend(other.serials);
        self
    }
}

/// What identifies the version of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct FileStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl FileStamp {
    pub(super) fn of(path: &Path) -> Option<FileStamp> {
        std::fs::metadata(path).ok().map(|metadata: Metadata| FileStamp {
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }
}
