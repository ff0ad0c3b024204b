//! The authority of a federation: a folder that signs certificates and revokes them.
//!
//! `ca.pem` and `ca.key` are its certificate (ECDSA P-256) and key, `crl.pem` the signed revocation list, and
//! `register.toml` says what was issued. The register is written before anything that follows from it: after a crash
//! it may name a certificate that was never handed out, never the other way round, and a revocation that did not reach
//! `crl.pem` is in the next list.

pub(crate) mod params;
mod rollover;
mod roots;
mod serials;
pub(super) mod signing_request;

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pliant_model::{Time, check_name};
use rcgen::{KeyPair, PublicKeyData};

use super::credentials::Credentials;
use super::error::{AuthorityError, io};
use super::files::{FileReaders, lock, replace};
use super::register::{CertificateRecord, KEY_FILE, Register};
use super::role::Identity;
use params::{authority_params, holder_params};
use roots::Root;

pub use rollover::RolloverStatus;
pub(crate) use serials::fingerprint;
pub use signing_request::SigningRequest;

/// Days that a certificate lasts if nothing is said.
pub const DAYS_DEFAULT: u32 = 365;

/// Days that an authority lasts.
const AUTHORITY_DAYS: i64 = 3_650;
const DAY_S: i64 = 86_400;

/// A certificate to be issued.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateRequest {
    /// The holder of the certificate.
    pub identity: Identity,
    /// Its validity in days from now.
    pub days: u32,
    /// Further DNS names and addresses of a daemon, for tools that know nothing of roles.
    pub extra_names: Vec<String>,
    /// Whether the holder may have a certificate already, which stays valid.
    pub renew: bool,
}

impl CertificateRequest {
    /// A first certificate of the default length.
    pub fn new(identity: Identity) -> CertificateRequest {
        CertificateRequest { identity, days: DAYS_DEFAULT, extra_names: Vec::new(), renew: false }
    }
}

/// A new certificate, with all that its holder needs.
pub struct IssuedCertificate {
    /// Its record in the register.
    pub record: CertificateRecord,
    /// The certificate.
    pub cert_pem: String,
    /// Its key, for the holder alone; none of one that the holder made.
    pub key_pem: Option<String>,
    /// The authority's certificate; two while it is being replaced.
    pub ca_pem: String,
    /// The revocation list of this moment.
    pub crl_pem: String,
}

/// The result of a revocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revocation {
    /// The certificates that fit, all revoked now.
    pub records: Vec<CertificateRecord>,
    /// How many of them were not before.
    pub newly: usize,
    /// The number of the list that says so.
    pub crl_number: u64,
}

/// An authority. Several processes may use one folder at a time.
#[derive(Clone, Debug)]
pub struct Authority {
    dir: PathBuf,
}

impl Authority {
    /// Makes an authority in a folder, which is created if need be.
    pub fn init(dir: &Path, federation: &str, now: Time) -> Result<Authority, AuthorityError> {
        check_name(federation).map_err(AuthorityError::Federation)?;
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(dir, "create the folder"))?;
        let authority = Authority { dir: dir.to_owned() };
        let _lock = lock(dir).map_err(io(dir, "lock the folder"))?;
        if [authority.key_path(KEY_FILE), authority.ca_path(), authority.register_path()]
            .iter()
            .any(|path| path.exists())
        {
            return Err(AuthorityError::Exists { dir: dir.to_owned() });
        }
        let not_after = now.seconds() + AUTHORITY_DAYS * DAY_S;
        let (key, certificate) = authority.new_root(federation, now, not_after)?;
        let mut register = Register {
            federation: federation.to_owned(),
            not_after,
            crl_number: 0,
            key: KEY_FILE.to_owned(),
            rollover: None,
            certificates: Vec::new(),
        };
        write(&authority.key_path(KEY_FILE), &key, FileReaders::Owner)?;
        write(&authority.ca_path(), &certificate, FileReaders::All)?;
        authority.publish(&mut register, now)?;
        Ok(authority)
    }

    /// The authority of a folder.
    pub fn open(dir: &Path) -> Result<Authority, AuthorityError> {
        let authority = Authority { dir: dir.to_owned() };
        if !authority.register_path().exists() {
            return Err(AuthorityError::Missing { dir: dir.to_owned() });
        }
        Ok(authority)
    }

    /// Signs a new key's certificate. Nothing but the register keeps a trace of it.
    pub fn issue(&self, order: &CertificateRequest, now: Time) -> Result<IssuedCertificate, AuthorityError> {
        let key = KeyPair::generate().map_err(self.signing())?;
        let issued = self.certify(order, &key, now)?;
        Ok(IssuedCertificate { key_pem: Some(key.serialize_pem()), ..issued })
    }

    /// Signs the certificate of a key that its holder made. The request says whose it is to be, and the order has to say the same.
    pub fn sign(
        &self,
        request: &SigningRequest,
        order: &CertificateRequest,
        now: Time,
    ) -> Result<IssuedCertificate, AuthorityError> {
        if request.identity != order.identity {
            let (requested, found) = (request.identity.clone(), order.identity.clone());
            return Err(AuthorityError::OtherHolder { requested, found });
        }
        self.certify(order, &request.key, now)
    }

    fn certify(
        &self,
        order: &CertificateRequest,
        key: &impl PublicKeyData,
        now: Time,
    ) -> Result<IssuedCertificate, AuthorityError> {
        let _lock = lock(&self.dir).map_err(io(&self.dir, "lock the folder"))?;
        let mut register = Register::read(&self.register_path())?;
        let digest = fingerprint(key);
        check_holder(&register, order, &digest)?;
        let most = ((register.not_after - now.seconds()) / DAY_S).max(0);
        let days = i64::from(order.days);
        if !(1..=most).contains(&days) {
            return Err(AuthorityError::Days { found: order.days, most });
        }
        let record = CertificateRecord {
            serial: serials::serial(&digest, &register, now),
            role: order.identity.role(),
            name: order.identity.name().to_owned(),
            issued: now.seconds(),
            not_after: now.seconds() + days * DAY_S,
            key: Some(digest),
            revoked: None,
        };
        let params = holder_params(order, &record)?;
        let root = Root::signing(self, &register)?;
        let certificate = params.signed_by(key, &root.issuer).map_err(self.signing())?;
        let ca_pem = read(&self.ca_path())?;
        let crl_pem = read(&self.crl_path())?;
        register.certificates.push(record.clone());
        register.write(&self.register_path())?;
        Ok(IssuedCertificate { record, cert_pem: certificate.pem(), key_pem: None, ca_pem, crl_pem })
    }

    /// Issues, and writes what the holder needs into a folder: `ca.pem`, `cert.pem`, `key.pem` and `crl.pem`. Files
    /// that are there are replaced only by a renewal.
    pub fn issue_into(
        &self,
        dir: &Path,
        order: &CertificateRequest,
        now: Time,
    ) -> Result<(CertificateRecord, Credentials), AuthorityError> {
        let credentials = Credentials::in_folder(dir);
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(dir, "create the folder"))?;
        for path in [&credentials.key, &credentials.cert] {
            if !order.renew && path.exists() {
                return Err(AuthorityError::Occupied { path: path.clone() });
            }
        }
        let issued = self.issue(order, now)?;
        if let Some(key) = &issued.key_pem {
            write(&credentials.key, key, FileReaders::Owner)?;
        }
        write(&credentials.cert, &issued.cert_pem, FileReaders::All)?;
        write(&credentials.ca, &issued.ca_pem, FileReaders::All)?;
        if let Some(path) = &credentials.crl {
            write(path, &issued.crl_pem, FileReaders::All)?;
        }
        Ok((issued.record, credentials))
    }

    /// Revokes a certificate by its serial, or all those of a holder by `NAME` or `ROLE/NAME`, and signs a new list.
    /// Revoking twice is no error: the list is signed again.
    pub fn revoke(&self, which: &str, now: Time) -> Result<Revocation, AuthorityError> {
        let _lock = lock(&self.dir).map_err(io(&self.dir, "lock the folder"))?;
        let mut register = Register::read(&self.register_path())?;
        let fits = |record: &CertificateRecord| {
            [record.serial.as_str(), &record.name, &record.holder()].into_iter().any(|word| word == which)
        };
        let mut holders: Vec<String> = register
            .certificates
            .iter()
            .filter(|record| fits(record))
            .map(CertificateRecord::holder)
            .collect();
        holders.sort();
        holders.dedup();
        match holders.len() {
            0 => return Err(AuthorityError::Unknown { found: which.to_owned() }),
            1 => {}
            _ => return Err(AuthorityError::Ambiguous { found: which.to_owned(), holders }),
        }
        let (mut records, mut newly) = (Vec::new(), 0);
        for record in register.certificates.iter_mut().filter(|record| fits(record)) {
            newly += usize::from(record.revoked.is_none());
            record.revoked.get_or_insert(now.seconds());
            records.push(record.clone());
        }
        self.publish(&mut register, now)?;
        Ok(Revocation { records, newly, crl_number: register.crl_number })
    }

    /// Every certificate, in the order in which they were issued.
    pub fn list(&self) -> Result<Vec<CertificateRecord>, AuthorityError> {
        Ok(Register::read(&self.register_path())?.certificates)
    }

    /// The name of the federation.
    pub fn federation(&self) -> Result<String, AuthorityError> {
        Ok(Register::read(&self.register_path())?.federation)
    }

    /// The authority's certificate, which every participant needs.
    pub fn ca_path(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The revocation list, which every daemon needs anew after a revocation.
    pub fn crl_path(&self) -> PathBuf {
        self.dir.join("crl.pem")
    }

    fn key_path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    fn register_path(&self) -> PathBuf {
        self.dir.join("register.toml")
    }

    /// The key and the certificate of a new root, both PEM.
    fn new_root(&self, name: &str, now: Time, not_after: i64) -> Result<(String, String), AuthorityError> {
        let key = KeyPair::generate().map_err(self.signing())?;
        let certificate = authority_params(name, now, not_after).self_signed(&key).map_err(self.signing())?;
        Ok((key.serialize_pem(), certificate.pem()))
    }

    /// Writes the register with a new list number, then the certificates of the roots and the list that each of them signs.
    fn publish(&self, register: &mut Register, now: Time) -> Result<(), AuthorityError> {
        let roots = Root::all(self, register)?;
        register.crl_number += 1;
        let mut lists = String::new();
        for root in &roots {
            let list = params::list_params(register, root.not_after, now).signed_by(&root.issuer);
            lists += &list.and_then(|list| list.pem()).map_err(self.signing())?;
        }
        register.write(&self.register_path())?;
        let certificates: String = roots.iter().map(|root| root.certificate.as_str()).collect();
        write(&self.ca_path(), &certificates, FileReaders::All)?;
        write(&self.crl_path(), &lists, FileReaders::All)
    }

    fn signing(&self) -> impl Fn(rcgen::Error) -> AuthorityError {
        let dir = self.dir.clone();
        move |source| AuthorityError::Signing { dir: dir.clone(), source }
    }
}

fn read(path: &Path) -> Result<String, AuthorityError> {
    fs::read_to_string(path).map_err(io(path, "read"))
}

fn write(path: &Path, text: &str, readers: FileReaders) -> Result<(), AuthorityError> {
    replace(path, text.as_bytes(), readers).map_err(io(path, "write"))
}

/// Whether the holder may have a certificate of that key.
fn check_holder(
    register: &Register,
    order: &CertificateRequest,
    fingerprint: &str,
) -> Result<(), AuthorityError> {
    let of_key = |record: &&CertificateRecord| record.key.as_deref() == Some(fingerprint);
    for record in register.certificates.iter().filter(of_key) {
        if !record.is_of(&order.identity) || record.revoked.is_some() {
            let is_revoked = record.revoked.is_some();
            return Err(AuthorityError::UsedKey { holder: record.holder(), is_revoked });
        }
    }
    let valid = |record: &&CertificateRecord| record.revoked.is_none() && record.is_of(&order.identity);
    match register.certificates.iter().rfind(valid).filter(|_| !order.renew) {
        Some(record) => Err(AuthorityError::Taken { holder: record.holder(), not_after: record.not_after }),
        None => Ok(()),
    }
}
