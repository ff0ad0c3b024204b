//! Certificates and roots that are replaced while daemons run: no daemon is restarted, no job is lost, no participant is refused.

use std::fs;
use std::path::Path;
use std::process::Command;

use pliant_client::{Client, ClientFile};
use pliant_control::job::JobState;
use pliant_transport::{self as transport, Credentials, Identity, Role, RolloverStep};
use rustix::process::geteuid;

use crate::harness::*;
use crate::monitoring::{page, pages};

const DAY_S: i64 = 86_400;

/// Replaces a file as a whole, as `mv` does.
fn put(from: &Path, to: &Path) {
    let draft = to.with_extension("draft");
    fs::copy(from, &draft).unwrap();
    fs::rename(draft, to).unwrap();
}

/// The files of a new certificate, outside of the folder of its holder.
fn issued(federation: &Federation, role: Role, name: &str, days: u32) -> Credentials {
    let identity = Identity::new(role, name).unwrap();
    let order =
        transport::CertificateRequest { days, renew: true, ..transport::CertificateRequest::new(identity) };
    let folder = federation.path().join("new").join(format!("{role}-{name}-{days}"));
    federation.authority.issue_into(&folder, &order, now()).unwrap().1
}

/// Gives a holder a new certificate with its key.
pub(crate) fn renew(federation: &Federation, folder: &Path, role: Role, name: &str, days: u32) {
    let files = issued(federation, role, name, days);
    put(&files.key, &folder.join("key.pem"));
    put(&files.cert, &folder.join("cert.pem"));
}

/// Gives everybody the authority's present roots and list.
pub(crate) fn distribute(federation: &Federation, folders: &[&Path]) {
    for folder in folders {
        put(&federation.authority.ca_path(), &folder.join("ca.pem"));
        put(&federation.authority.crl_path(), &folder.join("crl.pem"));
    }
}

/// A client with connections of its own.
pub(crate) fn anew(folder: &Path) -> Client {
    Client::new(&ClientFile::read(&folder.join("client.toml")).unwrap()).unwrap()
}

async fn works(client: &Client) {
    assert_eq!(run(client, &order(rigid("true", 1, 60))).await.state, JobState::Completed);
}

/// Waits until the agent says so many days of a server's certificate.
async fn days_left(federation: &Federation, days: i64) {
    until(&format!("a certificate of lyon for {days} days"), async || {
        let servers = federation.operator().servers().await.ok()?.servers;
        let left = servers[0].certificate_not_after?.0 - now().0;
        (left / DAY_S == days || left / DAY_S == days - 1).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_and_the_root_is_replaced_without_a_restart() {
    let (address, http) = pages();
    let mut federation = Federation::agent_only(&http);
    federation.add_server(&Cluster::new("lyon", 2, 1.0));
    federation.sized(1).await;
    let client = federation.client_file(Role::User, "alice");
    let folders = [federation.folder(MASTER), federation.folder("lyon"), client.parent().unwrap().to_owned()];
    let [master, lyon, alice] = &folders;
    let root = federation.credentials(Role::Operator, "root").cert;
    let root = root.parent().unwrap();
    let everybody = [master.as_path(), lyon, alice, root];
    let kept = federation.client("alice");
    let gate = federation.path().join("gate");
    let job = submit(&kept, &order(rigid(&waiting_for(&gate), 1, 1000))).await.handle;
    federation.reaches(&kept, &job, JobState::Active).await;
    let served = async |federation: &Federation| {
        works(&kept).await;
        works(&anew(alice)).await;
        federation.attached(1).await;
    };

    // A certificate that is damaged, or another server's, changes nothing but the log.
    let good = fs::read(lyon.join("cert.pem")).unwrap();
    fs::write(lyon.join("cert.pem"), "hello").unwrap();
    federation.logged("lyon", &["WARN", "new certificate files not taken", "expected a certificate"]).await;
    put(&issued(&federation, Role::Server, "paris", 30).cert, &lyon.join("cert.pem"));
    federation
        .logged(
            "lyon",
            &["WARN", "not taken", "expected a certificate of server/lyon, found one of server/paris"],
        )
        .await;
    works(&anew(alice)).await;
    fs::write(lyon.join("cert.pem"), good).unwrap();

    // A good one is used. It is warned of where it expires soon.
    renew(&federation, lyon, Role::Server, "lyon", 9);
    federation.logged("lyon", &["certificate files read"]).await;
    federation.logged("lyon", &["WARN", "a certificate expires soon", "own"]).await;
    days_left(&federation, 9).await;
    let user = CommandUser::operator(&federation);
    let (code, document, stderr) = user.run("servers");
    assert_eq!(code, 0, "{stderr}");
    assert!(document["servers"][0]["certificate_not_after_s"].as_i64().unwrap() < now().0 + 10 * DAY_S);
    let text = said(pliant(&root.join("client.toml"), &["servers"]).output().unwrap()).1;
    assert!(text.contains("the certificate of lyon expires in "), "{text}");
    let metric = page(address, "/metrics").unwrap();
    for whose in ["own", "authority"] {
        let name = format!("pliant_certificate_expiry_seconds{{certificate=\"{whose}\"}} ");
        let value: f64 = metric.split(&name).nth(1).unwrap().lines().next().unwrap().parse().unwrap();
        assert!(value > 300.0 * DAY_S as f64, "{whose}: {value}");
    }
    served(&federation).await;

    // The root is replaced, with a server that has an old certificate until the end.
    let authority = federation.authority.clone();
    authority.begin_rollover(now()).unwrap();
    served(&federation).await;
    distribute(&federation, &everybody);
    served(&federation).await;
    authority.switch_rollover(now()).unwrap();
    renew(&federation, master, Role::Agent, MASTER, 60);
    served(&federation).await;
    renew(&federation, alice, Role::User, "alice", 60);
    served(&federation).await;
    renew(&federation, root, Role::Operator, "root", 60);
    renew(&federation, lyon, Role::Server, "lyon", 60);
    days_left(&federation, 60).await;
    served(&federation).await;
    // Of a server that never was.
    authority.revoke("server/paris", now()).unwrap();
    let status = authority.finish_rollover(false, now()).unwrap();
    assert_eq!((status.step, status.roots), (None::<RolloverStep>, 1));
    distribute(&federation, &everybody);
    for daemon in [MASTER, "lyon"] {
        federation.logged(daemon, &["revocation list read", "revoked=1"]).await;
    }
    served(&federation).await;

    // Who has the new root's certificate is known, and can be revoked; the job has run all the time.
    fs::write(&gate, "").unwrap();
    federation.reaches(&kept, &job, JobState::Completed).await;
    authority.revoke("user/alice", now()).unwrap();
    distribute(&federation, &everybody);
    until("the revocation", async || anew(alice).servers().await.err()).await;
    for daemon in [MASTER, "lyon"] {
        let ready = federation.log(daemon).lines().filter(|line| line.contains(" ready ")).count();
        assert_eq!(ready, 1, "{daemon} was not started again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_root_has_to_be_allowed() {
    if !geteuid().is_root() {
        pliant_testing::skip(pliant_testing::Needed::Program, "a server of root (needs root)");
        return;
    }
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    federation.stop("lyon");
    let config = federation.folder("lyon").join("server.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_pliant")).args(["server", "--config"]).arg(config).output();
    let (code, _, error) = said(output.unwrap());
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("found root: all jobs would run as root") && error.contains("--allow-root"),
        "{error}"
    );
    federation.revive("lyon");
}
