//! The pages of `pliant web`, as a browser and as an attacker meet them.

mod acts;
mod browser;
mod calls;
mod chromium;
mod figures;
mod hostile;
mod http;
mod keyboard;
mod launches;
mod opening;
mod other_site;
mod portal;
mod resubmit;
mod roles;
mod work;

use std::path::PathBuf;

use pliant_control::job::JobState;
use pliant_transport::Role;
use serde_json::{Value, json};

use crate::harness::*;
use http::Pages;

/// A script whose name and output would be markup if a page let them.
const HOSTILE: &str = "<img src=x onerror=document.title='hacked'>";

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_submitted_followed_and_cancelled() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0), Cluster::new("nice", 4, 1.0)]).await;
    let alice = federation.client("alice");
    let pages = Pages::opened(&federation, Role::User, "alice");
    let session = pages.json("/api/v1/session");
    assert_eq!((&session["user"], &session["operator"]), (&json!("alice"), &json!(false)));
    let clusters = pages.json("/api/v1/clusters");
    assert_eq!(clusters["clusters"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&clusters["clusters"][1]["server"], &clusters["clusters"][1]["procs"]),
        (&json!("nice"), &json!(4))
    );
    assert_eq!(pages.json("/api/v1/jobs")["matching"], 0);
    assert_eq!(pages.json("/api/v1/health")["warnings"], json!([]));

    // As the form does: services, then estimates, then the submission with a key.
    let services = pages.json("/api/v1/services");
    let sleep = services["services"].as_array().unwrap().iter().find(|one| one["name"] == "sleep").unwrap();
    assert_eq!(
        (&sleep["servers"], &sleep["arguments"][0]["required"]),
        (&json!(["lyon", "nice"]), &json!(true))
    );
    let mut events = pages.events(None);
    let work = json!({ "work": { "kind": "service", "name": "sleep", "arguments": { "seconds": "600" } } });
    let estimates = pages.post("/api/v1/estimates", &work).json(200);
    assert_eq!(estimates["estimates"].as_array().unwrap().len(), 2);
    assert_eq!(estimates["command"], "pliant submit sleep seconds=600");
    let mut keyed = work.clone();
    keyed["key"] = json!("00112233445566778899aabbccddeeff");
    let job = pages.post("/api/v1/jobs", &keyed).json(201);
    let id = job["job_id"].as_str().unwrap().to_owned();
    assert_eq!(
        pages.post("/api/v1/jobs", &keyed).json(201)["job_id"],
        json!(id),
        "the same key is the same job"
    );
    let path = format!("/api/v1/jobs/{id}");
    let handle = id.parse().unwrap();
    assert_eq!(alice.job(&handle).await.unwrap().name, "sleep");

    // The stream says each state.
    events.wait("job", |job| job["job_id"] == json!(id) && job["state"] == "ACTIVE");
    let detail = pages.json(&path);
    assert_eq!((&detail["reason"], detail["compared"].as_array().unwrap().len()), (&json!("tie"), 2));
    let gantt = pages.json("/api/v1/gantt?hours=2");
    let bars = gantt["lanes"].as_array().unwrap().iter().flat_map(|lane| lane["jobs"].as_array().unwrap());
    assert_eq!(
        bars.map(|bar| (&bar["job_id"], &bar["running"])).collect::<Vec<_>>(),
        [(&json!(id), &json!(true))]
    );
    let last = events.last_id.clone();
    drop(events);

    let cancelled = pages.post(&format!("{path}/cancel"), &json!({})).json(200);
    assert_eq!(cancelled["job_id"], json!(id));
    let ended = alice.wait(&handle, |_| {}).await.unwrap();
    assert_eq!(ended.state, JobState::Canceled);
    // A stream that was interrupted goes on where it was.
    pages.events(Some(&last)).wait("job", |job| job["job_id"] == json!(id) && job["state"] == "CANCELED");
    let listed = pages.json("/api/v1/jobs?state=CANCELED&text=SLEEP&sort=id");
    assert_eq!((&listed["matching"], &listed["jobs"][0]["job_id"]), (&json!(1), &json!(id)));
    assert_eq!(pages.json("/api/v1/jobs?state=QUEUED,ACTIVE")["matching"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_leaves_its_log_and_its_files() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let pages = Pages::opened(&federation, Role::User, "alice");
    let text = "#!/bin/sh\n#PLIANT --time 1m\necho \"$1\"; echo careful >&2; printf 'a,b\\n' > 'r s.csv'\n";
    let script = |options: &[&str]| json!({ "work": { "kind": "script", "name": "job.sh", "text": text, "options": options, "arguments": [HOSTILE] } });
    let refused = pages.post("/api/v1/jobs", &script(&["--in", "/etc/passwd"])).json(422);
    assert!(refused["detail"].as_str().unwrap().contains("--in"), "{refused}");
    let too_large = pages.post("/api/v1/jobs", &script(&["--rigid", "3"])).json(422);
    assert_eq!(too_large["causes"], json!(["too-large"]), "{too_large}");
    let job = pages.post("/api/v1/jobs", &script(&["--rigid", "2"])).json(201);
    let (id, procs) = (job["job_id"].as_str().unwrap(), &job["procs"]);
    assert_eq!(procs, 2);
    let path = format!("/api/v1/jobs/{id}");
    until("the end of the job", async || (pages.json(&path)["job"]["state"] == "COMPLETED").then_some(()))
        .await;
    let log = |query: &str| pages.get(&format!("{path}/log?{query}"));
    let all = log("");
    assert_eq!(all.text(), format!("{HOSTILE}\n"));
    assert_eq!(all.header("x-next-offset"), Some((HOSTILE.len() + 1).to_string().as_str()));
    assert_eq!(log("offset=5").text(), format!("{HOSTILE}\n")[5..]);
    assert_eq!(log("stream=stderr").text(), "careful\n");
    let files = pages.json(&format!("{path}/files"));
    let names: Vec<&Value> = files["files"].as_array().unwrap().iter().map(|file| &file["name"]).collect();
    assert_eq!(names, ["stdout", "stderr", "work/r s.csv"]);
    let file = pages.get(&format!("{path}/files/work/r%20s.csv"));
    assert_eq!((file.status, file.text().as_str()), (200, "a,b\n"));
    assert_eq!(file.header("content-disposition"), Some("attachment; filename*=UTF-8''r%20s.csv"));
    assert_eq!(file.header("content-security-policy"), Some("default-src 'none'; sandbox"));
    assert_eq!(pages.get(&format!("{path}/files/work/none")).status, 404);
    assert_eq!(pages.get(&format!("{path}/files/work/..%2f..%2fstdout")).status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_user_sees_what_the_certificate_allows() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let accepted = submit(&federation.client("alice"), &order(rigid("sleep 1000", 1, 2000))).await;
    let path = format!("/api/v1/jobs/{}", accepted.handle);
    let bob = Pages::opened(&federation, Role::User, "bob");
    assert_eq!(bob.json("/api/v1/jobs")["matching"], 0);
    assert_eq!(bob.get(&path).status, 404);
    assert_eq!(bob.post(&format!("{path}/cancel"), &json!({})).status, 404);
    let root = Pages::opened(&federation, Role::Operator, "root");
    until("the job of alice", async || (root.json("/api/v1/jobs")["matching"] == 1).then_some(())).await;
    assert_eq!(root.json("/api/v1/jobs/groups?by=owner")["groups"][0]["value"], "alice");
    let several = json!({ "jobs": [accepted.handle.to_string(), "lyon.77"] });
    let cancelled = root.post("/api/v1/jobs/cancel", &several).json(200);
    assert_eq!(cancelled["cancelled"][0]["job_id"], json!(accepted.handle));
    assert_eq!(
        (&cancelled["failed"][0]["job_id"], &cancelled["failed"][0]["problem"]["status"]),
        (&json!("lyon.77"), &json!(404))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_are_refused() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let pages = Pages::start(&federation, Role::User, "alice");
    let spent = pages.link.clone();
    let stranger = pages.get("/api/v1/jobs");
    assert_eq!(stranger.status, 401);
    let pages = pages.open();
    assert_eq!(pages.without_cookie().get(&spent).status, 410, "a stolen link that is spent");
    assert_eq!(pages.without_cookie().get("/").status, 401);
    let work = json!({ "work": { "kind": "service", "name": "sleep", "arguments": { "seconds": "600" } } });
    // DNS rebinding: another name for this address.
    assert_eq!(pages.ask("GET", "/api/v1/jobs", &[("host", "evil.example")], "").status, 421);
    // The form and the script of another site, with the cookie that a careless browser would send.
    let form = [("content-type", "application/x-www-form-urlencoded"), ("origin", "http://evil.example")];
    assert_eq!(pages.ask("POST", "/api/v1/jobs", &form, "work=sleep").status, 403);
    let text = [("content-type", "text/plain"), ("sec-fetch-site", "same-site")];
    assert_eq!(pages.ask("POST", "/api/v1/jobs", &text, &work.to_string()).status, 403);
    let script =
        [("content-type", "application/json"), ("origin", "http://127.0.0.1:1"), ("x-csrf-token", "0")];
    assert_eq!(pages.ask("POST", "/api/v1/jobs", &script, &work.to_string()).status, 403);
    assert_eq!(pages.json("/api/v1/jobs")["matching"], 0, "nothing was submitted");
    // Long headers are cut off.
    let long = "x".repeat(64 << 10);
    assert!(
        pages.try_ask("GET", "/", &[("x-long", long.as_str())], "").is_none_or(|answer| answer.status == 431)
    );
    assert_eq!(pages.get("/").status, 200, "and others go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_use_the_api_with_tokens() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let pages = Pages::start(&federation, Role::User, "alice");
    let file = federation.client_file(Role::User, "alice");
    let token = |words: &[&str]| {
        let mut command = pliant(&file, words);
        let (code, text, error) =
            said(command.env("XDG_STATE_HOME", federation.path().join("state")).output().unwrap());
        assert_eq!(code, 0, "{error}");
        text.trim_end().to_owned()
    };
    let read = token(&["token", "create", "--read", "--for", "1h"]);
    let write = token(&["token", "create", "--write", "--for", "1h"]);
    let work =
        json!({ "work": { "kind": "service", "name": "say", "arguments": { "text": "hi" } } }).to_string();
    let ask = |method: &str, token: &str, body: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        pages.ask(method, "/api/v1/jobs", &headers, body)
    };
    assert_eq!(ask("GET", &read, "").json(200)["matching"], 0);
    assert_eq!(ask("POST", &read, &work).status, 403);
    assert_eq!(ask("POST", &write, &work).status, 201);
    assert_eq!(token(&["token", "revoke"]), "all tokens are revoked");
    assert_eq!(ask("GET", &read, "").status, 401);
    assert_eq!(pages.get("/api/v1/jobs").status, 401, "the link was never used");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_go_on_when_the_agent_comes_back() {
    let mut federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let pages = Pages::opened(&federation, Role::User, "alice");
    assert_eq!(pages.json("/api/v1/health")["reachable"], true);
    let mut events = pages.events(None);
    federation.kill(MASTER);
    events.wait("health", |health| health["reachable"] == false);
    assert_eq!(pages.json("/api/v1/clusters")["clusters"][0]["server"], "lyon", "what was known is shown");
    federation.revive(MASTER);
    events.wait("health", |health| health["reachable"] == true);
}

#[test]
fn only_loopback_addresses_are_served() {
    let federation = Federation::without_daemons();
    let dir = tempfile::tempdir().unwrap();
    let file: PathBuf = dir.path().join("client.toml");
    federation.certify(dir.path(), Role::User, "alice");
    let agent = "[[agent]]\nname = \"master\"\naddress = \"127.0.0.1:9\"\n";
    std::fs::write(&file, format!("{agent}{TLS}")).unwrap();
    let (code, _, error) =
        said(pliant(&file, &["web", "--no-open", "--listen", "0.0.0.0:0"]).output().unwrap());
    assert_eq!(code, 2);
    assert!(error.contains("expected a loopback address") && error.contains("ssh -L"), "{error}");
}
