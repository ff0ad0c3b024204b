//! Journals in a database that is reached over TLS.

use pliant_journal::{JournalError, open_postgres};
use pliant_testing::postgres::{Credentials, Server};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

use super::support::entry_batch;

/// A certificate authority, and a certificate of it for `localhost` with its key; all as PEM.
fn certificates() -> (String, String, String) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    (authority, certificate, key.serialize_pem())
}

#[test]
fn tls_is_as_the_connection_string_demands() {
    let (authority, certificate, key) = certificates();
    let Some(server) = Server::start_with_tls(Credentials { certificate: &certificate, key: &key }) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (ours, other) = (file("ca.pem", &authority), file("other.pem", &certificates().0));
    let database = server.database();
    let is_encrypted = || {
        let text =
            "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'pliant'";
        database.query(text)
    };
    let taken = |host: &str, options: &str, encrypted: &str| {
        let connection = format!("{} {options}", database.connection_as(host));
        let mut journal = open_postgres(&connection).unwrap_or_else(|error| panic!("{connection}: {error}"));
        assert_eq!(is_encrypted(), [encrypted], "{connection}");
        journal.load().unwrap();
    };
    taken("127.0.0.1", "sslmode=disable", "f");
    taken("127.0.0.1", "", "f");
    taken("127.0.0.1", &format!("sslrootcert={ours}"), "t");
    taken("127.0.0.1", &format!("sslmode=require sslrootcert={ours}"), "t");
    taken("127.0.0.1", &format!("sslmode=verify-ca sslrootcert='{ours}'"), "t");
    taken("localhost", &format!("sslmode=verify-full sslrootcert={ours}"), "t");

    let refused = |host: &str, options: &str, expected: &str| {
        let connection = format!("{} {options}", database.connection_as(host));
        let Err(error) = open_postgres(&connection) else { panic!("{connection} is refused") };
        assert!(error.to_string().contains(expected), "{connection}: {error}");
    };
    refused("127.0.0.1", &format!("sslmode=verify-full sslrootcert={ours}"), "certificate");
    for mode in ["require", "verify-ca", "verify-full"] {
        refused("localhost", &format!("sslmode={mode} sslrootcert={other}"), "certificate");
    }
}

#[test]
fn a_server_without_tls_is_refused_if_tls_is_demanded() {
    let Some(server) = Server::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("ca.pem");
    std::fs::write(&root, certificates().0).unwrap();
    let database = server.database();
    let connection = format!("{} sslmode=require sslrootcert={}", database.connection(), root.display());
    let refused = open_postgres(&connection).err();
    assert!(
        matches!(refused, Some(JournalError::Unreachable { .. } | JournalError::Failed { .. })),
        "{refused:?}"
    );
    let mut plain = open_postgres(&database.connection()).unwrap();
    plain.commit(&entry_batch(1, 1)).unwrap();
}
