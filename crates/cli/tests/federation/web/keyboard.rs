//! Pages by keyboard alone: Tab leads to everything that can be used, the focus is always visible, and keys do what the mouse does.

use pliant_testing::browser::find;

use super::browser::clean;
use super::chromium::Browser;
use super::portal::Portal;
use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_used_by_keyboard_alone() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    let pages = Pages::start(&federation, Role::User, "alice");
    let mut browser = Browser::start(&program);
    browser.open(&format!("http://{}{}", pages.address, pages.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser.open(&format!("http://{}/submit?service=say", pages.address));
    browser.until("document.querySelector('#arguments input')");
    // From the beginning of the page to the argument of the service, the button, and on.
    let mut visited = Vec::new();
    for _ in 0..40 {
        browser.press("Tab");
        let focus =
            browser.evaluate("document.activeElement.name || document.activeElement.textContent.trim()");
        let outlined = browser.evaluate("getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement === document.body");
        assert_eq!(outlined, true, "the focus is not visible on {focus}");
        let focus = focus.as_str().unwrap().to_owned();
        if focus == "text" {
            browser.type_text("hello");
        }
        visited.push(focus.clone());
        if focus == "Submit" && visited.contains(&"text".to_owned()) {
            break;
        }
    }
    let place = |name: &str| visited.iter().position(|found| found == name);
    assert_eq!(visited.first().map(String::as_str), Some("Skip to content"));
    assert!(place("service") < place("text") && place("text") < place("server"), "{visited:?}");
    browser.press("Enter");
    browser
        .until("document.body.dataset.page === 'job' && document.body.dataset.rendered === 'job:COMPLETED'");
    browser.until("document.querySelector('#log').textContent === '<hello>'");
    // A running job is opened from the list and cancelled.
    let alice = federation.client("alice");
    let long = submit(&alice, &order(rigid("sleep 900", 1, 1800))).await.handle;
    browser.open(&format!("http://{}/jobs?state=ACTIVE", pages.address));
    browser.until("document.body.dataset.rendered === 'jobs:1'");
    tab_to_text(&mut browser, &long.to_string());
    browser.press("Enter");
    browser.until("document.body.dataset.page === 'job' && document.body.dataset.rendered === 'job:ACTIVE'");
    tab_to_text(&mut browser, "Cancel job");
    browser.press("Enter");
    browser.until("document.querySelector('dialog[open]')?.contains(document.activeElement)");
    browser.press("Escape");
    browser.until("!document.querySelector('dialog')");
    assert_eq!(browser.evaluate("document.activeElement.id"), "cancel", "the focus goes back");
    browser.press("Enter");
    browser.until("document.querySelector('dialog[open]')");
    browser.press("Enter");
    browser.until("document.body.dataset.rendered === 'job:CANCELED'");
    // A table that is here as a whole is sorted by its heads.
    browser.open(&format!("http://{}/", pages.address));
    browser.until("document.querySelectorAll('#clusters tbody tr').length === 1");
    tab_to_text(&mut browser, "Free");
    browser.press("Enter");
    assert_eq!(browser.evaluate("document.querySelector('#clusters [aria-sort]').textContent"), "Free");
    clean(&mut browser);
}

/// Goes on with Tab until what has the focus has that text.
fn tab_to_text(browser: &mut Browser, text: &str) {
    for _ in 0..60 {
        browser.press("Tab");
        if browser.evaluate("document.activeElement.textContent.trim()") == text {
            return;
        }
    }
    panic!("Tab does not lead to `{text}`");
}

/// Goes on with Tab until what that selector names has the focus, which is visible on the way.
fn tab_to(browser: &mut Browser, selector: &str) {
    for _ in 0..150 {
        browser.press("Tab");
        let at = "document.activeElement";
        let visible = format!("{at} === document.body || getComputedStyle({at}).outlineStyle !== 'none'");
        if browser.evaluate(&visible) != true {
            let focus = browser.evaluate(&format!("{at}.outerHTML.slice(0, 200)"));
            panic!("the focus is not visible on {focus}");
        }
        if browser.evaluate(&format!("{at}.matches({})", json!(selector))) == true {
            return;
        }
    }
    panic!("Tab does not lead to `{selector}`");
}

/// Answers the question of a page: the text goes into its first field.
fn answer(browser: &mut Browser, text: Option<&str>) {
    browser.until("document.querySelector('dialog[open]')?.contains(document.activeElement)");
    if let Some(text) = text {
        browser.type_text(text);
    }
    browser.press("Enter");
    browser.until("!document.querySelector('dialog')");
}

fn opened(program: &std::path::Path, pages: &Pages) -> Browser {
    let mut browser = Browser::start(program);
    browser.show(1280, 900, false);
    browser.open(&format!("http://{}{}", pages.address, pages.link));
    browser.until("document.body.dataset.page === 'overview'");
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_submitted_and_jobs_are_grouped_and_cancelled_by_keyboard() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 4, 1.0)]).await;
    let pages = Pages::start(&federation, Role::User, "alice");
    let mut browser = opened(&program, &pages);
    browser.open(&format!("http://{}/submit", pages.address));
    browser.until("document.querySelector('#service').options.length > 0");
    tab_to(&mut browser, "[name=kind]");
    browser.press("ArrowDown");
    browser.until("!document.querySelector('#script-fields').hidden");
    for (field, text) in [("name", "by-keys.sh"), ("time", "2m"), ("rigid", "2")] {
        tab_to(&mut browser, &format!("[name={field}]"));
        // What a field has is selected when Tab leads there.
        browser.type_text(text);
    }
    tab_to(&mut browser, "textarea[name=text]");
    tab_to(&mut browser, "#submit [type=submit]");
    browser.until("document.querySelector('#command').textContent.includes('by-keys.sh')");
    browser.press("Enter");
    browser
        .until("document.body.dataset.page === 'job' && document.body.dataset.rendered === 'job:COMPLETED'");
    browser.until("document.querySelector('#log').textContent.includes('on 2 processors')");

    let alice = federation.client("alice");
    for _ in 0..3 {
        submit(&alice, &order(rigid("sleep 900", 1, 1800))).await;
    }
    browser.open(&format!("http://{}/jobs", pages.address));
    browser.until("document.body.dataset.rendered === 'jobs:3'");
    // Groups, sorted by a head; one of them is opened, and its filter removed.
    tab_to(&mut browser, "[name=by]");
    browser.press("ArrowDown");
    browser.until("document.body.dataset.rendered === 'groups:1'");
    for order in ["ascending", "descending"] {
        if order == "ascending" {
            tab_to(&mut browser, "#groups th:nth-child(2) button");
        }
        browser.press("Enter");
        assert_eq!(browser.evaluate("document.querySelector('#groups th:nth-child(2)').ariaSort"), order);
    }
    tab_to(&mut browser, "#groups tbody button");
    browser.press("Enter");
    browser.until("document.body.dataset.rendered === 'jobs:3' && !document.querySelector('#scope').hidden");
    tab_to(&mut browser, "#scope button");
    browser.press("Enter");
    browser.until("document.querySelector('#scope').hidden");
    // One job is selected by itself, then all; the selected ones are cancelled.
    tab_to(&mut browser, "#jobs tbody tr:nth-child(2) [type=checkbox]");
    browser.press(" ");
    browser.until("document.querySelector('#cancel-selected').textContent === 'Cancel 1 job'");
    tab_to(&mut browser, "#all");
    browser.press(" ");
    browser.until("document.querySelector('#cancel-selected').textContent === 'Cancel 3 jobs'");
    tab_to(&mut browser, "#cancel-selected");
    browser.press("Enter");
    answer(&mut browser, None);
    browser.until("document.body.dataset.rendered === 'jobs:0'");
    clean(&mut browser);
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_act_and_replay_by_keyboard() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let alice = federation.client("alice");
    run(&alice, &order(rigid("echo done", 1, 60))).await;
    submit(&alice, &order(rigid("sleep 900", 2, 1800))).await;
    let waiting = submit(&alice, &order(rigid("true", 2, 60))).await.handle;
    let pages = Pages::start(&federation, Role::Operator, "root");
    let mut browser = opened(&program, &pages);

    browser.open(&format!("http://{}/admin", pages.address));
    browser.until("document.body.dataset.rendered === 'servers:1' && document.body.dataset.users === '1'");
    for (act, state) in [("new disks", "drained"), ("disks are in", "up")] {
        tab_to(&mut browser, "#servers tbody button");
        browser.press("Enter");
        answer(&mut browser, Some(act));
        browser.until(&format!("document.querySelector('#servers tbody .state').textContent === '{state}'"));
    }
    for (field, text) in [("user", "bob"), ("why", "exam week"), ("running-jobs", "3")] {
        tab_to(&mut browser, &format!("#limit [name={field}]"));
        browser.type_text(text);
    }
    browser.press("Enter");
    browser.until("document.querySelector('#limits tbody').textContent.includes('exam week')");
    tab_to(&mut browser, "#reallocation-change summary");
    browser.press("Enter");
    browser.until("document.querySelector('#reallocation [name=period_s]').value === '300'");
    tab_to(&mut browser, "#reallocation [value=set]");
    browser.press("Enter");
    browser.until("document.querySelector('#policy').textContent.includes('every 5 min')");
    tab_to(&mut browser, "[data-search=audit]");
    browser.type_text("disks are in");
    browser.until("document.querySelectorAll('#audit tbody tr').length === 1");

    // A waiting job is held and released: of the two the button that applies is there, and has the focus.
    browser.open(&format!("http://{}/jobs/{waiting}", pages.address));
    browser.until("document.body.dataset.rendered === 'job:QUEUED'");
    let buttons = "[...document.querySelectorAll('#operator button')].filter((node) => node.checkVisibility()).map((node) => node.textContent).join()";
    assert_eq!(browser.evaluate(buttons), "Hold,Priority");
    tab_to(&mut browser, "#operator button");
    browser.press("Enter");
    answer(&mut browser, Some("a question"));
    browser.until(&format!("{buttons} === 'Release,Priority'"));
    browser.until("document.activeElement.textContent === 'Release'");
    browser.press("Enter");
    answer(&mut browser, Some("it is answered"));
    browser.until(&format!("{buttons} === 'Hold,Priority'"));

    let known = async || {
        let history = federation.operator().history(pliant_model::Span(3600)).await.ok()?;
        history.jobs.iter().any(|job| job.state.is_final()).then_some(())
    };
    until("the agent to know the job that has ended", known).await;
    browser.open(&format!("http://{}/what-if", pages.address));
    browser.until("document.body.dataset.rendered === 'whatif:none'");
    tab_to(&mut browser, "[name=hours]");
    browser.press("ArrowUp");
    browser.until("document.querySelector('#command').textContent.includes('--since 24h')");
    tab_to(&mut browser, "#ask [type=submit]");
    browser.press("Enter");
    browser.until("document.body.dataset.rendered === 'whatif:done' && document.body.dataset.drawn");
    tab_to(&mut browser, "#recorded");
    browser.press("n");
    browser.until("!document.querySelector('#pinned').hidden");
    clean(&mut browser);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_is_cancelled_by_keyboard() {
    let Some(program) = find() else { return };
    let federation = launches::with_servers(&["lyon", "paris"], "").await;
    let user = CommandUser::new(&federation, "alice");
    launches::launch(&user, &["first", "second"], 300.0);
    let pages = Pages::start(&federation, Role::User, "alice");
    let mut browser = opened(&program, &pages);
    browser.open(&format!("http://{}/launches", pages.address));
    browser.until("document.body.dataset.rendered === 'launches:1'");
    tab_to(&mut browser, "#launches thead button");
    browser.press("Enter");
    browser.until("document.querySelector('#launches th').ariaSort === 'ascending'");
    tab_to(&mut browser, "#launches tbody a");
    browser.press("Enter");
    browser.until(
        "document.body.dataset.page === 'launch' && document.body.dataset.rendered === 'launch:running'",
    );
    tab_to(&mut browser, "#cancel");
    browser.press("Enter");
    answer(&mut browser, None);
    browser.until("document.body.dataset.rendered === 'launch:over'");
    clean(&mut browser);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_created_and_revoked_by_keyboard() {
    let Some(program) = find() else { return };
    let federation = Federation::start(&[Cluster::new("lyon", 2, 1.0)]).await;
    let portal = Portal::start(&federation);
    let mut browser = Browser::start_trusting(&program);
    browser.show(1280, 900, false);
    browser.open(&format!("{}/", portal.url));
    browser.until("document.body.dataset.page === 'overview'");
    tab_to(&mut browser, "a[href='/tokens']");
    browser.press("Enter");
    browser.until("document.body.dataset.rendered === 'tokens:false'");
    tab_to(&mut browser, "[name=scope]");
    browser.press("ArrowDown");
    tab_to(&mut browser, "#create [type=submit]");
    browser.press("Enter");
    browser.until("document.body.dataset.rendered === 'tokens:true'");
    // The token has the focus, to be copied.
    browser.until("document.activeElement === document.querySelector('#created pre')");
    assert!(
        browser.evaluate("document.querySelector('#created').textContent").to_string().contains("to change")
    );
    tab_to(&mut browser, "#revoke");
    browser.press("Enter");
    answer(&mut browser, None);
    browser.until("document.body.dataset.rendered === 'tokens:false'");
    clean(&mut browser);
}
