//! `pliant ca`: requests, signing and rollover as operators and users meet them, and what daemons' files are warned of.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;
use support::{call, folder, go, refused};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_key_is_made_by_its_holder_and_the_operator_confirms_who_that_is() {
    let folder = folder();
    let dir = folder.path();
    go(dir, "ca init ca");
    let made = go(dir, "--format json ca request user alice --out alice").json();
    let (key, number) = (dir.join("alice/key.pem"), made["key_sha256"].as_str().unwrap().to_owned());
    assert_eq!(mode(&key), 0o600);
    assert!(!fs::read_to_string(dir.join("alice/request.pem")).unwrap().contains("PRIVATE"));
    let again = call(dir, "ca request user alice --out alice");
    refused(&again, "a second key", 2, "key.pem: expected no file, found one", "--renew");

    // The operator gets nothing but the request. The request alone is not believed.
    fs::rename(dir.join("alice/request.pem"), dir.join("mail.pem")).unwrap();
    let command = format!("`pliant ca sign mail.pem user alice --ca ca`; its key is {number}");
    let alone = call(dir, "ca sign mail.pem --ca ca");
    refused(&alone, "no name", 2, "found none; the request says user/alice", &command);
    let other = call(dir, "ca sign mail.pem operator alice --ca ca");
    refused(
        &other,
        "another role",
        2,
        "expected a request for a certificate of operator/alice, found one of user/alice",
        "nothing was signed",
    );
    refused(
        &call(dir, "ca sign ca/ca.pem user alice --ca ca"),
        "no request",
        2,
        "expected a request",
        "pliant ca request",
    );
    assert_eq!(go(dir, "--format json ca list --ca ca").json()["certificates"], json!([]));

    let signed = go(dir, "--format json ca sign mail.pem user alice --ca ca --days 30").json();
    assert_eq!(
        (signed["key_sha256"].as_str().unwrap(), signed["files"]["cert"].as_str().unwrap()),
        (&*number, "user-alice.pem")
    );
    let twice = call(dir, "ca sign mail.pem user alice --ca ca");
    refused(&twice, "a file that is there", 2, "user-alice.pem: expected no file, found one", "--renew");
    let without = call(dir, "ca install user-alice.pem --dir alice");
    refused(&without, "no authority", 2, "ca.pem: cannot read", "");
    go(dir, "ca install user-alice.pem --dir alice --authority ca/ca.pem");
    let files = ["ca.pem", "cert.pem", "key.pem"].map(|name| dir.join("alice").join(name).exists());
    assert_eq!(files, [true; 3]);

    // The renewal has a new key, which waits for its certificate.
    let before = fs::read(&key).unwrap();
    let renewal = go(dir, "--format json ca request --renew --out alice").json();
    assert!(
        renewal["key"].as_str().unwrap().ends_with("key.new.pem")
            && renewal["key_sha256"] != signed["key_sha256"]
    );
    assert_eq!((fs::read(&key).unwrap(), mode(&dir.join("alice/key.new.pem"))), (before.clone(), 0o600));
    let taken = call(dir, "ca sign alice/request.pem user alice --ca ca");
    refused(&taken, "no renewal", 2, "expected a holder without a certificate", "--renew");
    go(dir, "ca sign alice/request.pem user alice --ca ca --renew --out new.pem");
    go(dir, "ca install new.pem --dir alice");
    assert!(fs::read(&key).unwrap() != before && !dir.join("alice/key.new.pem").exists());
    refused(
        &call(dir, "ca install user-alice.pem --dir alice"),
        "the earlier one",
        2,
        "found one of another key",
        "",
    );
    let listed = go(dir, "--format json ca list --ca ca").json();
    assert_eq!(listed["certificates"].as_array().unwrap().len(), 2);
}

#[test]
fn a_rollover_says_what_comes_next_and_who_has_not_renewed() {
    let folder = folder();
    let dir = folder.path();
    go(dir, "ca init ca");
    go(dir, "ca issue user alice --ca ca --out alice");
    let roots = || fs::read_to_string(dir.join("ca/ca.pem")).unwrap().matches("BEGIN CERTIFICATE").count();
    let lists = || fs::read_to_string(dir.join("ca/crl.pem")).unwrap().matches("BEGIN X509 CRL").count();
    refused(
        &call(dir, "ca rollover switch --ca ca"),
        "too early",
        2,
        "expected a rollover that has begun, found none",
        "pliant ca rollover",
    );
    assert!(go(dir, "ca rollover begin --ca ca").stdout.contains("pliant ca rollover switch"));
    assert_eq!((roots(), lists()), (2, 2));
    refused(&call(dir, "ca rollover finish --ca ca"), "too early", 2, "found one that has only begun", "");
    refused(
        &call(dir, "ca rollover switch --force --ca ca"),
        "forced",
        2,
        "--force: expected the step finish",
        "",
    );
    let switched = go(dir, "--format json ca rollover switch --ca ca").json();
    assert_eq!((&switched["step"], &switched["waiting"]), (&json!("switched"), &json!(["user/alice"])));
    refused(&call(dir, "ca rollover finish --ca ca"), "too early", 2, "found none of user/alice", "--force");
    go(dir, "ca issue user alice --ca ca --out alice --renew");
    assert!(go(dir, "ca rollover --ca ca").stdout.contains("all holders have certificates of it"));
    go(dir, "ca rollover finish --ca ca");
    assert_eq!((roots(), lists()), (1, 1));
    assert!(!dir.join("ca/ca.key").exists(), "the old key is removed");
    go(dir, "ca revoke alice --ca ca");
    go(dir, "ca issue user bob --ca ca --out bob");
}

#[test]
fn a_file_without_a_revocation_list_is_warned_of() {
    let folder = folder();
    let dir = folder.path();
    let file = |crl: &str| {
        let tls = "[tls]\nca = \"ca.pem\"\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
        fs::write(
            dir.join("agent.toml"),
            format!("name = \"a\"\nlisten = \"127.0.0.1:0\"\nstate = \"s\"\n{tls}{crl}"),
        )
        .unwrap();
        go(dir, "--format json agent --check agent.toml")
    };
    let said = file("");
    assert!(
        said.stderr.contains("warning: agent.toml: tls.crl: expected the file of a revocation list"),
        "{}",
        said.stderr
    );
    // None of the files is there either.
    assert_eq!(said.json()["warnings"].as_array().unwrap().len(), 2);
    go(dir, "ca init ca");
    go(dir, "ca issue agent a --ca ca --out .");
    let said = file("crl = \"crl.pem\"\n");
    assert_eq!((said.stderr.as_str(), &said.json()["warnings"]), ("", &json!([])));
}
