//! What is remembered of certificates and signatures changes how long an answer takes, and no answer.

use std::fs;
use std::path::Path;

use pliant_control::signed::Signature;
use tempfile::TempDir;

use super::*;
use crate::clock::unix_now;
use crate::reloading::{ReloadingConfig, issued};
use crate::trust::Trust;
use crate::{Authority, CertificateRequest, ClientTls, Credentials, Identity, Role};

/// An authority with the credentials of server lyon.
struct Federation {
    dir: TempDir,
    authority: Authority,
    lyon: Credentials,
    now: Time,
}

impl Federation {
    fn new() -> Federation {
        let (dir, now) = (tempfile::tempdir().unwrap(), Time(unix_now()));
        let authority = Authority::init(&dir.path().join("ca"), "Test federation", now).unwrap();
        let lyon = issue(&authority, dir.path(), Role::Server, "lyon", now);
        Federation { dir, authority, lyon, now }
    }

    /// What a user signs.
    fn sign(&self, user: &str, bytes: &[u8]) -> Signature {
        let folder = self.dir.path().join(format!("user-{user}"));
        if !folder.exists() {
            issue(&self.authority, self.dir.path(), Role::User, user, self.now);
        }
        ClientTls::load(&Credentials::in_folder(&folder)).unwrap().sign(bytes).unwrap()
    }

    /// An empty memory of this authority's certificates.
    fn issued(&self, certificates: usize, signatures: usize) -> IssuedCertificates {
        let trust = Trust::load(&self.lyon).unwrap();
        IssuedCertificates::bounded(issued(&trust).unwrap(), certificates, signatures)
    }
}

fn issue(authority: &Authority, dir: &Path, role: Role, name: &str, now: Time) -> Credentials {
    let order = CertificateRequest::new(Identity::new(role, name).unwrap());
    authority.issue_into(&dir.join(format!("{role}-{name}")), &order, now).unwrap().1
}

#[test]
fn a_remembered_certificate_is_valid_when_it_is_valid_in_full_verification() {
    let federation = Federation::new();
    let certificate = federation.sign("alice", b"").certificate;
    let known = federation.issued(8, 8);
    let signer = known.verified(&certificate, federation.now).unwrap();
    let (first, last) = (signer.not_before.0, signer.peer.not_after.0);
    assert!(first < federation.now.0 && federation.now.0 < last);
    let check = |at: i64, expected: bool| {
        let anew = federation.issued(8, 8).verified(&certificate, Time(at)).map(|_| ());
        assert_eq!(anew.is_ok(), expected, "{at}");
        assert_eq!(known.verified(&certificate, Time(at)).map(|_| ()), anew, "{at}");
    };
    for at in [first, first + 1, last - 1, last] {
        check(at, true);
    }
    for at in [first - 1, last + 1, 0, -1, i64::MIN, i64::MAX] {
        check(at, false);
    }
    assert_eq!(known.remembered().0, 1);
}

#[test]
fn what_is_refused_is_not_remembered() {
    let (federation, other) = (Federation::new(), Federation::new());
    let certificate = federation.sign("alice", b"").certificate;
    let other_authority = other.sign("alice", b"").certificate;
    let known = federation.issued(8, 8);
    assert!(known.verified(&certificate, Time(0)).is_err(), "it is not valid then");
    for _ in 0..2 {
        assert!(known.verified(&other_authority, federation.now).is_err());
        assert!(known.verified(b"no certificate", federation.now).is_err());
    }
    assert_eq!(known.remembered().0, 0);
    known.verified(&certificate, federation.now).unwrap();
    for at in (0..certificate.len()).step_by(7) {
        let mut damaged = certificate.clone();
        damaged[at] ^= 1;
        assert!(known.verified(&damaged, federation.now).is_err(), "byte {at}");
    }
    assert_eq!(known.remembered().0, 1);
}

#[test]
fn a_remembered_signature_counts_for_its_key_and_its_bytes() {
    let federation = Federation::new();
    let (alice, bob) = (federation.sign("alice", b"run this"), federation.sign("bob", b"run this"));
    let known = federation.issued(8, 8);
    let holder = |signature: &Signature| known.verified(&signature.certificate, federation.now).unwrap();
    for _ in 0..2 {
        assert!(known.is_signed(&holder(&alice), b"run this", &alice.bytes));
        assert!(!known.is_signed(&holder(&bob), b"run this", &alice.bytes));
        assert!(!known.is_signed(&holder(&alice), b"run that", &alice.bytes));
        assert!(!known.is_signed(&holder(&alice), b"run this", &bob.bytes));
        assert!(!known.is_signed(&holder(&alice), b"run this", &alice.bytes[1..]));
        assert_eq!(known.remembered().1, 1);
    }
}

#[test]
fn a_bounded_number_is_remembered() {
    let federation = Federation::new();
    let known = federation.issued(4, 6);
    for number in 0..20 {
        let bytes = [number; 3];
        let signature = federation.sign(&format!("user{number}"), &bytes);
        let signer = known.verified(&signature.certificate, federation.now).unwrap();
        assert!(known.is_signed(&signer, &bytes, &signature.bytes));
        let (certificates, signatures) = known.remembered();
        assert!(certificates <= 4 && signatures <= 6, "{certificates} {signatures}");
    }
    assert_eq!(known.remembered().0, 4);
}

#[test]
fn new_roots_begin_with_nothing_and_an_old_root_ends_what_it_issued() {
    let federation = Federation::new();
    let Federation { authority, lyon, now, dir } = &federation;
    let side = ReloadingConfig::load(lyon, |_, _, _| Ok(())).unwrap();
    let verified = |signature: &Signature| {
        let (_, issued) = side.verifier();
        issued.verified(&signature.certificate, *now).map(|_| issued.remembered().0)
    };
    let (alice, bob) = (federation.sign("alice", b""), federation.sign("bob", b""));
    assert_eq!((verified(&alice), verified(&bob), verified(&alice)), (Ok(1), Ok(2), Ok(2)));
    authority.begin_rollover(*now).unwrap();
    fs::copy(authority.ca_path(), &lyon.ca).unwrap();
    assert_eq!(verified(&alice), Ok(1), "both roots are trusted");
    authority.switch_rollover(*now).unwrap();
    let order = CertificateRequest {
        renew: true,
        ..CertificateRequest::new(Identity::new(Role::Server, "lyon").unwrap())
    };
    authority.issue_into(&dir.path().join("server-lyon"), &order, *now).unwrap();
    let carol = federation.sign("carol", b"");
    assert_eq!((verified(&alice), verified(&carol)), (Ok(1), Ok(2)));
    authority.finish_rollover(true, *now).unwrap();
    fs::copy(authority.ca_path(), &lyon.ca).unwrap();
    assert_eq!(verified(&alice).map_err(|error| error.word()), Err("certificate"));
    assert_eq!(verified(&carol), Ok(1));
}
