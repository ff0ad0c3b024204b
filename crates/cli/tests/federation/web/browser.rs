//! The pages in a real browser, as a user, an operator and a stranger. With `PLIANT_WEB_PICTURES=DIR` pictures of the pages are kept there.

use std::path::PathBuf;

use pliant_testing::browser::find;

use super::chromium::Browser;
use super::*;

/// A job's name that would be markup if a page let it.
pub(super) const HOSTILE_NAME: &str = "<img src=x onerror=document.title='hacked'>";

/// Looks at the page in light and dark colours, wide and narrow, and keeps pictures if they are wanted.
pub(super) fn look(browser: &mut Browser, name: &str) {
    let folder = std::env::var_os("PLIANT_WEB_PICTURES").map(PathBuf::from);
    let axe = pliant_testing::axe::script();
    for (kind, width, height, dark) in
        [("light", 1280, 900, false), ("dark", 1280, 900, true), ("narrow", 400, 860, false)]
    {
        browser.show(width, height, dark);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let wide =
            browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(wide, 0, "{name}, {kind}: the page is wider than the window");
        if let Some(axe) = &axe {
            assert_eq!(serious(browser, axe), Vec::<String>::new(), "{name}, {kind}");
        }
        assert_eq!(faint(browser), Vec::<String>::new(), "{name}, {kind}");
        if let Some(folder) = &folder {
            browser.picture(&folder.join(format!("{name}-{kind}.png")));
        }
    }
    browser.show(1280, 900, false);
    assert_eq!(unlabelled(browser), Vec::<String>::new(), "{name}");
}

/// What axe-core finds that is serious or critical: the rule, and the first elements that break it.
fn serious(browser: &mut Browser, axe: &str) -> Vec<String> {
    if browser.evaluate("typeof axe") == "undefined" {
        browser.evaluate(&format!("{axe}; undefined"));
    }
    texts(browser.evaluate(
        r#"axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations
          .filter(({ impact }) => impact === "serious" || impact === "critical")
          .map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 150)).join(" ")}`))"#,
    ))
}

fn texts(value: Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// What can be used and has no name, images without a text, IDs that exist twice, headings that skip a level.
fn unlabelled(browser: &mut Browser) -> Vec<String> {
    texts(browser.evaluate(
        r#"(() => {
          const found = [], seen = (node) => node.checkVisibility();
          const named = (node) => node.getAttribute("aria-label") || node.getAttribute("aria-labelledby") || node.labels?.length > 0 || node.textContent.trim() || node.title;
          for (const node of document.querySelectorAll("button, a, input, select, textarea, canvas, [tabindex='0'], [role=img]")) {
            if (seen(node) && !named(node)) found.push(`no name: ${node.outerHTML.slice(0, 200)}`);
          }
          const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
          for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) found.push(`twice: #${id}`);
          let last = 0;
          for (const head of document.querySelectorAll("h1, h2, h3")) {
            const level = Number(head.tagName[1]);
            if (level > last + 1) found.push(`a heading skips a level: ${head.textContent}`);
            last = level;
          }
          if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
          if (!document.documentElement.lang) found.push("no language");
          return found;
        })()"#,
    ))
}

/// Texts with less contrast than 4.5 against their background (WCAG 2.2, 1.4.3).
fn faint(browser: &mut Browser) -> Vec<String> {
    texts(browser.evaluate(
        r#"(() => {
          const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
          const light = (rgb) => rgb.slice(0, 3).map((part) => part / 255).map((part) => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4).reduce((sum, part, index) => sum + part * [.2126, .7152, .0722][index], 0);
          const ground = (node) => { for (let at = node; at; at = at.parentElement) { const found = rgba(getComputedStyle(at).backgroundColor); if (found[3] === 255) return found; } return [255, 255, 255, 255]; };
          const found = [];
          const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          while (walk.nextNode()) {
            const node = walk.currentNode.parentElement;
            if (!walk.currentNode.data.trim() || !node.checkVisibility() || node.closest(":disabled")) continue;
            const [one, other] = [light(rgba(getComputedStyle(node).color)), light(ground(node))];
            const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
            if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${walk.currentNode.data.trim().slice(0, 40)}`);
          }
          for (const node of document.querySelectorAll("[placeholder]")) {
            if (!node.checkVisibility() || node.disabled) continue;
            const [one, other] = [light(rgba(getComputedStyle(node, "::placeholder").color)), light(ground(node))];
            const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
            if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${node.placeholder}`);
          }
          return found;
        })()"#,
    ))
}

pub(super) fn clean(browser: &mut Browser) {
    assert_eq!(browser.problems(), Vec::<String>::new());
    assert_ne!(browser.evaluate("document.title"), "hacked");
    assert_eq!(browser.evaluate("document.querySelectorAll('img').length"), 0);
}

/// Sets a field as typing does.
pub(super) fn fill(browser: &mut Browser, selector: &str, value: &str) {
    browser.evaluate(&format!(
        "(() => {{ const field = document.querySelector({}); field.value = {}; for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {{ bubbles: true }})); }})()",
        json!(selector),
        json!(value)
    ));
}

/// Answers the question of a page with yes.
pub(super) fn agree(browser: &mut Browser) {
    browser.until("document.querySelector('dialog[open]')");
    click(browser, "dialog [type=submit]");
    browser.until("!document.querySelector('dialog')");
}

pub(super) fn click(browser: &mut Browser, selector: &str) {
    browser.evaluate(&format!("document.querySelector({}).click()", json!(selector)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_submits_follows_and_cancels_in_a_browser() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0), Cluster::new("nice", 8, 1.5)]).await;
    let alice = federation.client("alice");
    // Some history: ended, running and waiting jobs, with hostile names and output.
    for number in 0..3 {
        run(&alice, &order(rigid("echo done", 1 + number, 60))).await;
    }
    for _ in 0..4 {
        submit(&alice, &order_to("lyon", rigid("sleep 900", 2, 1800))).await;
    }
    submit(&alice, &order_to("nice", rigid("sleep 900", 3, 3600))).await;

    let pages = Pages::start(&federation, Role::User, "alice");
    let site = format!("http://{}", pages.address);
    let mut browser = Browser::start(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("{site}/jobs"));
    browser.until("document.body.innerText.includes('expected a session')");
    // That the page is refused is an error of the console.
    assert!(browser.problems().iter().all(|problem| problem.contains("401")));

    browser.open(&format!("{site}{}", pages.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser.until("(document.body.dataset.rendered ?? '').startsWith('gantt:5')");
    browser.until("document.querySelectorAll('#clusters tbody tr').length === 2");
    // The chart that is read from now on says how many processors are free.
    browser.until("document.querySelector('#tiles').textContent.includes('5 of 12')");
    browser.open(&format!("{site}/"));
    browser.until("(document.body.dataset.rendered ?? '').startsWith('gantt:5')");
    // Three jobs have ended: how true was what they were promised?
    browser.until("[...document.querySelectorAll('#promises tbody tr')].reduce((sum, row) => sum + Number(row.cells[1]?.textContent), 0) === 3");
    browser.until("document.querySelectorAll('#promises .error-bar').length > 0");
    browser.until("document.querySelector('#live').textContent === 'live'");
    // By its heads a table is sorted up, down, and as it came.
    for first in ["lyon", "nice", "lyon"] {
        click(&mut browser, "#clusters th:nth-child(5) button");
        browser.until(&format!("document.querySelector('#clusters tbody th').textContent === '{first}'"));
    }
    assert!(
        browser
            .evaluate("document.querySelector('#tiles').textContent")
            .to_string()
            .contains("your next start")
    );
    // By keyboard: the chart is reached, a job is pinned and opened.
    browser.evaluate("document.querySelector('#gantt').focus()");
    browser.evaluate(
        "document.querySelector('#gantt').dispatchEvent(new KeyboardEvent('keydown', { key: 'n' }))",
    );
    browser.until("!document.querySelector('#pinned').hidden");
    look(&mut browser, "overview");
    clean(&mut browser);
    // Why one waits: those before it, and the running jobs whose end it waits for.
    browser.open(&format!("{site}/jobs/lyon.4"));
    browser.until("document.body.dataset.rendered === 'job:QUEUED'");
    browser.until(
        "document.querySelectorAll('#until tbody tr').length > 0 && !document.querySelector('#wait').hidden",
    );
    look(&mut browser, "job-waiting");
    clean(&mut browser);

    browser.open(&format!("{site}/jobs"));
    browser.until("document.body.dataset.rendered === 'jobs:5'");
    look(&mut browser, "jobs");
    click(&mut browser, "[data-sort=id] button");
    browser.until("document.querySelector('[data-sort=id]').getAttribute('aria-sort') === 'ascending' && document.querySelector('#jobs tbody th').textContent === 'lyon.1'");
    fill(&mut browser, "[name=by]", "server");
    browser.until("document.body.dataset.rendered === 'groups:2'");
    look(&mut browser, "groups");
    click(&mut browser, "#groups tbody button");
    browser.until("(document.body.dataset.rendered ?? '').startsWith('jobs:')");
    clean(&mut browser);

    browser.open(&format!("{site}/submit?service=sleep&seconds=700"));
    browser.until("document.body.dataset.rendered === 'estimates:2'");
    assert_eq!(
        browser.evaluate("document.querySelector('#command').textContent"),
        "pliant submit sleep seconds=700"
    );
    look(&mut browser, "submit-service");
    click(&mut browser, "[value=script]");
    fill(&mut browser, "[name=name]", HOSTILE_NAME);
    fill(&mut browser, "[name=text]", &format!("#!/bin/sh\necho \"{HOSTILE}\"; sleep 900\n"));
    fill(&mut browser, "[name=time]", "20m");
    browser.until("document.querySelector('#command').textContent.includes('--script')");
    look(&mut browser, "submit-script");
    click(&mut browser, "[type=submit]");
    browser.until("document.body.dataset.page === 'job' && document.body.dataset.rendered === 'job:ACTIVE'");
    browser.until("document.querySelector('#log').textContent.includes('onerror')");
    look(&mut browser, "job-running");
    clean(&mut browser);
    click(&mut browser, "#cancel");
    browser.until("document.querySelector('dialog[open]')");
    look(&mut browser, "dialog");
    agree(&mut browser);
    browser.until("document.body.dataset.rendered === 'job:CANCELED'");
    browser.until("document.querySelectorAll('#files tbody tr').length >= 2");
    look(&mut browser, "job-cancelled");

    // Jobs of all states: how they ended, and how often they were moved.
    browser.open(&format!("{site}/jobs?state="));
    browser.until("document.body.dataset.rendered === 'jobs:9'");
    let column = |index: u32| {
        format!(
            "[...document.querySelectorAll('#jobs tbody td:nth-child({index})')].map((cell) => cell.textContent).sort().join()"
        )
    };
    assert_eq!(browser.evaluate(&column(5)), "cancelled,exit code 0,exit code 0,exit code 0,–,–,–,–,–");
    assert_eq!(browser.evaluate(&column(12)), "0,0,0,0,0,0,0,0,0");
    look(&mut browser, "jobs-all");

    // Live: a job that ends elsewhere changes in the list by itself.
    browser.open(&format!("{site}/jobs"));
    browser.until("document.body.dataset.rendered === 'jobs:5'");
    let waiting = browser.evaluate("[...document.querySelectorAll('#jobs tbody tr')].find((row) => row.querySelector('.queued')).dataset.key");
    alice.cancel(&waiting.as_str().unwrap().parse().unwrap()).await.unwrap();
    browser.until("document.body.dataset.rendered === 'jobs:4'");
    // Several are cancelled at once.
    fill(&mut browser, "#per-page", "50");
    click(&mut browser, "#all");
    click(&mut browser, "#cancel-selected");
    agree(&mut browser);
    browser.until("document.body.dataset.rendered === 'jobs:0'");
    clean(&mut browser);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_jobs_than_a_page_has_are_cancelled_at_once() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 1, 1.0)]).await;
    let alice = federation.client("alice");
    for _ in 0..155 {
        submit(&alice, &order(rigid("sleep 900", 1, 1800))).await;
    }
    let pages = Pages::start(&federation, Role::User, "alice");
    let mut browser = Browser::start(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("http://{}{}", pages.address, pages.link));
    browser.until("document.body.dataset.page === 'overview'");
    // Of a long list the rows near what is seen are in the page, the newest job first; the place of the others is kept.
    browser.open(&format!("http://{}/jobs?per_page=250&state=NEW,QUEUED,ACTIVE", pages.address));
    browser.until("document.body.dataset.rendered === 'jobs:155'");
    let here = |job: u32| format!("document.querySelector('#jobs [data-key=\"lyon.{job}\"]') !== null");
    assert_eq!(browser.evaluate(&here(155)), true);
    assert_eq!(browser.evaluate(&here(1)), false);
    assert_eq!(browser.evaluate("document.querySelector('#jobs').getAttribute('aria-rowcount')"), "156");
    let height = browser.evaluate("document.querySelector('#jobs').offsetHeight").as_f64().unwrap();
    let row = browser
        .evaluate("document.querySelector('#jobs [data-key=\"lyon.150\"]').offsetHeight")
        .as_f64()
        .unwrap();
    browser.evaluate("scrollTo(0, document.body.scrollHeight)");
    browser.until(&here(1));
    assert_eq!(browser.evaluate(&here(155)), false);
    assert!((height / row - 156.0).abs() < 3.0, "{height} of rows of {row}");
    look(&mut browser, "jobs-long");
    browser.open(&format!("http://{}/jobs?per_page=50&state=NEW,QUEUED,ACTIVE", pages.address));
    browser.until("document.body.dataset.rendered === 'jobs:50' && !document.querySelector('#all').disabled");
    click(&mut browser, "#all");
    browser
        .until("document.querySelector('#all-matching').textContent === 'Select all 155 that wait or run'");
    look(&mut browser, "jobs-selected");
    click(&mut browser, "#all-matching");
    browser.until("document.querySelector('#cancel-selected').textContent === 'Cancel 155 jobs'");
    click(&mut browser, "#cancel-selected");
    agree(&mut browser);
    browser.until("document.body.dataset.rendered === 'jobs:0'");
    clean(&mut browser);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_the_jobs_of_all_users() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    submit(&federation.client("alice"), &order(rigid("sleep 900", 2, 1800))).await;
    submit(&federation.client("bob"), &order(rigid("sleep 900", 4, 1800))).await;
    let pages = Pages::start(&federation, Role::Operator, "root");
    let site = format!("http://{}", pages.address);
    let mut browser = Browser::start(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("{site}{}", pages.link));
    browser.until("(document.body.dataset.rendered ?? '').startsWith('gantt:2')");
    look(&mut browser, "operator-overview");
    browser.open(&format!("{site}/jobs"));
    browser.until("document.body.dataset.rendered === 'jobs:2'");
    assert!(browser.evaluate("document.body.innerText").as_str().unwrap().contains("bob"));
    look(&mut browser, "operator-jobs");
    browser.open(&format!("{site}/admin"));
    browser.until("document.body.dataset.rendered === 'servers:1'");
    browser.until("document.querySelectorAll('#audit tbody tr').length > 1");
    // The server's, the agent's, and that of these pages.
    browser.until("document.querySelectorAll('#certificates tbody tr').length === 3 && document.querySelector('#certificates').textContent.includes('root, of these pages')");
    click(&mut browser, "#trial");
    browser.until("!document.querySelector('#trial-result').hidden");
    click(&mut browser, "#reallocation-change summary");
    browser.until("document.querySelector('#reallocation [name=period_s]').value === '300'");
    look(&mut browser, "administration");
    fill(&mut browser, "#reallocation [name=heuristic]", "minmin");
    fill(&mut browser, "#reallocation [name=period_s]", "120");
    click(&mut browser, "#reallocation [value=set]");
    browser.until("document.querySelector('#policy').textContent.includes('minmin: every 2 min')");
    // What a cycle would have moved under the policy before is not shown any more.
    browser.until("document.querySelector('#trial-result').hidden");
    let moving = federation.operator().moving().await.unwrap().unwrap();
    assert_eq!(moving.policy.period.0, 120);
    fill(&mut browser, "#limit [name=user]", "bob");
    fill(&mut browser, "#limit [name=why]", "exam week");
    fill(&mut browser, "#limit [name=running-jobs]", "3");
    click(&mut browser, "#limit [type=submit]");
    browser.until("document.querySelector('#limits tbody').textContent.includes('exam week')");
    browser.until("document.querySelector('#users [data-key=bob]').textContent.startsWith('boblimitedlyon')");
    // A user is banned from the list, where it is seen, and so is the end of the ban.
    for (button, shown) in [("Ban", "bobbanned"), ("End ban", "boblimited")] {
        let find = format!(
            "[...document.querySelectorAll('#users [data-key=bob] button')].find((node) => node.textContent === '{button}')"
        );
        browser.until(&find);
        browser.evaluate(&format!("{find}.click()"));
        browser.until("document.querySelector('dialog[open]')");
        fill(&mut browser, "dialog [name=why]", "stolen key");
        if button == "Ban" {
            look(&mut browser, "administration-ban");
        }
        agree(&mut browser);
        browser.until(&format!(
            "document.querySelector('#users [data-key=bob]').textContent.startsWith('{shown}')"
        ));
    }
    browser.until("document.querySelectorAll('#audit tbody tr').length > 3");
    look(&mut browser, "administration-acts");
    fill(&mut browser, "[data-search=audit]", "STOLEN");
    browser.until("document.querySelectorAll('#audit tbody tr').length === 2");
    clean(&mut browser);
}
