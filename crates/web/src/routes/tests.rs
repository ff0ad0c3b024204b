//! The guards before pages and calls, as a browser and as an attacker meet them. No federation is behind them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, ORIGIN};
use pliant_client::{Client, ClientFile};
use pliant_model::Time;
use pliant_transport::{AgentAddress, Authority, CertificateRequest, Credentials, Identity, Role};
use tower::ServiceExt;

use super::*;
use crate::follow::tests::{ended, record};
use crate::script::ScriptReader;
use crate::state::STREAMS_MAX;
use crate::tokens::{TokenKey, TokenScope};
use crate::types::now;

mod problems;

/// Pages without a federation, and the browser that opened them.
struct Pages {
    router: Router,
    guard: Arc<Guard>,
    cookie: String,
    csrf: String,
    _dir: tempfile::TempDir,
}

const OWN: &str = "127.0.0.1:8000";

/// The pages of a user, before their link is used.
pub(crate) fn closed() -> (Router, Arc<Guard>, Arc<Web>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::init(&dir.path().join("ca"), "test", now()).unwrap();
    let request = CertificateRequest::new(Identity::new(Role::User, "alice").unwrap());
    let folder = dir.path().join("alice");
    authority.issue_into(&folder, &request, now()).unwrap();
    let tls = Credentials::in_folder(&folder);
    // No daemon listens on this port.
    let agent = AgentAddress { name: "master".parse().unwrap(), address: "127.0.0.1:9".to_owned() };
    let file = ClientFile { agent: vec![agent], master: Vec::new(), tls, shared: Default::default() };
    let web = Arc::new(Web::new(
        Client::new(&file).unwrap(),
        ScriptReader::new(
            |_| Err(Problem::unprocessable("no scripts")),
            |_, _| Err(Problem::unprocessable("no scripts")),
        ),
    ));
    let tokens = TokenKey::new(&dir.path().join("key"), "alice", false);
    let guard = Arc::new(Guard::new(OWN.parse::<SocketAddr>().unwrap(), tokens).unwrap());
    (router(web.clone(), guard.clone()), guard, web, dir)
}

fn get(path: &str) -> http::request::Builder {
    Request::get(path).header(HOST, OWN)
}

fn post(path: &str) -> http::request::Builder {
    Request::post(path).header(HOST, OWN).header(CONTENT_TYPE, "application/json")
}

async fn answer(router: &Router, request: http::request::Builder, body: &str) -> (Response, String) {
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    // Streams do not end.
    let bytes = match parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream") {
        true => return (Response::from_parts(parts, body), String::new()),
        false => to_bytes(body, 1 << 22).await.unwrap(),
    };
    (Response::from_parts(parts, Body::empty()), String::from_utf8(bytes.to_vec()).unwrap())
}

impl Pages {
    async fn open() -> Pages {
        let (router, guard, _, dir) = closed();
        let token = guard.sessions().token().unwrap();
        let (response, _) = answer(&router, get(&format!("/open?token={token}")), "").await;
        assert_eq!(response.status(), StatusCode::OK);
        let cookie = response.headers()[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned();
        let (_, page) = answer(&router, get("/submit").header(COOKIE, &cookie), "").await;
        let (_, rest) = page.split_once("name=\"csrf-token\" content=\"").unwrap();
        let csrf = rest.split('"').next().unwrap().to_owned();
        Pages { router, guard, cookie, csrf, _dir: dir }
    }

    async fn status(&self, request: http::request::Builder, body: &str) -> StatusCode {
        answer(&self.router, request.header(COOKIE, &self.cookie), body).await.0.status()
    }
}

#[tokio::test]
async fn a_link_opens_one_browser_once() {
    let pages = Pages::open().await;
    assert_eq!(pages.guard.sessions().token(), None);
    for token in ["", "0", &"0".repeat(64)] {
        let (response, page) = answer(&pages.router, get(&format!("/open?token={token}")), "").await;
        assert_eq!(response.status(), StatusCode::GONE, "{page}");
        assert!(!response.headers().contains_key(SET_COOKIE));
    }
    // The same browser may reload the page of the link.
    assert_eq!(pages.status(get("/open?token=spent"), "").await, StatusCode::OK);
}

#[tokio::test]
async fn nothing_is_shown_without_the_session() {
    let pages = Pages::open().await;
    for path in [
        "/",
        "/jobs",
        "/jobs/lyon.1",
        "/submit",
        "/launches",
        "/work",
        "/work/0123456789abcdef",
        "/what-if",
        "/admin",
        "/tokens",
        "/launches/master/00112233445566778899aabbccddeeff",
        "/none",
        "/api/v1/session",
        "/api/v1/jobs",
        "/api/v1/events",
        "/api/v1/work",
        "/api/v1/shares",
        "/api/v1/what-if",
        "/api/v1/openapi.json",
        "/api/v1/none",
    ] {
        let (response, body) = answer(&pages.router, get(path), "").await;
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path}: {body}");
        assert!(!body.contains("alice") && !body.contains(&pages.csrf), "{path}: {body}");
        let is_problem = response.headers()[CONTENT_TYPE] == "application/problem+json";
        assert_eq!(is_problem, path.starts_with("/api/"), "{path}");
    }
    assert_eq!(pages.status(get("/api/v1/session"), "").await, StatusCode::OK);
}

#[tokio::test]
async fn another_host_is_refused() {
    let pages = Pages::open().await;
    let asked = |host: &str| Request::get("/").header(HOST, host);
    for host in [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1",
        "127.0.0.1:80",
        "localhost",
        "127.0.0.1.evil.example:8000",
        "",
    ] {
        assert_eq!(pages.status(asked(host), "").await, StatusCode::MISDIRECTED_REQUEST, "{host}");
    }
    assert_eq!(pages.status(Request::get("/"), "").await, StatusCode::MISDIRECTED_REQUEST, "no host");
    let twice = asked(OWN).header(HOST, "evil.example");
    assert_eq!(pages.status(twice, "").await, StatusCode::MISDIRECTED_REQUEST, "two hosts");
    for host in [OWN, "localhost:8000", "LOCALHOST:8000"] {
        assert_eq!(pages.status(asked(host), "").await, StatusCode::OK, "{host}");
    }
    let (response, _) =
        answer(&pages.router, Request::get("/open?token=x").header(HOST, "evil.example"), "").await;
    assert_eq!(response.status(), StatusCode::MISDIRECTED_REQUEST, "not even the link");
}

#[tokio::test]
async fn other_sites_change_nothing() {
    let pages = Pages::open().await;
    let cancel = || post("/api/v1/jobs/cancel");
    let body = "{\"jobs\": []}";
    // It arrives: an empty list is refused by the call itself.
    let own = || cancel().header("x-csrf-token", &pages.csrf);
    assert_eq!(pages.status(own(), body).await, StatusCode::BAD_REQUEST);
    let same = own().header(ORIGIN, format!("http://{OWN}")).header("sec-fetch-site", "same-origin");
    assert_eq!(pages.status(same, body).await, StatusCode::BAD_REQUEST);
    assert_eq!(pages.status(cancel(), body).await, StatusCode::FORBIDDEN, "without the token");
    let guessed = cancel().header("x-csrf-token", "0".repeat(64));
    assert_eq!(pages.status(guessed, body).await, StatusCode::FORBIDDEN, "another token");
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "https://127.0.0.1:8000"),
        ("origin", "http://127.0.0.1:8001"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        // Another port of this machine.
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "none"),
    ] {
        assert_eq!(
            pages.status(own().header(name, value), body).await,
            StatusCode::FORBIDDEN,
            "{name}: {value}"
        );
    }
    // A form is sent without asking: not as JSON, and not with a header of its own.
    let form = Request::post("/api/v1/jobs").header(HOST, OWN).header("x-csrf-token", &pages.csrf);
    let form = form.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    assert_eq!(pages.status(form, "work=pi").await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let framed = get("/").header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "no-cors");
    assert_eq!(pages.status(framed, "").await, StatusCode::FORBIDDEN);
    let link = get("/").header("sec-fetch-site", "cross-site").header("sec-fetch-mode", "navigate");
    assert_eq!(pages.status(link, "").await, StatusCode::OK, "another site may link to a page");
}

#[tokio::test]
async fn a_token_of_a_program_permits_what_it_says() {
    let (router, _guard, _web, dir) = closed();
    let key = TokenKey::new(&dir.path().join("key"), "alice", false);
    let status = async |request: http::request::Builder, token: &str| {
        let request = request.header("authorization", format!("Bearer {token}"));
        answer(&router, request, "{\"jobs\": []}").await.0.status()
    };
    let cancel = || post("/api/v1/jobs/cancel");
    let hour = Time(now().0 + 3600);
    let (read, write) =
        (key.create(TokenScope::Read, hour).unwrap(), key.create(TokenScope::Write, hour).unwrap());
    assert_eq!(status(get("/api/v1/session"), &read).await, StatusCode::OK);
    assert_eq!(status(cancel(), &read).await, StatusCode::FORBIDDEN);
    assert_eq!(
        status(cancel(), &write).await,
        StatusCode::BAD_REQUEST,
        "the call itself refuses an empty list"
    );
    let old = key.create(TokenScope::Write, Time(now().0 - 1)).unwrap();
    for bad in ["", "x", &old, &read.replace("read", "write")] {
        assert_eq!(status(get("/api/v1/session"), bad).await, StatusCode::UNAUTHORIZED, "{bad}");
    }
    assert_eq!(status(get("/"), &write).await, StatusCode::UNAUTHORIZED, "tokens are for the API");
    let foreign = Request::get("/api/v1/session").header(HOST, "evil.example");
    assert_eq!(status(foreign, &write).await, StatusCode::MISDIRECTED_REQUEST);
    let from_page = cancel().header(ORIGIN, "http://evil.example");
    assert_eq!(
        status(from_page, &write).await,
        StatusCode::FORBIDDEN,
        "a page of another site that has a token"
    );
    key.revoke_all().unwrap();
    assert_eq!(status(get("/api/v1/session"), &read).await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn every_answer_has_a_strict_policy() {
    let pages = Pages::open().await;
    for (path, expected) in [
        ("/", StatusCode::OK),
        ("/assets/web.js", StatusCode::OK),
        ("/none", StatusCode::NOT_FOUND),
        ("/api/v1/none", StatusCode::NOT_FOUND),
        ("/api/v1/openapi.json", StatusCode::OK),
    ] {
        let (response, _) = answer(&pages.router, get(path).header(COOKIE, &pages.cookie), "").await;
        assert_eq!(response.status(), expected, "{path}");
        let headers = response.headers();
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"),
            "{path}: {policy}"
        );
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        assert_eq!(headers["cache-control"], "no-store", "{path}");
    }
}

#[tokio::test]
async fn paths_lead_nowhere_else() {
    let pages = Pages::open().await;
    for path in [
        "/assets/../Cargo.toml",
        "/assets/..%2fCargo.toml",
        "/assets/%2e%2e/Cargo.toml",
        "/assets/web.css%00",
        "/assets/",
        "/assets/x",
    ] {
        assert_eq!(pages.status(get(path), "").await, StatusCode::NOT_FOUND, "{path}");
    }
    for name in [
        "work/..%2f..%2fkey.pem",
        "work/%2e%2e/key.pem",
        "..%2fkey.pem",
        "%2fetc%2fpasswd",
        "work//x",
        "work/a%00b",
    ] {
        let path = format!("/api/v1/jobs/lyon.1/files/{name}");
        assert_eq!(pages.status(get(&path), "").await, StatusCode::BAD_REQUEST, "{path}");
    }
    for id in ["lyon", "..%2f..", "lyon.-1", "lyon.1%2f..", "%3Cscript%3E"] {
        assert_eq!(pages.status(get(&format!("/api/v1/jobs/{id}")), "").await, StatusCode::NOT_FOUND, "{id}");
        assert_eq!(pages.status(get(&format!("/jobs/{id}")), "").await, StatusCode::NOT_FOUND, "{id}");
    }
}

#[tokio::test]
async fn only_so_many_streams_are_open() {
    let (router, guard, web, _dir) = closed();
    let cookie = guard.sessions().spend(&guard.sessions().token().unwrap()).unwrap().unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let stream = async || answer(&router, get("/api/v1/events").header(COOKIE, cookie), "").await.0;
    let mut open = Vec::new();
    for _ in 0..STREAMS_MAX {
        open.push(stream().await);
    }
    assert!(open.iter().all(|response| response.status() == StatusCode::OK));
    for _ in STREAMS_MAX..10_000 {
        assert_eq!(stream().await.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert!(web.follower.changes().is_followed());
    open.pop();
    assert_eq!(stream().await.status(), StatusCode::OK, "a closed stream frees a place");
    drop(open);
    assert!(!web.follower.changes().is_followed(), "nothing is polled for pages that are gone");
}

#[tokio::test]
async fn bodies_and_queries_are_checked() {
    let pages = Pages::open().await;
    let send = async |path: &str, body: &str| {
        pages.status(post(path).header("x-csrf-token", &pages.csrf), body).await
    };
    let most = 4 << 20;
    assert_eq!(send("/api/v1/estimates", &" ".repeat(most + 1)).await, StatusCode::PAYLOAD_TOO_LARGE);
    for body in [
        "",
        "{",
        "{}",
        "{\"work\": {\"kind\": \"shell\"}}",
        "{\"work\": {\"kind\": \"service\", \"name\": \"pi\"}, \"else\": 1}",
        "{\"work\": {\"kind\": \"service\", \"name\": \"a/b\"}}",
        "{\"work\": {\"kind\": \"service\", \"name\": \"pi\"}, \"key\": \"12\"}",
        "{\"work\": {\"kind\": \"service\", \"name\": \"pi\"}, \"server\": \"a b\"}",
    ] {
        assert_eq!(send("/api/v1/jobs", body).await, StatusCode::BAD_REQUEST, "{body}");
    }
    for query in ["state=GONE", "page=x", "sort=colour", "ascending=maybe"] {
        assert_eq!(
            pages.status(get(&format!("/api/v1/jobs?{query}")), "").await,
            StatusCode::BAD_REQUEST,
            "{query}"
        );
    }
    let script = "{\"work\": {\"kind\": \"script\", \"name\": \"a\", \"text\": \"x\"}}";
    assert_eq!(
        send("/api/v1/jobs", script).await,
        StatusCode::UNPROCESSABLE_ENTITY,
        "the reader of scripts is asked"
    );
}

/// Not timed: that is for measurements.
#[tokio::test]
async fn a_hundred_thousand_jobs_are_paged() {
    let (router, guard, web, _dir) = closed();
    let cookie = guard.sessions().spend(&guard.sessions().token().unwrap()).unwrap().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let waiting = (90_001..=100_000).map(|number| record("lyon", number, number.into()));
    web.follower.fill((1..=90_000).map(|number| ended("nice", number, number.into())).chain(waiting));
    let list = async |query: &str| -> serde_json::Value {
        // A slow machine must not make the answers too old.
        web.follower.fill(std::iter::empty());
        let (response, text) =
            answer(&router, get(&format!("/api/v1/jobs?{query}")).header(COOKIE, &cookie), "").await;
        assert_eq!(response.status(), StatusCode::OK, "{query}: {text}");
        serde_json::from_str(&text).unwrap()
    };
    let first = list("").await;
    assert_eq!(
        (&first["matching"], &first["complete"], &first["cut"]),
        (&100_000.into(), &true.into(), &false.into())
    );
    assert_eq!(first["jobs"].as_array().unwrap().len(), 100);
    assert_eq!(first["jobs"][0]["job_id"], "lyon.100000");
    let last = list("page=1000").await;
    assert_eq!(last["jobs"][99]["job_id"], "nice.1");
    assert_eq!(list("page=1001").await["jobs"].as_array().unwrap().len(), 0);
    let sorted = list("sort=id&ascending=true&state=QUEUED&per_page=1000&page=10").await;
    assert_eq!(
        (&sorted["matching"], &sorted["jobs"][999]["job_id"]),
        (&10_000.into(), &"lyon.100000".into())
    );
    let found = list("text=NICE.4242").await;
    assert_eq!(found["matching"], 11, "nice.4242 and nice.42420 to nice.42429");
    assert!(list("per_page=100000").await["jobs"].as_array().unwrap().len() <= 1000);
}

#[tokio::test]
async fn the_description_names_every_call_and_every_field() {
    let document: serde_json::Value = serde_json::from_str(&api::openapi()).unwrap();
    assert_eq!(document["openapi"].as_str().unwrap().split('.').next(), Some("3"));
    let paths = document["paths"].as_object().unwrap();
    // The routes, as the source has them: each call is described, and nothing else is.
    let source = include_str!("../api/mod.rs");
    let routes = source.lines().filter_map(|line| line.trim().strip_prefix(".route(\"")?.split_once("\", "));
    let routed: BTreeSet<String> = routes
        .filter(|(path, _)| *path != "/openapi.json")
        .flat_map(|(path, handlers)| {
            let path = path.replace("{*", "{");
            ["get", "post"]
                .into_iter()
                .filter(|method| handlers.contains(&format!("{method}(")))
                .map(move |method| format!("{method} {path}"))
        })
        .collect();
    let described: BTreeSet<String> = paths
        .iter()
        .flat_map(|(path, calls)| {
            calls.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
        })
        .collect();
    assert_eq!(described, routed);
    assert!(routed.contains("get /jobs/{id}/call/{name}") && routed.len() >= 49, "{routed:?}");
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(
        (&schemes["token"]["scheme"], &schemes["session"]["in"]),
        (&"bearer".into(), &"cookie".into())
    );
    assert_eq!(document["security"].as_array().unwrap().len(), 2, "one of them is enough");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for (field, described) in schema["properties"].as_object().into_iter().flatten() {
            let alternative = described["oneOf"].as_array().into_iter().flatten();
            let has = alternative.chain([described]).any(|one| one.get("description").is_some());
            assert!(has, "{name}.{field}: {described}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_a_body_are_bounded() {
    let (_, _, web, _dir) = closed();
    let ask = |body: Body| {
        let request = Request::post("/api/v1/jobs").header(CONTENT_TYPE, "application/json");
        content(web.clone()).oneshot(request.body(body).unwrap())
    };
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..BODIES_MAX {
        slow.spawn(ask(Body::from_stream(tokio_stream::pending::<Result<bytes::Bytes, std::io::Error>>())));
    }
    while web.bodies.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(Body::from("{}")).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    let page = Request::get("/api/v1/openapi.json").body(Body::empty()).unwrap();
    assert_eq!(content(web.clone()).oneshot(page).await.unwrap().status(), StatusCode::OK, "reading goes on");
    slow.shutdown().await;
    assert_eq!(ask(Body::from("{}")).await.unwrap().status(), StatusCode::BAD_REQUEST);
}
