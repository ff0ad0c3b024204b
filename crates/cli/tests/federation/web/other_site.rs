//! A page of another site in the browser that has the session: what it tries changes nothing, and it reads nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};

use pliant_testing::browser::find;

use super::chromium::Browser;
use super::*;

/// Tries what a page can try against another origin. The results are in `window.found`, by what was tried: what was read, or `refused`.
const ATTACKS: &str = r#"<!doctype html><title>other site</title><body><script>
const site = "SITE", job = "JOB", found = window.found = {};
const cancel = `/api/v1/jobs/${job}/cancel`, several = JSON.stringify({ jobs: [job] });
const work = JSON.stringify({ work: { kind: "service", name: "sleep", arguments: { seconds: "600" } } });
const ask = async (name, path, options) => {
  const answer = fetch(site + path, { credentials: "include", ...options });
  found[name] = await answer.then(async (answer) => `${answer.type} ${answer.status} ${await answer.text()}`, () => "refused");
};
const load = (name, tag, key, path) => new Promise((done) => {
  const node = document.createElement(tag), end = (text) => () => { found[name] = text; done(); };
  Object.assign(node, { onload: end("loaded"), onerror: end("refused"), [key]: site + path });
  if (tag === "link") node.rel = "stylesheet";
  document.body.append(node);
});
const events = () => new Promise((done) => {
  const source = new EventSource(`${site}/api/v1/events`, { withCredentials: true }), end = (text) => () => { found.events = text; source.close(); done(); };
  source.onopen = end("open");
  source.onerror = end("refused");
});
(async () => {
  for (const mode of ["cors", "no-cors"]) {
    for (const path of ["/", "/api/v1/session", "/api/v1/jobs", "/api/v1/events", "/open?token=0"]) await ask(`GET ${mode} ${path}`, path, { mode });
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json"]) {
      const headers = { "content-type": type };
      await ask(`cancel ${mode} ${type}`, "/api/v1/jobs/cancel", { method: "POST", mode, headers, body: several });
      await ask(`submit ${mode} ${type}`, "/api/v1/jobs", { method: "POST", mode, headers, body: work });
    }
    await ask(`one ${mode}`, cancel, { method: "POST", mode });
  }
  await ask("token", cancel, { method: "POST", headers: { "x-csrf-token": "0".repeat(64) } });
  await events();
  await load("img", "img", "src", "/api/v1/jobs");
  await load("script", "script", "src", "/api/v1/jobs");
  await load("own script", "script", "src", "/assets/web.js");
  await load("link", "link", "href", "/assets/web.css");
  found.beacon = navigator.sendBeacon(site + cancel, new Blob([several], { type: "text/plain" })) && "sent";
  const frame = document.createElement("iframe"), framed = new Promise((done) => { frame.onload = done; });
  frame.src = site + "/jobs";
  document.body.append(frame);
  await framed;
  document.body.dataset.done = "true";
})();
</script>
<form id="cancel" method="post" action="SITE/api/v1/jobs/JOB/cancel"></form>
<form id="submit" method="post" enctype="text/plain" action="SITE/api/v1/jobs">
<input name='{"work": {"kind": "service", "name": "say", "arguments": {"text": "x' value='"}}}'></form>
"#;

/// Serves that page to all who ask, on a port of its own, until the test ends.
fn other_site(page: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close";
            // A browser that goes away needs no answer.
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len());
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_site_changes_nothing_and_reads_nothing() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = federation.client("alice");
    let job = submit(&alice, &order(rigid("sleep 1000", 1, 2000))).await.handle;
    let pages = Pages::start(&federation, Role::User, "alice");
    let site = format!("http://{}", pages.address);
    let other = other_site(ATTACKS.replace("SITE", &site).replace("JOB", &job.to_string()));
    let mut browser = Browser::start(&program);
    browser.open(&format!("{site}{}", pages.link));
    browser.until("document.body.dataset.page === 'overview'");

    // The session is in a cookie that scripts do not see and that other sites do not send.
    let cookies = browser.cookie_list(&site);
    assert_eq!(cookies.len(), 1, "{cookies:?}");
    let cookie = &cookies[0];
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&json!(true), &json!("Strict")), "{cookie}");
    assert_eq!((&cookie["path"], &cookie["session"]), (&json!("/"), &json!(true)), "{cookie}");
    assert_eq!(browser.evaluate("document.cookie"), "");
    // The pages themselves do with it what the other site tries.
    let own =
        "Web.read('/jobs').then(({ jobs }) => jobs.map(({ job_id, state }) => `${job_id} ${state}`).join())";
    let unchanged = format!("{job} ACTIVE");
    assert_eq!(browser.evaluate(own), json!(unchanged));

    // The same host on another port, whose requests have the cookie; and another host.
    for host in [other.to_string(), format!("localhost:{}", other.port())] {
        browser.open(&format!("http://{host}/"));
        browser.until("document.body.dataset.done === 'true'");
        let found = browser.evaluate("window.found");
        let found = found.as_object().unwrap();
        assert_eq!(found.len(), 35, "{found:?}");
        for (tried, outcome) in found {
            let expected = if tried == "beacon" { "sent" } else { "refused" };
            assert_eq!(outcome, expected, "{host}: {tried}");
        }
        // The console names the policy that kept the page out of a frame.
        let problems = browser.problems();
        assert!(
            problems.iter().any(|one| one.contains("frame-ancestors") || one.contains("X-Frame-Options")),
            "{problems:?}"
        );
        // A form leads the browser to the answer.
        for form in ["cancel", "submit"] {
            browser.open(&format!("http://{host}/"));
            browser.until("document.body.dataset.done === 'true'");
            browser.evaluate(&format!("document.getElementById('{form}').submit()"));
            browser.until(&format!(
                "location.href.startsWith('{site}/api/') && document.readyState === 'complete'"
            ));
            let answer = browser.evaluate("document.body.innerText").to_string();
            assert!(
                answer.contains("expected a request from a page of this server"),
                "{host}: {form}: {answer}"
            );
        }
        browser.problems();
        browser.open(&format!("{site}/jobs"));
        browser.until("document.body.dataset.rendered === 'jobs:1'");
        assert_eq!(browser.evaluate(own), json!(unchanged), "{host}");
    }
    assert_eq!(alice.job(&job).await.unwrap().state, JobState::Active);
}
