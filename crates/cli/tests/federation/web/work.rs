//! Sweeps and explorations on the pages, while their commands run and afterwards.

use super::browser::{clean, click, fill, look};
use super::chromium::Browser;
use super::*;
use crate::explorations::server;

/// An argument that would be markup if a page let it.
const ARGUMENT: &str = "<b>x</b>";

/// Has a command of a user of these pages begin in the user's folder.
fn begin(federation: &Federation, user: &CommandUser, line: &str) -> std::process::Child {
    user.command(line).env("XDG_STATE_HOME", federation.path().join("state")).spawn().unwrap()
}

fn completed(child: std::process::Child) {
    let (code, _, error) = said(child.wait_with_output().unwrap());
    assert_eq!(code, 0, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_and_an_exploration_are_shown_while_they_run() {
    let federation = Federation::start(&[server("lyon", "cores = 2")]).await;
    let alice = CommandUser::new(&federation, "alice");
    let gate = alice.dir().join("gate");
    // The last instance waits until the test has seen the others.
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != 12 ] || while ! [ -e '{}' ]; do sleep 0.1; done\necho $(($1 * $1)) \"$2\"\n",
        gate.display()
    );
    std::fs::write(alice.dir().join("square.sh"), script).unwrap();
    let line = format!(
        "sweep --time 5m --script square.sh note={ARGUMENT} --vary x=3..12 --out squares -- {{x}} {{note}}"
    );
    let sweep = begin(&federation, &alice, &line);
    let explored = begin(
        &federation,
        &alice,
        "explore say --vary text=1,2,3,4,5,6 --min 2 --max 6 --deadline 1m --out kept",
    );

    let pages = Pages::opened(&federation, Role::User, "alice");
    let id = until("nine instances to be done while the command runs", async || {
        let folders = pages.json("/api/v1/work");
        let sweep =
            folders["folders"].as_array().unwrap().iter().find(|one| one["name"] == "squares")?.clone();
        (sweep["state"] == "running" && sweep["done"] == 9).then(|| sweep["id"].as_str().unwrap().to_owned())
    })
    .await;
    let path = format!("/api/v1/work/{id}");
    let rows = pages.json(&format!("{path}/rows?sort=value&per_page=3"));
    let values: Vec<&Value> = rows["rows"].as_array().unwrap().iter().map(|row| &row["values"][0]).collect();
    assert_eq!((values, &rows["matching"]), (vec![&json!("11"), &json!("10"), &json!("9")], &json!(10)));
    assert_eq!(rows["rows"][0]["output"], json!(format!("121 {ARGUMENT}")));
    assert_eq!(pages.json(&format!("{path}/rows?state=submitted"))["rows"][0]["values"], json!(["12"]));
    let points = pages.json(&format!("{path}/points?x=arg:x&y=value"));
    assert_eq!((&points["points"][0], &points["without"]), (&json!([3.0, 9.0, 0]), &json!(1)));
    assert_eq!(pages.get(&format!("{path}/rows?sort=colour")).status, 400);
    assert_eq!(pages.get("/api/v1/work/0000000000000000").status, 404);
    assert_eq!(pages.without_cookie().get("/api/v1/work").status, 401);
    assert_eq!(pages.without_cookie().get(&format!("/work/{id}")).status, 401);
    completed(explored);
    let folders = pages.json("/api/v1/work");
    let kept = folders["folders"].as_array().unwrap().iter().find(|one| one["name"] == "kept").unwrap();
    assert_eq!(
        (&kept["state"], &kept["done"], &kept["optional_done"]),
        (&json!("over"), &json!(2), &json!(4))
    );
    let shares = pages.json("/api/v1/shares");
    assert_eq!(
        (&shares["servers"][0]["server"], &shares["together"]["completed"]),
        (&json!("lyon"), &json!(6))
    );

    if let Some(program) = pliant_testing::browser::find() {
        let mut browser = Browser::start(&program);
        browser.show(1280, 900, false);
        let site = Pages::start(&federation, Role::User, "alice");
        browser.open(&format!("http://{}{}", site.address, site.link));
        browser.until("document.body.dataset.page === 'overview'");
        browser.open(&format!("http://{}/work", site.address));
        browser.until("document.body.dataset.rendered === 'works:2'");
        browser.until("!document.querySelector('#shares-section').hidden");
        look(&mut browser, "sweeps");
        browser.open(&format!("http://{}/work/{id}", site.address));
        browser.until("document.body.dataset.rendered === 'work:running:9' && document.body.dataset.plotted === '9' && document.body.dataset.rows === '10'");
        look(&mut browser, "sweep");
        // By keyboard: a point of the plot is chosen and leads to its result.
        browser.evaluate("document.querySelector('#plot').focus()");
        browser.press("n");
        browser.until("document.querySelector('#plot').getAttribute('aria-label').includes('Output 9')");
        click(&mut browser, "[data-sort=value] button");
        browser
            .until("document.querySelector('[data-sort=value]').getAttribute('aria-sort') === 'ascending'");
        fill(&mut browser, "#filter [name=text]", "12");
        browser.until("document.body.dataset.rows === '1'");
        // The page changes by itself when the command ends.
        std::fs::write(&gate, "").unwrap();
        browser.until(
            "document.body.dataset.rendered === 'work:over:10' && document.body.dataset.plotted === '10'",
        );
        look(&mut browser, "sweep-over");
        let kept = kept["id"].as_str().unwrap();
        browser.open(&format!("http://{}/work/{kept}", site.address));
        // What `say` writes begins with no number; its argument is one.
        browser.until(
            "document.body.dataset.rendered === 'work:over:2' && document.body.dataset.plotted === '0'",
        );
        fill(&mut browser, "#plot-y", "arg:text");
        browser.until("document.body.dataset.plotted === '6'");
        look(&mut browser, "exploration");
        clean(&mut browser);
        assert_eq!(browser.evaluate("document.querySelectorAll('b').length"), 0);
    }
    std::fs::write(&gate, "").unwrap();
    completed(sweep);
    let over = pages.json(&path);
    assert_eq!((&over["work"]["state"], &over["work"]["done"]), (&json!("over"), &json!(10)));
    assert_eq!(over["servers"][0]["done"], 10);
    std::fs::remove_dir_all(alice.dir().join("squares")).unwrap();
    assert_eq!(pages.get(&path).status, 404);
}
