//! What an authority writes and refuses, and which certificates name a peer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pliant_model::Time;
use rcgen::{CertificateParams, KeyPair, SanType};
use tempfile::TempDir;
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::*;

const NOW: Time = Time(1_800_000_000);

fn authority() -> (TempDir, Authority) {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::init(&dir.path().join("ca"), "Test federation", NOW).unwrap();
    (dir, authority)
}

fn order(role: Role, name: &str) -> CertificateRequest {
    CertificateRequest::new(Identity::new(role, name).unwrap())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The number of a list, and the serials in it.
fn list(authority: &Authority) -> (u64, Vec<Serial>) {
    let (_, pem) = parse_x509_pem(&fs::read(authority.crl_path()).unwrap()).unwrap();
    let (_, list) = CertificateRevocationList::from_der(&pem.contents).unwrap();
    let serials = list.iter_revoked_certificates().map(|entry| Serial::from_bytes(entry.raw_serial()));
    (list.crl_number().unwrap().to_u64_digits()[0], serials.collect())
}

#[test]
fn names_are_safe_in_certificates_files_and_hosts() {
    let longest = "x".repeat(63);
    for role in Role::ALL {
        for good in ["a", "7", "anna", "tr-1-bull", &longest] {
            let identity = Identity::new(role, good).unwrap();
            assert!(rustls::pki_types::ServerName::try_from(identity.domain()).is_ok(), "{good}");
        }
        let longer = "x".repeat(64);
        for bad in [
            "", "a\nb", "a\n", "a/b", "/", "..", ".", "../x", "a b", "A", "é", "a\0", "-a", "a-", "_a", ".a",
            "a%2f", "a:b", "$(x)", "*", "a,b", &longer,
        ] {
            let error = Identity::new(role, bad).unwrap_err();
            assert!(!error.to_string().contains(['\n', '\0']), "{error}");
        }
    }
    assert!(Identity::new(Role::User, "anna.b_c@lab.org").is_ok());
    assert!(Identity::new(Role::Operator, "root_2").is_ok());
    for bad in ["a.b", "a_b", "a@b"] {
        assert!(Identity::new(Role::Server, bad).is_err(), "a job handle is SERVER.NUMBER");
        assert!(Identity::new(Role::Agent, bad).is_err(), "a daemon's name is the label of a DNS name");
    }
    assert!("root".parse::<Role>().is_err());
}

#[test]
fn issued_files_can_be_read_by_their_holder_only() {
    let (dir, authority) = authority();
    let out = dir.path().join("out");
    let (record, files) = authority.issue_into(&out, &order(Role::Agent, "top"), NOW).unwrap();
    assert_eq!([mode(&files.key), mode(&dir.path().join("ca/ca.key"))], [0o600; 2]);
    assert_eq!([mode(&out), mode(&dir.path().join("ca"))], [0o700; 2]);
    let own = ServerTls::load(&files).unwrap().own().clone();
    let (role, name) = (Role::Agent, "top".to_owned());
    let not_after = Time(record.not_after);
    assert_eq!(own, Peer { role, name, serial: record.serial.clone(), not_after });
    assert_eq!(record.not_after, NOW.0 + 365 * 86_400);
    assert_eq!(authority.list().unwrap(), [record]);
    let drafts = fs::read_dir(&out).unwrap().count();
    assert_eq!(drafts, 4, "ca.pem, cert.pem, key.pem, crl.pem and nothing else");

    fs::set_permissions(&files.key, fs::Permissions::from_mode(0o604)).unwrap();
    assert!(matches!(ServerTls::load(&files), Err(TlsError::Exposed { mode: 0o604, .. })));
}

#[test]
fn a_serial_is_the_same_in_register_certificate_and_list() {
    let (_dir, authority) = authority();
    for number in 0..20 {
        let issued = authority.issue(&order(Role::User, &format!("u{number}")), NOW).unwrap();
        let (_, pem) = parse_x509_pem(issued.cert_pem.as_bytes()).unwrap();
        let peer = Peer::from_certificate(&pem.contents.into()).unwrap();
        assert_eq!(peer.serial, issued.record.serial);
        authority.revoke(peer.serial.as_str(), NOW).unwrap();
        assert!(list(&authority).1.contains(&peer.serial));
    }
    assert_eq!(list(&authority).1.len(), 20);
}

#[test]
fn a_taken_name_needs_a_renewal() {
    let (dir, authority) = authority();
    let anna = order(Role::User, "anna");
    let out = dir.path().join("anna");
    authority.issue_into(&out, &anna, NOW).unwrap();
    let later = Time(NOW.0 + 400 * 86_400);
    for at in [NOW, later] {
        let error = authority.issue(&anna, at).err().unwrap();
        assert!(matches!(&error, AuthorityError::Taken { holder, .. } if holder == "user/anna"), "{error}");
        assert!(error.hint().unwrap().contains("--renew"));
    }
    // Another role is another holder, but not in the same folder.
    let operator = order(Role::Operator, "anna");
    let error = authority.issue_into(&out, &operator, NOW).err().unwrap();
    assert!(matches!(error, AuthorityError::Occupied { .. }), "{error}");
    assert_eq!(authority.list().unwrap().len(), 1, "nothing is issued that cannot be written");
    authority.issue(&operator, NOW).unwrap();

    let before = fs::read(out.join("cert.pem")).unwrap();
    let renewed = CertificateRequest { renew: true, ..anna.clone() };
    authority.issue_into(&out, &renewed, later).unwrap();
    assert_ne!(fs::read(out.join("cert.pem")).unwrap(), before);
    let revocation = authority.revoke("user/anna", later).unwrap();
    assert_eq!((revocation.records.len(), revocation.newly), (2, 2), "the old and the new one");
    authority.issue(&anna, later).unwrap();
}

#[test]
fn every_revocation_has_a_newer_list() {
    let (_dir, authority) = authority();
    assert_eq!(list(&authority), (1, vec![]));
    let a = authority.issue(&order(Role::User, "anna"), NOW).unwrap().record;
    let b = authority.issue(&order(Role::Server, "anna"), NOW).unwrap().record;

    let error = authority.revoke("anna", NOW).unwrap_err();
    assert!(error.to_string().contains("server/anna, user/anna"), "{error}");
    let error = authority.revoke("no\nbody", NOW).unwrap_err();
    assert!(error.to_string().ends_with(r"found `no\nbody`"), "{error}");
    assert_eq!(list(&authority).0, 1, "nothing was signed");

    assert_eq!(authority.revoke("user/anna", NOW).unwrap().newly, 1);
    assert_eq!(list(&authority), (2, vec![a.serial.clone()]));
    let later = Time(NOW.0 + 5);
    assert_eq!(authority.revoke(b.serial.as_str(), later).unwrap().crl_number, 3);
    assert_eq!(list(&authority), (3, vec![a.serial.clone(), b.serial]));
    // Again, as after a crash between the register and the list.
    fs::remove_file(authority.crl_path()).unwrap();
    let again = authority.revoke(a.serial.as_str(), later).unwrap();
    assert_eq!((again.newly, again.records[0].revoked), (0, Some(NOW.0)));
    assert_eq!((list(&authority).0, list(&authority).1.len()), (4, 2));
}

#[test]
fn an_authority_is_made_once_and_found_again() {
    let (dir, authority) = authority();
    let ca = dir.path().join("ca");
    assert!(matches!(Authority::init(&ca, "x", NOW), Err(AuthorityError::Exists { .. })));
    assert!(matches!(Authority::open(dir.path()), Err(AuthorityError::Missing { .. })));
    assert!(matches!(
        Authority::init(&dir.path().join("b"), "a\nb", NOW),
        Err(AuthorityError::Federation(_))
    ));
    assert_eq!(Authority::open(&ca).unwrap().federation().unwrap(), "Test federation");

    let other = Authority::init(&dir.path().join("other"), "Test federation", NOW).unwrap();
    fs::copy(other.ca_path(), authority.ca_path()).unwrap();
    let error = authority.issue(&order(Role::User, "anna"), NOW).err().unwrap();
    assert!(matches!(error, AuthorityError::Keys { .. }), "{error}");
    fs::write(ca.join("register.toml"), "federation = 1\n").unwrap();
    let error = authority.list().unwrap_err();
    assert!(
        matches!(&error, AuthorityError::Register(_)) && error.to_string().contains("federation"),
        "{error}"
    );
}

#[test]
fn a_certificate_does_not_outlive_its_authority() {
    let (_dir, authority) = authority();
    for (days, good) in [(0, false), (1, true), (3_650, true), (3_651, false), (u32::MAX, false)] {
        let order = CertificateRequest { days, renew: true, ..order(Role::User, "anna") };
        assert_eq!(authority.issue(&order, NOW).is_ok(), good, "{days}");
    }
}

#[test]
fn further_names_cannot_stand_for_other_daemons() {
    let (_dir, authority) = authority();
    let check = |role, name: &str, good| {
        let order =
            CertificateRequest { extra_names: vec![name.to_owned()], renew: true, ..order(role, "alpha") };
        let issued = authority.issue(&order, NOW);
        assert_eq!(issued.is_ok(), good, "{role} {name:?}: {:?}", issued.err());
    };
    check(Role::Server, "node1.site.org", true);
    check(Role::Server, "10.0.0.1", true);
    check(Role::Server, "::1", true);
    for bad in
        ["beta.server.pliant", "beta.server.PLIANT", "pliant", "a b", "a\nb", "", "pliant://server/beta"]
    {
        check(Role::Server, bad, false);
    }
    check(Role::User, "node1.site.org", false);
}

#[test]
fn processes_can_share_an_authority() {
    let (_dir, authority) = authority();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let authority = authority.clone();
            scope.spawn(move || {
                for number in 0..5 {
                    let order = order(Role::User, &format!("u{worker}-{number}"));
                    let serial = authority.issue(&order, NOW).unwrap().record.serial;
                    authority.revoke(serial.as_str(), NOW).unwrap();
                }
            });
        }
    });
    assert_eq!(authority.list().unwrap().len(), 20);
    let (number, serials) = list(&authority);
    assert_eq!((number, serials.len()), (21, 20));
}

#[test]
fn a_peer_has_one_identity() {
    let check = |uris: &[&str], expected: Result<(Role, &str), &str>| {
        let mut params = CertificateParams::default();
        params.subject_alt_names = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        match (Peer::from_certificate(certificate.der()), expected) {
            (Ok(peer), Ok((role, name))) => assert_eq!((peer.role, &*peer.name), (role, name)),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, expected) => panic!("expected {expected:?}, found {found:?}"),
        }
    };
    check(&["pliant://user/anna"], Ok((Role::User, "anna")));
    check(&["https://lab.org/anna", "pliant://operator/bo"], Ok((Role::Operator, "bo")));
    check(&[], Err("found 0"));
    check(&["https://lab.org/anna"], Err("found 0"));
    check(&["pliant://user/anna", "pliant://operator/anna"], Err("found 2"));
    check(&["pliant://user/anna", "pliant:operator"], Err("found 2"));
    check(&["pliant:user/anna"], Err("no role and name"));
    check(&["pliant://anna"], Err("no role and name"));
    check(&["pliant://root/anna"], Err("expected a role"));
    check(&["pliant://user/a/b"], Err("expected a name"));
    check(&["pliant://user/a\nb"], Err(r"a\nb"));
    check(&["pliant://user/"], Err("expected a name"));
    check(&["pliant://server/a.b"], Err("expected a name"));
    assert!(matches!(Peer::from_certificate(&vec![1, 2, 3].into()), Err(IdentityError::Unreadable { .. })));
}

/// The credentials of some holders, with the authority's files.
fn holder(dir: &TempDir, authority: &Authority, role: Role, name: &str, at: Time) -> Credentials {
    authority.issue_into(&dir.path().join(format!("{role}-{name}")), &order(role, name), at).unwrap().1
}

/// A renewal and the replacement of the authority change nothing about what was signed before, as long as the root is trusted.
#[test]
fn signatures_outlive_certificates_and_not_their_root() {
    let now = Clock::start(Time(0)).now();
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::init(&dir.path().join("ca"), "Test federation", now).unwrap();
    let (lyon, alice) = (dir.path().join("server-lyon"), dir.path().join("user-alice"));
    let server = ServerTls::load(&holder(&dir, &authority, Role::Server, "lyon", now)).unwrap();
    let tls = ClientTls::load(&holder(&dir, &authority, Role::User, "alice", now)).unwrap();
    let renew = |role, name: &str, folder: &Path| {
        let order = CertificateRequest { renew: true, ..order(role, name) };
        let files = authority.issue_into(&dir.path().join("new"), &order, now).unwrap().1;
        for (from, to) in [(&files.key, "key.pem"), (&files.cert, "cert.pem")] {
            fs::rename(from, folder.join(to)).unwrap();
        }
        fs::remove_dir_all(dir.path().join("new")).unwrap();
    };
    let distribute = || {
        for folder in [&lyon, &alice] {
            fs::copy(authority.ca_path(), folder.join("ca.pem")).unwrap();
            fs::copy(authority.crl_path(), folder.join("crl.pem")).unwrap();
        }
    };
    let check = |signature: &pliant_control::signed::Signature, expected: Result<(), &str>| {
        let signer = server.signer(b"run this", signature, ValidAt::Then(now), Revocations::Count);
        let found = signer.map(|peer| assert_eq!(peer.name, "alice")).map_err(|error| error.word());
        assert_eq!(found, expected);
    };
    let first = tls.sign(b"run this").unwrap();
    renew(Role::User, "alice", &alice);
    let renewed = tls.sign(b"run this").unwrap();
    assert_ne!(first.certificate, renewed.certificate, "the newest certificate signs");
    authority.begin_rollover(now).unwrap();
    distribute();
    authority.switch_rollover(now).unwrap();
    renew(Role::Server, "lyon", &lyon);
    renew(Role::User, "alice", &alice);
    let of_new_root = tls.sign(b"run this").unwrap();
    for signature in [&first, &renewed, &of_new_root] {
        check(signature, Ok(()));
    }
    authority.finish_rollover(false, now).unwrap();
    distribute();
    check(&first, Err("certificate"));
    check(&renewed, Err("certificate"));
    check(&of_new_root, Ok(()));
}

#[test]
fn a_signature_says_who_signed_which_bytes() {
    let now = Clock::start(Time(0)).now();
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::init(&dir.path().join("ca"), "Test federation", now).unwrap();
    let other = Authority::init(&dir.path().join("other"), "Other federation", now).unwrap();
    let server = ServerTls::load(&holder(&dir, &authority, Role::Server, "lyon", now)).unwrap();
    let credentials = holder(&dir, &authority, Role::User, "alice", now);
    let alice = ClientTls::load(&credentials).unwrap();
    let bob = ClientTls::load(&holder(&dir, &authority, Role::User, "bob", now)).unwrap();
    let stranger = ClientTls::load(&holder(&dir, &other, Role::User, "eve", now)).unwrap();
    let signer = |bytes: &[u8], signature: &pliant_control::signed::Signature| {
        server.signer(bytes, signature, ValidAt::Now, Revocations::Count)
    };
    let signature = alice.sign(b"run this").unwrap();
    assert_eq!(signer(b"run this", &signature).unwrap(), alice.own());
    assert_eq!(signer(b"run that", &signature).unwrap_err().word(), "signature");
    for at in 0..signature.bytes.len() {
        let mut damaged = signature.clone();
        damaged.bytes[at] ^= 1;
        assert_eq!(signer(b"run this", &damaged).unwrap_err().word(), "signature", "byte {at}");
    }
    let with = |other: &ClientTls| pliant_control::signed::Signature {
        certificate: other.sign(b"").unwrap().certificate,
        ..signature.clone()
    };
    assert_eq!(signer(b"run this", &with(&bob)).unwrap_err().word(), "signature", "bob did not sign");
    let foreign = stranger.sign(b"run this").unwrap();
    assert_eq!(signer(b"run this", &foreign).unwrap_err().word(), "certificate");
    for certificate in [Vec::new(), vec![0x30; 600], fs::read(&credentials.cert).unwrap()] {
        let signature = pliant_control::signed::Signature { certificate, ..signature.clone() };
        assert_eq!(signer(b"run this", &signature).unwrap_err().word(), "certificate");
    }
    // Valid now, not years ago or ahead.
    for away in [-9_000, 9_000] {
        let then = ValidAt::Then(now + pliant_model::Span(away * 86_400));
        let found = server.signer(b"run this", &signature, then, Revocations::Count);
        assert_eq!(found.unwrap_err().word(), "certificate", "{away} days");
    }
    authority.revoke("user/alice", now).unwrap();
    fs::copy(authority.crl_path(), dir.path().join("server-lyon/crl.pem")).unwrap();
    assert_eq!(signer(b"run this", &signature).unwrap_err().word(), "revoked");
    let before = server.signer(b"run this", &signature, ValidAt::Then(now), Revocations::AreLater);
    assert_eq!(before.unwrap(), alice.own());
    assert!(signer(b"run this", &bob.sign(b"run this").unwrap()).is_ok());
}
