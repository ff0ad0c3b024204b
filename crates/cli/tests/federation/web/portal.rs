//! A portal in front of daemons, with a small provider of logins, in a real browser.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pliant_testing::browser::find;
use pliant_testing::provider::{CLIENT_ID, CLIENT_SECRET, Provider};

use super::browser::{agree, clean, click, fill, look};
use super::chromium::Browser;
use super::*;

/// A portal that ends when it is dropped.
pub(super) struct Portal {
    child: Child,
    pub(super) url: String,
    pub(super) provider: Provider,
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
    pub(super) fn start(federation: &Federation) -> Portal {
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
        std::fs::create_dir(dir.path().join("tokens")).unwrap();
        private(&dir.path().join("tokens"), 0o700);
        let text = format!(
            "listen = \"127.0.0.1:{port}\"\nurl = \"{url}\"\nidentities = \"identities\"\n\
             [[agent]]\nname = \"{MASTER}\"\naddress = \"{}\"\n\
             [tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n\
             [login]\nissuer = \"{}\"\nclient_id = \"{CLIENT_ID}\"\nclient_secret = \"secret\"\n\
             claim = \"preferred_username\"\n[tokens]\nfolder = \"tokens\"\n",
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
    // The session is in a cookie that needs TLS, and that neither scripts nor pages of other sites get.
    let cookies = alice.cookie_list(&portal.url);
    let session = cookies.iter().find(|cookie| cookie["name"] == "__Host-pliant-session");
    let session = session.unwrap_or_else(|| panic!("no session in {cookies:?}"));
    assert_eq!((&session["secure"], &session["httpOnly"]), (&json!(true), &json!(true)), "{session}");
    assert_eq!((&session["sameSite"], &session["path"]), (&json!("Lax"), &json!("/")), "{session}");
    assert_eq!(alice.evaluate("document.cookie"), "");
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

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_shows_sweeps_by_their_jobs_and_creates_tokens() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0), Cluster::new("nice", 4, 1.0)]).await;
    // A sweep of another machine: its folder is not known here.
    let user = CommandUser::new(&federation, "alice");
    let gate = user.dir().join("gate");
    let script =
        format!("#!/bin/sh\n[ \"$1\" -le 6 ] || while ! [ -e '{}' ]; do sleep 0.1; done\n", gate.display());
    std::fs::write(user.dir().join("fit.sh"), script).unwrap();
    let line = "sweep --time 5m --script fit.sh --vary x=1..12 --out fits -- {x}";
    let sweep = user.command(line).env("XDG_STATE_HOME", federation.path().join("state")).spawn().unwrap();
    let portal = Portal::start(&federation);
    let mut alice = Browser::start_trusting(&program);
    alice.open(&format!("{}/work", portal.url));
    alice.until("document.body.dataset.sweeps === '1'");
    alice.until("document.querySelector('#sweeps tbody').textContent.includes('fit.sh')");
    // Its first instances have ended, and others run at both servers.
    alice.until("Web.read('/sweeps') && [...document.querySelectorAll('#sweeps tbody td')].some((cell) => cell.textContent.includes('nice'))");
    let listed = alice.evaluate("Web.read('/sweeps').then(({ sweeps }) => sweeps[0])");
    assert_eq!((&listed["name"], &listed["owner"]), (&json!("fit.sh"), &json!("alice")));
    assert!(listed["group"]["jobs"].as_u64().unwrap() >= 2, "{listed}");
    let id = listed["group"]["value"].as_str().unwrap().to_owned();
    look(&mut alice, "portal-sweeps");
    click(&mut alice, "#sweeps tbody a");
    alice.until(&format!("document.body.dataset.page === 'jobs' && document.querySelector('#scope')?.textContent.includes('{id}')"));
    alice.until("Number((document.body.dataset.rendered ?? '').split(':')[1]) >= 2");
    std::fs::write(&gate, "").unwrap();
    let (code, _, error) = said(sweep.wait_with_output().unwrap());
    assert_eq!(code, 0, "{error}");

    // A token that the page creates reads, and changes nothing.
    alice.open(&format!("{}/tokens", portal.url));
    alice.until("document.body.dataset.rendered === 'tokens:false'");
    fill(&mut alice, "[name=for_s]", "3600");
    click(&mut alice, "#create [type=submit]");
    alice.until("document.querySelector('#created pre') && document.body.dataset.rendered === 'tokens:true'");
    look(&mut alice, "portal-tokens");
    let token = alice.evaluate("document.querySelector('#created pre').textContent");
    let call = |method: &str, path: &str| {
        let headers = format!(
            "{{ authorization: 'Bearer {}', 'content-type': 'application/json' }}",
            token.as_str().unwrap()
        );
        let body = if method == "GET" { "undefined" } else { "'{\"jobs\": [\"lyon.1\"]}'" };
        format!(
            "fetch('{path}', {{ method: '{method}', headers: {headers}, body: {body}, credentials: 'omit' }}).then((answer) => answer.status)"
        )
    };
    clean(&mut alice);
    assert_eq!(alice.evaluate(&call("GET", "/api/v1/jobs")), 200);
    assert_eq!(alice.evaluate(&call("POST", "/api/v1/jobs/cancel")), 403);
    click(&mut alice, "#revoke");
    agree(&mut alice);
    alice.until("document.body.dataset.rendered === 'tokens:false'");
    assert_eq!(alice.evaluate(&call("GET", "/api/v1/jobs")), 401);

    // An operator replays the history with the operator's own identity.
    portal.provider.log_in_as("root");
    let mut root = Browser::start_trusting(&program);
    root.open(&format!("{}/what-if", portal.url));
    root.until("document.body.dataset.rendered === 'whatif:none'");
    fill(&mut root, "[name=hours]", "1");
    click(&mut root, "#ask [type=submit]");
    root.until("document.body.dataset.rendered === 'whatif:done'");
    look(&mut root, "portal-what-if");
    root.open(&format!("{}/", portal.url));
    root.until("document.body.dataset.rendered");
    look(&mut root, "portal-overview");
    clean(&mut root);
}
