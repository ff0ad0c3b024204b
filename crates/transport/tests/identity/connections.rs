//! What is no TLS 1.3 with HTTP/2, says nothing, is too much or breaks.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_transport::{Acceptor, ConnectionRefusal, Credentials, Limits, Role, ServerTls, not_sent};
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::federation::*;

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
async fn connections_without_tls_1_3_are_refused_and_logged() {
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
async fn silent_clients_do_not_block_others() {
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
    // Three slots: six of the nine handshakes had to give way, the oldest first.
    assert_eq!(log.text().matches("more than 3 handshakes at a time").count(), 6, "{}", log.text());
    for socket in &mut silent[..6] {
        assert!(!socket.read(&mut [0; 8]).await.is_ok_and(|length| length > 0));
    }

    let soon = Limits { handshake: Duration::from_millis(20), ..long() };
    let daemon = Daemon::start(&alpha, soon).await;
    let mut socket = TcpStream::connect(daemon.address).await.unwrap();
    assert!(
        !socket.read(&mut [0; 8]).await.is_ok_and(|length| length > 0),
        "closed without a message from this daemon"
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
    assert!(log.text().contains("all 2 connections are in use"), "{}", log.text());
    assert!(ask(&first).await.is_ok() && ask(&second).await.is_ok(), "open ones stay");
    drop(first);
    // The slot is free once the daemon has seen the end of the connection.
    while daemon.ask(&carl).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_that_were_not_sent_differ_from_calls_that_failed() {
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
    assert!(matches!(refused, ConnectionRefusal::Handshake(_)), "{refused}");
}

#[tokio::test]
async fn a_flood_of_connections_without_a_certificate_fills_no_log() {
    let (log, _guard) = Log::start();
    let federation = Federation::new();
    let daemon = Daemon::start(&federation.issue(Role::Server, "alpha"), long()).await;
    let begun = Instant::now();
    let mut refused = 0;
    // Ten lines at once, and then one each second.
    while !log.text().contains("left_out=") {
        answer_to(&daemon, &[0; 64]).await;
        refused += 1;
    }
    let text = log.text();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("connection refused")).collect();
    assert!(lines.len() as u64 <= 11 + begun.elapsed().as_secs(), "{text}");
    let left_out = text.lines().find_map(|line| line.rsplit_once("left_out=")).unwrap().1;
    let counted = lines.len() as u64 + left_out.parse::<u64>().unwrap();
    // The last one may be logged after its answer.
    assert!(counted == refused || counted + 1 == refused, "{counted} of {refused}: {text}");
}
