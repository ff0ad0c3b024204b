//! The authority of a federation: a folder that signs certificates and revokes them.
//!
//! `ca.pem` and `ca.key` are its certificate (ECDSA P-256) and key, `crl.pem` the signed revocation list, and
//! `register.toml` says what was issued. The register is written before anything that follows from it: after a crash
//! it may name a certificate that was never handed out, never the other way round, and a revocation that did not reach
//! `crl.pem` is in the next list.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pliant_model::{Time, check_name};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData,
    RevocationReason, RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::DnsName;
use sha2::{Digest, Sha256};
use x509_parser::pem::parse_x509_pem;

use super::credentials::Credentials;
use super::dates::instant;
use super::error::{AuthorityError, io};
use super::files::{FileReaders, lock, replace};
use super::peer::Serial;
use super::register::{CertificateRecord, Register};
use super::role::{DOMAIN, Identity, Role};

/// Days that a certificate lasts if nothing is said.
pub const DAYS_DEFAULT: u32 = 365;

/// Days that an authority lasts.
const AUTHORITY_DAYS: i64 = 3_650;
const DAY_S: i64 = 86_400;
/// How far clocks of a federation may be behind for a new certificate to be valid at once, in seconds.
const SLACK_S: i64 = 3_600;

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
    /// Its key, for the holder alone.
    pub key_pem: String,
    /// The authority's certificate.
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
        if [authority.key_path(), authority.ca_path(), authority.register_path()]
            .iter()
            .any(|path| path.exists())
        {
            return Err(AuthorityError::Exists { dir: dir.to_owned() });
        }
        let not_after = now.seconds() + AUTHORITY_DAYS * DAY_S;
        let key = KeyPair::generate().map_err(authority.signing())?;
        let params = authority_params(federation, now, not_after);
        let certificate = params.self_signed(&key).map_err(authority.signing())?;
        let mut register = Register {
            federation: federation.to_owned(),
            not_after,
            crl_number: 0,
            certificates: Vec::new(),
        };
        write(&authority.key_path(), &key.serialize_pem(), FileReaders::Owner)?;
        write(&authority.ca_path(), &certificate.pem(), FileReaders::All)?;
        authority.publish(&mut register, &Issuer::new(params, key), now)?;
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
        let _lock = lock(&self.dir).map_err(io(&self.dir, "lock the folder"))?;
        let mut register = Register::read(&self.register_path())?;
        let taken = register
            .certificates
            .iter()
            .rfind(|record| record.revoked.is_none() && record.is_of(&order.identity) && !order.renew);
        if let Some(record) = taken {
            return Err(AuthorityError::Taken { holder: record.holder(), not_after: record.not_after });
        }
        let most = ((register.not_after - now.seconds()) / DAY_S).max(0);
        let days = i64::from(order.days);
        if !(1..=most).contains(&days) {
            return Err(AuthorityError::Days { found: order.days, most });
        }
        let key = KeyPair::generate().map_err(self.signing())?;
        let record = CertificateRecord {
            serial: serial(&key),
            role: order.identity.role(),
            name: order.identity.name().to_owned(),
            issued: now.seconds(),
            not_after: now.seconds() + days * DAY_S,
            revoked: None,
        };
        let params = holder_params(order, &record)?;
        let certificate = params.signed_by(&key, &self.issuer()?).map_err(self.signing())?;
        let ca_pem = read(&self.ca_path())?;
        let crl_pem = read(&self.crl_path())?;
        register.certificates.push(record.clone());
        register.write(&self.register_path())?;
        Ok(IssuedCertificate {
            record,
            cert_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            ca_pem,
            crl_pem,
        })
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
        write(&credentials.key, &issued.key_pem, FileReaders::Owner)?;
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
        self.publish(&mut register, &self.issuer()?, now)?;
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

    fn key_path(&self) -> PathBuf {
        self.dir.join("ca.key")
    }

    fn register_path(&self) -> PathBuf {
        self.dir.join("register.toml")
    }

    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, AuthorityError> {
        let key = KeyPair::from_pem(&read(&self.key_path())?).map_err(self.signing())?;
        let certificate = read(&self.ca_path())?;
        let public = parse_x509_pem(certificate.as_bytes())
            .ok()
            .and_then(|(_, pem)| Some(pem.parse_x509().ok()?.public_key().raw.to_vec()));
        if public != Some(key.subject_public_key_info()) {
            return Err(AuthorityError::Keys { dir: self.dir.clone() });
        }
        Issuer::from_ca_cert_pem(&certificate, key).map_err(self.signing())
    }

    /// Writes the register with a new list number, then the list.
    fn publish(
        &self,
        register: &mut Register,
        issuer: &Issuer<'_, KeyPair>,
        now: Time,
    ) -> Result<(), AuthorityError> {
        register.crl_number += 1;
        let list = CertificateRevocationListParams {
            this_update: instant(now.seconds() - SLACK_S).to_datetime(),
            next_update: instant(register.not_after).to_datetime(),
            crl_number: SerialNumber::from(register.crl_number),
            issuing_distribution_point: None,
            revoked_certs: register.certificates.iter().filter_map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(issuer).and_then(|list| list.pem()).map_err(self.signing())?;
        register.write(&self.register_path())?;
        write(&self.crl_path(), &list, FileReaders::All)
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

fn authority_params(federation: &str, now: Time, not_after: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(federation);
    params.not_before = instant(now.seconds() - SLACK_S).to_datetime();
    params.not_after = instant(not_after).to_datetime();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn holder_params(
    order: &CertificateRequest,
    record: &CertificateRecord,
) -> Result<CertificateParams, AuthorityError> {
    let identity = &order.identity;
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(identity.name());
    params.serial_number = record.serial.to_bytes().map(SerialNumber::from);
    params.not_before = instant(record.issued - SLACK_S).to_datetime();
    params.not_after = instant(record.not_after).to_datetime();
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let text = |text: String| text.as_str().try_into().map_err(|_| extra(&text, "it is not plain ASCII"));
    params.subject_alt_names = vec![SanType::URI(text(identity.uri())?)];
    if identity.role().is_daemon() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        params.subject_alt_names.push(SanType::DnsName(text(identity.domain())?));
    }
    for name in &order.extra_names {
        params.subject_alt_names.push(extra_name(identity.role(), name)?);
    }
    Ok(params)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

fn extra(found: &str, problem: &'static str) -> AuthorityError {
    AuthorityError::ExtraName { found: found.to_owned(), problem }
}

fn extra_name(role: Role, name: &str) -> Result<SanType, AuthorityError> {
    if !role.is_daemon() {
        return Err(extra(name, "only agents and servers have addresses"));
    }
    if let Ok(address) = name.parse() {
        return Ok(SanType::IpAddress(address));
    }
    let lower = name.to_ascii_lowercase();
    if DnsName::try_from(lower.as_str()).is_err() {
        return Err(extra(name, "it is neither a DNS name nor an address"));
    }
    // It would stand for another daemon.
    if lower.trim_end_matches('.').rsplit('.').next() == Some(DOMAIN) {
        return Err(extra(name, "names that end in .pliant stand for roles"));
    }
    Ok(SanType::DnsName(lower.as_str().try_into().map_err(|_| extra(name, "it is not plain ASCII"))?))
}

/// A number from the new key: as unpredictable as the key, and never the same for two. Its first bit is clear and
/// its second set, so that it is positive and as long in a certificate as here.
fn serial(key: &KeyPair) -> Serial {
    let mut digest = Sha256::digest(key.subject_public_key_info());
    digest[0] = digest[0] & 0x3f | 0x40;
    Serial::from_bytes(&digest[..16])
}

fn revoked(record: &CertificateRecord) -> Option<RevokedCertParams> {
    Some(RevokedCertParams {
        serial_number: SerialNumber::from(record.serial.to_bytes()?),
        revocation_time: instant(record.revoked?).to_datetime(),
        reason_code: Some(RevocationReason::Unspecified),
        invalidity_date: None,
    })
}
