//! Identities in certificates, and certificates that are refused.

use pliant_transport::{Role, ServerTls, TlsError};

use crate::federation::*;

#[tokio::test]
async fn every_role_is_known_by_its_certificate() {
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    for (role, name) in [
        (Role::User, "anna.b@lab"),
        (Role::Operator, "anna.b@lab"),
        (Role::Agent, "top"),
        (Role::Server, "be-ta"),
    ] {
        let files = federation.issue(role, name);
        let serial = federation.authority.list().unwrap().pop().unwrap().serial;
        assert_eq!(daemon.ask(&files).await.unwrap(), format!("{role}/{name} {serial}"));
    }
}

#[tokio::test]
async fn clients_without_a_valid_certificate_are_refused_and_logged() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    // Authorities differ in name or, if they share it, in signature.
    let (namesake, other) = (Federation::new(), Federation::named("other"));
    for (files, expected, logged) in [
        (federation.stranger(&namesake, Role::User, "anna"), "another authority", "BadSignature"),
        (federation.stranger(&other, Role::User, "anna"), "another authority", "UnknownIssuer"),
        (federation.expired(Role::User, "bo"), "our certificate has expired", "expired"),
        (federation.revoked(Role::User, "carl"), "our certificate has been revoked", "Revoked"),
    ] {
        let before = log.text().len();
        let (message, reason) = unsent(daemon.ask(&files).await);
        assert!(reason == "refused" && message.contains(expected), "{reason}: {message}");
        let line = log.text().split_off(before);
        assert!(line.contains("connection refused") && line.contains("remote=127.0.0.1:"), "{line}");
        assert!(line.contains(logged), "{line}");
    }
    assert!(daemon.ask(&federation.issue(Role::User, "dora")).await.is_ok(), "others are served as before");
}

#[tokio::test]
async fn clients_refuse_daemons_that_are_not_the_one_they_want() {
    let federation = Federation::new();
    let anna = federation.issue(Role::User, "anna");
    let (namesake, other) = (Federation::new(), Federation::named("other"));
    for (case, files, expected) in [
        ("of a namesake", federation.stranger(&namesake, Role::Server, "alpha"), "BadSignature"),
        ("of another authority", federation.stranger(&other, Role::Server, "alpha"), "UnknownIssuer"),
        ("of another name", federation.issue(Role::Server, "beta"), "not valid for name"),
        ("of another role", federation.issue(Role::Agent, "alpha"), "not valid for name"),
        ("expired", federation.expired(Role::Server, "alpha"), "expired"),
        ("revoked", federation.revoked(Role::Server, "alpha"), "Revoked"),
    ] {
        let daemon = Daemon::start(&files, long()).await;
        let (message, reason) = unsent(daemon.ask(&anna).await);
        assert!(reason == "untrusted" && message.contains(expected), "{case}: {reason}: {message}");
    }
}

#[tokio::test]
async fn people_cannot_be_daemons() {
    let federation = Federation::new();
    let error = ServerTls::load(&federation.issue(Role::Operator, "root")).err().unwrap();
    assert!(matches!(&error, TlsError::NotADaemon { found, .. } if found.name == "root"), "{error}");
}
