//! A portal, its provider, users and attackers. No federation is behind them.

use axum::body::{Body, to_bytes};
use http::header::{CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use pliant_model::Time;
use pliant_testing::provider::{CLIENT_ID, CLIENT_SECRET, Fault, Provider as TestProvider};
use pliant_transport::{Authority, CertificateRequest, Identity, Role};
use serde_json::Value;

use super::*;

mod flood;
mod logins;
mod replays;
mod tokens;

const PORTAL: &str = "portal.example";

/// A portal with identities of alice, bob and an operator.
struct Site {
    provider: TestProvider,
    portal: Arc<Portal>,
    router: Router,
    authority: Authority,
    dir: tempfile::TempDir,
}

/// A browser that keeps cookies.
struct Browser<'a> {
    site: &'a Site,
    cookies: Vec<(String, String)>,
    csrf: String,
}

impl Site {
    fn open() -> Site {
        Site::with_session("")
    }

    fn with_session(keys: &str) -> Site {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let provider = TestProvider::start("alice");
        let authority = Authority::init(&dir.path().join("ca"), "test", now()).unwrap();
        let identities = dir.path().join("identities");
        std::fs::create_dir(&identities).unwrap();
        std::fs::set_permissions(&identities, std::fs::Permissions::from_mode(0o700)).unwrap();
        for (role, name) in [(Role::User, "alice"), (Role::User, "bob"), (Role::Operator, "root")] {
            let request = CertificateRequest::new(Identity::new(role, name).unwrap());
            authority.issue_into(&identities.join(name), &request, now()).unwrap();
        }
        let secret = dir.path().join("secret");
        std::fs::write(&secret, format!("{CLIENT_SECRET}\n")).unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "listen = \"127.0.0.1:0\"\nurl = \"https://{PORTAL}\"\nbehind_proxy = true\nidentities = \"identities\"\n\
             [[agent]]\nname = \"master\"\naddress = \"127.0.0.1:9\"\n\
             [login]\nissuer = \"{}\"\nclient_id = \"{CLIENT_ID}\"\nclient_secret = \"secret\"\n\
             claim = \"preferred_username\"\n{keys}",
            provider.issuer
        );
        let path = dir.path().join("portal.toml");
        std::fs::write(&path, text).unwrap();
        let tokens = dir.path().join("tokens");
        std::fs::create_dir(&tokens).unwrap();
        std::fs::set_permissions(&tokens, std::fs::Permissions::from_mode(0o700)).unwrap();
        let portal = Site::portal(&path);
        Site { provider, router: router(portal.clone()), portal, authority, dir }
    }

    /// Gives a user an identity.
    fn issue(&self, role: Role, name: &str) {
        let first = CertificateRequest::new(Identity::new(role, name).unwrap());
        let request = CertificateRequest { renew: true, ..first };
        self.authority.issue_into(&self.dir.path().join("identities").join(name), &request, now()).unwrap();
    }

    /// The portal of a file.
    fn portal(path: &Path) -> Arc<Portal> {
        Site::try_portal(path).unwrap()
    }

    fn try_portal(path: &Path) -> Result<Arc<Portal>, String> {
        let file = PortalFile::read(path).unwrap();
        let scripts = ScriptReader::new(
            |_| Err(Problem::unprocessable("no scripts")),
            |_, _| Err(Problem::unprocessable("no scripts")),
        );
        // A replay of one policy ends at once, of another one when it is ended.
        let replay: ReplayCommand = Arc::new(|request| {
            let mut command = std::process::Command::new("sh");
            let file = request.client_file.as_ref().unwrap();
            command.args(["-c", "cat \"$1\" >&2; [ \"$2\" = slow ] || exit 1; exec sleep 1000", "sh"]);
            command.arg(file).args(&request.policies);
            command
        });
        Portal::new(&file, scripts, replay).map(Arc::new)
    }

    fn browser(&self) -> Browser<'_> {
        Browser { site: self, cookies: Vec::new(), csrf: String::new() }
    }

    fn logged_in(&self, user: &str) -> Browser<'_> {
        self.provider.log_in_as(user);
        self.browser()
    }
}

impl Browser<'_> {
    async fn ask(&mut self, request: http::request::Builder, body: &str) -> (Response, String) {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = request.header(COOKIE, cookies.join("; ")).body(Body::from(body.to_owned())).unwrap();
        let response = self.site.router.clone().oneshot(request).await.unwrap();
        for cookie in response.headers().get_all(SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            assert!(cookie.contains("; Secure; HttpOnly; SameSite=Lax; Path=/"), "{cookie}");
            let (name, rest) = cookie.split_once('=').unwrap();
            self.cookies.retain(|(kept, _)| kept != name);
            if !cookie.contains("Max-Age=0") {
                self.cookies.push((name.to_owned(), rest.split(';').next().unwrap().to_owned()));
            }
        }
        let (parts, body) = response.into_parts();
        if parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
            return (Response::from_parts(parts, body), String::new());
        }
        let bytes = to_bytes(body, 1 << 22).await.unwrap();
        (Response::from_parts(parts, Body::empty()), String::from_utf8(bytes.to_vec()).unwrap())
    }

    async fn get(&mut self, path: &str) -> (StatusCode, String) {
        let (response, body) = self.ask(Request::get(path).header(HOST, PORTAL), "").await;
        (response.status(), body)
    }

    async fn status(&mut self, path: &str) -> StatusCode {
        self.get(path).await.0
    }

    async fn post(&mut self, path: &str, csrf: &str, body: &str) -> StatusCode {
        let request = Request::post(path).header(HOST, PORTAL).header(CONTENT_TYPE, "application/json");
        let request = request.header("x-csrf-token", csrf);
        self.ask(request, body).await.0.status()
    }

    /// Where a page leads to; the page must be a redirection.
    async fn led(&mut self, path: &str) -> String {
        let (response, body) = self.ask(Request::get(path).header(HOST, PORTAL), "").await;
        assert_eq!(response.status(), StatusCode::SEE_OTHER, "{path}: {body}");
        response.headers()[LOCATION].to_str().unwrap().to_owned()
    }

    /// Begins a login: the callback that the provider leads to.
    async fn begin(&mut self, path: &str) -> String {
        let url = self.led(path).await;
        let callback = self.site.provider.authorize(&url);
        callback.strip_prefix(&format!("https://{PORTAL}")).unwrap().to_owned()
    }

    /// Logs in: the page that the login leads to.
    async fn log_in(&mut self) -> String {
        let callback = self.begin("/login").await;
        let page = self.led(&callback).await;
        let (_, text) = self.get("/submit").await;
        let (_, rest) = text.split_once("name=\"csrf-token\" content=\"").unwrap();
        self.csrf = rest.split('"').next().unwrap().to_owned();
        page
    }

    async fn user(&mut self) -> String {
        let (status, text) = self.get("/api/v1/session").await;
        assert_eq!(status, StatusCode::OK, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["user"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_user_logs_in_and_out() {
    let site = Site::open();
    let mut browser = site.browser();
    let login = browser.led("/jobs?state=QUEUED").await;
    assert_eq!(login, "/login?to=%2Fjobs%3Fstate%3DQUEUED");
    let callback = browser.begin(&login).await;
    assert_eq!(browser.led(&callback).await, "/jobs?state=QUEUED", "the page that was asked for");
    assert_eq!(browser.cookies.len(), 1, "the cookie of the login is gone: {:?}", browser.cookies);
    assert_eq!(browser.user().await, "alice");
    let (_, page) = browser.get("/").await;
    assert!(page.contains("id=\"logout\""), "{page}");
    browser.log_in().await;
    assert_eq!(
        browser.post("/logout", "", "").await,
        StatusCode::FORBIDDEN,
        "another site cannot end a session"
    );
    let csrf = browser.csrf.clone();
    let stolen = browser.cookies.clone();
    assert_eq!(browser.post("/logout", &csrf, "").await, StatusCode::NO_CONTENT);
    assert_eq!(browser.cookies, []);
    browser.cookies = stolen;
    assert_eq!(browser.status("/api/v1/session").await, StatusCode::UNAUTHORIZED, "the session has ended");
    assert!(browser.get("/logged-out").await.1.contains("Log in again"));
}

#[tokio::test]
async fn each_user_has_an_own_session() {
    let site = Site::open();
    let (mut alice, mut bob, mut root) = (site.browser(), site.browser(), site.browser());
    alice.log_in().await;
    site.provider.log_in_as("bob");
    bob.log_in().await;
    site.provider.log_in_as("root");
    root.log_in().await;
    assert_eq!(
        (alice.user().await, bob.user().await, root.user().await),
        ("alice".into(), "bob".into(), "root".into())
    );
    assert_eq!(
        (alice.status("/admin").await, root.status("/admin").await),
        (StatusCode::FORBIDDEN, StatusCode::OK)
    );
    // The token of another session changes nothing; one's own is taken, and the call refuses the empty list.
    let (token, own) = (bob.csrf.clone(), alice.csrf.clone());
    let body = "{\"jobs\": []}";
    assert_eq!(alice.post("/api/v1/jobs/cancel", &token, body).await, StatusCode::FORBIDDEN);
    assert_eq!(alice.post("/api/v1/jobs/cancel", &own, body).await, StatusCode::BAD_REQUEST);
    // The same user in a second browser is served by the same client.
    site.provider.log_in_as("alice");
    let mut second = site.browser();
    second.log_in().await;
    assert_eq!(second.user().await, "alice");
    assert_ne!(second.csrf, alice.csrf);
}

#[tokio::test]
async fn a_user_without_an_identity_learns_what_to_ask_for() {
    let site = Site::open();
    let mut browser = site.logged_in("carol");
    let callback = browser.begin("/login").await;
    let (status, page) = browser.get(&callback).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(page.contains("ask the operators for an identity of the federation user carol"), "{page}");
    assert_eq!(browser.cookies, [], "no session");
    for name in ["../alice", "", "a/b"] {
        let mut browser = site.logged_in(name);
        let callback = browser.begin("/login").await;
        assert_eq!(browser.status(&callback).await, StatusCode::FORBIDDEN, "{name}");
        assert_eq!(browser.cookies, []);
    }
    // An identity in the folder of another user.
    let identities = site.dir.path().join("identities");
    std::fs::rename(identities.join("bob"), identities.join("mallory")).unwrap();
    let mut browser = site.logged_in("mallory");
    let callback = browser.begin("/login").await;
    let (status, page) = browser.get(&callback).await;
    assert!(
        status == StatusCode::FORBIDDEN && page.contains("cannot be used") && !page.contains("bob"),
        "{page}"
    );
    // One that is taken away while a session is open.
    let mut alice = site.logged_in("alice");
    alice.log_in().await;
    std::fs::remove_dir_all(identities.join("alice")).unwrap();
    assert_eq!(alice.status("/api/v1/session").await, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn tokens_that_are_not_good_begin_no_session() {
    let site = Site::open();
    for fault in
        [Fault::Nonce, Fault::Audience, Fault::Issuer, Fault::Expired, Fault::Signature, Fault::Unsigned]
    {
        site.provider.fail_with(fault);
        let mut browser = site.browser();
        let callback = browser.begin("/login").await;
        let (status, page) = browser.get(&callback).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{fault:?}");
        assert!(page.contains("the ID token of the provider is not good"), "{fault:?}: {page}");
        assert_eq!(browser.cookies, [], "{fault:?}");
    }
    site.provider.fail_with(Fault::None);
    site.browser().log_in().await;
}

#[tokio::test]
async fn a_callback_is_good_once_and_in_its_own_browser() {
    let site = Site::open();
    let mut browser = site.browser();
    let callback = browser.begin("/login").await;
    let before = browser.cookies.clone();
    let asked = site.provider.asked();
    // Login CSRF: an attacker's login, in the browser of another user.
    assert_eq!(site.browser().status(&callback).await, StatusCode::FORBIDDEN);
    let mut victim = site.browser();
    victim.begin("/login").await;
    assert_eq!(victim.status(&callback).await, StatusCode::FORBIDDEN);
    // Another state, and another provider.
    let (path, _) = callback.split_once("&state=").unwrap();
    for wrong in [path.to_owned(), format!("{path}&state={}", "0".repeat(64)), "/login/callback".to_owned()] {
        browser.cookies = before.clone();
        assert_eq!(browser.status(&wrong).await, StatusCode::FORBIDDEN, "{wrong}");
    }
    browser.cookies = before.clone();
    let (start, _) = callback.split_once("&iss=").unwrap();
    assert_eq!(
        browser.status(&format!("{start}&iss=https%3A%2F%2Fother.example")).await,
        StatusCode::FORBIDDEN
    );
    assert_eq!(site.provider.asked(), asked, "none of these reached the provider");
    browser.cookies = before.clone();
    browser.led(&callback).await;
    // Replayed, with the cookie that the browser had.
    browser.cookies = before.clone();
    assert_eq!(browser.status(&callback).await, StatusCode::FORBIDDEN);
    // A code that was used is refused by the provider, also in a new login.
    let mut again = site.browser();
    let next = again.begin("/login").await;
    let (_, rest) = next.split_once('&').unwrap();
    let (status, page) = again.get(&format!("/login/callback?code=code-1&{rest}")).await;
    assert!(status == StatusCode::FORBIDDEN && page.contains("invalid_grant"), "{page}");
    let mut denied = site.browser();
    let next = denied.begin("/login").await;
    let (_, rest) = next.split_once('&').unwrap();
    let (status, page) = denied.get(&format!("/login/callback?error=access_denied&{rest}")).await;
    assert!(status == StatusCode::FORBIDDEN && page.contains("access_denied"), "{page}");
}

#[tokio::test]
async fn a_session_is_new_with_each_login() {
    let site = Site::open();
    let mut browser = site.browser();
    browser.cookies.push(("__Host-pliant-session".to_owned(), "ab".repeat(32)));
    browser.log_in().await;
    let first = browser.cookies.clone();
    assert_ne!(first[0].1, "ab".repeat(32), "a fixed session is not taken over");
    site.provider.log_in_as("bob");
    browser.log_in().await;
    assert_eq!(browser.user().await, "bob");
    browser.cookies = first;
    assert_eq!(
        browser.status("/api/v1/session").await,
        StatusCode::UNAUTHORIZED,
        "the session before has ended"
    );
}

#[tokio::test]
async fn a_login_never_leads_to_another_site() {
    let site = Site::open();
    for to in [
        "https%3A%2F%2Fevil.example",
        "%2F%2Fevil.example",
        "%2F%5Cevil.example",
        "javascript%3Aalert(1)",
        "%2F%09%2Fevil.example",
    ] {
        let mut browser = site.browser();
        let callback = browser.begin(&format!("/login?to={to}")).await;
        assert_eq!(browser.led(&callback).await, "/", "{to}");
    }
}

#[tokio::test]
async fn requests_of_other_hosts_and_sites_are_refused() {
    let site = Site::open();
    let mut browser = site.browser();
    browser.log_in().await;
    for host in
        ["evil.example", "portal.example.evil.example", "portal.example:8443", "127.0.0.1", "localhost", ""]
    {
        for path in ["/", "/login", "/api/v1/session"] {
            let (response, _) = browser.ask(Request::get(path).header(HOST, host), "").await;
            assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST, "{host} {path}");
        }
    }
    for (name, value) in [
        ("origin", "http://portal.example"),
        ("origin", "https://evil.example"),
        ("origin", "https://portal.example:8443"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let request = Request::post("/api/v1/jobs/cancel").header(HOST, PORTAL).header(name, value);
        let request =
            request.header(CONTENT_TYPE, "application/json").header("x-csrf-token", browser.csrf.clone());
        assert_eq!(
            browser.ask(request, "{\"jobs\": []}").await.0.status(),
            StatusCode::FORBIDDEN,
            "{name}: {value}"
        );
    }
    let own =
        Request::post("/api/v1/jobs/cancel").header(HOST, PORTAL).header(ORIGIN, "https://portal.example");
    let own = own.header(CONTENT_TYPE, "application/json").header("x-csrf-token", browser.csrf.clone());
    assert_eq!(browser.ask(own, "{\"jobs\": []}").await.0.status(), StatusCode::BAD_REQUEST, "it arrives");
}

#[tokio::test]
async fn streams_end_with_their_session() {
    let site = Site::open();
    let mut browser = site.browser();
    browser.log_in().await;
    let (stream, _) = browser.ask(Request::get("/api/v1/events").header(HOST, PORTAL), "").await;
    assert_eq!(stream.status(), StatusCode::OK);
    let csrf = browser.csrf.clone();
    assert_eq!(browser.post("/logout", &csrf, "").await, StatusCode::NO_CONTENT);
    // It has an end.
    to_bytes(stream.into_body(), 1 << 20).await.unwrap();
}

#[tokio::test]
async fn streams_of_a_user_are_bounded() {
    let site = Site::open();
    let mut alice = site.browser();
    alice.log_in().await;
    let mut open = Vec::new();
    for _ in 0..users::STREAMS_MAX {
        let (stream, _) = alice.ask(Request::get("/api/v1/events").header(HOST, PORTAL), "").await;
        assert_eq!(stream.status(), StatusCode::OK);
        open.push(stream);
    }
    let (refused, problem) = alice.ask(Request::get("/api/v1/events").header(HOST, PORTAL), "").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE, "{problem}");
    assert_eq!(refused.headers()[CONTENT_TYPE], "application/problem+json");
    let mut bob = site.logged_in("bob");
    bob.log_in().await;
    let (stream, _) = bob.ask(Request::get("/api/v1/events").header(HOST, PORTAL), "").await;
    assert_eq!(stream.status(), StatusCode::OK, "others go on");
}

#[tokio::test]
async fn only_so_many_users_are_served_at_a_time() {
    let site = Site::with_session("[session]\nusers = 1\n");
    let mut alice = site.browser();
    alice.log_in().await;
    let (stream, _) = alice.ask(Request::get("/api/v1/events").header(HOST, PORTAL), "").await;
    let mut bob = site.logged_in("bob");
    let callback = bob.begin("/login").await;
    let (status, page) = bob.get(&callback).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{page}");
    drop(stream);
    // A user without open pages makes way, and comes back.
    bob.log_in().await;
    assert_eq!((bob.user().await, alice.user().await), ("bob".to_owned(), "alice".to_owned()));
    site.portal.users.end_idle(Time(now().0 + 1000));
    assert_eq!(alice.user().await, "alice", "what was idle is made again");
}

#[tokio::test]
async fn the_file_says_what_is_wrong_with_it() {
    let site = Site::open();
    let path = site.dir.path().join("portal.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let read = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        PortalFile::read(&path).map(drop).unwrap_err().to_string()
    };
    for (from, to, expected) in [
        ("https://portal.example", "http://portal.example", "url: expected https://HOST"),
        ("https://portal.example", "https://portal.example/pliant", "url: expected https://HOST"),
        ("https://portal.example", "https://a@portal.example", "url: expected https://HOST"),
        ("behind_proxy = true\n", "", "tls: expected [tls] with cert and key, found none"),
        ("127.0.0.1:0", "0.0.0.0:0", "listen: expected a loopback address behind a proxy, found 0.0.0.0:0"),
        (&site.provider.issuer, "http://id.example", "login.issuer: expected the https URL of the provider"),
        (&format!("\"{CLIENT_ID}\""), "\"\"", "login.client_id: expected a text"),
        (
            "[login]",
            "[session]\nidle_s = 5\n[login]",
            "session.idle_s: expected 60 to 2592000 seconds, found 5",
        ),
        ("[login]", "[session]\nusers = 0\n[login]", "session.users: expected 1 to 10000, found 0"),
        ("[login]", "nonsense = 1\n[login]", "nonsense"),
        ("claim = ", "users = {}\nclaim = ", "login.users: expected at least one user, found an empty table"),
    ] {
        let error = read(from, to);
        assert!(error.contains(expected), "{to}: {error}");
    }
}
