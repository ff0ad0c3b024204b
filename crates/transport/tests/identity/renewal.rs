//! Certificates and roots that are replaced while daemons and clients run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pliant_model::Time;
use pliant_transport::{
    Authority, AuthorityError, CertificateRequest, ClientTls, Credentials, Identity, Role, RolloverStep,
    ServerTls, SigningRequest, channel, install, request_certificate, request_renewal,
};
use tonic::transport::Channel;

use crate::federation::*;

/// Files of their own, which may be replaced.
fn own_files(federation: &Federation, folder: &str, role: Role, name: &str) -> Credentials {
    let dir = federation.dir.path().join(folder);
    let order = CertificateRequest {
        days: 30,
        renew: true,
        ..CertificateRequest::new(Identity::new(role, name).unwrap())
    };
    federation.authority.issue_into(&dir, &order, now()).unwrap().1
}

fn put(from: &Path, to: &Path) {
    let draft = to.with_extension("draft");
    fs::copy(from, &draft).unwrap();
    fs::rename(draft, to).unwrap();
}

fn replace(files: &Credentials, with: &Credentials) {
    put(&with.key, &files.key);
    put(&with.cert, &files.cert);
}

#[tokio::test]
async fn a_daemon_shows_its_new_certificate_and_keeps_the_old_one_while_the_files_are_bad() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let alpha = own_files(&federation, "alpha", Role::Server, "alpha");
    let tls = Arc::new(ServerTls::load(&alpha).unwrap());
    let first = tls.own().serial;
    let anna = federation.issue(Role::User, "anna");
    let daemon = Daemon::start(&alpha, long()).await;
    let open = daemon.channel(&anna);
    ask(&open).await.unwrap();

    let other = Federation::named("other");
    let late = federation.issue_at(Role::Server, "alpha", Time(now().0 + DAY_S), 30);
    for (case, bad, logged) in [
        ("damaged", None, "expected a certificate"),
        (
            "of another server",
            Some(federation.issue(Role::Server, "beta")),
            "expected a certificate of server/alpha",
        ),
        ("of another authority", Some(other.issue(Role::Server, "alpha")), "UnknownIssuer"),
        ("expired", Some(federation.expired(Role::Server, "alpha")), "expired"),
        ("not valid yet", Some(late), "not valid yet"),
        ("revoked", Some(federation.revoked(Role::Server, "alpha")), "Revoked"),
    ] {
        put(&federation.authority.crl_path(), alpha.crl.as_deref().unwrap());
        let before = log.text().len();
        match &bad {
            Some(bad) => replace(&alpha, bad),
            None => fs::write(&alpha.cert, "hello").unwrap(),
        }
        assert!(daemon.ask(&anna).await.is_ok(), "{case}");
        tls.refresh();
        assert_eq!(tls.own().serial, first, "{case}");
        let lines = log.text().split_off(before);
        assert!(lines.contains("WARN") && lines.contains(logged), "{case}: {lines}");
    }
    // A certificate without its key, then both.
    let next = own_files(&federation, "next", Role::Server, "alpha");
    put(&next.cert, &alpha.cert);
    tls.refresh();
    assert_eq!(tls.own().serial, first);
    put(&next.key, &alpha.key);
    tls.refresh();
    assert_ne!(tls.own().serial, first);
    assert_eq!(tls.own().serial, ServerTls::load(&next).unwrap().own().serial);
    assert!(tls.validity().own >= Time(now().0 + 29 * DAY_S));

    // The daemon shows the new one to new connections: the old one may be revoked, and open ones end then.
    federation.authority.revoke(first.as_str(), now()).unwrap();
    assert!(daemon.ask(&anna).await.is_ok(), "over a new connection");
}

#[tokio::test]
async fn a_client_shows_its_new_certificate_before_the_old_one_expires() {
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    let anna = own_files(&federation, "anna", Role::User, "anna");
    // It expires in half an hour, which is soon.
    let soon = federation.issue_at(Role::User, "anna", Time(now().0 + 1_800 - DAY_S), 1);
    replace(&anna, &soon);
    let open = daemon.channel(&anna);
    let first = ask(&open).await.unwrap();
    replace(&anna, &own_files(&federation, "next", Role::User, "anna"));
    // A call may fail that is under way when the connection ends; the next ones go over a new one.
    loop {
        match ask(&open).await {
            Ok(answer) if answer != first => break,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// The files of a participant without a revocation list of its own, and with a copy of `ca.pem`.
fn at(federation: &Federation, folder: &str, role: Role, name: &str) -> Credentials {
    own_files(federation, folder, role, name)
}

fn distribute(authority: &Authority, to: &[&Credentials]) {
    for files in to {
        put(&authority.ca_path(), &files.ca);
        put(&authority.crl_path(), files.crl.as_deref().unwrap());
    }
}

#[tokio::test]
async fn a_root_is_replaced_and_everybody_is_served_all_the_time() {
    let federation = Federation::new();
    let authority = &federation.authority;
    let [alpha, anna, bo] = [(Role::Server, "alpha"), (Role::User, "anna"), (Role::User, "bo")]
        .map(|(role, name)| at(&federation, name, role, name));
    let daemon = Daemon::start(&alpha, long()).await;
    let tls = |files: &Credentials| Arc::new(ClientTls::load(files).unwrap());
    let expected = Identity::new(Role::Server, "alpha").unwrap();
    let address = daemon.address.to_string();
    let connect = |tls: &Arc<ClientTls>| -> Channel { channel(&address, &expected, tls.clone(), &patient()) };
    let (anna_tls, bo_tls) = (tls(&anna), tls(&bo));
    let open = connect(&anna_tls);
    let served = async |what: &str| {
        for channel in [&open, &connect(&anna_tls), &connect(&bo_tls)] {
            ask(channel).await.unwrap_or_else(|status| panic!("{what}: {status:?}"));
        }
    };
    assert!(matches!(authority.switch_rollover(now()), Err(AuthorityError::Rollover { .. })));
    assert!(matches!(authority.finish_rollover(false, now()), Err(AuthorityError::Rollover { .. })));
    authority.begin_rollover(now()).unwrap();
    served("the new root is not known yet").await;
    // A revocation is known from the list of the old root where the new one is not known.
    let carl = federation.issue(Role::User, "carl");
    authority.revoke("carl", now()).unwrap();
    put(&authority.crl_path(), alpha.crl.as_deref().unwrap());
    assert_eq!(unsent(daemon.ask(&Credentials { crl: None, ..carl.clone() }).await).1, "refused");
    distribute(authority, &[&alpha, &anna, &bo]);
    served("both roots are known").await;
    let status = authority.switch_rollover(now()).unwrap();
    assert_eq!((status.step, status.roots), (Some(RolloverStep::Switched), 2));
    assert_eq!(status.waiting, ["server/alpha", "user/anna", "user/bo"]);
    // The server renews first, then one user; the other one has the old root's certificate.
    let renew = |files: &Credentials, role, name: &str| {
        replace(files, &own_files(&federation, &format!("{name}-renewed"), role, name));
    };
    renew(&alpha, Role::Server, "alpha");
    served("the server has renewed").await;
    renew(&anna, Role::User, "anna");
    served("a user has renewed").await;
    let error = authority.finish_rollover(false, now()).unwrap_err();
    assert!(matches!(&error, AuthorityError::NotRenewed { holders } if holders == &["user/bo"]), "{error}");
    // An old certificate is still revoked by a list.
    assert_eq!(
        unsent(daemon.ask(&Credentials { crl: None, ca: anna.ca.clone(), ..carl }).await).1,
        "refused"
    );
    let bo_old = Credentials {
        cert: federation.dir.path().join("bo-old.pem"),
        key: federation.dir.path().join("bo-old.key"),
        ..bo.clone()
    };
    fs::copy(&bo.cert, &bo_old.cert).unwrap();
    fs::copy(&bo.key, &bo_old.key).unwrap();
    renew(&bo, Role::User, "bo");
    served("all have renewed").await;
    assert_eq!(authority.rollover(now()).unwrap().waiting, Vec::<String>::new());
    let status = authority.finish_rollover(false, now()).unwrap();
    assert_eq!((status.step, status.roots), (None, 1));
    distribute(authority, &[&alpha, &anna, &bo]);
    served("the old root is dropped").await;
    assert_eq!(unsent(daemon.ask(&bo_old).await).1, "refused", "a certificate of the old root");
    authority.revoke("bo", now()).unwrap();
    put(&authority.crl_path(), alpha.crl.as_deref().unwrap());
    assert_eq!(unsent(daemon.ask(&bo).await).1, "refused", "the new root's list counts");
    // A second one of the same authority.
    authority.begin_rollover(now()).unwrap();
    authority.switch_rollover(now()).unwrap();
    assert!(federation.issue(Role::User, "dora").cert.exists());
}

#[test]
fn a_restored_authority_undoes_no_revocation() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let [alpha, anna, bo, carl] =
        [(Role::Server, "alpha"), (Role::User, "anna"), (Role::User, "bo"), (Role::User, "carl")]
            .map(|(role, name)| own_files(&federation, name, role, name));
    let ca = federation.dir.path().join("ca");
    let copy = federation.dir.path().join("copy");
    copy_folder(&ca, &copy);
    let tls = ServerTls::load(&alpha).unwrap();
    let own_list = alpha.crl.as_deref().unwrap();
    let peer = |files: &Credentials| ClientTls::load(files).unwrap().own();
    let [anna, bo, carl] = [&anna, &bo, &carl].map(peer);
    federation.authority.revoke("anna", now()).unwrap();
    put(&federation.authority.crl_path(), own_list);
    assert!(tls.check(&anna).is_err() && tls.check(&bo).is_ok());
    // The copy does not know of that, and its list has the same number.
    let restored = Authority::open(&copy).unwrap();
    restored.revoke("bo", now()).unwrap();
    put(&restored.crl_path(), own_list);
    assert!(tls.check(&anna).is_err() && tls.check(&bo).is_ok(), "{}", log.text());
    assert!(log.text().contains("expected the content of list 2 as it was read before"), "{}", log.text());
    restored.revoke("carl", now()).unwrap();
    put(&restored.crl_path(), own_list);
    assert!([&anna, &bo, &carl].into_iter().all(|peer| tls.check(peer).is_err()), "{}", log.text());
    assert!(log.text().contains(&format!("serials=\"{}\"", anna.serial)), "{}", log.text());
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// A request for a certificate in a folder of its own.
fn requested(federation: &Federation, folder: &str, name: &str) -> (PathBuf, SigningRequest) {
    let dir = federation.dir.path().join(folder);
    let written = request_certificate(&dir, &Identity::new(Role::User, name).unwrap()).unwrap();
    let request = SigningRequest::read(&written.request).unwrap();
    assert_eq!((&request.identity, &request.fingerprint), (&written.identity, &written.fingerprint));
    (dir, request)
}

/// Signs it into a file.
fn signed(
    federation: &Federation,
    dir: &Path,
    request: &SigningRequest,
    renew: bool,
) -> Result<PathBuf, AuthorityError> {
    let order = CertificateRequest { renew, days: 30, ..CertificateRequest::new(request.identity.clone()) };
    let issued = federation.authority.sign(request, &order, now())?;
    assert!(issued.key_pem.is_none());
    let file = dir.join("signed.pem");
    fs::write(&file, issued.cert_pem).unwrap();
    Ok(file)
}

#[tokio::test]
async fn a_holder_makes_the_key_and_renews_it() {
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    let (dir, request) = requested(&federation, "anna", "anna");
    let certificate = signed(&federation, &dir, &request, false).unwrap();
    let ca = federation.authority.ca_path();
    let files = install(&dir, &certificate, Some(&ca)).unwrap().files;
    let files = Credentials { crl: None, ..files };
    let first = daemon.ask(&files).await.unwrap();
    assert!(first.starts_with("user/anna "));

    // Asking twice asks for the same key; until it is certified the present pair stays in use.
    let renewal = request_renewal(&dir, false).unwrap();
    assert_eq!(request_renewal(&dir, false).unwrap(), renewal);
    assert_ne!(renewal.fingerprint, request.fingerprint);
    assert_eq!(daemon.ask(&files).await.unwrap(), first);
    let request = SigningRequest::read(&renewal.request).unwrap();
    let error = signed(&federation, &dir, &request, false).unwrap_err();
    assert!(matches!(error, AuthorityError::Taken { .. }), "{error}");
    let certificate = signed(&federation, &dir, &request, true).unwrap();
    install(&dir, &certificate, None).unwrap();
    let second = daemon.ask(&files).await.unwrap();
    assert_ne!(first, second);
    assert!(!renewal.key.exists());

    // The same key again has another number; once it is revoked, no holder gets a certificate for it.
    let renewal = request_renewal(&dir, true).unwrap();
    assert_eq!(renewal.fingerprint, request.fingerprint);
    let request = SigningRequest::read(&renewal.request).unwrap();
    let certificate = signed(&federation, &dir, &request, true).unwrap();
    install(&dir, &certificate, None).unwrap();
    assert_ne!(daemon.ask(&files).await.unwrap(), second);
    federation.authority.revoke("anna", now()).unwrap();
    let error = signed(&federation, &dir, &request, true).unwrap_err();
    assert!(matches!(error, AuthorityError::UsedKey { is_revoked: true, .. }), "{error}");
}

#[test]
fn requests_that_prove_nothing_are_refused() {
    let federation = Federation::new();
    let (dir, request) = requested(&federation, "anna", "anna");
    let path = dir.join("request.pem");
    let text = fs::read_to_string(&path).unwrap();
    // Another name in the same bytes: the signature is not of them.
    let der = {
        let lines: String = text.lines().filter(|line| !line.starts_with('-')).collect();
        lines
    };
    let wrong = federation.dir.path().join("wrong.pem");
    let check = |content: &str, expected: &str| {
        fs::write(&wrong, content).unwrap();
        let error = SigningRequest::read(&wrong).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("hello", "expected a request for a certificate");
    check(&text[..text.len() / 2], "expected a request for a certificate");
    // The last character of the signature but padding.
    let place = der.trim_end_matches('=').len() - 2;
    let other = if der.as_bytes()[place] == b'A' { "B" } else { "A" };
    let forged = format!("{}{other}{}", &der[..place], &der[place + 1..]);
    check(
        &format!("-----BEGIN CERTIFICATE REQUEST-----\n{forged}\n-----END CERTIFICATE REQUEST-----\n"),
        "not signed with the key",
    );
    check(
        &fs::read_to_string(federation.authority.ca_path()).unwrap(),
        "expected a request for a certificate",
    );

    // The operator has said another name; bob sends alice's request; another key's certificate is put into the folder.
    let order = CertificateRequest::new(Identity::new(Role::User, "bo").unwrap());
    let error = federation.authority.sign(&request, &order, now()).err().unwrap();
    assert!(matches!(error, AuthorityError::OtherHolder { .. }), "{error}");
    let order = CertificateRequest::new(Identity::new(Role::Operator, "anna").unwrap());
    assert!(federation.authority.sign(&request, &order, now()).is_err());
    signed(&federation, &dir, &request, false).unwrap();
    let (other_dir, other) = requested(&federation, "carl", "carl");
    let certificate = signed(&federation, &other_dir, &other, false).unwrap();
    let error = install(&dir, &certificate, Some(&federation.authority.ca_path())).unwrap_err();
    assert!(matches!(error, AuthorityError::OtherKey { .. }), "{error}");
    let stranger = Federation::named("other");
    let error = install(&other_dir, &certificate, Some(&stranger.authority.ca_path())).unwrap_err();
    assert!(matches!(error, AuthorityError::Own(_)), "{error}");
    assert!(!other_dir.join("cert.pem").exists() && !other_dir.join("ca.pem").exists());
}
