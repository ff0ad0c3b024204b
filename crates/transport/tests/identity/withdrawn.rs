//! Certificates that were good and are so no more: revoked or expired.

use std::fs;
use std::time::Duration;

use pliant_model::Time;
use pliant_transport::{Credentials, Role, ServerTls, TlsError, not_sent};
use tonic::Code;
use tonic::transport::Channel;

use crate::federation::*;

#[tokio::test]
async fn a_revocation_meets_open_and_new_connections() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    let [anna, bo] = ["anna", "bo"].map(|name| federation.issue(Role::User, name));
    let (open, other) = (daemon.channel(&anna), daemon.channel(&bo));
    assert!(ask(&open).await.is_ok() && ask(&other).await.is_ok());

    federation.revoke(&anna);
    let status = ask(&open).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    assert!(status.message().contains("user/anna has been revoked"), "{status:?}");
    assert!(not_sent(&status).is_none(), "the daemon answered it");
    assert!(log.text().contains("request refused"), "{}", log.text());

    let (message, reason) = unsent(daemon.ask(&anna).await);
    assert!(reason == "refused" && message.contains("our certificate has been revoked"), "{message}");
    assert!(ask(&other).await.is_ok() && daemon.ask(&bo).await.is_ok(), "other certificates stay valid");
}

#[tokio::test]
async fn an_expiry_meets_open_connections() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    // On a slow machine it may have expired before the first call.
    let open = async |seconds: i64| {
        let anna = federation.issue_at(Role::User, "anna", Time(now().0 + seconds - DAY_S), 1);
        let channel = daemon.channel(&anna);
        ask(&channel).await.is_ok().then_some(channel)
    };
    let mut found = None;
    for seconds in [2, 5, 20, 60] {
        found = open(seconds).await;
        if found.is_some() {
            break;
        }
    }
    let channel = found.expect("a minute is enough for one call");
    let status = loop {
        match ask(&channel).await {
            Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(status) => break status,
        }
    };
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    assert!(status.message().contains("user/anna has expired on"), "{status:?}");
    assert!(not_sent(&status).is_none(), "the daemon answered it");
    assert!(log.text().contains("request refused"), "{}", log.text());
}

#[tokio::test]
async fn clients_notice_that_a_daemon_is_one_no_longer_while_they_are_connected() {
    let federation = Federation::new();
    let anna = federation.issue(Role::User, "anna");
    // Until it fails: on a connection that stays open nothing else would end it.
    let until_it_ends = async |channel: Channel| {
        while ask(&channel).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        unsent(ask(&channel).await)
    };
    let open = async |seconds: i64| {
        let alpha = federation.issue_at(Role::Server, "alpha", Time(now().0 + seconds - DAY_S), 1);
        let daemon = Daemon::start(&alpha, long()).await;
        let channel = daemon.channel(&anna);
        ask(&channel).await.is_ok().then_some((daemon, channel))
    };
    let mut found = None;
    // On a slow machine it may have expired before the first call.
    for seconds in [2, 5, 20, 60] {
        found = open(seconds).await;
        if found.is_some() {
            break;
        }
    }
    let (_daemon, channel) = found.expect("a minute is enough for one call");
    let (message, reason) = until_it_ends(channel).await;
    assert!(reason == "untrusted" && message.contains("expired"), "{message}");

    let beta = federation.issue(Role::Server, "alpha");
    let daemon = Daemon::start(&beta, long()).await;
    let channel = daemon.channel(&anna);
    assert!(ask(&channel).await.is_ok());
    federation.revoke(&beta);
    let (message, reason) = until_it_ends(channel).await;
    assert!(reason == "untrusted" && message.contains("Revoked"), "{message}");
}

#[tokio::test]
async fn a_bad_revocation_list_forgets_nothing() {
    let federation = Federation::new();
    let alpha = federation.issue(Role::Server, "alpha");
    let empty = fs::read(federation.authority.crl_path()).unwrap();
    let [anna, bo] = ["anna", "bo"].map(|name| federation.issue(Role::User, name));
    federation.revoke(&anna);
    let daemon = Daemon::start(&alpha, long()).await;
    let other = Federation::new();
    for _ in 0..5 {
        other.revoked(Role::User, "carl");
    }
    let other_list = fs::read(other.authority.crl_path()).unwrap();

    let (log, _guard) = Log::start();
    let list = alpha.crl.as_deref().unwrap();
    // Clients read a list of their own, which stays good.
    let kept = federation.dir.path().join("kept.pem");
    fs::copy(list, &kept).unwrap();
    let [anna, bo] = [anna, bo].map(|files| Credentials { crl: Some(kept.clone()), ..files });
    for (case, content, logged) in [
        ("older", Some(&empty[..]), "expected number 2 or more, found 1"),
        ("damaged", Some(&empty[..40]), "expected a revocation list"),
        ("no list", Some(&b"hello"[..]), "expected a revocation list"),
        ("of another authority", Some(&other_list[..]), "signature is of another authority"),
        ("gone", None, "cannot read"),
    ] {
        match content {
            Some(content) => fs::write(list, content).unwrap(),
            None => fs::remove_file(list).unwrap(),
        }
        let before = log.text().len();
        assert_eq!(unsent(daemon.ask(&anna).await).1, "refused", "{case}");
        assert!(daemon.ask(&bo).await.is_ok(), "{case}");
        let lines = log.text().split_off(before);
        assert!(lines.contains(logged), "{case}: {lines}");
    }
    federation.revoke(&bo);
    assert_eq!(unsent(daemon.ask(&bo).await).1, "refused", "a good list is taken again");
}

#[test]
fn a_revocation_list_that_is_named_must_be_there() {
    let federation = Federation::new();
    let files = federation.revoked(Role::Server, "alpha");
    let gone = Some(federation.dir.path().join("gone.pem"));
    let error = ServerTls::load(&Credentials { crl: gone.clone(), ..files.clone() }).err().unwrap();
    assert!(matches!(&error, TlsError::Io { path, .. } if Some(path) == gone.as_ref()), "{error}");
    let unlisted = ServerTls::load(&Credentials { crl: None, ..files.clone() }).unwrap();
    assert!(unlisted.check(&unlisted.own()).is_ok(), "nothing is revoked where no list is named");
    let listed = ServerTls::load(&files).unwrap();
    assert!(listed.check(&listed.own()).is_err());
    // A key that is not the certificate's.
    let key = federation.issue(Role::Server, "beta").key;
    let error = ServerTls::load(&Credentials { key, ..files }).err().unwrap();
    assert!(matches!(&error, TlsError::Unusable { .. }), "{error}");
}
