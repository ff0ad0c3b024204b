//! Pages as an operator, a user and a stranger see them, in a browser, and what they say of jobs that moved or have no plan.

use pliant_testing::browser::find;

use super::browser::{clean, look};
use super::chromium::Browser;
use super::*;
use crate::moves::{busy, free, open};

/// The pages by what they set when they are drawn; those of operators last.
const OF_ALL: [(&str, &str); 6] = [
    ("/", "gantt:"),
    ("/jobs", "jobs:2"),
    ("/jobs/lyon.1", "job:ACTIVE"),
    ("/submit", "estimates:"),
    ("/work", "works:"),
    ("/launches", "launches:"),
];
const OF_OPERATORS: [(&str, &str); 2] = [("/what-if", "whatif:"), ("/admin", "servers:1")];

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_opened_as_operator_user_and_stranger() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = federation.client("alice");
    for _ in 0..2 {
        submit(&alice, &order(rigid("sleep 900", 2, 1800))).await;
    }
    for (role, user) in [(Role::Operator, "root"), (Role::User, "alice")] {
        let pages = Pages::start(&federation, role, user);
        let site = format!("http://{}", pages.address);
        let mut stranger = Browser::start(&program);
        let mut browser = Browser::start(&program);
        browser.show(1280, 900, false);
        browser.open(&format!("{site}{}", pages.link));
        browser.until("document.body.dataset.page === 'overview'");
        for (path, rendered) in OF_ALL.into_iter().chain(OF_OPERATORS) {
            stranger.open(&format!("{site}{path}"));
            stranger.until("document.body.innerText.includes('expected a session')");
            let shown = stranger.evaluate("document.body.innerText").to_string();
            assert!(!shown.contains("lyon") && !shown.contains("alice"), "{path}: {shown}");
            browser.open(&format!("{site}{path}"));
            if role == Role::User && OF_OPERATORS.iter().any(|(of_operators, _)| *of_operators == path) {
                browser.until("document.querySelector('h1').textContent === 'Forbidden'");
                assert!(browser.problems().iter().all(|problem| problem.contains("403")), "{path}");
                continue;
            }
            browser.until(&format!("(document.body.dataset.rendered ?? '').startsWith('{rendered}')"));
            look(&mut browser, &format!("{user}{}", path.replace('/', "-")));
            clean(&mut browser);
        }
        assert!(stranger.problems().iter().all(|problem| problem.contains("401")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_not_served_with_the_certificate_of_a_daemon() {
    let federation = Federation::agent_only("");
    for role in [Role::Server, Role::Agent] {
        let user = CommandUser::with_role(&federation, role, "lyon");
        let mut pages = user.begin("web --no-open");
        let status = until("the pages to be refused", async || pages.try_wait().unwrap()).await;
        let (code, _, error) = said(pages.wait_with_output().unwrap());
        assert_eq!((status.code(), code), (Some(2), 2), "{error}");
        let expected = format!(
            "error: expected the certificate of a user or an operator in [tls], found that of the {role} `lyon`"
        );
        assert!(error.starts_with(&expected) && error.contains("hint: "), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_says_that_a_job_moved_and_that_nothing_is_planned_for_a_held_one() {
    let Some(program) = find() else { return };
    let federation = busy().await;
    let (alice, operator) = (federation.client("alice"), federation.operator());
    let held = submit(&alice, &order_to("paris", rigid("true", 1, 60))).await;
    let root = Pages::opened(&federation, Role::Operator, "root");
    let drawn = || root.json("/api/v1/gantt").to_string().contains(&format!("\"{}\"", held.handle));
    assert!(drawn());
    root.post(&format!("/api/v1/jobs/{}/hold", held.handle), &json!({ "why": "a question" })).json(200);
    let waiting = submit(&alice, &order(rigid("true", 1, 60))).await;
    operator.change_moving(&pliant_wire::MovingChange::Set(on_demand())).await.unwrap();
    open(&federation, "lyon");
    free(&operator, "lyon").await;
    let report = operator.reallocate(false).await.unwrap();
    assert!(report.refused.is_none(), "{report:?}");
    alice.wait(&waiting.handle, |_| {}).await.unwrap();

    let pages = Pages::start(&federation, Role::User, "alice");
    let site = format!("http://{}", pages.address);
    let mut browser = Browser::start(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("{site}{}", pages.link));
    browser.until("document.body.dataset.page === 'overview'");
    let id = waiting.handle.to_string();
    browser.until(&format!("document.querySelector('#moves tbody').textContent.includes('{id}')"));
    browser.open(&format!("{site}/jobs/{id}"));
    browser.until("document.body.dataset.rendered === 'job:COMPLETED'");
    browser.until("document.querySelector('#why').textContent.includes('Moved from paris to lyon at')");
    browser.until("!document.querySelector('#moves-section').hidden && document.querySelector('#moves').textContent.includes('lyon')");
    look(&mut browser, "job-moved");
    browser.open(&format!("{site}/jobs/{}", held.handle));
    browser.until("document.querySelector('#summary').textContent.includes('without a planned start')");
    browser.until("document.querySelector('#why').textContent.includes('paris, which its user chose')");
    // The present plan is asked for when it is some seconds old.
    until("the chart without it", async || (!drawn()).then_some(())).await;
    look(&mut browser, "job-held");
    clean(&mut browser);

    // A limit is a reason, too.
    let limited = submit(&federation.client("carol"), &order_to("paris", rigid("true", 1, 60))).await;
    let limit = json!({ "user": "carol", "why": "exam", "limits": { "running-jobs": 0 } });
    root.post("/api/v1/admin/limits", &limit).json(200);
    let unplanned = root.json(&format!("/api/v1/jobs/{}", limited.handle))["unplanned"].to_string();
    assert!(unplanned.contains("limit"), "{unplanned}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_script_says_what_was_compared_and_why_it_waits() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0), Cluster::new("nice", 8, 1.0)]).await;
    let bob = federation.client("bob");
    submit(&bob, &order_to("lyon", rigid("sleep 1800", 4, 1800))).await;
    submit(&bob, &order_to("nice", rigid("sleep 5400", 6, 5400))).await;
    let user = CommandUser::new(&federation, "alice");
    // Some jobs before it: one that completed, one that failed, one that runs.
    for (name, options, text) in [
        ("prepare.sh", "--time 2m --rigid 2 --server nice --wait", "true"),
        ("check.sh", "--time 2m --rigid 1 --server nice --wait", "exit 3"),
        ("mesh.sh", "--time 90m --rigid 2 --server nice", "sleep 5400"),
    ] {
        std::fs::write(user.dir().join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        let (_, document, error) = user.run(&format!("submit ./{name} {options}"));
        assert!(document["job_id"].is_string(), "{error}");
    }
    std::fs::write(user.dir().join("samples.csv"), "0,1\n1,3\n2,5\n").unwrap();
    std::fs::write(
        user.dir().join("fit.sh"),
        "#!/bin/sh\n#PLIANT --time 20m --rigid 4\n./fit --order \"$1\" samples.csv\n",
    )
    .unwrap();
    let (code, document, error) = user.run("submit ./fit.sh --in samples.csv -- 3");
    assert_eq!(code, 0, "{error}");
    let id = document["job_id"].as_str().unwrap();
    let pages = Pages::start(&federation, Role::User, "alice");
    let mut browser = Browser::start(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("http://{}{}", pages.address, pages.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser.open(&format!("http://{}/jobs/{id}", pages.address));
    browser.until("document.body.dataset.rendered === 'job:QUEUED'");
    browser.until("document.querySelector('#why').textContent.startsWith('It is on lyon, which completes it first: ') && document.querySelector('#why').textContent.includes(' before nice.')");
    let rows = "[...document.querySelectorAll('#compared tbody tr')].map((row) => [row.cells[0].textContent, row.cells[5].textContent[0]])";
    assert_eq!(browser.evaluate(rows), json!([["lyon ✓", "f"], ["nice", "+"]]));
    // Whose the running job is stays unknown.
    browser.until("document.querySelector('#until tbody').textContent.startsWith(\"another user's\")");
    browser.until("document.querySelector('#submitted').textContent.includes('./fit --order')");
    look(&mut browser, "job-compared");
    browser.open(&format!("http://{}/jobs?state=", pages.address));
    browser.until("document.body.dataset.rendered === 'jobs:4'");
    browser.until("document.querySelector('#jobs tbody').textContent.includes('exit code 3')");
    look(&mut browser, "jobs-listed");
    clean(&mut browser);
}
