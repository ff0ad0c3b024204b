//! Who is not to be trusted, and what is not to be believed: refused with a clear error and a log line, and nobody
//! else notices.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pliant_client::ClientFile;
use pliant_client::{Client, SubmitOrder};
use pliant_control::agent::ChildKind;
use pliant_control::job::JobState;
use pliant_control::server_info::ServerInfo;
use pliant_model::{Procs, Speed, Time};
use pliant_staging::{Checksum, FileName, FileSpec, ResultName};
use pliant_transport::{self as transport, Authority, Credentials, Identity, Role};
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::{Download, FromChild, SubmittedWork, Upload, proto};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use crate::harness::*;

/// A client of the master with its own credentials in that folder.
fn client_in(federation: &Federation, folder: &Path) -> Client {
    fs::write(folder.join("client.toml"), federation.address_table("agent", MASTER) + TLS).unwrap();
    Client::new(&ClientFile::read(&folder.join("client.toml")).unwrap()).unwrap()
}

/// Issues a user's certificate as of another time.
fn issue(authority: &Authority, folder: &Path, name: &str, days: u32, at: Time) {
    let identity = Identity::new(Role::User, name).unwrap();
    let order =
        transport::CertificateRequest { days, renew: true, ..transport::CertificateRequest::new(identity) };
    authority.issue_into(folder, &order, at).unwrap();
}

/// Gives the daemons the authority's present revocation list.
fn publish(federation: &Federation, daemons: &[&str]) {
    for daemon in daemons {
        let (draft, path) =
            (federation.folder(daemon).join("draft"), federation.folder(daemon).join("crl.pem"));
        fs::copy(federation.authority.crl_path(), &draft).unwrap();
        fs::rename(draft, path).unwrap();
    }
}

async fn works(client: &Client) {
    let ended = run(client, &order(rigid("true", 1, 60))).await;
    assert_eq!(ended.state, JobState::Completed);
}

fn said(status: &Status, code: Code, words: &[&str]) {
    assert_eq!(status.code(), code, "{status:?}");
    assert!(words.iter().all(|word| status.message().contains(word)), "expected {words:?} in: {status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_certificates_are_refused() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let folder = |name: &str| federation.path().join("strangers").join(name);
    let other = Authority::init(&federation.path().join("other"), "other", now()).unwrap();
    issue(&other, &folder("wrong"), "alice", 10, now());
    // It knows the federation, the federation does not know it.
    fs::copy(federation.authority.ca_path(), folder("wrong").join("ca.pem")).unwrap();
    fs::copy(federation.authority.crl_path(), folder("wrong").join("crl.pem")).unwrap();
    let wrong = client_in(&federation, &folder("wrong"));
    refused(wrong.servers().await, &["our certificate is of another authority"]);

    issue(&federation.authority, &folder("old"), "alice", 1, Time(now().0 - 10 * 86_400));
    let old = client_in(&federation, &folder("old"));
    refused(old.servers().await, &["our certificate has expired"]);

    issue(&federation.authority, &folder("bad"), "mallory", 10, now());
    let mallory = client_in(&federation, &folder("bad"));
    works(&mallory).await;
    let running = submit(&mallory, &order(rigid("echo secret; sleep 1000", 1, 1000))).await.handle;
    let (client, wanted) = (mallory.clone(), Download { follow: true, ..stdout_of(&running) });
    let (sent, mut received) = tokio::sync::mpsc::unbounded_channel();
    let follows = tokio::spawn(async move {
        let piece = |piece: &[u8]| sent.send(piece.to_vec()).map_err(std::io::Error::other);
        client.output(&wanted, piece).await
    });
    assert_eq!(received.recv().await.unwrap(), b"secret\n");
    federation.authority.revoke("user/mallory", now()).unwrap();
    publish(&federation, &[MASTER, "lyon"]);
    // A call that stays open.
    refused(follows.await.unwrap(), &["revoked"]);
    federation.logged("lyon", &["open call refused", "mallory", "revoked"]).await;
    federation.operator().cancel(&running).await.unwrap();
    // Over the connections that were open before.
    refused(mallory.servers().await, &["revoked"]);
    refused(mallory.offer(&"lyon".parse().unwrap(), &federation.address("lyon")).await, &["revoked"]);
    federation.logged(MASTER, &["request refused", "mallory", "revoked"]).await;
    federation.logged("lyon", &["request refused", "mallory", "revoked"]).await;
    // And over a new one.
    let again = client_in(&federation, &folder("bad"));
    refused(again.servers().await, &["our certificate has been revoked"]);

    for word in ["UnknownIssuer", "certificate expired", "Revoked"] {
        federation.logged(MASTER, &["connection refused", word]).await;
    }
    works(&federation.client("alice")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_certificate_nothing_is_answered() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(federation.authority.ca_path()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    for (role, name) in [(Role::Agent, MASTER), (Role::Server, "lyon")] {
        let domain = ServerName::try_from(Identity::new(role, name).unwrap().domain()).unwrap();
        let session = rustls::ClientConnection::new(Arc::new(config.clone()), domain).unwrap();
        let socket = TcpStream::connect(federation.address(name)).unwrap();
        let mut stream = rustls::StreamOwned::new(session, socket);
        let answer =
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").and_then(|()| stream.read(&mut [0; 16]));
        let error = answer.unwrap_err().to_string();
        assert!(error.contains("CertificateRequired"), "{error}");
        federation.logged(name, &["connection refused", "peer sent no certificates"]).await;
    }
}

fn info(name: &str) -> ServerInfo {
    ServerInfo {
        name: name.parse().unwrap(),
        address: "127.0.0.1:1".to_owned(),
        rank: 0,
        procs: Procs(1000),
        speed: Speed::REFERENCE,
        policy: "cbf".to_owned(),
        services: Vec::new(),
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    }
}

/// Greets the master as a server; what it says.
async fn attach(
    federation: &Federation,
    own: &Credentials,
    name: &str,
    servers: &[&str],
) -> Result<(), Status> {
    let mut agent = AgentClient::new(federation.channel(own, Role::Agent, MASTER));
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    let servers = servers.iter().map(|name| info(name)).collect();
    let hello =
        FromChild::Hello { name: name.parse().unwrap(), kind: ChildKind::Server, journal: 1, servers };
    sender.send((&hello).into()).await.unwrap();
    let mut down = agent.attach(ReceiverStream::new(receiver)).await?.into_inner();
    down.message().await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn identities_are_not_confused() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let user = federation.credentials(Role::User, "lyon");
    let status = attach(&federation, &user, "lyon", &["lyon"]).await.unwrap_err();
    said(&status, Code::PermissionDenied, &["expected a daemon's certificate, found a user's"]);
    federation.logged(MASTER, &["request refused", "not a daemon", "lyon"]).await;
    let server = federation.credentials(Role::Server, "paris");
    let status = attach(&federation, &server, "lyon", &["lyon"]).await.unwrap_err();
    said(&status, Code::PermissionDenied, &["expected the name of the certificate", "paris", "lyon"]);
    federation.logged(MASTER, &["child refused", "paris", "lyon"]).await;
    let status = attach(&federation, &server, "paris", &["lyon"]).await.unwrap_err();
    said(&status, Code::PermissionDenied, &["speaks for itself"]);
    let status = attach(&federation, &server, "paris", &["paris", "lyon"]).await.unwrap_err();
    said(&status, Code::PermissionDenied, &["speaks for itself"]);

    // Daemons ask for nothing in the name of users.
    for (role, name) in [(Role::Server, "lyon"), (Role::Agent, "other")] {
        let daemon = federation.client_as(role, name);
        refused(daemon.servers().await, &["expected a user's certificate, found a daemon's"]);
        refused(
            daemon.submit(&order(rigid("true", 1, 60)), |_| Ok(())).await,
            &["expected a user's certificate"],
        );
        let offer = daemon.offer(&"lyon".parse().unwrap(), &federation.address("lyon")).await;
        refused(offer, &["expected a user's certificate"]);
    }
    federation.logged(MASTER, &["request refused", "daemons submit nothing"]).await;
    works(&federation.client("alice")).await;

    // A daemon whose name is not its certificate's does not even start.
    federation.stop("lyon");
    federation.certify(&federation.folder("lyon"), Role::Server, "paris");
    let mut server = Command::new(env!("CARGO_BIN_EXE_pliant"));
    let output = server
        .args(["server", "--allow-root", "--config"])
        .arg(federation.folder("lyon").join("server.toml"))
        .output();
    let output = output.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("lyon") && error.contains("paris"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_are_none_are_refused() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    for name in [MASTER, "lyon"] {
        // Bytes that are no handshake, and no bytes at all.
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 4096], &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3], b""] {
            let mut socket = TcpStream::connect(federation.address(name)).unwrap();
            // It may close before everything is written.
            let _ = socket.write_all(bytes);
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        }
        federation.logged(name, &["connection refused", "handshake failed"]).await;
    }
    let mut server = federation.server_client(Role::User, "alice", "lyon");
    for handle in ["", "lyon", "lyon.-1", "../../etc/passwd", "lyon.1\n", &"x".repeat(100_000)] {
        let request = proto::JobRequest { handle: handle.to_owned() };
        said(&server.job(request).await.unwrap_err(), Code::InvalidArgument, &["handle"]);
    }
    said(
        &server.submit(proto::SubmitRequest::default()).await.unwrap_err(),
        Code::InvalidArgument,
        &["expected"],
    );
    let key = vec![7; 3 << 20];
    let large = proto::SubmitRequest { key, ..proto::SubmitRequest::default() };
    said(&server.submit(large).await.unwrap_err(), Code::OutOfRange, &["2097152"]);
    works(&alice).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_arguments_are_text_and_nothing_else() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let mark = federation.path().join("mark");
    let touch = format!("touch {}", mark.display());
    for text in [
        format!("$({touch})"),
        format!("`{touch}`"),
        format!("; {touch} #"),
        format!("' && {touch} && '"),
        format!("\" | {touch} \""),
        "* ? ~ $HOME {text} %s \\n".to_owned(),
    ] {
        let ended = run(&alice, &order(service("say", &[("text", &text)]))).await;
        assert_eq!(ended.state, JobState::Completed, "{text}");
        let found = fetched(&alice, &ended.handle).await;
        assert_eq!(String::from_utf8_lossy(&found["stdout"]), format!("<{text}>"));
    }
    assert!(!mark.exists());
    for (text, why) in [
        ("two\nlines", "on one line"),
        ("a\0b", "on one line"),
        ("\u{1b}[31m", "on one line"),
        ("-n", "leading `-`"),
        ("--help", "leading `-`"),
    ] {
        refused(alice.submit(&order(service("say", &[("text", text)])), |_| Ok(())).await, &["text", why]);
    }
    for name in ["../secret", "/etc/passwd", "a/../../b", "a\nb", "a\u{1b}[2J", "a\0", "..", "a/.."] {
        refused(alice.submit(&order(service("count", &[("data", name)])), |_| Ok(())).await, &["data"]);
        // Not even a client of its own making can say such a name.
        assert!(name.parse::<FileName>().is_err());
        let mut server = federation.server_client(Role::User, "alice", "lyon");
        let file = proto::InputFile { name: name.to_owned(), size: 1, sha256: vec![0; 32] };
        let begin = proto::upload_request::Begin { key: vec![1; 16], file: Some(file), claim: None };
        let message = Some(proto::upload_request::Message::Begin(begin));
        let uploads = tokio_stream::iter([proto::UploadRequest { message }]);
        let mut answers = server.upload(uploads).await.unwrap().into_inner();
        said(&answers.message().await.unwrap_err(), Code::InvalidArgument, &["name"]);
    }
    federation.logged("lyon", &["upload refused", "alice"]).await;
    // Nor can results be fetched from elsewhere, or through a link that the job made.
    let text = "ln -s /etc/passwd link; ln -s / root; echo x > real";
    let job = run(&alice, &order(rigid(text, 1, 60))).await.handle;
    let names: Vec<String> = fetched(&alice, &job).await.into_keys().collect();
    assert_eq!(names, ["stderr", "stdout", "work/real"]);
    for name in ["work/link", "work/root/etc/passwd"] {
        let name: ResultName = name.parse().unwrap();
        let wanted = Download { handle: job.clone(), name, offset: 0, follow: false, run: None };
        assert!(alice.output(&wanted, |_| Ok(())).await.is_err());
    }
    let script = rigid("echo \"$1\"", 1, 60);
    let SubmittedWork::Script(mut script) = script else { unreachable!("it is a script") };
    script.arguments = vec![format!("$({touch}); -x '\"")];
    let expected = format!("{}\n", script.arguments[0]);
    let job = run(&alice, &order(SubmittedWork::Script(script))).await.handle;
    assert_eq!(String::from_utf8_lossy(&fetched(&alice, &job).await["stdout"]), expected);
    assert!(!mark.exists());
}

/// No shell sees the name of a file: it arrives, is handed to the program and goes back by that name.
#[tokio::test(flavor = "multi_thread")]
async fn shell_metacharacters_in_file_names_have_no_effect() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    let here = federation.path().join("here");
    fs::write(&here, "seven B").unwrap();
    for name in [
        "$(touch mark)",
        "`touch mark`;touch mark",
        "it's \"a\" & b | touch mark > c",
        "* ? ~ $HOME é (1).pdf",
    ] {
        let spec = FileSpec { name: name.parse().unwrap(), size: 7, sha256: Checksum::of(b"seven B") };
        let counted =
            SubmitOrder { inputs: vec![(spec, here.clone())], ..order(service("count", &[("data", name)])) };
        let ended = run(&alice, &counted).await;
        assert_eq!(ended.state, JobState::Completed, "{name}");
        let found = fetched(&alice, &ended.handle).await;
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["stderr", "stdout", "work/copy.bin", "work/count.txt"],
            "{name}: nothing else was made"
        );
        assert_eq!(found["work/copy.bin"], b"seven B");
        let SubmittedWork::Script(mut script) = rigid("printf %s out > \"$1\"", 1, 60) else {
            unreachable!("it is a script")
        };
        script.arguments = vec![name.to_owned()];
        let job = run(&alice, &order(SubmittedWork::Script(script))).await.handle;
        let found = fetched(&alice, &job).await;
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["stderr", "stdout", &format!("work/{name}")]);
        assert_eq!(found[&format!("work/{name}")], b"out");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_do_not_delay_others() {
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let mut silent = Vec::new();
    for name in [MASTER, "lyon"] {
        for _ in 0..300 {
            silent.push(TcpStream::connect(federation.address(name)).unwrap());
        }
    }
    // An upload that goes no further, for each of many that its user may have open.
    let mut stalled = Vec::new();
    let mut slow = federation.server_client(Role::User, "mallory", "lyon");
    for _ in 0..50 {
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        let spec = input("data", &federation.authority.ca_path()).0;
        sender.send((&Upload::Begin { key: fresh_key(), file: spec, claim: None }).into()).await.unwrap();
        let mut answers = slow.upload(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap();
        stalled.push((sender, answers));
    }
    let alice = federation.client("alice");
    works(&alice).await;
    let path = federation.path().join("data");
    fs::write(&path, "abc").unwrap();
    let mut asked = order(service("count", &[("data", "data")]));
    asked.inputs.push(input("data", &path));
    assert_eq!(run(&alice, &asked).await.state, JobState::Completed);
    drop((silent, stalled));
    federation.logged("lyon", &["connection refused"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_so_many_requests_and_no_more() {
    let limits = "[limits]\nopen_requests = 3\nrequests_per_second = 0.001\nburst = 20\n";
    let mut federation = Federation::agent_only("");
    let mut cluster = Cluster::new("lyon", 1, 1.0);
    cluster.tables.push_str(limits);
    federation.add_server(&cluster);
    federation.attached(1).await;
    let request = || proto::ServicesRequest {};
    let mut alice = federation.server_client(Role::User, "alice", "lyon");
    // Uploads that stay open.
    let mut open = Vec::new();
    let status = loop {
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        match alice.upload(ReceiverStream::<proto::UploadRequest>::new(receiver)).await {
            Ok(answers) => open.push((sender, answers)),
            Err(status) => break status,
        }
        assert!(open.len() <= 3);
    };
    assert_eq!(open.len(), 3);
    said(&status, Code::ResourceExhausted, &["3 requests of alice are open"]);
    let mut bob = federation.server_client(Role::User, "bob", "lyon");
    bob.services(request()).await.unwrap();
    drop(open);
    until("her requests to end", async || alice.services(request()).await.ok()).await;
    let status = until("the end of her burst", async || {
        tokio::time::sleep(Duration::from_millis(1)).await;
        alice.services(request()).await.err()
    });
    said(&status.await, Code::ResourceExhausted, &["alice", "times a second"]);
    bob.services(request()).await.unwrap();
    federation.logged("lyon", &["request refused", "alice", "requests of alice are open"]).await;
    federation.logged("lyon", &["request refused", "alice", "times a second"]).await;
}
