//! Tokens of programs at a portal: created by their users, limited, revoked with them.

use http::header::AUTHORIZATION;

use super::*;

const TOKENS: &str = "[tokens]\nfolder = \"tokens\"\nlife_s = 3600\n";

impl Browser<'_> {
    async fn create(&mut self, scope: &str, for_s: i64) -> Result<String, StatusCode> {
        let csrf = self.csrf.clone();
        let request = Request::post("/api/v1/tokens").header(HOST, PORTAL).header("x-csrf-token", csrf);
        let body = format!("{{\"scope\": \"{scope}\", \"for_s\": {for_s}}}");
        let (response, text) = self.ask(request.header(CONTENT_TYPE, "application/json"), &body).await;
        if response.status() != StatusCode::OK {
            return Err(response.status());
        }
        let document: Value = serde_json::from_str(&text).unwrap();
        Ok(document["token"].as_str().unwrap().to_owned())
    }
}

impl Site {
    /// A call of a program.
    async fn call(&self, request: http::request::Builder, token: &str, body: &str) -> (StatusCode, String) {
        let request = request.header(HOST, PORTAL).header(AUTHORIZATION, format!("Bearer {token}"));
        let request = request.header(CONTENT_TYPE, "application/json");
        let (response, text) = self.browser().ask(request, body).await;
        (response.status(), text)
    }

    async fn status_with(&self, token: &str) -> StatusCode {
        self.call(Request::get("/api/v1/session"), token, "").await.0
    }
}

#[tokio::test]
async fn a_token_does_what_its_user_may_do_and_no_more() {
    let site = Site::with_session(TOKENS);
    let mut alice = site.browser();
    alice.log_in().await;
    assert!(alice.get("/").await.1.contains("href=\"/tokens\""));
    assert_eq!(alice.status("/tokens").await, StatusCode::OK);
    let read = alice.create("read", 600).await.unwrap();
    let write = alice.create("write", 3600).await.unwrap();
    for (scope, for_s) in [("read", 59), ("read", 3601), ("all", 600)] {
        assert_eq!(alice.create(scope, for_s).await, Err(StatusCode::BAD_REQUEST), "{scope} {for_s}");
    }
    let (status, session) = site.call(Request::get("/api/v1/session"), &read, "").await;
    assert!(status == StatusCode::OK && session.contains("\"user\":\"alice\""), "{session}");
    // The call arrives with a token that permits it, and refuses the empty list.
    let cancel =
        async |token: &str| site.call(Request::post("/api/v1/jobs/cancel"), token, "{\"jobs\": []}").await.0;
    assert_eq!((cancel(&read).await, cancel(&write).await), (StatusCode::FORBIDDEN, StatusCode::BAD_REQUEST));
    // No operator, no pages, no tokens from tokens.
    assert_eq!(site.call(Request::get("/api/v1/what-if"), &write, "").await.0, StatusCode::FORBIDDEN);
    let page = site.call(Request::get("/jobs"), &write, "").await.0;
    assert_eq!(page, StatusCode::SEE_OTHER, "pages need a login");
    let body = "{\"scope\": \"write\", \"for_s\": 3600}";
    assert_eq!(site.call(Request::post("/api/v1/tokens"), &write, body).await.0, StatusCode::FORBIDDEN);
    assert_eq!(site.call(Request::post("/api/v1/tokens/revoke"), &write, "").await.0, StatusCode::FORBIDDEN);
    // Changed ones, and those of another user.
    for wrong in [
        String::new(),
        write.replace("alice", "bob"),
        write.replace("alice", "root"),
        read.replace("read", "write"),
        read.trim_end_matches(".alice").to_owned(),
        write.replace(".alice", ".../alice"),
    ] {
        assert_eq!(site.status_with(&wrong).await, StatusCode::UNAUTHORIZED, "{wrong}");
    }
    // Another site cannot create one.
    let csrf = std::mem::take(&mut alice.csrf);
    assert_eq!(alice.create("read", 600).await, Err(StatusCode::FORBIDDEN));
    assert_eq!(alice.post("/api/v1/tokens/revoke", &csrf, "").await, StatusCode::OK);
    assert_eq!(site.status_with(&read).await, StatusCode::UNAUTHORIZED);
    assert_eq!(site.status_with(&write).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn tokens_end_with_their_user_for_good() {
    let site = Site::with_session(TOKENS);
    let mut bob = site.logged_in("bob");
    bob.log_in().await;
    let mut alice = site.logged_in("alice");
    alice.log_in().await;
    let (of_alice, of_bob) =
        (alice.create("write", 600).await.unwrap(), bob.create("read", 600).await.unwrap());
    let (stream, _) = alice.ask(Request::get("/api/v1/events").header(HOST, PORTAL), "").await;
    let identities = site.dir.path().join("identities");
    std::fs::rename(identities.join("alice"), site.dir.path().join("removed")).unwrap();
    assert_eq!(site.status_with(&of_alice).await, StatusCode::FORBIDDEN, "at once");
    site.portal.end_removed();
    to_bytes(stream.into_body(), 1 << 20).await.unwrap();
    // A later user of that name has none of these rights.
    std::fs::rename(site.dir.path().join("removed"), identities.join("alice")).unwrap();
    assert_eq!(site.status_with(&of_alice).await, StatusCode::UNAUTHORIZED);
    assert_eq!(alice.status("/api/v1/session").await, StatusCode::UNAUTHORIZED, "the session has ended");
    assert_eq!(site.status_with(&of_bob).await, StatusCode::OK, "others stay");
}

#[tokio::test]
async fn a_token_is_not_good_for_another_role() {
    let site = Site::with_session(TOKENS);
    let mut bob = site.logged_in("bob");
    bob.log_in().await;
    let token = bob.create("write", 600).await.unwrap();
    // The operators make the user one of them.
    std::fs::remove_dir_all(site.dir.path().join("identities/bob")).unwrap();
    site.issue(Role::Operator, "bob");
    assert_eq!(site.status_with(&token).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn users_whom_the_file_does_not_name_any_more_have_no_tokens() {
    let site = Site::with_session(TOKENS);
    let mut alice = site.browser();
    alice.log_in().await;
    let token = alice.create("read", 600).await.unwrap();
    let path = site.dir.path().join("portal.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("[tokens]", "users = { \"7\" = \"bob\" }\n[tokens]")).unwrap();
    let again = Site::portal(&path);
    again.end_removed();
    assert_eq!(again.tokens.as_ref().unwrap().find(&token, now()).unwrap(), None);
}

#[tokio::test]
async fn without_a_folder_there_are_no_tokens() {
    let site = Site::open();
    let mut alice = site.browser();
    alice.log_in().await;
    assert!(!alice.get("/").await.1.contains("href=\"/tokens\""));
    assert_eq!(alice.status("/tokens").await, StatusCode::NOT_FOUND);
    assert_eq!(alice.create("read", 600).await, Err(StatusCode::NOT_FOUND));
    let (status, problem) = site.call(Request::get("/api/v1/session"), "pliant.read.1.0.alice", "").await;
    assert!(status == StatusCode::UNAUTHORIZED && problem.contains("this portal has no tokens"), "{problem}");
}
