//! A portal in front of daemons, with a small provider of logins, in a real browser.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pliant_testing::browser::find;
use pliant_testing::provider::{CLIENT_ID, CLIENT_SECRET, Provider};

use super::browser::{clean, look};
use super::chromium::Browser;
use super::*;

/// A portal that ends when it is dropped.
struct Portal {
    child: Child,
    url: String,
    provider: Provider,
    dir: tempfile::TempDir,
}

impl Drop for Portal {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn private(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Portal {
    /// A portal behind TLS with identities of alice, bob and the operator root.
    fn start(federation: &Federation) -> Portal {
        let dir = tempfile::tempdir().unwrap();
        let provider = Provider::start("alice");
        let identities = dir.path().join("identities");
        std::fs::create_dir(&identities).unwrap();
        private(&identities, 0o700);
        for (role, user) in [(Role::User, "alice"), (Role::User, "bob"), (Role::Operator, "root")] {
            let folder = identities.join(user);
            std::fs::create_dir(&folder).unwrap();
            federation.certify(&folder, role, user);
        }
        let key = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(dir.path().join("cert.pem"), key.cert.pem()).unwrap();
        std::fs::write(dir.path().join("key.pem"), key.signing_key.serialize_pem()).unwrap();
        std::fs::write(dir.path().join("secret"), CLIENT_SECRET).unwrap();
        ["key.pem", "secret"].iter().for_each(|name| private(&dir.path().join(name), 0o600));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let url = format!("https://127.0.0.1:{port}");
        let text = format!(
            "listen = \"127.0.0.1:{port}\"\nurl = \"{url}\"\nidentities = \"identities\"\n\
             [[agent]]\nname = \"{MASTER}\"\naddress = \"{}\"\n\
             [tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n\
             [login]\nissuer = \"{}\"\nclient_id = \"{CLIENT_ID}\"\nclient_secret = \"secret\"\n\
             claim = \"preferred_username\"\n",
            federation.address(MASTER),
            provider.issuer
        );
        let file = dir.path().join("portal.toml");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pliant"));
        command.args(["web", "--site"]).arg(&file).stdout(Stdio::piped());
        command.stderr(std::fs::File::create(dir.path().join("log")).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, format!("{url} on 127.0.0.1:{port}\n"));
        Portal { child, url, provider, dir }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_at_a_portal_and_act_as_themselves() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    let accepted = submit(&federation.client("alice"), &order(rigid("sleep 1000", 1, 2000))).await;
    let portal = Portal::start(&federation);
    let mut alice = Browser::start_trusting(&program);
    // The first page leads to the provider and back to itself.
    alice.open(&format!("{}/jobs", portal.url));
    alice.until("document.body.dataset.page === 'jobs'");
    alice.until(&format!("document.body.innerText.includes('{}')", accepted.handle));
    look(&mut alice, "portal-jobs");
    clean(&mut alice);
    // Another user neither sees nor cancels the job.
    portal.provider.log_in_as("bob");
    let mut bob = Browser::start_trusting(&program);
    bob.open(&format!("{}/", portal.url));
    bob.until("document.querySelector('meta[name=pliant-user]')?.content === 'bob'");
    let path = format!("/jobs/{}/cancel", accepted.handle);
    let cancel = format!("Web.send('{path}', {{}}).then(() => 'done', (error) => String(error.status))");
    assert_eq!(bob.evaluate(&cancel), "404");
    assert_eq!(bob.evaluate("Web.read('/jobs').then((jobs) => jobs.matching)"), 0);
    // Its owner does.
    assert_eq!(alice.evaluate(&cancel), "done");
    let ended = federation.client("alice").wait(&accepted.handle, |_| {}).await.unwrap();
    assert_eq!(ended.state, JobState::Canceled);
    // A logout ends the session, and the page after it needs none.
    alice.evaluate("document.getElementById('logout').click()");
    alice.until("document.body.innerText.includes('You are logged out')");
    look(&mut alice, "portal-logged-out");
    assert_eq!(alice.evaluate("fetch('/api/v1/session').then((answer) => answer.status)"), 401);
    // A user without an identity.
    portal.provider.log_in_as("carol");
    alice.open(&format!("{}/", portal.url));
    alice.until("document.body.innerText.includes('ask the operators for an identity')");
    look(&mut alice, "portal-no-identity");
    let log = std::fs::read_to_string(portal.dir.path().join("log")).unwrap();
    let refused = log.lines().find(|line| line.contains("a login was refused")).unwrap_or_default();
    assert!(refused.contains("carol"), "{log}");
}
