//! Real connections on loopback: who is let in, who is not, what each side is told and what the daemon logs.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::convert::Infallible;
use std::fs;
use std::future::{Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use http::uri::PathAndQuery;
use pliant_live::identity::{
    Acceptor, Authority, Caller, ClientTls, ConnectError, ConnectReason, Credentials, Identity, Limits,
    Order, Refused, Role, ServerTls, Timeouts, TlsError, channel, guard, incoming, not_sent,
};
use pliant_model::Time;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

const DAY_S: i64 = 86_400;

fn now() -> Time {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time(i64::try_from(elapsed.as_secs()).unwrap())
}

/// An authority and the folders of those that it knows.
struct Federation {
    dir: TempDir,
    authority: Authority,
}

impl Federation {
    fn new() -> Federation {
        Federation::named("test")
    }

    fn named(name: &str) -> Federation {
        let dir = tempfile::tempdir().unwrap();
        let authority = Authority::init(&dir.path().join("ca"), name, now()).unwrap();
        Federation { dir, authority }
    }

    fn issue_at(&self, role: Role, name: &str, at: Time, days: u32) -> Credentials {
        let order = Order { days, renew: true, ..Order::new(Identity::new(role, name).unwrap()) };
        let number = self.authority.list().unwrap().len();
        let dir = self.dir.path().join(number.to_string());
        let (_, files) = self.authority.issue_into(&dir, &order, at).unwrap();
        // The list that the authority writes, not the copy of the moment.
        Credentials { crl: Some(self.authority.crl_path()), ..files }
    }

    fn issue(&self, role: Role, name: &str) -> Credentials {
        self.issue_at(role, name, now(), 30)
    }

    fn expired(&self, role: Role, name: &str) -> Credentials {
        self.issue_at(role, name, Time(now().0 - 40 * DAY_S), 30)
    }

    fn revoked(&self, role: Role, name: &str) -> Credentials {
        let files = self.issue(role, name);
        self.revoke(&files);
        files
    }

    fn revoke(&self, files: &Credentials) {
        let serial = ClientTls::load(files).unwrap().own().serial.clone();
        self.authority.revoke(serial.as_str(), now()).unwrap();
    }

    /// The certificate of another federation, whose holder takes this one's authority for good.
    fn stranger(&self, other: &Federation, role: Role, name: &str) -> Credentials {
        let files = other.issue(role, name);
        Credentials { ca: self.authority.ca_path(), crl: Some(self.authority.crl_path()), ..files }
    }
}

/// Answers with the caller's role, name and serial.
#[derive(Clone)]
struct WhoAmI;

impl NamedService for WhoAmI {
    const NAME: &'static str = "test.WhoAmI";
}

impl UnaryService<()> for WhoAmI {
    type Response = String;
    type Future = Ready<Result<Response<String>, Status>>;

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let Caller { peer, address } = request.extensions().get::<Caller>().unwrap();
        assert!(address.ip().is_loopback());
        ready(Ok(Response::new(format!("{peer} {}", peer.serial))))
    }
}

impl Service<http::Request<Body>> for WhoAmI {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut answers = tonic::server::Grpc::new(ProstCodec::<String, ()>::default());
        Box::pin(async move { Ok(answers.unary(WhoAmI, request).await) })
    }
}

async fn ask(channel: &Channel) -> Result<String, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let path = PathAndQuery::from_static("/test.WhoAmI/Ask");
    let answer = client.unary(Request::new(()), path, ProstCodec::<(), String>::default()).await;
    answer.map(Response::into_inner)
}

/// A daemon that ends with the value.
struct Daemon {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Daemon {
    async fn start(files: &Credentials, limits: Limits) -> Daemon {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = Arc::new(ServerTls::load(files).unwrap());
        let connections = incoming(listener, tls.clone(), limits);
        let service = InterceptedService::new(WhoAmI, guard(tls));
        let serving = Server::builder().add_service(service).serve_with_incoming(connections);
        Daemon { address, task: tokio::spawn(async move { serving.await.unwrap() }) }
    }

    /// A channel to the server that the tests expect here.
    fn channel(&self, files: &Credentials) -> Channel {
        let tls = Arc::new(ClientTls::load(files).unwrap());
        let expected = Identity::new(Role::Server, "alpha").unwrap();
        channel(&self.address.to_string(), &expected, tls, &patient())
    }

    async fn ask(&self, files: &Credentials) -> Result<String, Status> {
        ask(&self.channel(files)).await
    }
}

/// No test waits for a timeout to pass.
fn patient() -> Timeouts {
    Timeouts { connect: Duration::from_secs(300), ..Timeouts::default() }
}

fn long() -> Limits {
    Limits { handshake: Duration::from_secs(3_600), ..Limits::default() }
}

/// The text of what is logged on this thread from now on.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Log, tracing::subscriber::DefaultGuard) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || writer.clone());
        let guard = tracing::subscriber::set_default(subscriber.finish());
        (log, guard)
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The failure, which must be one before anything was sent.
fn unsent(answer: Result<String, Status>) -> (String, &'static str) {
    let status = answer.expect_err("a refusal");
    let error: &ConnectError = not_sent(&status).unwrap_or_else(|| panic!("may have been sent: {status:?}"));
    let name = match error.reason {
        ConnectReason::Unreachable(_) => "unreachable",
        ConnectReason::Slow { .. } => "slow",
        ConnectReason::Untrusted(_) => "untrusted",
        ConnectReason::Refused(_) => "refused",
        ConnectReason::Identity(_) => "identity",
        ConnectReason::Other { .. } => "other",
        ConnectReason::Own(_) => "own",
    };
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    (error.to_string(), name)
}

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
async fn clients_without_a_good_certificate_are_told_and_logged() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    // Authorities are told apart by name, or if they share it by signature.
    let (namesake, other) = (Federation::new(), Federation::named("other"));
    for (files, told, logged) in [
        (federation.stranger(&namesake, Role::User, "anna"), "another authority", "BadSignature"),
        (federation.stranger(&other, Role::User, "anna"), "another authority", "UnknownIssuer"),
        (federation.expired(Role::User, "bo"), "our certificate has expired", "expired"),
        (federation.revoked(Role::User, "carl"), "our certificate has been revoked", "Revoked"),
    ] {
        let before = log.text().len();
        let (message, reason) = unsent(daemon.ask(&files).await);
        assert!(reason == "refused" && message.contains(told), "{reason}: {message}");
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
    for (case, files, told) in [
        ("of a namesake", federation.stranger(&namesake, Role::Server, "alpha"), "BadSignature"),
        ("of another authority", federation.stranger(&other, Role::Server, "alpha"), "UnknownIssuer"),
        ("of another name", federation.issue(Role::Server, "beta"), "not valid for name"),
        ("of another role", federation.issue(Role::Agent, "alpha"), "not valid for name"),
        ("expired", federation.expired(Role::Server, "alpha"), "expired"),
        ("revoked", federation.revoked(Role::Server, "alpha"), "Revoked"),
    ] {
        let daemon = Daemon::start(&files, long()).await;
        let (message, reason) = unsent(daemon.ask(&anna).await);
        assert!(reason == "untrusted" && message.contains(told), "{case}: {reason}: {message}");
    }
}

#[tokio::test]
async fn people_cannot_be_daemons() {
    let federation = Federation::new();
    let error = ServerTls::load(&federation.issue(Role::Operator, "root")).err().unwrap();
    assert!(matches!(&error, TlsError::NotADaemon { found, .. } if found.name == "root"), "{error}");
}

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
    assert!(ask(&other).await.is_ok() && daemon.ask(&bo).await.is_ok(), "nobody else is met");
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
    let foreign = fs::read(other.authority.crl_path()).unwrap();

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
        ("of another authority", Some(&foreign[..]), "signed by somebody else"),
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
    assert!(unlisted.check(unlisted.own()).is_ok(), "nothing is revoked where no list is named");
    let listed = ServerTls::load(&files).unwrap();
    assert!(listed.check(listed.own()).is_err());
    // A key that is not the certificate's.
    let key = federation.issue(Role::Server, "beta").key;
    let error = ServerTls::load(&Credentials { key, ..files }).err().unwrap();
    assert!(matches!(&error, TlsError::Unusable { .. }), "{error}");
}

/// What a daemon answers to these bytes until it closes.
async fn answer_to(daemon: &Daemon, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(daemon.address).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset instead of an end is as good.
    let _ = socket.read_to_end(&mut answer).await;
    answer
}

/// A TLS 1.2 handshake's first message: two suites, and what a server of that version needs of extensions.
fn hello_of_tls_1_2() -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]); // random
    body.push(0); // no session
    body.extend([0, 4, 0xc0, 0x2b, 0xc0, 0x2f]); // ECDHE with AES-128-GCM
    body.extend([1, 0]); // no compression
    let extensions: &[&[u8]] = &[
        &[0, 10, 0, 4, 0, 2, 0, 23],         // groups: P-256
        &[0, 13, 0, 6, 0, 4, 4, 3, 8, 4],    // signatures: ECDSA and RSA-PSS with SHA-256
        &[0, 16, 0, 5, 0, 3, 2, b'h', b'2'], // HTTP/2
        &[0, 23, 0, 0],                      // extended master secret
    ];
    let extensions = extensions.concat();
    body.extend([0, extensions.len() as u8]);
    body.extend(extensions);
    let mut hello = vec![22, 3, 1, 0, body.len() as u8 + 4, 1, 0, 0, body.len() as u8];
    hello.extend(body);
    hello
}

#[tokio::test]
async fn what_is_not_tls_1_3_is_refused_and_logged() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    // An alert record: fatal (2), protocol_version (70).
    assert_eq!(answer_to(&daemon, &hello_of_tls_1_2()).await[5..], [2, 70]);
    assert!(log.text().contains("remote=127.0.0.1:"), "{}", log.text());
    assert!(log.text().contains("SupportedVersionsExtensionRequired"), "{}", log.text());
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0; 64], &[0x16; 64]]
    {
        let before = log.text().len();
        let answer = answer_to(&daemon, bytes).await;
        assert!(answer.first().is_none_or(|record| *record == 21), "an alert or nothing: {answer:?}");
        assert!(log.text()[before..].contains("the handshake failed"), "{}", log.text());
    }
    assert!(daemon.ask(&federation.issue(Role::User, "anna")).await.is_ok());
}

/// A connection with or without a certificate, asking for these protocols, and what its first read says.
async fn first_read(
    daemon: &Daemon,
    files: &Credentials,
    known: bool,
    protocols: &[&[u8]],
) -> io::Result<usize> {
    let certificates = |path: &Path| -> Vec<_> {
        rustls::pki_types::CertificateDer::pem_file_iter(path).unwrap().map(Result::unwrap).collect()
    };
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificates(&files.ca).remove(0)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let key = rustls::pki_types::PrivateKeyDer::from_pem_file(&files.key).unwrap();
    let mut config = if known {
        config.with_client_auth_cert(certificates(&files.cert), key).unwrap()
    } else {
        config.with_no_client_auth()
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    let socket = TcpStream::connect(daemon.address).await.unwrap();
    let name = ServerName::try_from("alpha.server.pliant").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
    stream.read(&mut [0; 64]).await
}

#[tokio::test]
async fn clients_show_a_certificate_and_ask_for_http_2() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    let anna = federation.issue(Role::User, "anna");
    assert!(first_read(&daemon, &anna, true, &[b"h2"]).await.unwrap() > 0);
    let error = first_read(&daemon, &anna, false, &[b"h2"]).await.unwrap_err();
    assert!(error.to_string().contains("CertificateRequired"), "{error}");
    assert!(log.text().contains("peer sent no certificates"), "{}", log.text());
    for protocols in [&[][..], &[&b"http/1.1"[..]]] {
        let read = first_read(&daemon, &anna, true, protocols).await;
        assert!(!read.is_ok_and(|length| length > 0), "{protocols:?}");
    }
    assert!(log.text().contains("expected HTTP/2"), "{}", log.text());
}

#[tokio::test]
async fn clients_that_say_nothing_block_nobody() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let alpha = federation.issue(Role::Server, "alpha");
    let anna = federation.issue(Role::User, "anna");
    let daemon = Daemon::start(&alpha, Limits { handshakes_max: 3, ..long() }).await;
    let mut silent = Vec::new();
    for count in 0..8 {
        let mut socket = TcpStream::connect(daemon.address).await.unwrap();
        // Half of them say how they would begin.
        socket.write_all(&hello_of_tls_1_2()[..count % 2 * 20]).await.unwrap();
        silent.push(socket);
    }
    assert!(daemon.ask(&anna).await.is_ok());
    // Three places: six of the nine handshakes had to give way, the oldest first.
    assert_eq!(log.text().matches("more than 3 handshakes at a time").count(), 6, "{}", log.text());
    for socket in &mut silent[..6] {
        assert!(!socket.read(&mut [0; 8]).await.is_ok_and(|length| length > 0));
    }

    let soon = Limits { handshake: Duration::from_millis(20), ..long() };
    let daemon = Daemon::start(&alpha, soon).await;
    let mut socket = TcpStream::connect(daemon.address).await.unwrap();
    assert!(
        !socket.read(&mut [0; 8]).await.is_ok_and(|length| length > 0),
        "given up without a word of ours"
    );
    assert!(log.text().contains("the handshake did not end within 0.02 s"), "{}", log.text());
}

#[tokio::test]
async fn connections_are_bounded_for_each_peer_and_all_together() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let [anna, bo, carl] = ["anna", "bo", "carl"].map(|name| federation.issue(Role::User, name));
    let limits = Limits { connections_max: 2, connections_per_peer_max: 1, ..long() };
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), limits).await;
    let first = daemon.channel(&anna);
    assert!(ask(&first).await.is_ok());
    assert_eq!(unsent(daemon.ask(&anna).await).1, "refused");
    assert!(log.text().contains("user/anna has 1 connections already"), "{}", log.text());
    let second = daemon.channel(&bo);
    assert!(ask(&second).await.is_ok());
    assert_eq!(unsent(daemon.ask(&carl).await).1, "refused");
    assert!(log.text().contains("all 2 connections are taken"), "{}", log.text());
    assert!(ask(&first).await.is_ok() && ask(&second).await.is_ok(), "open ones stay");
    drop(first);
    // The place is free once the daemon has seen the end of the connection.
    while daemon.ask(&carl).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_that_were_not_sent_can_be_told_from_those_that_failed() {
    let federation = Federation::new();
    let anna = federation.issue(Role::User, "anna");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let tls = Arc::new(ServerTls::load(&federation.issue(Role::Server, "alpha")).unwrap());
    let acceptor = Acceptor::new(tls, Duration::from_secs(3_600));
    let task = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        drop(listener);
        let (mut stream, peer) = acceptor.accept(socket).await.unwrap();
        assert_eq!(peer.name, "anna");
        // Empty HTTP/2 settings; then the headers of the request come (frame type 1), and the daemon dies.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
        stream.flush().await.unwrap();
        // The client's preface, then frames: three bytes of length, the type, five bytes more.
        stream.read_exact(&mut [0; 24]).await.unwrap();
        let mut frame = [0; 9];
        while frame[3] != 1 {
            stream.read_exact(&mut frame).await.unwrap();
            let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
            stream.read_exact(&mut vec![0; length]).await.unwrap();
        }
    });
    let daemon = Daemon { address, task };
    let channel = daemon.channel(&anna);
    let status = ask(&channel).await.unwrap_err();
    assert!(not_sent(&status).is_none(), "{status:?}");
    let (message, reason) = unsent(ask(&channel).await);
    assert_eq!(reason, "unreachable", "{message}");
    assert!(message.contains(&format!("server/alpha at {address}")), "{message}");
}

#[tokio::test]
async fn an_acceptor_says_why_it_refuses() {
    let federation = Federation::new();
    let tls = Arc::new(ServerTls::load(&federation.issue(Role::Agent, "top")).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (socket, _) = listener.accept().await.unwrap();
    drop(client);
    let refused = Acceptor::new(tls, Duration::from_secs(3_600)).accept(socket).await.err().unwrap();
    assert!(matches!(refused, Refused::Handshake(_)), "{refused}");
}
