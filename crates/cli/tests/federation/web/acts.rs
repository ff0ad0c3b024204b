//! Acts of operators through the pages.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_acts_and_reads_the_trail() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = federation.client("alice");
    submit(&alice, &order(rigid("sleep 1000", 2, 2000))).await;
    let waiting = submit(&alice, &order(rigid("true", 2, 60))).await;
    let root = Pages::opened(&federation, Role::Operator, "root");
    let bob = Pages::opened(&federation, Role::User, "bob");

    let drain = |drained: bool| json!({ "server": "lyon", "drained": drained, "why": "new disks" });
    assert_eq!(bob.post("/api/v1/admin/drains", &drain(true)).status, 403);
    assert_eq!(bob.get("/api/v1/admin/audit").status, 403);
    assert_eq!((bob.get("/admin").status, root.get("/admin").status), (403, 200));
    assert!(!bob.get("/").text().contains("href=\"/admin\""));
    let drained = root.post("/api/v1/admin/drains", &drain(true)).json(200);
    assert_eq!((&drained["act"]["by"], &drained["act"]["why"]), (&json!("root"), &json!("new disks")));
    let is_drained = async || {
        let health = root.json("/api/v1/health");
        health["warnings"].to_string().contains("lyon is drained").then_some(())
    };
    until("the warning", is_drained).await;
    assert_eq!(root.post("/api/v1/admin/drains", &drain(false)).json(200)["act"], Value::Null);
    let without_reason = json!({ "server": "lyon", "drained": true, "why": "\n" });
    assert_eq!(root.post("/api/v1/admin/drains", &without_reason).status, 400);

    let path = format!("/api/v1/jobs/{}", waiting.handle);
    root.post(&format!("{path}/hold"), &json!({ "why": "wait" })).json(200);
    let unplanned = root.json(&path)["unplanned"].to_string();
    assert!(unplanned.contains("hold") || unplanned.contains("held"), "{unplanned}");
    root.post(&format!("{path}/release"), &json!({ "why": "go" })).json(200);
    root.post(&format!("{path}/priority"), &json!({ "why": "deadline", "priority": 7 })).json(200);
    assert_eq!(root.json(&path)["waits"]["operator_priority"], 7);
    assert_eq!(
        root.post(&format!("{path}/priority"), &json!({ "why": "x", "priority": 1_000_001 })).status,
        400
    );

    let limit = json!({ "user": "bob", "why": "exam", "limits": { "running-jobs": 1, "processors": null } });
    let limits = root.post("/api/v1/admin/limits", &limit).json(200);
    assert_eq!(limits["limits"][0]["limits"], json!({ "running-jobs": 1 }));
    assert_eq!(root.json("/api/v1/admin/limits")["limits"][0]["user"], "bob");
    let ban = |banned: bool| json!({ "user": "bob", "banned": banned, "why": "stolen key" });
    assert_eq!(
        root.post("/api/v1/admin/bans", &ban(true)).json(200)["servers"][0]["act"]["why"],
        "stolen key"
    );
    let listed = root.json("/api/v1/admin/limits");
    assert_eq!(
        (&listed["bans"][0]["user"], &listed["bans"][0]["act"]["by"]),
        (&json!("bob"), &json!("root"))
    );
    let work = json!({ "work": { "kind": "service", "name": "sleep", "arguments": { "seconds": "1" } } });
    assert_eq!(bob.post("/api/v1/jobs", &work).json(422)["causes"], json!(["banned"]));
    assert_eq!(root.post("/api/v1/admin/bans", &ban(false)).json(200)["servers"][0]["act"], Value::Null);
    assert_eq!(bob.post("/api/v1/jobs", &work).status, 201);

    let reallocation = "/api/v1/admin/reallocation";
    assert_eq!(root.json(reallocation)["policy"], Value::Null);
    let policy = json!({ "kind": "set", "algorithm": "regular", "heuristic": "mct", "period_s": 60, "threshold_s": 0, "window": 5 });
    assert_eq!(bob.post(reallocation, &policy).status, 403);
    for (key, wrong) in
        [("algorithm", json!("best")), ("period_s", json!(0)), ("window", json!(0)), ("early_s", json!(-1))]
    {
        let mut policy = policy.clone();
        policy[key] = wrong;
        let refused = root.post(reallocation, &policy).json(400);
        assert!(refused["detail"].as_str().unwrap().starts_with(key), "{refused}");
    }
    let changed = root.post(reallocation, &policy).json(200);
    assert_eq!((&changed["policy"]["period_s"], &changed["policy"]["early_s"]), (&json!(60), &Value::Null));
    assert_eq!(root.post(reallocation, &json!({ "kind": "off" })).json(200)["policy"], Value::Null);
    let trail = root.json("/api/v1/admin/audit?last=1000");
    let acts: Vec<&str> =
        trail["records"].as_array().unwrap().iter().filter_map(|one| one["act"].as_str()).collect();
    for act in ["drain", "resume", "hold", "release", "priority", "limit", "ban", "unban"] {
        assert!(acts.contains(&act), "{act} in {acts:?}");
    }
    assert_eq!(root.json("/api/v1/admin/audit?last=2")["records"].as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_replays_the_history_and_sees_both_schedules() {
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0), Cluster::new("nice", 2, 1.0)]).await;
    let alice = federation.client("alice");
    let mut accepted = Vec::new();
    for _ in 0..6 {
        accepted.push(submit(&alice, &order(rigid("sleep 1", 2, 5))).await.handle);
    }
    for handle in &accepted {
        alice.wait(handle, |_| {}).await.unwrap();
    }
    let all_known = async || {
        let history = federation.operator().history(pliant_model::Span(3600)).await.ok()?;
        (history.jobs.len() == 6 && history.jobs.iter().all(|job| job.state.is_final())).then_some(())
    };
    until("the agent to know all jobs", all_known).await;
    let bob = Pages::opened(&federation, Role::User, "bob");
    assert_eq!((bob.get("/what-if").status, bob.get("/api/v1/what-if").status), (403, 403));
    let root = Pages::opened(&federation, Role::Operator, "root");
    assert_eq!(root.json("/api/v1/what-if")["state"], "none");
    for wrong in [json!({ "hours": 0 }), json!({ "hours": 1, "policies": [""] }), json!({ "hours": 99999 })] {
        assert_eq!(root.post("/api/v1/what-if", &wrong).status, 400, "{wrong}");
    }
    let ended = async || {
        let view = root.json("/api/v1/what-if");
        (view["state"] != "running").then_some(view)
    };
    // An option is a word of the policy here.
    root.post("/api/v1/what-if", &json!({ "hours": 1, "policies": ["--help"] })).json(200);
    let failed = until("its end", ended).await;
    assert_eq!(failed["state"], "failed");
    assert!(failed["problem"].as_str().unwrap().contains("--help"), "{failed}");
    let asked = json!({ "hours": 1, "policies": ["now,mapping=random"] });
    root.post("/api/v1/what-if", &asked).json(200);
    let done = until("its end", ended).await;
    assert_eq!((&done["state"], &done["report"]["jobs"]["compared"]), (&json!("done"), &json!(6)), "{done}");
    assert_eq!(done["report"]["replayed"][1]["policy"]["name"], "now,mapping=random");
    let schedule = root.json("/api/v1/what-if/schedules/0");
    let drawn: usize =
        schedule["lanes"].as_array().unwrap().iter().map(|lane| lane["jobs"].as_array().unwrap().len()).sum();
    assert_eq!((&schedule["name"], drawn), (&json!("recorded"), 6));
    assert_eq!(root.get("/api/v1/what-if/schedules/3").status, 404);

    let Some(program) = pliant_testing::browser::find() else { return };
    let mut browser = chromium::Browser::start(&program);
    browser.show(1280, 900, false);
    let site = Pages::start(&federation, Role::Operator, "root");
    browser.open(&format!("http://{}{}", site.address, site.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser.open(&format!("http://{}/what-if", site.address));
    browser.until("document.body.dataset.rendered === 'whatif:none'");
    browser::fill(&mut browser, "[name=hours]", "1");
    browser::fill(&mut browser, "[name=algorithm]", "none");
    browser.until(
        "document.querySelector('#command').textContent === 'pliant what-if --since 1h --policy none'",
    );
    browser::click(&mut browser, "#ask [type=submit]");
    browser
        .until("document.body.dataset.rendered === 'whatif:done' && document.body.dataset.drawn === '6 6'");
    // The same job is marked in both charts.
    browser.evaluate("document.querySelector('#recorded').focus()");
    browser.press("n");
    browser.until("document.querySelectorAll('#pinned dl').length === 2");
    browser::look(&mut browser, "what-if");
    browser::clean(&mut browser);
}

/// Has the page believe that the certificates of three servers have ended, end soon and are not known.
const CERTIFICATES: &str = r#"(() => {
  const ends = [-3600, 86_400, null].map((left) => left === null ? null : Math.round(Date.now() / 1000) + left);
  const changed = (value) => {
    value?.clusters?.forEach((cluster, index) => { cluster.certificate_not_after_s = ends[index]; });
    return value;
  };
  const { json } = Response.prototype, { parse } = JSON;
  Response.prototype.json = async function () { return changed(await json.call(this)); };
  JSON.parse = (text) => changed(parse(text));
})()"#;

#[tokio::test(flavor = "multi_thread")]
async fn certificates_that_end_soon_or_have_ended_are_marked() {
    let Some(program) = pliant_testing::browser::find() else { return };
    let clusters = ["lyon", "nice", "paris"].map(|name| Cluster::new(name, 2, 1.0));
    let federation = Federation::start(&clusters).await;
    let pages = Pages::start(&federation, Role::Operator, "root");
    let mut browser = chromium::Browser::start(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("http://{}{}", pages.address, pages.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser.run_first(CERTIFICATES);
    browser.open(&format!("http://{}/admin", pages.address));
    browser.until("document.body.dataset.rendered === 'servers:3'");
    let shown = "[...document.querySelectorAll('#certificates tbody tr')].map((row) => [row.dataset.key, row.cells[1].textContent, row.querySelector('.state').className])";
    let rows = browser.evaluate(shown);
    // Those that end first are at the top, those that are not known at the end.
    assert_eq!(rows[0], json!(["server lyon", "has ended", "state failed"]), "{rows}");
    assert_eq!(rows[1], json!(["server nice", "ends soon", "state drained"]), "{rows}");
    let last = rows.as_array().unwrap().last().unwrap();
    assert_eq!(last, &json!(["server paris", "unknown", "state queued"]), "{rows}");
    browser::look(&mut browser, "administration-certificates");
    browser::clean(&mut browser);
}
