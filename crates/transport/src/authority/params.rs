//! The content of certificates and revocation lists.

use pliant_model::Time;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyUsagePurpose, RevocationReason, RevokedCertParams,
    SanType, SerialNumber,
};
use rustls::pki_types::DnsName;

use super::CertificateRequest;
use crate::dates::instant;
use crate::error::AuthorityError;
use crate::register::{CertificateRecord, Register};
use crate::role::{DOMAIN, Identity, Role};

/// How far clocks of a federation may be behind for a new certificate to be valid at once, in seconds.
const SLACK_S: i64 = 3_600;

pub(super) fn authority_params(federation: &str, now: Time, not_after: i64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(federation);
    params.not_before = instant(now.seconds() - SLACK_S).to_datetime();
    params.not_after = instant(not_after).to_datetime();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// What a request for a certificate says: whose it is to be.
pub(crate) fn request_params(identity: &Identity) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(identity.name());
    params.subject_alt_names = vec![uri(identity)?];
    Ok(params)
}

fn uri(identity: &Identity) -> Result<SanType, AuthorityError> {
    let uri = identity.uri();
    Ok(SanType::URI(uri.as_str().try_into().map_err(|_| extra(&uri, "it is not plain ASCII"))?))
}

pub(super) fn holder_params(
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
    params.subject_alt_names = vec![uri(identity)?];
    if identity.role().is_daemon() {
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let domain = identity.domain();
        let name = domain.as_str().try_into().map_err(|_| extra(&domain, "it is not plain ASCII"))?;
        params.subject_alt_names.push(SanType::DnsName(name));
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

fn revoked(record: &CertificateRecord) -> Option<RevokedCertParams> {
    Some(RevokedCertParams {
        serial_number: SerialNumber::from(record.serial.to_bytes()?),
        revocation_time: instant(record.revoked?).to_datetime(),
        reason_code: Some(RevocationReason::Unspecified),
        invalidity_date: None,
    })
}

/// The list of a root that is valid until `not_after`.
pub(super) fn list_params(register: &Register, not_after: i64, now: Time) -> CertificateRevocationListParams {
    CertificateRevocationListParams {
        this_update: instant(now.seconds() - SLACK_S).to_datetime(),
        next_update: instant(not_after).to_datetime(),
        crl_number: SerialNumber::from(register.crl_number),
        issuing_distribution_point: None,
        revoked_certs: register.certificates.iter().filter_map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    }
}
