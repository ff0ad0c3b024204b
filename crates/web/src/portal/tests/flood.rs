//! More connections and event streams than a portal takes.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const ATTEMPTS: usize = 10_000;

/// As many streams as an attacker with a session can open, and an attacker without one: each is answered or closed, and the
/// pages of others go on.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_streams_leave_others_their_pages() {
    let site = Site::open();
    let (mut alice, mut bob) = (site.browser(), site.logged_in("alice"));
    alice.log_in().await;
    site.provider.log_in_as("bob");
    bob.log_in().await;
    let cookie = |browser: &Browser<'_>| format!("{}={}", browser.cookies[0].0, browser.cookies[0].1);
    let (alice, bob) = (cookie(&alice), cookie(&bob));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server =
        PortalServer { listener, address, url: String::new(), tls: None, portal: site.portal.clone() };
    // Few enough for the file descriptors of any machine: the attacker's connections need as many again.
    let limits = Limits { connections: 256, undisturbed: Duration::from_millis(20), ..PORTAL_LIMITS };
    tokio::spawn(server.serve_within(limits));
    let ask = |path: &'static str, cookie: String| async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {PORTAL}\r\ncookie: {cookie}\r\n\r\n");
        let mut answer = vec![0; 12];
        // A connection that is closed may refuse the request already.
        let _ = stream.write_all(request.as_bytes()).await;
        let status =
            stream.read_exact(&mut answer).await.map(|_| String::from_utf8_lossy(&answer[9..]).into_owned());
        (status.unwrap_or_default(), stream)
    };
    let mut kept = std::collections::VecDeque::new();
    let mut counts = std::collections::BTreeMap::new();
    for number in 0..ATTEMPTS {
        let cookie = if number % 2 == 0 { alice.clone() } else { "none=1".to_owned() };
        let (status, stream) = ask("/api/v1/events", cookie).await;
        *counts.entry(status).or_insert(0) += 1;
        kept.push_back(stream);
        if kept.len() > 1000 {
            kept.pop_front();
        }
        if number % 1000 == 999 {
            let (status, mut stream) = ask("/api/v1/session", bob.clone()).await;
            assert_eq!(status, "200", "after {number}: {counts:?}");
            let mut answer = vec![0; 4096];
            let length = stream.read(&mut answer).await.unwrap();
            assert!(String::from_utf8_lossy(&answer[..length]).contains("x-frame-options"));
        }
    }
    assert_eq!(counts.values().sum::<usize>(), ATTEMPTS);
    assert_eq!(counts.get("401"), Some(&(ATTEMPTS / 2)), "{counts:?}");
    let opened = counts.get("200").copied().unwrap_or_default();
    assert!(
        opened >= users::STREAMS_MAX && counts.get("503").is_some_and(|refused| *refused > 4000),
        "{counts:?}"
    );
}
