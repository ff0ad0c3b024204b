//! Launches on the pages: the list, one with its mapping and the links between its servers.

use super::*;

/// The tasks of an application whose stages pass data on.
const STAGES: [&str; 6] = ["mesh", "solve-left", "solve-right", "couple", "reduce", "render"];

/// A launch of tasks that do nothing, each of which talks to the next one.
pub(super) fn launch(user: &CommandUser, tasks: &[&str], mcr_mflops: f64) -> String {
    std::fs::write(user.dir().join("task.sh"), "#!/bin/sh\nexec sleep 1000\n").unwrap();
    let mut text = format!("mcr_mflops = {mcr_mflops:?}\n");
    for name in tasks {
        text += &format!("[[task]]\nname = \"{name}\"\nrcr = 1.0\nscript = \"task.sh\"\n");
    }
    for pair in tasks.windows(2) {
        text += &format!("[[edge]]\nbetween = [\"{}\", \"{}\"]\nrqoc = 1.0\n", pair[0], pair[1]);
    }
    std::fs::write(user.dir().join("app.toml"), text).unwrap();
    let (code, document, error) = user.run("launch app.toml --detach");
    assert_eq!(code, 0, "{error}");
    document["launch"].as_str().unwrap().to_owned()
}

/// Servers of two processors each.
pub(super) async fn with_servers(names: &[&'static str], tables: &str) -> Federation {
    let mut federation = Federation::agent_only(tables);
    for name in names {
        let cluster_keys = "power_mflops = 1000.0\nhost_load = false";
        federation.add_server(&Cluster { cluster_keys, ..Cluster::new(name, 2, 1.0) });
    }
    federation.sized(names.len()).await;
    federation
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_is_listed_with_its_mapping_and_cancelled() {
    let federation = with_servers(&["lyon", "paris"], "").await;
    let user = CommandUser::new(&federation, "alice");
    let id = launch(&user, &["first", "second"], 300.0);

    let pages = Pages::opened(&federation, Role::User, "alice");
    let path = format!("/api/v1/launches/{id}");
    let running = async || (pages.json(&path)["state"] == "running").then_some(());
    until("the launch to run", running).await;
    let listed = pages.json("/api/v1/launches");
    assert_eq!(listed["launches"][0]["launch"], json!(id));
    let tasks = listed["launches"][0]["tasks"].as_array().unwrap();
    assert_eq!(tasks.iter().map(|task| &task["task"]).collect::<Vec<_>>(), ["first", "second"]);
    assert!(tasks.iter().all(|task| task["server"].is_string() && task["machine"].is_string()));
    // The chart of the overview has its subjobs at their servers.
    let gantt = pages.json("/api/v1/gantt?hours=2");
    let lanes = gantt["lanes"].as_array().unwrap().iter();
    let bars: Vec<&Value> = lanes.flat_map(|lane| lane["jobs"].as_array().unwrap()).collect();
    let of_launch =
        |bar: &&&Value| bar["launch"] == json!(id) && bar["running"] == true && bar["mine"] == true;
    assert!(!bars.is_empty() && bars.iter().filter(of_launch).count() == bars.len(), "{gantt}");
    assert!(bars.iter().all(|bar| bar["procs"].as_u64().unwrap() >= 1), "{gantt}");
    if let Some(program) = pliant_testing::browser::find() {
        let mut browser = chromium::Browser::start(&program);
        let site = Pages::start(&federation, Role::User, "alice");
        browser.open(&format!("http://{}{}", site.address, site.link));
        browser.until("document.body.dataset.page === 'overview'");
        let drawn = format!("document.body.dataset.rendered?.startsWith('gantt:{}')", bars.len());
        browser.until(&drawn);
        browser::look(&mut browser, "overview-launch");
        browser.open(&format!("http://{}/launches", site.address));
        browser.until("document.body.dataset.rendered === 'launches:1'");
        browser::look(&mut browser, "launches");
        browser.open(&format!("http://{}/launches/{id}", site.address));
        browser.until("document.body.dataset.rendered === 'launch:running'");
        assert_eq!(browser.evaluate("document.querySelectorAll('#mapping .task').length"), 2);
        browser::look(&mut browser, "launch");
        browser::clean(&mut browser);
    }
    let bob = Pages::opened(&federation, Role::User, "bob");
    assert_eq!(bob.post(&format!("{path}/cancel"), &json!({})).status, 404);
    pages.post(&format!("{path}/cancel"), &json!({})).json(200);
    until("its end", async || (pages.json(&path)["outcome"] == "cancelled").then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_over_three_servers_is_a_picture() {
    let federation = with_servers(
        &["bordeaux", "lyon", "paris"],
        "\n[probes]\npause_s = 0\nbytes = 262144\nlimit_s = 3\n",
    )
    .await;
    let alice = federation.client("alice");
    let known = async || (alice.links().await.ok()?.len() == 3).then_some(());
    until("the links to be measured", known).await;
    let user = CommandUser::new(&federation, "alice");
    let id = launch(&user, &STAGES, 900.0);
    let pages = Pages::opened(&federation, Role::User, "alice");
    let path = format!("/api/v1/launches/{id}");
    let running = async || (pages.json(&path)["state"] == "running").then_some(());
    until("the launch to run", running).await;
    let view = pages.json(&path);
    let tasks = view["tasks"].as_array().unwrap();
    let servers: std::collections::BTreeSet<&str> =
        tasks.iter().map(|task| task["server"].as_str().unwrap()).collect();
    assert_eq!(servers.len(), 3, "{view}");
    if let Some(program) = pliant_testing::browser::find() {
        let mut browser = chromium::Browser::start(&program);
        let site = Pages::start(&federation, Role::User, "alice");
        browser.open(&format!("http://{}{}", site.address, site.link));
        browser.until("document.body.dataset.page === 'overview'");
        browser.open(&format!("http://{}/launches/{id}", site.address));
        browser.until("document.body.dataset.rendered === 'launch:running'");
        browser.until("document.querySelectorAll('#links-picture line').length === 3");
        assert_eq!(browser.evaluate("document.querySelectorAll('#mapping .place').length"), 3);
        assert_eq!(browser.evaluate("document.querySelectorAll('#mapping .task').length"), STAGES.len());
        browser::look(&mut browser, "launch-three-servers");
        browser::clean(&mut browser);
    }
    pages.post(&format!("{path}/cancel"), &json!({})).json(200);
    until("its end", async || (pages.json(&path)["outcome"] == "cancelled").then_some(())).await;
}
