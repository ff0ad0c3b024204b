//! Texts that would be markup if a page let them: those that a user or an operator can choose, and any text of any answer.

use pliant_testing::browser::find;

use super::browser::{HOSTILE_NAME, clean, click, fill};
use super::chromium::Browser;
use super::*;

/// Has every text that the API answers with be followed by markup, but for words that pages compare, IDs and addresses.
const ALL_HOSTILE: &str = r#"(() => {
  const words = new Set(["state", "how", "kind", "reason", "launch", "job_id", "id", "work_id", "algorithm", "heuristic", "direction", "scope", "signature", "version", "key"]);
  const hostile = (value, key) => {
    if (typeof value === "string") return words.has(key) ? value : `${value}<img src=x onerror=document.title='hacked'>`;
    if (Array.isArray(value)) return value.map((one) => hostile(one, key));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, hostile(one, name)]));
  };
  const { json } = Response.prototype, { parse } = JSON;
  Response.prototype.json = async function () { return hostile(await json.call(this)); };
  JSON.parse = (text) => hostile(parse(text));
})()"#;

fn opened(program: &std::path::Path, site: &Pages) -> Browser {
    let mut browser = Browser::start(program);
    browser.show(1280, 900, false);
    browser.open(&format!("http://{}{}", site.address, site.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser
}

/// Waits until some part of the page has that text, and checks that it is nothing but a text.
fn shows(browser: &mut Browser, part: &str, text: &str) {
    browser.until(&format!("document.querySelector('{part}')?.textContent.includes({})", json!(text)));
    clean(browser);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_name_that_a_user_chooses_is_a_text() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    let pages = Pages::opened(&federation, Role::User, "alice");
    // A service argument, a job name, an option, an argument, an input file, an output file, and lines of both outputs.
    let text = "#!/bin/sh\ntouch \"out $1\"; echo \"$1\"; echo \"$1\" >&2\n".to_owned();
    let script = json!({
        "work": { "kind": "script", "name": HOSTILE_NAME, "text": text, "options": ["--rigid", "1", "--time", "1m"], "arguments": [HOSTILE] },
        "files": [{ "name": format!("in {HOSTILE}"), "base64": "aGkK" }],
    });
    let call = json!({ "work": { "kind": "service", "name": "say", "arguments": { "text": HOSTILE } } });
    let mut ids = Vec::new();
    for body in [&script, &call] {
        ids.push(pages.post("/api/v1/jobs", body).json(201)["job_id"].as_str().unwrap().to_owned());
    }
    for id in &ids {
        let path = format!("/api/v1/jobs/{id}");
        until("the end of the job", async || {
            (pages.json(&path)["job"]["state"] == "COMPLETED").then_some(())
        })
        .await;
    }
    let site = Pages::start(&federation, Role::User, "alice");
    let mut browser = Browser::start(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("http://{}{}", site.address, site.link));
    browser.until("document.body.dataset.page === 'overview'");
    for (id, shown) in [(&ids[0], "#inputs, #files, #submitted, #log"), (&ids[1], "#submitted, #log")] {
        browser.open(&format!("http://{}/jobs/{id}", site.address));
        let hostile = json!(HOSTILE);
        browser.until(&format!(
            "[...document.querySelectorAll('{shown}')].every((node) => node.textContent.includes({hostile}))"
        ));
        clean(&mut browser);
        browser.open(&format!("http://{}/submit?from={id}", site.address));
        browser.until("document.body.dataset.rendered === 'estimates:1'");
        assert!(
            browser
                .evaluate("document.querySelector('#command').textContent")
                .to_string()
                .contains("onerror")
        );
        clean(&mut browser);
    }
    for page in
        ["/jobs?state=", "/jobs?by=name", "/jobs?text=%3Cimg%20src=x%20onerror=document.title='hacked'%3E"]
    {
        browser.open(&format!("http://{}{page}", site.address));
        browser.until("document.querySelector('main').textContent.includes('onerror')");
        clean(&mut browser);
    }
}

/// The reasons of operators, the names of sweeps and of their folders, groups, and the labels of charts.
#[tokio::test(flavor = "multi_thread")]
async fn reasons_sweeps_groups_and_charts_show_texts() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0), Cluster::new("nice", 1, 1.0)]).await;
    let alice = Pages::opened(&federation, Role::User, "alice");
    let root = Pages::opened(&federation, Role::Operator, "root");
    let script = |procs: &str| json!({ "work": { "kind": "script", "name": HOSTILE_NAME, "text": "#!/bin/sh\nsleep 900\n", "options": ["--rigid", procs, "--time", "20m"] }, "server": "lyon" });
    let submitted = |procs: &str| {
        alice.post("/api/v1/jobs", &script(procs)).json(201)["job_id"].as_str().unwrap().to_owned()
    };
    let (running, held) = (submitted("2"), submitted("1"));
    root.post(&format!("/api/v1/jobs/{held}/hold"), &json!({ "why": HOSTILE })).json(200);
    let drain = json!({ "server": "lyon", "drained": true, "why": HOSTILE });
    root.post("/api/v1/admin/drains", &drain).json(200);
    let limit = json!({ "user": "alice", "why": HOSTILE, "limits": { "running-jobs": 9 } });
    root.post("/api/v1/admin/limits", &limit).json(200);
    root.post("/api/v1/admin/bans", &json!({ "user": "bob", "banned": true, "why": HOSTILE })).json(200);
    // A sweep by a script of that name, into a folder of that name.
    let user = CommandUser::new(&federation, "alice");
    std::fs::write(user.dir().join(HOSTILE_NAME), "#!/bin/sh\necho \"$1\"\n").unwrap();
    let mut sweep = user.command("sweep --time 1m");
    sweep.args(["--script", HOSTILE_NAME, "--vary", "x=1..2", "--out", &format!("out {HOSTILE_NAME}")]);
    let (code, _, error) =
        said(sweep.env("XDG_STATE_HOME", federation.path().join("state")).output().unwrap());
    assert_eq!(code, 0, "{error}");

    for (role, name) in [(Role::User, "alice"), (Role::Operator, "root")] {
        let site = Pages::start(&federation, role, name);
        let mut browser = opened(&program, &site);
        // The chart has no words in the page until a job is pinned: the hint of the mouse has the same.
        browser.until("/^gantt:[1-9]/.test(document.body.dataset.rendered)");
        browser.evaluate("document.querySelector('#gantt').focus()");
        browser.press("n");
        shows(&mut browser, "#pinned", HOSTILE_NAME);
        browser.open(&format!("http://{}/jobs/{held}", site.address));
        shows(&mut browser, "#summary", HOSTILE);
        shows(&mut browser, "#wait-text", HOSTILE);
        browser.open(&format!("http://{}/jobs/{running}", site.address));
        shows(&mut browser, "#summary", HOSTILE_NAME);
        browser.open(&format!("http://{}/jobs?by=name", site.address));
        shows(&mut browser, "#groups", HOSTILE_NAME);
        click(&mut browser, "#groups tbody button");
        shows(&mut browser, "#scope", HOSTILE_NAME);
        if role == Role::User {
            browser.open(&format!("http://{}/submit?service=say&text=x", site.address));
            browser.until("document.querySelector('#server option[value=lyon]')");
            fill(&mut browser, "#server", "lyon");
            browser.until("document.body.dataset.rendered === 'estimates:0'");
            shows(&mut browser, "#submit", HOSTILE);
            browser.open(&format!("http://{}/work", site.address));
            shows(&mut browser, "#works", HOSTILE_NAME);
            click(&mut browser, "#works tbody a");
            browser.until("(document.body.dataset.rendered ?? '').startsWith('work:over')");
            shows(&mut browser, "main", HOSTILE_NAME);
        } else {
            browser.open(&format!("http://{}/admin", site.address));
            for part in ["#limits", "#audit"] {
                shows(&mut browser, part, HOSTILE);
            }
            browser.until("document.querySelector('#users [data-key=bob] td').title.includes('onerror')");
            clean(&mut browser);
        }
    }
}

/// What daemons refuse as a name today, such as the name of a task, pages do not rely on.
#[tokio::test(flavor = "multi_thread")]
async fn no_text_of_an_answer_is_markup() {
    let Some(program) = find() else { return };
    let federation = launches::with_servers(&["lyon", "paris"], "").await;
    let user = CommandUser::new(&federation, "alice");
    let id = launches::launch(&user, &["first", "second"], 300.0);
    let alice = federation.client("alice");
    let waiting = submit(&alice, &order_to("lyon", rigid("sleep 900", 2, 1800))).await.handle;
    run(&alice, &order(rigid("echo done", 1, 60))).await;
    std::fs::write(user.dir().join("echo.sh"), "#!/bin/sh\necho \"$1\"\n").unwrap();
    let mut sweep = user.command("sweep --time 1m --script echo.sh --vary x=1..2 --out echoes -- {x}");
    let (code, _, error) =
        said(sweep.env("XDG_STATE_HOME", federation.path().join("state")).output().unwrap());
    assert_eq!(code, 0, "{error}");

    for (role, name) in [(Role::User, "alice"), (Role::Operator, "root")] {
        let site = Pages::start(&federation, role, name);
        let mut browser = opened(&program, &site);
        browser.run_first(ALL_HOSTILE);
        let mut paths = vec![
            ("/".to_owned(), "#clusters"),
            ("/jobs?state=".to_owned(), "#jobs"),
            ("/jobs?by=name".to_owned(), "#groups"),
            (format!("/jobs/{waiting}"), "#facts"),
            ("/submit?service=sleep".to_owned(), "#service-summary"),
            ("/launches".to_owned(), "#launches"),
            (format!("/launches/{id}"), "#mapping"),
        ];
        match role {
            Role::User => paths.push(("/work".to_owned(), "#works")),
            _ => paths.extend([("/admin".to_owned(), "#audit"), ("/admin".to_owned(), "#users")]),
        }
        for (path, part) in &paths {
            browser.open(&format!("http://{}{path}", site.address));
            shows(&mut browser, part, HOSTILE_NAME);
            browser.until("document.querySelector('#live').textContent === 'live'");
            clean(&mut browser);
        }
        if role == Role::User {
            click(&mut browser, "#works tbody a");
            browser.until("(document.body.dataset.rendered ?? '').startsWith('work:')");
            for part in ["#facts", "#servers tbody", "#rows tbody"] {
                shows(&mut browser, part, HOSTILE_NAME);
            }
        }
        // A chart with a job that is pinned.
        browser.open(&format!("http://{}/", site.address));
        browser.until("(document.body.dataset.rendered ?? '').startsWith('gantt:')");
        browser.evaluate("document.querySelector('#gantt').focus()");
        browser.press("n");
        shows(&mut browser, "#pinned", HOSTILE_NAME);
    }
}
